//! The rules, one by one. A fixture is the smallest store there is: one job, its locks, and a clock that tests set.

mod agents;
mod attempts;
mod counting;
mod edits;
mod job;
mod links;
mod outcomes;
mod plugins;
mod rounds;
mod stops;
mod table;
mod tokens;
mod unique;

use core::time::Duration;
use std::collections::BTreeMap;

use crate::flow::RoundFacts;
use crate::{
    AttemptError, Body, BodyKind, Change, Checkpoint, Command, Complete, Effect, EventKind, Facts, Fail, Failure,
    Findings, HandBack, Heartbeat, Holder, Job, LockKey, Move, NewJob, PastAttempt, Plugin, PolicyChoice, Priority,
    Queue, Refusal, Reply, Retry, Runner, Settings, State, Time, Token, Usage, decide,
};

pub struct Fixture {
    pub job: Option<Job>,
    pub locks: BTreeMap<LockKey, crate::Lock>,
    pub settings: Settings,
    pub plugin: Option<Plugin>,
    pub now: Time,
    pub effects: Vec<Effect>,
    pub events: Vec<EventKind>,
    pub errors: usize,
    pub last_error: Option<AttemptError>,
    /// What the next enqueue depends on.
    pub dependencies: Vec<(crate::JobId, State)>,
    /// How many children the next command brings.
    pub children: u32,
    /// What the next command says became apparent.
    pub findings: Option<Box<Findings>>,
    /// The attempts that were written down, by their number.
    pub attempts: BTreeMap<u32, PastAttempt>,
    pub rounds: Option<RoundFacts>,
    pub target_rounds: Option<RoundFacts>,
    /// Keys of records written, and whether all were dropped since.
    pub records: Vec<String>,
    pub marks: usize,
    checkpoint: Option<Vec<u8>>,
    asked: u64,
}

impl Fixture {
    pub fn new() -> Fixture {
        Fixture {
            job: None,
            locks: BTreeMap::new(),
            settings: Settings::default(),
            plugin: None,
            now: Time(1_000_000),
            effects: Vec::new(),
            events: Vec::new(),
            errors: 0,
            last_error: None,
            dependencies: Vec::new(),
            children: 0,
            findings: None,
            attempts: BTreeMap::new(),
            rounds: None,
            target_rounds: None,
            records: Vec::new(),
            marks: 0,
            checkpoint: None,
            asked: 0,
        }
    }

    /// A fixture that holds this job.
    pub fn with(new: NewJob) -> Fixture {
        let mut fixture = Fixture::new();
        fixture.enqueue(new).expect("a good job");
        fixture
    }

    pub fn enqueue(&mut self, new: NewJob) -> Result<Reply, Refusal> {
        let checked = new.check(self.now)?;
        self.ask(Command::Enqueue(Box::new(checked)))
    }

