//! What a job is: one piece of work, its policy, and where it stands.
//!
//! This file has the states and everything that is stored; beside it are the parts that a job consists of (`id`,
//! `policy`, `body`, `agent`, `record`), how it is made (`new_job`), and what is known of its attempts (`past_attempt`,
//! `findings`).

pub(crate) mod agent;
pub(crate) mod body;
pub(crate) mod findings;
pub(crate) mod id;
pub(crate) mod new_job;
pub(crate) mod past_attempt;
pub(crate) mod policy;
pub(crate) mod record;

use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::flow::{AfterRemoval, Links};
use crate::trailing;
use crate::{
    Agent, BodyKind, BodyRef, JobId, ModelUsageTotals, Name, Policy, Priority, QueueName, StepStatus, Time, Token,
    Unique, bounds,
};

/// Where a job stands. `scheduled → pending → active → completed | retrying → pending | dead | cancelled`; `held`
/// waits for approval, `blocked` for other jobs or its round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum State {
    Scheduled,
    Pending,
    Active,
    Retrying,
    Held,
    Blocked,
    Completed,
    Dead,
    Cancelled,
}

impl State {
    pub const ALL: [State; 9] = [
        State::Scheduled,
        State::Pending,
        State::Active,
        State::Retrying,
        State::Held,
        State::Blocked,
        State::Completed,
        State::Dead,
        State::Cancelled,
    ];

    /// An ended job never moves again by itself.
    pub fn is_ended(self) -> bool {
        matches!(self, State::Completed | State::Dead | State::Cancelled)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            State::Scheduled => "scheduled",
            State::Pending => "pending",
            State::Active => "active",
            State::Retrying => "retrying",
            State::Held => "held",
            State::Blocked => "blocked",
            State::Completed => "completed",
            State::Dead => "dead",
            State::Cancelled => "cancelled",
        }
    }
}

/// A job as it is stored. Its bodies lie apart, so that a state change never rewrites a payload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    pub id: JobId,
    pub queue: QueueName,
    pub priority: Priority,
    pub policy: Policy,
    pub tags: Vec<(String, String)>,
    /// Whom the job is about, as `type:id`.
    pub scope: Option<String>,
    /// The tenant or customer whose limits and turn it counts against.
    pub limit_key: Option<String>,
    /// Only this worker may fetch it.
    pub target_worker: Option<String>,
    pub unique: Option<Unique>,
    pub parent: Option<JobId>,
    /// Its level, in a queue that runs level by level.
    pub round: Option<u32>,
    pub batch_id: Option<String>,
    /// The schedule that made it.
    pub schedule: Option<Name>,
    pub created_by: Option<String>,
    /// For agents: how many iterations there may be, and how many there were.
    pub agent: Option<Box<Agent>>,

    pub state: State,
    /// When it came into this state.
    pub since: Time,
    /// Its place in its lane while pending: a new one each time, so that no cursor has passed it already.
    pub ready_seq: u64,
    /// How often it was claimed. Never falls, so that late reports are recognised.
    pub fence: u32,
    /// How often it was claimed since it was last retried by hand. What people see as the attempt.
    pub attempt: u32,
    /// How many attempts failed; at `max_attempts` the job is dead.
    pub failures: u32,
    /// How often the process died while it ran, since it last got further; capped apart.
    pub crashes: u32,
    /// Runs granted by hand (requeue) on top of the policy's.
    pub granted: u32,
    pub run: Option<Run>,
    /// Who ran the latest attempt that has ended.
    pub ran_by: Option<Runner>,
    /// What that attempt took.
    pub usage: Option<Usage>,
    /// When it becomes pending: for scheduled and retrying.
    pub scheduled_at: Option<Time>,
    pub expire_at: Option<Time>,
    pub created_at: Time,
    pub updated_at: Time,
    /// Start of the latest attempt.
    pub started_at: Option<Time>,
    /// Start of the first attempt: `max_duration` counts from here.
    pub first_started_at: Option<Time>,
    pub completed_at: Option<Time>,
    pub failed_at: Option<Time>,
    /// When retention may remove it, where that is its own (ttl, or a unique lock that outlives it).
    pub keep_until: Option<Time>,
    pub hold_reason: Option<String>,
    /// Why it ended, as its handler reported, and whether its chain continues.
    pub exit_reason: Option<String>,
    pub step_status: Option<StepStatus>,
    /// What its attempts paid for.
    pub spending: Option<Box<ModelUsageTotals>>,
    pub progress: Option<Progress>,
    pub payload: BodyRef,
    pub checkpoint: BodyRef,
    pub checkpoint_schema: u32,
    /// The version of the plugin that saved the checkpoint.
    pub checkpoint_by: Option<String>,
    /// The old version it stays with, because the active one does not read its checkpoint.
    pub pinned: Option<String>,
    pub result: BodyRef,
    pub last_error: Option<String>,
    /// The token that ended it, so that a repeated ack is answered as the first was.
    pub ended_by: Option<Token>,
    /// How many children it has spawned for good: the next ordinal.
    pub children: u32,
    /// How many records it has written since it was enqueued or rebuilt.
    pub records: u32,
    /// What it has to do with other jobs, besides its parent and its batch.
    pub links: Option<Box<Links>>,
    pub timeline: Timeline,
    /// How many generations of parents it descends from; 0 for a job that nobody spawned. Behind the rest: a row of
    /// format 1 ends before it.
    pub depth: u32,
    /// The key or the person whose worker fetched it last. Without a lease token, the words of nobody else's count. The
    /// last field: jobs that were stored without it are still read.
    #[serde(deserialize_with = "trailing::or_default")]
    pub claimed_by: Option<String>,
}

