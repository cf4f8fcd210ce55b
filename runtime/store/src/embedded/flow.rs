//! Flows in the engine: what follows when a job that is tied to others comes, moves or goes.
//!
//! Numbers (a batch's) follow in the commit of the move. What may touch many jobs (those that depend on one that has
//! ended) is noted in that commit as work, and done in bounded steps by the groups that come, like the sweeps.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use windlass_core::flow::{self, Batch, CancelReason, Chain, Dependency, Family, NewBatch, Ties, Verdict, Work};
use windlass_core::{BodyKind, BodyRef, Command, Job, JobId, NewJob, Refusal, State};

use super::disk::{self, Disk, DiskError, Space, after_prefix};
use super::engine::Engine;
use super::message::{Answer, Outgoing};
use super::table::Table;
use super::{keys, record};
use crate::{BatchMade, Error};

pub struct Flows {
    batches: Table<Batch>,
    families: Table<Family>,
    chains: Table<Chain>,
    /// Batches whose numbers have changed since they were last looked at.
    moved: BTreeSet<String>,
    /// Parents that wait, and whose children's numbers have.
    waiting: BTreeSet<JobId>,
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

    pub fn gather(&mut self, batch: &mut disk::Batch) {
        self.batches.gather(batch);
        self.families.gather(batch);
        self.chains.gather(batch);
        self.new_links.clear();
    }

    pub fn age(&mut self, most: usize) {
        self.batches.age(most);
        self.families.age(most);
        self.chains.age(most);
    }
}

/// A link's value on the side of the dependency: the number of its time, or that its end has been told.
const TOLD: u64 = u64::MAX;

fn link_value(number: u64) -> Vec<u8> {
    let mut value = vec![record::FORMAT];
    value.extend(number.to_be_bytes());
    value
}

fn read_link(value: &[u8]) -> Option<u64> {
    value.last_chunk::<8>().map(|bytes| u64::from_be_bytes(*bytes))
}

/// A link's value on the side of the dependant: how the dependency ended.
fn end_value(state: Option<State>) -> Vec<u8> {
    vec![record::FORMAT, state.map_or(u8::MAX, |state| state as u8)]
}

pub(super) fn read_end(value: &[u8]) -> Option<State> {
    value.get(1).and_then(|byte| State::ALL.get(usize::from(*byte))).copied()
}

impl<D: Disk> Engine<D> {
    /// A job has moved, come (`was` is none) or gone (`is` is none): what hangs on it follows.
    pub(super) fn follow(&mut self, was: Option<&Job>, is: Option<&Job>) -> Result<(), DiskError> {
        let Some(job) = is.or(was) else { return Ok(()) };
        if job.batch_id.is_none() && job.parent.is_none() && job.ties.is_none() && job.children == 0 {
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
            batch.moved(states[0], states[1]);
            self.flows.moved.insert(id.clone());
        }
        self.follow_children(job, states)?;
        if is.is_none() && (job.children > 0 || job.ties.is_some()) {
            self.drop_family(job.id, true)?;
        }
        if let Some(ties) = &job.ties {
            self.follow_ties(job.id, ties, states)?;
        }
        Ok(())
    }

