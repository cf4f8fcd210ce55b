//! What should be stored of rounds, gates, rebuilds and records: which round may run is worked out from the jobs alone,
//! and what the engine stores must agree with it.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::flow::{AfterRemoval, Position, RoundEvent, RoundsPhase, RoundsState};
use windlass_core::{AfterStop, Event, JobId, QueueName, Record, Settings, State};
use windlass_store::disk::Space;
use windlass_store::disk::{codec, keys};

use super::check::Stored;
use super::disk::SimDisk;
use super::model::{Model, ModelJob, ModelQueue};

impl Model {
    fn settings(queue: &ModelQueue, before: bool) -> &Settings {
        queue.before.as_ref().filter(|_| before).unwrap_or(&queue.settings)
    }

    fn open_rounds(&self, queue: &QueueName) -> impl Iterator<Item = u32> {
        let open = |job: &&ModelJob| job.queue == *queue && !job.state.is_ended();
        self.jobs.values().filter(open).filter_map(|job| job.round)
    }

    fn position(&self, queue: &QueueName) -> Position {
        match (self.open_rounds(queue).min(), self.queues.get(queue).is_some_and(|queue| queue.began)) {
            (Some(round), _) => Position::At(round),
            (None, true) => Position::Completed,
            (None, false) => Position::Idle,
        }
    }

    /// May this round run? `before`: by the settings this group began with.
    fn admits(&self, name: &QueueName, round: u32, before: bool) -> bool {
        let Some(queue) = self.queues.get(name) else { return true };
        if !Model::settings(queue, before).rounds {
            return true;
        }
        let round_of = |other: &QueueName| match self.position(other) {
            Position::Idle => Some(0),
            Position::At(round) => Some(i64::from(round)),
            Position::Completed => None,
        };
        let round = i64::from(round);
        let lower = self.open_rounds(name).any(|open| i64::from(open) < round);
        let ahead = Model::settings(queue, before).gate.as_ref();
        let behind =
            ahead.is_some_and(|gate| round_of(&gate.queue).is_some_and(|at| at < round + i64::from(gate.lead)));
        let too_far = self.queues.iter().any(|(other, queue)| {
            let gate = Model::settings(queue, before).gate.as_ref().filter(|gate| gate.queue == *name);
            let most = gate.and_then(|gate| gate.max_lead).map(i64::from);
            most.is_some_and(|most| round_of(other).is_some_and(|at| round > at + most))
        });
        !lower && !behind && !too_far
    }

    /// By the settings of this group, or by those it began with.
    pub fn may_run(&self, queue: &QueueName, round: Option<u32>) -> bool {
        round.is_none_or(|round| [false, true].iter().any(|before| self.admits(queue, round, *before)))
    }

    fn must_run(&self, queue: &QueueName, round: u32) -> bool {
        [false, true].iter().all(|before| self.admits(queue, round, *before))
    }

    /// The round of a job that enters a queue, or comes back.
    pub fn round_in(&mut self, queue: &QueueName, round: Option<u32>) -> Option<u32> {
        let queue = self.queues.entry(queue.clone()).or_default();
        if !queue.settings.rounds {
            return None;
        }
        queue.began = true;
        Some(round.unwrap_or(0))
    }

    /// It waits for its round: then that may not run.
    pub fn check_waits_for_round(&self, event: &Event, job: &ModelJob, round: u32) {
        if job.unseen || self.blurred == self.group {
            return;
        }
        assert_eq!(job.round, Some(round), "{event:?} of {job:?}");
        assert!(!self.must_run(&event.queue, round), "{event:?}: round {round} may run, and it waits for it");
    }

    pub fn check_round_event(&self, event: &Event, round: &RoundEvent) {
        assert_eq!(event.job, JobId::NONE, "{event:?}: it is about no job");
        if self.blurred == self.group {
            return;
        }
        let open = self.open_rounds(&event.queue).filter(|open| *open == round.round).count() as u64;
        assert_eq!(round.open, open, "{event:?}: so many jobs of the round are open");
        if round.ended {
            assert_eq!(open, 0, "{event:?}: it has not ended");
        } else {
            assert!(open > 0 && self.may_run(&event.queue, Some(round.round)), "{event:?}: it may not run");
        }
    }

    /// What becomes of a job whose ancestor is rebuilt.
    pub fn is_cleared(&self, job: &ModelJob) -> bool {
        let parent = job.parent.and_then(|parent| self.jobs.get(&parent));
        job.removing.is_some() || parent.is_some_and(|parent| parent.removing.is_some())
    }

