//! Counts. Whatever the engine stores as a number of things is counted again here: gauges and tallies from the records,
//! totals from the events of the whole run. The two must agree after every commit, whatever crashed before it.

use std::collections::BTreeMap;

use windlass_core::flow::{Round, Tally};
use windlass_core::limits::Limiter;
use windlass_core::{
    Body, BodyKind, BodyRef, Command, Complete, Counts, Event, EventKind, Heartbeat, Histogram, Job, JobId, Move,
    Runner, State, Time, Wait,
};
use windlass_store::disk::Space;
use windlass_store::disk::{codec, keys};
use windlass_store::engine::MemoryCounts;

use super::causes::Causes;
use super::check::Stored;
use super::disk::SimDisk;
use super::model::{Model, ModelJob};

/// What has happened in a queue since it was created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    enqueued: u64,
    completed: u64,
    failed: u64,
    dead: u64,
    cancelled: u64,
    wait_ms: u64,
    run_ms: u64,
    waits: Histogram,
    runs: Histogram,
}

/// How often a job was tried. A number is unknown after a group in which it could have come out in several ways.
#[derive(Clone, Debug, Default)]
pub struct Tries {
    attempt: Option<u32>,
    failures: Option<u32>,
    pub crashes: Option<u32>,
    /// Its attempt runs on a version that is on trial: then its failure is not charged.
    canary: Option<bool>,
}

impl Tries {
    pub const NONE: Tries = Tries { attempt: Some(0), failures: Some(0), crashes: Some(0), canary: None };

    fn fail(&mut self) {
        match self.canary {
            Some(false) => self.failures = self.failures.map(|failures| failures + 1),
            Some(true) => {}
            None => self.failures = None,
        }
    }

    fn crash(&mut self) {
        self.crashes = self.crashes.map(|crashes| crashes + 1);
    }

    /// Brought back from its end, in one of these ways.
    fn come_back(&mut self, retried: bool, requeued: bool) {
        match (retried, requeued) {
            (true, false) => *self = Tries::NONE,
            (false, true) => self.crashes = Some(0),
            (true, true) | (false, false) => *self = Tries::default(),
        }
    }
}

/// Removed jobs of a round, by how they ended. None when that is not known.
pub type Past = BTreeMap<(u32, u32), Option<[u64; 3]>>;

/// Why a job is dead by a failure of its own.
pub const CHARGED: [&str; 3] = ["retries used up", "failed for good", "max_duration"];

const ENDS: [State; 3] = [State::Completed, State::Dead, State::Cancelled];

impl Model {
    /// Counts an event that the model has taken; `was` is its job as it was before, `stored` its record after the
    /// group.
    pub fn tally(&mut self, event: &Event, was: Option<&ModelJob>, causes: &Causes, stored: Option<&Job>) {
        self.tally_totals(event, was);
        if event.kind == EventKind::Deleted
            && let Some(was) = was
        {
            self.tally_gone(event, was, causes);
        }
        let (Some(job), Some(was)) = (self.jobs.get_mut(&event.job), was) else { return };
        let tries = &mut job.tries;
        let left = was.state == State::Active && !matches!(event.kind, EventKind::Progress(_));
        // What ends an attempt of this process when that has died is its death.
        let crashed = left && was.local && causes.rebuilt == Some(true);
        match &event.kind {
            EventKind::Cancelling => {}
            EventKind::Checkpoint { .. } => match progress(self.saved.get(&event.job), event.job, causes) {
                Some(true) => tries.crashes = Some(0),
                Some(false) => {}
                None => tries.crashes = None,
            },
            _ if crashed => tries.crash(),
            EventKind::Started { attempt } => {
                assert!(tries.attempt.is_none_or(|before| before + 1 == *attempt), "{event:?} after {tries:?}");
                tries.attempt = Some(*attempt);
                let run = stored.and_then(|stored| stored.run.as_ref());
                tries.canary = run.map(|run| run.canary);
                job.started = Some(event.at);
            }
            // A whole iteration is progress.
            EventKind::Continued { .. } => tries.crashes = Some(0),
            EventKind::Held { .. } if was.state == State::Active && !was.stopping => tries.crashes = Some(0),
            EventKind::Failed { .. } => tries.fail(),
            EventKind::Dead { reason, .. } if CHARGED.contains(&&**reason) => tries.fail(),
            EventKind::Pending { reason } if was.state.is_ended() => {
                tries.come_back(reason != "requeued by hand", reason == "requeued by hand");
            }
            EventKind::Blocked { .. } if was.state.is_ended() => {
                let asked = |what: fn(&Command) -> bool| causes.asked(event.job, what);
                tries.come_back(
                    asked(|command| matches!(command, Command::Retry | Command::Rebuild)),
                    asked(|command| matches!(command, Command::Requeue)),
                );
            }
            EventKind::Moved { .. } => {
                let asked = |wanted: bool| {
                    causes.asked(
                        event.job,
                        |command| matches!(command, Command::Move(Move { reset_attempts, .. }) if *reset_attempts == wanted),
                    )
                };
                match (asked(true), asked(false)) {
                    (true, false) => *tries = Tries::NONE,
                    (false, _) => {}
                    (true, true) => *tries = Tries::default(),
                }
            }
            _ => {}
        }
    }

