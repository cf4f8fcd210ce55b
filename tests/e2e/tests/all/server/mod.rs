//! The server as operators see it: starting, stopping, pausing, and its metrics.

mod confinement;
mod counts;
mod operating;
mod paused;
mod start_and_stop;