    /// The numbers that a job's parent keeps of its children.
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
            family.moved(states[0], states[1]);
            if family.waiting.is_some() {
                self.flows.waiting.insert(parent);
            }
        }
        if states[1].is_none() {
            self.drop_family(parent, false)?;
        }
        Ok(())
    }

    /// The numbers of a job's children go when the job and all of them are gone; `going` is when the job itself does.
    fn drop_family(&mut self, parent: JobId, going: bool) -> Result<(), DiskError> {
        let gone = going || self.load(parent)?.is_none();
        let key = keys::family(parent);
        match self.flows.families.get(&self.disk, &key)? {
            Some(family) if gone && family.kept_by == 0 => self.flows.families.put(key, None),
            Some(family) if gone && family.waiting.is_some() => {
                let family = Family { waiting: None, ..family.clone() };
                self.flows.families.put(key, Some(family));
            }
            Some(_) | None => {}
        }
        Ok(())
    }

    fn follow_ties(&mut self, id: JobId, ties: &Ties, states: [Option<State>; 2]) -> Result<(), DiskError> {
        if let (Some(batch_id), None) = (&ties.callback_of, states[1])
            && let Some(batch) = self.flows.batches.change(&self.disk, &keys::batch(batch_id))?
        {
            batch.kept_by -= 1;
            self.flows.moved.insert(batch_id.clone());
        }
        if let Some(place) = ties.chain {
            let key = keys::chain(place.first);
            if let Some(chain) = self.flows.chains.change(&self.disk, &key)? {
                chain.kept_by += u64::from(states[0].is_none());
                chain.kept_by -= u64::from(states[1].is_none());
                if chain.kept_by == 0 {
                    self.flows.chains.put(key, None);
                }
            }
            if states[1].is_some_and(State::is_ended) {
                self.flows.stepped.push(id);
            }
        }
        if states[1].is_none() || ties.waited_by.is_none() {
            return Ok(());
        }
        let key = keys::family(id);
        let waits = ties.waits_for_children;
        let waited = self.flows.families.get(&self.disk, &key)?.and_then(|family| family.waiting);
        if waits != waited {
            let mut family = self.flows.families.get(&self.disk, &key)?.cloned().unwrap_or_default();
            family.waiting = waits;
            self.flows.families.put(key, Some(family));
            self.flows.waiting.insert(id);
        }
        Ok(())
    }

    fn note_work(&mut self, work: &Work) {
        self.batch.put(Space::Flows, keys::work(self.meta.next_work), record::encode(work));
        self.meta.next_work += 1;
        self.hard = true;
    }

    /// Once all else of a group is decided, and again before it is committed: the next steps of chains, parents whose
    /// children have ended, batches whose last member has. One may bring about another.
    pub(super) fn settle_flows(&mut self) -> Result<(), DiskError> {
        loop {
            if let Some(id) = self.flows.stepped.pop() {
                self.settle_step(id)?;
            } else if let Some(parent) = self.flows.waiting.pop_first() {
                self.settle_family(parent)?;
            } else if let Some(id) = self.flows.moved.pop_first() {
                self.settle_batch(&id)?;
            } else {
                return Ok(());
            }
        }
    }

    /// A job of a chain has ended: the next one comes in the same commit.
    fn settle_step(&mut self, id: JobId) -> Result<(), DiskError> {
        // It may have been brought back, or have gone, within the group.
        let Some(job) = self.load(id)?.filter(|job| job.is_ended()).cloned() else { return Ok(()) };
        let Some(place) = job.ties.as_ref().and_then(|ties| ties.chain) else { return Ok(()) };
        let result = match job.result {
            BodyRef::Inline { .. } => self.written(Space::Bodies, keys::body(id, BodyKind::Result))?,
            BodyRef::None | BodyRef::Blob(_) => None,
        };
        let result = match &result {
            Some(bytes) => Some(record::unwrap(Space::Bodies, bytes)?),
            None => None,
        };
        let Some(chain) = self.flows.chains.get(&self.disk, &keys::chain(place.first))? else { return Ok(()) };
        if let Some(next) = chain.next(&job, result)
            && let Err(error) = self.enqueue_one(next)?
        {
            tracing::error!(job = %id, "the next step of its chain was refused: {error}");
        }
        Ok(())
    }

    fn settle_family(&mut self, parent: JobId) -> Result<(), DiskError> {
        let Some(family) = self.flows.families.change(&self.disk, &keys::family(parent))? else { return Ok(()) };
        match family.verdict() {
            Verdict::Wait => {}
            Verdict::Join => drop(self.ask(parent, Command::Joined)?),
            Verdict::Fail => drop(self.ask(parent, Command::ChildFailed)?),
            Verdict::CancelRest => {
                let work = self.load(parent)?.and_then(|job| flow::cancel_children(job, CancelReason::SiblingFailed));
                if let Some(work) = work {
                    self.note_work(&work);
                }
            }
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
                Some(bytes) => Some(record::unwrap(Space::Flows, bytes)?),
                None => None,
            };
            let Some(batch) = self.flows.batches.change(&self.disk, &key)? else { return Ok(()) };
            if let Some(callback) = batch.callback(payload)
                && let Err(error) = self.enqueue_one(callback)?
            {
                tracing::error!(batch = id, "its callback was refused: {error}");
            }
            self.hard = true;
        } else if batch.is_over() {
            self.flows.batches.put(key, None);
            self.batch.delete(Space::Flows, keys::callback(id));
            self.hard = true;
        }
        Ok(())
    }

    /// A value, as this group or an earlier one has written it.
    fn written(&self, space: Space, key: Vec<u8>) -> Result<Option<Vec<u8>>, DiskError> {
        let key = (space, key);
        match self.batch.writes.get(&key) {
            Some(written) => Ok(written.clone()),
            None => Ok(self.disk.get(space, &key.1)?.map(|bytes| bytes.to_vec())),
        }
    }

    pub(super) fn put_chain(&mut self, first: JobId, chain: Chain) -> Result<(), DiskError> {
        let key = keys::chain(first);
        // A child that was removed and is spawned again has steps from its first time.
        let kept_by = self.flows.chains.get(&self.disk, &key)?.map_or(0, |old| old.kept_by);
        self.flows.chains.put(key, Some(Chain { kept_by, ..chain }));
        Ok(())
    }

    /// The id of a job that somebody puts under a parent: by its ordinal, so that it can be found without a list.
    pub(super) fn adopt(&mut self, parent: JobId) -> Result<Option<JobId>, DiskError> {
        let Some(mut job) = self.load(parent)?.cloned() else { return Ok(None) };
        let ties = job.ties.get_or_insert_default();
        let mut id = JobId::adopted(parent, ties.adopted);
        ties.adopted += 1;
        // A parent that was removed and is spawned again has children from its first time.
        while self.load(id)?.is_some() {
            id = JobId::adopted(parent, ties.adopted);
            ties.adopted += 1;
        }
        self.put_job(job)?;
        self.hard = true;
        Ok(Some(id))
    }

    pub(super) fn make_batch(
        &mut self,
        new: NewBatch,
        mut jobs: Vec<NewJob>,
        seal: bool,
    ) -> Result<Result<BatchMade, Error>, DiskError> {
        if let Err(refusal) = new.check() {
            return Ok(Err(refusal.into()));
        }
        let chance = u128::from(self.next_seed()) << 16 ^ u128::from(self.next_seed());
        let batch = new.make(JobId::new(self.now, chance), self.now);
        let id = batch.id.clone();
        for job in &mut jobs {
            job.batch_id = Some(id.clone());
        }
        let key = keys::batch(&id);
        // A request that is sent again finds its batch, sealed by now.
        let known = self.flows.batches.get(&self.disk, &key)?.is_some();
        if !known {
            self.flows.batches.put(key.clone(), Some(batch));
        }
        let sealed = match self.flows.batches.change(&self.disk, &key)? {
            Some(batch) if known => batch.sealed_at.take(),
            Some(_) | None => None,
        };
        let stored = self.enqueue(jobs)?;
        let Some(batch) = self.flows.batches.change(&self.disk, &key)? else { return Ok(Err(no_batch(&id).into())) };
        batch.sealed_at = sealed;
        let jobs = match stored {
            Ok(jobs) => jobs,
            Err(error) => {
                if !known {
                    self.flows.batches.put(key, None);
                }
                return Ok(Err(error));
            }
        };
        if seal {
            batch.seal(self.now);
        }
        if let Some(payload) = new.callback.and_then(|callback| callback.payload).filter(|_| !known) {
            self.batch.put(Space::Flows, keys::callback(&id), record::wrap(&payload));
        }
        self.flows.moved.insert(id.clone());
        self.hard = true;
        Ok(Ok(BatchMade { id, jobs }))
    }

    /// Seals a batch; to seal it again changes nothing.
    pub(super) fn seal(&mut self, id: String, answer: Answer<Batch>) -> Result<(), DiskError> {
        let Some(batch) = self.flows.batches.change(&self.disk, &keys::batch(&id))? else {
            let error = Err(no_batch(&id).into());
            self.outbox.push(Outgoing::Batch(answer, Box::new(error)));
            return Ok(());
        };
        batch.seal(self.now);
        self.flows.moved.insert(id.clone());
        self.flows.sealing.push((id, answer));
        self.hard = true;
        Ok(())
    }

    /// Answers those who sealed a batch, now that it is known whether that fired its callback.
    pub(super) fn answer_seals(&mut self) -> Result<(), DiskError> {
        for (id, answer) in std::mem::take(&mut self.flows.sealing) {
            let batch = self.flows.batches.get(&self.disk, &keys::batch(&id))?.cloned();
            let value = batch.ok_or_else(|| no_batch(&id).into());
            self.outbox.push(Outgoing::Batch(answer, Box::new(value)));
        }
        Ok(())
    }

    /// Whether a job can be tied to what it names: looked at before anything is stored.
    pub(super) fn check_ties(&mut self, job: &NewJob) -> Result<Result<(), Refusal>, DiskError> {
        if let Some(id) = &job.batch_id {
            match self.flows.batches.get(&self.disk, &keys::batch(id))? {
                None => {
                    let why = format!("there is no batch `{id}`; make one with POST /batch");
                    return Ok(Err(Refusal::invalid("batch_id", why)));
                }
                Some(batch) if batch.sealed_at.is_some() => {
                    let why = format!("batch `{id}` is sealed, and no more jobs can join it");
                    return Ok(Err(Refusal::invalid("batch_id", why)));
                }
                Some(_) => {}
            }
        }
        if let Some(parent) = job.parent
            && self.load(parent)?.is_none()
        {
            let why = format!("there is no job {parent}; it may have been removed since it ended");
            return Ok(Err(Refusal::invalid("parent_id", why)));
        }
        for dependency in &job.depends_on {
            if let Dependency::Job(id) = dependency
                && self.load(*id)?.is_none()
            {
                let why = format!("there is no job {id}; it may have been removed since it ended");
                return Ok(Err(Refusal::invalid("depends_on", why)));
            }
        }
        Ok(Ok(()))
    }

    /// The jobs a new one depends on, each once, and where they stand.
    pub(super) fn dependencies_of(&mut self, new: &NewJob) -> Result<Vec<(JobId, State)>, DiskError> {
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

    pub(super) fn put_link(&mut self, dependency: JobId, dependant: JobId) -> Result<(), DiskError> {
        let [from, to] = keys::link(dependency, dependant);
        let mut ended = Some(State::Cancelled);
        if let Some(mut job) = self.load(dependency)?.cloned() {
            ended = job.is_ended().then_some(job.state);
            job.ties.get_or_insert_default().dependants += 1;
            self.put_job(job)?;
        }
        let number = if ended.is_some() { TOLD } else { self.meta.next_work };
        self.batch.put(Space::Links, from, link_value(number));
        self.batch.put(Space::Links, to, end_value(ended));
        self.flows.new_links.entry(dependant).or_default().push(dependency);
        self.hard = true;
        Ok(())
    }

    /// The job goes: so do the links to what it waited for. Those that wait for it hear of it first.
    pub(super) fn drop_links(&mut self, job: &Job) -> Result<(), DiskError> {
        if job.ties.as_ref().is_none_or(|ties| ties.depends_on == 0) {
            return Ok(());
        }
        let mut dependencies = self.flows.new_links.remove(&job.id).unwrap_or_default();
        let prefix = keys::dependencies(job.id);
        self.disk.each(Space::Links, &prefix, &mut |key, _| dependencies.extend(keys::last_job(key)))?;
        for dependency in dependencies {
            for side in keys::link(dependency, job.id) {
                self.batch.delete(Space::Links, side);
            }
        }
        Ok(())
    }

    /// One bounded step of the work that flows have left to do. Reads what earlier groups have committed.
    pub(super) fn step_flows(&mut self) -> Result<(), DiskError> {
        let mut room = self.tuning.sweep;
        while room > 0 && self.meta.work_from < self.meta.next_work {
            let number = self.meta.work_from;
            let Some(bytes) = self.disk.get(Space::Flows, &keys::work(number))? else {
                // Noted in this group: its turn comes after the commit.
                return Ok(());
            };
            let (done, used) = match record::decode(Space::Flows, &bytes)? {
                Work::Release { job, state } => self.tell_dependants(number, job, state, room)?,
                Work::CancelChildren { parent, spawned, adopted, reason } => {
                    self.cancel_children(parent, spawned, adopted, reason, room)?
                }
            };
            // An empty one counts as well, so that a group ends.
            room = room.saturating_sub(used.max(1));
            self.hard = true;
            if done {
                self.flows.cursor = None;
                self.flows.ordinal = 0;
                self.batch.delete(Space::Flows, keys::work(number));
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
            // One that has gone has taken its links along.
            if self.ask(dependant, Command::DependencyEnded { dependency, state })?.is_ok() {
                self.batch.put(Space::Links, from, link_value(TOLD));
                self.batch.put(Space::Links, to, end_value(Some(state)));
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
        reason: CancelReason,
        room: usize,
    ) -> Result<(bool, usize), DiskError> {
        let all = u64::from(spawned) + u64::from(adopted);
        let until = all.min(self.flows.ordinal + room as u64);
        let looked = (until - self.flows.ordinal) as usize;
        for number in self.flows.ordinal..until {
            // One that has ended, or gone, is not touched.
            self.ask(child_id(parent, spawned, number), Command::Cancel { reason: reason.text().to_owned() })?.ok();
        }
        self.flows.ordinal = until;
        Ok((until == all, looked))
    }
}

/// The id of a job's child by its number: those it spawned come first, then those that others put under it.
pub(super) fn child_id(parent: JobId, spawned: u32, number: u64) -> JobId {
    match u32::try_from(number) {
        Ok(ordinal) if ordinal < spawned => JobId::child(parent, ordinal),
        _ => JobId::adopted(parent, u32::try_from(number - u64::from(spawned)).unwrap_or(u32::MAX)),
    }
}

fn no_batch(id: &str) -> Refusal {
    Refusal::not_found("batch", id)
}
