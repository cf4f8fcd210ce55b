//! The host side of the `windlass:job` imports: one file per WIT interface.
//!
//! `Host` is what the server implements on top of its store. A file here turns a guest's call into that, within limits;
//! it must never trust a length, a number or a text that comes from the guest.

mod cancel;
mod checkpoint;
mod children;
mod config;
mod log;
mod progress;
mod records;
mod secrets;
pub(crate) mod sources;
mod spawn;

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use windlass_core::{Notes, Progress, Record, Usage};

use crate::attempt::SavedState;

pub use checkpoint::HostError;
pub use children::{ChildPage, ChildRead, PageLimits, RequestedWait};
pub use log::{GuestLogLine, Level, Stream};
pub use spawn::Child;
pub(crate) use spawn::Children;

/// What an attempt has asked for since its last checkpoint. It is committed with the next checkpoint, the result or the
/// wait, or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uncommitted {
    pub children: Vec<Child>,
    pub notes: Notes,
}

/// What an attempt reports to and reads from: the server implements it on top of its store.
#[async_trait]
pub trait Host: Send + Sync {
    /// An event for the job's watchers. Called from a guest's thread and possibly a million times a second: must not
    /// block.
    fn progress(&self, progress: Progress);

    /// A line for the job's log. Must not block.
    fn log(&self, line: GuestLogLine);

    /// How long calls of this attempt have waited for a host in trouble, up to this moment. Its time limits are longer
    /// by that.
    fn waited(&self) -> Duration {
        Duration::ZERO
    }

    /// Stores the state, the children and the notes in one commit, and returns when it is durable. The future may be
    /// dropped while it waits, because the attempt is stopped: the commit may then have happened or not. `used` is what
    /// the attempt has used so far, recorded if it ends here.
    async fn checkpoint(&self, state: SavedState, uncommitted: Uncommitted, used: Usage) -> Result<(), HostError>;

    /// The job's children from this number on, within the limits of a page. A host without a store knows of none.
    async fn children(&self, _start: u32, _limits: PageLimits) -> Result<ChildPage, HostError> {
        Ok(ChildPage::default())
    }

    /// The whole result of one child; none if it gave none.
    async fn child_result(&self, ordinal: u32) -> Result<Option<Bytes>, HostError> {
        Err(HostError::no_child(ordinal))
    }

    /// What is committed under a key of a queue. A host without a store has nothing.
    async fn record(&self, _queue: &str, _key: &str) -> Result<Option<Record>, HostError> {
        Ok(None)
    }

    /// The queues that a gate ties to the job's own, either way.
    async fn tied_queues(&self) -> Result<Vec<String>, HostError> {
        Ok(Vec::new())
    }
}
