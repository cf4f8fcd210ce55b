//! The engine: the single writer that owns every job's state.
//!
//! It takes requests in groups. Each group is decided against memory, gathered into one batch, committed once, and only
//! then answered. The engine reads no clock and does no IO but through its [`Disk`]: `now` is handed to every call, so
//! the same code runs under the simulator, which crashes it between any two steps.
//!
//! Memory follows the disk, never the other way: after a failed commit the whole engine is thrown away and rebuilt.

mod apply;
pub mod bulk;
mod commit;
mod facts;
pub mod failure;
mod job_cache;
pub mod operation;
pub mod operations;
#[doc(hidden)]
pub mod pause;
mod plugins;
pub mod recover;
mod reopen;
mod requests;
pub(crate) mod row_cache;
pub(crate) mod shared;
pub(crate) mod thread;
mod tick;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};
use tokio::sync::{broadcast, mpsc, watch};
use windlass_core::limits::Limiter;
use windlass_core::plugin::grant::Grant;
use windlass_core::schedule::Schedule;
use windlass_core::{
    Bulk, BulkId, CheckedJob, Command, Effect, Event, Job, JobId, Lock, NewJob, Plugin, Queue, QueueName, Reply,
    Runner, Settings, Time, Token, Webhook, decide, retry,
};

use crate::claim::claims::WaitingClaims;
use crate::claim::lanes::QueueRings;
use crate::disk::{Disk, DiskError, Space, WriteBatch};
use crate::disk::{codec, keys};
use crate::flow::Flows;
use crate::flow::rounds::Rounds;
use crate::retention::Sweeps;
use crate::timers::Timers;
use crate::{Error, EventRecord, LogLine, LogRecord, limits};
use failure::{Failure, UnlessRefused};
use job_cache::JobCache;
use operation::{Outbox, Request};

/// Counters and cursors, written with every commit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// Rises by one with each commit: what the witness is compared with.
    pub commit: u64,
    /// The latest time any commit was made at. Time never goes back behind it.
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

pub struct QueueState {
    pub row: Queue,
    pub line: QueueRings,
    pub limiter: Limiter,
    /// Too many starts: nothing starts before this.
    pub closed_until: Option<Time>,
    pub dirty: bool,
    /// Something in its line changed since the last commit.
    pub line_touched: bool,
}

/// A job's index entries as they are on disk.
#[derive(Default)]
pub struct Before {
    pub entries: Vec<(Space, Vec<u8>)>,
    /// The queue under which its lasting entries lie; none when there are none.
    pub lasting: Option<u32>,
}

/// How many attempts run, and how many events are stored, as the engine counts them in memory: for tests, which count again.
#[doc(hidden)]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryCounts {
    pub queues: BTreeMap<QueueName, u32>,
    /// By queue and limit key.
    pub keys: BTreeMap<(u32, String), u32>,
    pub plugins: BTreeMap<String, u32>,
    pub events: u64,
}

