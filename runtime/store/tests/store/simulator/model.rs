//! What should be stored: plain maps, fed with the events that the engine has stored. Every event must be a move that
//! the job could make, for a reason that somebody gave; the jobs that result must be those on disk.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::flow::AfterRemoval;
use windlass_core::schedule::Schedule;
use windlass_core::{
    JobId, LockKey, Name, NewJob, Plugin, Priority, QueueName, Record, Settings, State, Time, Token, Unique, Until,
};

use windlass_store::FairUse;

use super::bulks::Hands;
use super::flows::ModelFlows;
use super::recount::{Past, Totals, Tries};
use super::told::Told;
use super::webhooks::Hooks;

#[derive(Default)]
pub struct Model {
    pub jobs: BTreeMap<JobId, ModelJob>,
    pub queues: BTreeMap<QueueName, ModelQueue>,
    pub locks: BTreeMap<LockKey, ModelLock>,
    /// Everything ever asked to be stored, by the label it carries.
    pub specs: BTreeMap<String, NewJob>,
    /// Instants that schedules have run for, by the id of their job.
    pub instants: BTreeSet<JobId>,
    /// As they were stored at the end of the last group.
    pub schedules: BTreeMap<Name, Schedule>,
    /// Claims that reached their caller: the job and which of its starts.
    pub delivered: BTreeSet<(JobId, u32)>,
    /// Queues that are being cleared or removed.
    pub clearing: BTreeSet<QueueName>,
    pub flows: ModelFlows,
    pub plugins: BTreeMap<Name, Plugin>,
    /// How many attempts a plugin may run at once, and may have when this group began: a canary can change it on the
    /// way.
    pub ceilings: BTreeMap<Name, u32>,
    pub ceilings_before: BTreeMap<Name, u32>,
    /// What the engine was told, and must hold to.
    pub fair_use: FairUse,
    /// How many plugins serve a queue, and did when this group began.
    pub serving: usize,
    pub serving_before: usize,
    pub last_event: u64,
    pub told: Told,
    pub group: u64,
    next_order: u64,
    /// The states each job went through in this group.
    pub seen: BTreeMap<JobId, Vec<State>>,
    /// Stored in this group, by label.
    pub stored: BTreeMap<String, JobId>,
    /// The latest group in which a job was enqueued and removed: its round is not known.
    pub blurred: u64,
    pub records: BTreeMap<(u32, String), Record>,
    pub past: Past,
    /// What each job had saved after the last commit.
    pub saved: BTreeMap<JobId, windlass_core::Body>,
    pub hands: Hands,
    pub hooks: Hooks,
    /// Since when everything is paused, and whether it was throughout this group.
    pub paused: Option<Time>,
    pub still: bool,
    /// Since when heartbeats could arrive: the last start, or the end of the last pause.
    pub alive_from: Time,
}

#[derive(Clone, Debug)]
pub struct ModelJob {
    pub queue: QueueName,
    pub priority: Priority,
    pub limit_key: Option<String>,
    pub target: Option<String>,
    pub unique: Option<Unique>,
    pub scope: Option<String>,
    pub state: State,
    pub since: Time,
    /// Its place in its lane: later is larger.
    pub order: u64,
    /// The group in which it got that place.
    pub group: u64,
    /// Within that group, its place is not known.
    pub loose: bool,
    pub due: Option<Time>,
    pub expire_at: Option<Time>,
    pub ttl: bool,
    pub starts: u32,
    pub children: u32,
    pub token: Option<Token>,
    pub local: bool,
    pub plugin: Option<Name>,
    /// Another version waits for it: it may be handed over.
    pub swapping: bool,
    pub stopping: bool,
    /// Known from its event alone: it was removed before the end of its group.
    pub vague: bool,
    /// It was never seen stored: its round is not known.
    pub unseen: bool,
    pub round: Option<u32>,
    /// When it became pending its round could run.
    pub in_turn: bool,
    pub parent: Option<JobId>,
    /// Its parent was removed before it, and not because an ancestor was rebuilt.
    pub orphan: bool,
    /// As it was after the last commit.
    pub removing: Option<AfterRemoval>,
    pub created: Time,
    /// When its latest attempt began.
    pub started: Option<Time>,
    pub tries: Tries,
}

#[derive(Clone, Debug, Default)]
pub struct ModelQueue {
    pub id: u32,
    pub settings: Settings,
    /// As they were when this group began: retention comes first in it.
    pub before: Option<Settings>,
    pub starts: Starts,
    pub by_key: BTreeMap<String, Starts>,
    /// It has had a job with a round.
    pub began: bool,
    pub totals: Totals,
}

/// Starts, all of them and those since the rate was last set.
#[derive(Clone, Debug, Default)]
pub struct Starts {
    pub ever: Vec<Time>,
    pub counted: Vec<Time>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelLock {
    pub job: JobId,
    pub until: Until,
    pub expires_at: Time,
}

impl Model {
    pub fn new(fair_use: FairUse) -> Model {
        Model { fair_use, ..Model::default() }
    }

    /// A new group begins.
    pub fn begin(&mut self) {
        self.group += 1;
        self.seen.clear();
        self.queues.values_mut().for_each(|queue| queue.before = None);
        self.stored.clear();
    }

    pub fn move_to(&mut self, id: JobId, state: State, at: Time) {
        self.next_order += 1;
        let (order, group) = (self.next_order, self.group);
        let Some(job) = self.jobs.get_mut(&id) else { return };
        self.seen.entry(id).or_insert_with(|| vec![job.state]).push(state);
        job.state = state;
        job.since = at;
        job.order = order;
        job.group = group;
        job.loose = false;
        let (queue, round) = (job.queue.clone(), job.round);
        let in_turn = state != State::Pending || self.may_run(&queue, round);
        let job = self.jobs.get_mut(&id).expect("it was just there");
        job.in_turn = in_turn;
        if state != State::Active {
            job.token = None;
            job.local = false;
            job.plugin = None;
            job.swapping = false;
            job.stopping = false;
        }
        if !matches!(state, State::Scheduled | State::Retrying) {
            job.due = None;
        }
        if state.is_ended() {
            self.locks.retain(|_, lock| lock.job != id || lock.until == Until::Period);
        }
    }

    pub fn place_again(&mut self, id: JobId) {
        self.next_order += 1;
        let (order, group) = (self.next_order, self.group);
        if let Some(job) = self.jobs.get_mut(&id) {
            job.order = order;
            job.group = group;
        }
    }

    /// The job needs its unique key: no other job may hold it.
    pub fn take_lock(&mut self, id: JobId, at: Time) {
        let job = &self.jobs[&id];
        let Some(unique) = job.unique.clone() else { return };
        let key = unique.lock_key(&job.queue, job.scope.as_deref());
        if let Some(lock) = self.locks.get(&key).filter(|lock| lock.expires_at > at && lock.job != id) {
            panic!("{id} has the key {key:?}, which {} holds", lock.job);
        }
        let lock = ModelLock { job: id, until: unique.until, expires_at: at + unique.period };
        self.locks.insert(key, lock);
    }
}
