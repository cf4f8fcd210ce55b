//! The engine: the single writer that owns every job's state.
//!
//! It takes requests in groups. Each group is decided against memory, gathered into one batch, committed once, and only
//! then answered. The engine reads no clock and does no IO but through its [`Disk`]: `now` is handed to every call, so
//! the same code runs under the simulator, which crashes it between any two steps.
//!
//! Memory follows the disk, never the other way: after a failed commit the whole engine is thrown away and rebuilt.

pub mod commit;
mod facts;
pub mod failure;
pub(crate) mod memory;
// Public for the simulator, which reads the disk itself.
#[doc(hidden)]
pub mod pause;
pub mod requests;
pub mod thread;
mod tick;

use std::collections::{BTreeMap, HashSet};

use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};
use windlass_core::access::AuditHead;
use windlass_core::{
    Bulk, BulkId, CheckedJob, Command, Job, JobId, Lock, Name, NewJob, Queue, QueueName, Reply, Runner, Settings, Time,
    Token, decide, retry,
};

use crate::claim::claims::WaitingClaims;
use crate::disk::{Disk, DiskError, Space};
use crate::disk::{codec, keys};
use crate::flow::Flows;
use crate::flow::rounds::Rounds;
use crate::retention::RetentionWork;
use crate::timers::Timers;
use crate::{AuditRetention, Caller, Error, FairUse, caller, limits};
use commit::event_log::{EventLog, JobLogs};
use commit::release::{Channels, Release};
use commit::unsaved::Unsaved;
use facts::Brings;
use failure::{Failure, UnlessRefused};
use memory::catalogue::Catalogue;
use memory::job_cache::JobCache;
use memory::limiters::Limiters;
use memory::queues::Queues;
use memory::quotas::NamespaceQuotas;
use requests::operation::Request;

/// Counters and cursors, written with every commit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// Rises by one with each commit: what the witness is compared with.
    pub commit: u64,
    /// The time of the latest commit. The engine's time never falls below it.
    pub now: Time,
    pub next_ready: u64,
    pub next_queue: u32,
    /// Event numbers below this may have been used.
    pub events_reserved: u64,
    /// The oldest event still stored.
    pub events_from: u64,
    pub timers_from: Time,
    /// The number of the next work of a flow. A link carries the number of its time: what was noted later means it.
    pub next_work: u64,
    /// The first work that is not done.
    pub work_from: u64,
    /// What the next decision's chance is drawn from.
    pub seed: u64,
}

pub const META_KEY: &[u8] = b"meta";

/// How many attempts run, and how many events are stored, as the engine counts them in memory: for tests, which count
/// again.
#[doc(hidden)]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryCounts {
    pub queues: BTreeMap<QueueName, u32>,
    /// By queue and limit key.
    pub keys: BTreeMap<(u32, String), u32>,
    pub plugins: BTreeMap<Name, u32>,
    pub events: u64,
}

/// Each part owns what it needs to keep its own rows, counters and memory consistent; the engine moves jobs between
/// them.
pub struct Engine<D> {
    pub(crate) disk: D,
    pub(crate) tuning: limits::Tuning,
    pub(crate) meta: Meta,
    /// What has been decided since the last commit.
    pub(crate) unsaved: Unsaved,
    /// What others learn after it.
    pub(crate) release: Release,
    pub(crate) channels: Channels,
    pub(crate) jobs: JobCache,
    /// The last id made from time and randomness.
    pub(crate) newest: JobId,
    /// Jobs that could not be read, and have been logged: the first of them.
    pub(crate) damaged: FxHashSet<JobId>,
    pub(crate) queues: Queues,
    pub(crate) limiters: Limiters,
    pub(crate) fair_use: FairUse,
    pub(crate) catalogue: Catalogue,
    pub(crate) timers: Timers,
    pub(crate) waiting: WaitingClaims,
    pub(crate) retention: RetentionWork,
    /// Bulk operations: those that are not over, and the latest that are.
    pub(crate) bulks: BTreeMap<BulkId, Bulk>,
    pub(crate) flows: Flows,
    pub(crate) rounds: Rounds,
    pub(crate) events: EventLog,
    pub(crate) logs: JobLogs,
    /// Attempts that run in this process, so that a rebuilt engine knows which are alive.
    pub(crate) local: HashSet<(JobId, Token)>,
    /// Since when everything is paused.
    pub(crate) paused: Option<Time>,
    /// Where the audit log stands, once it has been read.
    pub(crate) audit_head: Option<AuditHead>,
    pub(crate) audit_retention: AuditRetention,
    pub(crate) quotas: NamespaceQuotas,
    /// When this engine began, or was resumed: silence of workers counts from here.
    pub(crate) started_at: Time,
    pub now: Time,
}

