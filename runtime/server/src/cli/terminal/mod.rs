//! What all commands share on the terminal: tables and JSON, units, secrets, and Ctrl-C.

pub mod interrupt;
pub mod secret;
pub mod show;
pub mod units;
