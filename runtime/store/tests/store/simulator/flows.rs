//! What should be stored of flows: which job waits for which, and what every batch counts. Fed with the same events as
//! the rest of the model, it knows nothing of links, work or rows; those must agree with it.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::flow::{AfterRemoval, Batch, Chain, Family, FollowUp, OnFailure, Round};
use windlass_core::{Event, EventKind, Job, JobId, State};
use windlass_store::disk::Space;
use windlass_store::disk::{codec, keys};

use super::causes::Causes;
use super::check::Stored;
use super::disk::SimDisk;
use super::model::ModelJob;
use super::rounds::Courses;

/// The rows of flows, decoded.
#[derive(Default)]
pub struct StoredFlows {
    pub batches: BTreeMap<String, Batch>,
    /// What each job depends on.
    pub dependencies: BTreeMap<JobId, Vec<JobId>>,
    /// The same links, from the other side.
    pub dependants: BTreeSet<(JobId, JobId)>,
    pub callbacks: BTreeSet<String>,
    pub families: BTreeMap<JobId, Family>,
    pub chains: BTreeMap<JobId, Chain>,
    pub works: Vec<(u64, FollowUp)>,
    pub rounds: BTreeMap<(u32, u32), Round>,
    pub courses: Courses,
}

impl StoredFlows {
    pub fn read(disk: &SimDisk) -> StoredFlows {
        let mut flows = StoredFlows::default();
        for (key, value) in disk.all(Space::Flows) {
            let text = || String::from_utf8(key[1..].to_vec()).expect("a batch's id");
            let decode = "a row of a flow";
            match key[0] {
                0 => drop(flows.batches.insert(text(), codec::decode(Space::Flows, &value).expect(decode))),
                1 => drop(flows.callbacks.insert(text())),
                2 => drop(flows.families.insert(id(&key, 1), codec::decode(Space::Flows, &value).expect(decode))),
                3 => drop(flows.chains.insert(id(&key, 1), codec::decode(Space::Flows, &value).expect(decode))),
                4 => {
                    let place = keys::read_round(&key).expect("a round");
                    flows.rounds.insert(place, codec::decode(Space::Flows, &value).expect(decode));
                }
                5 => {
                    let queue = u32::from_be_bytes(*key.last_chunk::<4>().expect("a queue's id"));
                    flows.courses.insert(queue, codec::decode(Space::Flows, &value).expect(decode));
                }
                9 => {
                    let number = u64::from_be_bytes(*key.last_chunk::<8>().expect("a number"));
                    flows.works.push((number, codec::decode(Space::Flows, &value).expect(decode)));
                }
                other => panic!("an unknown row of a flow: {other}"),
            }
        }
        for (key, _) in disk.all(Space::Links) {
            match key[0] {
                0 => drop(flows.dependants.insert((id(&key, 1), id(&key, 17)))),
                _ => flows.dependencies.entry(id(&key, 1)).or_default().push(id(&key, 17)),
            }
        }
        flows
    }
}

fn id(key: &[u8], from: usize) -> JobId {
    JobId::from_bytes(key[from..from + 16].try_into().expect("an id"))
}

#[derive(Default)]
pub struct ModelFlows {
    /// The children of each job, and how they ended; removed children are counted too.
    families: BTreeMap<JobId, ModelFamily>,
    /// Jobs of chains that ended in this group.
    stepped: BTreeSet<JobId>,
    /// Every job of a chain that was ever enqueued.
    steps: BTreeSet<JobId>,
    waits: BTreeMap<JobId, Waits>,
    pub batches: BTreeMap<String, ModelBatch>,
    /// Every callback that was ever enqueued.
    callbacks: BTreeSet<JobId>,
}

#[derive(Debug)]
struct Waits {
    policy: OnFailure,
    waiting: BTreeSet<JobId>,
    /// One whose failure matters to it has failed, since it was last brought back.
    failed: bool,
    ever_failed: bool,
}

#[derive(Debug, Default)]
struct ModelFamily {
    children: BTreeMap<JobId, Option<State>>,
    past: Vec<PastChild>,
    waiting: Option<OnFailure>,
    /// Failures it has been run again after.
    seen: usize,
}

