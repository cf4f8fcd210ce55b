//! Why a command was not carried out. Nothing changed when one of these comes back.

use crate::{JobId, State};

/// Split by what the caller does about it. Knows nothing of HTTP.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The input is wrong: say which field and what would be right.
    #[error("`{field}`: {why}")]
    Invalid { field: &'static str, why: String },
    #[error("there is no {what} `{name}`")]
    NotFound { what: &'static str, name: String },
    /// Whoever asks may not do this.
    #[error("{why}")]
    NotAllowed { why: String },
    /// Its namespace has as much as it may have.
    #[error("{why}")]
    OverQuota { why: String },
    /// The job is not in a state from which that can be done.
    #[error("cannot {} job {id}: it is {}, and only {allowed} jobs can be", action.as_str(), state.as_str())]
    WrongState { action: JobAction, id: JobId, state: State, allowed: &'static str },
    /// A late report: its attempt is over.
    #[error("job {id} is {}, and no attempt under this lease is active: its result is not taken", state.as_str())]
    NotActive { id: JobId, state: State },
    /// Another job has the unique key meanwhile.
    #[error("cannot {} job {id}: its unique key is held by {holder}", action.as_str())]
    Locked { action: JobAction, id: JobId, holder: JobId },
    /// One queue, one plugin.
    #[error("queue `{queue}` is served by plugin `{plugin}`")]
    Taken { queue: String, plugin: String },
    /// It can be removed, but something would have to stop first.
    #[error("{what} `{name}` is in use: {used_by}")]
    InUse { what: String, name: String, used_by: String },
    #[error("{what} `{name}` exists already")]
    Exists { what: &'static str, name: String },
}

impl Refusal {
    pub fn invalid(field: &'static str, why: impl Into<String>) -> Refusal {
        Refusal::Invalid { field, why: why.into() }
    }

    pub fn not_found(what: &'static str, name: impl ToString) -> Refusal {
        Refusal::NotFound { what, name: name.to_string() }
    }
}

/// What was asked of a job that is not in a state for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobAction {
    Start,
    Cancel,
    Retry,
    RunNow,
    Edit,
    Rebuild,
    Requeue,
    Move,
    Reprioritise,
    Hold,
    Approve,
    Reject,
}

impl JobAction {
    /// As in "cannot … the job".
    pub fn as_str(self) -> &'static str {
        match self {
            JobAction::Start => "start",
            JobAction::Cancel => "cancel",
            JobAction::Retry => "retry",
            JobAction::RunNow => "run",
            JobAction::Edit => "edit",
            JobAction::Rebuild => "rebuild",
            JobAction::Requeue => "requeue",
            JobAction::Move => "move",
            JobAction::Reprioritise => "change the priority of",
            JobAction::Hold => "hold",
            JobAction::Approve => "approve",
            JobAction::Reject => "reject",
        }
    }
}