    fn tally_totals(&mut self, event: &Event, was: Option<&ModelJob>) {
        let Some(queue) = self.queues.get_mut(&event.queue).filter(|_| event.job != JobId::NONE) else { return };
        let totals = &mut queue.totals;
        match &event.kind {
            EventKind::Enqueued => totals.enqueued += 1,
            EventKind::Failed { .. } => totals.failed += 1,
            EventKind::Dead { .. } => totals.dead += 1,
            EventKind::Cancelled { .. } => totals.cancelled += 1,
            EventKind::Completed { .. } => {
                let was = was.expect("a job that completes was there");
                let ran = event.at.since(was.started.expect("it had started")).as_millis() as u64;
                let waited = event.at.since(was.created).as_millis() as u64 - ran;
                totals.completed += 1;
                totals.run_ms += ran;
                totals.wait_ms += waited;
                note(&mut totals.runs, ran);
                note(&mut totals.waits, waited);
            }
            _ => {}
        }
    }

    /// A job of a round is removed. One that is removed because an ancestor is rebuilt will be created again, and
    /// leaves nothing.
    fn tally_gone(&mut self, event: &Event, was: &ModelJob, causes: &Causes) {
        let Some(queue) = self.queues.get(&was.queue).map(|queue| queue.id) else { return };
        let Some(round) = was.round.filter(|_| !was.unseen) else { return };
        let past = self.past.entry((queue, round)).or_insert(Some([0; 3]));
        let deleted = was.state.is_ended()
            || self.clearing.contains(&was.queue)
            || causes.asked(event.job, |command| matches!(command, Command::Delete));
        let parent = was.parent.and_then(|parent| self.jobs.get(&parent));
        let cleared = was.removing.is_some() || was.stopping || parent.is_some_and(|parent| parent.removing.is_some());
        match (deleted, cleared) {
            (false, true) if !was.stopping => {}
            (_, true) => *past = None,
            (_, false) => {
                let end = ENDS.iter().position(|end| *end == was.state).unwrap_or(2);
                *past = past.map(|mut past| {
                    past[end] += 1;
                    past
                });
            }
        }
    }

    /// What could not be worked out is read from the rows.
    pub fn adopt_counts(&mut self, disk: &SimDisk, stored: &Stored) {
        self.saved = checkpoints(disk, stored);
        for (id, job) in &mut self.jobs {
            let Some(stored) = stored.jobs.get(id) else { continue };
            let tries = &mut job.tries;
            tries.attempt.get_or_insert(stored.attempt);
            tries.failures.get_or_insert(stored.failures);
            tries.crashes.get_or_insert(stored.crashes);
            if let Some(run) = &stored.run {
                tries.canary = Some(run.canary);
            }
        }
        let recount = rounds(stored);
        self.past.retain(|place, _| stored.flows.rounds.contains_key(place));
        for (place, row) in &stored.flows.rounds {
            let counted = recount.get(place).cloned().unwrap_or_default();
            if self.blurred == self.group || self.past.get(place).is_some_and(Option::is_none) {
                let ended = [row.tally.completed, row.tally.dead, row.tally.cancelled];
                let kept = [counted.tally.completed, counted.tally.dead, counted.tally.cancelled];
                assert!(ended.iter().zip(kept).all(|(row, kept)| *row >= kept), "{row:?} should be {counted:?}");
                self.past.insert(*place, Some([0, 1, 2].map(|end| ended[end] - kept[end])));
            }
        }
    }

