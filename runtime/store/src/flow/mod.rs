//! Flows in the engine: what follows when a job that is tied to others is stored, changes its state or is removed.
//!
//! Numbers (a batch's) follow in the commit of the move. What may touch many jobs (those that depend on one that has
//! ended) is noted in that commit as work, and done in bounded steps by later groups, like retention.

mod batch;
mod deferred;
pub(crate) mod records;
pub(crate) mod rounds;

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;
use windlass_core::flow::{
    self, Batch, CascadeReason, Chain, Dependency, FailedChild, Family, FollowUp, Links, Verdict,
};
use windlass_core::{BodyKind, BodyRef, CheckedJob, Command, Job, JobId, Refusal, State};

use crate::disk;
use crate::disk::{Disk, DiskError, Space};
use crate::disk::{codec, keys};
use crate::engine::Engine;
use crate::engine::failure::Failure;
use crate::engine::memory::row_cache::Table;
use crate::engine::requests::operation::Answer;
use crate::limits;
pub(crate) use deferred::{child_id, read_end};

pub struct Flows {
    batches: Table<Batch>,
    families: Table<Family>,
    chains: Table<Chain>,
    /// Batches whose numbers have changed since they were last looked at.
    moved: BTreeSet<String>,
    /// Parents that wait, and whose children's numbers have.
    waiting: BTreeSet<JobId>,
    /// The first child of each parent that has failed since the last commit.
    failed: BTreeMap<JobId, FailedChild>,
    /// Jobs of chains that have ended.
    stepped: Vec<JobId>,
    /// Links made since the last commit, by the job that waits: not yet to be found on disk.
    new_links: FxHashMap<JobId, Vec<JobId>>,
    /// Who sealed a batch in this group.
    sealing: Vec<(String, Answer<Batch>)>,
    /// Where the first work has come to: among links, or among ordinals.
    cursor: Option<Vec<u8>>,
    ordinal: u64,
}

impl Default for Flows {
    fn default() -> Flows {
        Flows {
            batches: Table::new(Space::Flows),
            families: Table::new(Space::Flows),
            chains: Table::new(Space::Flows),
            moved: BTreeSet::new(),
            waiting: BTreeSet::new(),
            failed: BTreeMap::new(),
            stepped: Vec::new(),
            new_links: FxHashMap::default(),
            sealing: Vec::new(),
            cursor: None,
            ordinal: 0,
        }
    }
}

impl Flows {
    /// The commit failed: those who wait for an answer.
    pub fn answers(&mut self) -> Vec<Answer<Batch>> {
        self.sealing.drain(..).map(|(_, answer)| answer).collect()
    }

    pub fn gather(&mut self, batch: &mut disk::WriteBatch) {
        self.batches.gather(batch);
        self.families.gather(batch);
        self.chains.gather(batch);
        self.new_links.clear();
        self.failed.clear();
    }

    /// Where the first work has come to among keys.
    pub(crate) fn take_cursor(&mut self) -> Option<Vec<u8>> {
        self.cursor.take()
    }

    pub(crate) fn put_cursor(&mut self, key: Vec<u8>) {
        self.cursor = Some(key);
    }

    pub fn age(&mut self, most: usize) {
        self.batches.age(most);
        self.families.age(most);
        self.chains.age(most);
    }
}

impl<D: Disk> Engine<D> {
    /// A job has changed, was enqueued (`was` is none) or removed (`is` is none): what depends on it follows.
    pub(crate) fn follow(&mut self, was: Option<&Job>, is: Option<&Job>) -> Result<(), DiskError> {
        let Some(job) = is.or(was) else { return Ok(()) };
        if job.batch_id.is_none() && job.parent.is_none() && job.links.is_none() && job.children == 0 {
            return Ok(());
        }
        for work in flow::work(was, is) {
            self.note_work(&work);
        }
        let states = [was, is].map(|job| job.map(|job| job.state));
        if states[0] == states[1] {
            return Ok(());
        }
        if let Some(id) = &job.batch_id
            && let Some(batch) = self.flows.batches.change(&self.disk, &keys::batch(id))?
        {
            batch.tally.moved(states[0], states[1]);
            self.flows.moved.insert(id.clone());
        }
        self.follow_children(job, states)?;
        if is.is_none() && (job.children > 0 || job.links.is_some()) {
            self.drop_family(job.id, true)?;
        }
        if let Some(links) = &job.links {
            self.follow_ties(job.id, links, states)?;
        }
        Ok(())
    }

