//! Windlass as its users see it: the real binary, over HTTP, through crashes.

mod access;
mod command;
mod documents;
mod durability;
mod flows;
mod http;
mod jobs;
mod plugins;
mod server;
mod webhooks;
