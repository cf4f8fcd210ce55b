//! One executor for all tests, guests by name, and a host that records every call.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, OnceCell, watch};
use tokio::time::timeout;
use windlass_core::plugin::grant::Denied;
use windlass_core::{Progress, Record, Usage};
use windlass_executor::{
    Attempt, AttemptEnd, Cancel, CancelReason, ChildPage, ChildRead, Config, DenialText, Executor, GuestLogLine, Host,
    HostError, Outcome, PageLimits, Permissions, Plugin, SavedState, Uncommitted, Wording, async_trait,
};
use wit_component::{ComponentEncoder, StringEncoding};
use wit_parser::Resolve;

/// Nothing here takes this long; a test that does has failed.
const DEADLINE: Duration = Duration::from_secs(120);

/// Shared by all tests, so that each runs next to the others' hostile guests.
pub static EXECUTOR: LazyLock<Executor> =
    LazyLock::new(|| Executor::new(Config { instances: 64, ..Config::default() }).expect("an executor"));

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A plugin that `make plugins` has built.
pub fn built(name: &str) -> Bytes {
    let folder = std::env::var_os("WINDLASS_PLUGINS").map_or_else(|| root().join("target/plugins"), PathBuf::from);
    let path = folder.join(format!("{name}.wasm"));
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}; run `make plugins` first", path.display())).into()
}

/// A text file of `plugins/hostile`, assembled as it is.
pub fn assembled(name: &str) -> Bytes {
    let path = root().join("plugins/hostile").join(format!("{name}.wat"));
    wat::parse_file(&path).unwrap_or_else(|error| panic!("{error}")).into()
}

/// A core module of `plugins/hostile`, turned into a component of the world in `guest.wit`.
pub fn hostile(name: &str) -> Bytes {
    let mut resolve = Resolve::default();
    resolve.push_path(root().join("wit/0.1.0")).expect("the interface");
    let (package, _) =
        resolve.push_path(root().join("plugins/hostile/guest.wit")).expect("the world of the hostile guests");
    let world = resolve.select_world(&[package], Some("guest")).expect("the world");
    let mut module = assembled(name).to_vec();
    wit_component::embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).expect("a core module");
    let encoder = ComponentEncoder::default().module(&module).expect("a module of that world");
    encoder.validate(true).encode().unwrap_or_else(|error| panic!("{name}: {error:#}")).into()
}

pub async fn compiled(bytes: Bytes) -> Plugin {
    EXECUTOR.compile(bytes).await.expect("a good component")
}

/// The plugin `hostile`, compiled once: the payload selects what it tries.
pub async fn trespasser() -> Plugin {
    static COMPILED: OnceCell<Plugin> = OnceCell::const_new();
    COMPILED.get_or_init(|| compiled(built("hostile"))).await.clone()
}

/// A host that records every call.
#[derive(Default)]
pub struct Recorder {
    pub progress: Mutex<Vec<Progress>>,
    pub log: Mutex<Vec<GuestLogLine>>,
    pub checkpoints: Mutex<Vec<(SavedState, Uncommitted)>>,
    /// Committed records, by queue and key.
    pub records: Mutex<BTreeMap<(String, String), Record>>,
    pub tied: Mutex<Vec<String>>,
    /// The answers to the next checkpoints, last one first; then `Ok`.
    pub answers: Mutex<Vec<Result<(), HostError>>>,
    /// The job's ended children, or why they cannot be read.
    pub family: Mutex<Vec<ChildRead>>,
    pub unreadable: Mutex<Option<HostError>>,
    /// The page sizes that were requested.
    pub pages: Mutex<Vec<usize>>,
    /// How long storing a checkpoint takes.
    pub disk: Mutex<Duration>,
    changed: Notify,
}

impl Recorder {
    pub fn texts(&self) -> Vec<String> {
        self.log.lock().expect("no panic").iter().map(|line| line.message.clone()).collect()
    }

    pub fn saves(&self) -> usize {
        self.checkpoints.lock().expect("no panic").len()
    }

    /// Waits until calls of the guest make this condition true.
    pub async fn until(&self, condition: impl Fn(&Recorder) -> bool) {
        let waiting = async {
            loop {
                let notified = self.changed.notified();
                if condition(self) {
                    return;
                }
                notified.await;
            }
        };
        timeout(DEADLINE, waiting).await.expect("the condition never became true");
    }
}

#[async_trait]
impl Host for Recorder {
    fn progress(&self, progress: Progress) {
        self.progress.lock().expect("no panic").push(progress);
        self.changed.notify_one();
    }

    fn log(&self, line: GuestLogLine) {
        self.log.lock().expect("no panic").push(line);
        self.changed.notify_one();
    }

    async fn checkpoint(
        &self,
        checkpoint: SavedState,
        uncommitted: Uncommitted,
        _used: Usage,
    ) -> Result<(), HostError> {
        // A real store waits for its disk here.
        let disk = *self.disk.lock().expect("no panic");
        tokio::time::sleep(disk).await;
        let answer = self.answers.lock().expect("no panic").pop().unwrap_or(Ok(()));
        if answer.is_ok() {
            self.checkpoints.lock().expect("no panic").push((checkpoint, uncommitted));
        }
        self.changed.notify_one();
        answer
    }

