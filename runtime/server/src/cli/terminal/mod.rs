//! What all commands share on the terminal: tables and JSON, units, and Ctrl-C.

pub mod interrupt;
pub mod show;
pub mod units;
