//! Windlass as its users see it: the real binary, over HTTP, through crashes.

mod api;
mod bad_input;
mod crash;
mod docs;
mod running;
mod start_and_stop;
mod workers;
