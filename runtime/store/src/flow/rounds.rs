//! Rounds in the engine: the numbers of each round follow the moves of its jobs, and before a commit it is looked at
//! which round of a queue may run. Opening one may touch many jobs, so it is noted as work.
//!
//! In memory are the rounds of every queue, not their jobs: as many rows as a tree is deep. Which round may run is
//! always worked out from them, never remembered.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rustc_hash::FxHashMap;
use windlass_core::flow::{
    Bound, FollowUp, GateCheck, Position, Round, RoundEvent, RoundFacts, RoundsState, named_by_gates,
};
use windlass_core::{Command, Event, EventKind, Job, JobId, QueueName, Refusal, Settings};

use crate::disk::{Disk, DiskError, Space, WriteBatch, after_prefix};
use crate::disk::{codec, keys};
use crate::engine::Engine;
use crate::engine::memory::queues::{QueueState, Queues};

#[derive(Default)]
pub struct Rounds {
    levels: FxHashMap<u32, Levels>,
    /// By queue, those whose gates name it.
    behind: HashMap<QueueName, Vec<QueueName>>,
    /// Queues to look at before the commit.
    touched: BTreeSet<u32>,
    /// Rows to write with it.
    changed: BTreeSet<(u32, u32)>,
    changed_courses: BTreeSet<u32>,
}

/// The rounds of one queue.
#[derive(Default)]
struct Levels {
    rows: BTreeMap<u32, Round>,
    /// Those with open jobs.
    open: BTreeSet<u32>,
    course: RoundsState,
}

impl Levels {
    fn position(&self) -> Position {
        RoundsState { current: self.open.first().copied(), ..self.course.clone() }.position()
    }
}

impl Rounds {
    pub fn read(disk: &impl Disk, queues: &Queues) -> Result<Rounds, DiskError> {
        let mut rounds = Rounds::default();
        let mut failed = None;
        disk.each(Space::Flows, &keys::all_rounds(), &mut |key, value| match (
            keys::read_round(key),
            codec::decode::<Round>(Space::Flows, value),
        ) {
            (Some((queue, round)), Ok(row)) => {
                let levels = rounds.levels.entry(queue).or_default();
                if row.tally.open > 0 {
                    levels.open.insert(round);
                }
                levels.rows.insert(round, row);
            }
            (None, _) => {}
            (_, Err(error)) => failed = Some(error),
        })?;
        for queue in queues.iter() {
            let id = queue.row.id;
            if let Some(bytes) = disk.get(Space::Flows, &keys::course(id))? {
                rounds.levels.entry(id).or_default().course = codec::decode(Space::Flows, &bytes)?;
            }
            if queue.row.settings.rounds {
                rounds.touched.insert(id);
            }
        }
        rounds.read_gates(queues);
        failed.map_or(Ok(rounds), Err)
    }

    /// Who stands behind whom.
    fn read_gates(&mut self, queues: &Queues) {
        self.behind.clear();
        for queue in queues.iter() {
            if let Some(gate) = &queue.row.settings.gate {
                self.behind.entry(gate.queue.clone()).or_default().push(queue.row.name.clone());
            }
        }
        self.behind.values_mut().for_each(|names| names.sort());
    }

    pub fn behind(&self, queue: &QueueName) -> &[QueueName] {
        self.behind.get(queue).map_or(&[], Vec::as_slice)
    }

    fn row(&mut self, queue: u32, round: u32) -> &mut Round {
        self.changed.insert((queue, round));
        self.levels.entry(queue).or_default().rows.entry(round).or_default()
    }

    fn position(&self, queue: u32) -> Position {
        self.levels.get(&queue).map_or(Position::Idle, Levels::position)
    }

    /// Drops what is not needed any more, and returns the round that is to be opened: it runs, jobs wait for it, and no
    /// work is noted that would make them pending. After this call it is.
    fn tidy(&mut self, queue: u32) -> Option<u32> {
        let levels = self.levels.get_mut(&queue)?;
        if levels.course.current.is_none() {
            // All have ended: numbers stay as long as a job of theirs does.
            let gone = levels.rows.extract_if(.., |_, row| row.tally.references == 0);
            self.changed.extend(gone.map(|(round, _)| (queue, round)));
        }
        let round = levels.course.running?;
        let row = levels.rows.get_mut(&round).filter(|row| row.waiting > 0 && !row.opening)?;
        row.opening = true;
        self.changed.insert((queue, round));
        Some(round)
    }

