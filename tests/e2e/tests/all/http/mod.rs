//! The HTTP API: what it accepts, what it refuses, and how it treats its connections.

mod access;
mod aliases;
mod api;
mod bad_input;
mod connections;
mod depth;
mod door;
mod hosts;
mod headers;
mod raw;
mod slow_clients;
mod streams;
mod tls;
mod unknown_fields;
mod webhooks;
