//! One commit per group: what was decided becomes one write batch, and nothing is answered or published before it is
//! durable.

mod apply;
pub mod audit;
mod encrypt;
pub(crate) mod event_log;
pub mod release;
pub(crate) mod unsaved;

use windlass_core::Job;

use crate::disk::{Disk, DiskError, Space, WriteBatch};
use crate::disk::{codec, index, keys};
use crate::engine::commit::unsaved::{Before, TimerChange};
use crate::engine::{Engine, META_KEY};

impl<D: Disk> Engine<D> {
    /// Gathers everything that has changed since the last commit into one write batch and makes it durable.
    pub(crate) fn commit(&mut self) -> Result<(), DiskError> {
        let timers = self.gather();
        self.meta.commit += 1;
        self.meta.now = self.now;
        self.meta.timers_from = self.timers.floor();
        let mut batch = self.unsaved.take_batch();
        batch.put(Space::Meta, META_KEY.to_vec(), codec::encode(&self.meta));
        let made = self.encrypt(&mut batch)?;
        self.disk.commit(batch, self.meta.commit)?;
        if let Some(keys) = self.disk.data_keys() {
            keys.saved(&made);
        }
        for (key, added) in timers {
            if added {
                self.timers.added(key);
            } else {
                self.timers.removed(&key);
            }
        }
        self.unsaved.committed();
        self.queues.committed();
        Ok(())
    }

    /// Adds the rows of everything that is cached and has changed. Returns the timers that were added and removed.
    fn gather(&mut self) -> Vec<TimerChange> {
        let mut timers = self.unsaved.take_timers();
        self.gather_jobs(&mut timers);
        self.unsaved.gather_locks();
        let (now, batch) = (self.now, &mut self.unsaved.batch);
        self.catalogue.gather(batch);
        let queues = &self.queues;
        self.limiters.gather(batch, |queue| queues.by_id(queue)?.row.settings.key_rate, now);
        self.queues.gather(batch, self.meta.next_ready);
        self.quotas.gather(batch);
        self.flows.gather(batch);
        self.rounds.gather(batch);
        self.release.show(self.events.gather(batch, now));
        self.events.trim(batch, &mut self.meta, &self.tuning, self.paused.is_some(), now);
        self.logs.gather(batch, self.tuning.cached_jobs);
        timers
    }

    /// Writes each changed job once, and the difference of its index entries.
    fn gather_jobs(&mut self, timers: &mut Vec<TimerChange>) {
        let is_encrypted = self.disk.data_keys().is_some_and(|keys| keys.is_on());
        for (id, Before { entries: before, lasting }) in self.unsaved.take_jobs() {
            let after = match self.jobs.get(id) {
                Some(job) if !self.unsaved.is_removed(id) => {
                    self.unsaved.batch.put(Space::Jobs, keys::job(id), codec::encode_in(Space::Jobs, job));
                    if is_encrypted {
                        self.unsaved.note_queue(id, job.queue.clone());
                    }
                    let queue = self.queues.id_of(&job.queue).unwrap_or(0);
                    if lasting != Some(queue) {
                        write_lasting(&mut self.unsaved.batch, job, lasting, queue);
                    }
                    index::entries(job, queue)
                }
                _ => {
                    self.unsaved.batch.delete(Space::Jobs, keys::job(id));
                    Vec::new()
                }
            };
            for (space, key) in &before {
                if !after.iter().any(|(entry, _)| entry.0 == *space && entry.1 == *key) {
                    self.unsaved.batch.delete(*space, key.clone());
                    if *space == Space::Timers {
                        timers.push((key.clone(), false));
                    }
                }
            }
            for (entry, value) in after {
                if !before.contains(&entry) {
                    if entry.0 == Space::Timers {
                        timers.push((entry.1.clone(), true));
                    }
                    self.unsaved.batch.put(entry.0, entry.1, value);
                }
            }
            if self.jobs.get(id).is_some_and(|job| job.is_ended()) {
                // It is not likely to be needed again soon: room for those that are.
                self.jobs.remove(id);
            }
        }
    }

    /// Releases what the group has decided. Called after its commit, or if nothing in it had to be durable.
    pub(crate) fn publish(&mut self) {
        let progress = self.events.take_progress(self.meta.events_reserved);
        if !progress.is_empty() {
            self.unsaved.may_wait(self.now);
            self.release.show(progress);
        }
        let released = self.release.send(&self.channels);
        self.waiting.lost.extend(released.undelivered);
        for ended in released.ended {
            self.local.remove(&ended);
        }
    }
}

/// The entries of a job that is new, or has come from another queue.
fn write_lasting(batch: &mut WriteBatch, job: &Job, from: Option<u32>, queue: u32) {
    if let Some(from) = from {
        batch.delete(Space::Born, keys::born(from, &keys::birth(job)));
    }
    for ((space, key), value) in index::lasting(job, queue) {
        if space == Space::Born || from.is_none() {
            batch.put(space, key, value);
        }
    }
}