    /// The numbers of its parent's children.
    fn follow_children(&mut self, job: &Job, states: [Option<State>; 2]) -> Result<(), DiskError> {
        let Some(parent) = job.parent else { return Ok(()) };
        let key = keys::family(parent);
        if states[0].is_none()
            && self.flows.families.get(&self.disk, &key)?.is_none()
            && self.load(parent)?.is_some_and(|parent| parent.children > 0 || parent.adopted() > 0)
        {
            self.flows.families.put(key.clone(), Some(Family::default()));
        }
        if let Some(family) = self.flows.families.change(&self.disk, &key)? {
            family.tally.moved(states[0], states[1]);
            if family.waiting.is_some() {
                self.flows.waiting.insert(parent);
            }
            self.note_failed_child(parent, job, states[1]);
        }
        if states[1].is_none() {
            self.drop_family(parent, false)?;
            let left = self.flows.families.get(&self.disk, &key)?.map_or(0, |family| family.tally.references);
            if left == 0 {
                // It may be what its parent waits for to be rebuilt.
                self.flows.waiting.insert(parent);
            }
        }
        Ok(())
    }

    /// A child of a parent that may wait has moved. `job` is its last row when it was removed (`is` is none): nobody
    /// can read it later.
    fn note_failed_child(&mut self, parent: JobId, job: &Job, is: Option<State>) {
        let noted = &mut self.flows.failed;
        match is {
            None => {
                if let Some(failed) = FailedChild::removed(job) {
                    noted.insert(parent, failed);
                } else if noted.get(&parent).is_some_and(|failed| failed.id == job.id) {
                    noted.remove(&parent);
                }
            }
            Some(State::Dead | State::Cancelled) => {
                if !noted.contains_key(&parent)
                    && let Some(failed) = FailedChild::of(job)
                {
                    noted.insert(parent, failed);
                }
            }
            Some(_) => {}
        }
    }

    /// The numbers of a job's children are removed with the last of the job and its children; `going`: the job itself
    /// is being removed.
    fn drop_family(&mut self, parent: JobId, going: bool) -> Result<(), DiskError> {
        let gone = going || self.load(parent)?.is_none();
        let key = keys::family(parent);
        match self.flows.families.get(&self.disk, &key)? {
            Some(family) if gone && family.tally.references == 0 => self.flows.families.put(key, None),
            Some(family) if gone && family.waiting.is_some() => {
                let family = Family { waiting: None, ..family.clone() };
                self.flows.families.put(key, Some(family));
            }
            Some(_) | None => {}
        }
        Ok(())
    }

    fn follow_ties(&mut self, id: JobId, links: &Links, states: [Option<State>; 2]) -> Result<(), DiskError> {
        if let (Some(batch_id), None) = (&links.callback_of, states[1])
            && let Some(batch) = self.flows.batches.change(&self.disk, &keys::batch(batch_id))?
        {
            batch.tally.release();
            self.flows.moved.insert(batch_id.clone());
        }
        if let Some(place) = links.chain {
            let key = keys::chain(place.first);
            if let Some(chain) = self.flows.chains.change(&self.disk, &key)? {
                chain.references += u64::from(states[0].is_none());
                chain.references -= u64::from(states[1].is_none());
                if chain.references == 0 {
                    self.flows.chains.put(key, None);
                }
            }
            if states[1].is_some_and(State::is_ended) {
                self.flows.stepped.push(id);
            }
        }
        if states[1].is_none() || links.waited_by.is_none() {
            return Ok(());
        }
        let key = keys::family(id);
        let waits = links.waits_for_children;
        let waited = self.flows.families.get(&self.disk, &key)?.and_then(|family| family.waiting);
        if waits != waited {
            let mut family = self.flows.families.get(&self.disk, &key)?.cloned().unwrap_or_default();
            family.waiting = waits;
            self.flows.families.put(key, Some(family));
            self.flows.waiting.insert(id);
        }
        Ok(())
    }

    pub(crate) fn note_work(&mut self, work: &FollowUp) {
        self.unsaved.batch.put(Space::Flows, keys::work(self.meta.next_work), codec::encode(work));
        self.meta.next_work += 1;
        self.unsaved.require_commit();
    }

