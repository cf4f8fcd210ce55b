//! The seam below the engine: a disk that can get, scan and commit. The real one is fjall; the simulator's crashes.

pub(crate) mod blobs;
pub(crate) mod check;
pub mod codec;
pub(crate) mod counted;
pub(crate) mod damage;
pub mod data_keys;
pub(crate) mod encrypted;
pub(crate) mod fjall;
pub(crate) mod folder;
// Public for the simulator, which reads the disk itself.
#[doc(hidden)]
pub mod index;
// Public for the simulator, which reads the disk itself.
#[doc(hidden)]
pub mod keys;
pub(crate) mod ownership;
pub(crate) mod reclaim;
pub(crate) mod watchdog;
pub(crate) mod witness;

use std::path::PathBuf;
use std::sync::Arc;

pub use ::fjall::Slice as Value;
use rustc_hash::FxHashMap;

use crate::disk::data_keys::DataKeys;

/// A keyspace. Each holds one kind of row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// One row: counters and cursors that every commit carries.
    Meta,
    Jobs,
    /// Payloads, checkpoints and results, apart from the jobs so that a move never rewrites them.
    Bodies,
    /// Pending jobs in their lanes: queue, priority, target, key, sequence.
    Ready,
    /// The lanes of `Ready`, each with a cursor.
    Lanes,
    /// All other jobs by queue, state and time.
    States,
    /// Jobs that run in this process: what a crash has killed.
    Locals,
    /// What is due when.
    Timers,
    Queues,
    /// Recent starts, where a rate limit needs them.
    Limiters,
    Locks,
    Errors,
    /// Attempts that have ended, by the claim they belong to.
    Attempts,
    Logs,
    Events,
    Plugins,
    Schedules,
    Webhooks,
    /// Which job holds which blob file.
    Blobs,
    /// All jobs by queue and creation: written once, moved only with the queue.
    Born,
    /// Jobs by tag, scope, batch, parent and unique key, each in order of creation. Written once.
    Marks,
    /// Actions on many jobs at once, and how far they are.
    Bulks,
    /// What the operator allows each plugin.
    Grants,
    /// Encrypted by the server.
    Secrets,
    /// Which job waits for which, from both sides.
    Links,
    /// Batches, and what is left to do for flows.
    Flows,
    /// Jobs that wait for a round, by queue and round.
    Rounds,
    /// What handlers have noted: by queue and key, by mark, by job.
    Records,
    /// API keys, enqueue rules, namespaces, and where the audit log stands.
    Access,
    /// The audit log, by number.
    Audit,
    /// What was sent to each webhook lately.
    Deliveries,
    /// Queues whose incoming webhooks must be signed, with their encrypted secrets.
    InboundHooks,
}

impl Space {
    pub const ALL: [Space; 32] = [
        Space::Meta,
        Space::Jobs,
        Space::Bodies,
        Space::Ready,
        Space::Lanes,
        Space::States,
        Space::Locals,
        Space::Timers,
        Space::Queues,
        Space::Limiters,
        Space::Locks,
        Space::Errors,
        Space::Attempts,
        Space::Logs,
        Space::Events,
        Space::Plugins,
        Space::Schedules,
        Space::Webhooks,
        Space::Blobs,
        Space::Born,
        Space::Marks,
        Space::Bulks,
        Space::Grants,
        Space::Secrets,
        Space::Links,
        Space::Flows,
        Space::Rounds,
        Space::Records,
        Space::Access,
        Space::Audit,
        Space::Deliveries,
        Space::InboundHooks,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Space::Meta => "meta",
            Space::Jobs => "jobs",
            Space::Bodies => "bodies",
            Space::Ready => "ready",
            Space::Lanes => "lanes",
            Space::States => "states",
            Space::Locals => "locals",
            Space::Timers => "timers",
            Space::Queues => "queues",
            Space::Limiters => "limiters",
            Space::Locks => "locks",
            Space::Errors => "errors",
            Space::Attempts => "attempts",
            Space::Logs => "logs",
            Space::Events => "events",
            Space::Plugins => "plugins",
            Space::Schedules => "schedules",
            Space::Webhooks => "webhooks",
            Space::Blobs => "blobs",
            Space::Born => "born",
            Space::Marks => "marks",
            Space::Bulks => "bulks",
            Space::Grants => "grants",
            Space::Secrets => "secrets",
            Space::Links => "links",
            Space::Flows => "flows",
            Space::Rounds => "rounds",
            Space::Records => "records",
            Space::Access => "access",
            Space::Audit => "audit",
            Space::Deliveries => "deliveries",
            Space::InboundHooks => "inbound_hooks",
        }
    }

    /// What it holds, as a user would call it.
    pub fn holds(self) -> &'static str {
        match self {
            Space::Meta => "the counters of the store",
            Space::Jobs => "jobs",
            Space::Bodies => "payloads, checkpoints and results",
            Space::Ready
            | Space::Lanes
            | Space::States
            | Space::Locals
            | Space::Timers
            | Space::Blobs
            | Space::Born
            | Space::Marks => "an index of jobs",
            Space::Queues => "queues",
            Space::Limiters => "rate limits",
            Space::Locks => "unique keys",
            Space::Errors => "errors of attempts",
            Space::Attempts => "attempts that have ended",
            Space::Logs => "logs of jobs",
            Space::Events => "events",
            Space::Plugins => "plugins",
            Space::Schedules => "schedules",
            Space::Webhooks => "webhooks",
            Space::Bulks => "bulk operations",
            Space::Grants => "grants",
            Space::Secrets => "secrets",
            Space::Links | Space::Flows => "dependencies and batches",
            Space::Rounds => "rounds",
            Space::Records => "records of handlers",
            Space::Access => "keys and namespaces",
            Space::Audit => "the audit log",
            Space::Deliveries => "deliveries of webhooks",
            Space::InboundHooks => "inbound webhooks",
        }
    }
}

