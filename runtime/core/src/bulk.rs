//! One action on many jobs: what it comes to for each of them, and how far it is. The list of jobs is fixed when it is
//! asked for and lies in a file of its own; the store works through it and writes each step with the changes it made,
//! so that a crash neither loses nor repeats any.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};
use ulid::Ulid;

use crate::name::namespace::or_default;
use crate::{Blob, Command, Job, Move, Namespace, Priority, QueueName, Refusal, Reply, State, Time, bounds};

/// An operation's identity: a ULID, written as `bulk_` and 26 characters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BulkId(pub u128);

const PREFIX: &str = "bulk_";

impl BulkId {
    pub fn new(now: Time, random: u128) -> BulkId {
        BulkId(Ulid::from_parts(now.millis(), random).0)
    }

    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }
}

impl fmt::Display for BulkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", Ulid(self.0))
    }
}

impl fmt::Debug for BulkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for BulkId {
    type Err = Refusal;
    fn from_str(text: &str) -> Result<BulkId, Refusal> {
        let ulid = text.strip_prefix(PREFIX).and_then(|rest| Ulid::from_string(rest).ok());
        ulid.map(|ulid| BulkId(ulid.0)).ok_or_else(|| Refusal::invalid("id", "it is `bulk_` and 26 characters"))
    }
}

/// What is done to each of the jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    Retry,
    /// From the start, after everything below it has been removed.
    Rebuild,
    Requeue,
    Cancel {
        reason: String,
    },
    Move {
        queue: QueueName,
    },
    ChangePriority {
        priority: Priority,
    },
    Hold {
        reason: String,
    },
    Approve,
    Reject {
        reason: String,
    },
    Delete,
    RunNow,
}

impl Action {
    pub const WORDS: [&'static str; 11] = [
        "retry",
        "rebuild",
        "requeue",
        "cancel",
        "move",
        "change_priority",
        "hold",
        "approve",
        "reject",
        "delete",
        "run_now",
    ];

    pub fn as_str(&self) -> &'static str {
        match self {
            Action::Retry => "retry",
            Action::Rebuild => "rebuild",
            Action::Requeue => "requeue",
            Action::Cancel { .. } => "cancel",
            Action::Move { .. } => "move",
            Action::ChangePriority { .. } => "change_priority",
            Action::Hold { .. } => "hold",
            Action::Approve => "approve",
            Action::Reject { .. } => "reject",
            Action::Delete => "delete",
            Action::RunNow => "run_now",
        }
    }

    /// What the audit log calls it.
    pub fn audit_name(&self) -> &'static str {
        match self {
            Action::Retry => "bulk.retry",
            Action::Rebuild => "bulk.rebuild",
            Action::Requeue => "bulk.requeue",
            Action::Cancel { .. } => "bulk.cancel-jobs",
            Action::Move { .. } => "bulk.move",
            Action::ChangePriority { .. } => "bulk.change_priority",
            Action::Hold { .. } => "bulk.hold",
            Action::Approve => "bulk.approve",
            Action::Reject { .. } => "bulk.reject",
            Action::Delete => "bulk.delete",
            Action::RunNow => "bulk.run_now",
        }
    }

    /// The states that a job can be in for it, and the same in words: "only … jobs can be".
    pub fn states(&self) -> (&'static [State], &'static str) {
        const ENDED: [State; 3] = [State::Completed, State::Dead, State::Cancelled];
        const WAITING: [State; 5] = [State::Scheduled, State::Pending, State::Retrying, State::Held, State::Blocked];
        const NOT_ENDED: [State; 6] =
            [State::Scheduled, State::Pending, State::Active, State::Retrying, State::Held, State::Blocked];
        const NOT_ACTIVE: [State; 8] = [
            State::Scheduled,
            State::Pending,
            State::Retrying,
            State::Held,
            State::Blocked,
            State::Completed,
            State::Dead,
            State::Cancelled,
        ];
        match self {
            Action::Retry | Action::Rebuild => (&ENDED, "dead, cancelled and completed"),
            Action::Requeue => (&[State::Dead], "dead"),
            Action::Cancel { .. } => (&NOT_ENDED, "scheduled, pending, retrying, held, blocked and active"),
            Action::Move { .. } => (&NOT_ACTIVE, "waiting and ended"),
            Action::ChangePriority { .. } => (&WAITING, "waiting"),
            Action::Hold { .. } => (
                &[State::Scheduled, State::Pending, State::Retrying, State::Active],
                "scheduled, pending, retrying and active",
            ),
            Action::Approve | Action::Reject { .. } => (&[State::Held], "held"),
            Action::Delete => (&State::ALL, ""),
            Action::RunNow => (&[State::Scheduled, State::Retrying], "scheduled and retrying"),
        }
    }

    /// What is asked of one job.
    pub fn command(&self) -> Command {
        match self {
            Action::Retry => Command::Retry,
            Action::Rebuild => Command::Rebuild,
            Action::Requeue => Command::Requeue,
            Action::Cancel { reason } => Command::Cancel { reason: reason.clone(), grace: None },
            Action::Move { queue } => {
                Command::Move(Move { queue: queue.clone(), reset_attempts: false, priority: None })
            }
            Action::ChangePriority { priority } => Command::Reprioritise { priority: *priority },
            Action::Hold { reason } => Command::Hold { reason: reason.clone() },
            Action::Approve => Command::Approve,
            Action::Reject { reason } => Command::Reject { reason: reason.clone() },
            Action::Delete => Command::Delete,
            Action::RunNow => Command::RunNow,
        }
    }
}

