//! What people ask of a job: cancel, retry, move, hold, delete.

use core::time::Duration;

use crate::decide::attempt::wrong_state;
use crate::decide::checkpoint::stay;
use crate::decide::{Context, Draft, ExistingJob, bounded, end, held_back, make_ready, rebuild, remove};
use crate::flow::{AfterRemoval, RoundFacts};
use crate::{
    AfterStop, Body, BodyKind, Change, Decision, Effect, EventKind, Job, JobAction, Lock, Move, Priority, Refusal,
    Reply, State, Stop, Time, bounds,
};

pub(super) fn cancel(
    context: Context,
    mut known: ExistingJob<'_>,
    reason: String,
    grace: Option<Duration>,
) -> Result<Decision, Refusal> {
    if grace.is_some_and(|grace| grace > bounds::LONGEST_GRACE) {
        return Err(Refusal::invalid("grace", "at most one hour"));
    }
    let reason = bounded(reason, bounds::REASON_BYTES);
    if known.job.removing() == Some(AfterRemoval::Remove) {
        // It is removed anyway, and that must not be held up: its ancestor waits for it.
        return Ok(Draft::unchanged(Reply::Stopping));
    }
    match known.job.state {
        State::Scheduled | State::Pending | State::Retrying | State::Held | State::Blocked => {
            let mut draft = Draft::new();
            end(&mut draft, &mut known, State::Cancelled, context.now, reason);
            Ok(draft.now(known.job))
        }
        State::Active => Ok(ask_stop_within(known.job, AfterStop::Cancel { reason }, context.now, grace)),
        State::Completed | State::Dead | State::Cancelled => {
            Err(wrong_state(JobAction::Cancel, &known.job, "scheduled, pending, retrying, held, blocked and active"))
        }
    }
}

/// Asks the running attempt to stop. A request that outweighs an earlier one replaces it.
pub(super) fn ask_stop(job: Job, then: AfterStop, now: Time) -> Decision {
    ask_stop_within(job, then, now, None)
}

/// The same, with the time that the attempt has before it is stopped by force. Asked again, it may get less.
fn ask_stop_within(mut job: Job, then: AfterStop, now: Time, grace: Option<Duration>) -> Decision {
    let mut draft = Draft::new();
    let Some(run) = job.run.as_mut() else {
        return Draft::unchanged(Reply::Unchanged);
    };
    if let Some(stop) = run.stop.as_ref().filter(|stop| stop.then >= then) {
        let mut decision = Draft::unchanged(Reply::Stopping);
        if grace.is_some() && run.runner.is_local() {
            decision.effects.push(Effect::Stop { job: job.id, token: run.token, why: stop.then.clone(), grace });
        }
        return decision;
    }
    // Nobody asked for a swap of this job: it is reported when it is done.
    let quiet = |then: &AfterStop| *then == AfterStop::Swap;
    let first = run.stop.as_ref().is_none_or(|stop| quiet(&stop.then)) && !quiet(&then);
    if run.swap_by.take().is_some() {
        // The clock was to look at it for the swap alone.
        run.watch_at = None;
    }
    run.stop = Some(Stop { at: now, then: then.clone() });
    if run.runner.is_local() {
        draft.effects.push(Effect::Stop { job: job.id, token: run.token, why: then, grace });
    }
    job.updated_at = now;
    if first {
        draft.event(&job, now, EventKind::Cancelling);
    }
    draft.done(job, Reply::Stopping)
}

/// Another version is active. An attempt whose checkpoint that version cannot read continues on its own.
pub(super) fn swap(context: Context, known: ExistingJob<'_>, by: Option<Time>) -> Decision {
    let mut job = known.job.clone();
    let Some(run) = job.run.as_mut().filter(|run| run.runner.is_local() && run.stop.is_none()) else {
        return Draft::unchanged(Reply::Unchanged);
    };
    if known.facts.plugin.is_some_and(|plugin| plugin.pins(&known.job).is_some()) {
        stay(&mut job, context.now);
        return Draft::new().done(job, Reply::Unchanged);
    }
    let Some(by) = by else {
        return ask_stop(job, AfterStop::Swap, context.now);
    };
    run.swap_by = Some(by);
    run.watch_at = Some(by.max(context.now));
    job.updated_at = context.now;
    Draft::new().done(job, Reply::Stopping)
}