    /// Everything that is stored as a count.
    pub fn check_counts(&self, disk: &SimDisk, stored: &Stored) {
        self.check_queues(stored);
        self.check_tries(stored);
        self.check_round_rows(stored);
        check_flows(stored);
        check_ties(stored);
        check_limiters(disk, stored);
        check_canaries(stored);
        check_meta(self, stored);
    }

    fn check_queues(&self, stored: &Stored) {
        for queue in stored.queues.values() {
            for state in State::ALL {
                let counted = stored.jobs.values().filter(|job| job.queue == queue.name && job.state == state).count();
                assert_eq!(queue.counts.of(state), counted as u64, "{} jobs of {}", state.as_str(), queue.name);
            }
            let Counts { now: _, enqueued, completed, failed, dead, cancelled, wait_ms, run_ms, waits, runs } =
                queue.counts.clone();
            let found = Totals { enqueued, completed, failed, dead, cancelled, wait_ms, run_ms, waits, runs };
            assert_eq!(found, self.queues[&queue.name].totals, "the totals of {}", queue.name);
        }
    }

    fn check_tries(&self, stored: &Stored) {
        for (id, job) in &stored.jobs {
            let tries = &self.jobs[id].tries;
            let found = [job.attempt, job.failures, job.crashes].map(Some);
            assert_eq!(found, [tries.attempt, tries.failures, tries.crashes], "attempts, failures, crashes of {job:?}");
            assert!(job.attempt <= job.fence, "more attempts than claims: {job:?}");
            // A parent whose child is of the next round is of its generation.
            let generations = match job.parent.map(|parent| stored.jobs.get(&parent)) {
                None => 0..=0,
                Some(Some(parent)) => parent.depth..=parent.depth + 1,
                Some(None) => 0..=self.fair_use.spawn_depth,
            };
            assert!(generations.contains(&job.depth), "{generations:?} generations below the first: {job:?}");
        }
    }

    fn check_round_rows(&self, stored: &Stored) {
        let mut recount = rounds(stored);
        for (place, row) in &stored.flows.rounds {
            let counted = recount.remove(place).unwrap_or_default();
            let past = self.past.get(place).copied().flatten().unwrap_or_default();
            let tally = Tally {
                total: counted.tally.total + past.iter().sum::<u64>(),
                completed: counted.tally.completed + past[0],
                dead: counted.tally.dead + past[1],
                cancelled: counted.tally.cancelled + past[2],
                ..counted.tally
            };
            let expected = Round { tally, opening: row.opening, ..counted };
            assert_eq!(*row, expected, "the numbers of round {place:?}, of which {past:?} are gone");
        }
        assert!(recount.is_empty(), "rounds without a row: {recount:?}");
    }
}

/// What each job has saved.
fn checkpoints(disk: &SimDisk, stored: &Stored) -> BTreeMap<JobId, Body> {
    let inline: BTreeMap<Vec<u8>, _> = disk.all(Space::Bodies).into_iter().collect();
    let saved = stored.jobs.values().filter_map(|job| match job.checkpoint {
        BodyRef::None => None,
        BodyRef::Blob(blob) => Some((job.id, Body::Blob(blob))),
        BodyRef::Inline { .. } => {
            let value = inline.get(&keys::body(job.id, BodyKind::Checkpoint))?;
            Some((job.id, Body::Inline(value[1..].to_vec().into())))
        }
    });
    saved.collect()
}

