//! A stand-in for the server, to test handlers natively, without wasm.
//!
//! ```
//! use windlass::{Context, Result, testing::Fake};
//!
//! fn double(_ctx: &mut Context, n: u64) -> Result<u64> { Ok(n * 2) }
//!
//! let mut fake = Fake::new();
//! assert_eq!(fake.run(double, &21), Ok(42));
//! ```
//!
//! Every `run` is another attempt of the same job and starts from the state that the previous one saved. To test a
//! crash, call [`Fake::fail_checkpoints_after`] and `run` again.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::child::Child;
use crate::children::{ChildCounts, ChildState, Listed, OnFailure, Page};
use crate::context::{Context, Saved};
use crate::error::{Error, Result};
use crate::handler::{Handler, Typed};
use crate::http::{Request, Response};
use crate::job::{Cancel, Job, Level, Reason, Recorded};
use crate::progress::Progress;
use crate::server::Server;

type Answer = Rc<dyn Fn(&Request) -> Response>;

thread_local! {
    /// Requests have no context, so the fake whose handler is running answers them.
    static ANSWER: RefCell<Option<Answer>> = const { RefCell::new(None) };
}

/// What the running fake answers a request with. In a component the server does.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn answer(request: &Request) -> Result<Response> {
    match ANSWER.with_borrow(Clone::clone) {
        Some(answer) => Ok(answer(request)),
        None => Err(Error::new(format_args!("{}: there is no network in a test; `Fake::http` answers", request.url))),
    }
}

/// A fake server with one job.
pub struct Fake {
    job: Job,
    record: Rc<RefCell<Record>>,
    answer: Option<Answer>,
}

/// What the handler did, and what the test has set up for it.
#[derive(Debug, Default)]
struct Record {
    progress: Vec<Progress>,
    log: Vec<(Level, String)>,
    saves: usize,
    saved: Option<Saved>,
    /// Children of this attempt that no checkpoint or result has committed.
    spawned: Vec<Child>,
    children: Vec<Child>,
    /// How children ended, by ordinal, as set by the test.
    ended: BTreeMap<u32, Result<Vec<u8>, String>>,
    /// This attempt has asked to wait.
    wait: Option<(OnFailure, Option<Saved>)>,
    /// The last attempt did.
    waiting: Option<OnFailure>,
    joined: bool,
    /// The job's own queue, which its records are under.
    queue: String,
    records: Records,
    /// Records and marks of this attempt that no checkpoint or result has committed.
    noted: Vec<Note>,
    config: BTreeMap<String, String>,
    secrets: BTreeMap<String, String>,
    cancel: Option<(usize, Reason)>,
    checkpoints_left: Option<usize>,
}

/// What is committed, by queue and key. Jobs of one server share it.
type Records = Rc<RefCell<BTreeMap<(String, String), Recorded<Vec<u8>>>>>;

#[derive(Debug)]
enum Note {
    Record(String, Vec<u8>),
    Mark((String, String), Option<String>),
}

impl Default for Fake {
    fn default() -> Self {
        Fake::new()
    }
}

impl Fake {
    pub fn new() -> Self {
        let job = Job { id: "job_test".to_owned(), queue: "test".to_owned(), max_attempts: 3, ..Job::default() };
        Fake { job, record: Rc::default(), answer: None }
    }

