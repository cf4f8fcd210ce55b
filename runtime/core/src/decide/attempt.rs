//! What the runner of an attempt reports: that it starts, is alive, completes, fails, waits or hands the job back.

use core::time::Duration;

use crate::decide::checkpoint::{hands_over, take_checkpoint};
use crate::decide::clock::next_watch;
use crate::decide::iteration::AfterIteration;
use crate::decide::{
    Context, Draft, ExistingJob, SWAPPED, after_stop, bounded, dependencies, end, iteration, make_pending,
    make_retrying,
};
use crate::flow::Links;
use crate::{
    AfterStop, AttemptError, BodyKind, BodyRef, Change, Complete, Decision, EndedAttempt, EventKind, Fail, HandBack,
    Heartbeat, Holder, Job, JobAction, Notes, Plugin, Progress, Reason, Refusal, Reply, Retry, Run, Runner, State,
    Time, Token, Usage, Wait, Why, bounds, retry,
};

/// A claim, counted before the handler runs.
pub(super) fn start(
    context: Context,
    known: ExistingJob<'_>,
    runner: Runner,
    by: Option<String>,
) -> Result<Decision, Refusal> {
    let now = context.now;
    let mut job = known.job;
    if job.state != State::Pending {
        return Err(wrong_state(JobAction::Start, &job, "pending"));
    }
    job.fence += 1;
    job.attempt += 1;
    job.claimed_by = by;
    let token = Token { fence: job.fence, secret: context.random(3) };
    let mut draft = Draft::new();
    let (runner, why) = assign(&mut draft, known.facts.plugin, &job, runner);
    job.pinned = match (&runner, why) {
        (Runner::Local { version, .. }, Why::Pinned) => Some(version.clone()),
        _ => None,
    };
    let reason = started(&job, &runner, why);
    let canary = why == Why::Canary;
    let lease_expires_at = (!runner.is_local()).then(|| now + job.policy.lease);
    job.started_at = Some(now);
    job.first_started_at.get_or_insert(now);
    job.run = Some(Run {
        token,
        runner,
        started_at: now,
        lease_expires_at,
        heartbeat_at: now,
        stop: None,
        swap_by: None,
        canary,
        watch_at: None,
    });
    // For a limit that passed while the job waited: a timer is never set in the past.
    let watch_at = next_watch(&job, Time::ZERO).map(|at| at.max(now));
    if let Some(run) = job.run.as_mut() {
        run.watch_at = watch_at;
    }
    job.enter(State::Active, now, reason);
    draft.event(&job, now, EventKind::Started { attempt: job.attempt });
    Ok(draft.done(job, Reply::Started { token, lease_expires_at }))
}

/// The version of the plugin that the attempt runs on. The plugin changes if that attempt counts for its canary.
fn assign(draft: &mut Draft, plugin: Option<&Plugin>, job: &Job, runner: Runner) -> (Runner, Why) {
    let choice = plugin.filter(|_| runner.is_local()).and_then(|plugin| plugin.choose(job));
    let (Runner::Local { plugin, .. }, Some(choice)) = (&runner, choice) else {
        return (runner, Why::Active);
    };
    draft.changes.extend(choice.counted.map(Change::Plugin));
    (Runner::Local { plugin: plugin.clone(), version: choice.version }, choice.why)
}

fn started(job: &Job, runner: &Runner, why: Why) -> Reason {
    let version = match runner {
        Runner::Local { version, .. } => version.get(..12).unwrap_or(version),
        Runner::External { .. } => "",
    };
    match why {
        Why::Active => "started".into(),
        Why::Canary => format!("started on version {version}, the canary").into(),
        Why::Pinned => {
            let schema = job.checkpoint_schema;
            format!("started on version {version}: the active one does not read its checkpoint (schema {schema})")
                .into()
        }
    }
}

/// Counts the end of an attempt for the canary, if it ran there.
pub(super) fn count_canary(draft: &mut Draft, plugin: Option<&Plugin>, run: &Run, failed: bool, now: Time) {
    if let Some((plugin, events)) = plugin.and_then(|plugin| plugin.count(run, failed, now)) {
        draft.changes.push(Change::Plugin(Box::new(plugin)));
        draft.changes.extend(events.into_iter().map(Change::Event));
    }
}

