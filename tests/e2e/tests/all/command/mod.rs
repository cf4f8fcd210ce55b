//! The `windlass` command on a terminal.

mod basics;
mod dev;
mod matches_api;
mod run;
mod watching;
