//! How keys are built. Numbers are big-endian, so that key order is number order; texts end in a zero byte, which no
//! text may contain.

use windlass_core::{Blob, BodyKind, BulkId, Job, JobId, LockKey, Name, Namespace, Priority, State, Time};

/// What is found by its name, in its namespace: a queue, a plugin, a schedule, a secret.
pub fn named(name: &Name) -> Vec<u8> {
    name.qualified().as_bytes().to_vec()
}

pub fn job(id: JobId) -> Vec<u8> {
    id.to_bytes().to_vec()
}

pub fn body(id: JobId, kind: BodyKind) -> Vec<u8> {
    let mut key = job(id);
    key.push(kind as u8);
    key
}

/// An error of the job, by the claim it belongs to.
pub fn error(id: JobId, fence: u32) -> Vec<u8> {
    let mut key = job(id);
    key.extend(fence.to_be_bytes());
    key
}

/// An attempt that has ended, by its claim.
pub fn attempt(id: JobId, number: u32) -> Vec<u8> {
    error(id, number)
}

/// A run of log lines, by the number of its last line.
pub fn log(id: JobId, last: u64) -> Vec<u8> {
    let mut key = job(id);
    key.extend(last.to_be_bytes());
    key
}

/// The lanes of one queue, priority and target.
pub fn ring(queue: u32, priority: Priority, target: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(48);
    key.extend(queue.to_be_bytes());
    key.push(priority.rank());
    key.extend(target.as_bytes());
    key.push(0);
    key
}

pub fn lane(queue: u32, priority: Priority, target: &str, limit_key: &str) -> Vec<u8> {
    let mut key = ring(queue, priority, target);
    key.extend(limit_key.as_bytes());
    key.push(0);
    key
}

/// A place in a lane: the lane's key and the sequence number.
pub fn ready(lane: &[u8], seq: u64) -> Vec<u8> {
    let mut key = Vec::with_capacity(lane.len() + 8);
    key.extend(lane);
    key.extend(seq.to_be_bytes());
    key
}

/// The sequence number at the end of a ready key.
pub fn ready_seq(key: &[u8]) -> Option<u64> {
    key.last_chunk::<8>().map(|bytes| u64::from_be_bytes(*bytes))
}

pub fn states(queue: u32, state: State) -> Vec<u8> {
    let mut key = Vec::with_capacity(32);
    key.extend(queue.to_be_bytes());
    key.push(state as u8);
    key
}

pub fn state(queue: u32, state: State, since: Time, id: JobId) -> Vec<u8> {
    let mut key = states(queue, state);
    key.extend(since.millis().to_be_bytes());
    key.extend(id.to_bytes());
    key
}

/// The time and the job of a key of the state index.
pub(crate) fn read_state(key: &[u8]) -> Option<(Time, JobId)> {
    let since = key.get(5..13)?.try_into().ok()?;
    Some((Time(u64::from_be_bytes(since)), last_job(key)?))
}

/// The job id at the end of an index key.
pub fn last_job(key: &[u8]) -> Option<JobId> {
    key.last_chunk::<16>().map(|bytes| JobId::from_bytes(*bytes))
}

/// What a timer is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimerFor {
    Due(JobId),
    Expire(JobId),
    /// The ended job may be removed.
    Retire(JobId),
    /// A unique lock that outlives its job.
    Unlock(Vec<u8>),
    Schedule(Name),
    /// A running external attempt wants looking at.
    Watch(JobId),
}

pub fn timer(at: Time, what: &TimerFor) -> Vec<u8> {
    let mut key = Vec::with_capacity(32);
    key.extend(at.millis().to_be_bytes());
    let (kind, rest): (u8, &[u8]) = match what {
        TimerFor::Due(id) => (0, &id.to_bytes()),
        TimerFor::Expire(id) => (1, &id.to_bytes()),
        TimerFor::Retire(id) => (2, &id.to_bytes()),
        TimerFor::Unlock(lock) => (3, lock),
        TimerFor::Schedule(name) => (4, name.qualified().as_bytes()),
        TimerFor::Watch(id) => (5, &id.to_bytes()),
    };
    key.push(kind);
    key.extend(rest);
    key
}