    /// The subtree of a rebuilt job was removed, except jobs whose parent had been removed before.
    pub fn check_cleared(&self, id: JobId) {
        let left = self.jobs.iter().find(|(_, job)| job.parent == Some(id) && !job.orphan);
        assert!(left.is_none(), "{id} continues or is removed, and {left:?} is still below it");
    }

    /// What must hold after every commit.
    pub fn check_rounds(&self, stored: &Stored) {
        for job in stored.jobs.values() {
            let known = &self.jobs[&job.id];
            assert!(known.unseen || known.round == job.round, "{job:?} should be {known:?}");
            assert!(
                job.removing().is_none() || job.state == State::Blocked,
                "nothing below it is being removed: {job:?}"
            );
            assert!(job.state != State::Pending || known.in_turn, "{job:?} is pending, and its round could not run");
        }
        for queue in stored.queues.values().filter(|queue| queue.settings.rounds) {
            let course = stored.flows.courses.get(&queue.id).cloned().unwrap_or_default();
            let current = self.open_rounds(&queue.name).min();
            assert_eq!((course.current, course.position()), (current, self.position(&queue.name)), "{queue:?}");
            let runs = current.is_some_and(|round| self.admits(&queue.name, round, false));
            assert_eq!(course.phase() == RoundsPhase::Running, runs, "{course:?} of {}", queue.name);
            if let Some(row) = current.and_then(|round| stored.flows.rounds.get(&(queue.id, round))) {
                assert!(!runs || row.waiting == 0 || row.opening, "nothing opens {row:?} of {}", queue.name);
            }
        }
        let queues: BTreeSet<u32> = stored.queues.values().map(|queue| queue.id).collect();
        let known = stored.flows.rounds.keys().map(|(queue, _)| queue).chain(stored.flows.courses.keys());
        assert!(known.into_iter().all(|queue| queues.contains(queue)), "rounds of a queue that is gone");
    }

    /// What must hold once the engine has nothing more to do.
    pub fn rounds_at_rest(&self, stored: &Stored) {
        for job in stored.jobs.values() {
            if let Some(round) = job.waits_for_round() {
                assert!(!self.admits(&job.queue, round, false), "its round may run: {job:?}");
            }
            if job.removing().is_some() {
                let stops = |child: &windlass_core::Job| {
                    let stop = child.run.as_ref().and_then(|run| run.stop.as_ref());
                    child.removing() == Some(AfterRemoval::Remove)
                        || stop.is_some_and(|stop| stop.then == AfterStop::Remove)
                };
                let waits = stored.jobs.values().any(|child| child.parent == Some(job.id) && stops(child));
                assert!(waits, "nothing is left below {job:?}");
            }
        }
        for ((queue, round), row) in &stored.flows.rounds {
            assert!(!row.opening, "round {round} of queue {queue} is being opened for ever");
        }
    }
}

/// Every record has its owner, its entry there, and its mark; and nothing else is left.
pub fn records(disk: &SimDisk, stored: &Stored) -> BTreeMap<(u32, String), Record> {
    let mut rows = BTreeMap::new();
    let (mut marked, mut owned) = (BTreeSet::new(), BTreeSet::new());
    for (key, value) in disk.all(Space::Records) {
        match key[0] {
            0 => {
                let row: Record = codec::decode(Space::Records, &value).expect("a record");
                let queue = u32::from_be_bytes(key[1..5].try_into().expect("a queue's id"));
                assert_eq!(key, keys::record(queue, &row.key), "{row:?} lies elsewhere");
                let owner = stored.jobs.get(&row.job).unwrap_or_else(|| panic!("{row:?} of a job that is gone"));
                assert!(owner.records > 0, "{owner:?} wrote {row:?}");
                rows.insert((queue, row.key.clone()), row);
            }
            1 => drop(marked.insert(key)),
            _ => drop(owned.insert(key)),
        }
    }
    let implied: BTreeSet<Vec<u8>> =
        rows.iter().map(|((queue, key), row)| keys::record_of(row.job, *queue, key)).collect();
    assert_eq!(owned, implied, "who owns which record");
    let with_mark = rows.iter().filter(|(_, row)| row.mark.is_some());
    let implied: BTreeSet<Vec<u8>> = with_mark.map(|((queue, key), _)| keys::marked(*queue, key)).collect();
    assert_eq!(marked, implied, "which records are marked");
    rows
}

/// Where a queue is, as it is stored.
pub type Courses = BTreeMap<u32, RoundsState>;