impl Job {
    /// A job in which nothing is set but these.
    pub(crate) fn new(id: JobId, queue: QueueName, now: Time) -> Job {
        Job {
            id,
            queue,
            priority: Priority::default(),
            policy: Policy::default(),
            tags: Vec::new(),
            scope: None,
            limit_key: None,
            target_worker: None,
            unique: None,
            parent: None,
            round: None,
            batch_id: None,
            schedule: None,
            created_by: None,
            agent: None,
            state: State::Pending,
            since: now,
            ready_seq: 0,
            fence: 0,
            attempt: 0,
            failures: 0,
            crashes: 0,
            granted: 0,
            run: None,
            ran_by: None,
            usage: None,
            scheduled_at: None,
            expire_at: None,
            created_at: now,
            updated_at: now,
            started_at: None,
            first_started_at: None,
            completed_at: None,
            failed_at: None,
            keep_until: None,
            hold_reason: None,
            exit_reason: None,
            step_status: None,
            spending: None,
            progress: None,
            payload: BodyRef::None,
            checkpoint: BodyRef::None,
            checkpoint_schema: 0,
            checkpoint_by: None,
            pinned: None,
            result: BodyRef::None,
            last_error: None,
            ended_by: None,
            children: 0,
            records: 0,
            links: None,
            timeline: Timeline::default(),
            depth: 0,
            claimed_by: None,
        }
    }

    pub fn is_ended(&self) -> bool {
        self.state.is_ended()
    }

    /// Runs left before a failure is final.
    pub fn runs_left(&self) -> u32 {
        (self.policy.max_attempts.max(1) + self.granted).saturating_sub(self.failures)
    }

    /// When the time for all its attempts together is over; none without `max_duration`, or before its first attempt.
    pub fn deadline(&self) -> Option<Time> {
        Some(self.first_started_at? + self.policy.max_duration?)
    }