/// Whether the checkpoint that was saved differs from the one before; none when it is not known which it was.
fn progress(before: Option<&Body>, id: JobId, causes: &Causes) -> Option<bool> {
    let of_job = causes.commands.iter().filter(|(job, _)| *job == id);
    let mut saved = of_job.filter_map(|(_, command)| match command {
        Command::Heartbeat(Heartbeat { checkpoint, .. }) | Command::Wait(Wait { checkpoint, .. }) => {
            checkpoint.as_ref()
        }
        Command::Complete(Complete { closing, .. }) => closing.as_ref().and_then(|closing| closing.checkpoint.as_ref()),
        _ => None,
    });
    match (saved.next(), saved.next()) {
        (Some(saved), None) => Some(before != Some(&saved.body)),
        _ => None,
    }
}

fn note(histogram: &mut Histogram, span_ms: u64) {
    let place = Histogram::BOUNDS_MS.iter().position(|bound| span_ms <= *bound);
    histogram.counts[place.unwrap_or(Histogram::BOUNDS_MS.len())] += 1;
}

/// The rounds of all queues as the stored jobs make them up.
fn rounds(stored: &Stored) -> BTreeMap<(u32, u32), Round> {
    let mut rounds: BTreeMap<(u32, u32), Round> = BTreeMap::new();
    for job in stored.jobs.values() {
        let Some(round) = job.round else { continue };
        let row = rounds.entry((stored.queues[job.queue.as_str()].id, round)).or_default();
        row.tally.total += 1;
        row.tally.references += 1;
        *match job.state {
            State::Completed => &mut row.tally.completed,
            State::Dead => &mut row.tally.dead,
            State::Cancelled => &mut row.tally.cancelled,
            _ => &mut row.tally.open,
        } += 1;
        row.waiting += u64::from(job.waits_for_round().is_some());
    }
    rounds
}

/// What references a batch, a family or a chain: its jobs that are still stored.
fn check_flows(stored: &Stored) {
    let jobs = || stored.jobs.values();
    for (id, batch) in &stored.flows.batches {
        let members = jobs().filter(|job| job.batch_id.as_ref() == Some(id)).count();
        let callback = batch.callback_job.is_some_and(|job| stored.jobs.contains_key(&job));
        assert_eq!(
            batch.tally.references,
            (members + usize::from(callback)) as u64,
            "{batch:?} is referenced by its jobs"
        );
        assert_eq!(
            batch.tally.total,
            batch.tally.open + batch.tally.completed + batch.tally.dead + batch.tally.cancelled,
            "{batch:?}"
        );
        let open = jobs().filter(|job| job.batch_id.as_ref() == Some(id) && !job.is_ended()).count();
        assert_eq!(batch.tally.open, open as u64, "{batch:?}");
    }
    for (parent, family) in &stored.flows.families {
        let children = jobs().filter(|job| job.parent == Some(*parent)).count();
        assert_eq!(family.tally.references, children as u64, "{family:?} of {parent} is referenced by its children");
        assert_eq!(
            family.tally.total,
            family.tally.open + family.tally.completed + family.tally.dead + family.tally.cancelled,
            "{family:?}"
        );
        let open = jobs().filter(|job| job.parent == Some(*parent) && !job.is_ended()).count();
        assert_eq!(family.tally.open, open as u64, "{family:?} of {parent}");
    }
}

/// What a job counts of others.
fn check_ties(stored: &Stored) {
    for (id, job) in &stored.jobs {
        let links = stored.flows.dependencies.get(id).map_or(0, Vec::len);
        let (depends_on, dependants) = job.links.as_ref().map_or((0, 0), |links| (links.depends_on, links.dependants));
        assert_eq!(depends_on as usize, links, "{job:?} depends on so many");
        let waiting = stored.flows.dependants.range((*id, JobId(0))..=(*id, JobId(u128::MAX))).count();
        // A child that was removed and spawned again still has the links of its first time.
        let counts = job.parent.is_some() || dependants as usize >= waiting;
        assert!(counts, "so many were stored as dependants of {job:?}, and {waiting} do");
        assert!(job.waits_for() <= depends_on, "{job:?} waits for more than it depends on");
    }
}

