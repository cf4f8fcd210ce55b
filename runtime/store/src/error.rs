//! Why the store did not do what it was asked, split by what the caller does about it.

use std::path::PathBuf;
use std::time::Duration;

use windlass_core::Refusal;

#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The command itself cannot be: nothing changed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Too many commands are waiting: nothing was done, try again.
    #[error("overloaded: too many commands are waiting; try again in {} ms", retry_after.as_millis())]
    Overloaded { retry_after: Duration },
    /// The disk does not take writes, or the folder cannot be read: nothing was done.
    #[error("the store is not available: {why}; nothing was done")]
    Unavailable { why: String },
    /// The disk failed in the middle: the command may have been stored, or not.
    #[error("the store failed while writing: {why}; whether this was stored is not known")]
    Unknown { why: String },
    /// The search cannot be carried out by this machine now: nothing is wrong with what was asked.
    #[error("the search cannot be run now: {why}; try again in a moment")]
    NoSearch { why: String },
    /// Something that was stored cannot be read; the rest can.
    #[error(
        "this cannot be read: {what}. Everything else goes on. To get it back, stop the server and restore the whole data folder from a \
         backup"
    )]
    Damaged { what: String },
    #[error("the store is shutting down")]
    Closed,
}

/// Why a data folder could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the data folder {} is in use by another windlass process; stop that one, or choose another data folder", .0.display())]
    InUse(PathBuf),
    #[error(
        "{path} belongs to user {owner}, and this process runs as user {user}; run windlass as the owner, or give the data folder \
         to this user with `chown -R {user}`",
        path = path.display()
    )]
    Owner { path: PathBuf, owner: u32, user: u32 },
    #[error("cannot use the data folder {}: {why}", dir.display())]
    Folder { dir: PathBuf, why: String },
    #[error("{} was written by a newer windlass (format {found}, this one knows up to {known}); use that version", dir.display())]
    Newer { dir: PathBuf, found: u32, known: u32 },
    /// What is encrypted cannot be decrypted. The reason says what to do.
    #[error("{why}")]
    Key { why: String },
    /// What was acknowledged is no longer all there, or cannot be read.
    #[error("{file}: {what}\n{advice}", file = file.display())]
    Damaged { file: PathBuf, what: String, advice: String },
}
