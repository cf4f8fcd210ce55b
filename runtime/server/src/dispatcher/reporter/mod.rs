//! What a running guest says, carried to the store: progress and log a few times a second, checkpoints at once.
//!
//! A guest that reports a million times a second costs twenty commands: only the latest report waits here, and it is sent
//! before the attempt ends. Reading order: this file, `host` (what a guest asks of the store), `convert` (their types and ours).

mod convert;
mod host;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::sleep;
use tracing::debug;
use windlass_core::{Command, Holder, Job, JobId, Name, NewJob, NewMark, NewRecord, Notes, Progress, Refusal, Token};
use windlass_executor::{self as executor, Along, Child};
use windlass_store::{Clock, Error, LogLine, Store};

use crate::clock::SystemClock;
use crate::dispatcher::patience::{Waited, insist, pause_after};
use crate::dispatcher::redact::Redactor;
use crate::limits;
use crate::secrets::Secrets;
pub(super) use convert::usage;

pub(super) struct Reporter {
    job: JobId,
    token: Token,
    attempt: u32,
    store: Store,
    clock: Arc<SystemClock>,
    secrets: Secrets,
    /// What must not show in anything the attempt says.
    redactor: OnceLock<Redactor>,
    waiting: Mutex<Waiting>,
    /// Something waits, or the attempt is over.
    wake: Notify,
    over: Notify,
    /// What its calls have waited for a store in trouble, and how long each may.
    waited: Waited,
    patience: Duration,
}

#[derive(Default)]
struct Waiting {
    progress: Option<Progress>,
    lines: Vec<LogLine>,
    over: bool,
}

impl Reporter {
    pub(super) fn new(store: Store, clock: Arc<SystemClock>, secrets: Secrets, job: &Job, token: Token) -> Reporter {
        Reporter {
            job: job.id,
            token,
            attempt: job.attempt,
            store,
            clock,
            secrets,
            redactor: OnceLock::new(),
            waiting: Mutex::default(),
            wake: Notify::new(),
            over: Notify::new(),
            waited: Waited::default(),
            patience: limits::STORE_PATIENCE,
        }
    }

    pub(super) fn job(&self) -> JobId {
        self.job
    }

    /// Keeps secrets out of what the attempt says. Said before it begins.
    pub(super) fn keep_out(&self, redactor: Redactor) {
        // A second word would come too late for what was said already.
        let _ = self.redactor.set(redactor);
    }

    /// An error and its backtrace, without secrets.
    pub(super) fn clean(&self, error: String, backtrace: Option<String>) -> (String, Option<String>) {
        match self.redactor.get() {
            Some(redactor) => (redactor.clean_cut(error), backtrace.map(|text| redactor.clean_cut(text))),
            None => (error, backtrace),
        }
    }

    /// A result without secrets.
    pub(super) fn clean_result(&self, result: Bytes) -> Bytes {
        match self.redactor.get() {
            Some(redactor) => redactor.clean_bytes(result),
            None => result,
        }
    }

    /// A checkpoint as it is stored, sealed if it holds a secret: it goes back to the guest as it is, so nothing is blotted out.
    pub(super) fn close(&self, state: Bytes) -> Result<Bytes, Error> {
        let holds_secret = self.redactor.get().is_some_and(|redactor| redactor.is_in(&state));
        let none = || Error::Unavailable { why: "the system has no randomness to seal the checkpoint with".to_owned() };
        self.secrets.close(state, holds_secret).ok_or_else(none)
    }

    /// Sends what is reported, with a pause after each time, until `finish`; the last word is sent before it returns.
    pub(super) async fn forward(&self) {
        loop {
            self.wake.notified().await;
            let waiting = self.take();
            if !waiting.lines.is_empty() {
                self.store.log(self.job, waiting.lines);
            }
            if let Some(progress) = waiting.progress {
                self.send(progress, waiting.over).await;
            }
            if waiting.over {
                return;
            }
            tokio::select! {
                () = self.over.notified() => {}
                () = sleep(limits::REPORT_EVERY) => {}
            }
        }
    }