/// A child that was removed.
#[derive(Debug)]
struct PastChild {
    id: JobId,
    /// Cancelled also when it had not ended.
    state: State,
    had_ended: bool,
}

impl ModelFamily {
    fn failures(&self) -> usize {
        let past = self.past.iter().map(|child| &child.state);
        self.children.values().flatten().chain(past).filter(|state| failed(Some(**state))).count()
    }

    /// Whether what a parent's error says of one of its children is so.
    fn is_true(&self, child: JobId, reason: &str) -> bool {
        let says = |text: &str| reason.contains(text);
        let past = self.past.iter().rfind(|past| past.id == child);
        match (self.children.get(&child), past) {
            (Some(Some(State::Dead)), _) => says(" failed: "),
            (Some(Some(State::Cancelled)), _) => says(" was cancelled: "),
            (Some(_), _) | (None, None) => false,
            (None, Some(past)) => match past.state {
                State::Dead => says(" failed: "),
                State::Cancelled if past.had_ended => says(" was cancelled: "),
                State::Cancelled => says(" was removed before it had ended"),
                _ => false,
            },
        }
    }

    fn count(&self, state: Option<State>) -> u64 {
        let gone = self.past.iter().filter(|past| Some(past.state) == state).count();
        (self.children.values().filter(|child| **child == state).count() + gone) as u64
    }
}

fn failed(state: Option<State>) -> bool {
    matches!(state, Some(State::Dead | State::Cancelled))
}

#[derive(Debug, Default)]
pub struct ModelBatch {
    sealed: bool,
    finished: bool,
    /// Members that are stored, with how they ended.
    members: BTreeMap<JobId, Option<State>>,
    /// Those that were removed.
    past: Vec<State>,
}

impl ModelBatch {
    fn count(&self, state: Option<State>) -> u64 {
        let gone = self.past.iter().filter(|past| Some(**past) == state).count();
        (self.members.values().filter(|member| **member == state).count() + gone) as u64
    }
}

impl ModelFlows {
    pub fn is_callback(&self, job: &Job) -> bool {
        let of = job.links.as_ref().and_then(|links| links.callback_of.as_ref());
        of.is_some_and(|batch| self.batches.contains_key(batch))
    }

    /// A step of a chain after one that has ended.
    pub fn follows(&self, job: &Job) -> bool {
        job.links.as_ref().and_then(|links| links.chain).is_some_and(|place| self.steps.contains(&place.first))
    }

    pub fn wait_for_children(&mut self, id: JobId, stored: Option<&Job>) {
        // One that was brought to an end within the group has left no policy.
        let policy = stored.and_then(|job| job.links.as_ref()).and_then(|links| links.waits_for_children);
        self.families.entry(id).or_default().waiting = Some(policy.unwrap_or(OnFailure::Continue));
    }

    /// New batches: before the events of their members.
    pub fn adopt(&mut self, stored: &StoredFlows, causes: &Causes) {
        for id in stored.batches.keys() {
            if !self.batches.contains_key(id) {
                assert!(causes.batches, "nobody asked for {id}");
                self.batches.insert(id.clone(), ModelBatch::default());
            }
        }
    }

    /// Takes an event, while the jobs are still as they were before it. `job` is its row after the group.
    pub fn before(&mut self, event: &Event, job: Option<&Job>, stored: &StoredFlows, jobs: &BTreeMap<JobId, ModelJob>) {
        let id = event.job;
        let had_ended = jobs.get(&id).is_some_and(|job| job.state.is_ended());
        let rebuilt = jobs.get(&id).is_some_and(|job| job.removing == Some(AfterRemoval::Rebuild));
        if rebuilt && matches!(event.kind, EventKind::Pending { .. } | EventKind::Blocked { .. }) {
            // Its children are created again, and counted again.
            self.families.remove(&id);
        }
        match &event.kind {
            EventKind::Enqueued => {
                let Some(job) = job else { return };
                self.join(id, job, jobs);
                self.wait(id, job, stored, jobs);
            }
            EventKind::Completed { .. } => self.end(id, State::Completed),
            EventKind::Dead { reason, .. } => {
                self.check_blamed(id, reason);
                self.end(id, State::Dead);
            }
            EventKind::Cancelled { reason } => {
                self.check_blamed(id, reason);
                self.end(id, State::Cancelled);
            }
            EventKind::Deleted => {
                if !had_ended {
                    self.end(id, State::Cancelled);
                }
                self.remove(id, had_ended, jobs);
            }
            EventKind::Pending { .. } | EventKind::Blocked { .. } | EventKind::Removing if had_ended => self.reopen(id),
            EventKind::Removing => {
                if let Some(family) = self.families.get_mut(&id) {
                    family.waiting = None;
                }
            }
            _ => {}
        }
    }

