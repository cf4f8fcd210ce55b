//! fjall as the engine uses it: every commit is counted, and noted in the witness before it is acknowledged.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::disk::data_keys::DataKeys;
use crate::disk::fjall::FjallDisk;
use crate::disk::folder;
use crate::disk::folder::DataFolder;
use crate::disk::witness::Witness;
use crate::disk::{Disk, DiskError, Pairs, Space, Value, WriteBatch};

/// What the watchdog watches: the last acknowledged commit, and since when one is under way.
#[derive(Default)]
pub struct CommitStatus {
    pub acknowledged: AtomicU64,
    /// The engine's time when it began its group, plus one; zero when it is idle.
    pub busy_since: AtomicU64,
    /// What has been committed, for whoever measures.
    pub commits: CommitTally,
}

/// How many commits there were, how large, and how long they took.
#[derive(Default)]
pub struct CommitTally {
    pub count: AtomicU64,
    pub writes: AtomicU64,
    pub bytes: AtomicU64,
    /// Commits that took longer than `SLOW`.
    pub slow: AtomicU64,
    /// Commits by the power of two of their microseconds.
    pub took: [AtomicU64; 32],
    /// What all of them took.
    pub micros: AtomicU64,
}

/// Longer than this is worth a look at the disk.
pub(crate) const SLOW: Duration = Duration::from_millis(100);

impl CommitTally {
    fn add(&self, writes: usize, bytes: usize, took: Duration) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.writes.fetch_add(writes as u64, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        if took > SLOW {
            self.slow.fetch_add(1, Ordering::Relaxed);
        }
        let power = (u128::BITS - took.as_micros().leading_zeros()).min(31) as usize;
        self.took[power].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(took.as_micros() as u64, Ordering::Relaxed);
    }
}

pub struct Acknowledged {
    pub disk: FjallDisk,
    pub folder: Arc<DataFolder>,
    pub witness: Arc<Witness>,
    pub commit_status: Arc<CommitStatus>,
}

impl Disk for Acknowledged {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Value>, DiskError> {
        self.disk.get(space, key)
    }

    fn scan(&self, space: Space, from: &[u8], until: &[u8], limit: usize) -> Result<Pairs, DiskError> {
        self.disk.scan(space, from, until, limit)
    }

    fn data_keys(&self) -> Option<&Arc<DataKeys>> {
        self.disk.data_keys()
    }

    fn commit(&mut self, batch: WriteBatch, number: u64) -> Result<(), DiskError> {
        // The journal's file accepts writes even after it was unlinked.
        self.folder.is_here().map_err(DiskError::Gone)?;
        let writes = batch.writes.len();
        let bytes = batch.writes.iter().map(|((_, key), value)| key.len() + value.as_ref().map_or(0, Vec::len)).sum();
        let began = Instant::now();
        self.disk.commit(batch, number)?;
        self.commit_status.commits.add(writes, bytes, began.elapsed());
        self.witness.write(number).map_err(|error| DiskError::Commit(folder::explain(&error)))?;
        self.commit_status.acknowledged.store(number, Ordering::Relaxed);
        Ok(())
    }
}
