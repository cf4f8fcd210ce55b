//! What must hold on disk after every step: each job in exactly the places its row implies, counts equal to a
//! recount, locks and lanes and timers exact, nothing left of what was removed; and everything as the model has it.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use windlass_core::plugin::grant::Grant;
use windlass_core::schedule::Schedule;
use windlass_core::{
    AfterStop, BodyKind, BodyRef, Bulk, BulkId, Job, JobId, Lock, Name, Plugin, Queue, State, Time, Until, Webhook,
};
use windlass_store::disk::Space;
use windlass_store::disk::keys;
use windlass_store::disk::keys::TimerFor;
use windlass_store::disk::{codec, index};
use windlass_store::engine::pause;
use windlass_store::engine::{META_KEY, Meta};

use super::disk::SimDisk;
use super::flows::StoredFlows;
use super::model::{Model, ModelJob};

/// All that is stored, decoded.
pub struct Stored {
    pub jobs: BTreeMap<JobId, Rc<Job>>,
    pub queues: BTreeMap<String, Queue>,
    pub locks: BTreeMap<Vec<u8>, Lock>,
    pub schedules: Vec<Schedule>,
    pub plugins: Vec<Plugin>,
    pub grants: BTreeMap<Name, Grant>,
    pub bulks: BTreeMap<BulkId, Bulk>,
    pub webhooks: Vec<Webhook>,
    pub meta: Meta,
    /// Since when everything is paused.
    pub paused: Option<Time>,
    pub flows: StoredFlows,
}

impl Stored {
    pub fn read(disk: &SimDisk) -> Stored {
        let queues = rows::<Queue>(disk, Space::Queues).into_iter().map(|(_, queue)| (queue.name.to_string(), queue));
        Stored {
            jobs: disk.jobs(),
            queues: queues.collect(),
            locks: rows(disk, Space::Locks).into_iter().collect(),
            plugins: rows(disk, Space::Plugins).into_iter().map(|(_, plugin)| plugin).collect(),
            grants: rows::<(Name, Grant)>(disk, Space::Grants).into_iter().map(|(_, row)| row).collect(),
            schedules: rows(disk, Space::Schedules).into_iter().map(|(_, schedule)| schedule).collect(),
            bulks: rows::<Bulk>(disk, Space::Bulks).into_iter().map(|(_, bulk)| (bulk.id, bulk)).collect(),
            webhooks: rows(disk, Space::Webhooks).into_iter().map(|(_, hook)| hook).collect(),
            flows: StoredFlows::read(disk),
            meta: meta(disk, META_KEY).unwrap_or_default(),
            paused: meta(disk, pause::KEY),
        }
    }

    fn queue_of(&self, job: &Job) -> u32 {
        self.queues.get(job.queue.as_str()).unwrap_or_else(|| panic!("{} is in no queue", job.id)).id
    }
}

/// One of the engine's own records.
fn meta<T: serde::de::DeserializeOwned>(disk: &SimDisk, name: &[u8]) -> Option<T> {
    let found = disk.all(Space::Meta).into_iter().find(|(key, _)| key == name);
    found.map(|(_, value)| codec::decode(Space::Meta, &value).expect("a record of the engine"))
}

fn rows<T: serde::de::DeserializeOwned>(disk: &SimDisk, space: Space) -> Vec<(Vec<u8>, T)> {
    let decode = |value: &[u8]| codec::decode(space, value).unwrap_or_else(|error| panic!("{error}"));
    disk.all(space).into_iter().map(|(key, value)| (key, decode(&value))).collect()
}

/// Everything that must hold whenever a commit has been made.
pub fn disk(disk: &SimDisk, stored: &Stored, model: &Model, now: Time) {
    as_the_model_says(stored, model);
    let mut implied = implied(stored);
    places(disk, &implied);
    timers(disk, stored, implied.remove(&Space::Timers).unwrap_or_default());
    bodies(disk, stored);
    model.check_counts(disk, stored);
    lanes(disk, stored);
    locks(stored, model, now);
    plugins(stored);
    nothing_left_over(disk, stored);
    model.flows.check(stored);
    model.check_rounds(stored);
}

fn as_the_model_says(stored: &Stored, model: &Model) {
    let lost: Vec<_> = model.jobs.iter().filter(|(id, _)| !stored.jobs.contains_key(id)).collect();
    assert!(lost.is_empty(), "jobs that are lost: {lost:?}");
    for (id, job) in &stored.jobs {
        let known = model.jobs.get(id).unwrap_or_else(|| panic!("the model does not know {job:?}"));
        let ModelJob { queue, priority, state, starts, .. } = known;
        assert_eq!((&job.queue, job.priority, job.state), (queue, *priority, *state), "{job:?} should be {known:?}");
        assert_eq!(job.fence, *starts, "claims are counted: {job:?} should be {known:?}");
        assert_eq!(job.run.is_some(), job.state == State::Active, "an attempt lives while its job is active: {job:?}");
        if let Some(run) = &job.run {
            assert_eq!(run.token.fence, job.fence, "the token is the latest claim's: {job:?}");
        }
        assert!(job.failures <= job.policy.max_attempts + job.granted, "more failures than runs: {job:?}");
        assert!(job.depth <= model.fair_use.spawn_depth, "it is too deep: {job:?}");
    }
}