    /// A new job: it may belong to a batch, a parent and a chain.
    fn join(&mut self, id: JobId, job: &Job, jobs: &BTreeMap<JobId, ModelJob>) {
        if let Some(batch) = job.batch_id.as_ref().and_then(|batch| self.batches.get_mut(batch)) {
            batch.members.insert(id, None);
        }
        if self.is_callback(job) {
            assert!(self.callbacks.insert(id), "{id} is called back for the second time");
        }
        let known = |parent: &JobId| jobs.contains_key(parent) || self.families.contains_key(parent);
        if let Some(parent) = job.parent.filter(known) {
            self.families.entry(parent).or_default().children.insert(id, None);
        }
        if job.links.as_ref().is_some_and(|links| links.chain.is_some()) {
            self.steps.insert(id);
        }
    }

    /// The job is removed; its batch and its parent still count how it ended.
    fn remove(&mut self, id: JobId, had_ended: bool, jobs: &BTreeMap<JobId, ModelJob>) {
        self.waits.remove(&id);
        self.stepped.remove(&id);
        for family in self.families.values_mut() {
            if let Some(state) = family.children.remove(&id) {
                family.past.push(PastChild { id, state: state.expect("it has ended by now"), had_ended });
            }
        }
        // A family's numbers last as long as a child or the parent does.
        self.families.retain(|parent, family| {
            let gone = *parent == id || !jobs.contains_key(parent);
            if gone {
                family.waiting = None;
            }
            !gone || !family.children.is_empty()
        });
        for batch in self.batches.values_mut() {
            if let Some(state) = batch.members.remove(&id) {
                batch.past.push(state.expect("it has ended by now"));
            }
        }
    }

    /// The job had ended, and was brought back.
    fn reopen(&mut self, id: JobId) {
        self.stepped.remove(&id);
        for family in self.families.values_mut() {
            if let Some(state) = family.children.get_mut(&id) {
                *state = None;
            }
        }
        for batch in self.batches.values_mut() {
            if let Some(state) = batch.members.get_mut(&id) {
                *state = None;
            }
        }
        if let Some(waits) = self.waits.get_mut(&id) {
            waits.failed = false;
        }
    }

    fn wait(&mut self, id: JobId, job: &Job, stored: &StoredFlows, jobs: &BTreeMap<JobId, ModelJob>) {
        let Some(dependencies) = stored.dependencies.get(&id) else { return };
        let policy = job.links.as_ref().expect("a job with links has ties").on_dependency_failure;
        let mut waits = Waits { policy, waiting: BTreeSet::new(), failed: false, ever_failed: false };
        for dependency in dependencies {
            match jobs.get(dependency).map_or(State::Cancelled, |job| job.state) {
                State::Completed => {}
                State::Dead | State::Cancelled => waits.failed |= policy != OnFailure::Continue,
                _ => drop(waits.waiting.insert(*dependency)),
            }
        }
        waits.ever_failed = waits.failed;
        self.waits.insert(id, waits);
    }

    fn end(&mut self, id: JobId, state: State) {
        if self.steps.contains(&id) {
            self.stepped.insert(id);
        }
        for family in self.families.values_mut() {
            if let Some(child) = family.children.get_mut(&id) {
                *child = Some(state);
            }
        }
        if let Some(family) = self.families.get_mut(&id) {
            family.waiting = None;
        }
        for waits in self.waits.values_mut() {
            if waits.waiting.remove(&id) && state != State::Completed && waits.policy != OnFailure::Continue {
                waits.failed = true;
                waits.ever_failed = true;
            }
        }
        for batch in self.batches.values_mut() {
            if let Some(member) = batch.members.get_mut(&id) {
                *member = Some(state);
            }
        }
    }

