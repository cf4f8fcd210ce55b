//! Carries a decision into memory and into the batch. Counts, limits, places in lanes and watches follow from the
//! change of the job; nothing else touches them.

use windlass_core::{
    Body, BodyKind, BodyRef, Change, Decision, Event, EventKind, Job, JobId, Lock, LockKey, PastAttempt, QueueName,
    Reply, State, Until, bounds,
};

use crate::claim::lanes::ReadyPlace;
use crate::disk::keys;
use crate::disk::keys::TimerFor;
use crate::disk::{Disk, DiskError, Space};
use crate::disk::{codec, index};
use crate::engine::Engine;
use crate::engine::commit::unsaved::Before;

impl<D: Disk> Engine<D> {
    pub(crate) fn apply(&mut self, decision: Decision) -> Result<Reply, DiskError> {
        for change in decision.changes {
            match change {
                Change::Job(job) => self.put_job(job)?,
                Change::Remove(id) => self.remove_job(id, false)?,
                Change::Forget(id) => self.remove_job(id, true)?,
                Change::Record { job, record } => self.put_record(job, record)?,
                Change::Mark(mark) => self.put_mark(mark)?,
                Change::DropRecords(job) => self.drop_records(job)?,
                Change::Body { job, kind, body } => self.put_body(job, kind, body),
                Change::Lock { key, lock } => self.put_lock(&key, lock)?,
                Change::Error { job, error } => {
                    let fence = self.load(job)?.map_or(0, |job| job.fence);
                    self.unsaved.batch.put(Space::Errors, keys::error(job, fence), codec::encode(&error));
                    self.unsaved.add_error(job, fence);
                    if let Some(old) = fence.checked_sub(bounds::ERRORS) {
                        self.unsaved.batch.delete(Space::Errors, keys::error(job, old));
                    }
                }
                Change::Attempt { job, attempt, replace } => self.put_attempt(job, &attempt, replace)?,
                Change::Chain { first, chain } => self.put_chain(first, *chain)?,
                Change::Link { dependency, dependant } => self.put_link(dependency, dependant)?,
                Change::Event(event) => self.tell(event),
                Change::Plugin(plugin) => self.put_plugin(*plugin),
            }
        }
        self.release.carry_out(decision.effects);
        Ok(decision.reply)
    }

    pub(crate) fn put_job(&mut self, mut job: Box<Job>) -> Result<(), DiskError> {
        let id = job.id;
        let old = self.jobs.remove(id);
        self.note_before(id, old.as_deref());
        let was = old.as_deref().map(|old| (old.queue.clone(), old.state));
        let is = (job.queue.clone(), job.state);
        self.count_attempt(old.as_deref(), Some(&job));
        if was.as_ref() != Some(&is) {
            if let Some((queue, state)) = &was {
                self.count_out(queue, *state, old.as_deref())?;
            }
            self.count_in(&job, was.map(|(_, state)| state))?;
        }
        let stays_in_line = old.as_deref().is_some_and(|old| {
            // A job that is moved to its own queue gets a new place too: the place says since when it waits.
            old.state == State::Pending
                && old.queue == job.queue
                && old.priority == job.priority
                && old.since == job.since
        });
        if job.state == State::Pending && !stays_in_line {
            self.meta.next_ready += 1;
            job.ready_seq = self.meta.next_ready;
            self.join_line(&job)?;
        }
        if let Some(old) = old.as_deref().filter(|old| old.tags != job.tags) {
            self.find_by_other_tags(old, &job);
        }
        if !old.as_deref().is_some_and(|old| job.may_lose_change(old)) {
            self.unsaved.require_commit();
        }
        self.quotas.follow(old.as_deref(), Some(&job));
        self.follow_round(old.as_deref(), Some(&job), false);
        self.follow(old.as_deref(), Some(&job))?;
        // It may have been removed within this group, and be here again under an id that is derived.
        self.unsaved.restore_job(id);
        self.jobs.insert(job);
        Ok(())
    }