/// A canary has had exactly its share, and counts each of its attempts once; one queue has one plugin.
fn plugins(stored: &Stored) {
    let mut served = BTreeSet::new();
    for plugin in &stored.plugins {
        if let Some(canary) = &plugin.canary {
            assert_eq!(canary.given, canary.seen * u64::from(canary.share) / 100, "{canary:?}");
            assert!(u64::from(canary.ended) <= canary.given && canary.failed <= canary.ended, "{canary:?}");
            assert!(plugin.version(&canary.version).is_some(), "a canary that is not there: {plugin:?}");
        }
        assert!(plugin.active.is_none() || plugin.active_version().is_some(), "it is not there: {plugin:?}");
        for queue in plugin.queues.iter().filter(|_| plugin.active.is_some()) {
            assert!(served.insert(queue.clone()), "{queue} has two plugins");
        }
    }
}

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// The entries that the records of all jobs imply.
fn implied(stored: &Stored) -> BTreeMap<Space, Rows> {
    let mut implied: BTreeMap<Space, Rows> = BTreeMap::new();
    for job in stored.jobs.values() {
        let queue = stored.queue_of(job);
        for ((space, key), value) in index::entries(job, queue).into_iter().chain(index::lasting(job, queue)) {
            implied.entry(space).or_default().insert(key, value);
        }
    }
    for bulk in stored.bulks.values().filter(|bulk| !bulk.status.is_over()) {
        let key = keys::blob_of_bulk(&bulk.jobs, bulk.id);
        implied.entry(Space::Blobs).or_default().insert(key, vec![codec::FORMAT]);
    }
    implied
}

/// `Ready` or `States`, never both and never neither; what runs here; which job holds which blob; and all
/// that searches go by.
fn places(disk: &SimDisk, implied: &BTreeMap<Space, Rows>) {
    let spaces = [Space::Ready, Space::States, Space::Locals, Space::Blobs, Space::Born, Space::Marks, Space::Rounds];
    for space in spaces {
        let found = disk.all(space);
        let found: Vec<(&[u8], &[u8])> = found.iter().map(|(key, value)| (&key[..], &value[..])).collect();
        let expected = implied.get(&space);
        let expected: Vec<(&[u8], &[u8])> =
            expected.into_iter().flatten().map(|(key, value)| (&key[..], &value[..])).collect();
        assert_eq!(found, expected, "the entries in {space:?}");
    }
}

fn timers(disk: &SimDisk, stored: &Stored, implied: Rows) {
    let mut expected: BTreeSet<Vec<u8>> = implied.into_keys().collect();
    let mut fired = BTreeSet::new();
    for job in stored.jobs.values() {
        let stopping = job.run.as_ref().and_then(|run| run.stop.as_ref());
        if let (Some(at), Some(stop)) = (job.expire_at, stopping)
            && stops_for_good(&stop.then)
        {
            // Its expiry has had its effect: the attempt has been asked to stop.
            fired.insert(keys::timer(at, &TimerFor::Expire(job.id)));
        }
    }
    for (key, lock) in &stored.locks {
        if lock.until == Until::Period {
            expected.insert(keys::timer(lock.expires_at, &TimerFor::Unlock(key.clone())));
        }
    }
    for schedule in &stored.schedules {
        if let Some(at) = schedule.next_run {
            expected.insert(keys::timer(at, &TimerFor::Schedule(schedule.name.clone())));
        }
    }
    let found: BTreeSet<Vec<u8>> = disk.all(Space::Timers).into_iter().map(|(key, _)| key).collect();
    let name = |key: &Vec<u8>| keys::read_timer(key);
    if let Some(key) = found.symmetric_difference(&expected).find(|key| !fired.contains(*key)) {
        panic!("the timer {:?} is {}", name(key), if found.contains(key) { "left over" } else { "missing" });
    }
    for key in &found {
        let (at, what) = name(key).expect("a timer's key");
        assert!(at >= stored.meta.timers_from, "{what:?} at {at} lies before {}", stored.meta.timers_from);
    }
}

fn bodies(disk: &SimDisk, stored: &Stored) {
    let mut expected = BTreeMap::new();
    for job in stored.jobs.values() {
        let bodies =
            [(BodyKind::Payload, job.payload), (BodyKind::Checkpoint, job.checkpoint), (BodyKind::Result, job.result)];
        for (kind, body) in bodies {
            if let BodyRef::Inline { len } = body {
                expected.insert(keys::body(job.id, kind), len as usize);
            }
        }
    }
    // Each begins with the byte of its format.
    let found: BTreeMap<Vec<u8>, usize> =
        disk.all(Space::Bodies).into_iter().map(|(key, value)| (key, value.len() - 1)).collect();
    assert_eq!(found, expected, "bodies and their lengths");
}

