//! Commands about plugins: their versions, their permissions, and the secrets they may be granted.

pub mod grant;
pub mod plugin;
pub mod secret;