/// Writes that become durable together or not at all. One key is written once, with its last value.
#[derive(Clone, Debug, Default)]
pub struct WriteBatch {
    pub writes: FxHashMap<(Space, Vec<u8>), Option<Vec<u8>>>,
}

impl WriteBatch {
    pub fn with_capacity(writes: usize) -> WriteBatch {
        WriteBatch { writes: FxHashMap::with_capacity_and_hasher(writes, Default::default()) }
    }

    pub fn put(&mut self, space: Space, key: Vec<u8>, value: Vec<u8>) {
        self.writes.insert((space, key), Some(value));
    }

    pub fn delete(&mut self, space: Space, key: Vec<u8>) {
        self.writes.insert((space, key), None);
    }

    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }
}

pub type Pairs = Vec<(Value, Value)>;

/// What the engine needs of a disk.
pub trait Disk {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Value>, DiskError>;

    /// Pairs from `from` (inclusive) to `until` (exclusive), in key order, at most `limit`.
    fn scan(&self, space: Space, from: &[u8], until: &[u8], limit: usize) -> Result<Pairs, DiskError>;

    /// Makes the batch durable as one; `number` rises by one with each. An error means unknown, not undone.
    fn commit(&mut self, batch: WriteBatch, number: u64) -> Result<(), DiskError>;

    /// The keys that encrypt its rows. Reads return what was written, whether they were encrypted or not.
    fn data_keys(&self) -> Option<&Arc<DataKeys>> {
        None
    }

    /// Everything under a prefix, in pages so that no scan holds a whole keyspace in memory.
    fn each(&self, space: Space, prefix: &[u8], visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), DiskError> {
        const PAGE: usize = 1_024;
        let until = after_prefix(prefix);
        let mut from = prefix.to_vec();
        loop {
            let page = self.scan(space, &from, &until, PAGE)?;
            for (key, value) in &page {
                visit(key, value);
            }
            match page.last() {
                Some((key, _)) if page.len() == PAGE => {
                    from = key.to_vec();
                    from.push(0);
                }
                _ => return Ok(()),
            }
        }
    }
}

impl DiskError {
    /// Whether something that was stored cannot be read, while the rest can: trying again does not help.
    pub fn is_damage(&self) -> bool {
        matches!(self, DiskError::Damaged { .. } | DiskError::Row { .. })
    }
}

/// The first key after all that start with `prefix`.
pub(crate) fn after_prefix(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    // Nothing but 0xff, or nothing at all: past every key we make.
    vec![u8::MAX; 64]
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum DiskError {
    /// The system refused a read.
    #[error("{0}")]
    Io(String),
    /// A commit failed: whether it was written is not known.
    #[error("{0}")]
    Commit(String),
    /// The data folder is no longer the one that was opened: nothing was written.
    #[error("{0}")]
    Gone(String),
    /// A file does not hold what was written to it, or is missing.
    #[error("{file}, which holds {holds}, is damaged: {why}", file = file.display())]
    Damaged { file: PathBuf, holds: &'static str, why: String },
    #[error("a row in `{space}` cannot be read: {why}", space = space.name())]
    Row { space: Space, why: String },
}
