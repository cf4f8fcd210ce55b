//! Writing a plugin, from an empty folder to a running job: `plugin new`, `plugin build`, `plugin push` of a folder,
//! `dev`.
//!
//! Everything a plugin's folder needs is in this binary. The tools of a language are searched for, and otherwise
//! installed into `$XDG_CACHE_HOME/windlass` by that language's package manager, never without a message. Nothing here
//! knows about job states: pushing and watching use the HTTP API, as any client does.

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