pub(super) fn complete(context: Context, mut known: ExistingJob<'_>, complete: Complete) -> Result<Decision, Refusal> {
    let Complete { holder, result, usage, closing, notes } = complete;
    if is_repeat(&known.job, holder) {
        return Ok(Draft::unchanged(Reply::Unchanged));
    }
    let run = live_run(&known.job, holder)?;
    let mut draft = Draft::new();
    let next = match closing {
        Some(closing) => iteration::close(&mut draft, &mut known, *closing, context.now)?,
        None => AfterIteration::Complete,
    };
    let job = &mut known.job;
    take_notes(&mut draft, job, notes)?;
    if let Some(body) = result {
        job.result = BodyRef::from(&body);
        draft.changes.push(Change::Body { job: job.id, kind: BodyKind::Result, body: Some(body) });
    }
    job.usage = Some(usage);
    take_children(job, known.facts.children)?;
    count_canary(&mut draft, known.facts.plugin, &run, false, context.now);
    let stopping = run.stop.map(|stop| stop.then);
    let may_continue = matches!(stopping, None | Some(AfterStop::Swap));
    if may_continue && next != AfterIteration::Complete {
        return Ok(iteration::next(draft, known, next, run.token, context.now));
    }
    known.job.ended_by = Some(run.token);
    match stopping {
        // A hold that came too late: the job is done.
        None | Some(AfterStop::Swap | AfterStop::Hold { .. }) => {
            end(&mut draft, &mut known, State::Completed, context.now, "completed");
            Ok(draft.now(known.job))
        }
        Some(then) => Ok(after_stop(draft, known, then, context.now)),
    }
}

/// Children are stored in the commit of what they came with.
fn take_children(job: &mut Job, children: u32) -> Result<(), Refusal> {
    let most = bounds::CHILDREN_OF_A_JOB;
    match job.children.checked_add(children).filter(|total| *total <= most) {
        Some(total) => job.children = total,
        None => {
            let why = format!(
                "one job spawns at most {most}, and this one has spawned {}; spread them over more jobs",
                job.children
            );
            return Err(Refusal::invalid("children", why));
        }
    }
    Ok(())
}

/// Records and marks are part of the commit of what they came with.
fn take_notes(draft: &mut Draft, job: &mut Job, notes: Option<Box<Notes>>) -> Result<(), Refusal> {
    let Some(notes) = notes else { return Ok(()) };
    notes.check(job.records)?;
    job.records += notes.records.len() as u32;
    draft.changes.extend(notes.records.into_iter().map(|record| Change::Record { job: job.id, record }));
    draft.changes.extend(notes.marks.into_iter().map(Change::Mark));
    Ok(())
}

pub(super) fn fail(context: Context, mut known: ExistingJob<'_>, fail: Fail) -> Result<Decision, Refusal> {
    let Fail { holder, failure, usage } = fail;
    let run = live_run(&known.job, holder)?;
    let mut draft = Draft::new();
    let text = bounded(failure.error, bounds::ERROR_BYTES);
    let backtrace = failure.backtrace.map(|text| bounded(text, bounds::BACKTRACE_BYTES));
    known.job.usage = Some(usage);
    let error = AttemptError { backtrace, usage, ..error_of(&known.job, &run, text.clone(), context.now) };
    record_error(&mut draft, &mut known.job, error);
    // A failure counts even if the attempt has been asked to stop for a new version.
    if let Some(stop) = run.stop.as_ref().filter(|stop| stop.then != AfterStop::Swap) {
        known.job.ended_by = Some(run.token);
        return Ok(after_stop(draft, known, stop.then.clone(), context.now));
    }
    let failed = FailedAttempt { token: run.token, retry: failure.retry, error: &text };
    if run.canary {
        count_canary(&mut draft, known.facts.plugin, &run, true, context.now);
        return Ok(forgive(draft, known, context, &failed));
    }
    Ok(charge_failure(draft, known, context, &failed))
}

/// What the next attempt depends on.
pub(super) struct FailedAttempt<'a> {
    pub token: Token,
    pub retry: Retry,
    pub error: &'a str,
}

/// A failure on a canary says nothing about the job: whatever the failure says, the job is tried again on the active
/// version, and the failure does not count.
fn forgive(mut draft: Draft, mut known: ExistingJob<'_>, context: Context, failed: &FailedAttempt<'_>) -> Decision {
    let delay = match failed.retry {
        Retry::After(delay) => delay.min(bounds::LONGEST),
        Retry::Backoff | Retry::Never => Duration::ZERO,
    };
    if out_of_time(&known.job, context.now + delay) {
        known.job.ended_by = Some(failed.token);
        end(&mut draft, &mut known, State::Dead, context.now, "max_duration");
    } else {
        let error = bounded(failed.error.to_owned(), bounds::REASON_BYTES);
        make_retrying(&mut draft, &mut known, context.now, delay, &error);
    }
    draft.now(known.job)
}

