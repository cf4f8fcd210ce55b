//! One attempt, from the claim to the report of its outcome.

use std::sync::Arc;

use bytes::Bytes;
use tokio::time::sleep;
use tracing::{debug, error, warn};
use windlass_core::flow::Tally;
use windlass_core::{
    BodyKind, Checkpoint, Command, Complete, Denial, Digest, Fail, Failure, Findings, HandBack, Holder, Job, JobId,
    Name, Namespace, NewJob, QueueName, Refusal, Retry, Runner, Time, Usage,
};
use windlass_executor::{
    self as executor, Attempt, AttemptEnd, CancelReason, HostError, Limits, Outcome, RequestedWait, Reuse, SavedState,
    Uncommitted,
};
use windlass_store::{Assignment, Clock, Error};

use crate::attempt_setup::{AttemptSetup, shortest};
use crate::checkpoints::{Withheld, was_saved_by};
use crate::dispatcher::SlotContext;
use crate::dispatcher::redact::Redactor;
use crate::dispatcher::reporter::Reporter;
use crate::dispatcher::running::{RunningAttempt, RunningEntry};
use crate::dispatcher::store_wait::retry_until_answered;
use crate::limits;
use crate::metrics::figures::{Ended, EndedAttempt};
use crate::secrets::keyring::SecretKey;

/// The outcome of an attempt, which is over once this has been sent.
pub(super) struct AttemptReport {
    job: JobId,
    holder: Holder,
    command: Option<Command>,
    children: Vec<NewJob>,
    findings: Findings,
    /// Until then, a request to stop still finds the attempt.
    _entry: RunningEntry,
    /// What its last checkpoint was encrypted with, not to be dropped before that is stored.
    _key: Option<Arc<SecretKey>>,
}

/// Runs the handler of a claimed job.
pub(super) async fn run(context: &SlotContext, assignment: Assignment) -> AttemptReport {
    let Assignment { job, token, served } = assignment;
    // Entered before the first await, because a cancellation may already be on its way.
    let (entry, cancel) = context.running.enter(&job, token);
    let (clock, secrets) = (Arc::clone(&context.clock), context.registry.secrets().clone());
    let reporter = Arc::new(Reporter::new(context.store.clone(), clock, secrets, &job, token));
    let holder = Holder::Token(token);
    let mut key = None;
    let (command, children) = match prepare(context, &reporter, &job, &served).await {
        Ok(prepared) => {
            let gauge = Arc::clone(&entry.attempt().gauge);
            let attempt = Attempt { cancel, gauge, ..prepared.attempt };
            entry.set_limits(attempt.limits.clone());
            reporter.redact_with(Redactor::of(&attempt.permissions));
            let host = Arc::clone(&reporter) as Arc<dyn executor::Host>;
            let running = async {
                let ended = context.executor.run(&prepared.code, attempt, host).await;
                reporter.finish();
                ended
            };
            let (ended, ()) = tokio::join!(running, reporter.forward());
            outcome(context, &reporter, holder, ended, key.insert(reporter.secret_key())).await
        }
        Err(NotStarted::Failed(error)) => (fail(holder, error, None, Retry::Backoff, Usage::default()), Vec::new()),
        Err(NotStarted::Interrupted(reason)) => {
            (interrupted(job.id, holder, reason, Usage::default()).await, Vec::new())
        }
        Err(NotStarted::NotReady(reason)) => {
            (Some(Command::HandBack(HandBack { holder, reason, usage: Usage::default() })), Vec::new())
        }
    };
    let findings = findings(entry.attempt(), context.clock.now());
    count(context, entry.attempt(), command.as_ref(), &findings);
    AttemptReport { job: job.id, holder, command, children, findings, _entry: entry, _key: key }
}

/// What became apparent while the attempt ran.
fn findings(attempt: &RunningAttempt, now: Time) -> Findings {
    let denials = attempt.gauge.denied().into_iter().filter_map(|(at, denied)| {
        let ago = u64::try_from(at.elapsed().as_millis()).unwrap_or(u64::MAX);
        Denial::of(&denied, Time(now.millis().saturating_sub(ago)))
    });
    Findings { hits: attempt.gauge.hits(), denials: denials.collect() }
}

/// Counts the attempt in the figures of its version.
fn count(context: &SlotContext, attempt: &RunningAttempt, command: Option<&Command>, findings: &Findings) {
    let (ended, usage) = match command {
        Some(Command::Complete(complete)) => (Ended::Completed, complete.usage),
        Some(Command::Fail(fail)) => (Ended::Failed, fail.usage),
        Some(Command::HandBack(hand_back)) => (Ended::Otherwise, hand_back.usage),
        Some(Command::Wait(wait)) => (Ended::Otherwise, wait.usage),
        _ => (Ended::Otherwise, Usage::default()),
    };
    let RunningAttempt { plugin, version, job, .. } = attempt;
    context.figures.add(&EndedAttempt { plugin, version, job: *job, ended, usage, findings });
}

