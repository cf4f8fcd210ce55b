//! Links between jobs, and the work that flows have left to do: in bounded steps, from what earlier groups have
//! committed.

use std::collections::BTreeSet;

use windlass_core::flow::{CascadeReason, Dependency, FollowUp};
use windlass_core::{CheckedJob, Command, Job, JobId, State};

use crate::disk::{Disk, DiskError, Space, after_prefix};
use crate::disk::{codec, keys};
use crate::engine::Engine;

/// A link's value on the side of the dependency: the number of its time, or that its end has been reported.
const TOLD: u64 = u64::MAX;

fn link_value(number: u64) -> Vec<u8> {
    let mut value = vec![codec::FORMAT];
    value.extend(number.to_be_bytes());
    value
}

fn read_link(value: &[u8]) -> Option<u64> {
    value.last_chunk::<8>().map(|bytes| u64::from_be_bytes(*bytes))
}

/// A link's value on the side of the dependant: how the dependency ended.
fn end_value(state: Option<State>) -> Vec<u8> {
    vec![codec::FORMAT, state.map_or(u8::MAX, |state| state as u8)]
}

pub(crate) fn read_end(value: &[u8]) -> Option<State> {
    value.get(1).and_then(|byte| State::ALL.get(usize::from(*byte))).copied()
}

impl<D: Disk> Engine<D> {
    /// The jobs a new one depends on, each once, and where they stand.
    pub(crate) fn dependencies_of(&mut self, new: &CheckedJob) -> Result<Vec<(JobId, State)>, DiskError> {
        let mut found: Vec<(JobId, State)> = Vec::with_capacity(new.depends_on.len());
        let mut seen = BTreeSet::new();
        for dependency in &new.depends_on {
            let Dependency::Job(id) = dependency else { continue };
            if seen.insert(*id) {
                // One that went in this very group had ended, or was cancelled by that.
                let state = self.load(*id)?.map_or(State::Cancelled, |job| job.state);
                found.push((*id, state));
            }
        }
        Ok(found)
    }

    pub(crate) fn put_link(&mut self, dependency: JobId, dependant: JobId) -> Result<(), DiskError> {
        let [from, to] = keys::link(dependency, dependant);
        let mut ended = Some(State::Cancelled);
        if let Some(mut job) = self.load(dependency)?.cloned() {
            ended = job.is_ended().then_some(job.state);
            job.links.get_or_insert_default().dependants += 1;
            self.put_job(Box::new(job))?;
        }
        let number = if ended.is_some() { TOLD } else { self.meta.next_work };
        self.unsaved.batch.put(Space::Links, from, link_value(number));
        self.unsaved.batch.put(Space::Links, to, end_value(ended));
        self.flows.new_links.entry(dependant).or_default().push(dependency);
        self.unsaved.require_commit();
        Ok(())
    }

    /// The job is removed: so are the links to what it waited for. The jobs that wait for it have been noted as work
    /// before.
    pub(crate) fn drop_links(&mut self, job: &Job) -> Result<(), DiskError> {
        if job.links.as_ref().is_none_or(|links| links.depends_on == 0) {
            return Ok(());
        }
        let mut dependencies = self.flows.new_links.remove(&job.id).unwrap_or_default();
        let prefix = keys::dependencies(job.id);
        self.disk.each(Space::Links, &prefix, &mut |key, _| dependencies.extend(keys::last_job(key)))?;
        for dependency in dependencies {
            for side in keys::link(dependency, job.id) {
                self.unsaved.batch.delete(Space::Links, side);
            }
        }
        Ok(())
    }

