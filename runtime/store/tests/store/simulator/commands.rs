//! What the callers of the simulated store ask: random requests over few names, so that they affect each other.

use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;
use windlass_core::flow::{Batch, Callback, Chain, ChainStep, Dependency, NewBatch, OnFailure};
use windlass_core::{
    BackoffKind, Blob, Body, Bulk, Command, Edit, JobId, Move, Name, NewJob, Plugin, PluginCommand, PolicyChoice,
    Priority, QueueName, Reply, Settings, Time, Unique, UniqueScope, Until,
};
use windlass_store::engine::requests::operation;
use windlass_store::engine::requests::operations::{Ask, AskEach, Enqueue, Log, MakeBatch, Seal, SetPaused};
use windlass_store::{Assignment, BatchMade, By, Claim, Enqueued, Error, LogLine, ScheduleChange, WebhookChange};

use super::bulks::BulkAsk;
use super::disk::SimDisk;
use super::world::World;
use crate::rng::Rng;

pub type Request = operation::Request<SimDisk>;
pub type Receiver<T> = oneshot::Receiver<Result<T, Error>>;

/// A request under way, and where its answer will arrive.
pub enum Asked {
    Enqueue { jobs: Vec<NewJob>, answer: Receiver<Vec<Enqueued>> },
    MakeBatch { jobs: Vec<NewJob>, answer: Receiver<BatchMade> },
    Seal { batch: String, answer: Receiver<Batch> },
    Claim { claim: Claim, deadline: Time, answer: Receiver<Vec<Assignment>> },
    Ask { job: JobId, command: Box<Command>, children: Vec<NewJob>, answer: Receiver<Reply> },
    Each { asks: Vec<(JobId, Command)>, answer: Receiver<Vec<Result<Reply, Error>>> },
    Log,
    Configure { queue: QueueName, settings: Box<Settings>, answer: Receiver<Settings> },
    Clear { queue: QueueName, answer: Receiver<u64> },
    RemoveQueue { queue: QueueName, answer: Receiver<u64> },
    Plugin { name: Name, command: Box<PluginCommand>, answer: Receiver<Option<Plugin>> },
    Schedule { change: ScheduleChange, answer: Receiver<()> },
    Bulk { ask: BulkAsk, answer: Receiver<Bulk> },
    Webhook { change: WebhookChange, answer: Receiver<()> },
    Pause { paused: bool, answer: Receiver<()> },
}

impl Asked {
    /// What it asks of jobs.
    pub fn commands(&self) -> Vec<(JobId, Command)> {
        match self {
            Asked::Ask { job, command, .. } => vec![(*job, command.as_ref().clone())],
            Asked::Each { asks, .. } => asks.clone(),
            _ => Vec::new(),
        }
    }
}

pub const QUEUES: [&str; 4] = ["mail", "images", "reports", "sync"];
pub const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "ab"];
pub const WORKERS: [&str; 3] = ["ann", "bob", "cid"];
const UNIQUE: [&str; 3] = ["one", "two", "three"];
pub const PLUGINS: [&str; 2] = ["sender", "painter"];
pub const SCHEDULES: [&str; 2] = ["often", "hourly"];

pub fn queue(rng: &mut Rng) -> QueueName {
    rng.pick(&QUEUES).expect("there are queues").parse().expect("a queue's name")
}

pub fn seconds(rng: &mut Rng, most: u64) -> Duration {
    Duration::from_millis(1 + rng.below(most * 1_000))
}

impl World {
    /// A few requests for one group.
    pub fn requests(&mut self) -> Vec<(Request, Asked)> {
        let paused = self.model.paused.is_some();
        if self.rng.chance(if paused { 20 } else { 2 }) {
            // Also twice over, now and then.
            let wanted = if self.rng.chance(10) { paused } else { !paused };
            return vec![self.pause(wanted)];
        }
        if self.rng.chance(8) {
            // Settings change what everything after them means: they come alone, so that the model knows the order.
            return vec![self.setting()];
        }
        if self.rng.chance(6) {
            return vec![if self.rng.chance(75) { self.bulk() } else { self.webhook() }];
        }
        let count = self.rng.below(5);
        (0..count).map(|_| self.request()).collect()
    }

