//! Carries a decision into memory and into the batch. Counts, limits, places in line and watches follow from the
//! change of the job; nothing else touches them.

use windlass_core::{
    Body, BodyKind, BodyRef, Change, Decision, Event, EventKind, Job, JobId, Lock, LockKey, QueueName, Reply, State,
    Until, bounds,
};

use crate::claim::lanes::ReadyPlace;
use crate::disk::keys;
use crate::disk::keys::TimerFor;
use crate::disk::{Disk, DiskError, Space};
use crate::disk::{codec, index};
use crate::engine::{Before, Engine};

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
                    self.batch.put(Space::Errors, keys::error(job, fence), codec::encode(&error));
                    self.new_errors.entry(job).or_default().push(fence);
                    if let Some(old) = fence.checked_sub(bounds::ERRORS) {
                        self.batch.delete(Space::Errors, keys::error(job, old));
                    }
                }
                Change::Chain { first, chain } => self.put_chain(first, *chain)?,
                Change::Link { dependency, dependant } => self.put_link(dependency, dependant)?,
                Change::Event(event) => self.tell(event),
                Change::Plugin(plugin) => self.put_plugin(*plugin),
            }
        }
        self.effects.extend(decision.effects);
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
            // Moved to where it is counts as coming anew: its place says since when it waits.
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
        if !self.soft_change(old.as_deref(), &job) {
            self.hard = true;
        }
        self.follow_round(old.as_deref(), Some(&job), false);
        self.follow(old.as_deref(), Some(&job))?;
        // It may have been removed within this group, and be here again under an id that is derived.
        self.removed.remove(&id);
        self.jobs.insert(job);
        Ok(())
    }

    /// Progress and a longer lease need not be durable: they are made good after a crash.
    fn soft_change(&self, old: Option<&Job>, new: &Job) -> bool {
        old.is_some_and(|old| {
            old.state == State::Active
                && new.state == State::Active
                && old.checkpoint == new.checkpoint
                && old.checkpoint_schema == new.checkpoint_schema
                && old.children == new.children
                && old.run.as_ref().map(|run| (&run.stop, run.swap_by))
                    == new.run.as_ref().map(|run| (&run.stop, run.swap_by))
        })
    }

    /// `forgotten` is one that goes to be made anew.
    fn remove_job(&mut self, id: JobId, forgotten: bool) -> Result<(), DiskError> {
        let Some(old) = self.load(id)?.cloned() else { return Ok(()) };
        self.note_before(id, Some(&old));
        self.count_attempt(Some(&old), None);
        self.count_out(&old.queue.clone(), old.state, Some(&old))?;
        for kind in BodyKind::ALL {
            if matches!(old.body(kind), BodyRef::Inline { .. }) {
                self.batch.delete(Space::Bodies, keys::body(id, kind));
            }
        }
        if let Some(queue) = self.dirty.get_mut(&id).and_then(|before| before.lasting.take()) {
            for ((space, key), _) in index::lasting(&old, queue) {
                self.batch.delete(space, key);
            }
        }
        let mut owned = Vec::new();
        if old.last_error.is_some() {
            self.disk.each(Space::Errors, &keys::job(id), &mut |key, _| owned.push((Space::Errors, key.to_vec())))?;
        }
        if old.fence > 0 {
            self.disk.each(Space::Logs, &keys::job(id), &mut |key, _| owned.push((Space::Logs, key.to_vec())))?;
        }
        for fence in self.new_errors.remove(&id).unwrap_or_default() {
            owned.push((Space::Errors, keys::error(id, fence)));
        }
        for (space, key) in owned {
            self.batch.delete(space, key);
        }
        if old.records > 0 {
            self.drop_records(id)?;
        }
        self.drop_links(&old)?;
        self.follow_round(Some(&old), None, forgotten);
        self.follow(Some(&old), None)?;
        self.logs.remove(&id);
        self.log_next.remove(&id);
        self.jobs.remove(id);
        self.removed.insert(id);
        self.hard = true;
        Ok(())
    }

    fn note_before(&mut self, id: JobId, old: Option<&Job>) {
        if self.dirty.contains_key(&id) {
            return;
        }
        let before = match old {
            Some(old) => {
                let queue = self.queues.get(&old.queue).map_or(0, |queue| queue.row.id);
                Before { entries: index::keys_of(old, queue), lasting: Some(queue) }
            }
            None => Before::default(),
        };
        self.dirty.insert(id, before);
    }

    fn join_line(&mut self, job: &Job) -> Result<(), DiskError> {
        let Some(queue) = self.queues.get_mut(&job.queue) else { return Ok(()) };
        let target = job.target_worker.as_deref().unwrap_or("");
        let ring = queue.line.ring(queue.row.id, job.priority, target);
        let place = ReadyPlace { seq: job.ready_seq, id: job.id, since: job.since };
        ring.push(&self.disk, &mut self.batch, job.limit_key.as_deref().unwrap_or(""), place)?;
        queue.line_touched = true;
        if !self.awake.contains(&job.queue) {
            self.awake.insert(job.queue.clone());
        }
        Ok(())
    }

    /// An event goes into the stream. A failed attempt is counted by it: one that is followed by another at once is in no
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

    /// The job is in its queue and state from now on; `was` is the state it comes from, the same when it comes from another
    /// queue.
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
                self.key_limiter(id, limit_key)?.start(key_rate, now);
                self.dirty_limiters.insert((id, limit_key.clone()));
            }
        } else if job.state.is_ended() {
            let (id, count) = (queue.row.id, queue.row.counts.of(job.state));
            let keep = queue.row.settings.retention.of(job.state).unwrap_or_default();
            self.sweeps.ended(id, job.state, now, keep, count);
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
            self.key_limiter(id, limit_key)?.end();
            self.dirty_limiters.insert((id, limit_key.to_owned()));
        }
        // A place is free.
        if !self.awake.contains(name) {
            self.awake.insert(name.clone());
        }
        if let Some(run) = job.and_then(|job| job.run.as_ref()) {
            self.local_ended.push((job.map_or(JobId(0), |job| job.id), run.token));
        }
        Ok(())
    }

    fn put_body(&mut self, id: JobId, kind: BodyKind, body: Option<Body>) {
        // The record may look the same, of a checkpoint as long as the last: its bytes are new all the same.
        self.hard = true;
        let key = keys::body(id, kind);
        match body {
            Some(Body::Inline(bytes)) => self.batch.put(Space::Bodies, key, codec::wrap(&bytes)),
            Some(Body::Blob(_)) | None => self.batch.delete(Space::Bodies, key),
        }
    }

    fn put_lock(&mut self, key: &LockKey, lock: Option<Lock>) -> Result<(), DiskError> {
        let key = keys::lock(key);
        if let Some(old) = self.load_lock(&key)?.filter(|old| old.until == Until::Period) {
            self.delete_timer(keys::timer(old.expires_at, &TimerFor::Unlock(key.clone())));
        }
        if let Some(new) = lock.as_ref().filter(|new| new.until == Until::Period) {
            self.put_timer(new.expires_at, &TimerFor::Unlock(key.clone()));
        }
        self.locks.insert(key, lock);
        self.hard = true;
        Ok(())
    }
}