    async fn children(&self, start: u32, limits: PageLimits) -> Result<ChildPage, HostError> {
        if let Some(error) = self.unreadable.lock().expect("no panic").clone() {
            return Err(error);
        }
        self.pages.lock().expect("no panic").push(limits.children);
        let family = self.family.lock().expect("no panic");
        let children: Vec<ChildRead> = family.iter().skip(start as usize).take(limits.children).cloned().collect();
        let next = start + children.len() as u32;
        Ok(ChildPage { children, next: Some(next).filter(|next| (*next as usize) < family.len()) })
    }

    async fn record(&self, queue: &str, key: &str) -> Result<Option<Record>, HostError> {
        Ok(self.records.lock().expect("no panic").get(&(queue.to_owned(), key.to_owned())).cloned())
    }

    async fn tied_queues(&self) -> Result<Vec<String>, HostError> {
        Ok(self.tied.lock().expect("no panic").clone())
    }

    async fn child_result(&self, ordinal: u32) -> Result<Option<Bytes>, HostError> {
        let family = self.family.lock().expect("no panic");
        let child = family.get(ordinal as usize).ok_or_else(|| HostError::no_child(ordinal))?;
        Ok(Some(Bytes::from(vec![b'7'; child.result_bytes as usize])))
    }
}

/// Says of a denial what is needed, as the server says it with its commands.
#[derive(Debug)]
struct NeededText;

impl DenialText for NeededText {
    fn denied(&self, denied: &Denied, _: bool) -> String {
        format!("{} is not granted; to allow it: {:?}", denied.what, denied.needed)
    }

    fn private_address(&self, denied: &Denied, address: IpAddr, kind: &str) -> String {
        format!("{} is not granted: {address} is {kind}; to allow it: {:?}", denied.what, denied.needed)
    }

    fn command<'a>(&self, sentence: &'a str) -> &'a str {
        sentence.split_once("to allow it: ").map_or(sentence, |(_, needed)| needed)
    }
}

pub fn wording() -> Wording {
    Wording(Arc::new(NeededText))
}

/// An attempt that is under way.
pub struct Running {
    pub host: Arc<Recorder>,
    pub cancel: watch::Sender<Option<Cancel>>,
    task: tokio::task::JoinHandle<AttemptEnd>,
}

impl Running {
    pub fn stop(&self, reason: CancelReason, grace: Duration) {
        self.cancel.send_replace(Some(Cancel::within(reason, grace)));
    }

    pub async fn ended(self) -> AttemptEnd {
        timeout(DEADLINE, self.task).await.expect("the attempt never ended").expect("no panic")
    }
}

/// The first attempt of a job with this payload.
pub fn attempt(payload: &str) -> (Attempt, watch::Sender<Option<Cancel>>) {
    let (sender, cancel) = watch::channel(None);
    let attempt = Attempt {
        max_attempts: 3,
        tags: vec![("kind".to_owned(), "test".to_owned())],
        // What a guest may spawn is tested in `capabilities`; elsewhere every queue is allowed.
        permissions: Permissions { spawn: vec!["*".parse().expect("a pattern")], ..Permissions::default() },
        ..Attempt::first("job_1", "tests", payload.to_owned(), cancel)
    };
    (attempt, sender)
}

pub fn start(plugin: &Plugin, payload: &str, change: impl FnOnce(&mut Attempt)) -> Running {
    start_with(plugin, payload, Arc::default(), change)
}

pub fn start_with(plugin: &Plugin, payload: &str, host: Arc<Recorder>, change: impl FnOnce(&mut Attempt)) -> Running {
    start_on(&EXECUTOR, plugin, payload, host, change)
}

/// The same on a given executor.
pub fn start_on(
    executor: &Executor,
    plugin: &Plugin,
    payload: &str,
    host: Arc<Recorder>,
    change: impl FnOnce(&mut Attempt),
) -> Running {
    let (mut attempt, cancel) = attempt(payload);
    attempt.owner = plugin.digest().into();
    change(&mut attempt);
    let (executor, plugin, recorder) = (executor.clone(), plugin.clone(), Arc::clone(&host));
    let task = tokio::spawn(async move { executor.run(&plugin, attempt, recorder).await });
    Running { host, cancel, task }
}

/// Runs some jobs of a well-behaved plugin, and fails if one of them does not complete.
pub async fn neighbour_still_runs() {
    let noop = compiled(hostile("noop")).await;
    for _ in 0..5 {
        let ended = start(&noop, "{}", |_| {}).ended().await;
        assert_eq!(ended.outcome, Outcome::Completed { result: Bytes::from_static(b"null") });
    }
}

/// The error of an attempt that failed.
#[track_caller]
pub fn error(ended: &AttemptEnd) -> &str {
    match &ended.outcome {
        Outcome::Failed { error, .. } | Outcome::Stopped { error, .. } => error,
        outcome @ (Outcome::Completed { .. }
        | Outcome::Waiting(_)
        | Outcome::Interrupted { .. }
        | Outcome::Superseded) => {
            panic!("it did not fail: {outcome:?}")
        }
    }
}

#[track_caller]
pub fn assert_contains(text: &str, expected: &str) {
    assert!(text.contains(expected), "expected {expected:?} in {text:?}");
}
