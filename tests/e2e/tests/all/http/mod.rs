//! The HTTP API: what it accepts, what it refuses, and how it treats its connections.

mod access;
mod aliases;
mod api;
mod bad_input;
mod bodies;
mod connections;
mod console;
mod depth;
mod door;
mod headers;
mod hosts;
mod no_job_events;
mod raw;
mod slow_clients;
mod streams;
mod tls;
mod unknown_fields;