    pub fn pause(&mut self, paused: bool) -> (Request, Asked) {
        let (request, answer) = Request::new(SetPaused(paused));
        (request, Asked::Pause { paused, answer })
    }

    fn request(&mut self) -> (Request, Asked) {
        match self.rng.below(100) {
            0..30 => self.enqueue(),
            30..55 => self.claim(),
            55..78 => self.attempt_command(),
            78..94 => self.act(),
            94..96 => self.seal(),
            96..98 => self.each(),
            _ => self.log(),
        }
    }

    fn enqueue(&mut self) -> (Request, Asked) {
        let count = if self.rng.chance(70) { 1 } else { 2 + self.rng.below(4) };
        let jobs = self.new_jobs(count);
        if self.rng.chance(10) {
            return self.make_batch(jobs);
        }
        let (request, answer) = Request::new(Enqueue { jobs: jobs.clone() });
        (request, Asked::Enqueue { jobs, answer })
    }

    /// Several, some of which wait for others of them.
    fn new_jobs(&mut self, count: u64) -> Vec<NewJob> {
        let mut jobs: Vec<NewJob> = (0..count).map(|_| self.new_job()).collect();
        for (index, job) in jobs.iter_mut().enumerate() {
            if count > 1 && self.rng.chance(30) {
                // A later one now and then: that may be a circle.
                let most = if self.rng.chance(5) { count } else { index as u64 };
                if most > 0 {
                    job.depends_on.push(Dependency::Sibling(self.rng.below(most) as usize));
                }
            }
        }
        jobs
    }

    fn make_batch(&mut self, mut jobs: Vec<NewJob>) -> (Request, Asked) {
        for job in &mut jobs {
            job.batch_id = None;
        }
        let rng = &mut self.rng;
        let callback = rng.maybe(80, |rng| Callback {
            queue: queue(rng),
            payload: rng.maybe(50, |_| Bytes::from_static(b"{\"mine\": 1}")),
        });
        let batch = NewBatch { callback, ..NewBatch::default() };
        let seal = rng.chance(60);
        if !seal && rng.chance(40) {
            jobs.clear();
        }
        let (request, answer) = Request::new(MakeBatch { batch, jobs: jobs.clone(), seal });
        (request, Asked::MakeBatch { jobs, answer })
    }

    fn seal(&mut self) -> (Request, Asked) {
        let batches: Vec<String> = self.model.flows.batches.keys().cloned().collect();
        let batch = self.rng.pick(&batches).cloned().unwrap_or_else(|| "none".into());
        let (request, answer) = Request::new(Seal { batch: batch.clone(), caller: None });
        (request, Asked::Seal { batch, answer })
    }

    pub fn new_job(&mut self) -> NewJob {
        self.made += 1;
        let label = format!("n{}", self.made);
        let batches: Vec<String> = self.model.flows.batches.keys().rev().take(3).cloned().collect();
        let others: Vec<JobId> = self.model.jobs.keys().rev().take(8).copied().collect();
        let rng = &mut self.rng;
        let scope = rng.maybe(40, |rng| format!("user:{}", rng.below(2)));
        let unique = rng.maybe(35, |rng| unique(rng, scope.is_some()));
        let policy = policy(rng);
        let mut job = NewJob {
            queue: Some(queue(rng)),
            payload: rng.maybe(70, body),
            policy,
            delay: rng.maybe(20, |rng| Duration::from_millis(rng.below(40_000))),
            unique,
            scope,
            limit_key: rng.maybe(50, |rng| (*rng.pick(&KEYS).expect("there are keys")).to_owned()),
            target_worker: rng.maybe(12, |rng| (*rng.pick(&WORKERS).expect("there are workers")).to_owned()),
            tags: rng.maybe(20, |rng| vec![("team".to_owned(), rng.below(3).to_string())]).unwrap_or_default(),
            created_by: Some(label),
            batch_id: rng.maybe(20, |rng| rng.pick(&batches).cloned()).flatten(),
            depends_on: (0..if rng.chance(25) { 1 + rng.below(3) } else { 0 })
                .filter_map(|_| rng.pick(&others).map(|id| Dependency::Job(*id)))
                .collect(),
            on_dependency_failure: OnFailure::ALL[rng.below(3) as usize],
            parent: rng.maybe(8, |rng| rng.pick(&others).copied()).flatten(),
            checkpoint: rng.maybe(10, body),
            hold_reason: rng.maybe(6, |_| "somebody should look".to_owned()),
            ..NewJob::default()
        };
        if self.walks && self.rng.chance(80) {
            // Nothing that would keep it from its turn.
            job.queue = Some(QUEUES[self.rng.below(2) as usize].parse().expect("a name"));
            job.delay = None;
            job.hold_reason = None;
            job.depends_on.clear();
            job.target_worker = None;
            job.unique = None;
            job.policy.expire_after = None;
        }
        if self.rng.chance(8) {
            job.chain = Some(Box::new(self.chain(job.queue.clone().expect("it has a queue"))));
        }
        job
    }

