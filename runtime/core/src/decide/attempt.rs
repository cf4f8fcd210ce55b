//! What the runner of an attempt says: it starts, lives, completes, fails, or gives the job back.

use crate::decide::checkpoint::{hands_over, take_checkpoint};
use crate::decide::clock::next_watch;
use crate::decide::{
    Context, Draft, ExistingJob, SWAPPED, after_stop, bounded, end, held_back, make_pending, make_retrying,
};
use crate::flow::{Links, OnFailure};
use crate::{
    AfterStop, AgentStatus, AttemptError, Body, BodyKind, BodyRef, Change, Checkpoint, Closing, Decision, EndedAttempt,
    EventKind, Failure, Holder, Job, ModelUsage, Notes, Plugin, Progress, Reason, Refusal, Reply, Retry, Run, Runner,
    State, Time, Token, Usage, Why, bounds, retry,
};

/// A claim, counted before the handler runs.
pub(super) fn start(context: Context, known: ExistingJob<'_>, runner: Runner) -> Result<Decision, Refusal> {
    let now = context.now;
    let mut job = known.job;
    if job.state != State::Pending {
        return Err(wrong_state("start", &job, "pending"));
    }
    job.fence += 1;
    job.attempt += 1;
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
    // A limit that passed while the job waited is looked at now: no timer lies in the past.
    let watch_at = next_watch(&job, Time::ZERO).map(|at| at.max(now));
    if let Some(run) = job.run.as_mut() {
        run.watch_at = watch_at;
    }
    job.enter(State::Active, now, reason);
    draft.event(&job, now, EventKind::Started { attempt: job.attempt });
    Ok(draft.done(job, Reply::Started { token, lease_expires_at }))
}

/// The version of the plugin that the attempt takes; the plugin is told when that was counted.
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

/// The end of an attempt counts for the version that is on trial, if it ran there.
pub(super) fn count_canary(draft: &mut Draft, plugin: Option<&Plugin>, run: &Run, failed: bool, now: Time) {
    if let Some((plugin, events)) = plugin.and_then(|plugin| plugin.count(run, failed, now)) {
        draft.changes.push(Change::Plugin(Box::new(plugin)));
        draft.changes.extend(events.into_iter().map(Change::Event));
    }
}

pub(super) fn complete(
    context: Context,
    mut known: ExistingJob<'_>,
    holder: Holder,
    result: Option<Body>,
    usage: Usage,
    closing: Option<Box<Closing>>,
    notes: Option<Box<Notes>>,
) -> Result<Decision, Refusal> {
    if is_repeat(&known.job, holder) {
        return Ok(Draft::unchanged(Reply::Unchanged));
    }
    let run = live_run(&known.job, holder)?;
    let mut draft = Draft::new();
    let round = match closing {
        Some(closing) => close(&mut draft, &mut known, *closing, context.now)?,
        None => Round::Last,
    };
    let job = &mut known.job;
    take_notes(&mut draft, job, notes)?;
    if let Some(body) = result {
        job.result = BodyRef::from(&body);
        draft.changes.push(Change::Body { job: job.id, kind: BodyKind::Result, body: Some(body) });
    }
    job.usage = Some(usage);
    job.children += known.facts.children;
    count_canary(&mut draft, known.facts.plugin, &run, false, context.now);
    let stopping = run.stop.map(|stop| stop.then);
    let lets_go = matches!(stopping, None | Some(AfterStop::Swap));
    if lets_go && round != Round::Last {
        return Ok(next_round(draft, known, round, run.token, context.now));
    }
    known.job.ended_by = Some(run.token);
    match stopping {
        // It was done before anybody could hold it back.
        None | Some(AfterStop::Swap | AfterStop::Hold { .. }) => {
            end(&mut draft, &mut known, State::Completed, context.now, "completed");
            Ok(draft.now(known.job))
        }
        Some(then) => Ok(after_stop(draft, known, then, context.now)),
    }
}

/// What an agent's ack makes of its job.
#[derive(Clone, Debug, PartialEq)]
enum Round {
    /// There is no other: the job completes.
    Last,
    Another,
    Held(String),
}

