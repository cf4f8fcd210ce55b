//! One attempt, from the claim to the last word that says how it ended.

use std::sync::Arc;

use bytes::Bytes;
use tokio::time::sleep;
use tracing::{debug, error, warn};
use windlass_core::flow::Tally;
use windlass_core::{
    BodyKind, Checkpoint, Command, Complete, Fail, Failure, HandBack, Holder, Job, JobId, NewJob, QueueName, Refusal,
    Retry, Runner, Usage,
};
use windlass_executor::{
    self as executor, Attempt, CancelReason, Ended, HostError, Limits, Outcome, Reuse, SavedState, Uncommitted, Wait,
};
use windlass_store::{Assignment, Clock, Error};

use crate::attempt_setup::{AttemptSetup, shortest};
use crate::dispatcher::Floor;
use crate::dispatcher::patience::insist;
use crate::dispatcher::redact::Redactor;
use crate::dispatcher::reporter::Reporter;
use crate::dispatcher::running::Entry;
use crate::limits;

/// What an attempt has come to. It is over when this has been said.
pub(super) struct AttemptReport {
    job: JobId,
    holder: Holder,
    command: Option<Command>,
    children: Vec<NewJob>,
    /// Until then a stop still finds it.
    _entry: Entry,
}

/// Runs the handler of a claimed job.
pub(super) async fn run(floor: &Floor, assignment: Assignment) -> AttemptReport {
    let Assignment { job, token, served } = assignment;
    // In the list before anything is waited for: a cancel may be on its way.
    let (entry, cancel) = floor.running.enter(job.id, token);
    let (clock, secrets) = (Arc::clone(&floor.clock), floor.registry.secrets().clone());
    let reporter = Arc::new(Reporter::new(floor.store.clone(), clock, secrets, &job, token));
    let holder = Holder::Token(token);
    let (command, children) = match prepare(floor, &reporter, &job, &served).await {
        Ok(prepared) => {
            let attempt = Attempt { cancel, ..prepared.attempt };
            reporter.keep_out(Redactor::of(&attempt.permissions));
            let host = Arc::clone(&reporter) as Arc<dyn executor::Host>;
            let running = async {
                let ended = floor.executor.run(&prepared.code, attempt, host).await;
                reporter.finish();
                ended
            };
            let (ended, ()) = tokio::join!(running, reporter.forward());
            outcome(floor, &reporter, holder, ended).await
        }
        Err(NotStarted::Failed(error)) => (fail(holder, error, None, Retry::Backoff, Usage::default()), Vec::new()),
        Err(NotStarted::Interrupted(reason)) => {
            (interrupted(job.id, holder, reason, Usage::default()).await, Vec::new())
        }
        Err(NotStarted::NotReady(reason)) => {
            (Some(Command::HandBack(HandBack { holder, reason, usage: Usage::default() })), Vec::new())
        }
    };
    AttemptReport { job: job.id, holder, command, children, _entry: entry }
}

struct Prepared {
    code: executor::Plugin,
    /// Complete but for the channel that stops it.
    attempt: Attempt,
}

/// Why a handler was not even called.
enum NotStarted {
    /// The job cannot be run: for its record.
    Failed(String),
    /// It could not be run now, through no fault of its own.
    Interrupted(String),
    /// Its plugin cannot be run, and no more of its jobs are claimed.
    NotReady(String),
}

impl NotStarted {
    /// Something that the attempt needs cannot be read.
    fn unread(what: &str, error: HostError) -> NotStarted {
        let words = format!("{what} cannot be read: {error}");
        match error {
            HostError::Interrupted(_) => NotStarted::Interrupted(words),
            HostError::Invalid(_) | HostError::Unavailable(_) | HostError::Ended => NotStarted::Failed(words),
        }
    }
}