    fn chain(&mut self, first: QueueName) -> Chain {
        let rng = &mut self.rng;
        let step = |queue| ChainStep { queue, payload: None };
        let more = 1 + rng.below(2);
        Chain {
            steps: [first].into_iter().chain((0..more).map(|_| queue(rng))).map(step).collect(),
            on_failure: rng.maybe(50, queue).map(step),
            on_exit: rng.maybe(50, queue).map(step),
            references: 0,
        }
    }

    fn claim(&mut self) -> (Request, Asked) {
        self.tickets += 1;
        let rng = &mut self.rng;
        let by = if rng.chance(35) {
            By::Local
        } else {
            By::Worker {
                worker_id: (*rng.pick(&WORKERS).expect("there are workers")).to_owned(),
                hostname: "host".into(),
            }
        };
        let named = if self.walks && by != By::Local && rng.chance(70) {
            8
        } else if by == By::Local && rng.chance(70) {
            0
        } else {
            1 + rng.below(3)
        };
        let mut queues: Vec<QueueName> = (0..named).map(|_| queue(rng)).collect();
        queues.sort();
        queues.dedup();
        let wait = if rng.chance(40) { seconds(rng, 30) } else { Duration::ZERO };
        let claim = Claim { by, queues, count: 1 + rng.below(4) as usize, wait };
        let (sender, answer) = oneshot::channel();
        let deadline = self.now + wait;
        let request =
            Request::Claim { ticket: self.tickets, claim: claim.clone(), caller: None, deadline, answer: sender };
        (request, Asked::Claim { claim, deadline, answer })
    }

    fn act(&mut self) -> (Request, Asked) {
        if self.walks && self.rng.chance(35) {
            let built = |(_, job): &(&JobId, &super::model::ModelJob)| job.state.is_ended() && job.children > 0;
            let parents: Vec<JobId> = self.model.jobs.iter().filter(built).map(|(id, _)| *id).collect();
            if let Some(job) = self.rng.pick(&parents).copied() {
                return self.ask(job, Command::Rebuild, Vec::new());
            }
        }
        let job = self.some_job();
        let command = self.some_act();
        self.ask(job, command, Vec::new())
    }

    fn some_act(&mut self) -> Command {
        let rng = &mut self.rng;
        match rng.below(100) {
            0..18 => Command::Cancel { reason: "not wanted".into(), grace: rng.maybe(30, |rng| seconds(rng, 20)) },
            18..21 => Command::RunNow,
            21..27 => Command::Retry,
            27..30 => Command::RetryWith { payload: body(rng) },
            30..38 => Command::Rebuild,
            38..48 => Command::Requeue,
            48..60 => Command::Move(Move {
                queue: queue(rng),
                reset_attempts: rng.chance(50),
                priority: rng.maybe(50, |rng| Priority::ALL[rng.below(4) as usize]),
            }),
            60..65 => Command::Reprioritise { priority: Priority::ALL[rng.below(4) as usize] },
            65..70 => Command::Edit(Box::new(self.some_edit())),
            70..80 => Command::Hold { reason: "wait".into() },
            80..88 => Command::Approve,
            88..92 => Command::Reject { reason: "no".into() },
            _ => Command::Delete,
        }
    }