/// Takes in what came with an ack besides the result.
fn close(draft: &mut Draft, known: &mut ExistingJob<'_>, closing: Closing, now: Time) -> Result<Round, Refusal> {
    let job = &mut known.job;
    if let Some(spent) = &closing.spent {
        spent.check()?;
        job.spend(spent);
    }
    job.step_status = closing.step;
    job.exit_reason = closing.exit_reason.map(|text| bounded(text, bounds::REASON_BYTES));
    if let Some(checkpoint) = closing.checkpoint {
        take_checkpoint(draft, known, checkpoint, now);
    }
    let Some(status) = closing.agent else { return Ok(Round::Last) };
    let job = &mut known.job;
    let agent = job.agent.get_or_insert_default();
    agent.iteration = agent.iteration.saturating_add(1);
    Ok(match status {
        AgentStatus::Done => Round::Last,
        AgentStatus::Hold => {
            let reason = closing.hold_reason.unwrap_or_else(|| "held by its handler".to_owned());
            Round::Held(bounded(reason, bounds::REASON_BYTES))
        }
        AgentStatus::Continue => match agent.used_up(job.spending.as_deref()) {
            Some(reason) => Round::Held(reason),
            None => Round::Another,
        },
    })
}

/// The round is over and the job is not: it waits in line, or for a person.
fn next_round(mut draft: Draft, mut known: ExistingJob<'_>, round: Round, token: Token, now: Time) -> Decision {
    let job = &mut known.job;
    let agent = job.agent.get_or_insert_default();
    agent.continued_by = Some(token);
    let iteration = agent.iteration;
    // A whole iteration is progress, with a checkpoint or without.
    job.crashes = 0;
    job.end_run();
    match round {
        Round::Held(reason) => {
            job.hold_reason = Some(reason.clone());
            job.enter(State::Held, now, reason.clone());
            draft.event(job, now, EventKind::Held { reason: reason.into() });
        }
        Round::Another | Round::Last => {
            job.enter(State::Pending, now, format!("iteration {iteration} ended, another follows"));
            draft.event(job, now, EventKind::Continued { iteration });
            if held_back(job, known.facts.rounds).is_some() {
                make_pending(&mut draft, job, known.facts.rounds, now, "another iteration");
            }
        }
    }
    draft.now(known.job)
}

/// Records and marks go into the commit of what they came with.
fn take_notes(draft: &mut Draft, job: &mut Job, notes: Option<Box<Notes>>) -> Result<(), Refusal> {
    let Some(notes) = notes else { return Ok(()) };
    notes.check(job.records)?;
    job.records += notes.records.len() as u32;
    draft.changes.extend(notes.records.into_iter().map(|record| Change::Record { job: job.id, record }));
    draft.changes.extend(notes.marks.into_iter().map(Change::Mark));
    Ok(())
}

pub(super) fn fail(
    context: Context,
    mut known: ExistingJob<'_>,
    holder: Holder,
    failure: Failure,
    usage: Usage,
) -> Result<Decision, Refusal> {
    let run = live_run(&known.job, holder)?;
    let mut draft = Draft::new();
    let error = bounded(failure.error, bounds::ERROR_BYTES);
    let backtrace = failure.backtrace.map(|text| bounded(text, bounds::BACKTRACE_BYTES));
    known.job.usage = Some(usage);
    record_error(&mut draft, &mut known.job, &run, error.clone(), backtrace, usage, context.now);
    // Failing while it is asked to make room is failing all the same.
    if let Some(stop) = run.stop.as_ref().filter(|stop| stop.then != AfterStop::Swap) {
        known.job.ended_by = Some(run.token);
        return Ok(after_stop(draft, known, stop.then.clone(), context.now));
    }
    if run.canary {
        count_canary(&mut draft, known.facts.plugin, &run, true, context.now);
        return Ok(forgive(draft, known, context, run.token, failure.retry, &error));
    }
    Ok(charge_failure(draft, known, context, run.token, failure.retry, &error))
}

