//! What operators and their machines use: health, readiness, metrics, the pause of the whole server.

pub(crate) mod index;
pub(crate) mod metrics;
pub(crate) mod pause;
pub(crate) mod server_state;
pub(crate) mod system;