/// From the start: attempts are counted from zero. With another payload there is nothing to resume from.
pub(super) fn retry(context: Context, mut known: ExistingJob<'_>, payload: Option<Body>) -> Result<Decision, Refusal> {
    if !known.job.is_ended() {
        return Err(wrong_state(JobAction::Retry, &known.job, "dead, cancelled and completed"));
    }
    let mut draft = Draft::new();
    take_lock_again(&mut draft, &known, JobAction::Retry, context.now)?;
    let job = &mut known.job;
    if job.state == State::Completed || payload.is_some() {
        // It had reached its end: there is nothing to resume from.
        draft.drop_body(job.id, BodyKind::Checkpoint, &mut job.checkpoint);
    }
    let reason = if payload.is_some() { "retried by hand with another payload" } else { "retried by hand" };
    if let Some(payload) = payload {
        job.payload = draft.store_body(job.id, BodyKind::Payload, payload);
    }
    draft.drop_body(job.id, BodyKind::Result, &mut job.result);
    job.attempt = 0;
    job.failures = 0;
    job.crashes = 0;
    job.granted = 0;
    reset(job, known.facts.rounds);
    make_ready(&mut draft, job, known.facts.rounds, context.now, reason);
    Ok(draft.now(known.job))
}

/// One more attempt for a dead job, with its history.
pub(super) fn requeue(context: Context, mut known: ExistingJob<'_>) -> Result<Decision, Refusal> {
    if known.job.state != State::Dead {
        return Err(wrong_state(JobAction::Requeue, &known.job, "dead"));
    }
    let mut draft = Draft::new();
    take_lock_again(&mut draft, &known, JobAction::Requeue, context.now)?;
    let job = &mut known.job;
    // At least one run more, however it came to be dead.
    job.granted = (job.failures + 1).saturating_sub(job.policy.max_attempts.max(1));
    job.crashes = 0;
    reset(job, known.facts.rounds);
    make_ready(&mut draft, job, known.facts.rounds, context.now, "requeued by hand");
    Ok(draft.now(known.job))
}

/// Clears how the job ended. Whether it has a round depends on what its queue is now.
pub(super) fn reset(job: &mut Job, rounds: Option<RoundFacts>) {
    job.round = rounds.map(|_| job.round.unwrap_or(0));
    job.expire_at = None;
    job.first_started_at = None;
    job.completed_at = None;
    job.failed_at = None;
    job.keep_until = None;
    job.ended_by = None;
    job.progress = None;
    job.usage = None;
    job.hold_reason = None;
    job.exit_reason = None;
    job.step_status = None;
    if let Some(links) = &mut job.links {
        links.joined = false;
        links.waited_by = None;
    }
    if let Some(agent) = job.agent.as_mut() {
        agent.iteration = 0;
        agent.continued_by = None;
    }
}

/// A job that comes back to life needs its unique key again.
pub(super) fn take_lock_again(
    draft: &mut Draft,
    known: &ExistingJob<'_>,
    action: JobAction,
    now: Time,
) -> Result<(), Refusal> {
    let job = &known.job;
    let (Some(key), Some(unique)) = (job.lock_key(), &job.unique) else {
        return Ok(());
    };
    if let Some(lock) = known.facts.lock.as_ref().filter(|lock| lock.holds(now) && lock.job != job.id) {
        return Err(Refusal::Locked { action, id: job.id, holder: lock.job });
    }
    let lock = Lock { job: job.id, until: unique.until, expires_at: now + unique.period };
    draft.changes.push(Change::Lock { key, lock: Some(lock) });
    Ok(())
}

