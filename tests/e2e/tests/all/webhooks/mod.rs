//! Webhooks in both directions: what is sent to a real receiver, and what services sign.

mod command;
mod delivering;
mod editing;
mod inbound;
mod log;
mod receiver;
mod replay;
mod secrets;
mod sender;
