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
//!     // Where the previous attempt stopped, or the beginning.
//!     let (mut done, mut sum) = ctx.state::<(usize, u64)>()?.unwrap_or_default();
//!     while done < order.items.len() {
//!         ctx.check_cancelled()?;
//!         sum += order.items[done];
//!         done += 1;
//!         ctx.progress(done as u64, order.items.len() as u64, "adding up");
//!         ctx.checkpoint(&(done, sum))?;
//!     }
//!     Ok(sum)
//! }
//!
//! windlass::handlers! { "orders.total" => total }
//! # fn main() {
//! # let order = serde_json::json!({"items": [1, 2, 3]});
//! # let mut fake = windlass::testing::Fake::new();
//! # fake.fail_checkpoints_after(1);
//! # assert!(fake.run(total, &order).is_err());
//! # fake.resume();
//! # assert_eq!(fake.run(total, &order).unwrap(), 6);
//! # assert_eq!(fake.progress().len(), 2 + 2, "the second attempt resumes at the second item");
//! # }
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
