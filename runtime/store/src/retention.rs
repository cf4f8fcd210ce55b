//! Background work in small steps: retention, clearing a queue, removing one. Each group does a bounded piece, so that
//! removing a million jobs stalls no other request.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use windlass_core::{Command, JobId, QueueEvent, QueueName, Refusal, RetentionLimit, State, Time};

use crate::Error;
use crate::claim::lanes::ReadyPlace;
use crate::disk::keys;
use crate::disk::{Disk, DiskError, Space, after_prefix};
use crate::engine::Engine;
use crate::engine::requests::operation::Answer;

#[derive(Default)]
pub struct RetentionWork {
    /// When to look for ended jobs that are past their keeping, per queue and state.
    due: BTreeMap<(u32, State), Time>,
    /// Where the last scan ended: later ones need not skip removed rows.
    cursors: BTreeMap<(u32, State), Vec<u8>>,
    clears: VecDeque<Clear>,
}

/// A queue being emptied.
struct Clear {
    queue: QueueName,
    id: u32,
    /// What is left to look through, and from where.
    spaces: VecDeque<(Space, Vec<u8>, Vec<u8>)>,
    /// Jobs that were created after the request are not touched.
    before: Time,
    removed: u64,
    and_remove: bool,
    /// Whether it was paused before its removal began.
    was_paused: bool,
    answer: Answer<u64>,
}

impl RetentionWork {
    /// A job has ended: look again when its keeping is over, or at once when there are too many.
    pub fn ended(&mut self, queue: u32, state: State, now: Time, keep: RetentionLimit, count: u64) {
        let at = if keep.count.is_some_and(|most| count > most) { now } else { now + keep.age };
        self.look_at(queue, state, at);
    }

    pub fn look_at(&mut self, queue: u32, state: State, at: Time) {
        let due = self.due.entry((queue, state)).or_insert(at);
        *due = (*due).min(at);
    }

    pub fn next(&self) -> Option<Time> {
        self.due.values().min().copied()
    }

    pub(crate) fn is_busy(&self) -> bool {
        !self.clears.is_empty()
    }

    pub fn answers(&mut self) -> Vec<Answer<u64>> {
        self.clears.drain(..).map(|clear| clear.answer).collect()
    }
}

impl<D: Disk> Engine<D> {
    /// One bounded step of everything that is done in the background.
    pub(crate) fn step_background(&mut self) -> Result<(), DiskError> {
        if self.unsaved.is_commit_required() {
            // The first group after a start: what the start has settled is not on disk yet.
            return Ok(());
        }
        self.step_clear()?;
        if self.paused.is_none() {
            self.prune_all()?;
        }
        // After the scan for ended jobs: those that end here are not on disk yet.
        self.step_flows()
    }

    /// One step of every retention that is due.
    fn prune_all(&mut self) -> Result<(), DiskError> {
        let due: Vec<(u32, State)> =
            self.retention.due.iter().filter(|(_, at)| **at <= self.now).map(|(what, _)| *what).collect();
        for (queue, state) in due {
            self.retention.due.remove(&(queue, state));
            self.prune(queue, state)?;
        }
        Ok(())
    }

    /// Removes ended jobs of one state that are too old or too many, oldest first.
    fn prune(&mut self, id: u32, state: State) -> Result<(), DiskError> {
        let Some(queue) = self.queues.by_id(id) else { return Ok(()) };
        let Some(keep) = queue.row.settings.retention.of(state) else { return Ok(()) };
        let mut surplus = keep.count.map_or(0, |most| queue.row.counts.of(state).saturating_sub(most));
        let prefix = keys::states(id, state);
        let cursor = self.retention.cursors.remove(&(id, state)).unwrap_or_else(|| prefix.clone());
        let page = self.disk.scan(Space::States, &cursor, &after_prefix(&prefix), self.tuning.step)?;
        let full = page.len() == self.tuning.step;
        let mut next = cursor;
        // More may end within this very millisecond, with a smaller id: the cursor stays before it.
        let present: Vec<u8> = prefix.iter().copied().chain(self.now.millis().to_be_bytes()).collect();
        for (key, _) in page {
            let Some((since, job)) = keys::read_state(&key) else { continue };
            let old = now_past(self.now, since, keep);
            if !old && surplus == 0 {
                self.retention.cursors.insert((id, state), next.min(present));
                self.retention.look_at(id, state, since + keep.age);
                return Ok(());
            }
            next = key.to_vec();
            next.push(0);
            let now = self.now;
            // A job with its own retention time is removed by its timer.
            let kept =
                self.load(job)?.is_none_or(|job| job.state != state || job.keep_until.is_some_and(|at| at > now));
            if !kept {
                self.try_ask(job, Command::Delete)?;
            }
            surplus = surplus.saturating_sub(1);
        }
        if full {
            let pause = if next > present { Duration::from_millis(1) } else { Duration::ZERO };
            self.retention.look_at(id, state, self.now + pause);
        }
        self.retention.cursors.insert((id, state), next.min(present));
        Ok(())
    }

    pub(crate) fn begin_clear(&mut self, queue: QueueName, answer: Answer<u64>) -> Result<(), DiskError> {
        // In this order: what comes due meanwhile is met again among the pending.
        self.begin(queue, &[State::Scheduled, State::Pending], false, answer);
        Ok(())
    }