/// Fetches what the attempt needs.
async fn prepare(floor: &Floor, reporter: &Reporter, job: &Job, served: &[QueueName]) -> Result<Prepared, NotStarted> {
    let Some(Runner::Local { plugin, version }) = job.run.as_ref().map(|run| &run.runner) else {
        return Err(NotStarted::Failed("the job was assigned to no plugin".to_owned()));
    };
    let equipped = floor.registry.equip(plugin, version, served).await;
    let on_trial = job.run.as_ref().is_some_and(|run| run.canary);
    let (code, AttemptSetup { permissions, limits, reuse }) =
        equipped.map_err(|missing| match missing.to_string() {
            // The trial fails, and not the job.
            why if on_trial => NotStarted::Failed(why),
            why if floor.registry.is_claimed(plugin) => NotStarted::Interrupted(why),
            why => NotStarted::NotReady(why),
        })?;
    let body = async |kind| {
        let read = reporter.patiently(|| floor.store.body(job, kind)).await;
        read.map_err(|error| NotStarted::unread("the job's data", error))
    };
    let payload = body(BodyKind::Payload).await?.unwrap_or_default();
    let checkpoint = match body(BodyKind::Checkpoint).await? {
        Some(stored) => {
            let opened = floor.registry.secrets().open(stored);
            Some(opened.map_err(|why| NotStarted::Failed(format!("the job's checkpoint cannot be opened: {why}")))?)
        }
        None => None,
    };
    let now = floor.clock.now();
    let attempt = Attempt {
        job_id: job.id.to_string(),
        queue: job.queue.to_string(),
        payload,
        checkpoint: checkpoint.map(|bytes| SavedState { schema: job.checkpoint_schema, bytes }),
        attempt: job.attempt,
        max_attempts: job.policy.max_attempts,
        tags: job.tags.clone(),
        scope: job.scope.clone(),
        created_at_ms: job.created_at.millis(),
        started_at_ms: now.millis(),
        children_committed: job.children,
        joined: joined(floor, reporter, job).await?,
        round: job.round,
        limits: Limits {
            attempt_timeout: shortest([job.time_limit(now), limits.attempt_timeout]),
            stall_timeout: shortest([job.policy.stall_timeout, limits.stall_timeout]),
            ..limits
        },
        permissions,
        reuse: (reuse > 0).then(|| Reuse { times: reuse, limit_key: job.limit_key.clone().unwrap_or_default() }),
        cancel: tokio::sync::watch::channel(None).1,
    };
    Ok(Prepared { code, attempt })
}

/// How the children ended, when the attempt follows a wait for them.
async fn joined(floor: &Floor, reporter: &Reporter, job: &Job) -> Result<Option<Tally>, NotStarted> {
    if !job.links.as_ref().is_some_and(|links| links.joined) {
        return Ok(None);
    }
    let family = reporter.patiently(|| floor.store.family(job.id)).await;
    let family = family.map_err(|error| NotStarted::unread("the numbers of the job's children", error))?;
    Ok(Some(family.unwrap_or_default().tally))
}

/// The command that tells the store how the attempt ended, and the children that go with it.
async fn outcome(floor: &Floor, reporter: &Reporter, holder: Holder, ended: Ended) -> (Option<Command>, Vec<NewJob>) {
    let usage = ended.usage;
    let command = match ended.outcome {
        Outcome::Completed { result } => {
            let stored = async {
                let (children, notes) = reporter.last(ended.uncommitted).await?;
                Ok::<_, Error>((keep(floor, reporter.clean_result(result)).await?, children, notes))
            };
            return match stored.await {
                Ok((result, children, notes)) => {
                    (Some(Command::Complete(Complete { holder, result, usage, closing: None, notes })), children)
                }
                Err(error) => (fail(holder, not_taken(&error), None, Retry::Backoff, usage), Vec::new()),
            };
        }
        Outcome::Waiting(wait) => {
            return match waiting(floor, reporter, holder, wait, ended.uncommitted, usage).await {
                Ok((command, children)) => (Some(command), children),
                Err(error) => (fail(holder, not_taken(&error), None, Retry::Backoff, usage), Vec::new()),
            };
        }
        Outcome::Failed { error, backtrace, retry } => {
            let (error, backtrace) = reporter.clean(error, backtrace);
            fail(holder, error, backtrace, retry, usage)
        }
        Outcome::Stopped { reason, error, cooperative } => {
            let (error, _) = reporter.clean(error, None);
            if !cooperative {
                reporter.note("warn", format!("stopped by force: {error}"));
            }
            match reason {
                CancelReason::Timeout => fail(holder, error, None, Retry::Backoff, usage),
                // The job's record says who wanted the stop, and the rules what comes of it.
                CancelReason::User | CancelReason::Shutdown | CancelReason::Swap => {
                    Some(Command::HandBack(HandBack { holder, reason: reason.to_string(), usage }))
                }
            }
        }
        Outcome::Interrupted { reason } => {
            interrupted(reporter.job(), holder, reporter.clean(reason, None).0, usage).await
        }
        Outcome::Superseded => None,
    };
    (command, Vec::new())
}