    /// One bounded step of the work that flows have left to do. Reads what earlier groups have committed.
    pub(crate) fn step_flows(&mut self) -> Result<(), DiskError> {
        let mut room = self.tuning.step;
        while room > 0 && self.meta.work_from < self.meta.next_work {
            let number = self.meta.work_from;
            let Some(bytes) = self.disk.get(Space::Flows, &keys::work(number))? else {
                // Noted in this group: its turn comes after the commit.
                return Ok(());
            };
            let (done, used) = match codec::decode(Space::Flows, &bytes)? {
                FollowUp::Release { job, state } => self.tell_dependants(number, job, state, room)?,
                FollowUp::CancelChildren { parent, spawned, adopted, reason } => {
                    self.cancel_children(parent, spawned, adopted, reason, room)?
                }
                FollowUp::RemoveChildren { parent } => self.remove_children(parent, room)?,
                FollowUp::OpenRound { queue, round } => self.open_round(&queue, round, room)?,
            };
            // An empty one counts as well, so that a group ends.
            room = room.saturating_sub(used.max(1));
            self.unsaved.require_commit();
            if done {
                self.flows.cursor = None;
                self.flows.ordinal = 0;
                self.unsaved.batch.delete(Space::Flows, keys::work(number));
                self.meta.work_from += 1;
            }
        }
        Ok(())
    }

    /// Tells up to `room` of those that wait for a job how it ended; whether that was all, and how many it were.
    fn tell_dependants(
        &mut self,
        number: u64,
        dependency: JobId,
        state: State,
        room: usize,
    ) -> Result<(bool, usize), DiskError> {
        let prefix = keys::dependants(dependency);
        let from = self.flows.cursor.take().unwrap_or_else(|| prefix.clone());
        let page = self.disk.scan(Space::Links, &from, &after_prefix(&prefix), room)?;
        for (key, value) in &page {
            let told = read_link(value).is_none_or(|made| made == TOLD || made > number);
            let Some(dependant) = keys::last_job(key).filter(|_| !told) else { continue };
            let [from, to] = keys::link(dependency, dependant);
            // The links of a removed job were removed with it.
            if self.try_ask(dependant, Command::DependencyEnded { dependency, state })?.is_some() {
                self.unsaved.batch.put(Space::Links, from, link_value(TOLD));
                self.unsaved.batch.put(Space::Links, to, end_value(Some(state)));
            }
        }
        if page.len() == room
            && let Some((last, _)) = page.last()
        {
            let mut next = last.to_vec();
            next.push(0);
            self.flows.cursor = Some(next);
        }
        Ok((page.len() < room, page.len()))
    }

    /// Cancels up to `room` children; whether that was all, and how many were looked at.
    fn cancel_children(
        &mut self,
        parent: JobId,
        spawned: u32,
        adopted: u32,
        reason: CascadeReason,
        room: usize,
    ) -> Result<(bool, usize), DiskError> {
        let all = u64::from(spawned) + u64::from(adopted);
        let until = all.min(self.flows.ordinal + room as u64);
        let looked = (until - self.flows.ordinal) as usize;
        for number in self.flows.ordinal..until {
            // One that has ended or was removed is not touched.
            self.try_ask(
                child_id(parent, spawned, number),
                Command::Cancel { reason: reason.text().to_owned(), grace: None },
            )?;
        }
        self.flows.ordinal = until;
        Ok((until == all, looked))
    }
}

impl<D: Disk> Engine<D> {
    /// Removes up to `room` children of a job that waits for everything below it to be removed. Returns whether that
    /// was all, and how many were looked at. Children that have children themselves are removed after those, as
    /// follow-ups of their own.
    fn remove_children(&mut self, parent: JobId, room: usize) -> Result<(bool, usize), DiskError> {
        let Some(job) = self.load(parent)?.filter(|job| job.removing().is_some()) else { return Ok((true, 0)) };
        let (spawned, adopted) = (job.children, job.adopted());
        let all = u64::from(spawned) + u64::from(adopted);
        let until = all.min(self.flows.ordinal + room as u64);
        let looked = until.saturating_sub(self.flows.ordinal) as usize;
        for number in self.flows.ordinal..until {
            self.try_ask(child_id(parent, spawned, number), Command::RemoveSubtree)?;
        }
        self.flows.ordinal = until;
        if until == all {
            self.flows.waiting.insert(parent);
        }
        Ok((until == all, looked))
    }
}

/// The id of a job's child by its number: those it spawned come first, then those that others put under it.
pub(crate) fn child_id(parent: JobId, spawned: u32, number: u64) -> JobId {
    match u32::try_from(number) {
        Ok(ordinal) if ordinal < spawned => JobId::child(parent, ordinal),
        _ => JobId::adopted(parent, u32::try_from(number - u64::from(spawned)).unwrap_or(u32::MAX)),
    }
}
