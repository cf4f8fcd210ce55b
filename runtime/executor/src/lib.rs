//! Compiles plugins and runs attempts of jobs in them, sandboxed, metered and stoppable.
//!
//! This crate owns the one wasmtime engine, the threads that guests run on and the cache of compiled code. It knows
//! nothing of stores, queues or the server's API: an [`Attempt`] goes in, an [`AttemptEnd`] comes out, and what the
//! guest reports meanwhile is sent to a [`Host`]. Whatever a guest does is a value, never an error or a panic of this
//! crate.
//!
//! ```
//! use std::sync::Arc;
//!
//! use tokio::sync::watch;
//! use windlass_core::{Progress, Usage};
//! use windlass_executor::{
//!     Attempt, Config, Executor, Host, HostError, GuestLogLine, Outcome, SavedState, Uncommitted, async_trait,
//! };
//!
//! /// Prints what a guest reports, and stores nothing.
//! struct Printer;
//!
//! #[async_trait]
//! impl Host for Printer {
//!     fn progress(&self, progress: Progress) {
//!         println!("{:?}", progress.message);
//!     }
//!
//!     fn log(&self, line: GuestLogLine) {
//!         println!("{}", line.message);
//!     }
//!
//!     async fn checkpoint(&self, _: SavedState, _: Uncommitted, _: Usage) -> Result<(), HostError> {
//!         Err(HostError::Unavailable("there is no store".to_owned()))
//!     }
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A handler that returns `"hi"`: usually the file that `windlass plugin build` writes.
//! let module = wat::parse_str(r#"(module
//!     (memory (export "memory") 1)
//!     (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 4096))
//!     (data (i32.const 8) "\00\00\00\00\00\00\00\00\40\00\00\00\04\00\00\00")
//!     (data (i32.const 64) "\"hi\"")
//!     (func (export "windlass:job/run@0.1.0#run") (param i32) (result i32) (i32.const 8)))"#)?;
//! let component = windlass_executor::componentize(module)?;
//!
//! let executor = Executor::new(Config::default())?;
//! let plugin = executor.compile(component.into()).await?;
//!
//! // Nobody will cancel this attempt, so the sender is dropped.
//! let (_, cancel) = watch::channel(None);
//! let attempt = Attempt::first("job_1", "greetings", "{}", cancel);
//! let ended = executor.run(&plugin, attempt, Arc::new(Printer)).await;
//! assert_eq!(ended.outcome, Outcome::Completed { result: r#""hi""#.into() });
//! # Ok(())
//! # }
//! ```
//!
//! Reading order: `executor` (the handle), `compile` (bytes to plugin), `attempt` (one attempt, from its start to its
//! outcome), `pool` (what attempts share), `host` and `outbound` (what a guest may call), `permissions` (what it is
//! allowed), `confinement` (of the processes that compile).

mod attempt;
mod bindings;
mod compile;
pub mod confinement;
mod error;
mod executor;
mod folders;
mod host;
mod limits;
mod outbound;
mod permissions;
mod plugin;
mod pool;
mod shortage;
mod sources;

pub use attempt::gauge::{Gauge, Reading};
pub use attempt::outcome::{AttemptEnd, Outcome};
pub use attempt::{Attempt, Cancel, CancelReason, Reuse, SavedState, Secret};
pub use compile::componentize::{NotComponentized, componentize};
pub use compile::process::compile_in_child;
pub use compile::strip::{Broken, strip};
pub use error::{Error, Rejected};
pub use executor::{CacheConfig, Config, Executor};
pub use folders::{BadRoot, FolderScope, GrantRoots, Unusable};
pub use host::{
    Child, ChildPage, ChildRead, GuestLogLine, Host, HostError, Level, PageLimits, RequestedWait, Stream, Uncommitted,
};
pub use limits::{Limits, RequestLimits, TIMEOUT_GRACE};
pub use permissions::{DenialText, Folder, Permissions, Wording};
pub use plugin::Plugin;
pub use sources::attach_sources;
pub use windlass_core::plugin::grant::HostRule;

// A server that implements `Host` needs this macro in exactly this version.
pub use async_trait::async_trait;

/// Only for `windlass-bench`, which runs the same component on the same engine without the executor, to show what the
/// executor costs.
#[doc(hidden)]
pub mod bare {
    pub use crate::bindings::exports::windlass::job::run::Job;
    pub use crate::bindings::{HandlerPre, PACKAGE};
    pub use crate::executor::engine;
}