    /// Decides and applies the changes.
    pub fn ask(&mut self, command: Command) -> Result<Reply, Refusal> {
        self.asked += 1;
        let queue = Queue {
            name: queue("mail"),
            id: 1,
            created_at: Time::ZERO,
            settings: self.settings.clone(),
            counts: Default::default(),
            settings_by: None,
        };
        let target_lock = match (&command, &self.job) {
            (Command::Move(Move { queue, .. }), Some(job)) => {
                let key = job.unique.as_ref().map(|unique| unique.lock_key(queue, job.scope.as_deref()));
                key.and_then(|key| self.locks.get(&key).cloned())
            }
            _ => None,
        };
        let (job, key) = match &command {
            Command::Enqueue(new) => {
                let key = new.unique.as_ref().map(|unique| unique.lock_key(&queue.name, new.scope.as_deref()));
                (self.job.clone().filter(|job| Some(job.id) == new.id), key)
            }
            _ => (self.job.clone(), self.job.as_ref().and_then(Job::lock_key)),
        };
        let lock = key.and_then(|key| self.locks.get(&key).cloned());
        let facts = Facts {
            lock,
            target_lock,
            plugin: self.plugin.as_ref(),
            children: self.children,
            findings: self.findings.take(),
            dependencies: self.dependencies.clone(),
            rounds: self.rounds,
            target_rounds: self.target_rounds,
            checkpoint: self.checkpoint.clone(),
            ..Facts::new(job, &queue)
        };
        let decision = decide(command, facts, self.now, self.asked)?;
        for change in decision.changes {
            match change {
                Change::Job(job) => self.job = Some(*job),
                Change::Remove(_) | Change::Forget(_) => self.job = None,
                Change::Record { record, .. } => self.records.push(record.key),
                Change::Mark(_) => self.marks += 1,
                Change::DropRecords(_) => self.records.clear(),
                Change::Lock { key, lock: Some(lock) } => drop(self.locks.insert(key, lock)),
                Change::Lock { key, lock: None } => drop(self.locks.remove(&key)),
                Change::Error { error, .. } => {
                    self.errors += 1;
                    self.last_error = Some(error);
                }
                Change::Attempt { attempt, replace, .. } => {
                    if replace || !self.attempts.contains_key(&attempt.number) {
                        self.attempts.insert(attempt.number, *attempt);
                    }
                }
                Change::Event(event) => self.events.push(event.kind),
                Change::Body { kind: BodyKind::Checkpoint, body, .. } => {
                    self.checkpoint = body.and_then(|body| match body {
                        Body::Inline(bytes) => Some(bytes.to_vec()),
                        Body::Blob(_) => None,
                    });
                }
                Change::Body { .. } | Change::Link { .. } | Change::Chain { .. } => {}
                Change::Plugin(plugin) => self.plugin = Some(*plugin),
            }
        }
        self.effects.extend(decision.effects);
        if let Some(job) = &self.job {
            assert_eq!(
                job.run.is_some(),
                job.state == State::Active,
                "an attempt lives while its job is active: {job:?}"
            );
        }
        Ok(decision.reply)
    }

    pub fn job(&self) -> &Job {
        self.job.as_ref().expect("the fixture holds a job")
    }

    pub fn state(&self) -> State {
        self.job().state
    }

    pub fn pass(&mut self, seconds: u64) {
        self.now = self.now + Duration::from_secs(seconds);
    }

    /// Claims it for a worker outside, or for this process.
    pub fn start(&mut self, runner: Runner) -> Holder {
        match self.ask(Command::Start { runner, by: None }).expect("it is pending") {
            Reply::Started { token, .. } => Holder::Token(token),
            other => panic!("started, and answered {other:?}"),
        }
    }

    pub fn reason(&self) -> &str {
        &self.job().timeline.steps.last().expect("it has a history").reason
    }
}

pub fn queue(name: &str) -> crate::QueueName {
    name.parse().expect("a queue's name")
}

pub fn outside() -> Runner {
    Runner::External { worker_id: "ann".into(), hostname: "host".into() }
}

pub fn here() -> Runner {
    Runner::Local { plugin: "sender".parse().expect("a name"), version: "1".into() }
}

pub fn plain() -> NewJob {
    NewJob { queue: Some(queue("mail")), ..NewJob::default() }
}

pub fn policy(policy: PolicyChoice) -> NewJob {
    NewJob { policy, ..plain() }
}

pub fn complete(holder: Holder) -> Command {
    Command::Complete(Complete::by(holder))
}

pub fn fail(holder: Holder, retry: Retry) -> Command {
    let failure = Failure { error: "it broke".into(), backtrace: None, retry };
    Command::Fail(Fail { holder, failure, usage: Usage::default() })
}

pub fn hand_back(holder: Holder) -> Command {
    Command::HandBack(HandBack { holder, reason: "shutting down".into(), usage: Usage::default() })
}

pub fn heartbeat(holder: Holder) -> Command {
    Command::Heartbeat(Heartbeat::by(holder))
}

/// A heartbeat with a checkpoint.
pub fn save(holder: Holder, body: Body) -> Command {
    let checkpoint = Some(Checkpoint { body, schema: 0, usage: Usage::default() });
    Command::Heartbeat(Heartbeat { checkpoint, ..Heartbeat::by(holder) })
}

pub fn cancel() -> Command {
    Command::Cancel { reason: "not wanted".into(), grace: None }
}

pub fn hold() -> Command {
    Command::Hold { reason: "wait".into() }
}

pub fn watch() -> Command {
    Command::Watch { alive_from: Time::ZERO }
}

pub fn move_to(name: &str) -> Command {
    Command::Move(Move { queue: queue(name), reset_attempts: false, priority: Some(Priority::High) })
}

pub const STRANGER: Holder = Holder::Token(Token { fence: 1, secret: 0 });