    /// The entries by which a job is found by its tags. Those of a new job are written with all its others.
    fn find_by_other_tags(&mut self, old: &Job, job: &Job) {
        let batch = &mut self.unsaved.batch;
        for ((space, key), _) in index::marks(old) {
            batch.delete(space, key);
        }
        for ((space, key), value) in index::marks(job) {
            batch.put(space, key, value);
        }
    }

    /// `forgotten` is one that its parent creates again.
    fn remove_job(&mut self, id: JobId, forgotten: bool) -> Result<(), DiskError> {
        let Some(old) = self.load(id)?.cloned() else { return Ok(()) };
        self.note_before(id, Some(&old));
        self.count_attempt(Some(&old), None);
        self.count_out(&old.queue.clone(), old.state, Some(&old))?;
        for kind in BodyKind::ALL {
            if matches!(old.body(kind), BodyRef::Inline { .. }) {
                self.unsaved.batch.delete(Space::Bodies, keys::body(id, kind));
            }
        }
        if let Some(queue) = self.unsaved.take_lasting(id) {
            for ((space, key), _) in index::lasting(&old, queue) {
                self.unsaved.batch.delete(space, key);
            }
        }
        let mut owned = Vec::new();
        if old.last_error.is_some() {
            self.disk.each(Space::Errors, &keys::job(id), &mut |key, _| owned.push((Space::Errors, key.to_vec())))?;
        }
        if old.fence > 0 {
            self.disk.each(Space::Attempts, &keys::job(id), &mut |key, _| {
                owned.push((Space::Attempts, key.to_vec()));
            })?;
            self.disk.each(Space::Logs, &keys::job(id), &mut |key, _| owned.push((Space::Logs, key.to_vec())))?;
        }
        for fence in self.unsaved.take_errors(id) {
            owned.push((Space::Errors, keys::error(id, fence)));
        }
        for number in self.unsaved.take_attempts(id) {
            owned.push((Space::Attempts, keys::attempt(id, number)));
        }
        for (space, key) in owned {
            self.unsaved.batch.delete(space, key);
        }
        if old.records > 0 {
            self.drop_records(id)?;
        }
        self.drop_links(&old)?;
        self.quotas.follow(Some(&old), None);
        self.follow_round(Some(&old), None, forgotten);
        self.follow(Some(&old), None)?;
        self.logs.drop_job(id);
        self.jobs.remove(id);
        self.unsaved.remove_job(id);
        self.unsaved.require_commit();
        Ok(())
    }

    fn note_before(&mut self, id: JobId, old: Option<&Job>) {
        let queues = &self.queues;
        self.unsaved.change_job(id, || match old {
            Some(old) => {
                let queue = queues.id_of(&old.queue).unwrap_or(0);
                Before { entries: index::keys_of(old, queue), lasting: Some(queue) }
            }
            None => Before::default(),
        });
    }

    fn join_line(&mut self, job: &Job) -> Result<(), DiskError> {
        let Some(queue) = self.queues.get_mut(&job.queue) else { return Ok(()) };
        let target = job.target_worker.as_deref().unwrap_or("");
        let ring = queue.line.ring(queue.row.id, job.priority, target);
        let place = ReadyPlace { seq: job.ready_seq, id: job.id, since: job.since };
        ring.push(&self.disk, &mut self.unsaved.batch, job.limit_key.as_deref().unwrap_or(""), place)?;
        queue.line_touched = true;
        self.queues.wake(&job.queue);
        Ok(())
    }

    /// Adds an event to the stream. A failed attempt is counted by it: one that is followed by another at once is in no
    /// state that would tell.
    fn tell(&mut self, event: Event) {
        if matches!(event.kind, EventKind::Failed { .. })
            && let Some(queue) = self.queues.get_mut(&event.queue)
        {
            queue.row.counts.failed += 1;
            queue.dirty = true;
        }
        self.events.push(event);
    }

