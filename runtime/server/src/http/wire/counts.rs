//! Counters of jobs, under the same names wherever jobs are counted: those of the job states, `total` for all of them
//! and `open` for those that have not ended.

use serde::Serialize;
use utoipa::ToSchema;
use windlass_core::flow::Tally;
use windlass_core::{Counts, State};

/// The jobs of a group: a batch, the children of a job, a round of a queue.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct GroupCounts {
    pub total: u64,
    /// Jobs that have not ended.
    pub open: u64,
    pub completed: u64,
    pub dead: u64,
    pub cancelled: u64,
}

impl From<Tally> for GroupCounts {
    fn from(tally: Tally) -> GroupCounts {
        let Tally { total, open, completed, dead, cancelled, .. } = tally;
        GroupCounts { total, open, completed, dead, cancelled }
    }
}

/// Jobs that are stored now, by state. An ended job is counted until it is retried or removed.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct StateCounts {
    total: u64,
    /// Jobs that have not ended.
    open: u64,
    pending: u64,
    active: u64,
    scheduled: u64,
    retrying: u64,
    held: u64,
    blocked: u64,
    completed: u64,
    dead: u64,
    cancelled: u64,
}

impl From<&Counts> for StateCounts {
    fn from(counts: &Counts) -> StateCounts {
        let open = State::ALL.into_iter().filter(|state| !state.is_ended());
        StateCounts {
            total: State::ALL.into_iter().map(|state| counts.of(state)).sum(),
            open: open.map(|state| counts.of(state)).sum(),
            pending: counts.of(State::Pending),
            active: counts.of(State::Active),
            scheduled: counts.of(State::Scheduled),
            retrying: counts.of(State::Retrying),
            held: counts.of(State::Held),
            blocked: counts.of(State::Blocked),
            completed: counts.of(State::Completed),
            dead: counts.of(State::Dead),
            cancelled: counts.of(State::Cancelled),
        }
    }
}

/// What has happened since the queues were created. A total only rises: it still counts a dead job that was retried.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct Totals {
    /// Jobs stored.
    enqueued: u64,
    /// How many times a job completed.
    completed: u64,
    /// Attempts that failed and were followed by another.
    failed_attempts: u64,
    /// How many times a job died.
    dead: u64,
    /// How many times a job was cancelled.
    cancelled: u64,
}

impl From<&Counts> for Totals {
    fn from(counts: &Counts) -> Totals {
        Totals {
            enqueued: counts.enqueued,
            completed: counts.completed,
            failed_attempts: counts.failed,
            dead: counts.dead,
            cancelled: counts.cancelled,
        }
    }
}
