//! A separate store for each test, and short helpers for what the tests do with it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tempfile::TempDir;
use windlass_core::plugin::manifest::Manifest;
use windlass_core::{
    Blob, Body, Command, Complete, Fail, Failure, HandBack, Heartbeat, Holder, Job, JobId, NewJob, PluginCommand,
    PolicyChoice, Priority, QueueName, Reply, Retry, Settings, State, Swap, Time, Usage,
};
use windlass_store::{Assignment, By, Claim, Clock, Durability, Enqueued, Error, Opening, Options, Store};

use crate::folder::HandClock;
use crate::wrap::with_key;

pub struct TestStore {
    dir: TempDir,
    pub clock: Arc<HandClock>,
    pub store: Store,
    /// Whether what is written is encrypted.
    is_encrypted: bool,
}

/// A Monday morning.
const START: u64 = 1_790_000_000_000;

impl TestStore {
    pub fn new() -> TestStore {
        let dir = tempfile::tempdir().expect("a folder");
        let clock = HandClock::at(START);
        let store = open(&dir, clock.clone(), Opening { encryption: with_key(1, true), ..Opening::default() });
        TestStore { dir, clock, store, is_encrypted: true }
    }

    /// Stops the store, and starts it again on what it left.
    pub async fn reopen(&mut self) {
        self.reopen_with(Opening::default()).await;
    }

    pub async fn reopen_with(&mut self, opening: Opening) {
        self.store.close().await;
        // Switched on and off in turn: it makes no difference to anybody.
        self.is_encrypted = !self.is_encrypted;
        let opening = Opening { encryption: with_key(1, self.is_encrypted), ..opening };
        self.store = open(&self.dir, self.clock.clone(), opening);
    }

    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Lets time pass, and the store do what that brings.
    pub async fn pass(&self, span: Duration) {
        self.clock.advance(span);
        // The engine sleeps by real time; being asked wakes it. Background work goes on in later groups.
        for _ in 0..6 {
            assert!(self.claim("nobody-enqueues-here").await.is_none());
        }
    }

    pub async fn put(&self, job: NewJob) -> JobId {
        let stored = self.try_put(job).await.expect("a good job");
        assert!(!stored.duplicate, "it is the first of its kind");
        stored.id
    }

    pub async fn try_put(&self, job: NewJob) -> Result<Enqueued, Error> {
        Ok(self.store.enqueue(vec![job]).await?.remove(0))
    }

    pub async fn claim(&self, queue: &str) -> Option<Assignment> {
        self.claim_as("ann", &[queue], 1).await.pop()
    }

    pub async fn claim_as(&self, worker: &str, queues: &[&str], count: usize) -> Vec<Assignment> {
        let by = By::Worker { worker_id: worker.into(), hostname: "host".into() };
        let queues = queues.iter().map(|name| queue(name)).collect();
        self.store.claim(Claim { by, queues, count, wait: Duration::ZERO }).await.expect("a claim")
    }

    pub async fn claim_here(&self) -> Option<Assignment> {
        let claim = Claim { by: By::Local, queues: Vec::new(), count: 1, wait: Duration::ZERO };
        self.store.claim(claim).await.expect("a claim").pop()
    }

    pub async fn ask(&self, id: JobId, command: Command) -> Result<Reply, Error> {
        self.store.ask(id, command, Vec::new()).await
    }

    pub async fn job(&self, id: JobId) -> Job {
        self.store.job(id).await.expect("the store reads").expect("the job is there")
    }

    pub async fn state(&self, id: JobId) -> Option<State> {
        self.store.job(id).await.expect("the store reads").map(|job| job.state)
    }

    pub async fn count(&self, name: &str, state: State) -> u64 {
        let queues = self.store.queues().await.expect("the store reads");
        queues.iter().find(|view| view.queue.name.as_str() == name).map_or(0, |view| view.queue.counts.of(state))
    }

    /// What has happened in a queue so far: jobs enqueued and completed, attempts that failed, deaths.
    pub async fn totals(&self, name: &str) -> [u64; 4] {
        let queues = self.store.queues().await.expect("the store reads");
        let view = queues.iter().find(|view| view.queue.name.as_str() == name);
        let counts = &view.expect("the queue is there").queue.counts;
        [counts.enqueued, counts.completed, counts.failed, counts.dead]
    }

    pub async fn set(&self, name: &str, change: impl FnOnce(&mut Settings) + Send + 'static) {
        self.store.configure(queue(name), change).await.expect("good settings");
    }

    /// A plugin that serves the queue, so that this process may run its jobs.
    pub async fn serve(&self, name: &str) {
        let plugin = format!("plugin-of-{name}").parse().expect("a name");
        self.store.change_plugin(plugin, upload(9, &[name], Manifest::default())).await.expect("a plugin");
    }
}

fn open(dir: &TempDir, clock: Arc<HandClock>, opening: Opening) -> Store {
    let options = Options { dir: dir.path().join("data"), durability: Durability::Fsync };
    Store::open_with(options, clock, opening).expect("the folder opens")
}

/// A version that is made active at once.
pub fn upload(version: u8, queues: &[&str], manifest: Manifest) -> PluginCommand {
    PluginCommand::Upload {
        component: Blob { sha256: [version; 32], len: 1 },
        imports: Vec::new(),
        manifest: Some(manifest),
        queues: Some(queues.iter().map(|name| queue(name)).collect()),
        by: None,
        swap: Some(Swap::Drain),
    }
}

pub fn queue(name: &str) -> QueueName {
    name.parse().expect("a queue's name")
}

pub fn job(name: &str) -> NewJob {
    NewJob { queue: Some(queue(name)), ..NewJob::default() }
}

pub fn with_policy(name: &str, policy: PolicyChoice) -> NewJob {
    NewJob { policy, ..job(name) }
}

pub fn urgent(name: &str, priority: Priority) -> NewJob {
    with_policy(name, PolicyChoice { priority: Some(priority), ..PolicyChoice::default() })
}

pub fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub fn done(of: &Assignment) -> Command {
    Command::Complete(Complete::by(Holder::Token(of.token)))
}

pub fn done_with(of: &Assignment, result: &'static str) -> Command {
    let result = Some(Body::Inline(Bytes::from_static(result.as_bytes())));
    Command::Complete(Complete { result, ..Complete::by(Holder::Token(of.token)) })
}

pub fn failed(of: &Assignment, retry: Retry) -> Command {
    let failure = Failure { error: "it broke".into(), backtrace: None, retry };
    Command::Fail(Fail { holder: Holder::Token(of.token), failure, usage: Usage::default() })
}

pub fn heartbeat(of: &Assignment) -> Command {
    Command::Heartbeat(Heartbeat::by(Holder::Token(of.token)))
}

pub fn handed_back(of: &Assignment) -> Command {
    Command::HandBack(HandBack {
        holder: Holder::Token(of.token),
        reason: "shutting down".into(),
        usage: Usage::default(),
    })
}

pub fn cancel() -> Command {
    Command::Cancel { reason: "not wanted".into(), grace: None }
}
