//! What should be: plain maps, fed with the events that the engine has stored. Every event must be a move that the job
//! could make, for a reason that somebody gave; the jobs that result must be those on disk.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::flow::AfterRemoval;
use windlass_core::schedule::Schedule;
use windlass_core::{
    Command, Complete, Event, EventKind, Fail, HandBack, Heartbeat, JobId, LockKey, NewJob, Plugin, Priority,
    QueueName, Record, Settings, State, Time, Token, Unique, Until, Wait,
};
use windlass_store::EventRecord;

use super::bulks::Hands;
use super::causes::Causes;
use super::flows::ModelFlows;
use super::recount::{CHARGED, Past, Totals, Tries};
use super::silent::local_plugin;

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
    pub schedules: BTreeMap<String, Schedule>,
    /// Claims that reached their caller: the job and which of its starts.
    pub delivered: BTreeSet<(JobId, u32)>,
    /// Queues somebody asked to clear or remove, and which may be under way.
    pub clearing: BTreeSet<QueueName>,
    pub flows: ModelFlows,
    pub plugins: BTreeMap<String, Plugin>,
    /// How many attempts a plugin may run at once, and may have when this group began: a canary can change it on the way.
    pub ceilings: BTreeMap<String, u32>,
    pub ceilings_before: BTreeMap<String, u32>,
    pub last_event: u64,
    pub group: u64,
    next_order: u64,
    /// The states each job went through in this group.
    pub seen: BTreeMap<JobId, Vec<State>>,
    /// Stored in this group, by label.
    pub stored: BTreeMap<String, JobId>,
    /// The latest group in which a job came and went: what its round was, nobody can tell.
    pub blurred: u64,
    pub records: BTreeMap<(u32, String), Record>,
    pub past: Past,
    /// What each job had saved after the last commit.
    pub saved: BTreeMap<JobId, windlass_core::Body>,
    pub hands: Hands,
    /// Since when everything is paused, and whether it was throughout this group.
    pub paused: Option<Time>,
    pub still: bool,
    /// Since when workers could be heard: the last start, or the end of the last pause.
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
    /// Its place in line: later is larger.
    pub order: u64,
    /// The group it came into line in.
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
    pub plugin: Option<String>,
    /// Another version waits for it: it may be handed over.
    pub swapping: bool,
    pub stopping: bool,
    /// What is known of it came from its event alone: it was gone before anybody could look.
    pub vague: bool,
    /// It was never seen stored: what its round is, nobody can tell.
    pub unseen: bool,
    pub round: Option<u32>,
    /// When it came into line its round could run.
    pub in_turn: bool,
    pub parent: Option<JobId>,
    /// Its parent went before it, and not because an ancestor was rebuilt.
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
    /// As they were when this group began: the sweep comes first in it.
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

    /// Takes one stored event; `stored` is the record of its job after the group, where it still has one.
    pub fn take(&mut self, record: &EventRecord, causes: &Causes, stored: Option<&windlass_core::Job>) {
        let EventRecord { seq, event } = record;
        assert!(*seq > self.last_event, "event {seq} after event {}", self.last_event);
        self.last_event = *seq;
        let (id, at) = (event.job, event.at);
        if let EventKind::Round(told) = &event.kind {
            self.check_round_event(event, told);
            return;
        }
        if matches!(event.kind, EventKind::Plugin(_)) {
            assert_eq!(id, JobId::NONE, "{event:?}: it is about no job");
            return;
        }
        if event.kind == EventKind::Enqueued {
            self.enqueued(event, causes, stored);
            return;
        }
        let job = self.jobs.get(&id).unwrap_or_else(|| panic!("{event:?} of a job that is not there")).clone();
        let state = job.state;
        let must = |holds: bool, why: &str| assert!(holds, "{event:?}: {why}; the job was {job:?}");
        match &event.kind {
            EventKind::Enqueued | EventKind::Plugin(_) | EventKind::Round(_) => {}
            EventKind::Pending { reason } => {
                self.come_back(id, &job);
                self.pending(&job, event, reason, causes);
                self.move_to(id, State::Pending, at);
            }
            EventKind::Blocked { round: Some(round), .. } => {
                self.come_back(id, &job);
                // From wherever it could come into line; and one that is in line can be moved, or go on.
                if state != State::Pending {
                    let new = state == State::Scheduled && job.group == self.group;
                    let job = ModelJob { due: if new { Some(at) } else { job.due }, ..job.clone() };
                    self.pending(&job, event, "had gone", causes);
                }
                let job = self.jobs[&id].clone();
                // One that is moved counts where it was until it is gone from there.
                if !causes.reordered(id) {
                    self.check_waits_for_round(event, &job, *round);
                }
                self.move_to(id, State::Blocked, at);
            }
            EventKind::Removing => {
                // Once its attempt was asked to stop for that, it goes, even if the rebuilding above it was cancelled.
                let stopped = state == State::Active && job.stopping;
                must(stopped || (state != State::Active && self.is_cleared(&job)), "nothing above it is rebuilt");
                self.move_to(id, State::Blocked, at);
                let job = self.jobs.get_mut(&id).expect("it is there");
                job.expire_at = None;
                job.removing = Some(AfterRemoval::Remove);
            }
            EventKind::Blocked { round: None, waits_for } => {
                self.come_back(id, &job);
                let new = matches!(state, State::Pending | State::Scheduled) && job.starts == 0;
                let new = (new && job.group == self.group) || state == State::Held;
                if state.is_ended() {
                    self.take_lock(id, at);
                    let asked = causes
                        .asked(id, |command| matches!(command, Command::Retry | Command::Requeue | Command::Rebuild));
                    must(asked, "nobody brought it back");
                    let rebuilt = causes.asked(id, |command| matches!(command, Command::Rebuild));
                    let retried = causes.asked(id, |command| matches!(command, Command::Retry | Command::Requeue))
                        && *waits_for > 0;
                    let job = self.jobs.get_mut(&id).expect("it is there");
                    job.expire_at = None;
                    // All below it may be gone already: then it goes on within this very group.
                    job.removing = (rebuilt && !retried).then_some(AfterRemoval::Rebuild);
                } else if state == State::Active {
                    let waits = |command: &Command| match command {
                        Command::Wait(Wait { holder, .. }) => Some(*holder),
                        _ => None,
                    };
                    must(causes.holder(id, &job, waits), "nobody with a right to said so");
                    self.flows.wait_for_children(id, stored);
                } else {
                    // One that waited for its children may wait for others still, when it was retried before.
                    must(new || state == State::Blocked, "it waited for nobody");
                }
                self.move_to(id, State::Blocked, at);
            }
            EventKind::Scheduled { at: due } => {
                must(state == State::Blocked && *due > at, "it waits for its time only after all else");
                self.flows.check_unblocked(id);
                self.move_to(id, State::Scheduled, at);
                self.jobs.get_mut(&id).expect("it is there").due = Some(*due);
            }
            EventKind::Started { attempt } => {
                must(!self.still, "nothing starts while all is paused");
                must(state == State::Pending, "only pending jobs start");
                must(*attempt >= 1 && *attempt <= job.starts + 1, "attempts rise by one");
                must(job.in_turn, "its round could not run when it came into line");
                self.check_start(id, &job, event, causes, stored);
                self.move_to(id, State::Active, at);
                let job = self.jobs.get_mut(&id).expect("it is there");
                job.starts += 1;
                job.plugin = stored.and_then(|stored| stored.run.as_ref()).and_then(local_plugin);
                job.local = job.plugin.is_some();
            }
            // Progress may wait for a later commit than the group it came in.
            EventKind::Progress(_) => must(state == State::Active, "only a running attempt speaks"),
            EventKind::Checkpoint { .. } => {
                must(state == State::Active, "only a running attempt speaks");
                let beat = |command: &Command| match command {
                    Command::Heartbeat(Heartbeat { holder, .. })
                    | Command::Wait(Wait { holder, .. })
                    | Command::Complete(Complete { holder, closing: Some(_), .. }) => Some(*holder),
                    _ => None,
                };
                must(causes.holder(id, &job, beat), "nobody with a right to said so");
            }
            EventKind::Continued { .. } => {
                must(state == State::Active, "only a running attempt continues");
                must(self.acked(id, &job, causes), "nobody with a right to said so");
                self.move_to(id, State::Pending, at);
            }
            EventKind::Completed { .. } => {
                must(state == State::Active, "only a running attempt completes");
                must(self.acked(id, &job, causes), "nobody with a right to said so");
                self.move_to(id, State::Completed, at);
            }
            EventKind::Failed { next_attempt_at, error, .. } => {
                must(state == State::Active, "only a running attempt fails");
                let crashed = error.starts_with("the server stopped");
                must(!crashed || causes.rebuilt == Some(true), "the process lives");
                let said = self.failed(id, &job, causes);
                must(crashed || said || !job.local, "nobody with a right to said so");
                must(crashed || said || !self.still, "no lease is looked at while all is paused");
                let lapsed = error.starts_with("lease lapsed");
                must(!lapsed || *next_attempt_at == at, "a lapsed lease is retried at once");
                let lease = stored.map(|stored| self.alive_from + stored.policy.lease);
                must(!lapsed || lease.is_none_or(|lease| at >= lease), "it had a lease from the start or the resume");
                self.move_to(id, State::Retrying, at);
                self.jobs.get_mut(&id).expect("it is there").due = Some(*next_attempt_at);
            }
            EventKind::Held { .. } => {
                let waiting = matches!(state, State::Scheduled | State::Pending | State::Retrying);
                let stopped = state == State::Active && (job.stopping || self.acked(id, &job, causes));
                must(waiting || stopped, "it cannot be held from there");
                self.move_to(id, State::Held, at);
            }
            EventKind::Approved | EventKind::Rejected => must(state == State::Held, "it was not held"),
            EventKind::Dead { reason, .. } => {
                must(!state.is_ended(), "it had ended");
                must(
                    reason != "expired" || state == State::Active || !self.still,
                    "nothing expires while all is paused",
                );
                let charged = CHARGED.contains(&&**reason) && !self.failed(id, &job, causes);
                must(!charged || !self.still, "no lease is looked at while all is paused");
                must(reason != "expired" || job.expire_at.is_some_and(|due| due <= at), "it had time left");
                self.move_to(id, State::Dead, at);
            }
            EventKind::Cancelling => {
                must(state == State::Active, "only a running attempt is asked to stop");
                self.jobs.get_mut(&id).expect("it is there").stopping = true;
            }
            EventKind::Cancelled { .. } => {
                must(!state.is_ended(), "it had ended");
                must(state != State::Active || job.stopping, "nobody had asked its attempt to stop");
                self.move_to(id, State::Cancelled, at);
            }
            EventKind::Moved { .. } => {
                must(state != State::Active, "an active job belongs to its runner");
                self.moved(id, &job, event);
            }
            EventKind::Deleted => {
                self.check_deletion(id, &job, event, causes);
                self.seen.entry(id).or_insert_with(|| vec![state]);
                self.locks.retain(|_, lock| lock.job != id);
                if self.is_cleared(&job) {
                    self.check_cleared(id);
                }
                self.jobs.values_mut().filter(|job| job.parent == Some(id)).for_each(|job| job.orphan = true);
                self.jobs.remove(&id);
            }
        }
    }

    /// Comes back from its end, or after all below it was cleared.
    fn come_back(&mut self, id: JobId, job: &ModelJob) {
        if job.removing == Some(AfterRemoval::Rebuild) {
            self.check_cleared(id);
        }
        if job.state.is_ended() || job.removing.is_some() {
            let round = self.round_in(&job.queue, job.round).filter(|_| !job.unseen);
            let job = self.jobs.get_mut(&id).expect("it is there");
            job.round = round;
            if job.removing.take().is_some() {
                job.children = 0;
            }
        }
    }

    /// The job wants its unique key: nobody else may hold it.
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

    fn pending(&mut self, job: &ModelJob, event: &Event, reason: &str, causes: &Causes) {
        let (id, at) = (event.job, event.at);
        let fine = match job.state {
            State::Scheduled | State::Retrying => {
                // One that failed just now may be retried at once.
                let at_once = job.group == self.group;
                assert!(at_once || !self.still, "{event:?}: no delay ends while all is paused");
                job.due.is_some_and(|due| due <= at)
            }
            State::Held => true,
            State::Active => {
                let handed = |command: &Command| match command {
                    Command::HandBack(HandBack { holder, .. }) => Some(*holder),
                    _ => None,
                };
                let undelivered = !self.delivered.contains(&(id, job.starts));
                let saved = |command: &Command| match command {
                    Command::Heartbeat(Heartbeat { holder, checkpoint: Some(_), .. }) => Some(*holder),
                    _ => None,
                };
                causes.holder(id, job, handed)
                    || (job.swapping && causes.holder(id, job, saved))
                    || causes.rebuilt == Some(true)
                    || (undelivered && (reason.contains("had gone") || causes.rebuilt == Some(false)))
            }
            State::Completed | State::Dead | State::Cancelled => {
                self.take_lock(id, at);
                causes.asked(id, |command| matches!(command, Command::Retry | Command::Requeue | Command::Rebuild))
            }
            State::Blocked => {
                self.flows.check_unblocked(id);
                true
            }
            State::Pending => false,
        };
        assert!(fine, "{event:?}: it cannot come back into line from {job:?}");
        if job.state.is_ended() {
            self.jobs.get_mut(&id).expect("it is there").expire_at = None;
        }
    }

    fn acked(&self, id: JobId, job: &ModelJob, causes: &Causes) -> bool {
        causes.holder(id, job, |command| match command {
            Command::Complete(Complete { holder, .. }) => Some(*holder),
            _ => None,
        })
    }

    fn failed(&self, id: JobId, job: &ModelJob, causes: &Causes) -> bool {
        causes.holder(id, job, |command| match command {
            Command::Fail(Fail { holder, .. }) => Some(*holder),
            _ => None,
        })
    }

    fn moved(&mut self, id: JobId, job: &ModelJob, event: &Event) {
        let mut moved = job.clone();
        moved.queue = event.queue.clone();
        moved.since = event.at;
        moved.round = self.round_in(&event.queue, job.round).filter(|_| !job.unseen);
        if let Some(unique) = &job.unique {
            let from = unique.lock_key(&job.queue, job.scope.as_deref());
            let to = unique.lock_key(&moved.queue, job.scope.as_deref());
            if from != to && self.locks.get(&from).is_some_and(|lock| lock.job == id) {
                let lock = self.locks.remove(&from).expect("it was just there");
                if lock.expires_at > event.at {
                    let other = self.locks.get(&to).filter(|other| other.expires_at > event.at);
                    assert!(other.is_none(), "{id} was moved to where {other:?} holds its key");
                    self.locks.insert(to, lock);
                }
            }
        }
        // To where it came this very moment: that is no move.
        let stays = moved.queue == job.queue && moved.since == job.since;
        self.jobs.insert(id, moved.clone());
        let in_turn = moved.state != State::Pending || self.may_run(&moved.queue, moved.round);
        self.jobs.get_mut(&id).expect("it is there").in_turn = in_turn;
        if !stays {
            self.place_again(id);
        }
    }
}