impl<D: Disk> Engine<D> {
    /// Does one group: what time has brought, then the requests, then the waiting claims, then one commit.
    /// On an error nothing of the group has been answered, and the engine must be rebuilt.
    pub fn group(&mut self, requests: Vec<Request<D>>, now: Time) -> Result<(), DiskError> {
        self.now = self.now.max(now);
        // First of all: it reads the disk, which holds what earlier groups did and nothing of this one yet.
        self.step_background()?;
        self.tick()?;
        for request in requests {
            self.handle(request)?;
        }
        self.settle_flows()?;
        self.serve_waiting()?;
        self.settle_flows()?;
        self.answer_seals()?;
        if self.unsaved.is_commit_due(self.now) {
            self.commit()?;
        }
        if !self.unsaved.has_jobs() {
            self.jobs.age(self.tuning.cached_jobs);
            self.flows.age(self.tuning.cached_jobs);
        }
        self.publish();
        Ok(())
    }

    /// What no plugin may exceed. Attempts that run already are not stopped.
    pub fn set_fair_use(&mut self, fair_use: FairUse) {
        self.fair_use = fair_use;
        self.limiters.slots.set_share(fair_use.slots);
    }

    /// The next group is the last: it commits whatever waits.
    pub fn finish(&mut self) {
        self.unsaved.require_commit();
    }

    /// When the engine should be called again without a request.
    pub fn next_wake(&mut self) -> Result<Option<Time>, DiskError> {
        let given_back = !self.waiting.lost.is_empty();
        let busy = self.retention.is_busy() || self.meta.work_from < self.meta.next_work;
        if busy || given_back || self.queues.any_awake() {
            return Ok(Some(self.now));
        }
        let timer = if self.paused.is_some() { None } else { self.timers.next(&self.disk)? };
        let times = [
            timer,
            self.limiters.next_opening(),
            self.queues.next_reopening(),
            self.unsaved.due_at(),
            self.retention.next().filter(|_| self.paused.is_none()),
            self.waiting.next_deadline(),
        ];
        Ok(times.into_iter().flatten().min())
    }

    /// For the simulator, which counts again.
    #[doc(hidden)]
    pub fn running(&self) -> MemoryCounts {
        MemoryCounts {
            queues: self.queues.iter().map(|queue| (queue.row.name.clone(), queue.limiter.running)).collect(),
            keys: self.limiters.running_keys().collect(),
            plugins: self.limiters.running_plugins().collect(),
            events: self.events.count_stored(),
        }
    }

    /// Refuses a caller who may not change the job.
    pub(crate) fn check_caller(
        &mut self,
        caller: Option<&Caller>,
        id: JobId,
        command: &Command,
    ) -> Result<(), Failure> {
        match self.load(id)? {
            Some(job) => Ok(caller::may_change(caller, job, command)?),
            // What follows says that it does not exist, or why it cannot be read.
            None => Ok(()),
        }
    }

    /// Carries out one command on one job.
    pub(crate) fn ask(&mut self, id: JobId, command: Command) -> Result<Reply, Failure> {
        self.ask_bringing(id, command, Brings::default())
    }

    /// The same, where a refusal means only that there is nothing to do.
    pub(crate) fn try_ask(&mut self, id: JobId, command: Command) -> Result<Option<Reply>, DiskError> {
        self.ask(id, command).unless_refused()
    }

    /// The same, for a command with which something comes.
    pub(crate) fn ask_bringing(&mut self, id: JobId, command: Command, brings: Brings) -> Result<Reply, Failure> {
        self.admit_command(id, &command)?;
        let (now, seed) = (self.now, self.peek_seed());
        let facts = self.facts_of(id, &command, brings)?;
        let decision = decide(command, facts, now, seed);
        self.meta.seed = seed;
        Ok(self.apply(decision?)?)
    }

    /// Stores one new job.
    pub(crate) fn enqueue_one(&mut self, mut new: CheckedJob) -> Result<Reply, Failure> {
        if let (Some(parent), None) = (new.parent, new.id)
            && let Some(id) = self.adopt(parent)?
        {
            new.set_id(id);
        }
        let (now, seed) = (self.now, self.peek_seed());
        let derived = new.id.is_some();
        let facts = self.facts_of_new(&new)?;
        let decision = decide(Command::Enqueue(Box::new(new)), facts, now, seed);
        self.meta.seed = seed;
        let reply = self.apply(decision?)?;
        if let (Reply::Stored { id, .. }, false) = (&reply, derived) {
            self.newest = *id;
        }
        Ok(reply)
    }

