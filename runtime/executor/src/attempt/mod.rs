//! What goes into one attempt: plain data that the server fills in. Nothing here knows wasmtime.

mod checkpoint_rate;
pub(crate) mod log;
pub(crate) mod meter;
pub(crate) mod outcome;
pub(crate) mod run;
pub(crate) mod state;
pub(crate) mod stdio;
pub(crate) mod stop;
mod trap;

use std::fmt;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::watch;

use crate::host::ChildCounts;
use crate::limits::Limits;
use crate::permissions::Permissions;

/// One run of one job's handler.
#[derive(Clone, Debug)]
pub struct Attempt {
    pub job_id: String,
    pub queue: String,
    pub payload: Bytes,
    /// The state that an earlier attempt saved last.
    pub checkpoint: Option<Checkpoint>,
    /// Counted from 1.
    pub attempt: u32,
    pub max_attempts: u32,
    pub tags: Vec<(String, String)>,
    pub scope: Option<String>,
    pub created_at_ms: u64,
    /// Now, by the server's clock: this crate reads no calendar.
    pub started_at_ms: u64,
    /// How many children earlier attempts have committed: the ordinal of the next one.
    pub children_committed: u32,
    /// The job waited for its children and this attempt follows: how they ended.
    pub joined: Option<ChildCounts>,
    /// Of a queue that runs round by round.
    pub round: Option<u32>,
    pub limits: Limits,
    pub permissions: Permissions,
    /// Whether the instance may serve further attempts. `None`: a fresh one, thrown away afterwards.
    pub reuse: Option<Reuse>,
    /// Set to stop the attempt. The newest value counts; dropping the sender means that nobody will ask.
    pub cancel: watch::Receiver<Option<Cancel>>,
}

/// Leave to serve several attempts with one instance. What a guest leaves in its globals is then seen by the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reuse {
    /// How many more attempts an instance may serve after its first.
    pub times: u32,
    /// Only attempts with the same key share an instance: nothing leaks from one tenant to another.
    pub limit_key: String,
}

/// Saved state: bytes to us, and the version number the guest gave them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    pub schema: u32,
    pub bytes: Bytes,
}

/// A request to stop. The guest is told, and at the deadline it is stopped dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancel {
    pub reason: CancelReason,
    pub deadline: Instant,
}

impl Cancel {
    /// A request to stop within `grace` from now.
    pub fn within(reason: CancelReason, grace: Duration) -> Self {
        Cancel { reason, deadline: Instant::now() + grace }
    }
}

/// Why an attempt is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelReason {
    User,
    Timeout,
    Shutdown,
    Swap,
}

impl fmt::Display for CancelReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CancelReason::User => "the job was cancelled",
            CancelReason::Timeout => "its time was used up",
            CancelReason::Shutdown => "the server shuts down",
            CancelReason::Swap => "a new version of the plugin takes over",
        })
    }
}

/// A secret's value. It shows itself to the guest that asks for it and to nobody else: `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(value: impl Into<String>) -> Self {
        Secret(value.into())
    }

    /// For the guest that asks, and for whoever keeps it out of what is shown.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}
