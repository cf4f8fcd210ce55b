//! The server as operators see it: starting, stopping, pausing, and its metrics.

mod confinement;
mod counts;
mod figures;
mod operating;
mod paused;
mod pulse;
mod start_and_stop;
