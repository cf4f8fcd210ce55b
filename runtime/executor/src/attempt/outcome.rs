//! What comes out of one attempt. Whatever a guest does is a value here, never an error of the host.

use bytes::Bytes;
use windlass_core::{Retry, Usage};

use crate::attempt::CancelReason;
use crate::host::{RequestedWait, Uncommitted};

/// How an attempt ended, and what it used.
#[derive(Clone, Debug)]
pub struct AttemptEnd {
    pub outcome: Outcome,
    /// The children spawned and the records written since the last checkpoint, to be committed with the result or the
    /// wait. Empty after any other outcome: then they are dropped.
    pub uncommitted: Uncommitted,
    pub usage: Usage,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The handler returned a result. It may have done so after it was asked to stop.
    Completed { result: Bytes },
    /// The handler returned, and the job goes on when its children have ended.
    Waiting(RequestedWait),
    /// The handler failed: by its own report, by a trap, or against a limit.
    Failed { error: String, backtrace: Option<String>, retry: Retry },
    /// It was stopped. `cooperative`: it saw the request and returned in time; otherwise it was stopped dead.
    Stopped { reason: CancelReason, error: String, cooperative: bool },
    /// The host could not go on, through no fault of the handler: a full disk, no file descriptors. The job should be
    /// run again, and nobody charged for it.
    Interrupted { reason: String },
    /// The host said at a checkpoint that the attempt is over; see `HostError::Ended`. Nothing is left to record.
    Superseded,
}
