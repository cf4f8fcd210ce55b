//! Handlers in plugins: uploads, versions, permissions, languages, and the plugins in this repository.

mod bundled;
mod grant_roots;
mod hostile;
mod languages;
mod payload_schema;
mod permissions;
mod running;
mod secrets;
mod supply;
mod trees;
mod uploads;
mod versions;
