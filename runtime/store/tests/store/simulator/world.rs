//! One run: the engine on its disk, the callers with their requests, the clock, and the crashes.

use std::collections::HashSet;
use std::time::Duration;

use tokio::sync::{broadcast, mpsc, watch};
use windlass_core::{Command, Complete, Holder, JobId, QueueName, Settings, SlotShare, State, Time, Token, bounds};
use windlass_store::disk::keys;
use windlass_store::disk::{Disk, Space};
use windlass_store::engine::Engine;
use windlass_store::engine::commit::release::Channels;
use windlass_store::engine::thread::recover::Alive;
use windlass_store::limits::Tuning;
use windlass_store::read::events;
use windlass_store::{Assignment, AuditRetention, By, Claim, Error, FairUse, ScheduleChange};

use super::answers::assert_unacknowledged;
use super::bulks::BulkAsk;
use super::causes::Causes;
use super::check::{self, Stored};
use super::commands::{Asked, QUEUES, Receiver, Request, WORKERS};
use super::disk::{Fate, SimDisk};
use super::model::Model;
use super::{recount, rounds};
use crate::rng::Rng;

pub struct World {
    pub rng: Rng,
    pub now: Time,
    pub model: Model,
    /// Attempts that were handed out, also those that have ended: late reports come from those.
    pub held: Vec<(JobId, Token)>,
    pub made: u64,
    pub tickets: u64,
    pub disk: SimDisk,
    engine: Engine<SimDisk>,
    /// What the engine is told.
    fair_use: FairUse,
    tuning: Tuning,
    pub channels: Channels,
    /// Claims that wait for a job.
    pub waiting: Vec<(Claim, Time, Receiver<Vec<Assignment>>)>,
    /// Queues being cleared or removed.
    pub clearing: Vec<(QueueName, Receiver<u64>)>,
    idle_rounds: usize,
    /// The commit that was last looked at.
    checked: u64,
    loud: bool,
    /// A run that is mostly about trees in queues with rounds.
    pub walks: bool,
}

impl World {
    pub fn new(seed: u64, loud: bool) -> World {
        let mut rng = Rng::new(seed);
        let tuning = Tuning {
            cached_jobs: 2 + rng.below(12) as usize,
            window: 1 + rng.below(4) as usize,
            hot_lanes: 1 + rng.below(4) as usize,
            cursor_step: 1 + rng.below(4),
            timers: 1 + rng.below(6) as usize,
            timers_per_group: 1 + rng.below(6) as usize,
            step: 1 + rng.below(5) as usize,
            events: 200,
            event_reserve: 10 + rng.below(100),
            log_lines: 10,
        };
        let channels = Channels {
            events: broadcast::channel(16).0,
            logs: broadcast::channel(16).0,
            effects: mpsc::unbounded_channel().0,
            paused: watch::Sender::new(None),
        };
        // Drawn apart, so that the commands of a seed are the same with and without it.
        let mut other = Rng::new(seed ^ 0x5107);
        let slots =
            other.maybe(70, |rng| SlotShare { slots: 1 + rng.below(5) as u32, percent: 50 + rng.below(51) as u32 });
        let spawn_depth = if other.chance(50) { 1 + other.below(3) as u32 } else { bounds::SPAWN_DEPTH };
        let fair_use = FairUse { slots, spawn_depth };
        let disk = SimDisk::new();
        let now = Time(1_700_000_000_000 + rng.below(3_600_000));
        let (local, new_process) = (HashSet::new(), true);
        let alive = Alive {
            channels: channels.clone(),
            pause: false,
            fair_use,
            audit: AuditRetention::default(),
            local,
            new_process,
        };
        let engine = Engine::recover(disk.clone(), alive, tuning, now, rng.next()).expect("an empty disk opens");
        World {
            rng,
            now,
            model: Model::new(fair_use),
            held: Vec::new(),
            made: 0,
            tickets: 0,
            disk,
            engine,
            fair_use,
            tuning,
            channels,
            waiting: Vec::new(),
            clearing: Vec::new(),
            idle_rounds: 0,
            checked: 0,
            loud,
            walks: false,
        }
    }