/// To another queue, in the state it is in. An active job belongs to its runner and is not moved.
pub(super) fn move_to(context: Context, mut known: ExistingJob<'_>, target: Move) -> Result<Decision, Refusal> {
    let Move { queue, reset_attempts, priority } = target;
    if known.job.state == State::Active {
        return Err(wrong_state(JobAction::Move, &known.job, "waiting and ended"));
    }
    let waits = known.job.links.as_ref().is_some_and(|links| links.waits_for_children.is_some());
    if waits && known.facts.target_rounds.is_some() {
        return Err(Refusal::invalid(
            "queue",
            "a job that waits for its children cannot be moved to a queue with rounds",
        ));
    }
    let mut draft = Draft::new();
    let job = &mut known.job;
    if let (Some(from), Some(unique)) = (job.lock_key(), &job.unique) {
        let to = unique.lock_key(&queue, job.scope.as_deref());
        if let Some(lock) = known.facts.lock.as_ref().filter(|lock| lock.job == job.id && from != to) {
            let holds = lock.holds(context.now);
            if let Some(other) = known.facts.target_lock.as_ref().filter(|other| holds && other.holds(context.now)) {
                return Err(Refusal::Locked { action: JobAction::Move, id: job.id, holder: other.job });
            }
            // The lock is per queue, so it moves with its job, unless its period is over.
            draft.changes.push(Change::Lock { key: from, lock: None });
            if holds {
                draft.changes.push(Change::Lock { key: to, lock: Some(lock.clone()) });
            }
        }
    }
    let from = core::mem::replace(&mut job.queue, queue);
    if reset_attempts {
        job.attempt = 0;
        job.failures = 0;
        job.crashes = 0;
        job.granted = 0;
    }
    job.priority = priority.unwrap_or(job.priority);
    let waited = job.waits_for_round().is_some();
    let rounds = known.facts.target_rounds;
    job.round = rounds.map(|_| job.round.unwrap_or(0));
    let reason = format!("moved from {from}");
    draft.event(job, context.now, EventKind::Moved { from });
    match (job.state, held_back(job, rounds)) {
        (State::Pending, Some(_)) => make_ready(&mut draft, job, rounds, context.now, reason),
        (State::Blocked, None) if waited => make_ready(&mut draft, job, rounds, context.now, reason),
        (state, _) => job.enter(state, context.now, reason),
    }
    Ok(draft.now(known.job))
}

pub(super) fn reprioritise(context: Context, known: ExistingJob<'_>, priority: Priority) -> Result<Decision, Refusal> {
    let mut job = known.job;
    match job.state {
        State::Scheduled | State::Pending | State::Retrying | State::Held | State::Blocked => {}
        State::Active | State::Completed | State::Dead | State::Cancelled => {
            return Err(wrong_state(JobAction::Reprioritise, &job, "waiting"));
        }
    }
    job.priority = priority;
    job.updated_at = context.now;
    Ok(Draft::new().now(job))
}

pub(super) fn hold(context: Context, mut known: ExistingJob<'_>, reason: String) -> Result<Decision, Refusal> {
    let reason = bounded(reason, bounds::REASON_BYTES);
    match known.job.state {
        State::Scheduled | State::Pending | State::Retrying => {
            let mut draft = Draft::new();
            let job = &mut known.job;
            job.scheduled_at = None;
            job.hold_reason = Some(reason.clone());
            job.enter(State::Held, context.now, reason.clone());
            draft.event(job, context.now, EventKind::Held { reason: reason.into() });
            Ok(draft.now(known.job))
        }
        State::Active => Ok(ask_stop(known.job, AfterStop::Hold { reason }, context.now)),
        State::Held | State::Blocked | State::Completed | State::Dead | State::Cancelled => {
            Err(wrong_state(JobAction::Hold, &known.job, "scheduled, pending, retrying and active"))
        }
    }
}

pub(super) fn approve(context: Context, mut known: ExistingJob<'_>) -> Result<Decision, Refusal> {
    if known.job.state != State::Held {
        return Err(wrong_state(JobAction::Approve, &known.job, "held"));
    }
    let mut draft = Draft::new();
    known.job.hold_reason = None;
    draft.event(&known.job, context.now, EventKind::Approved);
    known.job.scheduled_at = None;
    make_ready(&mut draft, &mut known.job, known.facts.rounds, context.now, "approved");
    Ok(draft.now(known.job))
}

pub(super) fn reject(context: Context, mut known: ExistingJob<'_>, reason: String) -> Result<Decision, Refusal> {
    if known.job.state != State::Held {
        return Err(wrong_state(JobAction::Reject, &known.job, "held"));
    }
    let mut draft = Draft::new();
    draft.event(&known.job, context.now, EventKind::Rejected);
    end(&mut draft, &mut known, State::Dead, context.now, bounded(reason, bounds::REASON_BYTES));
    Ok(draft.now(known.job))
}

/// In any state; a running attempt is stopped first, and the job is removed when it has ended.
pub(super) fn delete(context: Context, known: ExistingJob<'_>) -> Result<Decision, Refusal> {
    match known.job.state {
        State::Active => Ok(ask_stop(known.job, AfterStop::Delete, context.now)),
        State::Blocked if known.job.removing().is_some() => Ok(rebuild::delete(known.job, context.now)),
        State::Scheduled
        | State::Pending
        | State::Retrying
        | State::Held
        | State::Blocked
        | State::Completed
        | State::Dead
        | State::Cancelled => Ok(remove(&known, context.now)),
    }
}