struct Prepared {
    code: executor::Plugin,
    /// Complete except for the channel that cancels it.
    attempt: Attempt,
}

/// Why a handler was not called.
enum NotStarted {
    /// The job cannot be run; the attempt fails with this error.
    Failed(String),
    /// It cannot be run now, for a reason outside the job.
    Interrupted(String),
    /// Its plugin cannot be run, and no more of the plugin's jobs are claimed.
    NotReady(String),
}

impl NotStarted {
    /// Something that the attempt needs cannot be read.
    fn unread(what: &str, error: HostError) -> NotStarted {
        let message = format!("{what} cannot be read: {error}");
        match error {
            HostError::Interrupted(_) => NotStarted::Interrupted(message),
            HostError::Invalid(_) | HostError::Unavailable(_) | HostError::Ended => NotStarted::Failed(message),
        }
    }
}

/// Fetches what the attempt needs.
async fn prepare(
    context: &SlotContext,
    reporter: &Reporter,
    job: &Job,
    served: &[QueueName],
) -> Result<Prepared, NotStarted> {
    let Some(Runner::Local { plugin, version }) = job.run.as_ref().map(|run| &run.runner) else {
        return Err(NotStarted::Failed("the job was assigned to no plugin".to_owned()));
    };
    let setup = context.registry.attempt_setup(plugin, version, served).await;
    let is_canary = job.run.as_ref().is_some_and(|run| run.canary);
    let (code, AttemptSetup { permissions, limits, reuse }) = setup.map_err(|missing| {
        let not_started = match (is_canary, context.registry.is_claimed(plugin)) {
            // The failure counts against the canary.
            (true, _) => NotStarted::Failed,
            (false, true) => NotStarted::Interrupted,
            (false, false) => NotStarted::NotReady,
        };
        not_started(missing.to_string())
    })?;
    let body = async |kind| {
        let read = reporter.retrying(|| context.store.body(job, kind)).await;
        read.map_err(|error| NotStarted::unread("the job's data", error))
    };
    let payload = body(BodyKind::Payload).await?.unwrap_or_default();
    let checkpoint = match body(BodyKind::Checkpoint).await? {
        Some(stored) => checkpoint(context, reporter, job, stored)?,
        None => None,
    };
    let now = context.clock.now();
    let attempt = Attempt {
        owner: plugin.qualified().into(),
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
        joined: joined(context, reporter, job).await?,
        round: job.round,
        limits: Limits {
            attempt_timeout: Some(job.time_limit(limits.attempt_timeout, now)),
            stall_timeout: shortest([job.policy.stall_timeout, limits.stall_timeout]),
            ..limits
        },
        permissions,
        reuse: (reuse > 0).then(|| Reuse { times: reuse, limit_key: job.limit_key.clone().unwrap_or_default() }),
        gauge: Arc::default(),
        cancel: tokio::sync::watch::channel(None).1,
    };
    Ok(Prepared { code, attempt })
}

/// The checkpoint that the attempt resumes from. One that contains another plugin's secret stays stored, and the
/// attempt runs without it: whoever moved the job wants it to run, and what it would have gone on from means nothing to
/// another plugin.
fn checkpoint(
    context: &SlotContext,
    reporter: &Reporter,
    job: &Job,
    stored: Bytes,
) -> Result<Option<Bytes>, NotStarted> {
    let (owner, registry) = (reporter.owner(), &context.registry);
    let has_version = |version: &Digest| registry.has_version(&Name::stored(owner.plugin), version);
    match owner.decrypt(registry.secrets(), stored, || was_saved_by(owner.plugin, job, has_version)) {
        Ok(state) => Ok(Some(state)),
        Err(why @ Withheld::WrongKey) => {
            Err(NotStarted::Failed(format!("the job's checkpoint cannot be decrypted: {why}")))
        }
        Err(why @ (Withheld::OtherPlugin { .. } | Withheld::UnknownPlugin)) => {
            reporter.note("warn", format!("starts without the job's checkpoint: {why}"));
            Ok(None)
        }
    }
}

/// How the children ended, when the attempt follows a wait for them.
async fn joined(context: &SlotContext, reporter: &Reporter, job: &Job) -> Result<Option<Tally>, NotStarted> {
    if !job.links.as_ref().is_some_and(|links| links.joined) {
        return Ok(None);
    }
    let family = reporter.retrying(|| context.store.family(job.id)).await;
    let family = family.map_err(|error| NotStarted::unread("the numbers of the job's children", error))?;
    Ok(Some(family.unwrap_or_default().tally))
}