    /// Tells the engine another share than the model expects.
    pub fn engine_shares(&mut self, other: fn(SlotShare) -> SlotShare) {
        self.fair_use.slots = self.fair_use.slots.map(other);
        self.engine.set_fair_use(self.fair_use);
    }

    /// Tells the engine that jobs may descend from any number of others.
    pub fn engine_spawns_at_any_depth(&mut self) {
        self.fair_use.spawn_depth = u32::MAX;
        self.engine.set_fair_use(self.fair_use);
    }

    pub fn run(mut self) {
        let steps = 40 + self.rng.below(80);
        for request in self.rounds_at_first() {
            self.calm(vec![request]);
        }
        for step in 0..steps {
            self.pass_time();
            self.say(|world| format!("step {step} at {}", world.now));
            let requests = self.requests();
            self.group(requests);
            if self.rng.chance(2) {
                // Between two groups: what waits for the next commit may be lost.
                self.die(Causes::default());
            }
            if self.rng.chance(30) {
                self.settle();
            }
        }
        self.drain();
    }

    fn pass_time(&mut self) {
        let span = match self.rng.below(100) {
            0..70 => 1 + self.rng.below(200),
            70..90 => 1 + self.rng.below(5_000),
            90..98 => 1 + self.rng.below(120_000),
            _ => 1 + self.rng.below(3 * 24 * 3_600_000),
        };
        self.now = self.now + Duration::from_millis(span);
    }

    fn say(&self, what: impl FnOnce(&World) -> String) {
        if self.loud {
            println!("{}", what(self));
        }
    }

    /// Hands one group to the engine, and looks at everything that came of it.
    fn group(&mut self, requests: Vec<(Request, Asked)>) {
        let (requests, asked): (Vec<Request>, Vec<Asked>) = requests.into_iter().unzip();
        for asked in &asked {
            self.say(|_| format!("  {}", tell(asked)));
        }
        self.leave_some_claims();
        let causes = self.causes(&asked);
        let fate = match self.rng.below(100) {
            0..94 => Fate::Holds,
            94..97 => Fate::Lost,
            _ => Fate::Written,
        };
        let reads_left = self.rng.maybe(3, |rng| rng.below(30));
        self.disk.set_fate(fate, reads_left);
        let done = self.engine.group(requests, self.now);
        self.disk.set_fate(Fate::Holds, None);
        self.model.begin();
        match done {
            Ok(()) => {
                self.sync(&causes);
                self.check_memory();
                self.take_answers(asked);
            }
            Err(error) => {
                self.say(|_| format!("  the disk fails ({fate:?}, {error})"));
                let unavailable = Error::Unavailable { why: error.to_string() };
                let local = self.engine.abandon(&unavailable);
                for asked in asked {
                    assert_unacknowledged(asked);
                }
                self.sync(&causes);
                let alive = if self.rng.chance(50) { None } else { Some(local) };
                self.rebuild(alive);
            }
        }
    }

    /// What the engine counts in memory is what is stored.
    fn check_memory(&self) {
        recount::check_memory(&self.engine.running(), &self.disk, &Stored::read(&self.disk));
    }

    /// The process dies: memory is lost, the disk stays.
    fn die(&mut self, causes: Causes) {
        self.say(|_| "  the process dies".into());
        self.model.begin();
        self.sync(&causes);
        self.rebuild(None);
    }