pub fn read_timer(key: &[u8]) -> Option<(Time, TimerFor)> {
    let (at, rest) = key.split_first_chunk::<8>()?;
    let (kind, rest) = rest.split_first()?;
    let id = || rest.try_into().ok().map(JobId::from_bytes);
    let what = match kind {
        0 => TimerFor::Due(id()?),
        1 => TimerFor::Expire(id()?),
        2 => TimerFor::Retire(id()?),
        3 => TimerFor::Unlock(rest.to_vec()),
        4 => TimerFor::Schedule(Name::stored(std::str::from_utf8(rest).ok()?)),
        5 => TimerFor::Watch(id()?),
        _ => return None,
    };
    Some((Time(u64::from_be_bytes(*at)), what))
}

pub fn limiter(queue: u32, limit_key: &str) -> Vec<u8> {
    let mut key = queue.to_be_bytes().to_vec();
    key.extend(limit_key.as_bytes());
    key
}

pub fn lock(lock: &LockKey) -> Vec<u8> {
    let (kind, within, key) = match lock {
        LockKey::Queue(queue, key) => (0u8, queue.qualified(), key),
        LockKey::Scope(scope, key) => (1u8, scope.as_str(), key),
    };
    let mut out = vec![kind];
    out.extend((within.len() as u16).to_be_bytes());
    out.extend(within.as_bytes());
    out.extend(key.as_bytes());
    out
}

pub fn event(seq: u64) -> Vec<u8> {
    seq.to_be_bytes().to_vec()
}

/// All stored deliveries of a webhook.
pub fn deliveries(webhook: &str) -> Vec<u8> {
    let mut key = webhook.as_bytes().to_vec();
    key.push(0);
    key
}

pub fn delivery(webhook: &str, number: u64) -> Vec<u8> {
    let mut key = deliveries(webhook);
    key.extend(number.to_be_bytes());
    key
}

pub fn blob(blob: &Blob, id: JobId, kind: BodyKind) -> Vec<u8> {
    let mut key = blob.sha256.to_vec();
    key.extend(id.to_bytes());
    key.push(kind as u8);
    key
}

/// Where a job stands in order of creation: the moment it was made, then the random part of its id. For most jobs these
/// are the bytes of the id itself; the id of a child holds its parent's time.
pub type CreationKey = [u8; 16];

pub(crate) fn birth(job: &Job) -> CreationKey {
    let mut birth = job.id.to_bytes();
    birth[..6].copy_from_slice(&job.created_at.millis().to_be_bytes()[2..]);
    birth
}

/// The first birth of a moment.
pub(crate) fn births_from(at: Time) -> CreationKey {
    JobId::new(Time(at.millis().min((1 << 48) - 1)), 0).to_bytes()
}

pub fn born(queue: u32, birth: &CreationKey) -> Vec<u8> {
    let mut key = Vec::with_capacity(20);
    key.extend(queue.to_be_bytes());
    key.extend(birth);
    key
}

/// Added to the kind of a mark when the name of its namespace follows; those of `default` have none.
const IN_NAMESPACE: u8 = 0x80;

