//! What external workers use: fetch, heartbeat, ack and fail.

pub(crate) mod ack;
pub(crate) mod fetch;
pub(crate) mod heartbeat;
pub(crate) mod workers;