    /// How long an attempt in the sandbox that starts now may take: the limit of an attempt that the job or its plugin
    /// sets, or the default, and not longer than until the deadline. External workers have no default: they take
    /// nobody's slot.
    pub fn time_limit(&self, of_plugin: Option<Duration>, now: Time) -> Duration {
        let set = self.policy.attempt_timeout.into_iter().chain(of_plugin).min();
        let left = self.deadline().map(|deadline| deadline.since(now));
        set.unwrap_or(bounds::ATTEMPT_TIMEOUT).min(left.unwrap_or(Duration::MAX))
    }

    /// How many generations a child of this job descends from; `rounds` is whether the child's queue has rounds. Levels
    /// of a queue with rounds are counted as rounds, of which there may be far more: an operator has set up that queue
    /// for it.
    pub fn depth_of_child(&self, rounds: bool) -> u32 {
        if rounds && self.round.is_some() { self.depth } else { self.depth.saturating_add(1) }
    }

    /// Why it was cancelled, or is to be once its attempt has stopped.
    pub fn cancel_reason(&self) -> Option<&str> {
        if self.state == State::Cancelled {
            return self.timeline.steps.iter().rfind(|step| step.state == State::Cancelled).map(|step| &*step.reason);
        }
        match &self.run.as_ref()?.stop.as_ref()?.then {
            AfterStop::Cancel { reason } => Some(reason),
            AfterStop::Swap | AfterStop::Hold { .. } | AfterStop::Expire | AfterStop::Delete | AfterStop::Remove => {
                None
            }
        }
    }

    /// How many of the jobs it depends on have not ended.
    pub fn waits_for(&self) -> u32 {
        self.links.as_ref().map_or(0, |links| links.waits_for)
    }

    /// How many children others have put under it.
    pub fn adopted(&self) -> u32 {
        self.links.as_ref().map_or(0, |links| links.adopted)
    }

    /// What happens to it once everything below it has been removed, if that is under way.
    pub fn removing(&self) -> Option<AfterRemoval> {
        self.links.as_ref().and_then(|links| links.removing)
    }

    /// The round that it waits for, when it waits for nothing else.
    pub fn waits_for_round(&self) -> Option<u32> {
        let tied =
            |links: &Links| links.waits_for > 0 || links.waits_for_children.is_some() || links.removing.is_some();
        self.round.filter(|_| self.state == State::Blocked && !self.links.as_deref().is_some_and(tied))
    }

    /// Whether the change from `old` may be lost in a crash, so that it need not be durable before it is acknowledged:
    /// progress, and a longer lease. Both are reported again.
    pub fn may_lose_change(&self, old: &Job) -> bool {
        fn asked(job: &Job) -> Option<(Option<&Stop>, Option<Time>)> {
            job.run.as_ref().map(|run| (run.stop.as_ref(), run.swap_by))
        }
        old.state == State::Active
            && self.state == State::Active
            && old.checkpoint == self.checkpoint
            && old.checkpoint_schema == self.checkpoint_schema
            && old.children == self.children
            && asked(old) == asked(self)
    }

    /// Whether its own retention time is over.
    pub fn is_past_keeping(&self, now: Time) -> bool {
        self.is_ended() && self.keep_until.is_some_and(|until| until <= now)
    }

    /// Where one of its bodies is.
    pub fn body(&self, kind: BodyKind) -> BodyRef {
        match kind {
            BodyKind::Payload => self.payload,
            BodyKind::Checkpoint => self.checkpoint,
            BodyKind::Result => self.result,
        }
    }

    /// The attempt is over: who ran it stays known.
    pub(crate) fn end_run(&mut self) {
        if let Some(run) = self.run.take() {
            self.ran_by = Some(run.runner);
        }
    }

    /// Writes something into its timeline that is no move.
    pub fn note(&mut self, now: Time, reason: impl Into<Reason>) {
        self.updated_at = now;
        self.timeline.push(Step {
            at: now,
            state: self.state,
            attempt: self.attempt,
            reason: reason.into(),
            ran: None,
        });
    }

