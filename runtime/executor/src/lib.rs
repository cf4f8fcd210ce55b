//! The hands of Windlass: compiles plugins and runs attempts of jobs in them, sandboxed, metered and stoppable.
//!
//! This crate owns the one wasmtime engine, the threads that guests run on and the cache of compiled code. It knows nothing
//! of stores, queues or the server's API: what goes in is an [`Attempt`], what comes out is an [`Ended`], and on the way the guest's
//! words go to a [`Host`]. Whatever a guest does is a value, never an error or a panic of ours.
//!
//! Reading order: `executor` (the handle), `compile` (bytes to plugin), `run` (one attempt), `host` (what a guest may call).

pub mod bench;
mod executor;

mod attempt;
mod ended;
mod error;
mod limits;
mod plugin;

mod apart;
mod cache;
mod compile;
mod complexity;
mod componentize;
mod slim;
mod sources;

mod elders;
mod gate;
mod kept;
mod run;
mod state;
mod stop;
mod trap;
mod trouble;

mod bindings;
mod capability;
mod folders;
mod host;
mod logbook;
mod outbound;
mod stdio;

mod meter;
mod pace;
mod threads;
mod ticker;

pub use apart::compile_apart;
pub use attempt::{Attempt, Cancel, CancelReason, Checkpoint, Reuse, Secret};
pub use capability::{Folder, Permissions};
pub use componentize::{NotComponentized, componentize};
pub use ended::{Ended, Outcome, Retry, Usage};
pub use error::{Error, Rejected};
pub use executor::{CacheConfig, Config, Executor};
pub use folders::{BadRoot, FolderScope, GrantRoots, Unusable};
pub use host::{
    Along, Amount, Child, ChildCounts, ChildPage, ChildRead, ChildState, Host, HostError, Level, LogLine, NewMark,
    NewRecord, Notes, OnChildFailure, PageLimits, Priority, Progress, Record, Stream, Wait,
};
pub use limits::{HttpLimits, Limits, TIMEOUT_GRACE};
pub use plugin::Plugin;
pub use slim::{Broken, slim};
pub use sources::attach_sources;
pub use windlass_core::grant::HostRule;

// A server that implements `Host` needs this macro, and the very version we use.
pub use async_trait::async_trait;
