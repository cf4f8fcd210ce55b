//! The executor against real guests: good ones, and the hostile ones in `plugins/hostile`.
//!
//! The plugins `digest` and `hostile` must be built first (`make plugins`).

mod boundary;
mod cache;
mod capabilities;
mod checkpoints;
mod children;
mod compiling;
mod fuzz;
mod good;
mod http;
mod interface;
mod limits;
mod origin;
mod python;
mod records;
mod rejects;
mod reuse;
mod sharing;
mod stopping;
mod support;
mod traps;
