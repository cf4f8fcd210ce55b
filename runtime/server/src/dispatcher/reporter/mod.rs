//! What a running guest says, carried to the store: progress and log a few times a second, checkpoints at once.
//!
//! A guest that reports a million times a second costs twenty commands: only the latest report waits here, and it is sent
//! before the attempt ends. Reading order: this file (progress and log), `host` (what a guest may ask, and checkpoints), `children`,
//! `records`.

mod children;
mod host;
mod records;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::sleep;
use tracing::debug;
use windlass_core::{Command, Heartbeat, Holder, Job, JobId, NewJob, Notes, Progress, Token};
use windlass_executor::Uncommitted;
use windlass_store::{Clock, Error, LogLine, Store};

use crate::clock::SystemClock;
use crate::dispatcher::patience::{Waited, insist, pause_after};
use crate::dispatcher::redact::Redactor;
use crate::limits;
use crate::secrets::Secrets;

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
        let beat = || {
            Command::Heartbeat(Heartbeat {
                holder: Holder::Token(self.token),
                progress: Some(progress.clone()),
                checkpoint: None,
                spent: None,
                notes: None,
            })
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

    /// The children and notes that are committed with a result or a wait, as the store takes them.
    pub(super) async fn last(&self, uncommitted: Uncommitted) -> Result<(Vec<NewJob>, Option<Box<Notes>>), Error> {
        let children = insist(|| self.new_jobs(uncommitted.children.clone())).await?;
        Ok((children, self.notes(uncommitted.notes)))
    }
}
