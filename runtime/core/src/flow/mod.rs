//! Work that is more than one job: what ties jobs together, and what the end of one means for the others.
//!
//! Everything here is a rule about counters and states. The store keeps the rows (batches, links, work that waits) and
//! calls these when a job comes, moves or goes; nothing here knows where a row lies.

mod batch;
mod compose;
mod depend;

use serde::{Deserialize, Serialize};

use crate::{Job, JobId, State};

pub use batch::{Batch, Callback, NewBatch, Standing};
pub use compose::over;
pub use depend::{Dependency, OnFailure, order};

/// How a job hangs together with others. A job that stands alone has none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ties {
    /// How many jobs it was said to depend on.
    pub depends_on: u32,
    /// How many of those have not ended yet.
    pub waits_for: u32,
    pub on_dependency_failure: OnFailure,
    /// How many jobs were said to depend on it.
    pub dependants: u32,
    /// The batch whose callback it is.
    pub callback_of: Option<String>,
}

/// Something that follows from a job's move and may touch many others: the store does it in bounded steps, after the
/// commit of the move, and keeps it until it is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Work {
    /// Tell those that depend on `job` that it has ended: those who began to wait before this work was noted.
    Release { job: JobId, state: State },
}

/// The work that follows when a job has moved from one record to the next; `None` stands for not being there.
pub fn work(was: Option<&Job>, is: Option<&Job>) -> Option<Work> {
    let job = is.or(was)?;
    job.ties.as_ref().filter(|ties| ties.dependants > 0)?;
    let ended = was.is_none_or(Job::is_ended);
    match is {
        Some(now) if now.is_ended() && !ended => Some(Work::Release { job: job.id, state: now.state }),
        // Removed before it ended: to those that wait it is as good as cancelled.
        None if !ended => Some(Work::Release { job: job.id, state: State::Cancelled }),
        Some(_) | None => None,
    }
}