    /// A new engine from what is on disk; `alive` are the attempts that continue when only the disk had failed.
    fn rebuild(&mut self, alive: Option<HashSet<(JobId, Token)>>) {
        self.waiting.clear();
        self.clearing.clear();
        self.model.clearing.clear();
        let new_process = alive.is_none();
        let local = alive.unwrap_or_default();
        // Sometimes the operator starts it paused.
        let pause = new_process && self.rng.chance(10);
        for _ in 0..10 {
            let fate = if self.rng.chance(10) { Fate::Lost } else { Fate::Holds };
            let (channels, fair_use) = (self.channels.clone(), self.fair_use);
            let alive = Alive {
                channels,
                pause,
                fair_use,
                audit: AuditRetention::default(),
                local: local.clone(),
                new_process,
            };
            let seed = self.rng.next();
            self.engine =
                Engine::recover(self.disk.clone(), alive, self.tuning, self.now, seed).expect("the disk reads");
            self.disk.set_fate(fate, None);
            let done = self.engine.group(Vec::new(), self.now);
            self.disk.set_fate(Fate::Holds, None);
            self.model.begin();
            self.model.alive_from = self.now;
            self.sync(&Causes { rebuilt: Some(new_process), paused: pause.then_some(true), ..Causes::default() });
            if done.is_ok() {
                return;
            }
        }
    }

    /// Callers sometimes disconnect.
    fn leave_some_claims(&mut self) {
        let rng = &mut self.rng;
        self.waiting.retain(|_| !rng.chance(5));
    }

    fn causes(&mut self, asked: &[Asked]) -> Causes {
        let mut causes =
            Causes { claims: self.waiting.iter().map(|(claim, ..)| claim.clone()).collect(), ..Causes::default() };
        for asked in asked {
            match asked {
                Asked::Enqueue { jobs, .. } => self.expect_jobs(jobs),
                Asked::MakeBatch { jobs, .. } => {
                    self.expect_jobs(jobs);
                    causes.batches = true;
                }
                Asked::Seal { batch, .. } => causes.sealed.push(batch.clone()),
                Asked::Claim { claim, .. } => causes.claims.push(claim.clone()),
                Asked::Ask { job, command, children, .. } => {
                    self.expect_jobs(children);
                    causes.commands.push((*job, command.as_ref().clone()));
                }
                Asked::Each { asks, .. } => causes.commands.extend(asks.iter().cloned()),
                Asked::Clear { queue, .. } | Asked::RemoveQueue { queue, .. } => {
                    self.model.clearing.insert(queue.clone());
                }
                Asked::Schedule { change, .. } => {
                    causes.runs_now = matches!(change, ScheduleChange::RunNow { .. });
                    causes.changed_schedule = Some(match change {
                        ScheduleChange::Put { schedule, .. } => schedule.name.clone(),
                        ScheduleChange::Pause { name, .. }
                        | ScheduleChange::RunNow { name }
                        | ScheduleChange::Remove { name } => name.clone(),
                    });
                }
                Asked::Bulk { ask, .. } => {
                    if let BulkAsk::Step { id, jobs, .. } = ask
                        && let Some(action) = self.model.hands.action(*id)
                    {
                        causes.commands.extend(jobs.iter().map(|job| (*job, action.command())));
                    }
                    causes.bulk = Some(ask.clone());
                }
                Asked::Webhook { change, .. } => causes.webhook = Some(change.clone()),
                Asked::Pause { paused, .. } => causes.paused = Some(*paused),
                Asked::Log | Asked::Configure { .. } | Asked::Plugin { .. } => {}
            }
        }
        if let Some(Asked::Configure { queue, settings, .. }) = asked.first() {
            causes.configured = Some((queue.clone(), (**settings).clone()));
        }
        causes
    }

    fn expect_jobs(&mut self, jobs: &[windlass_core::NewJob]) {
        for job in jobs {
            self.model.specs.insert(job.created_by.clone().expect("every job has a label"), job.clone());
        }
    }