/// Something a job carries all its life and can be found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark<'a> {
    Tag(&'a str, &'a str),
    Scope(&'a str),
    Batch(&'a str),
    Parent(JobId),
    Unique(&'a str),
    /// By the first job of the chain.
    Chain(JobId),
}

/// All jobs of a namespace with this mark. No mark's prefix is another's: texts come with their length.
pub fn marks(mark: Mark<'_>, namespace: Option<&str>) -> Vec<u8> {
    let mut key = Vec::with_capacity(48);
    let mut text = |kind: u8, parts: &[&[u8]]| {
        key.push(if namespace.is_some() { kind | IN_NAMESPACE } else { kind });
        for part in namespace.iter().map(|prefix| prefix.as_bytes()).chain(parts.iter().copied()) {
            key.extend((part.len() as u16).to_be_bytes());
            key.extend(part);
        }
    };
    match mark {
        Mark::Tag(name, value) => text(0, &[name.as_bytes(), value.as_bytes()]),
        Mark::Scope(scope) => text(1, &[scope.as_bytes()]),
        Mark::Batch(batch) => text(2, &[batch.as_bytes()]),
        Mark::Parent(parent) => text(3, &[&parent.to_bytes()]),
        Mark::Unique(unique) => text(4, &[unique.as_bytes()]),
        Mark::Chain(first) => text(5, &[&first.to_bytes()]),
    }
    key
}

/// The list of jobs of a bulk operation is held like a body, of a kind of its own.
pub fn blob_of_bulk(blob: &Blob, id: BulkId) -> Vec<u8> {
    let mut key = blob.sha256.to_vec();
    key.extend(id.to_bytes());
    key.push(u8::MAX);
    key
}

pub fn bulk(id: BulkId) -> Vec<u8> {
    id.to_bytes().to_vec()
}

/// All who wait for a job.
pub fn dependants(dependency: JobId) -> Vec<u8> {
    let mut key = vec![0];
    key.extend(dependency.to_bytes());
    key
}

/// All that a job waits for.
pub fn dependencies(dependant: JobId) -> Vec<u8> {
    let mut key = vec![1];
    key.extend(dependant.to_bytes());
    key
}

/// The two sides of one link.
pub fn link(dependency: JobId, dependant: JobId) -> [Vec<u8>; 2] {
    let mut sides = [dependants(dependency), dependencies(dependant)];
    sides[0].extend(dependant.to_bytes());
    sides[1].extend(dependency.to_bytes());
    sides
}

pub fn batch(id: &str) -> Vec<u8> {
    [&[0], id.as_bytes()].concat()
}

/// The prefix of all batches.
pub fn batches() -> Vec<u8> {
    vec![0]
}

/// What the callback of a batch was given: apart, so that a count never rewrites it.
pub fn callback(batch: &str) -> Vec<u8> {
    [&[1], batch.as_bytes()].concat()
}

/// The numbers of a job's children.
pub fn family(parent: JobId) -> Vec<u8> {
    [&[2], &parent.to_bytes()[..]].concat()
}

/// What a chain is, by its first job.
pub fn chain(first: JobId) -> Vec<u8> {
    [&[3], &first.to_bytes()[..]].concat()
}

/// All rows of rounds.
pub fn all_rounds() -> Vec<u8> {
    vec![4]
}

/// The rounds of one queue.
pub fn rounds(queue: u32) -> Vec<u8> {
    let mut key = all_rounds();
    key.extend(queue.to_be_bytes());
    key
}

pub fn round(queue: u32, round: u32) -> Vec<u8> {
    let mut key = rounds(queue);
    key.extend(round.to_be_bytes());
    key
}

/// The queue and the number of a round's key.
pub fn read_round(key: &[u8]) -> Option<(u32, u32)> {
    let queue = key.get(1..5)?.try_into().ok()?;
    let round = key.get(5..9)?.try_into().ok()?;
    Some((u32::from_be_bytes(queue), u32::from_be_bytes(round)))
}

/// Where a queue is in its rounds.
pub fn course(queue: u32) -> Vec<u8> {
    let mut key = vec![5];
    key.extend(queue.to_be_bytes());
    key
}

/// All jobs that wait for a round and for nothing else, in the order they came.
pub fn waits_for_round(queue: u32, round: u32) -> Vec<u8> {
    let mut key = Vec::with_capacity(32);
    key.extend(queue.to_be_bytes());
    key.extend(round.to_be_bytes());
    key
}

pub(crate) fn waits_in_round(queue: u32, round: u32, since: Time, id: JobId) -> Vec<u8> {
    let mut key = waits_for_round(queue, round);
    key.extend(since.millis().to_be_bytes());
    key.extend(id.to_bytes());
    key
}

/// A record; with an empty key, what all records of a queue begin with.
pub fn record(queue: u32, key: &str) -> Vec<u8> {
    of_record(0, queue, key)
}

/// The same, for those that are marked.
pub fn marked(queue: u32, key: &str) -> Vec<u8> {
    of_record(1, queue, key)
}

fn of_record(kind: u8, queue: u32, key: &str) -> Vec<u8> {
    let mut out = vec![kind];
    out.extend(queue.to_be_bytes());
    out.extend(key.as_bytes());
    out
}

/// All records that a job has written.
pub(crate) fn records_of(job: JobId) -> Vec<u8> {
    let mut key = vec![2];
    key.extend(job.to_bytes());
    key
}

pub fn record_of(job: JobId, queue: u32, key: &str) -> Vec<u8> {
    let mut out = records_of(job);
    out.extend(queue.to_be_bytes());
    out.extend(key.as_bytes());
    out
}

/// The queue and the key of an owner's entry.
pub(crate) fn read_record_of(key: &[u8]) -> Option<(u32, String)> {
    let queue = key.get(17..21)?.try_into().ok()?;
    Some((u32::from_be_bytes(queue), String::from_utf8(key.get(21..)?.to_vec()).ok()?))
}

/// An API key by its id.
pub fn api_key(id: &str) -> Vec<u8> {
    [b"k", id.as_bytes()].concat()
}

/// All API keys.
pub(crate) fn api_keys() -> Vec<u8> {
    b"k".to_vec()
}

/// A session by its id.
pub fn session(id: &str) -> Vec<u8> {
    [b"s", id.as_bytes()].concat()
}

/// All sessions.
pub(crate) fn sessions() -> Vec<u8> {
    b"s".to_vec()
}

/// The enqueue rules of a namespace.
pub fn enqueue_rules(namespace: &Namespace) -> Vec<u8> {
    [b"r", namespace.as_str().as_bytes()].concat()
}

pub fn namespace(namespace: &Namespace) -> Vec<u8> {
    [b"n", namespace.as_str().as_bytes()].concat()
}

/// All namespaces that were made.
pub(crate) fn namespaces() -> Vec<u8> {
    b"n".to_vec()
}

/// How much a namespace stores.
pub fn usage(namespace: &Namespace) -> Vec<u8> {
    [b"u", namespace.as_str().as_bytes()].concat()
}

pub(crate) fn usages() -> Vec<u8> {
    b"u".to_vec()
}

/// The key that encrypts the texts of a namespace.
pub fn data_key(id: u32) -> Vec<u8> {
    [b"d", &id.to_be_bytes()[..]].concat()
}

/// All data keys.
pub(crate) fn data_keys() -> Vec<u8> {
    b"d".to_vec()
}

/// Where the audit log stands.
pub fn audit_head() -> Vec<u8> {
    b"a".to_vec()
}

pub fn audit(seq: u64) -> Vec<u8> {
    seq.to_be_bytes().to_vec()
}

/// Work that flows have left to do, in the order it came.
pub fn work(number: u64) -> Vec<u8> {
    let mut key = vec![9];
    key.extend(number.to_be_bytes());
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_reads_back_as_what_it_was_made_for() {
        let id = JobId::new(Time(7), 9);
        for what in [
            TimerFor::Due(id),
            TimerFor::Expire(id),
            TimerFor::Retire(id),
            TimerFor::Unlock(vec![1, 2, 3]),
            TimerFor::Schedule("nightly".parse().expect("a name")),
            TimerFor::Watch(id),
        ] {
            assert_eq!(read_timer(&timer(Time(12), &what)), Some((Time(12), what)));
        }
        assert_eq!(read_timer(b"short"), None);
    }

    #[test]
    fn a_lane_is_no_prefix_of_another() {
        let short = lane(1, Priority::Normal, "", "a");
        let long = lane(1, Priority::Normal, "", "ab");
        assert!(!long.starts_with(&short));
        assert_eq!(ready_seq(&ready(&short, 77)), Some(77));
    }
}
