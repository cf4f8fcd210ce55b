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
//! Every `run` is one more attempt of the same job: it gets the state that the one before saved. So a crash is tested by
//! [`Fake::fail_checkpoints_after`], and a second `run`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::child::Child;
use crate::context::{Context, Saved};
use crate::error::{Error, Result};
use crate::handler::{Handler, Typed};
use crate::http::{Request, Response};
use crate::job::{Cancel, Job, Level, Reason};
use crate::progress::Progress;
use crate::server::Server;

type Answer = Rc<dyn Fn(&Request) -> Response>;

thread_local! {
    /// Requests have no context, so the fake whose handler runs just now answers them.
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

/// What the handler did, and what it will be told.
#[derive(Debug, Default)]
struct Record {
    progress: Vec<Progress>,
    log: Vec<(Level, String)>,
    saves: usize,
    saved: Option<Saved>,
    /// Children of this attempt that no checkpoint or result has committed.
    spawned: Vec<Child>,
    children: Vec<Child>,
    config: BTreeMap<String, String>,
    secrets: BTreeMap<String, String>,
    cancel: Option<(usize, Reason)>,
    checkpoints_left: Option<usize>,
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

    /// Asks the handler to stop when it has looked this many times; 0 is at its first look.
    pub fn cancel_after(&mut self, looks: usize, reason: Reason) {
        self.record.borrow_mut().cancel = Some((looks, reason));
    }

    /// Takes back the request to stop, as a new attempt would find it.
    pub fn resume(&mut self) {
        let mut record = self.record.borrow_mut();
        record.cancel = None;
        record.checkpoints_left = None;
    }

    /// Lets this many checkpoints succeed and refuses those after: as good as a crash.
    pub fn fail_checkpoints_after(&mut self, checkpoints: usize) {
        self.record.borrow_mut().checkpoints_left = Some(checkpoints);
    }

    /// Runs a typed handler as the next attempt.
    pub fn run<P, Payload, Output>(
        &mut self,
        handler: impl FnOnce(&mut Context, Payload) -> Result<Output>,
        payload: &P,
    ) -> Result<Output>
    where
        P: Serialize + ?Sized,
        Payload: DeserializeOwned,
        Output: Serialize + DeserializeOwned,
    {
        let payload = serde_json::to_vec(payload)?;
        let output = self.run_raw::<Typed<Payload, Output>>(handler, payload)?;
        Ok(serde_json::from_slice(&output)?)
    }

    /// Runs any handler as the next attempt, with bytes.
    pub fn run_raw<Kind>(&mut self, handler: impl Handler<Kind>, payload: impl Into<Vec<u8>>) -> Result<Vec<u8>> {
        self.job.attempt += 1;
        let job = Job { payload: payload.into(), ..self.job.clone() };
        let saved = self.record.borrow().saved.clone();
        let mut ctx = Context::new(job, saved, Box::new(Link(Rc::clone(&self.record))));
        ANSWER.set(self.answer.clone());
        let output = handler.handle(&mut ctx);
        ANSWER.set(None);
        let mut record = self.record.borrow_mut();
        let spawned = std::mem::take(&mut record.spawned);
        if output.is_ok() {
            record.children.extend(spawned);
        }
        output
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

    /// The state saved last.
    pub fn state<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        let record = self.record.borrow();
        Ok(record.saved.as_ref().map(|saved| serde_json::from_slice(&saved.state)).transpose()?)
    }

    /// The children that were really started: committed with a checkpoint or a result.
    pub fn children(&self) -> Vec<Child> {
        self.record.borrow().children.clone()
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
        Ok(())
    }

    fn cancelled(&mut self) -> Option<Cancel> {
        let mut record = self.0.borrow_mut();
        let (looks, reason) = record.cancel.as_mut()?;
        match looks.checked_sub(1) {
            Some(fewer) => {
                *looks = fewer;
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
