//! Job rows in memory: the ones used lately, so that a job's three moves cost no three reads.

use rustc_hash::FxHashMap;
use windlass_core::{Job, JobId};

/// Job rows in memory: the ones used lately. Two halves; when the young one is full the old one is dropped. Boxed,
/// because a row has more than a thousand bytes and a map moves what it holds when it grows.
#[derive(Default)]
pub struct JobCache {
    young: FxHashMap<JobId, Box<Job>>,
    old: FxHashMap<JobId, Box<Job>>,
}

impl JobCache {
    pub fn get(&mut self, id: JobId) -> Option<&Job> {
        if !self.young.contains_key(&id) {
            let job = self.old.remove(&id)?;
            self.young.insert(id, job);
        }
        self.young.get(&id).map(|job| &**job)
    }

    pub fn insert(&mut self, job: Box<Job>) {
        self.old.remove(&job.id);
        self.young.insert(job.id, job);
    }

    pub fn remove(&mut self, id: JobId) -> Option<Box<Job>> {
        let young = self.young.remove(&id);
        self.old.remove(&id).or(young)
    }

    /// Between two groups only: what is dirty must not be dropped.
    pub fn age(&mut self, most: usize) {
        if self.young.len() > most / 2 {
            // The room of the old half is used again.
            std::mem::swap(&mut self.old, &mut self.young);
            self.young.clear();
        }
    }
}