    /// The job is in its queue and state from now on; `was` is the state it comes from, the same when it comes from
    /// another queue.
    fn count_in(&mut self, job: &Job, was: Option<State>) -> Result<(), DiskError> {
        let now = self.now;
        let Some(queue) = self.queues.get_mut(&job.queue) else { return Ok(()) };
        queue.dirty = true;
        queue.row.counts.enter(job.state);
        queue.row.counts.reach(was, job, now);
        if job.state == State::Active {
            let settings = &queue.row.settings;
            queue.limiter.start(settings.rate, now);
            let key_rate = settings.key_rate;
            let id = queue.row.id;
            if let Some(limit_key) = &job.limit_key {
                self.limiters.key_started(&self.disk, id, limit_key, key_rate, now)?;
            }
        } else if job.state.is_ended() {
            let (id, count) = (queue.row.id, queue.row.counts.of(job.state));
            let keep = queue.row.settings.retention.of(job.state).unwrap_or_default();
            self.retention.ended(id, job.state, now, keep, count);
        }
        Ok(())
    }

    fn count_out(&mut self, name: &QueueName, state: State, job: Option<&Job>) -> Result<(), DiskError> {
        let Some(queue) = self.queues.get_mut(name) else { return Ok(()) };
        queue.dirty = true;
        queue.row.counts.leave(state);
        if state != State::Active {
            return Ok(());
        }
        queue.limiter.end();
        let id = queue.row.id;
        if let Some(limit_key) = job.and_then(|job| job.limit_key.as_deref()) {
            for ring in queue.line.rings() {
                ring.unpark(limit_key);
            }
            self.limiters.key_ended(&self.disk, id, limit_key)?;
        }
        // A place is free.
        self.queues.wake(name);
        if let Some((job, run)) = job.and_then(|job| Some((job, job.run.as_ref()?))) {
            self.release.end_attempt(job.id, run.token);
        }
        Ok(())
    }

    fn put_body(&mut self, id: JobId, kind: BodyKind, body: Option<Body>) {
        // The row may look the same, of a checkpoint as long as the last: its bytes are new all the same.
        self.unsaved.require_commit();
        let key = keys::body(id, kind);
        match body {
            Some(Body::Inline(bytes)) => self.unsaved.batch.put(Space::Bodies, key, codec::wrap(&bytes)),
            Some(Body::Blob(_)) | None => self.unsaved.batch.delete(Space::Bodies, key),
        }
    }

    fn put_attempt(&mut self, id: JobId, attempt: &PastAttempt, replace: bool) -> Result<(), DiskError> {
        let key = keys::attempt(id, attempt.number);
        if !replace && self.written(Space::Attempts, key.clone())?.is_some() {
            return Ok(());
        }
        self.unsaved.batch.put(Space::Attempts, key, codec::encode(attempt));
        self.unsaved.add_attempt(id, attempt.number);
        if let Some(old) = attempt.number.checked_sub(bounds::ATTEMPTS) {
            self.unsaved.batch.delete(Space::Attempts, keys::attempt(id, old));
        }
        Ok(())
    }

    fn put_lock(&mut self, key: &LockKey, lock: Option<Lock>) -> Result<(), DiskError> {
        let key = keys::lock(key);
        if let Some(old) = self.load_lock(&key)?.filter(|old| old.until == Until::Period) {
            self.unsaved.delete_timer(keys::timer(old.expires_at, &TimerFor::Unlock(key.clone())));
        }
        if let Some(new) = lock.as_ref().filter(|new| new.until == Until::Period) {
            self.unsaved.put_timer(new.expires_at, &TimerFor::Unlock(key.clone()));
        }
        self.unsaved.set_lock(key, lock);
        self.unsaved.require_commit();
        Ok(())
    }
}