    fn check_blamed(&self, id: JobId, reason: &str) {
        if let Some(named) = reason.strip_prefix("child ") {
            let family = &self.families[&id];
            assert!(family.failures() > family.seen, "{id}: {reason}, but none has: {family:?}");
            let child: JobId = named.split(' ').next().and_then(|id| id.parse().ok()).expect("the id of a child");
            assert!(family.is_true(child, reason), "{id}: {reason}, but that is not so: {family:?}");
            let more = named.rsplit_once("; ").and_then(|(_, more)| more.split_once(" more child"));
            let more: usize = more.map_or(0, |(more, _)| more.parse().expect("a number"));
            assert_eq!(more + 1, family.failures() - family.seen, "{id}: {reason}: {family:?}");
        }
        if reason.ends_with("among the latest children") {
            // Only a child that had failed and was removed before its parent began to wait leaves no name: its row was
            // gone when its failure began to matter.
            let family = &self.families[&id];
            assert!(!family.children.values().any(|ended| failed(*ended)), "{id}: {reason} names none of {family:?}");
        }
        let blamed = reason.starts_with("dependency ");
        let failed = self.waits.get(&id).is_some_and(|waits| waits.ever_failed);
        assert!(!blamed || failed, "{id}: {reason}, but none of them has failed");
    }

    /// A blocked job continues: all it waited for have ended, and none whose failure matters to it has failed.
    pub fn check_unblocked(&mut self, id: JobId) {
        if let Some(family) = self.families.get_mut(&id)
            && let Some(policy) = family.waiting.take()
        {
            assert_eq!(family.count(None), 0, "{id} continues, and should wait for {family:?}");
            let failed = family.failures() > family.seen;
            assert!(!(failed && policy == OnFailure::Fail), "{id} continues, and should fail with {family:?}");
            family.seen = family.failures();
        }
        let Some(waits) = self.waits.get(&id) else { return };
        assert!(waits.waiting.is_empty() && !waits.failed, "{id} continues, and should wait: {waits:?}");
    }

    /// What must hold after every commit.
    pub fn check(&self, stored: &Stored) {
        let flows = &stored.flows;
        for (dependant, dependencies) in &flows.dependencies {
            assert!(stored.jobs.contains_key(dependant), "links of {dependant}, which is gone");
            for dependency in dependencies {
                let other = flows.dependants.contains(&(*dependency, *dependant));
                assert!(other, "{dependency} does not know that {dependant} waits for it");
            }
        }
        let links: usize = flows.dependencies.values().map(Vec::len).sum();
        assert_eq!(links, flows.dependants.len(), "a link has two sides");
        for (id, waits) in &self.waits {
            let counted = stored.jobs[id].waits_for() as usize;
            assert!(counted >= waits.waiting.len(), "{id} counts {counted} and waits for {waits:?}");
        }
        for (number, work) in &flows.works {
            let open = (stored.meta.work_from..stored.meta.next_work).contains(number);
            assert!(open, "{work:?} is done, or was never noted");
        }
        for (id, batch) in &flows.batches {
            let model = &self.batches[id];
            let counts = [batch.tally.open, batch.tally.completed, batch.tally.dead, batch.tally.cancelled];
            let states = [None, Some(State::Completed), Some(State::Dead), Some(State::Cancelled)];
            assert_eq!(counts, states.map(|state| model.count(state)), "{batch:?} should be {model:?}");
            assert_eq!(batch.tally.total, counts.iter().sum::<u64>(), "{batch:?}");
        }
        for (parent, family) in &flows.families {
            let kept = stored.jobs.contains_key(parent) || family.tally.references > 0;
            assert!(kept, "numbers of the children of {parent}, which were all removed");
            let counts = [family.tally.open, family.tally.completed, family.tally.dead, family.tally.cancelled];
            let states = [None, Some(State::Completed), Some(State::Dead), Some(State::Cancelled)];
            let none = ModelFamily::default();
            let model = self.families.get(parent).unwrap_or(&none);
            assert_eq!(counts, states.map(|state| model.count(state)), "{parent}: {family:?} should be {model:?}");
        }
        for (first, chain) in &flows.chains {
            let of = |job: &&std::rc::Rc<Job>| {
                job.links.as_ref().and_then(|links| links.chain).is_some_and(|place| place.first == *first)
            };
            let jobs = stored.jobs.values().filter(of).count() as u64;
            assert!(chain.references == jobs && jobs > 0, "{chain:?} of {first} is referenced by {jobs} jobs");
        }
        for callback in &flows.callbacks {
            assert!(flows.batches.contains_key(callback), "a callback's payload of {callback}, which is gone");
        }
    }