    /// Brings the model up to what is on disk, and checks that what is on disk may be so.
    fn sync(&mut self, causes: &Causes) {
        if self.disk.commits() == std::mem::replace(&mut self.checked, self.disk.commits()) {
            return;
        }
        let stored = Stored::read(&self.disk);
        self.model.adopt_pause(&stored, causes, self.now);
        self.model.adopt_settings(&stored, causes);
        self.model.adopt_plugins(&stored);
        self.model.flows.adopt(&stored.flows, causes);
        let new = [self.model.last_event + 1, u64::MAX].map(keys::event);
        for (_, value) in self.disk.scan(Space::Events, &new[0], &new[1], usize::MAX).expect("the disk reads") {
            for record in events::read_chunk(&value, self.model.last_event).expect("events read") {
                self.say(|_| format!("    {} {} {:?}", record.seq, record.event.job, record.event.kind));
                let job = stored.jobs.get(&record.event.job).map(|job| &**job);
                self.model.flows.before(&record.event, job, &stored.flows, &self.model.jobs);
                let was = self.model.jobs.get(&record.event.job).cloned();
                self.model.take(&record, causes, job);
                self.model.tally(&record.event, was.as_ref(), causes, job);
            }
        }
        self.model.adopt_silent(&stored, causes);
        self.model.adopt_schedules(&stored, causes);
        self.model.flows.settle(&stored, causes);
        self.model.adopt_counts(&self.disk, &stored);
        self.model.adopt_hands(&stored, causes);
        self.model.adopt_hooks(&self.disk, &stored, causes);
        check::disk(&self.disk, &stored, &self.model, self.now);
        self.model.records = rounds::records(&self.disk, &stored);
    }

    /// Lets the engine do everything that is due now, and checks that nothing due is left undone.
    pub fn settle(&mut self) {
        for _ in 0..1_000 {
            let wake = self.engine.next_wake().expect("the disk reads");
            if wake.is_none_or(|at| at > self.now) {
                let stored = Stored::read(&self.disk);
                if stored.paused.is_none() {
                    check::at_rest(&stored, self.now);
                }
                self.model.flows.at_rest(&stored);
                self.model.rounds_at_rest(&stored);
                self.check_waiting();
                self.check_memory();
                return;
            }
            let causes = self.causes(&[]);
            self.engine.group(Vec::new(), self.now).expect("the disk holds");
            self.model.begin();
            self.sync(&causes);
            self.take_assignments();
        }
        let wake = self.engine.next_wake().expect("the disk reads");
        panic!("the engine never comes to rest: it wants to continue at {wake:?}, and it is {}", self.now);
    }

    /// Nothing is stranded: without limits and pauses, claims get every waiting job.
    fn drain(&mut self) {
        self.say(|_| "drain".into());
        let resume = self.pause(false);
        self.calm(vec![resume]);
        self.settle();
        self.waiting.clear();
        for name in QUEUES {
            let name: QueueName = name.parse().expect("a name");
            // Rounds are turned off only when all has ended.
            let rounds = self.model.queues.get(&name).is_some_and(|queue| queue.settings.rounds);
            let request = self.set(name, Settings { rounds, ..Settings::default() });
            self.calm(vec![request]);
        }
        self.settle();
        for round in 0..10_000 {
            let count = 1 + self.rng.below(3) as usize;
            let claim = self.claim_for(WORKERS[round % WORKERS.len()], count);
            let before = self.held.len();
            self.calm(vec![claim]);
            let left = self.model.jobs.values().filter(|job| job.state == State::Pending).count();
            if left == 0 {
                return self.end_all();
            }
            let stuck = self.held.len() == before && round > 2 * WORKERS.len();
            self.idle_rounds = if stuck { self.idle_rounds + 1 } else { 0 };
            assert!(self.idle_rounds < WORKERS.len(), "{left} pending jobs are stranded");
        }
    }

