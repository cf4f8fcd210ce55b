//! What has been decided since the last commit and is not on disk yet.

use std::collections::HashMap;

use rustc_hash::{FxHashMap, FxHashSet};
use windlass_core::{JobId, Lock, QueueName, Time};

use crate::disk::keys::TimerFor;
use crate::disk::{Space, WriteBatch};
use crate::disk::{codec, keys};
use crate::limits;

/// A job's index entries as they are on disk.
#[derive(Default)]
pub struct Before {
    pub entries: Vec<(Space, Vec<u8>)>,
    /// The queue under which its lasting entries are stored; none if it has none yet.
    pub lasting: Option<u32>,
}

/// A timer's key, and whether it was added or removed.
pub type TimerChange = (Vec<u8>, bool);

pub struct Unsaved {
    /// Rows that are written as they are. Those of changed jobs, queues and other cached rows are added just before the
    /// commit.
    pub batch: WriteBatch,
    jobs: FxHashMap<JobId, Before>,
    removed: FxHashSet<JobId>,
    /// The fences under which errors were stored: they cannot be found on disk yet.
    errors: FxHashMap<JobId, Vec<u32>>,
    /// The same of attempts.
    attempts: FxHashMap<JobId, Vec<u32>>,
    /// The queues and keys of records, by the job that wrote them.
    records: FxHashMap<JobId, Vec<(u32, String)>>,
    locks: HashMap<Vec<u8>, Option<Lock>>,
    /// The queues of the jobs in the batch, if its rows are encrypted.
    queues: FxHashMap<JobId, QueueName>,
    /// Other than those that follow from a job's index entries.
    timers: Vec<TimerChange>,
    /// Something was decided that must be durable before it is answered or published.
    required: bool,
    /// Since when something waits that may be part of a later commit.
    waiting_since: Option<Time>,
}

impl Unsaved {
    /// The first group of an engine always commits: what its start has put right must be on disk before anything reads
    /// it there.
    pub fn new() -> Unsaved {
        Unsaved {
            batch: WriteBatch::default(),
            jobs: FxHashMap::default(),
            removed: FxHashSet::default(),
            errors: FxHashMap::default(),
            attempts: FxHashMap::default(),
            records: FxHashMap::default(),
            locks: HashMap::new(),
            queues: FxHashMap::default(),
            timers: Vec::new(),
            required: true,
            waiting_since: None,
        }
    }

    /// The group must not be answered before it is durable.
    pub(crate) fn require_commit(&mut self) {
        self.required = true;
    }

    pub(crate) fn is_commit_required(&self) -> bool {
        self.required
    }

    /// Something changed that may be lost in a crash: it is written with a later commit, or after a while.
    pub(crate) fn may_wait(&mut self, now: Time) {
        self.waiting_since.get_or_insert(now);
    }

    /// When what may wait has waited long enough.
    pub(crate) fn due_at(&self) -> Option<Time> {
        self.waiting_since.map(|since| since + limits::SOFT_DELAY)
    }

    pub(crate) fn is_commit_due(&self, now: Time) -> bool {
        self.required || self.due_at().is_some_and(|at| at <= now)
    }

    /// The key of a job's namespace encrypts its rows.
    pub(crate) fn note_queue(&mut self, id: JobId, queue: QueueName) {
        self.queues.insert(id, queue);
    }

    pub(crate) fn take_queues(&mut self) -> FxHashMap<JobId, QueueName> {
        std::mem::take(&mut self.queues)
    }

    pub(crate) fn has_jobs(&self) -> bool {
        !self.jobs.is_empty()
    }

    /// Remembers what the disk holds of a job that is about to change for the first time since the last commit.
    pub(crate) fn change_job(&mut self, id: JobId, before: impl FnOnce() -> Before) {
        self.jobs.entry(id).or_insert_with(before);
    }

    /// The queue under which the job's lasting entries are stored. They are deleted by the caller, and not again at the
    /// commit.
    pub(crate) fn take_lasting(&mut self, id: JobId) -> Option<u32> {
        self.jobs.get_mut(&id)?.lasting.take()
    }

    pub(crate) fn take_jobs(&mut self) -> FxHashMap<JobId, Before> {
        std::mem::take(&mut self.jobs)
    }

    pub(crate) fn remove_job(&mut self, id: JobId) {
        self.removed.insert(id);
    }

    /// The job is there again, under an id that is derived.
    pub(crate) fn restore_job(&mut self, id: JobId) {
        self.removed.remove(&id);
    }

    pub(crate) fn is_removed(&self, id: JobId) -> bool {
        self.removed.contains(&id)
    }

    pub(crate) fn add_error(&mut self, job: JobId, fence: u32) {
        self.errors.entry(job).or_default().push(fence);
    }

    pub(crate) fn take_errors(&mut self, job: JobId) -> Vec<u32> {
        self.errors.remove(&job).unwrap_or_default()
    }

    pub(crate) fn add_attempt(&mut self, job: JobId, number: u32) {
        self.attempts.entry(job).or_default().push(number);
    }

    pub(crate) fn take_attempts(&mut self, job: JobId) -> Vec<u32> {
        self.attempts.remove(&job).unwrap_or_default()
    }

    pub(crate) fn add_record(&mut self, job: JobId, queue: u32, key: String) {
        self.records.entry(job).or_default().push((queue, key));
    }

    pub(crate) fn take_records(&mut self, job: JobId) -> Vec<(u32, String)> {
        self.records.remove(&job).unwrap_or_default()
    }

    /// The lock under this key, if it has changed; `Some(None)` if it was released.
    pub fn lock(&self, key: &[u8]) -> Option<&Option<Lock>> {
        self.locks.get(key)
    }

    pub(crate) fn set_lock(&mut self, key: Vec<u8>, lock: Option<Lock>) {
        self.locks.insert(key, lock);
    }

    pub(crate) fn put_timer(&mut self, at: Time, what: &TimerFor) {
        let key = keys::timer(at, what);
        self.batch.put(Space::Timers, key.clone(), vec![codec::FORMAT]);
        self.timers.push((key, true));
    }

    pub(crate) fn delete_timer(&mut self, key: Vec<u8>) {
        self.batch.delete(Space::Timers, key.clone());
        self.timers.push((key, false));
        self.required = true;
    }

    pub(crate) fn take_timers(&mut self) -> Vec<TimerChange> {
        std::mem::take(&mut self.timers)
    }

    pub(crate) fn gather_locks(&mut self) {
        for (key, lock) in &self.locks {
            match lock {
                Some(lock) => self.batch.put(Space::Locks, key.clone(), codec::encode(lock)),
                None => self.batch.delete(Space::Locks, key.clone()),
            }
        }
    }

    /// The rows to write, once everything has been gathered.
    pub(crate) fn take_batch(&mut self) -> WriteBatch {
        // The next group is likely to be as large as this one.
        let room = WriteBatch::with_capacity(self.batch.writes.len());
        std::mem::replace(&mut self.batch, room)
    }

    /// The disk has everything.
    pub fn committed(&mut self) {
        self.removed.clear();
        self.errors.clear();
        self.attempts.clear();
        self.records.clear();
        self.locks.clear();
        self.required = false;
        self.waiting_since = None;
    }
}
