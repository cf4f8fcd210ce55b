//! Work that is more than one job: what ties jobs together, and what the end of one means for the others.
//!
//! Everything here is a rule about counters and states. The store keeps the rows (batches, links, work that waits) and
//! calls these when a job is stored, changes its state or is removed; nothing here knows where a row is stored.

mod batch;
mod chain;
mod dependency;
mod failed_child;
mod family;
mod payload;
mod progress;
mod rounds;
mod summary;
mod tally;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::{AfterStop, Job, JobId, QueueName, State, Token};

pub use batch::{Batch, BatchStatus, Callback, NewBatch};
pub use chain::{Chain, ChainPart, ChainPlace, ChainStep};
pub use dependency::{Dependency, OnFailure, order};
pub use failed_child::{FailedChild, HowFailed, blame};
pub use family::{Family, Verdict};
pub use payload::over;
pub use progress::{percent, rolled_up};
pub use rounds::{
    Bound, Gate, GateCheck, Position, Round, RoundEvent, RoundFacts, RoundsPhase, RoundsState, named_by_gates,
};
pub use summary::{FlowKind, FlowSummary};
pub use tally::Tally;

/// How a job hangs together with others. A job that stands alone has none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Links {
    /// How many jobs it depends on, ended ones too.
    pub depends_on: u32,
    /// How many of those have not ended yet.
    pub waits_for: u32,
    pub on_dependency_failure: OnFailure,
    /// How many jobs depend on it, ended ones too.
    pub dependants: u32,
    /// How many children others have put under it.
    pub adopted: u32,
    /// Its attempt has ended and it runs again when its children have ended; what happens to it when one of them fails.
    pub waits_for_children: Option<OnFailure>,
    /// It was run again after its children had ended.
    pub joined: bool,
    /// The token that began the waiting, so that a repeated request gets the answer of the first.
    pub waited_by: Option<Token>,
    pub chain: Option<ChainPlace>,
    /// The batch whose callback it is.
    pub callback_of: Option<String>,
    /// Everything below it is being removed; what happens to it then.
    pub removing: Option<AfterRemoval>,
}

/// What happens to a job when everything below it has been removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AfterRemoval {
    /// It runs again, and creates its children again.
    Rebuild,
    /// It is removed too: an ancestor is rebuilt.
    Remove,
}

/// Something that follows from a job's move and may touch many others: the store does it in bounded steps, after the
/// commit of the move, and keeps it until it is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FollowUp {
    /// Tell those that depend on `job` that it has ended: those who began to wait before this work was noted.
    Release { job: JobId, state: State },
    /// Cancel the children of `parent`: so many that it spawned, and so many that others put under it.
    CancelChildren { parent: JobId, spawned: u32, adopted: u32, reason: CascadeReason },
    /// Remove everything below `parent`, which waits for that.
    RemoveChildren { parent: JobId },
    /// A round may run: make the jobs that wait for it pending.
    OpenRound { queue: QueueName, round: u32 },
}

/// Why children are cancelled without anybody having asked for them by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CascadeReason {
    ParentCancelled,
    ParentGone,
    SiblingFailed,
}

impl CascadeReason {
    pub fn text(self) -> &'static str {
        match self {
            CascadeReason::ParentCancelled => "its parent was cancelled",
            CascadeReason::ParentGone => "its parent, which waited for it, has ended",
            CascadeReason::SiblingFailed => "another child of its parent failed",
        }
    }
}

/// The work that follows when a job has moved from one record to the next; `None` stands for not being there.
pub fn work(was: Option<&Job>, is: Option<&Job>) -> Vec<FollowUp> {
    let mut all = Vec::new();
    let Some(job) = is.or(was) else { return all };
    if is.is_some_and(|job| job.removing().is_some()) && was.is_none_or(|job| job.removing().is_none()) {
        all.push(FollowUp::RemoveChildren { parent: job.id });
    }
    let ended = was.is_none_or(Job::is_ended);
    let ends = match is {
        Some(now) if now.is_ended() && !ended => Some(now.state),
        // Removed before it ended: to others it is as good as cancelled.
        None if !ended => Some(State::Cancelled),
        Some(_) | None => None,
    };
    if let Some(state) = ends
        && job.links.as_ref().is_some_and(|links| links.dependants > 0)
    {
        all.push(FollowUp::Release { job: job.id, state });
    }
    if is.is_none() && was.is_some_and(|job| job.removing().is_some()) {
        // There is nothing below it any more.
        return all;
    }
    let waited = was.and_then(|job| job.links.as_ref()).is_some_and(|links| links.waits_for_children.is_some());
    let reason = match ends {
        Some(State::Cancelled) => Some(CascadeReason::ParentCancelled),
        Some(_) if waited => Some(CascadeReason::ParentGone),
        None if is.is_some_and(is_cancelling) && !was.is_some_and(is_cancelling) => {
            Some(CascadeReason::ParentCancelled)
        }
        Some(_) | None => None,
    };
    if let Some(reason) = reason {
        all.extend(cancel_children(job, reason));
    }
    all
}

fn is_cancelling(job: &Job) -> bool {
    let stop = job.run.as_ref().and_then(|run| run.stop.as_ref());
    stop.is_some_and(|stop| matches!(stop.then, AfterStop::Cancel { .. } | AfterStop::Delete))
}

/// The work of cancelling all children of a job that have not ended; none when it has no children.
pub fn cancel_children(job: &Job, reason: CascadeReason) -> Option<FollowUp> {
    let (spawned, adopted) = (job.children, job.adopted());
    (spawned > 0 || adopted > 0).then_some(FollowUp::CancelChildren { parent: job.id, spawned, adopted, reason })
}
