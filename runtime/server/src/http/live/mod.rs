//! What people watch: figures over time, the pulse of the server, and the attempts that run now.

pub(crate) mod attempts;
pub(crate) mod pulse;
pub(crate) mod series;
pub(crate) mod view;

pub use pulse::Pulse;