    /// Stores a job of the engine's own making: the next step of a chain, a callback, a run of a schedule.
    pub(crate) fn enqueue_own(&mut self, new: NewJob) -> Result<Reply, Failure> {
        let checked = new.check(self.now)?;
        self.enqueue_one(checked)
    }

    /// Starts the chosen job for a runner.
    pub(crate) fn start(
        &mut self,
        id: JobId,
        runner: Runner,
        by: Option<String>,
    ) -> Result<Option<(Job, Token)>, DiskError> {
        match self.try_ask(id, Command::Start { runner, by })? {
            Some(Reply::Started { token, .. }) => Ok(self.load(id)?.cloned().map(|job| (job, token))),
            Some(_) | None => Ok(None),
        }
    }

    /// The job; none if it does not exist or its row is damaged: that must not stop the work on all other jobs. A
    /// command that names the job is refused with the reason, see `damage_of`.
    pub(crate) fn load(&mut self, id: JobId) -> Result<Option<&Job>, DiskError> {
        if self.unsaved.is_removed(id) {
            return Ok(None);
        }
        if self.jobs.get(id).is_none() {
            let read = match self.disk.get(Space::Jobs, &keys::job(id)) {
                Ok(Some(bytes)) => codec::decode(Space::Jobs, &bytes),
                Ok(None) => return Ok(None),
                Err(error) => Err(error),
            };
            match read {
                Ok(job) => self.jobs.insert(Box::new(job)),
                Err(error) if error.is_damage() => {
                    if self.damaged.len() < limits::UNREADABLE && self.damaged.insert(id) {
                        tracing::error!("job {id} cannot be read and is skipped: {error}");
                    }
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(self.jobs.get(id))
    }

    /// Why a job that `load` did not return cannot be read; none if it does not exist.
    pub(crate) fn damage_of(&self, id: JobId) -> Option<Error> {
        if self.unsaved.is_removed(id) {
            return None;
        }
        let read = self
            .disk
            .get(Space::Jobs, &keys::job(id))
            .and_then(|bytes| bytes.map_or(Ok(()), |bytes| codec::decode::<Job>(Space::Jobs, &bytes).map(drop)));
        read.err().filter(DiskError::is_damage).map(Error::from)
    }

    pub(crate) fn load_lock(&mut self, key: &[u8]) -> Result<Option<Lock>, DiskError> {
        if let Some(lock) = self.unsaved.lock(key) {
            return Ok(lock.clone());
        }
        match self.disk.get(Space::Locks, key)? {
            Some(bytes) => Ok(Some(codec::decode(Space::Locks, &bytes)?)),
            None => Ok(None),
        }
    }

    /// Creates the queue if it does not exist.
    pub(crate) fn ensure_queue(&mut self, name: &QueueName) {
        if self.queues.contains(name) {
            return;
        }
        self.meta.next_queue += 1;
        let row = Queue {
            name: name.clone(),
            id: self.meta.next_queue,
            created_at: self.now,
            settings: Settings::default(),
            counts: Default::default(),
            settings_by: None,
        };
        self.quotas.queue_added(&row.name);
        self.queues.add(row, self.tuning);
        self.unsaved.require_commit();
    }

    pub(crate) fn next_seed(&mut self) -> u64 {
        self.meta.seed = self.peek_seed();
        self.meta.seed
    }

    /// The seed of the next decision, which counts as used once that is made.
    fn peek_seed(&self) -> u64 {
        retry::mix(self.meta.seed)
    }

    /// The disk has failed: everybody who waits gets the error. Returns the attempts of this process that are still
    /// running, without those whose claim was not answered.
    pub fn abandon(&mut self, error: &Error) -> HashSet<(JobId, Token)> {
        for lost in std::mem::take(&mut self.waiting.lost) {
            self.local.remove(&(lost.job.id, lost.token));
        }
        for unheard in self.release.fail(error) {
            self.local.remove(&(unheard.job.id, unheard.token));
        }
        for answer in self.waiting.drain() {
            let _ = answer.send(Err(error.clone()));
        }
        for answer in self.flows.answers() {
            let _ = answer.send(Err(error.clone()));
        }
        for answer in self.retention.answers() {
            let _ = answer.send(Err(error.clone()));
        }
        std::mem::take(&mut self.local)
    }
}