/// The command by which the job waits for its children, and those that it has spawned last.
async fn waiting(
    floor: &Floor,
    reporter: &Reporter,
    holder: Holder,
    wait: Wait,
    uncommitted: Uncommitted,
    usage: Usage,
) -> Result<(Command, Vec<NewJob>), Error> {
    let (children, notes) = reporter.last(uncommitted).await?;
    let checkpoint = match wait.state {
        Some(SavedState { schema, bytes }) => {
            let state = insist(async || reporter.close(bytes.clone())).await?;
            let body = insist(|| floor.store.keep(state.clone())).await?;
            Some(Checkpoint { body, schema, usage })
        }
        None => None,
    };
    let on_child_failure = wait.on_failure;
    Ok((Command::Wait(windlass_core::Wait { holder, on_child_failure, checkpoint, usage, notes }), children))
}

/// An empty result is no result.
async fn keep(floor: &Floor, result: Bytes) -> Result<Option<windlass_core::Body>, Error> {
    if result.is_empty() {
        return Ok(None);
    }
    insist(|| floor.store.keep(result.clone())).await.map(Some)
}

impl AttemptReport {
    /// Tells the store. A result that the rules refuse (a child with an impossible queue, say) is a failed attempt.
    pub(super) async fn say(self, floor: &Floor) {
        let AttemptReport { job, holder, command, children, _entry } = self;
        let Some(command) = command else { return };
        let answer = insist(|| floor.store.ask(job, command.clone(), children.clone())).await;
        let Err(refused) = answer else { return };
        match &refused {
            Error::Refused(Refusal::NotActive { .. } | Refusal::NotFound { .. }) => {
                debug!(%job, "a late word was not taken: {refused}");
            }
            Error::Refused(_) => {
                let Some(failed) = fail(holder, not_taken(&refused), None, Retry::Backoff, Usage::default()) else {
                    return;
                };
                if let Err(error) = insist(|| floor.store.ask(job, failed.clone(), Vec::new())).await {
                    error!(%job, "the end of an attempt was not stored: {error}");
                }
            }
            Error::Overloaded { .. }
            | Error::Unavailable { .. }
            | Error::Unknown { .. }
            | Error::NoSearch { .. }
            | Error::Damaged { .. }
            | Error::Closed => {
                error!(%job, "the end of an attempt was not stored: {refused}");
            }
        }
    }
}

/// Gives the job back, charged to nobody. Not at once: it would be claimed again, and meet the same.
async fn interrupted(job: JobId, holder: Holder, reason: String, usage: Usage) -> Option<Command> {
    warn!(%job, "an attempt is given back and will be run again: {reason}");
    sleep(limits::INTERRUPTED_PAUSE).await;
    Some(Command::HandBack(HandBack { holder, reason, usage }))
}

fn not_taken(error: &Error) -> String {
    format!("the handler succeeded, but what it handed in was not taken: {error}")
}

fn fail(holder: Holder, error: String, backtrace: Option<String>, retry: Retry, usage: Usage) -> Option<Command> {
    Some(Command::Fail(Fail { holder, failure: Failure { error, backtrace, retry }, usage }))
}
