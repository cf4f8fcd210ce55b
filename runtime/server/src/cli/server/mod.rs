//! Commands about the server as a whole: starting, checking, watching and pausing it.

pub mod doctor;
pub mod pause;
pub mod serve;
pub mod stats;
pub mod status;
pub mod top;