/// Every place has a lane that leads to it.
fn lanes(disk: &SimDisk, stored: &Stored) {
    let cursors: BTreeMap<Vec<u8>, Vec<u8>> =
        disk.all(Space::Lanes).into_iter().map(|(key, value)| (key, value.to_vec())).collect();
    for job in stored.jobs.values().filter(|job| job.state == State::Pending) {
        let lane = index::lane_of(job, stored.queue_of(job));
        let cursor = cursors.get(&lane).unwrap_or_else(|| panic!("no lane leads to {job:?}"));
        let cursor = cursor.last_chunk::<8>().map(|bytes| u64::from_be_bytes(*bytes)).expect("a cursor");
        assert!(cursor <= job.ready_seq, "the lane's cursor {cursor} has passed {job:?}");
    }
}

fn locks(stored: &Stored, model: &Model, now: Time) {
    for (key, lock) in &model.locks {
        if lock.expires_at > now {
            let found =
                stored.locks.get(&keys::lock(key)).unwrap_or_else(|| panic!("the lock {key:?} {lock:?} is gone"));
            assert_eq!((found.job, found.expires_at), (lock.job, lock.expires_at), "the lock {key:?}");
        }
    }
    let known: BTreeMap<Vec<u8>, _> = model.locks.iter().map(|(key, lock)| (keys::lock(key), lock)).collect();
    for (key, lock) in &stored.locks {
        let holder = known.get(key).map(|lock| lock.job);
        assert_eq!(holder, Some(lock.job), "a lock that nobody should hold: {lock:?}");
    }
}

fn nothing_left_over(disk: &SimDisk, stored: &Stored) {
    for space in [Space::Errors, Space::Logs, Space::Bodies] {
        for (key, _) in disk.all(space) {
            let id = JobId::from_bytes(*key.first_chunk::<16>().expect("a job's id"));
            assert!(stored.jobs.contains_key(&id), "{space:?} of {id}, which is gone");
        }
    }
    let queues: BTreeSet<u32> = stored.queues.values().map(|queue| queue.id).collect();
    for space in [Space::Lanes, Space::Limiters] {
        for (key, _) in disk.all(space) {
            let id = u32::from_be_bytes(*key.first_chunk::<4>().expect("a queue's id"));
            assert!(queues.contains(&id), "{space:?} of queue {id}, which is gone");
        }
    }
}

/// What must hold once the engine has nothing more to do at this moment: everything due has happened.
pub fn at_rest(stored: &Stored, now: Time) {
    for job in stored.jobs.values() {
        let late = |at: Option<Time>| at.is_some_and(|at| at <= now);
        let waiting = matches!(job.state, State::Scheduled | State::Retrying);
        assert!(!(waiting && late(job.scheduled_at)), "its time has come: {job:?}");
        let stopping = job.run.as_ref().is_some_and(|run| run.stop.is_some());
        assert!(job.is_ended() || stopping || !late(job.expire_at), "it should have expired: {job:?}");
        assert!(!(job.is_ended() && late(job.keep_until)), "it should have been removed: {job:?}");
        let watch = job.run.as_ref().and_then(|run| run.watch_at);
        assert!(!late(watch), "its lease should have lapsed: {job:?}");
        let queue = &stored.queues[job.queue.as_str()];
        if let (Some(keep), None) = (queue.settings.retention.of(job.state), job.keep_until) {
            assert!(now.since(job.since) < keep.age, "its retention is over: {job:?}");
        }
    }
    for queue in stored.queues.values() {
        for state in State::ALL {
            let Some(most) = queue.settings.retention.of(state).and_then(|keep| keep.count) else { continue };
            let here = |job: &&Rc<Job>| job.queue == queue.name && job.state == state;
            let kept = stored.jobs.values().filter(here).filter(|job| job.keep_until.is_some()).count() as u64;
            // What ended in this very millisecond is looked at in the next.
            let count = stored.jobs.values().filter(here).filter(|job| job.since < now).count() as u64;
            assert!(count <= most + kept, "{count} {} jobs are stored in {}, of {most}", state.as_str(), queue.name);
        }
    }
    for lock in stored.locks.values().filter(|lock| lock.until == Until::Period) {
        assert!(lock.holds(now), "its period is over: {lock:?}");
    }
    for schedule in &stored.schedules {
        assert!(schedule.next_run.is_none_or(|at| at > now), "it should have run: {schedule:?}");
    }
}

/// The request behind a stop that is under way outranks an expiry.
fn stops_for_good(then: &AfterStop) -> bool {
    matches!(then, AfterStop::Expire | AfterStop::Delete | AfterStop::Remove)
}
