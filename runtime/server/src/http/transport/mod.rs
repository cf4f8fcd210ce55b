//! How requests are received and answered: listening, access control, reading, errors, and the description of the
//! routes.

pub(crate) mod auth;
pub(crate) mod body;
pub(crate) mod body_budget;
pub(super) mod compress;
pub(super) mod connections;
pub(crate) mod credentials;
mod description;
pub(crate) mod error;
pub(crate) mod extract;
pub(crate) mod headers;
pub(crate) mod host;
pub(crate) mod listen;
pub(crate) mod openapi;
pub(crate) mod peer;
mod refusal;
pub(crate) mod same_origin;
pub(crate) mod throttle;
pub(crate) mod tls;
pub(crate) mod unknown;
pub(crate) mod warnings;
mod write_timeout;
