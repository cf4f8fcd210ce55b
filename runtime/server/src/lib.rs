//! The Windlass server: start and stop, the clock, HTTP, the command line, and the dispatcher between store and
//! executor.
//!
//! This crate changes a job only by a command to the store, and runs a handler only through the executor. What a
//! command means is decided in `windlass_core`, never here.
//!
//! Reading order: `app` (what is started, in which order), `dispatcher` (how a job gets to its handler), `registry`
//! (which plugin serves which queue), `http` (a folder per group of resources), `cli` (one file per subcommand).

pub mod app;
mod attempt_setup;
mod checkpoints;
pub mod cli;
pub mod clock;
pub mod config;
mod denials;
mod dispatcher;
mod files;
mod first_key;
mod http;
mod jq;
mod json;
mod key_file;
mod limits;
mod metrics;
mod oidc;
mod registry;
mod secrets;
mod shutdown;
mod webhooks;

pub use app::App;
pub use config::Config;
pub use shutdown::Shutdown;
