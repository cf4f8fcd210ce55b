//! What goes into one attempt: plain data that the server fills in. Nothing here knows wasmtime.

pub(crate) mod disk_rate;
pub(crate) mod gauge;
pub(crate) mod log;
pub(crate) mod meter;
pub(crate) mod outcome;
pub(crate) mod run;
pub(crate) mod state;
pub(crate) mod stdio;
pub(crate) mod stop;
mod trap;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::watch;
use windlass_core::flow::Tally;

use crate::attempt::gauge::Gauge;
use crate::limits::Limits;
use crate::permissions::Permissions;

/// One run of one job's handler.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The plugin that is run, as a key that no other one has: with its namespace. Attempts of two owners share neither
    /// an instance nor their part of the pool and the disk, even if their components have the same bytes.
    pub owner: Arc<str>,
    pub job_id: String,
    pub queue: String,
    pub payload: Bytes,
    /// The state that an earlier attempt saved last.
    pub checkpoint: Option<SavedState>,
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
    pub joined: Option<Tally>,
    /// Of a queue that runs round by round.
    pub round: Option<u32>,
    pub limits: Limits,
    pub permissions: Permissions,
    /// Whether the instance may serve further attempts. `None`: a fresh one, thrown away afterwards.
    pub reuse: Option<Reuse>,
    /// Shows what the attempt uses while it runs.
    pub gauge: Arc<Gauge>,
    /// Set to stop the attempt. The newest value counts; dropping the sender means that nobody will ask.
    pub cancel: watch::Receiver<Option<Cancel>>,
}

impl Attempt {
    /// The first attempt of a job, with the default limits and no permissions. `cancel` stops it.
    pub fn first(
        job_id: impl Into<String>,
        queue: impl Into<String>,
        payload: impl Into<Bytes>,
        cancel: watch::Receiver<Option<Cancel>>,
    ) -> Attempt {
        Attempt {
            owner: Arc::from(""),
            job_id: job_id.into(),
            queue: queue.into(),
            payload: payload.into(),
            checkpoint: None,
            attempt: 1,
            max_attempts: 1,
            tags: Vec::new(),
            scope: None,
            created_at_ms: 0,
            started_at_ms: 0,
            children_committed: 0,
            joined: None,
            round: None,
            limits: Limits::default(),
            permissions: Permissions::default(),
            reuse: None,
            gauge: Arc::default(),
            cancel,
        }
    }
}

/// Lets one instance serve several attempts. What a guest leaves in its globals is then seen by the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reuse {
    /// How many more attempts an instance may serve after its first.
    pub times: u32,
    /// Only attempts with the same key share an instance: nothing leaks from one tenant to another.
    pub limit_key: String,
}

/// State that a guest has saved: bytes to this crate, and the version number the guest gave them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedState {
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