    /// Once all else of a group is decided, and again before it is committed: the next steps of chains, parents whose
    /// children have ended, batches whose last member has. One may bring about another.
    pub(crate) fn settle_flows(&mut self) -> Result<(), DiskError> {
        loop {
            if let Some(id) = self.flows.stepped.pop() {
                self.settle_step(id)?;
            } else if let Some(parent) = self.flows.waiting.pop_first() {
                self.settle_family(parent)?;
            } else if let Some(id) = self.flows.moved.pop_first() {
                self.settle_batch(&id)?;
            } else if !self.settle_rounds() {
                return Ok(());
            }
        }
    }

    /// A job of a chain has ended: the next one comes in the same commit.
    fn settle_step(&mut self, id: JobId) -> Result<(), DiskError> {
        // It may have been brought back, or removed, within the group.
        let Some(job) = self.load(id)?.filter(|job| job.is_ended()).cloned() else { return Ok(()) };
        let Some(place) = job.links.as_ref().and_then(|links| links.chain) else { return Ok(()) };
        let result = match job.result {
            BodyRef::Inline { .. } => self.written(Space::Bodies, keys::body(id, BodyKind::Result))?,
            BodyRef::None | BodyRef::Blob(_) => None,
        };
        let result = match &result {
            Some(bytes) => Some(codec::unwrap(Space::Bodies, bytes)?),
            None => None,
        };
        let Some(chain) = self.flows.chains.get(&self.disk, &keys::chain(place.first))? else { return Ok(()) };
        let Some(next) = chain.next(&job, result) else { return Ok(()) };
        match self.enqueue_own(next) {
            Err(Failure::Disk(error)) => return Err(error),
            Err(Failure::Refused(error)) => {
                tracing::error!(job = %id, "the next step of its chain was refused: {error}");
            }
            Ok(_) => {}
        }
        Ok(())
    }

    fn settle_family(&mut self, parent: JobId) -> Result<(), DiskError> {
        if self.load(parent)?.is_some_and(|job| job.removing().is_some()) {
            return self.settle_removed(parent);
        }
        let Some(family) = self.flows.families.change(&self.disk, &keys::family(parent))? else { return Ok(()) };
        match family.verdict() {
            Verdict::Wait => {}
            Verdict::Join => drop(self.try_ask(parent, Command::Joined)?),
            Verdict::Fail => {
                let more = family.new_failures().saturating_sub(1);
                let child = self.failed_child(parent)?.map(Box::new);
                self.try_ask(parent, Command::ChildFailed { child, more })?;
            }
            Verdict::CancelRest => {
                let work = self.load(parent)?.and_then(|job| flow::cancel_children(job, CascadeReason::SiblingFailed));
                if let Some(work) = work {
                    self.note_work(&work);
                }
            }
        }
        Ok(())
    }

    /// A child that has failed: one that did so since the last commit, or the latest that is still stored.
    fn failed_child(&mut self, parent: JobId) -> Result<Option<FailedChild>, DiskError> {
        if let Some(noted) = self.flows.failed.get(&parent).cloned() {
            match self.load(noted.id)? {
                None => return Ok(Some(noted)),
                Some(child) => {
                    if let Some(failed) = FailedChild::of(child) {
                        return Ok(Some(failed));
                    }
                }
            }
        }
        let Some((spawned, adopted)) = self.load(parent)?.map(|job| (job.children, job.adopted())) else {
            return Ok(None);
        };
        let all = u64::from(spawned) + u64::from(adopted);
        for number in (0..all).rev().take(limits::FAILED_CHILD_LOOK) {
            if let Some(failed) = self.load(child_id(parent, spawned, number))?.and_then(FailedChild::of) {
                return Ok(Some(failed));
            }
        }
        Ok(None)
    }

    /// A job waits for everything below it to be removed: has it been?
    fn settle_removed(&mut self, parent: JobId) -> Result<(), DiskError> {
        let key = keys::family(parent);
        if self.flows.families.get(&self.disk, &key)?.is_none_or(|family| family.tally.references == 0) {
            // Its children will be created again, and counted again.
            self.flows.families.put(key, None);
            self.try_ask(parent, Command::SubtreeRemoved)?;
        }
        Ok(())
    }