    pub fn gather(&mut self, batch: &mut WriteBatch) {
        for (queue, round) in std::mem::take(&mut self.changed) {
            let key = keys::round(queue, round);
            match self.levels.get(&queue).and_then(|levels| levels.rows.get(&round)) {
                Some(row) => batch.put(Space::Flows, key, codec::encode(row)),
                None => batch.delete(Space::Flows, key),
            }
        }
        for queue in std::mem::take(&mut self.changed_courses) {
            match self.levels.get(&queue) {
                Some(levels) => batch.put(Space::Flows, keys::course(queue), codec::encode(&levels.course)),
                None => batch.delete(Space::Flows, keys::course(queue)),
            }
        }
    }
}

impl<D: Disk> Engine<D> {
    /// A job has changed its state, was stored or removed: the counts of its round follow. `forgotten` is one that its
    /// parent creates again.
    pub(crate) fn follow_round(&mut self, was: Option<&Job>, is: Option<&Job>, forgotten: bool) {
        let [from, to] = [was, is].map(|job| job.and_then(|job| self.place_of(job)));
        if from.is_none() && to.is_none() {
            return;
        }
        let states = [was, is].map(|job| job.map(|job| job.state));
        let waits = [was, is].map(|job| job.is_some_and(|job| job.waits_for_round().is_some()));
        if from == to && states[0] == states[1] && waits[0] == waits[1] {
            return;
        }
        if let Some((queue, round)) = from {
            let row = self.rounds.row(queue, round);
            row.waiting = row.waiting.saturating_sub(u64::from(waits[0]));
            match (states, is) {
                _ if from == to => row.tally.moved(states[0], states[1]),
                (_, None) if !forgotten => row.tally.moved(states[0], None),
                ([Some(state), _], _) => row.tally.left(state),
                ([None, _], _) => {}
            }
        }
        if let Some((queue, round)) = to {
            let row = self.rounds.row(queue, round);
            row.waiting += u64::from(waits[1]);
            if from != to {
                row.tally.moved(None, states[1]);
            }
        }
        for (queue, round) in [from, to].into_iter().flatten() {
            self.touch_round(queue, round);
        }
    }

    fn touch_round(&mut self, queue: u32, round: u32) {
        let rounds = &mut self.rounds;
        rounds.touched.insert(queue);
        if let Some(levels) = rounds.levels.get_mut(&queue) {
            if levels.rows.get(&round).is_some_and(|row| row.tally.open > 0) {
                levels.open.insert(round);
            } else {
                levels.open.remove(&round);
            }
            if !std::mem::replace(&mut levels.course.began, true) {
                rounds.changed_courses.insert(queue);
                self.touch_neighbours_of(queue);
            }
        }
    }

    /// A queue is no longer idle. Should its first job have ended at once, nothing else would notify the queues behind
    /// its gate.
    fn touch_neighbours_of(&mut self, queue: u32) {
        let row = self.queues.by_id(queue).map(|queue| &queue.row);
        let Some((name, gate)) = row.map(|row| (row.name.clone(), row.settings.gate.clone())) else { return };
        self.touch_neighbours(&name, gate.map(|gate| gate.queue));
    }

    fn place_of(&self, job: &Job) -> Option<(u32, u32)> {
        let round = job.round?;
        Some((self.queues.get(&job.queue)?.row.id, round))
    }

    /// What a decision about a job of this queue must know of its rounds.
    pub(crate) fn round_facts(&self, queue: &QueueName) -> Option<RoundFacts> {
        let state = self.queues.get(queue).filter(|queue| queue.row.settings.rounds)?;
        Some(RoundFacts { upto: Bound::upto(&self.bounds_of(state)), parent: None })
    }

    /// The same for a new job.
    pub(crate) fn round_facts_of_new(
        &mut self,
        queue: &QueueName,
        parent: Option<JobId>,
    ) -> Result<Option<RoundFacts>, DiskError> {
        let Some(facts) = self.round_facts(queue) else { return Ok(None) };
        let parent = match parent {
            Some(parent) => self.load(parent)?.and_then(|parent| parent.round),
            None => None,
        };
        Ok(Some(RoundFacts { parent, ..facts }))
    }

    /// All that holds rounds of a queue back now.
    fn bounds_of(&self, queue: &QueueState) -> Vec<Bound> {
        let row = &queue.row;
        let position = |name: &QueueName| self.queues.get(name).map(|queue| self.rounds.position(queue.row.id));
        let open = self.rounds.levels.get(&row.id).and_then(|levels| levels.open.first());
        let lead = row.settings.gate.as_ref().and_then(|gate| Bound::lead(gate, position(&gate.queue)?));
        let behind = self.rounds.behind(&row.name).iter().filter_map(|name| {
            let gate = self.queues.get(name)?.row.settings.gate.as_ref()?;
            Bound::max_lead(name, gate, position(name)?)
        });
        open.map(|round| Bound::lower(*round)).into_iter().chain(lead).chain(behind).collect()
    }

