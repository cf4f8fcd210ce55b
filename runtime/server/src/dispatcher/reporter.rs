//! What a running guest says, carried to the store: progress and log a few times a second, checkpoints at once.
//!
//! A guest that reports a million times a second costs twenty commands: only the latest report waits here, and it is sent
//! before the attempt ends.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tracing::debug;
use windlass_core::{Checkpoint, Command, JobId, Name, NewJob, Priority, Progress, Refusal, Token, Unique, Until, Within, Word};
use windlass_executor::{self as executor, Amount, Child, Host, HostError, Stream};
use windlass_store::{Clock, Error, LogLine, Store};

use super::pause_after;
use crate::clock::SystemClock;
use crate::limits;

pub(super) struct Reporter {
    job: JobId,
    token: Token,
    attempt: u32,
    store: Store,
    clock: Arc<SystemClock>,
    waiting: Mutex<Waiting>,
    /// Something waits, or the attempt is over.
    wake: Notify,
    over: Notify,
}

#[derive(Default)]
struct Waiting {
    progress: Option<Progress>,
    lines: Vec<LogLine>,
    over: bool,
}

impl Reporter {
    pub(super) fn new(store: Store, clock: Arc<SystemClock>, job: JobId, token: Token, attempt: u32) -> Reporter {
        Reporter {
            job,
            token,
            attempt,
            store,
            clock,
            waiting: Mutex::default(),
            wake: Notify::new(),
            over: Notify::new(),
        }
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
        let beat = || Command::Beat { word: Word::Of(self.token), progress: Some(progress.clone()), checkpoint: None };
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

    /// Children as the store takes them. Their ids come from the parent and the ordinal, so that a repeated attempt makes no
    /// doubles.
    pub(super) async fn new_jobs(&self, children: Vec<Child>) -> Result<Vec<NewJob>, Error> {
        let mut jobs = Vec::with_capacity(children.len());
        for child in children {
            let payload = self.store.keep(child.payload.clone()).await?;
            jobs.push(NewJob { payload: Some(payload), ..new_job(self.job, child)? });
        }
        Ok(jobs)
    }
}

#[executor::async_trait]
impl Host for Reporter {
    fn progress(&self, progress: executor::Progress) {
        self.lock().progress = Some(convert(progress));
        self.wake.notify_one();
    }

    fn log(&self, line: executor::LogLine) {
        let level = match line.stream {
            Stream::Log => line.level.as_str(),
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        };
        let text = if line.cut { format!("{} [cut]", line.message) } else { line.message };
        let line = LogLine { at: self.clock.now(), attempt: self.attempt, level: level.to_owned(), text };
        self.lock().lines.push(line);
        self.wake.notify_one();
    }

    async fn checkpoint(&self, checkpoint: executor::Checkpoint, children: Vec<Child>) -> Result<(), HostError> {
        let unavailable = |error: Error| HostError::Unavailable(error.to_string());
        let body = self.store.keep(checkpoint.bytes).await.map_err(unavailable)?;
        let children = self.new_jobs(children).await.map_err(unavailable)?;
        // The report that waits rides along: one commit less.
        let progress = self.lock().progress.take();
        let checkpoint = Checkpoint { body, schema: checkpoint.schema };
        let beat = Command::Beat { word: Word::Of(self.token), progress, checkpoint: Some(checkpoint) };
        let patience = Instant::now() + limits::CHECKPOINT_PATIENCE;
        loop {
            match self.store.ask(self.job, beat.clone(), children.clone()).await {
                Ok(_) => return Ok(()),
                Err(Error::Refused(Refusal::NotActive { .. } | Refusal::NotFound { .. })) => {
                    return Err(HostError::Ended);
                }
                Err(error @ Error::Overloaded { .. }) if Instant::now() < patience => sleep(pause_after(&error)).await,
                Err(error) => return Err(unavailable(error)),
            }
        }
    }
}

fn convert(progress: executor::Progress) -> Progress {
    let mut converted = Progress {
        phase: progress.phase,
        message: progress.message,
        level: Some(progress.level.as_str().to_owned()),
        detail: progress.detail,
        ..Progress::default()
    };
    match progress.amount {
        Some(Amount::Percent(percent)) => converted.percent = Some(percent),
        Some(Amount::Count { current, total, unit, weight }) => {
            converted.current = Some(current);
            converted.total = total;
            converted.unit = unit;
            converted.weight = weight;
        }
        None => {}
    }
    converted
}

/// All of a child but its payload.
fn new_job(parent: JobId, child: Child) -> Result<NewJob, Refusal> {
    let mut job = NewJob {
        queue: Some(Name::parse("queue", &child.queue)?),
        delay: child.delay,
        tags: child.tags,
        scope: child.scope,
        parent: Some(parent),
        id: Some(JobId::child(parent, child.ordinal)),
        ..NewJob::default()
    };
    job.unique = child.unique_key.map(|key| Unique {
        key,
        within: Within::default(),
        until: Until::default(),
        period: child.unique_period.unwrap_or(windlass_core::DEFAULT_PERIOD),
    });
    job.policy.max_retries = child.max_attempts;
    job.policy.priority = child.priority.map(|priority| match priority {
        executor::Priority::Critical => Priority::Critical,
        executor::Priority::High => Priority::High,
        executor::Priority::Normal => Priority::Normal,
    });
    Ok(job)
}
