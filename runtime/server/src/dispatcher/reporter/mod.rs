//! Sends a running guest's reports to the store: progress and log a few times a second, checkpoints immediately.
//!
//! A guest that reports a million times a second costs twenty commands: only the latest report waits here, and it is
//! sent before the attempt ends. Reading order: this file (progress and log), `host` (the guest's calls, and
//! checkpoints), `children`, `records`.

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
use windlass_core::{Command, Heartbeat, Holder, Job, JobId, Namespace, NewJob, Notes, Progress, Runner, Token};
use windlass_executor::Uncommitted;
use windlass_store::{Clock, Error, LogLine, Store};

use crate::checkpoints::CheckpointOwner;
use crate::clock::SystemClock;
use crate::dispatcher::redact::Redactor;
use crate::dispatcher::store_wait::{Waited, pause_after, retry_until_answered};
use crate::limits;
use crate::secrets::Secrets;
use crate::secrets::keyring::SecretKey;

pub(super) struct Reporter {
    job: JobId,
    /// The only one that its guest can name anything of.
    namespace: Namespace,
    /// Whose checkpoints these are.
    plugin: String,
    token: Token,
    attempt: u32,
    store: Store,
    clock: Arc<SystemClock>,
    secrets: Secrets,
    /// Removes secrets from everything the attempt reports.
    redactor: OnceLock<Redactor>,
    unsent: Mutex<Unsent>,
    /// Notified when there is something to send, or the attempt is over.
    wake: Notify,
    over: Notify,
    /// How long its calls have waited for a store that could not answer, and the most that each may wait.
    waited: Waited,
    store_wait_most: Duration,
}

#[derive(Default)]
struct Unsent {
    progress: Option<Progress>,
    lines: Vec<LogLine>,
    over: bool,
}

impl Reporter {
    pub(super) fn new(store: Store, clock: Arc<SystemClock>, secrets: Secrets, job: &Job, token: Token) -> Reporter {
        let plugin = match job.run.as_ref().map(|run| &run.runner) {
            Some(Runner::Local { plugin, .. }) => plugin.qualified().to_owned(),
            Some(Runner::External { .. }) | None => String::new(),
        };
        Reporter {
            job: job.id,
            namespace: job.queue.namespace(),
            plugin,
            token,
            attempt: job.attempt,
            store,
            clock,
            secrets,
            redactor: OnceLock::new(),
            unsent: Mutex::default(),
            wake: Notify::new(),
            over: Notify::new(),
            waited: Waited::default(),
            store_wait_most: limits::STORE_WAIT,
        }
    }

    pub(super) fn job(&self) -> JobId {
        self.job
    }

    /// The namespace of the job.
    pub(super) fn namespace(&self) -> Namespace {
        self.namespace.clone()
    }

    /// Sets what is redacted from the attempt's reports. Called before it starts.
    pub(super) fn redact_with(&self, redactor: Redactor) {
        // A second call would be too late for what has been reported, so it is ignored.
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

    /// Whose checkpoints the attempt saves and gets.
    pub(super) fn owner(&self) -> CheckpointOwner<'_> {
        CheckpointOwner { job: self.job, plugin: &self.plugin }
    }

    /// A checkpoint as it is stored. One that contains a secret is encrypted, not redacted, because the guest gets it
    /// back unchanged.
    pub(super) fn encrypt_checkpoint(&self, key: &SecretKey, state: Bytes) -> Result<Bytes, Error> {
        let holds_secret = self.contains_secret(&state);
        let none =
            || Error::Unavailable { why: "the system has no randomness to encrypt the checkpoint with".to_owned() };
        self.owner().encrypt(key, state, holds_secret).ok_or_else(none)
    }

    /// The key to encrypt a checkpoint with, kept until that is stored.
    pub(super) fn secret_key(&self) -> Arc<SecretKey> {
        self.secrets.key()
    }

    pub(super) fn contains_secret(&self, bytes: &[u8]) -> bool {
        self.redactor.get().is_some_and(|redactor| redactor.contains_secret(bytes))
    }

    /// Sends reports, with a pause after each, until `finish`; the last report is sent before it returns.
    pub(super) async fn forward(&self) {
        loop {
            self.wake.notified().await;
            let unsent = self.take();
            if !unsent.lines.is_empty() {
                self.store.log(self.job, unsent.lines);
            }
            if let Some(progress) = unsent.progress {
                self.send(progress, unsent.over).await;
            }
            if unsent.over {
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
        let report = || {
            Command::Heartbeat(Heartbeat {
                holder: Holder::Token(self.token),
                progress: Some(progress.clone()),
                checkpoint: None,
                spent: None,
                notes: None,
            })
        };
        let mut asked = self.store.ask(self.job, report(), Vec::new()).await;
        // A report that is refused by a busy store is soon out of date; only the last one is worth a retry.
        if last && let Err(error @ Error::Overloaded { .. }) = &asked {
            sleep(pause_after(error)).await;
            asked = self.store.ask(self.job, report(), Vec::new()).await;
        }
        if let Err(error) = asked {
            debug!(job = %self.job, "a progress report was not stored: {error}");
        }
    }

    fn take(&self) -> Unsent {
        let mut unsent = self.lock();
        let over = unsent.over;
        Unsent { over, ..std::mem::take(&mut *unsent) }
    }

    fn lock(&self) -> MutexGuard<'_, Unsent> {
        // Each field is set in one step, so a poisoned lock holds nothing inconsistent.
        self.unsent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The children and notes that are committed with a result or a wait, as the store accepts them.
    pub(super) async fn last_commit(
        &self,
        uncommitted: Uncommitted,
    ) -> Result<(Vec<NewJob>, Option<Box<Notes>>), Error> {
        let children = retry_until_answered(|| self.new_jobs(uncommitted.children.clone())).await?;
        Ok((children, self.notes(uncommitted.notes)?))
    }
}