    fn some_edit(&mut self) -> Edit {
        let now = self.now;
        let rng = &mut self.rng;
        Edit {
            payload: rng.maybe(40, body),
            priority: rng.maybe(30, |rng| Priority::ALL[rng.below(4) as usize]),
            scheduled_at: rng.maybe(50, |rng| if rng.chance(30) { now } else { now + seconds(rng, 60) }),
            tags: rng.maybe(30, |rng| vec![("label".to_owned(), format!("edited-{}", rng.below(3)))]),
            max_attempts: rng.maybe(30, |rng| 1 + rng.below(4) as u32),
            attempt_timeout: None,
            stall_timeout: rng.maybe(10, |rng| rng.maybe(50, |rng| seconds(rng, 60) + Duration::from_secs(1))),
            max_duration: None,
            by: "somebody".to_owned(),
        }
    }

    fn each(&mut self) -> (Request, Asked) {
        let asks: Vec<(JobId, Command)> = (0..1 + self.rng.below(4))
            .map(|_| {
                let job = self.some_job();
                (job, self.some_act())
            })
            .collect();
        let (request, answer) = Request::new(AskEach { asks: asks.clone(), caller: None });
        (request, Asked::Each { asks, answer })
    }

    pub fn ask(&mut self, job: JobId, command: Command, children: Vec<NewJob>) -> (Request, Asked) {
        let (request, answer) = Request::new(Ask {
            job,
            command: command.clone(),
            children: children.clone(),
            findings: None,
            caller: None,
        });
        (request, Asked::Ask { job, command: Box::new(command), children, answer })
    }

    fn log(&mut self) -> (Request, Asked) {
        let job = self.some_job();
        let line = LogLine { at: self.now, attempt: 1, level: "info".into(), text: "a line".into() };
        let lines = vec![line; 1 + self.rng.below(3) as usize];
        (Request::new(Log { job, lines }).0, Asked::Log)
    }

    /// One that exists, mostly.
    pub fn some_job(&mut self) -> JobId {
        let index = self.rng.below(self.model.jobs.len() as u64) as usize;
        let known = self.model.jobs.keys().nth(index).copied();
        if self.rng.chance(3) { JobId::new(self.now, 1) } else { known.unwrap_or(JobId::new(self.now, 2)) }
    }
}

fn unique(rng: &mut Rng, scoped: bool) -> Unique {
    Unique {
        key: (*rng.pick(&UNIQUE).expect("there are keys")).to_owned(),
        within: if scoped && rng.chance(40) { UniqueScope::Scope } else { UniqueScope::Queue },
        until: if rng.chance(50) { Until::End } else { Until::Period },
        period: seconds(rng, 60),
    }
}

fn policy(rng: &mut Rng) -> PolicyChoice {
    PolicyChoice {
        priority: rng.maybe(60, |rng| Priority::ALL[rng.below(4) as usize]),
        max_attempts: rng.maybe(40, |rng| rng.below(4) as u32),
        backoff: rng.maybe(50, |rng| if rng.chance(50) { BackoffKind::None } else { BackoffKind::Exponential }),
        base_delay: rng.maybe(30, |rng| seconds(rng, 10)),
        max_delay: None,
        attempt_timeout: rng.maybe(10, |rng| seconds(rng, 60)),
        stall_timeout: rng.maybe(10, |rng| seconds(rng, 60)),
        max_duration: rng.maybe(10, |rng| seconds(rng, 100)),
        expire_after: rng.maybe(15, |rng| seconds(rng, 90)),
        lease: rng.maybe(50, |rng| Duration::from_secs(1 + rng.below(60))),
        ttl: rng.maybe(15, |rng| Duration::from_millis(rng.below(60_000))),
    }
}

pub fn body(rng: &mut Rng) -> Body {
    if rng.chance(25) {
        Body::Blob(Blob { sha256: [rng.below(4) as u8; 32], len: 100_000 })
    } else {
        Body::Inline(Bytes::from(vec![7; rng.below(20) as usize]))
    }
}