/// A failure on a version that is on trial says nothing about the job: it is tried again on the active one, whatever the failure
/// says, and not charged.
fn forgive(
    mut draft: Draft,
    mut known: ExistingJob<'_>,
    context: Context,
    token: Token,
    how: Retry,
    error: &str,
) -> Decision {
    let delay = match how {
        Retry::After(delay) => delay.min(bounds::LONGEST),
        Retry::Backoff | Retry::Never => core::time::Duration::ZERO,
    };
    if out_of_time(&known.job, context.now + delay) {
        known.job.ended_by = Some(token);
        end(&mut draft, &mut known, State::Dead, context.now, "max_duration");
    } else {
        let error = bounded(error.to_owned(), bounds::REASON_BYTES);
        make_retrying(&mut draft, &mut known.job, known.facts.rounds, context.now, delay, &error);
    }
    draft.now(known.job)
}

/// One failure more: another attempt, or the end.
pub(super) fn charge_failure(
    mut draft: Draft,
    mut known: ExistingJob<'_>,
    context: Context,
    token: Token,
    how: Retry,
    error: &str,
) -> Decision {
    let job = &mut known.job;
    job.failures += 1;
    let delay = match how {
        Retry::Backoff => retry::delay(job.policy.backoff, job.failures, context.random(4)),
        Retry::After(delay) => delay.min(bounds::LONGEST),
        Retry::Never => core::time::Duration::ZERO,
    };
    let too_late = out_of_time(job, context.now + delay);
    if how == Retry::Never || job.runs_left() == 0 || too_late {
        job.ended_by = Some(token);
        let reason = match how {
            Retry::Never => "failed for good",
            _ if too_late => "max_duration",
            _ => "retries used up",
        };
        end(&mut draft, &mut known, State::Dead, context.now, reason);
    } else {
        let error = bounded(error.to_owned(), bounds::REASON_BYTES);
        make_retrying(&mut draft, job, known.facts.rounds, context.now, delay, &error);
    }
    draft.now(known.job)
}

/// Why a job with a round cannot wait for its children.
const ROUND_WAITS: &str =
    "a job of a round cannot wait for its children: they are of the next round, which starts when this one has ended";

/// The attempt is over; the job goes on when its children have ended.
pub(super) fn wait(
    context: Context,
    mut known: ExistingJob<'_>,
    holder: Holder,
    on_child_failure: OnFailure,
    checkpoint: Option<Checkpoint>,
    usage: Usage,
    notes: Option<Box<Notes>>,
) -> Result<Decision, Refusal> {
    let waited_by = known.job.links.as_ref().and_then(|links| links.waited_by);
    if known.job.run.is_none() && matches!((holder, waited_by), (Holder::Token(said), Some(by)) if said == by) {
        return Ok(Draft::unchanged(Reply::Unchanged));
    }
    let run = live_run(&known.job, holder)?;
    if known.job.round.is_some() {
        return Err(Refusal::invalid("wait", ROUND_WAITS));
    }
    let mut draft = Draft::new();
    draft.ran = ran(&run, usage);
    take_notes(&mut draft, &mut known.job, notes)?;
    known.job.children += known.facts.children;
    if let Some(checkpoint) = checkpoint {
        take_checkpoint(&mut draft, &mut known, checkpoint, context.now);
    }
    // To wait is to make room: a version that takes over finds the job when its children have ended.
    if let Some(stop) = run.stop.filter(|stop| stop.then != AfterStop::Swap) {
        return Ok(after_stop(draft, known, stop.then, context.now));
    }
    let job = &mut known.job;
    let links: &mut Links = job.links.get_or_insert_default();
    links.waits_for_children = Some(on_child_failure);
    links.joined = false;
    links.waited_by = Some(run.token);
    job.end_run();
    crate::decide::dependencies::block(&mut draft, job, context.now, "waits for its children");
    Ok(draft.now(known.job))
}