    /// Moves the job, and writes the move into its timeline.
    pub fn enter(&mut self, state: State, now: Time, reason: impl Into<Reason>) {
        self.state = state;
        self.since = now;
        self.updated_at = now;
        self.timeline.push(Step { at: now, state, attempt: self.attempt, reason: reason.into(), ran: None });
    }
}

/// The attempt that is alive now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    pub token: Token,
    pub runner: Runner,
    pub started_at: Time,
    /// When the lease lapses without a heartbeat. Absent for a local attempt: it lives and dies with the process.
    pub lease_expires_at: Option<Time>,
    /// The last sign of life: progress, checkpoint, log or heartbeat.
    pub heartbeat_at: Time,
    pub stop: Option<Stop>,
    /// A new version waits for its next checkpoint, until then.
    pub swap_by: Option<Time>,
    /// It runs on a version that is on trial: its failure is not the job's.
    pub canary: bool,
    /// When the clock looks at it next. A heartbeat does not change this: the clock looks, and sets the next time.
    pub watch_at: Option<Time>,
}

/// Who runs an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Runner {
    /// This process, with a plugin's version (the SHA-256 of its bytes).
    Local { plugin: Name, version: String },
    /// A worker that fetched over HTTP.
    External { worker_id: String, hostname: String },
}

impl Runner {
    pub fn is_local(&self) -> bool {
        matches!(self, Runner::Local { .. })
    }
}

/// Somebody wants the running attempt stopped; the job moves on when it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    pub at: Time,
    pub then: AfterStop,
}

/// What happens to the job once its attempt has stopped. In order of weight: a later one replaces an earlier one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum AfterStop {
    /// Pending again, for the version that has taken over.
    Swap,
    Hold {
        reason: String,
    },
    Cancel {
        reason: String,
    },
    Expire,
    Delete,
    /// Removed, after everything below it: an ancestor is rebuilt.
    Remove,
}

/// What a handler reports while it runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    pub ts: Time,
    pub phase: Option<String>,
    pub message: Option<String>,
    pub level: Option<String>,
    /// JSON text of the handler's own making.
    pub detail: Option<String>,
    pub percent: Option<f64>,
    pub current: Option<u64>,
    pub total: Option<u64>,
    pub unit: Option<String>,
    pub weight: Option<f64>,
}

/// One attempt that did not end well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptError {
    pub attempt: u32,
    pub error: String,
    pub backtrace: Option<String>,
    pub at: Time,
    pub runner: Runner,
    pub usage: Usage,
}

/// A reason that is mostly one of our own few sentences: those cost no memory.
pub type Reason = std::borrow::Cow<'static, str>;

/// What an attempt took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub cpu_ms: u64,
    pub wall_ms: u64,
    pub peak_memory: u64,
    pub host_calls: u64,
    pub log_bytes: u64,
}

/// The job's history: every move with its reason. The first and the latest are stored, those dropped in between are
/// counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    pub steps: Vec<Step>,
    pub dropped: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    pub at: Time,
    pub state: State,
    pub attempt: u32,
    /// Why, in a word or a short sentence.
    pub reason: Reason,
    /// The attempt that made room with this move: given back, handed over or stopped. An attempt that failed has an
    /// error instead.
    pub ran: Option<Box<EndedAttempt>>,
}

/// An attempt that is over, and what it took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedAttempt {
    pub runner: Runner,
    pub usage: Usage,
}

impl Timeline {
    fn push(&mut self, step: Step) {
        if self.steps.len() >= bounds::TIMELINE {
            // Keep how it began: the second step is dropped.
            self.steps.remove(1);
            self.dropped += 1;
        }
        self.steps.push(step);
    }

    /// The latest step was the end of this attempt.
    pub(crate) fn ended_by(&mut self, ran: Box<EndedAttempt>) {
        if let Some(step) = self.steps.last_mut() {
            step.ran = Some(ran);
        }
    }
}