pub struct Engine<D> {
    pub(crate) disk: D,
    pub(crate) tuning: limits::Tuning,
    pub(crate) meta: Meta,
    pub(crate) batch: WriteBatch,
    pub(crate) queues: HashMap<QueueName, QueueState>,
    pub(crate) queue_names: HashMap<u32, QueueName>,
    pub(crate) jobs: JobCache,
    /// Jobs changed since the last commit, with what the disk holds of them.
    pub(crate) dirty: FxHashMap<JobId, Before>,
    pub(crate) removed: FxHashSet<JobId>,
    /// Jobs that could not be read, and have been logged: the first of them.
    pub(crate) damaged: FxHashSet<JobId>,
    /// Errors added since the last commit, by their claim.
    pub(crate) new_errors: FxHashMap<JobId, Vec<u32>>,
    /// Records written since the last commit, by their job: queue and key.
    pub(crate) new_records: FxHashMap<JobId, Vec<(u32, String)>>,
    pub(crate) locks: HashMap<Vec<u8>, Option<Lock>>,
    /// Starts and running attempts of each key: the ones used lately.
    pub(crate) key_limiters: HashMap<(u32, String), Limiter>,
    /// Those that changed since the last commit.
    pub(crate) dirty_limiters: HashSet<(u32, String)>,
    pub(crate) timers: Timers,
    /// Timers added (true) and removed since the last commit, other than those that follow from a job.
    pub(crate) timer_changes: Vec<(Vec<u8>, bool)>,
    /// Lanes that wait for a rate window: (when, queue, key).
    pub(crate) parked: BTreeSet<(Time, u32, String)>,
    pub(crate) waiting: WaitingClaims,
    /// Queues in which something may have become startable.
    pub(crate) awake: BTreeSet<QueueName>,
    pub(crate) plugins: BTreeMap<String, Plugin>,
    /// Plugins whose record changed since the last commit.
    pub(crate) dirty_plugins: BTreeSet<String>,
    pub(crate) grants: BTreeMap<String, Grant>,
    pub(crate) served: HashMap<QueueName, String>,
    /// How many attempts a plugin may run at once, where that is limited.
    pub(crate) ceilings: HashMap<String, u32>,
    /// How many attempts of each plugin run in this process.
    pub(crate) plugin_limiters: HashMap<String, Limiter>,
    pub(crate) schedules: BTreeMap<String, Schedule>,
    pub(crate) webhooks: BTreeMap<String, Webhook>,
    pub(crate) sweeps: Sweeps,
    /// Actions on many jobs: those that are not over, and the latest that are.
    pub(crate) bulks: BTreeMap<BulkId, Bulk>,
    pub(crate) flows: Flows,
    pub(crate) rounds: Rounds,
    pub(crate) next_event: u64,
    pub(crate) events: Vec<Event>,
    /// How many of `events` watchers have seen ahead of the commit: progress only.
    pub(crate) shown: usize,
    /// Committed, and not yet shown.
    pub(crate) to_show: Vec<std::sync::Arc<EventRecord>>,
    pub(crate) event_chunks: std::collections::VecDeque<(u64, u32, Time)>,
    pub(crate) events_stored: u64,
    /// Lines that wait for a commit, with the number of the first.
    pub(crate) logs: HashMap<JobId, (u64, Vec<LogLine>)>,
    pub(crate) log_next: HashMap<JobId, u64>,
    pub(crate) effects: Vec<Effect>,
    pub(crate) outbox: Outbox,
    /// Something was decided that must be durable before anybody hears of it.
    pub(crate) hard: bool,
    /// Since when something waits that may ride along with a later commit.
    pub(crate) soft_since: Option<Time>,
    /// Attempts handed to this process, so that a rebuilt engine knows which are alive.
    pub(crate) local: HashSet<(JobId, Token)>,
    /// Those of them that ended since the last commit. Should it fail, their runner says its word again.
    pub(crate) local_ended: Vec<(JobId, Token)>,
    pub(crate) hub: broadcast::Sender<std::sync::Arc<EventRecord>>,
    pub(crate) log_hub: broadcast::Sender<std::sync::Arc<LogRecord>>,
    pub(crate) orders: mpsc::UnboundedSender<Effect>,
    /// Since when everything is paused, and where that is told once it is committed.
    pub(crate) paused: Option<Time>,
    pub(crate) paused_hub: watch::Sender<Option<Time>>,
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
        self.sweep()?;
        self.tick()?;
        for request in requests {
            self.handle(request)?;
        }
        self.settle_flows()?;
        self.serve_waiting()?;
        self.settle_flows()?;
        self.answer_seals()?;
        let soft_is_due = self.soft_since.is_some_and(|since| self.now.since(since) >= limits::SOFT_DELAY);
        if self.hard || soft_is_due {
            self.commit()?;
        }
        if self.dirty.is_empty() {
            self.jobs.age(self.tuning.cached_jobs);
            self.flows.age(self.tuning.cached_jobs);
        }
        self.release();
        Ok(())
    }

    /// The next group is the last: it commits whatever waits.
    pub fn finish(&mut self) {
        self.hard = true;
    }

    /// When the engine should be called again though nobody asks.
    pub fn next_wake(&mut self) -> Result<Option<Time>, DiskError> {
        let given_back = !self.waiting.lost.is_empty();
        let busy = self.sweeps.is_busy() || self.meta.work_from < self.meta.next_work;
        if busy || given_back || !self.awake.is_empty() {
            return Ok(Some(self.now));
        }
        let timer = if self.paused.is_some() { None } else { self.timers.next(&self.disk)? };
        let parked = self.parked.first().map(|(at, ..)| *at);
        let closed = self.queues.values().filter_map(|queue| queue.closed_until).min();
        let soft = self.soft_since.map(|since| since + limits::SOFT_DELAY);
        let sweep = self.sweeps.next().filter(|_| self.paused.is_none());
        let waiting = self.waiting.next_deadline();
        Ok([timer, parked, closed, soft, sweep, waiting].into_iter().flatten().min())
    }

    #[doc(hidden)]
    pub fn running(&self) -> MemoryCounts {
        MemoryCounts {
            queues: self.queues.iter().map(|(name, queue)| (name.clone(), queue.limiter.running)).collect(),
            keys: self.key_limiters.iter().map(|(key, limiter)| (key.clone(), limiter.running)).collect(),
            plugins: self.plugin_limiters.iter().map(|(name, limiter)| (name.clone(), limiter.running)).collect(),
            events: self.events_stored,
        }
    }

    /// Carries out one command on one job.
    pub(crate) fn ask(&mut self, id: JobId, command: Command) -> Result<Reply, Failure> {
        self.ask_bringing(id, command, 0)
    }

    /// The same, where a refusal means only that there is nothing to do.
    pub(crate) fn try_ask(&mut self, id: JobId, command: Command) -> Result<Option<Reply>, DiskError> {
        self.ask(id, command).unless_refused()
    }

    /// The same, for a command that comes with so many children.
    pub(crate) fn ask_bringing(&mut self, id: JobId, command: Command, children: u32) -> Result<Reply, Failure> {
        let (now, seed) = (self.now, self.peek_seed());
        let facts = self.facts_of(id, &command, children)?;
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
        let facts = self.facts_of_new(&new)?;
        let decision = decide(Command::Enqueue(Box::new(new)), facts, now, seed);
        self.meta.seed = seed;
        Ok(self.apply(decision?)?)
    }

    /// Stores a job of the engine's own making: the next step of a chain, a callback, a run of a schedule.
    pub(crate) fn enqueue_own(&mut self, new: NewJob) -> Result<Reply, Failure> {
        let checked = new.check(self.now)?;
        self.enqueue_one(checked)
    }

    /// Starts the chosen job for a runner.
    pub(crate) fn start(&mut self, id: JobId, runner: Runner) -> Result<Option<(Job, Token)>, DiskError> {
        match self.try_ask(id, Command::Start { runner })? {
            Some(Reply::Started { token, .. }) => Ok(self.load(id)?.cloned().map(|job| (job, token))),
            Some(_) | None => Ok(None),
        }
    }

    /// The job; none if it does not exist or its record is damaged: that must not stop the work on all other jobs. A command that
    /// names the job is refused with the reason, see `damage_of`.
    pub(crate) fn load(&mut self, id: JobId) -> Result<Option<&Job>, DiskError> {
        if self.removed.contains(&id) {
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
        if self.removed.contains(&id) {
            return None;
        }
        let read = self
            .disk
            .get(Space::Jobs, &keys::job(id))
            .and_then(|bytes| bytes.map_or(Ok(()), |bytes| codec::decode::<Job>(Space::Jobs, &bytes).map(drop)));
        read.err().filter(DiskError::is_damage).map(Error::from)
    }

    pub(crate) fn load_lock(&mut self, key: &[u8]) -> Result<Option<Lock>, DiskError> {
        if let Some(lock) = self.locks.get(key) {
            return Ok(lock.clone());
        }
        match self.disk.get(Space::Locks, key)? {
            Some(bytes) => Ok(Some(codec::decode(Space::Locks, &bytes)?)),
            None => Ok(None),
        }
    }

    /// The limiter of a key, from memory or disk.
    pub(crate) fn key_limiter(&mut self, queue: u32, limit_key: &str) -> Result<&mut Limiter, DiskError> {
        match self.key_limiters.entry((queue, limit_key.to_owned())) {
            Entry::Occupied(held) => Ok(held.into_mut()),
            Entry::Vacant(vacant) => {
                let limiter = match self.disk.get(Space::Limiters, &keys::limiter(queue, limit_key))? {
                    Some(bytes) => codec::decode(Space::Limiters, &bytes)?,
                    None => Limiter::default(),
                };
                Ok(vacant.insert(limiter))
            }
        }
    }

    /// The queue, made if it is new.
    pub(crate) fn ensure_queue(&mut self, name: &QueueName) {
        if self.queues.contains_key(name) {
            return;
        }
        self.meta.next_queue += 1;
        let row = Queue {
            name: name.clone(),
            id: self.meta.next_queue,
            created_at: self.now,
            settings: Settings::default(),
            counts: Default::default(),
        };
        self.queue_names.insert(row.id, name.clone());
        let state = QueueState {
            row,
            line: QueueRings::new(self.tuning),
            limiter: Limiter::default(),
            closed_until: None,
            dirty: true,
            line_touched: false,
        };
        self.queues.insert(name.clone(), state);
        self.hard = true;
    }

    pub(crate) fn next_seed(&mut self) -> u64 {
        self.meta.seed = self.peek_seed();
        self.meta.seed
    }

    /// The seed of the next decision, which counts as used once that is made.
    fn peek_seed(&self) -> u64 {
        retry::mix(self.meta.seed)
    }

    pub(crate) fn put_timer(&mut self, at: Time, what: &keys::TimerFor) {
        let key = keys::timer(at, what);
        self.batch.put(Space::Timers, key.clone(), vec![codec::FORMAT]);
        self.timer_changes.push((key, true));
    }

    pub(crate) fn delete_timer(&mut self, key: Vec<u8>) {
        self.batch.delete(Space::Timers, key.clone());
        self.timer_changes.push((key, false));
        self.hard = true;
    }

    /// The disk has failed: everybody who waits hears of it. Answers with the attempts of this process that go on; a
    /// claim that nobody was told of is none of them.
    pub fn abandon(&mut self, error: &Error) -> HashSet<(JobId, Token)> {
        for lost in std::mem::take(&mut self.waiting.lost) {
            self.local.remove(&(lost.job.id, lost.token));
        }
        for untold in self.outbox.fail(error) {
            self.local.remove(&(untold.job.id, untold.token));
        }
        for answer in self.waiting.drain() {
            let _ = answer.send(Err(error.clone()));
        }
        for answer in self.flows.answers() {
            let _ = answer.send(Err(error.clone()));
        }
        for answer in self.sweeps.answers() {
            let _ = answer.send(Err(error.clone()));
        }
        std::mem::take(&mut self.local)
    }
}