/// Given back unfinished, charged to nobody.
pub(super) fn hand_back(
    context: Context,
    mut known: ExistingJob<'_>,
    holder: Holder,
    reason: String,
    usage: Usage,
) -> Result<Decision, Refusal> {
    let run = live_run(&known.job, holder)?;
    let mut draft = Draft::new();
    draft.ran = ran(&run, usage);
    if let Some(stop) = run.stop {
        return Ok(after_stop(draft, known, stop.then, context.now));
    }
    make_pending(&mut draft, &mut known.job, known.facts.rounds, context.now, bounded(reason, bounds::REASON_BYTES));
    Ok(draft.now(known.job))
}

pub(super) fn beat(
    context: Context,
    mut known: ExistingJob<'_>,
    holder: Holder,
    progress: Option<Progress>,
    checkpoint: Option<Checkpoint>,
    spent: Option<Box<ModelUsage>>,
    notes: Option<Box<Notes>>,
) -> Result<Decision, Refusal> {
    let asked = live_run(&known.job, holder)?;
    let now = context.now;
    let job = &mut known.job;
    let saved = checkpoint.as_ref().map(|checkpoint| checkpoint.usage);
    if notes.is_some() && saved.is_none() {
        return Err(Refusal::invalid("records", "records and marks come with a checkpoint or a result"));
    }
    let lease = job.policy.lease;
    let mut draft = Draft::new();
    take_notes(&mut draft, job, notes)?;
    if let Some(mut progress) = progress {
        progress.ts = now;
        progress.message = progress.message.map(|text| bounded(text, bounds::MESSAGE_BYTES));
        progress.phase = progress.phase.map(|text| bounded(text, bounds::NAME_BYTES));
        progress.detail = progress.detail.map(|text| bounded(text, bounds::DETAIL_BYTES));
        draft.event(job, now, EventKind::Progress(progress.clone()));
        job.progress = Some(progress);
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
    job.children += known.facts.children;
    if let Some(usage) = saved
        && hands_over(job, &asked, known.facts.plugin, now)
    {
        draft.ran = ran(&asked, usage);
        make_pending(&mut draft, job, known.facts.rounds, now, SWAPPED);
        return Ok(draft.done(known.job, Reply::HandedBack));
    }
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

/// Would an attempt at `at` begin after the job's whole time is over?
pub(super) fn out_of_time(job: &Job, at: Time) -> bool {
    job.deadline().is_some_and(|deadline| at >= deadline)
}

pub(super) fn record_error(
    draft: &mut Draft,
    job: &mut Job,
    run: &Run,
    error: String,
    backtrace: Option<String>,
    usage: Usage,
    now: Time,
) {
    job.last_error = Some(bounded(error.clone(), bounds::REASON_BYTES));
    let error = AttemptError { attempt: job.attempt, error, backtrace, at: now, runner: run.runner.clone(), usage };
    draft.changes.push(Change::Error { job: job.id, error });
}

/// What the timeline tells of an attempt that makes room; nothing of one that nobody has measured.
fn ran(run: &Run, usage: Usage) -> Option<Box<EndedAttempt>> {
    (usage != Usage::default()).then(|| Box::new(EndedAttempt { runner: run.runner.clone(), usage }))
}

/// The live attempt, if the word is its own.
fn live_run(job: &Job, holder: Holder) -> Result<Run, Refusal> {
    let run = job.run.as_ref().ok_or_else(|| not_active(job))?;
    let own = match holder {
        Holder::Token(token) => token == run.token,
        Holder::Unsigned => !run.runner.is_local(),
    };
    if own { Ok(run.clone()) } else { Err(not_active(job)) }
}

/// Is this the ack that ended the job, sent again because its answer was lost?
fn is_repeat(job: &Job, holder: Holder) -> bool {
    let acked = matches!(job.state, State::Completed | State::Cancelled);
    let rounds_end = job.agent.as_ref().and_then(|agent| agent.continued_by);
    if let Some(ended_by) = rounds_end.filter(|_| !acked) {
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

pub(super) fn wrong_state(action: &'static str, job: &Job, allowed: &'static str) -> Refusal {
    Refusal::WrongState { action, id: job.id, state: job.state, allowed }
}
