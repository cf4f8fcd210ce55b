//! The executor against real guests: good ones, and the gallery in `plugins/hostile`.
//!
//! The `digest` plugin must have been built before (`make plugins`).

mod cache;
mod good;
mod limits;
mod rejects;
mod stopping;
mod support;
mod traps;