    /// After the events of a commit: which batches are sealed, have finished or were removed.
    pub fn settle(&mut self, stored: &Stored, causes: &Causes) {
        for id in std::mem::take(&mut self.stepped) {
            let Some(job) = stored.jobs.get(&id) else { continue };
            // A child that was created again under its old id may begin no chain this time.
            let Some(place) = job.links.as_ref().and_then(|links| links.chain) else { continue };
            let next = stored.flows.chains[&place.first].next(job, None).and_then(|next| next.id);
            assert!(next.is_none_or(|next| self.steps.contains(&next)), "{job:?} has ended and nothing follows");
        }
        let callbacks = &self.callbacks;
        self.batches.retain(|id, model| {
            let row = stored.flows.batches.get(id);
            let new = model.members.is_empty() && model.past.is_empty();
            let sealed = row.is_none_or(|batch| batch.sealed_at.is_some());
            let asked = causes.sealed.contains(id) || causes.batches;
            assert!(!sealed || model.sealed || asked, "{id} is sealed, and nobody asked for that");
            assert!(sealed || !model.sealed, "{id} was sealed");
            model.sealed = sealed;
            let ended = sealed && model.count(None) == 0;
            let Some(row) = row else {
                assert!(ended && model.members.is_empty(), "{id} is gone, and was {model:?}");
                return false;
            };
            assert!(row.finished_at.is_some() == (ended || model.finished), "{row:?} should be {model:?}");
            if ended && !model.finished && row.callback_queue.is_some() {
                let called = row.callback_job.is_some_and(|job| callbacks.contains(&job));
                assert!(called || new, "{row:?} has called nobody back");
            }
            model.finished |= ended;
            true
        });
    }

    /// What must hold once the engine has nothing more to do.
    pub fn at_rest(&self, stored: &Stored) {
        assert!(stored.flows.works.is_empty(), "work is left: {:?}", stored.flows.works);
        for (id, waits) in &self.waits {
            let job = &stored.jobs[id];
            assert_eq!(job.waits_for() as usize, waits.waiting.len(), "{job:?} should wait for {waits:?}");
            let stays = !waits.waiting.is_empty() && !waits.failed;
            let joins = self.families.get(id).is_some_and(|family| family.waiting.is_some()) || waits_otherwise(job);
            assert!(job.state != State::Blocked || stays || joins, "{job:?} should not wait: {waits:?}");
        }
        for (id, family) in self.families.iter().filter(|(_, family)| family.waiting.is_some()) {
            let stays =
                family.count(None) > 0 && !(family.waiting == Some(OnFailure::Fail) && family.failures() > family.seen);
            assert!(stays && stored.jobs[id].state == State::Blocked, "{id} should not wait for {family:?}");
            if family.waiting == Some(OnFailure::Cancel) && family.failures() > family.seen {
                for (child, _) in family.children.iter().filter(|(_, state)| state.is_none()) {
                    let stopping = stored.jobs[child].run.as_ref().is_some_and(|run| run.stop.is_some());
                    assert!(stopping, "{child} is not wanted any more: {family:?}");
                }
            }
        }
        for job in stored.jobs.values().filter(|job| job.state == State::Blocked) {
            let waits = self.waits.get(&job.id).is_some_and(|waits| !waits.waiting.is_empty());
            let joins = self.families.get(&job.id).is_some_and(|family| family.waiting.is_some());
            assert!(waits || joins || waits_otherwise(job), "{job:?} waits for nobody");
        }
    }
}

/// For its round, or for the removal of everything below it.
fn waits_otherwise(job: &Job) -> bool {
    job.waits_for_round().is_some() || job.removing().is_some()
}