    pub(crate) fn begin_remove_queue(&mut self, name: QueueName, answer: Answer<u64>) -> Result<(), DiskError> {
        if let Some(plugin) = self.catalogue.server_of(&name) {
            let error = Refusal::Taken { queue: name.to_string(), plugin: plugin.to_string() };
            self.release.push(answer, Err(error.into()));
            return Ok(());
        }
        if let Err(refusal) = self.check_unnamed(&name) {
            self.release.push(answer, Err(refusal.into()));
            return Ok(());
        }
        if let Some(queue) = self.queues.get(&name).filter(|queue| queue.row.counts.of(State::Active) > 0) {
            let why = format!(
                "{} of its jobs are running; pause it and wait, or cancel them",
                queue.row.counts.of(State::Active)
            );
            self.release.push(answer, Err(Refusal::invalid("queue", why).into()));
            return Ok(());
        }
        let states: Vec<State> = State::ALL.into_iter().filter(|state| *state != State::Active).collect();
        self.begin(name, &states, true, answer);
        Ok(())
    }

    fn begin(&mut self, name: QueueName, states: &[State], and_remove: bool, answer: Answer<u64>) {
        let Some(queue) = self.queues.get_mut(&name) else {
            self.release.push(answer, Err(Refusal::not_found("queue", name).into()));
            return;
        };
        let id = queue.row.id;
        let was_paused = queue.row.settings.paused;
        if and_remove && !was_paused {
            let draining = queue.row.settings.draining;
            self.events.push(QueueEvent::Paused { draining }.event(&name, self.now));
        }
        if and_remove {
            // Nothing starts in a queue that is going.
            queue.row.settings.paused = true;
            queue.dirty = true;
            self.unsaved.require_commit();
        }
        let spaces = states.iter().map(|state| match state {
            State::Pending => (Space::Ready, id.to_be_bytes().to_vec(), after_prefix(&id.to_be_bytes())),
            other => {
                let prefix = keys::states(id, *other);
                (Space::States, prefix.clone(), after_prefix(&prefix))
            }
        });
        let before = self.now;
        let clear =
            Clear { queue: name, id, spaces: spaces.collect(), before, removed: 0, and_remove, was_paused, answer };
        self.retention.clears.push_back(clear);
    }

    fn step_clear(&mut self) -> Result<(), DiskError> {
        let Some(mut clear) = self.retention.clears.pop_front() else { return Ok(()) };
        let Some((space, from, until)) = clear.spaces.pop_front() else {
            return self.end_clear(clear);
        };
        let page = self.disk.scan(space, &from, &until, self.tuning.step)?;
        if let Some((last, _)) = page.last().filter(|_| page.len() == self.tuning.step) {
            let mut next = last.to_vec();
            next.push(0);
            clear.spaces.push_front((space, next, until));
        }
        for (key, value) in page {
            let Some(id) = self.named_by(space, &key, &value)? else { continue };
            let wanted = self.load(id)?.is_some_and(|job| {
                job.queue == clear.queue
                    && job.state != State::Active
                    && job.created_at <= clear.before
                    && (clear.and_remove || matches!(job.state, State::Pending | State::Scheduled))
            });
            if wanted && self.try_ask(id, Command::Delete)?.is_some() {
                clear.removed += 1;
            }
        }
        self.retention.clears.push_front(clear);
        Ok(())
    }

    fn named_by(&self, space: Space, key: &[u8], value: &[u8]) -> Result<Option<JobId>, DiskError> {
        match space {
            Space::Ready => Ok(Some(ReadyPlace::decode(key, value)?.id)),
            _ => Ok(keys::last_job(key)),
        }
    }

    fn end_clear(&mut self, clear: Clear) -> Result<(), DiskError> {
        let unnamed = self.check_unnamed(&clear.queue).is_ok();
        let empty = self
            .queues
            .get(&clear.queue)
            // By now there may be a new queue of the old name.
            .filter(|queue| queue.row.id == clear.id)
            .is_some_and(|queue| State::ALL.iter().all(|state| queue.row.counts.of(*state) == 0));
        if clear.and_remove && empty && unnamed {
            let left = clear.id.to_be_bytes();
            for space in [Space::Lanes, Space::Limiters] {
                self.disk.each(space, &left, &mut |key, _| self.unsaved.batch.delete(space, key.to_vec()))?;
            }
            self.limiters.drop_queue(clear.id);
            self.queues.remove(&clear.queue);
            self.events.push(QueueEvent::Removed.event(&clear.queue, self.now));
            self.quotas.queue_removed(&clear.queue);
            self.drop_rounds(clear.id);
            self.unsaved.batch.delete(Space::Queues, keys::named(&clear.queue));
            self.unsaved.require_commit();
        } else if clear.and_remove
            && let Some(queue) = self.queues.get_mut(&clear.queue).filter(|queue| queue.row.id == clear.id)
        {
            // Jobs have come meanwhile: the queue stays, with the settings it had.
            let was = queue.row.settings.clone();
            queue.row.settings.paused = clear.was_paused;
            let told = QueueEvent::of(&was, &queue.row.settings);
            self.events.extend(told.into_iter().map(|event| event.event(&clear.queue, self.now)));
            queue.dirty = true;
            self.queues.wake(&clear.queue);
            self.unsaved.require_commit();
        }
        let answer: Result<u64, Error> = Ok(clear.removed);
        self.release.push(clear.answer, answer);
        Ok(())
    }
}

fn now_past(now: Time, since: Time, keep: RetentionLimit) -> bool {
    now.since(since) >= keep.age
}