    /// Once all else of a group is decided: has a round ended, and may another run? False when there was nothing to
    /// look at.
    pub(crate) fn settle_rounds(&mut self) -> bool {
        let Some(id) = self.rounds.touched.pop_first() else { return false };
        let Some(queue) = self.queues.by_id(id) else { return true };
        let upto = Bound::upto(&self.bounds_of(queue)).filter(|_| queue.row.settings.rounds);
        let (name, gate) = (queue.row.name.clone(), queue.row.settings.gate.clone());
        let Some(levels) = self.rounds.levels.get_mut(&id) else { return true };
        let before = levels.course.clone();
        let told = levels.course.step(levels.open.first().copied(), upto, |round| levels.open.contains(&round));
        let course = levels.course.clone();
        let told = told.into_iter().flatten().filter_map(|(round, ended)| {
            let kind = EventKind::Round(RoundEvent::new(round, ended, levels.rows.get(&round)?));
            Some(Event { at: self.now, job: JobId::NONE, queue: name.clone(), scope: None, kind })
        });
        self.events.extend(told);
        if course != before {
            self.rounds.changed_courses.insert(id);
            self.unsaved.require_commit();
        }
        if let Some(round) = self.rounds.tidy(id) {
            self.note_work(&FollowUp::OpenRound { queue: name.clone(), round });
        }
        if course.position() != before.position() {
            self.touch_neighbours(&name, gate.map(|gate| gate.queue));
        }
        true
    }

    /// The queues whose rounds go by where this one is.
    fn touch_neighbours(&mut self, name: &QueueName, ahead: Option<QueueName>) {
        let names = self.rounds.behind(name).iter().chain(&ahead);
        let ids: Vec<u32> = names.filter_map(|name| self.queues.get(name)).map(|queue| queue.row.id).collect();
        self.rounds.touched.extend(ids);
    }

    /// Makes up to `room` jobs that wait for a round pending; returns whether these were all, and how many.
    pub(crate) fn open_round(
        &mut self,
        queue: &QueueName,
        round: u32,
        room: usize,
    ) -> Result<(bool, usize), DiskError> {
        let Some(id) = self.queues.get(queue).map(|queue| queue.row.id) else { return Ok((true, 0)) };
        let admitted = self.round_facts(queue).is_some_and(|facts| facts.admits(round));
        let prefix = keys::waits_for_round(id, round);
        let from = self.flows.take_cursor().unwrap_or_else(|| prefix.clone());
        let room = if admitted { room } else { 0 };
        let page = self.disk.scan(Space::Rounds, &from, &after_prefix(&prefix), room)?;
        for (key, _) in &page {
            if let Some(job) = keys::last_job(key) {
                self.try_ask(job, Command::RoundStarted)?;
            }
        }
        if admitted
            && page.len() == room
            && let Some((last, _)) = page.last()
        {
            let mut next = last.to_vec();
            next.push(0);
            self.flows.put_cursor(next);
            return Ok((false, page.len()));
        }
        // Should others have come to wait meanwhile, this is noted again.
        if let Some(row) = self.rounds.levels.get_mut(&id).and_then(|levels| levels.rows.get_mut(&round)) {
            row.opening = false;
            self.rounds.changed.insert((id, round));
            self.rounds.touched.insert(id);
        }
        Ok((true, page.len()))
    }

    /// Whether a queue may have these settings, as far as they are about rounds.
    pub(crate) fn check_rounds(&self, name: &QueueName, new: &Settings) -> Result<(), Refusal> {
        let row = self.queues.get(name).map(|queue| &queue.row);
        let none = Settings::default();
        let was = row.map_or(&none, |row| &row.settings);
        let open = row.map_or(0, |row| row.counts.open());
        let check = GateCheck { queue: name, was, new, open, gated_by: self.rounds.behind(name) };
        check.check(|other| self.queues.get(other).map(|queue| &queue.row.settings))
    }

    pub(crate) fn check_unnamed(&self, name: &QueueName) -> Result<(), Refusal> {
        named_by_gates(name, self.rounds.behind(name))
    }

    /// Settings have changed, or a queue was removed: the gates are read again, and all queues with rounds are looked
    /// at.
    pub(crate) fn regate(&mut self) {
        self.rounds.read_gates(&self.queues);
        let with_rounds = self.queues.iter().filter(|queue| queue.row.settings.rounds);
        self.rounds.touched.extend(with_rounds.map(|queue| queue.row.id));
    }

    /// The queue was removed, and with it its numbers.
    pub(crate) fn drop_rounds(&mut self, id: u32) {
        if let Some(levels) = self.rounds.levels.remove(&id) {
            self.rounds.changed.extend(levels.rows.into_keys().map(|round| (id, round)));
            self.rounds.changed_courses.insert(id);
        }
        self.regate();
    }
}
