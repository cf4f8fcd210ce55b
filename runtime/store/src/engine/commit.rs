//! One commit per group: what was decided becomes one batch, and only once it is durable does anybody hear of it.

use windlass_core::Job;

use crate::disk::{Disk, DiskError, Space, WriteBatch};
use crate::disk::{codec, index, keys};
use crate::engine::{Before, Engine, META_KEY};
use crate::limits;

impl<D: Disk> Engine<D> {
    /// Gathers everything changed since the last commit into the batch and makes it durable.
    pub(crate) fn commit(&mut self) -> Result<(), DiskError> {
        let mut timers = std::mem::take(&mut self.timer_changes);
        self.gather_jobs(&mut timers);
        self.gather_rows();
        self.flows.gather(&mut self.batch);
        self.rounds.gather(&mut self.batch);
        self.gather_events();
        self.gather_logs()?;
        self.meta.commit += 1;
        self.meta.now = self.now;
        self.meta.timers_from = self.timers.floor();
        // The next group is likely to be as large as this one.
        let room = WriteBatch::with_capacity(self.batch.writes.len());
        let mut batch = std::mem::replace(&mut self.batch, room);
        batch.put(Space::Meta, META_KEY.to_vec(), codec::encode(&self.meta));
        self.disk.commit(batch, self.meta.commit)?;
        for (key, added) in timers {
            if added {
                self.timers.added(key);
            } else {
                self.timers.removed(&key);
            }
        }
        self.locks.clear();
        self.removed.clear();
        self.new_errors.clear();
        self.new_records.clear();
        for ended in self.local_ended.drain(..) {
            self.local.remove(&ended);
        }
        for (name, queue) in &mut self.queues {
            if std::mem::take(&mut queue.line_touched) {
                for ring in queue.line.rings() {
                    if ring.committed() {
                        self.awake.insert(name.clone());
                    }
                }
            }
        }
        self.hard = false;
        self.soft_since = None;
        Ok(())
    }

    /// Writes each changed job once, and the difference of its index entries.
    fn gather_jobs(&mut self, timers: &mut Vec<(Vec<u8>, bool)>) {
        for (id, Before { entries: before, lasting }) in std::mem::take(&mut self.dirty) {
            let after = match self.jobs.get(id) {
                Some(job) if !self.removed.contains(&id) => {
                    self.batch.put(Space::Jobs, keys::job(id), codec::encode(job));
                    let queue = self.queues.get(&job.queue).map_or(0, |queue| queue.row.id);
                    if lasting != Some(queue) {
                        write_lasting(&mut self.batch, job, lasting, queue);
                    }
                    index::entries(job, queue)
                }
                _ => {
                    self.batch.delete(Space::Jobs, keys::job(id));
                    Vec::new()
                }
            };
            for (space, key) in &before {
                if !after.iter().any(|(entry, _)| entry.0 == *space && entry.1 == *key) {
                    self.batch.delete(*space, key.clone());
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
                    self.batch.put(entry.0, entry.1, value);
                }
            }
            if self.jobs.get(id).is_some_and(|job| job.is_ended()) {
                // It is not likely to be asked for again soon: room for those that are.
                self.jobs.remove(id);
            }
        }
    }

    fn gather_rows(&mut self) {
        self.gather_plugins();
        for (key, lock) in &self.locks {
            match lock {
                Some(lock) => self.batch.put(Space::Locks, key.clone(), codec::encode(lock)),
                None => self.batch.delete(Space::Locks, key.clone()),
            }
        }
        for (id, limit_key) in std::mem::take(&mut self.dirty_limiters) {
            let queue = self.queue_names.get(&id).and_then(|name| self.queues.get(name));
            let rate = queue.and_then(|queue| queue.row.settings.key_rate);
            let key = keys::limiter(id, &limit_key);
            let now = self.now;
            let limiter = self.key_limiters.get_mut(&(id, limit_key));
            match limiter.and_then(|limiter| (!limiter.is_idle(rate, now)).then_some(limiter)) {
                Some(limiter) => self.batch.put(Space::Limiters, key, codec::encode(limiter)),
                None => self.batch.delete(Space::Limiters, key),
            }
        }
        if self.key_limiters.len() > limits::KEY_LIMITERS {
            self.key_limiters.clear();
        }
        let next_ready = self.meta.next_ready;
        for queue in self.queues.values_mut() {
            if queue.line_touched {
                for ring in queue.line.rings() {
                    ring.settle(&mut self.batch, next_ready);
                }
            }
            if std::mem::take(&mut queue.dirty) {
                self.batch.put(Space::Queues, queue.row.name.as_bytes().to_vec(), codec::encode(&queue.row));
                if queue.row.settings.rate.is_some() {
                    self.batch.put(Space::Limiters, keys::limiter(queue.row.id, ""), codec::encode(&queue.limiter));
                }
            }
        }
    }

    /// Lets everybody know. Only ever called with nothing undecided or uncommitted that they would hear of.
    pub(crate) fn release(&mut self) {
        self.paused_hub.send_if_modified(|told| std::mem::replace(told, self.paused) != self.paused);
        self.show_soft_events();
        for event in std::mem::take(&mut self.to_show) {
            // Nobody listening is no reason to stop.
            let _ = self.hub.send(event);
        }
        for effect in std::mem::take(&mut self.effects) {
            let _ = self.orders.send(effect);
        }
        self.waiting.lost.extend(self.outbox.release());
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
