//! Commands about the server as a whole: starting, checking, watching and pausing it, and where it sends events.

pub mod doctor;
pub mod pause;
pub mod serve;
pub mod status;
pub mod top;
pub mod webhook;
