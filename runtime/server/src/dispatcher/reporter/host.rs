//! The guest's calls to the store. They wait for a store that cannot answer; an attempt that has waited too long is
//! handed back.

use std::time::Duration;

use bytes::Bytes;
use windlass_core::{Checkpoint, Command, Heartbeat, Holder, Job, NewJob, Progress, Record, Refusal, Reply, Usage};
use windlass_executor::{
    self as executor, ChildPage, Host, HostError, PageLimits, SavedState, Stream, Uncommitted, async_trait,
};
use windlass_store::{Clock, Error, LogLine};

use crate::dispatcher::reporter::Reporter;
use crate::dispatcher::store_wait::{StoreWait, host_error};

impl Reporter {
    fn store_wait(&self) -> StoreWait<'_> {
        self.waited.begin(self.job, self.store_wait_most)
    }

    /// Repeats a request until the store can answer it, for as long as a call may wait.
    pub(in crate::dispatcher) async fn retrying<T, F>(&self, mut ask: impl FnMut() -> F) -> Result<T, HostError>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let mut wait = self.store_wait();
        loop {
            match ask().await {
                Ok(answer) => return Ok(answer),
                Err(error) => wait.retry(error).await?,
            }
        }
    }

    /// The job as it is stored now: its number of children changes with every checkpoint.
    pub(super) async fn parent(&self) -> Result<Job, HostError> {
        self.retrying(|| self.store.job(self.job)).await?.ok_or(HostError::Ended)
    }

    /// Commits a checkpoint with its children, the first of which has the ordinal `first`. A commit that failed with an
    /// unknown outcome may have been stored: then the children exist, and are not counted a second time.
    async fn commit(&self, command: Command, mut children: Vec<NewJob>, first: u32) -> Result<(), HostError> {
        let mut wait = self.store_wait();
        loop {
            match self.store.ask(self.job, command.clone(), children.clone()).await {
                // Another version has taken over the job.
                Ok(Reply::HandedBack) => return Err(HostError::Ended),
                Ok(_) => return Ok(()),
                Err(Error::Refused(Refusal::NotActive { .. } | Refusal::NotFound { .. })) => {
                    return Err(HostError::Ended);
                }
                Err(error) => {
                    let in_doubt = matches!(error, Error::Unknown { .. });
                    wait.retry(error).await?;
                    if in_doubt && !children.is_empty() && self.parent().await?.children > first {
                        children.clear();
                    }
                }
            }
        }
    }
}

#[async_trait]
impl Host for Reporter {
    fn progress(&self, mut progress: Progress) {
        if let Some(redactor) = self.redactor.get() {
            progress.phase = redactor.clean_some(progress.phase);
            progress.message = redactor.clean_some(progress.message);
            progress.detail = redactor.clean_some(progress.detail);
            progress.unit = redactor.clean_some(progress.unit);
        }
        self.lock().progress = Some(progress);
        self.wake.notify_one();
    }

    fn log(&self, line: executor::GuestLogLine) {
        let level = match line.stream {
            Stream::Log => line.level.as_str(),
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        };
        let text = match (self.redactor.get(), line.cut) {
            (Some(redactor), true) => redactor.clean_cut(line.message),
            (Some(redactor), false) => redactor.clean(line.message),
            (None, _) => line.message,
        };
        let text = if line.cut { format!("{text} [cut]") } else { text };
        let line = LogLine { at: self.clock.now(), attempt: self.attempt, level: level.to_owned(), text };
        self.lock().lines.push(line);
        self.wake.notify_one();
    }

    fn waited(&self) -> Duration {
        self.waited.total()
    }

    async fn checkpoint(&self, saved: SavedState, uncommitted: Uncommitted, used: Usage) -> Result<(), HostError> {
        let key = self.secret_key();
        let state = self.retrying(async || self.encrypt_checkpoint(&key, saved.bytes.clone())).await?;
        let body = self.retrying(|| self.store.keep_for(self.namespace(), state.clone())).await?;
        let first = uncommitted.children.first().map_or(0, |child| child.ordinal);
        let children = self.retrying(|| self.new_jobs(uncommitted.children.clone())).await?;
        let notes = self.notes(uncommitted.notes).map_err(|refusal| host_error(refusal.into()))?;
        // A progress report that is still waiting is stored in the same commit.
        let progress = self.lock().progress.take();
        let checkpoint = Checkpoint { body, schema: saved.schema, usage: used };
        let holder = Holder::Token(self.token);
        let checkpoint = Some(checkpoint);
        let heartbeat = Command::Heartbeat(Heartbeat { holder, progress, checkpoint, spent: None, notes });
        self.commit(heartbeat, children, first).await
    }

    async fn children(&self, start: u32, page: PageLimits) -> Result<ChildPage, HostError> {
        self.read_children(start, page).await
    }

    async fn child_result(&self, ordinal: u32) -> Result<Option<Bytes>, HostError> {
        self.read_child_result(ordinal).await
    }

    async fn record(&self, queue: &str, key: &str) -> Result<Option<Record>, HostError> {
        self.read_record(queue, key).await
    }

    async fn tied_queues(&self) -> Result<Vec<String>, HostError> {
        self.gated_queues().await
    }
}