/// Counts a failure: another attempt follows, or the job is dead.
pub(super) fn charge_failure(
    mut draft: Draft,
    mut known: ExistingJob<'_>,
    context: Context,
    failed: &FailedAttempt<'_>,
) -> Decision {
    let job = &mut known.job;
    job.failures += 1;
    let delay = match failed.retry {
        Retry::Backoff => retry::delay(job.policy.backoff, job.failures, context.random(4)),
        Retry::After(delay) => delay.min(bounds::LONGEST),
        Retry::Never => Duration::ZERO,
    };
    let too_late = out_of_time(job, context.now + delay);
    if failed.retry == Retry::Never || job.runs_left() == 0 || too_late {
        job.ended_by = Some(failed.token);
        let reason = match failed.retry {
            Retry::Never => "failed for good",
            _ if too_late => "max_duration",
            _ => "retries used up",
        };
        end(&mut draft, &mut known, State::Dead, context.now, reason);
    } else {
        let error = bounded(failed.error.to_owned(), bounds::REASON_BYTES);
        make_retrying(&mut draft, &mut known, context.now, delay, &error);
    }
    draft.now(known.job)
}

/// Why a job with a round cannot wait for its children.
const ROUND_WAITS: &str =
    "a job of a round cannot wait for its children: they are of the next round, which starts when this one has ended";

/// The attempt is over; the job runs again when its children have ended.
pub(super) fn wait(context: Context, mut known: ExistingJob<'_>, wait: Wait) -> Result<Decision, Refusal> {
    let Wait { holder, on_child_failure, checkpoint, usage, notes } = wait;
    let waited_by = known.job.links.as_ref().and_then(|links| links.waited_by);
    if known.job.run.is_none() && matches!((holder, waited_by), (Holder::Token(token), Some(by)) if token == by) {
        return Ok(Draft::unchanged(Reply::Unchanged));
    }
    let run = live_run(&known.job, holder)?;
    if known.job.round.is_some() {
        return Err(Refusal::invalid("wait", ROUND_WAITS));
    }
    let mut draft = Draft::new();
    draft.ran = ran(&run, usage);
    take_notes(&mut draft, &mut known.job, notes)?;
    take_children(&mut known.job, known.facts.children)?;
    if let Some(checkpoint) = checkpoint {
        take_checkpoint(&mut draft, &mut known, checkpoint, context.now);
    }
    // A swap needs no more than this: the new version gets the job when its children have ended.
    if let Some(stop) = run.stop.filter(|stop| stop.then != AfterStop::Swap) {
        return Ok(after_stop(draft, known, stop.then, context.now));
    }
    let job = &mut known.job;
    let links: &mut Links = job.links.get_or_insert_default();
    links.waits_for_children = Some(on_child_failure);
    links.joined = false;
    links.waited_by = Some(run.token);
    job.end_run();
    dependencies::block(&mut draft, job, context.now, "waits for its children");
    Ok(draft.now(known.job))
}

pub(super) fn hand_back(
    context: Context,
    mut known: ExistingJob<'_>,
    hand_back: HandBack,
) -> Result<Decision, Refusal> {
    let HandBack { holder, reason, usage } = hand_back;
    let run = live_run(&known.job, holder)?;
    let mut draft = Draft::new();
    draft.ran = ran(&run, usage);
    if let Some(stop) = run.stop {
        return Ok(after_stop(draft, known, stop.then, context.now));
    }
    make_pending(&mut draft, &mut known.job, known.facts.rounds, context.now, bounded(reason, bounds::REASON_BYTES));
    Ok(draft.now(known.job))
}