/// What must still be true of a job when its turn comes: it was chosen by a filter, and may have moved on since.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guard {
    pub queue: Option<QueueName>,
    /// Empty: any.
    pub states: Vec<State>,
}

impl Guard {
    pub fn admits(&self, job: &Job) -> bool {
        self.queue.as_ref().is_none_or(|queue| *queue == job.queue)
            && (self.states.is_empty() || self.states.contains(&job.state))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BulkStatus {
    /// Its turn has not come: they run one after the other.
    Queued,
    Running,
    Completed,
    Failed,
    Cancelled,
}

impl BulkStatus {
    pub fn is_over(self) -> bool {
        matches!(self, BulkStatus::Completed | BulkStatus::Failed | BulkStatus::Cancelled)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            BulkStatus::Queued => "queued",
            BulkStatus::Running => "running",
            BulkStatus::Completed => "completed",
            BulkStatus::Failed => "failed",
            BulkStatus::Cancelled => "cancelled",
        }
    }
}

/// An operation as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bulk {
    pub id: BulkId,
    pub action: Action,
    pub guard: Guard,
    /// The ids, 16 bytes each, in the order they are gone through.
    pub jobs: Blob,
    pub status: BulkStatus,
    pub total: u64,
    /// How many of the list have been gone through.
    pub processed: u64,
    /// How many of those the action was carried out on.
    pub affected: u64,
    /// How many could not be, though they were in a state for it.
    pub errors: u64,
    /// Why it failed, or the first of the errors.
    pub error: Option<String>,
    pub created_at: Time,
    pub updated_at: Time,
    pub finished_at: Option<Time>,
    /// The last field, because operations that were stored without it are still read.
    #[serde(deserialize_with = "or_default")]
    pub namespace: Namespace,
}

impl Bulk {
    pub fn new(id: BulkId, namespace: Namespace, action: Action, guard: Guard, jobs: Blob, now: Time) -> Bulk {
        Bulk {
            id,
            action,
            guard,
            jobs,
            status: BulkStatus::Queued,
            total: jobs.len / 16,
            processed: 0,
            affected: 0,
            errors: 0,
            error: None,
            created_at: now,
            updated_at: now,
            finished_at: None,
            namespace,
        }
    }

    /// Counts what came of the action on one job. A job that was removed, or is in a state in which this cannot be
    /// done, is passed over; it is no error.
    pub fn count(&mut self, came: Result<Reply, Refusal>) {
        self.processed += 1;
        match came {
            Ok(Reply::Unchanged) => {}
            Ok(_) => self.affected += 1,
            Err(Refusal::NotFound { .. } | Refusal::WrongState { .. } | Refusal::NotActive { .. }) => {}
            Err(refusal) => self.count_error(refusal.to_string()),
        }
    }

    /// Whether its turn may change a job: one of its namespace that is still what it was chosen for.
    pub fn admits(&self, job: &Job) -> bool {
        job.queue.is_in(&self.namespace) && self.guard.admits(job)
    }

    /// One that is no longer what it was chosen for.
    pub fn pass_over(&mut self) {
        self.processed += 1;
    }

    fn count_error(&mut self, mut why: String) {
        self.errors += 1;
        why.truncate(why.floor_char_boundary(bounds::REASON_BYTES));
        self.error.get_or_insert(why);
    }

    /// A step has been made.
    pub fn step(&mut self, now: Time) {
        self.updated_at = now;
        self.status = BulkStatus::Running;
        if self.processed >= self.total {
            self.end(BulkStatus::Completed, now);
        }
    }