    /// Has the last member ended? Then the callback comes in the same commit.
    fn settle_batch(&mut self, id: &str) -> Result<(), DiskError> {
        let key = keys::batch(id);
        let now = self.now;
        let Some(batch) = self.flows.batches.change(&self.disk, &key)? else { return Ok(()) };
        if batch.finish(now) {
            let payload = self.written(Space::Flows, keys::callback(id))?;
            let payload = match &payload {
                Some(bytes) => Some(codec::unwrap(Space::Flows, bytes)?),
                None => None,
            };
            let Some(batch) = self.flows.batches.change(&self.disk, &key)? else { return Ok(()) };
            match batch.callback(payload).map(|callback| self.enqueue_own(callback)) {
                Some(Err(Failure::Disk(error))) => return Err(error),
                Some(Err(Failure::Refused(error))) => tracing::error!(batch = id, "its callback was refused: {error}"),
                Some(Ok(_)) | None => {}
            }
            self.unsaved.require_commit();
        } else if batch.is_over() {
            self.flows.batches.put(key, None);
            self.unsaved.batch.delete(Space::Flows, keys::callback(id));
            self.unsaved.require_commit();
        }
        Ok(())
    }

    /// A value, as this group or an earlier one has written it.
    pub(crate) fn written(&self, space: Space, key: Vec<u8>) -> Result<Option<Vec<u8>>, DiskError> {
        let key = (space, key);
        match self.unsaved.batch.writes.get(&key) {
            Some(written) => Ok(written.clone()),
            None => Ok(self.disk.get(space, &key.1)?.map(|bytes| bytes.to_vec())),
        }
    }

    pub(crate) fn put_chain(&mut self, first: JobId, chain: Chain) -> Result<(), DiskError> {
        let key = keys::chain(first);
        // A child that was removed and is spawned again has steps from its first time.
        let references = self.flows.chains.get(&self.disk, &key)?.map_or(0, |old| old.references);
        self.flows.chains.put(key, Some(Chain { references, ..chain }));
        Ok(())
    }

    /// The id of a job that somebody puts under a parent: by its ordinal, so that it can be found without a list.
    pub(crate) fn adopt(&mut self, parent: JobId) -> Result<Option<JobId>, DiskError> {
        let Some(mut job) = self.load(parent)?.cloned() else { return Ok(None) };
        let links = job.links.get_or_insert_default();
        let mut id = JobId::adopted(parent, links.adopted);
        links.adopted += 1;
        // A parent that was removed and is spawned again has children from its first time.
        while self.load(id)?.is_some() {
            id = JobId::adopted(parent, links.adopted);
            links.adopted += 1;
        }
        self.put_job(Box::new(job))?;
        self.unsaved.require_commit();
        Ok(Some(id))
    }

    /// Whether a job can be tied to what it names: looked at before anything is stored.
    pub(crate) fn check_ties(&mut self, job: &CheckedJob) -> Result<(), Failure> {
        let namespace = job.queue().namespace();
        if let Some(id) = &job.batch_id {
            let batch = self.flows.batches.get(&self.disk, &keys::batch(id))?;
            job.check_batch(batch.filter(|batch| batch.namespace == namespace))?;
        }
        if let Some(id) = job.parent {
            let rounds = self.queues.get(job.queue()).is_some_and(|queue| queue.row.settings.rounds);
            let spawn_depth = self.fair_use.spawn_depth;
            match self.load(id)?.filter(|parent| parent.queue.is_in(&namespace)) {
                Some(parent) => job.check_parent(parent, rounds, spawn_depth)?,
                None => return Err(Refusal::invalid("parent_id", self.why_not_there(id)).into()),
            }
        }
        for dependency in &job.depends_on {
            if let Dependency::Job(id) = dependency
                && self.load(*id)?.is_none_or(|job| !job.queue.is_in(&namespace))
            {
                return Err(Refusal::invalid("depends_on", self.why_not_there(*id)).into());
            }
        }
        Ok(())
    }

    fn why_not_there(&self, id: JobId) -> String {
        match self.damage_of(id) {
            Some(damage) => format!("job {id} cannot be read: {damage}"),
            None => format!("there is no job {id}; it may have been removed since it ended"),
        }
    }
}