    /// The attempt has ended: nothing more will be reported.
    pub(super) fn finish(&self) {
        self.lock().over = true;
        self.wake.notify_one();
        self.over.notify_one();
    }

    /// A line of the server's own in the job's log.
    pub(super) fn note(&self, level: &str, text: String) {
        let line = LogLine { at: self.clock.now(), attempt: self.attempt, level: level.to_owned(), text };
        self.store.log(self.job, vec![line]);
    }

    async fn send(&self, progress: Progress, last: bool) {
        let beat = || Command::Heartbeat {
            holder: Holder::Token(self.token),
            progress: Some(progress.clone()),
            checkpoint: None,
            spent: None,
            notes: None,
        };
        let mut asked = self.store.ask(self.job, beat(), Vec::new()).await;
        // A report that found the store busy is out of date soon; only the last one is worth another try.
        if last && let Err(error @ Error::Overloaded { .. }) = &asked {
            sleep(pause_after(error)).await;
            asked = self.store.ask(self.job, beat(), Vec::new()).await;
        }
        if let Err(error) = asked {
            debug!(job = %self.job, "a progress report was not taken: {error}");
        }
    }

    fn take(&self) -> Waiting {
        let mut waiting = self.lock();
        let over = waiting.over;
        Waiting { over, ..std::mem::take(&mut *waiting) }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Fields are set whole, so a poisoned lock holds nothing half done.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records and marks as the store takes them, without secrets; none when there is nothing.
    fn notes(&self, noted: executor::Notes) -> Result<Option<Box<Notes>>, Refusal> {
        let record = |record: executor::NewRecord| NewRecord {
            key: record.key,
            value: self.clean_result(record.value).to_vec(),
        };
        let mark = |mark: executor::NewMark| {
            Ok(NewMark { queue: Name::parse("queue", &mark.queue)?, key: mark.key, mark: mark.mark })
        };
        let marks = noted.marks.into_iter().map(mark).collect::<Result<_, Refusal>>()?;
        Ok(Notes::new(noted.records.into_iter().map(record).collect(), marks))
    }

    /// What goes with a result or a wait, as the store takes it.
    pub(super) async fn along(&self, along: Along) -> Result<(Vec<NewJob>, Option<Box<Notes>>), Error> {
        let children = insist(|| self.new_jobs(along.children.clone())).await?;
        Ok((children, self.notes(along.notes)?))
    }

    /// Children as the store takes them. Their ids come from the parent and the ordinal, so that a repeated attempt makes no
    /// doubles.
    pub(super) async fn new_jobs(&self, children: Vec<Child>) -> Result<Vec<NewJob>, Error> {
        let mut jobs = Vec::with_capacity(children.len());
        for child in children {
            self.refuse_secrets(&child)?;
            let payload = self.store.keep(child.payload.clone()).await?;
            jobs.push(NewJob { payload: Some(payload), ..convert::new_job(self.job, child)? });
        }
        Ok(jobs)
    }

    /// A child is run with the payload it was given, so nothing is blotted out there: a secret is refused.
    fn refuse_secrets(&self, child: &Child) -> Result<(), Refusal> {
        let Some(redactor) = self.redactor.get() else { return Ok(()) };
        let texts = child.tags.iter().flat_map(|(name, value)| [name, value]);
        let mut texts = texts.chain(&child.scope).chain(&child.unique_key);
        if redactor.is_in(&child.payload) || texts.any(|text| redactor.is_in(text.as_bytes())) {
            let why = "a child's payload, tags, scope and unique key are shown, and this one has a secret in it; let the \
                       plugin that runs the child read the secret itself";
            return Err(Refusal::invalid("payload", why));
        }
        Ok(())
    }
}
