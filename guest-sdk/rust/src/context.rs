//! How a handler talks to the server.

use std::fmt;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::child::Child;
use crate::children::{ChildCounts, Children, OnFailure};
use crate::error::{Error, Result};
use crate::job::{Cancel, Job, Level, Recorded};
use crate::progress::Progress;
use crate::server::Server;

/// How a handler talks to the server. It belongs to one attempt.
pub struct Context {
    job: Job,
    saved: Option<Saved>,
    schema: u32,
    last_save: Instant,
    server: Box<dyn Server>,
}

/// State that an earlier attempt saved.
#[derive(Clone, Debug)]
pub(crate) struct Saved {
    pub(crate) schema: u32,
    pub(crate) state: Vec<u8>,
}

impl Context {
    pub(crate) fn new(job: Job, saved: Option<Saved>, server: Box<dyn Server>) -> Self {
        Context { job, saved, schema: 1, last_save: Instant::now(), server }
    }

    /// The job this attempt is for.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// Reports how far the work has come: `current` of `total`.
    pub fn progress(&mut self, current: u64, total: u64, message: impl Into<String>) {
        self.report(Progress::new(message).count(current, total));
    }

    /// Reports a progress event in its full form.
    pub fn report(&mut self, progress: Progress) {
        self.server.progress(progress);
    }

    /// Saves state, as JSON, for the next attempt. When it returns, the state is on disk, together with the children
    /// spawned before. That takes about half a millisecond.
    pub fn checkpoint(&mut self, state: &impl Serialize) -> Result<()> {
        self.checkpoint_raw(state_bytes(state)?)
    }

    /// Saves state if the last save was at least `period` ago, and returns whether it did. For loops whose steps are
    /// short.
    pub fn checkpoint_every(&mut self, period: Duration, state: &impl Serialize) -> Result<bool> {
        if self.last_save.elapsed() < period {
            return Ok(false);
        }
        self.checkpoint(state)?;
        Ok(true)
    }

    /// Saves state that is not JSON.
    pub fn checkpoint_raw(&mut self, state: Vec<u8>) -> Result<()> {
        self.server.checkpoint(self.schema, state)?;
        self.last_save = Instant::now();
        Ok(())
    }

    /// The state that an earlier attempt saved, or `None` if there is none. State of another schema is an error.
    pub fn state<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        let Some(saved) = &self.saved else { return Ok(None) };
        if saved.schema != self.schema {
            return Err(Error::new(format_args!(
                "the saved state has schema {}, and this handler reads {}",
                saved.schema, self.schema
            )));
        }
        serde_json::from_slice(&saved.state)
            .map(Some)
            .map_err(|error| Error::new(format_args!("the saved state cannot be read: {error}")))
    }

    /// The bytes of the saved state and their schema, to migrate them by hand.
    pub fn state_raw(&self) -> Option<(u32, &[u8])> {
        self.saved.as_ref().map(|saved| (saved.schema, saved.state.as_slice()))
    }

    /// Sets the version of your state format, which is 1 unless set. Raise it when you change what you save.
    pub fn set_schema(&mut self, schema: u32) {
        self.schema = schema;
    }

    /// The server's request to stop, if there is one. The call is cheap: make it between any two steps.
    pub fn cancelled(&mut self) -> Option<Cancel> {
        self.server.cancelled()
    }

    /// Returns the error to stop with, if the server has asked the attempt to stop: `ctx.check_cancelled()?`.
    pub fn check_cancelled(&mut self) -> Result<()> {
        match self.cancelled() {
            Some(cancel) => Err(Error::cancelled(cancel.reason)),
            None => Ok(()),
        }
    }

    /// Starts another job, atomically with the next checkpoint or the result; if the attempt fails before then, the job
    /// is never started. Returns its ordinal among the children of this job.
    pub fn spawn(&mut self, child: Child) -> Result<u32> {
        self.server.spawn(child)
    }

    /// Ends this attempt: the job runs again, from this state, when all of its children have ended.
    /// `return ctx.wait_for_children(OnFailure::Fail, &state)`. Children, state and wait are committed atomically. A
    /// waiting job occupies neither memory nor a slot.
    pub fn wait_for_children<T>(&mut self, on_failure: OnFailure, state: &impl Serialize) -> Result<T> {
        let state = state_bytes(state)?;
        self.wait_for_children_raw(on_failure, Some(state))
    }

    /// The same with state that is not JSON, or with none: the last checkpoint then remains.
    pub fn wait_for_children_raw<T>(&mut self, on_failure: OnFailure, state: Option<Vec<u8>>) -> Result<T> {
        self.server.wait(on_failure, state.map(|state| (self.schema, state)))?;
        Err(Error::waiting())
    }

    /// How the children ended, or `None` if this attempt does not follow a wait for them.
    pub fn joined(&mut self) -> Option<ChildCounts> {
        self.server.joined()
    }

    /// The children, in the order they were spawned. They are read from the server a page at a time.
    pub fn children(&mut self) -> Children {
        Children::new(self.server.link())
    }

    /// Stores a value, as JSON, under a key of the job's own queue, for other jobs to read. It is committed with the
    /// next checkpoint or the result, and discarded if the attempt fails before then. A value has at most 64 KiB. An
    /// existing record with this key is replaced.
    pub fn put_record(&mut self, key: &str, value: &impl Serialize) -> Result<()> {
        let value = serde_json::to_vec(value)
            .map_err(|error| Error::fatal(format_args!("the record cannot be written as JSON: {error}")))?;
        self.put_record_raw(key, value)
    }

    /// Stores bytes that are not JSON.
    pub fn put_record_raw(&mut self, key: &str, value: Vec<u8>) -> Result<()> {
        self.server.put_record(key, value)
    }

    /// The committed record under a key of a queue, if there is one. The plugin must serve the queue, or a gate must
    /// connect it to the job's own queue.
    pub fn get_record<T: DeserializeOwned>(&mut self, queue: &str, key: &str) -> Result<Option<Recorded<T>>> {
        let Some(Recorded { value, mark }) = self.get_record_raw(queue, key)? else { return Ok(None) };
        let value = serde_json::from_slice(&value).map_err(|error| {
            Error::fatal(format_args!("the record `{key}` of `{queue}` is not what was expected: {error}"))
        })?;
        Ok(Some(Recorded { value, mark }))
    }

    /// The same, with the value as bytes.
    pub fn get_record_raw(&mut self, queue: &str, key: &str) -> Result<Option<Recorded<Vec<u8>>>> {
        self.server.get_record(queue, key)
    }

    /// Sets the mark on a record, or removes it. It is committed in the same way as a record. Marked records can be
    /// listed, and their jobs rebuilt by a sweep.
    pub fn mark(&mut self, queue: &str, key: &str, mark: Option<&str>) -> Result<()> {
        self.server.mark(queue, key, mark)
    }

    /// Writes to the job's log. The output of `println!` and `eprintln!` is logged too.
    pub fn log(&mut self, level: Level, message: impl AsRef<str>) {
        self.server.log(level, message.as_ref());
    }

    /// A setting of the plugin.
    pub fn config(&mut self, name: &str) -> Option<String> {
        self.server.config(name)
    }

    /// A secret that the plugin was granted. If it was not, the error says what to grant.
    pub fn secret(&mut self, name: &str) -> Result<String> {
        self.server.secret(name)
    }
}

fn state_bytes(state: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(state)
        .map_err(|error| Error::fatal(format_args!("the state cannot be written as JSON: {error}")))
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("job", &self.job).finish_non_exhaustive()
    }
}