    pub fn end(&mut self, status: BulkStatus, now: Time) {
        self.status = status;
        self.updated_at = now;
        self.finished_at = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JobAction;
    use crate::JobId;

    fn bulk(jobs: u64) -> Bulk {
        let blob = Blob { sha256: [0; 32], len: jobs * 16 };
        Bulk::new(BulkId::new(Time(5), 1), Namespace::default(), Action::Retry, Guard::default(), blob, Time(5))
    }

    #[test]
    fn jobs_in_other_states_are_passed_over_and_conflicts_are_errors() {
        let mut bulk = bulk(4);
        let id = JobId::new(Time(1), 1);
        bulk.count(Ok(Reply::Now { state: State::Pending, next_attempt_at: None, runs_left: 1 }));
        bulk.count(Err(Refusal::WrongState { action: JobAction::Retry, id, state: State::Active, allowed: "dead" }));
        bulk.count(Err(Refusal::not_found("job", id)));
        bulk.step(Time(6));
        assert_eq!((bulk.status, bulk.finished_at), (BulkStatus::Running, None));
        bulk.count(Err(Refusal::Locked { action: JobAction::Retry, id, holder: id }));
        bulk.step(Time(7));
        assert_eq!((bulk.processed, bulk.affected, bulk.errors), (4, 1, 1));
        assert!(bulk.error.as_deref().is_some_and(|error| error.contains("unique key")), "{:?}", bulk.error);
        assert_eq!((bulk.status, bulk.finished_at), (BulkStatus::Completed, Some(Time(7))));
    }

    #[test]
    fn an_id_survives_its_text_form() {
        let id = BulkId::new(Time(1_763_000_000_000), 42);
        assert_eq!(id.to_string().parse::<BulkId>().expect("its own text"), id);
        assert!("job_01JQ8ZK3V7N3W5X9Y1A2B3C4D5".parse::<BulkId>().is_err());
    }

    #[test]
    fn the_bytes_of_ids_sort_as_the_operations_were_created() {
        let ids = [BulkId::new(Time(1), 9), BulkId::new(Time(2), 3), BulkId::new(Time(300), 1)];
        assert!(ids.is_sorted() && ids.map(BulkId::to_bytes).is_sorted_by(|one, other| one < other));
        assert_eq!(format!("{:?}", ids[0]), ids[0].to_string(), "a log shows the text form");
    }

    #[test]
    fn each_action_asks_its_own_command_of_a_job() {
        let queue: QueueName = "images".parse().expect("a name");
        let reason = "tidying".to_owned();
        let table = [
            (Action::Retry, Command::Retry),
            (Action::Rebuild, Command::Rebuild),
            (Action::Requeue, Command::Requeue),
            (Action::Cancel { reason: reason.clone() }, Command::Cancel { reason: reason.clone(), grace: None }),
            (
                Action::Move { queue: queue.clone() },
                Command::Move(Move { queue, reset_attempts: false, priority: None }),
            ),
            (Action::ChangePriority { priority: Priority::High }, Command::Reprioritise { priority: Priority::High }),
            (Action::Hold { reason: reason.clone() }, Command::Hold { reason: reason.clone() }),
            (Action::Approve, Command::Approve),
            (Action::Reject { reason: reason.clone() }, Command::Reject { reason }),
            (Action::Delete, Command::Delete),
            (Action::RunNow, Command::RunNow),
        ];
        for ((action, command), word) in table.into_iter().zip(Action::WORDS) {
            assert_eq!((action.as_str(), action.command()), (word, command));
        }
    }

    #[test]
    fn a_guard_admits_what_is_still_in_its_queue_and_in_one_of_its_states() {
        let queue = |name: &str| name.parse::<QueueName>().expect("a name");
        let job = Job::new(JobId::new(Time(1), 1), queue("mail"), Time(1));
        let (here, other) = (Some(queue("mail")), Some(queue("images")));
        let (own, another) = (vec![State::Dead, job.state], vec![State::Dead]);
        for (queue, states, expected) in [
            (None, Vec::new(), true),
            (here.clone(), Vec::new(), true),
            (None, own.clone(), true),
            (here.clone(), own.clone(), true),
            (other.clone(), Vec::new(), false),
            (other, own, false),
            (None, another.clone(), false),
            (here, another, false),
        ] {
            let guard = Guard { queue, states };
            assert_eq!(guard.admits(&job), expected, "{guard:?}");
        }
    }

    #[test]
    fn an_operation_is_over_when_nothing_more_will_happen() {
        for (status, word, over) in [
            (BulkStatus::Queued, "queued", false),
            (BulkStatus::Running, "running", false),
            (BulkStatus::Completed, "completed", true),
            (BulkStatus::Failed, "failed", true),
            (BulkStatus::Cancelled, "cancelled", true),
        ] {
            assert_eq!((status.as_str(), status.is_over()), (word, over));
        }
    }

    #[test]
    fn a_job_that_nothing_was_done_to_is_counted_as_processed_alone() {
        let mut bulk = bulk(3);
        bulk.count(Ok(Reply::Unchanged));
        bulk.pass_over();
        assert_eq!((bulk.processed, bulk.affected, bulk.errors), (2, 0, 0));
        bulk.end(BulkStatus::Cancelled, Time(9));
        assert_eq!((bulk.status, bulk.updated_at, bulk.finished_at), (BulkStatus::Cancelled, Time(9), Some(Time(9))));
    }

    #[test]
    fn the_first_error_is_kept_and_cut_between_two_characters() {
        for (why, kept) in [
            ("x".repeat(bounds::REASON_BYTES), bounds::REASON_BYTES),
            ("x".repeat(bounds::REASON_BYTES + 1), bounds::REASON_BYTES),
            (format!("x{}", "ä".repeat(bounds::REASON_BYTES)), bounds::REASON_BYTES - 1),
        ] {
            let mut bulk = bulk(2);
            bulk.count_error(why);
            bulk.count_error("another".to_owned());
            assert_eq!((bulk.errors, bulk.error.map(|error| error.len())), (2, Some(kept)));
        }
    }
}
