//! Writing a plugin, from an empty folder to a running job: `plugin new`, `plugin build`, `plugin push` of a folder, `dev`.
//!
//! All that a plugin's folder needs is in this binary. What a language needs beside it is looked for, and otherwise installed into
//! `$XDG_CACHE_HOME/windlass` by that language's own package manager, never without saying so. Nothing here speaks of jobs'
//! states: pushing and watching go through the HTTP API like everybody else.

mod build;
mod check;
mod dev;
mod new;
mod project;
mod push;
mod templates;
pub(super) mod tools;

pub use build::{Build, Strip};
pub use dev::Dev;
pub use new::New;
pub use push::push_folder;