/// The command that reports to the store how the attempt ended, and the children that are committed with it.
async fn outcome(
    context: &SlotContext,
    reporter: &Reporter,
    holder: Holder,
    ended: AttemptEnd,
    key: &SecretKey,
) -> (Option<Command>, Vec<NewJob>) {
    let usage = ended.usage;
    let command = match ended.outcome {
        Outcome::Completed { result } => {
            let stored = async {
                let (children, notes) = reporter.last_commit(ended.uncommitted).await?;
                Ok::<_, Error>((
                    store_result(context, reporter.namespace(), reporter.clean_result(result)).await?,
                    children,
                    notes,
                ))
            };
            return match stored.await {
                Ok((result, children, notes)) => {
                    (Some(Command::Complete(Complete { holder, result, usage, closing: None, notes })), children)
                }
                Err(error) => (fail(holder, not_stored(&error), None, Retry::Backoff, usage), Vec::new()),
            };
        }
        Outcome::Waiting(wait) => {
            return match waiting(context, reporter, holder, wait, ended.uncommitted, usage, key).await {
                Ok((command, children)) => (Some(command), children),
                Err(error) => (fail(holder, not_stored(&error), None, Retry::Backoff, usage), Vec::new()),
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
                // The stored job says why it was stopped, and the rules decide what follows.
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

/// The command with which the job waits for its children, and the children spawned since the last commit.
async fn waiting(
    context: &SlotContext,
    reporter: &Reporter,
    holder: Holder,
    wait: RequestedWait,
    uncommitted: Uncommitted,
    usage: Usage,
    key: &SecretKey,
) -> Result<(Command, Vec<NewJob>), Error> {
    let (children, notes) = reporter.last_commit(uncommitted).await?;
    let checkpoint = match wait.state {
        Some(SavedState { schema, bytes }) => {
            let state = retry_until_answered(async || reporter.encrypt_checkpoint(key, bytes.clone())).await?;
            let body = retry_until_answered(|| context.store.keep_for(reporter.namespace(), state.clone())).await?;
            Some(Checkpoint { body, schema, usage })
        }
        None => None,
    };
    let on_child_failure = wait.on_failure;
    Ok((Command::Wait(windlass_core::Wait { holder, on_child_failure, checkpoint, usage, notes }), children))
}

/// Stores a result. An empty one counts as none.
async fn store_result(
    context: &SlotContext,
    namespace: Namespace,
    result: Bytes,
) -> Result<Option<windlass_core::Body>, Error> {
    if result.is_empty() {
        return Ok(None);
    }
    retry_until_answered(|| context.store.keep_for(namespace.clone(), result.clone())).await.map(Some)
}

impl AttemptReport {
    /// Sends the report to the store. If the rules refuse it (because of a child's invalid queue, for example), the
    /// attempt fails.
    pub(super) async fn send(self, context: &SlotContext) {
        let AttemptReport { job, holder, command, children, findings, _entry, _key } = self;
        let Some(command) = command else { return };
        let findings = (!findings.is_empty()).then(|| Box::new(findings));
        let report = |command: &Command, children: &[NewJob]| {
            context.store.report(job, command.clone(), children.to_vec(), findings.clone())
        };
        let answer = retry_until_answered(|| report(&command, &children)).await;
        let Err(refused) = answer else { return };
        match &refused {
            Error::Refused(Refusal::NotActive { .. } | Refusal::NotFound { .. }) => {
                debug!(%job, "a late report was refused: {refused}");
            }
            Error::Refused(_) => {
                let Some(failed) = fail(holder, not_stored(&refused), None, Retry::Backoff, Usage::default()) else {
                    return;
                };
                if let Err(error) = retry_until_answered(|| report(&failed, &[])).await {
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

/// Hands the job back without counting a failure. After a pause, because it would be claimed again immediately and fail
/// the same way.
async fn interrupted(job: JobId, holder: Holder, reason: String, usage: Usage) -> Option<Command> {
    warn!(%job, "an attempt is handed back and will be run again: {reason}");
    sleep(limits::INTERRUPTED_PAUSE).await;
    Some(Command::HandBack(HandBack { holder, reason, usage }))
}

fn not_stored(error: &Error) -> String {
    format!("the handler succeeded, but its result could not be stored: {error}")
}

fn fail(holder: Holder, error: String, backtrace: Option<String>, retry: Retry, usage: Usage) -> Option<Command> {
    Some(Command::Fail(Fail { holder, failure: Failure { error, backtrace, retry }, usage }))
}