/// Attempts that run, by queue and key.
fn running(stored: &Stored) -> MemoryCounts {
    let mut running = MemoryCounts::default();
    for job in stored.jobs.values() {
        let Some(run) = &job.run else { continue };
        *running.queues.entry(job.queue.clone()).or_default() += 1;
        if let Some(key) = &job.limit_key {
            *running.keys.entry((stored.queues[job.queue.as_str()].id, key.clone())).or_default() += 1;
        }
        if let Runner::Local { plugin, .. } = &run.runner {
            *running.plugins.entry(plugin.clone()).or_default() += 1;
        }
    }
    running
}

fn check_limiters(disk: &SimDisk, stored: &Stored) {
    let mut running = running(stored).keys;
    for (key, value) in disk.all(Space::Limiters) {
        let limiter: Limiter = codec::decode(Space::Limiters, &value).expect("a limiter");
        let (queue, key) = key.split_first_chunk::<4>().expect("a queue's id");
        let queue = u32::from_be_bytes(*queue);
        let key = String::from_utf8(key.to_vec()).expect("a key");
        if key.is_empty() {
            // The queue's own is a note of its starts; running attempts are counted again at each start of the engine.
            continue;
        }
        let counted = running.remove(&(queue, key.clone())).unwrap_or_default();
        assert_eq!(limiter.running, counted, "attempts that run for key {key} of queue {queue}");
    }
    assert!(running.is_empty(), "attempts that no limiter counts: {running:?}");
}

/// What the engine counts in memory only.
pub fn check_memory(found: &MemoryCounts, disk: &SimDisk, stored: &Stored) {
    let expected = running(stored);
    for (queue, running) in &found.queues {
        let counted = expected.queues.get(queue).copied().unwrap_or_default();
        assert_eq!(*running, counted, "attempts that run in {queue}");
    }
    for (key, running) in &found.keys {
        let counted = expected.keys.get(key).copied().unwrap_or_default();
        assert_eq!(*running, counted, "attempts that run for {key:?}");
    }
    for (plugin, running) in &found.plugins {
        let counted = expected.plugins.get(plugin).copied().unwrap_or_default();
        assert_eq!(*running, counted, "attempts of {plugin} that run");
    }
    let missing = expected.plugins.keys().find(|plugin| !found.plugins.contains_key(*plugin));
    assert!(missing.is_none(), "the attempts of {missing:?} are not counted");
    let events = disk.all(Space::Events).into_iter().map(|(_, value)| {
        let (_, events): (u64, Vec<Event>) = codec::decode(Space::Events, &value).expect("events");
        events.len() as u64
    });
    assert_eq!(found.events, events.sum::<u64>(), "events that are stored");
}

/// Of a canary's attempts each runs, has ended, or was given back.
fn check_canaries(stored: &Stored) {
    for plugin in &stored.plugins {
        let Some(canary) = &plugin.canary else { continue };
        let version = plugin.version(&canary.version).map(|version| version.digest());
        let runs = stored.jobs.values().filter_map(|job| job.run.as_ref()).filter(|run| {
            let here = matches!(&run.runner, Runner::Local { plugin: name, version: digest }
                if *name == plugin.name && Some(digest) == version.as_ref());
            here && run.canary && run.started_at > canary.started_at
        });
        let runs = runs.count() as u64;
        assert!(u64::from(canary.ended) + runs <= canary.given, "{runs} of its attempts run: {canary:?}");
    }
}

fn check_meta(model: &Model, stored: &Stored) {
    let meta = &stored.meta;
    let ready = stored.jobs.values().map(|job| job.ready_seq).max().unwrap_or_default();
    assert!(meta.next_ready >= ready, "{ready} is beyond {meta:?}");
    let queue = stored.queues.values().map(|queue| queue.id).max().unwrap_or_default();
    assert!(meta.next_queue >= queue, "{queue} is beyond {meta:?}");
    assert!(meta.events_reserved > model.last_event, "{} is beyond {meta:?}", model.last_event);
    assert!(meta.work_from <= meta.next_work && meta.now > Time::ZERO, "{meta:?}");
}