pub(super) fn heartbeat(
    context: Context,
    mut known: ExistingJob<'_>,
    heartbeat: Heartbeat,
) -> Result<Decision, Refusal> {
    let asked = live_run(&known.job, heartbeat.holder)?;
    heartbeat.check()?;
    let Heartbeat { holder: _, progress, checkpoint, spent, notes } = heartbeat;
    let now = context.now;
    let job = &mut known.job;
    let saved = checkpoint.as_ref().map(|checkpoint| checkpoint.usage);
    let mut draft = Draft::new();
    take_notes(&mut draft, job, notes)?;
    if let Some(progress) = progress {
        take_progress(&mut draft, job, progress, now);
    }
    if let Some(checkpoint) = checkpoint {
        take_checkpoint(&mut draft, &mut known, checkpoint, now);
    }
    let job = &mut known.job;
    if let Some(spent) = spent {
        spent.check()?;
        job.spend(&spent);
    }
    job.updated_at = now;
    take_children(job, known.facts.children)?;
    if let Some(usage) = saved
        && hands_over(job, &asked, known.facts.plugin, now)
    {
        draft.ran = ran(&asked, usage);
        make_pending(&mut draft, job, known.facts.rounds, now, SWAPPED);
        return Ok(draft.done(known.job, Reply::HandedBack));
    }
    let lease = job.policy.lease;
    let Some(run) = job.run.as_mut() else {
        return Err(not_active(job));
    };
    run.heartbeat_at = now;
    if run.lease_expires_at.is_some() {
        run.lease_expires_at = Some(now + lease);
    }
    let reply =
        Reply::Heartbeat { stop: run.stop.clone().map(|stop| stop.then), lease_expires_at: run.lease_expires_at };
    Ok(draft.done(known.job, reply))
}

fn take_progress(draft: &mut Draft, job: &mut Job, mut progress: Progress, now: Time) {
    progress.ts = now;
    progress.message = progress.message.map(|text| bounded(text, bounds::MESSAGE_BYTES));
    progress.phase = progress.phase.map(|text| bounded(text, bounds::NAME_BYTES));
    progress.detail = progress.detail.map(|text| bounded(text, bounds::DETAIL_BYTES));
    draft.event(job, now, EventKind::Progress(progress.clone()));
    job.progress = Some(progress);
}

/// Whether the time for all attempts of the job is over at `at`.
pub(super) fn out_of_time(job: &Job, at: Time) -> bool {
    job.deadline().is_some_and(|deadline| at >= deadline)
}

/// The error of an attempt without measurements.
pub(super) fn error_of(job: &Job, run: &Run, error: String, now: Time) -> AttemptError {
    AttemptError {
        attempt: job.attempt,
        error,
        backtrace: None,
        at: now,
        runner: run.runner.clone(),
        usage: Usage::default(),
    }
}

pub(super) fn record_error(draft: &mut Draft, job: &mut Job, error: AttemptError) {
    job.last_error = Some(bounded(error.error.clone(), bounds::REASON_BYTES));
    draft.changes.push(Change::Error { job: job.id, error });
}

/// What the timeline says about an attempt that ended without a failure; nothing about one without measurements.
fn ran(run: &Run, usage: Usage) -> Option<Box<EndedAttempt>> {
    (usage != Usage::default()).then(|| Box::new(EndedAttempt { runner: run.runner.clone(), usage }))
}

/// The running attempt, if the command comes from its holder.
fn live_run(job: &Job, holder: Holder) -> Result<Run, Refusal> {
    let run = job.run.as_ref().ok_or_else(|| not_active(job))?;
    let own = match holder {
        Holder::Token(token) => token == run.token,
        Holder::Unsigned => !run.runner.is_local(),
    };
    if own { Ok(run.clone()) } else { Err(not_active(job)) }
}

/// Whether this is the ack that ended the job or its iteration, sent again because the response was lost.
fn is_repeat(job: &Job, holder: Holder) -> bool {
    let acked = matches!(job.state, State::Completed | State::Cancelled);
    let continued_by = job.agent.as_ref().and_then(|agent| agent.continued_by);
    if let Some(ended_by) = continued_by.filter(|_| !acked) {
        return match holder {
            Holder::Token(token) => token == ended_by,
            Holder::Unsigned => matches!(job.state, State::Pending | State::Held),
        };
    }
    match (holder, job.ended_by) {
        (Holder::Token(token), Some(ended_by)) => acked && token == ended_by,
        (Holder::Unsigned, Some(_)) => acked,
        (_, None) => false,
    }
}

fn not_active(job: &Job) -> Refusal {
    Refusal::NotActive { id: job.id, state: job.state }
}

pub(super) fn wrong_state(action: JobAction, job: &Job, allowed: &'static str) -> Refusal {
    Refusal::WrongState { action, id: job.id, state: job.state, allowed }
}