    /// Everything ends, once what waits for people or for each other is let go: rounds start by themselves.
    fn end_all(&mut self) {
        self.say(|_| "end all".into());
        for turn in 0..2_000 {
            self.settle();
            let stored = Stored::read(&self.disk);
            let open: Vec<_> = stored.jobs.values().filter(|job| !job.is_ended()).collect();
            if open.is_empty() {
                return;
            }
            let mut requests = Vec::new();
            for job in open.into_iter().filter(|job| acts_on(job)).take(6) {
                let command = match &job.run {
                    Some(run) => Command::Complete(Complete::by(Holder::Token(run.token))),
                    None => Command::Cancel { reason: "the end".into(), grace: None },
                };
                requests.push(self.ask(job.id, command, Vec::new()));
            }
            requests.push(self.claim_for(WORKERS[turn % WORKERS.len()], 20));
            self.calm(requests);
        }
        let stored = Stored::read(&self.disk);
        let open: Vec<_> = stored.jobs.values().filter(|job| !job.is_ended()).map(|job| (job.id, job.state)).collect();
        panic!("these never end: {open:?}");
    }

    fn claim_for(&mut self, worker: &str, count: usize) -> (Request, Asked) {
        let by = By::Worker { worker_id: worker.to_owned(), hostname: "host".into() };
        let queues: Vec<QueueName> = QUEUES.iter().map(|name| name.parse().expect("a name")).collect();
        let claim = Claim { by, queues, count, wait: Duration::ZERO };
        let (sender, answer) = tokio::sync::oneshot::channel();
        self.tickets += 1;
        let request = Request::Claim {
            ticket: self.tickets,
            claim: claim.clone(),
            caller: None,
            deadline: self.now,
            answer: sender,
        };
        (request, Asked::Claim { claim, deadline: self.now, answer })
    }

    /// A group on a disk that holds.
    fn calm(&mut self, requests: Vec<(Request, Asked)>) {
        let (requests, asked): (Vec<Request>, Vec<Asked>) = requests.into_iter().unzip();
        let causes = self.causes(&asked);
        self.engine.group(requests, self.now).expect("the disk holds");
        self.model.begin();
        self.sync(&causes);
        self.take_answers(asked);
    }
}

/// Whether it runs, or waits for people, for its time or for others: what waits for its turn or its round continues by
/// itself.
fn acts_on(job: &windlass_core::Job) -> bool {
    let tied = job.links.as_ref().is_some_and(|links| links.waits_for > 0 || links.waits_for_children.is_some());
    match job.state {
        State::Active | State::Held | State::Scheduled | State::Retrying => true,
        State::Blocked => tied && job.removing().is_none(),
        State::Pending | State::Completed | State::Dead | State::Cancelled => false,
    }
}

fn tell(asked: &Asked) -> String {
    match asked {
        Asked::Enqueue { jobs, .. } => format!("enqueue {jobs:?}"),
        Asked::MakeBatch { jobs, .. } => format!("make a batch of {jobs:?}"),
        Asked::Seal { batch, .. } => format!("seal {batch}"),
        Asked::Claim { claim, deadline, .. } => format!("claim {claim:?} until {deadline}"),
        Asked::Ask { job, command, children, .. } => format!("ask {job} {command:?} {children:?}"),
        Asked::Each { asks, .. } => format!("ask each {asks:?}"),
        Asked::Log => "log".into(),
        Asked::Configure { queue, settings, .. } => format!("configure {queue} {settings:?}"),
        Asked::Clear { queue, .. } => format!("clear {queue}"),
        Asked::RemoveQueue { queue, .. } => format!("remove {queue}"),
        Asked::Plugin { name, command, .. } => format!("{name}: {command:?}"),
        Asked::Schedule { change, .. } => format!("{change:?}"),
        Asked::Bulk { ask, .. } => format!("{ask:?}"),
        Asked::Webhook { change, .. } => format!("{change:?}"),
        Asked::Pause { paused, .. } => (if *paused { "pause" } else { "resume" }).into(),
    }
}
