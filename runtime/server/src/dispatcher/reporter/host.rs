//! What a guest asks of the store. A store in trouble is waited for; an attempt that has waited for too long is handed back.

use std::time::Duration;

use bytes::Bytes;
use windlass_core::{BodyKind, Checkpoint, Command, Holder, Job, Name, NewJob, Refusal, Reply};
use windlass_executor::{self as executor, Along, ChildPage, Host, HostError, PageLimits, Record, Stream, async_trait};
use windlass_store::{Clock, Error, LogLine, QueueView};

use crate::dispatcher::patience::{Patience, host_error};
use crate::dispatcher::reporter::Reporter;
use crate::dispatcher::reporter::convert;
use crate::dispatcher::reporter::convert::{child_read, usage};
use crate::limits;

impl Reporter {
    fn patience(&self) -> Patience<'_> {
        self.waited.patience(self.job, self.patience)
    }

    /// Asks the store until it can answer, for as long as a call may wait.
    pub(in crate::dispatcher) async fn patiently<T, F>(&self, mut ask: impl FnMut() -> F) -> Result<T, HostError>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let mut patience = self.patience();
        loop {
            match ask().await {
                Ok(answer) => return Ok(answer),
                Err(error) => patience.wait(error).await?,
            }
        }
    }

    /// The job as it stands: how many children it has changes with every checkpoint.
    async fn parent(&self) -> Result<Job, HostError> {
        self.patiently(|| self.store.job(self.job)).await?.ok_or(HostError::Ended)
    }

    async fn result_of(&self, child: &Job) -> Result<Option<Bytes>, HostError> {
        self.patiently(|| self.store.body(child, BodyKind::Result)).await
    }

    /// Commits a checkpoint with its children, the first of which has the ordinal `first`. A commit that failed in the middle may
    /// have been stored all the same: then the children are there, and are not counted a second time.
    async fn commit(&self, beat: Command, mut children: Vec<NewJob>, first: u32) -> Result<(), HostError> {
        let mut patience = self.patience();
        loop {
            match self.store.ask(self.job, beat.clone(), children.clone()).await {
                // Another version has taken over, and the job is its own from here on.
                Ok(Reply::HandedBack) => return Err(HostError::Ended),
                Ok(_) => return Ok(()),
                Err(Error::Refused(Refusal::NotActive { .. } | Refusal::NotFound { .. })) => {
                    return Err(HostError::Ended);
                }
                Err(error) => {
                    let in_doubt = matches!(error, Error::Unknown { .. });
                    patience.wait(error).await?;
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
    fn progress(&self, progress: executor::Progress) {
        let mut progress = convert::progress(progress);
        if let Some(redactor) = self.redactor.get() {
            progress.phase = redactor.clean_some(progress.phase);
            progress.message = redactor.clean_some(progress.message);
            progress.detail = redactor.clean_some(progress.detail);
            progress.unit = redactor.clean_some(progress.unit);
        }
        self.lock().progress = Some(progress);
        self.wake.notify_one();
    }

    fn log(&self, line: executor::LogLine) {
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

    async fn checkpoint(
        &self,
        checkpoint: executor::Checkpoint,
        along: Along,
        used: executor::Usage,
    ) -> Result<(), HostError> {
        let state = self.patiently(async || self.close(checkpoint.bytes.clone())).await?;
        let body = self.patiently(|| self.store.keep(state.clone())).await?;
        let first = along.children.first().map_or(0, |child| child.ordinal);
        let children = self.patiently(|| self.new_jobs(along.children.clone())).await?;
        let notes = self.notes(along.notes).map_err(|refusal| host_error(refusal.into()))?;
        // The report that waits rides along: one commit less.
        let progress = self.lock().progress.take();
        let checkpoint = Checkpoint { body, schema: checkpoint.schema, usage: usage(&used) };
        let holder = Holder::Token(self.token);
        let beat = Command::Heartbeat { holder, progress, checkpoint: Some(checkpoint), spent: None, notes };
        self.commit(beat, children, first).await
    }

    async fn children(&self, start: u32, page: PageLimits) -> Result<ChildPage, HostError> {
        let parent = self.parent().await?;
        let (found, mut next) =
            self.patiently(|| self.store.children(&parent, u64::from(start), page.children)).await?;
        let mut children = Vec::with_capacity(found.len());
        let mut bytes = 0;
        let room = page.bytes as u64;
        for (number, child) in found {
            let size = child.result.len();
            let fits = size <= limits::EVENT_RESULT;
            if fits && size > 0 && !children.is_empty() && bytes + size > room {
                next = Some(number);
                break;
            }
            let result = if fits { self.result_of(&child).await? } else { None };
            bytes += if fits { size } else { 0 };
            children.push(child_read(number, child, result));
        }
        Ok(ChildPage { children, next: next.and_then(|number| u32::try_from(number).ok()) })
    }

    async fn child_result(&self, ordinal: u32) -> Result<Option<Bytes>, HostError> {
        let parent = self.parent().await?;
        let (found, _) = self.patiently(|| self.store.children(&parent, u64::from(ordinal), 1)).await?;
        match found.first() {
            Some((number, child)) if *number == u64::from(ordinal) => self.result_of(child).await,
            Some(_) | None => Err(HostError::no_child(ordinal)),
        }
    }

    async fn record(&self, queue: &str, key: &str) -> Result<Option<Record>, HostError> {
        let queue = Name::parse("queue", queue).map_err(|refusal| HostError::Invalid(refusal.to_string()))?;
        let found = self.patiently(|| self.store.record(queue.clone(), key.to_owned())).await?;
        Ok(found.map(|record| Record { value: Bytes::from(record.value), mark: record.mark }))
    }

    async fn tied_queues(&self) -> Result<Vec<String>, HostError> {
        let own = self.parent().await?.queue;
        let queues = self.patiently(|| self.store.queues()).await?;
        let tied = |view: &QueueView| {
            let gate = view.queue.settings.gate.as_ref()?;
            gate.other_side(&view.queue.name, &own).map(ToString::to_string)
        };
        Ok(queues.iter().filter_map(tied).collect())
    }
}