    /// The queue the job comes from.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.job.queue = queue.into();
        self
    }

    #[must_use]
    pub fn tag(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.job.tags.push((name.into(), value.into()));
        self
    }

    #[must_use]
    pub fn scope(mut self, scope: impl Into<String>) -> Self {
        self.job.scope = Some(scope.into());
        self
    }

    #[must_use]
    pub fn config(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.record.borrow_mut().config.insert(name.into(), value.into());
        self
    }

    #[must_use]
    pub fn secret(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.record.borrow_mut().secrets.insert(name.into(), value.into());
        self
    }

    /// Answers the HTTP requests of the handler.
    #[must_use]
    pub fn http(mut self, answer: impl Fn(&Request) -> Response + 'static) -> Self {
        self.answer = Some(Rc::new(answer));
        self
    }

    /// The round the job is in.
    #[must_use]
    pub fn round(mut self, round: u32) -> Self {
        self.job.round = Some(round);
        self
    }

    /// Stores a record under a key of a queue, as another job would have.
    pub fn put_record(&mut self, queue: &str, key: &str, value: &impl Serialize) -> Result<()> {
        let record = Recorded { value: serde_json::to_vec(value)?, mark: None };
        self.record.borrow().records.borrow_mut().insert((queue.to_owned(), key.to_owned()), record);
        Ok(())
    }

    /// The committed record under a key of a queue, whether stored by the handler or by the test.
    pub fn get_record<T: DeserializeOwned>(&self, queue: &str, key: &str) -> Result<Option<Recorded<T>>> {
        let found = self.record.borrow().records.borrow().get(&(queue.to_owned(), key.to_owned())).cloned();
        let Some(Recorded { value, mark }) = found else { return Ok(None) };
        Ok(Some(Recorded { value: serde_json::from_slice(&value)?, mark }))
    }

    /// Another job of the same server: what one of them records, the other sees.
    #[must_use]
    pub fn another_job(&self) -> Fake {
        let other = Fake::new();
        other.record.borrow_mut().records = Rc::clone(&self.record.borrow().records);
        other
    }

    /// Asks the handler to stop after it has checked this many times; 0 is at its first check.
    pub fn cancel_after(&mut self, checks: usize, reason: Reason) {
        self.record.borrow_mut().cancel = Some((checks, reason));
    }

    /// Undoes `cancel_after` and `fail_checkpoints_after`, for the next attempt.
    pub fn resume(&mut self) {
        let mut record = self.record.borrow_mut();
        record.cancel = None;
        record.checkpoints_left = None;
    }

    /// Lets this many checkpoints succeed and refuses all later ones, to simulate a crash.
    pub fn fail_checkpoints_after(&mut self, checkpoints: usize) {
        self.record.borrow_mut().checkpoints_left = Some(checkpoints);
    }

    /// Makes a child complete with this result. Call it before the attempt that follows a wait.
    pub fn child_completed(&mut self, ordinal: u32, result: &impl Serialize) -> Result<()> {
        let result = serde_json::to_vec(result)?;
        self.record.borrow_mut().ended.insert(ordinal, Ok(result));
        Ok(())
    }

    /// Makes a child dead with this error.
    pub fn child_died(&mut self, ordinal: u32, error: impl Into<String>) {
        self.record.borrow_mut().ended.insert(ordinal, Err(error.into()));
    }

    /// Runs a typed handler as the next attempt.
    pub fn run<P, Payload, Value>(
        &mut self,
        handler: impl FnOnce(&mut Context, Payload) -> Result<Value>,
        payload: &P,
    ) -> Result<Value>
    where
        P: Serialize + ?Sized,
        Payload: DeserializeOwned,
        Value: Serialize + DeserializeOwned,
    {
        let payload = serde_json::to_vec(payload)?;
        let result = self.run_raw::<Typed<Payload, Value>>(handler, payload)?;
        Ok(serde_json::from_slice(&result)?)
    }

    /// Runs any handler as the next attempt, with bytes.
    pub fn run_raw<Kind>(&mut self, handler: impl Handler<Kind>, payload: impl Into<Vec<u8>>) -> Result<Vec<u8>> {
        self.record.borrow_mut().join()?;
        self.record.borrow_mut().queue = self.job.queue.clone();
        self.job.attempt += 1;
        let job = Job { payload: payload.into(), ..self.job.clone() };
        let saved = self.record.borrow().saved.clone();
        let mut ctx = Context::new(job, saved, Box::new(Link(Rc::clone(&self.record))));
        ANSWER.set(self.answer.clone());
        let returned = handler.handle(&mut ctx);
        ANSWER.set(None);
        let mut record = self.record.borrow_mut();
        let spawned = std::mem::take(&mut record.spawned);
        let wait = record.wait.take();
        let waits = returned.as_ref().err().is_none_or(Error::is_waiting);
        if let Some((on_failure, saved)) = wait.filter(|_| waits) {
            record.children.extend(spawned);
            record.commit_notes();
            record.saved = saved.or(record.saved.take());
            record.waiting = Some(on_failure);
            return Err(Error::waiting());
        }
        if returned.is_ok() {
            record.children.extend(spawned);
            record.commit_notes();
        }
        record.noted.clear();
        returned
    }

    /// The progress events of all attempts.
    pub fn progress(&self) -> Vec<Progress> {
        self.record.borrow().progress.clone()
    }

    /// The log of all attempts.
    pub fn log(&self) -> Vec<(Level, String)> {
        self.record.borrow().log.clone()
    }

    /// How many checkpoints were saved.
    pub fn saves(&self) -> usize {
        self.record.borrow().saves
    }

    /// The last saved state.
    pub fn state<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        let record = self.record.borrow();
        Ok(record.saved.as_ref().map(|saved| serde_json::from_slice(&saved.state)).transpose()?)
    }

    /// The children that were committed, with a checkpoint, a result or a wait.
    pub fn children(&self) -> Vec<Child> {
        self.record.borrow().children.clone()
    }
}

impl Record {
    /// Decides, as the server would, whether a waiting job runs again.
    fn join(&mut self) -> Result<()> {
        let Some(on_failure) = self.waiting else { return Ok(()) };
        let all = u32::try_from(self.children.len())?;
        if let Some(open) = (0..all).find(|ordinal| !self.ended.contains_key(ordinal)) {
            let how = "say how with `Fake::child_completed` or `Fake::child_died`";
            return Err(Error::fatal(format_args!("child {open} has not ended; {how}")));
        }
        if on_failure == OnFailure::Fail && self.ended.values().any(Result::is_err) {
            return Err(Error::fatal("a child failed"));
        }
        self.waiting = None;
        self.joined = true;
        Ok(())
    }

    fn commit_notes(&mut self) {
        let mut records = self.records.borrow_mut();
        for note in std::mem::take(&mut self.noted) {
            match note {
                Note::Record(key, value) => {
                    records.insert((self.queue.clone(), key), Recorded { value, mark: None });
                }
                Note::Mark(place, mark) => {
                    if let Some(record) = records.get_mut(&place) {
                        record.mark = mark;
                    }
                }
            }
        }
    }

