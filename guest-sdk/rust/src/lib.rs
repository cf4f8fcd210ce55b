//! Write handlers for the Windlass job server in Rust.
//!
//! A handler is a function from a payload to a result. [`handlers!`] says which queue it serves and makes the crate a
//! component; [`Context`] is how it talks to the server; [`testing::Fake`] stands in for the server in a native test.
//!
//! ```
//! use windlass::{Context, Result};
//!
//! #[derive(serde::Deserialize)]
//! struct Order { items: Vec<u64> }
//!
//! fn total(ctx: &mut Context, order: Order) -> Result<u64> {
//!     let mut sum = ctx.state::<u64>()?.unwrap_or(0);
//!     for (n, price) in order.items.iter().enumerate() {
//!         ctx.check_cancelled()?;
//!         sum += price;
//!         ctx.progress(n as u64 + 1, order.items.len() as u64, "adding up");
//!     }
//!     Ok(sum)
//! }
//!
//! windlass::handlers! { "orders.total" => total }
//! # fn main() {}
//! ```

mod context;
mod error;
mod handler;

mod child;
mod children;
mod job;
mod progress;

pub mod http;
pub mod testing;

mod server;
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub mod wasm;
#[cfg(target_arch = "wasm32")]
mod wasm_http;

pub use child::{Child, Priority};
pub use children::{ChildCounts, ChildJob, ChildState, Children, OnFailure};
pub use context::Context;
pub use error::{Error, Result};
pub use handler::{Handler, Raw, Typed, raw};
pub use job::{Cancel, Job, Level, Reason, Recorded};
pub use progress::Progress;

#[doc(hidden)]
pub use handler::{no_handler, run};