    fn listed(&self, ordinal: u32) -> Option<Listed> {
        let child = self.children.get(ordinal as usize)?;
        let end = self.ended.get(&ordinal);
        let result = end.and_then(|end| end.clone().ok());
        Some(Listed {
            ordinal,
            id: format!("job_test_{ordinal}"),
            queue: child.queue.clone(),
            state: match end {
                None => ChildState::Open,
                Some(Ok(_)) => ChildState::Completed,
                Some(Err(_)) => ChildState::Dead,
            },
            result_bytes: result.as_ref().map_or(0, Vec::len) as u64,
            // As on the server, a large one is not on the page.
            result: result.filter(|result| result.len() <= 64 * 1024),
            error: end.and_then(|end| end.clone().err()),
        })
    }
}

struct Link(Rc<RefCell<Record>>);

impl Server for Link {
    fn progress(&mut self, progress: Progress) {
        self.0.borrow_mut().progress.push(progress);
    }

    fn checkpoint(&mut self, schema: u32, state: Vec<u8>) -> Result<()> {
        let mut record = self.0.borrow_mut();
        if let Some(left) = &mut record.checkpoints_left {
            *left = left.checked_sub(1).ok_or_else(|| Error::new("the checkpoint was not saved: the test said so"))?;
        }
        record.saves += 1;
        record.saved = Some(Saved { schema, state });
        let spawned = std::mem::take(&mut record.spawned);
        record.children.extend(spawned);
        record.commit_notes();
        Ok(())
    }

    fn cancelled(&mut self) -> Option<Cancel> {
        let mut record = self.0.borrow_mut();
        let (checks, reason) = record.cancel.as_mut()?;
        match checks.checked_sub(1) {
            Some(fewer) => {
                *checks = fewer;
                None
            }
            None => Some(Cancel { reason: *reason, time_left: Duration::from_secs(10) }),
        }
    }

    fn log(&mut self, level: Level, message: &str) {
        self.0.borrow_mut().log.push((level, message.to_owned()));
    }

    fn spawn(&mut self, child: Child) -> Result<u32> {
        let mut record = self.0.borrow_mut();
        let ordinal = record.children.len() + record.spawned.len();
        record.spawned.push(child);
        Ok(u32::try_from(ordinal)?)
    }

    fn joined(&mut self) -> Option<ChildCounts> {
        let record = self.0.borrow();
        let dead = record.ended.values().filter(|end| end.is_err()).count() as u64;
        let total = record.children.len() as u64;
        record.joined.then(|| ChildCounts { total, completed: total - dead, dead, cancelled: 0 })
    }

    fn children(&mut self, start: u32) -> Result<Page> {
        // Two at a time, so that a test of three sees more than one page.
        let children: Vec<Listed> = (start..).map_while(|n| self.0.borrow().listed(n)).take(2).collect();
        let next = start + u32::try_from(children.len())?;
        let more = (next as usize) < self.0.borrow().children.len();
        Ok(Page { children, next: more.then_some(next) })
    }

    fn child_result(&mut self, ordinal: u32) -> Result<Option<Vec<u8>>> {
        Ok(self.0.borrow().ended.get(&ordinal).and_then(|end| end.clone().ok()))
    }

    fn wait(&mut self, on_failure: OnFailure, state: Option<(u32, Vec<u8>)>) -> Result<()> {
        let saved = state.map(|(schema, state)| Saved { schema, state });
        self.0.borrow_mut().wait = Some((on_failure, saved));
        Ok(())
    }

    fn put_record(&mut self, key: &str, value: Vec<u8>) -> Result<()> {
        if key.is_empty() || key.len() > 1_024 || value.len() > 64 * 1024 {
            return Err(Error::fatal("a key has 1 to 1024 bytes, and a value at most 64 KiB"));
        }
        self.0.borrow_mut().noted.push(Note::Record(key.to_owned(), value));
        Ok(())
    }

    fn get_record(&mut self, queue: &str, key: &str) -> Result<Option<Recorded<Vec<u8>>>> {
        Ok(self.0.borrow().records.borrow().get(&(queue.to_owned(), key.to_owned())).cloned())
    }

    fn mark(&mut self, queue: &str, key: &str, mark: Option<&str>) -> Result<()> {
        let place = (queue.to_owned(), key.to_owned());
        self.0.borrow_mut().noted.push(Note::Mark(place, mark.map(str::to_owned)));
        Ok(())
    }

    fn link(&self) -> Box<dyn Server> {
        Box::new(Link(Rc::clone(&self.0)))
    }

    fn config(&mut self, name: &str) -> Option<String> {
        self.0.borrow().config.get(name).cloned()
    }

    fn secret(&mut self, name: &str) -> Result<String> {
        let record = self.0.borrow();
        record
            .secrets
            .get(name)
            .cloned()
            .ok_or_else(|| Error::fatal(format_args!("this plugin may not read the secret `{name}`")))
    }
}
