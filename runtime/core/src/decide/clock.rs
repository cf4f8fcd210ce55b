//! What time brings: a delay is over, a lease lapses, a limit passes, the process has died.

use core::time::Duration;

use crate::decide::attempt::{FailedAttempt, charge_failure, count_canary, error_of, out_of_time, record_error};
use crate::decide::operator::ask_stop;
use crate::decide::{Context, Draft, ExistingJob, after_stop, end, make_pending, make_retrying};
use crate::{AfterStop, Backoff, BackoffKind, Decision, Job, Refusal, Reply, Retry, State, Time, bounds, retry};

/// A scheduled or retrying job's time has come.
pub(super) fn due(context: Context, mut known: ExistingJob<'_>) -> Result<Decision, Refusal> {
    let waiting = matches!(known.job.state, State::Scheduled | State::Retrying);
    if !waiting || known.job.scheduled_at.is_none_or(|at| at > context.now) {
        return Ok(Draft::unchanged(Reply::Unchanged));
    }
    let mut draft = Draft::new();
    make_pending(&mut draft, &mut known.job, known.facts.rounds, context.now, "its time has come");
    Ok(draft.now(known.job))
}

/// Not completed within `expire_after`: dead, without another run.
pub(super) fn expire(context: Context, mut known: ExistingJob<'_>) -> Result<Decision, Refusal> {
    if known.job.is_ended() || known.job.expire_at.is_none_or(|at| at > context.now) {
        return Ok(Draft::unchanged(Reply::Unchanged));
    }
    if known.job.state == State::Active {
        return Ok(ask_stop(known.job, AfterStop::Expire, context.now));
    }
    let mut draft = Draft::new();
    end(&mut draft, &mut known, State::Dead, context.now, "expired");
    Ok(draft.now(known.job))
}

/// When the clock should next look at a running attempt. A local one is watched by the executor itself, but for a swap
/// that waits for its checkpoint.
pub fn next_watch(job: &Job, alive_from: Time) -> Option<Time> {
    let run = job.run.as_ref()?;
    let Some(lease) = run.lease_expires_at else { return run.swap_by };
    let lease = lease.max(alive_from + job.policy.lease);
    let limits = [
        job.policy.attempt_timeout.map(|limit| run.started_at + limit),
        job.policy.stall_timeout.map(|limit| run.heartbeat_at.max(alive_from) + limit),
        job.deadline(),
    ];
    Some(limits.into_iter().flatten().fold(lease, Time::min))
}

/// Looks at an external attempt: has its lease lapsed, or a limit passed?
pub(super) fn watch(context: Context, mut known: ExistingJob<'_>, alive_from: Time) -> Result<Decision, Refusal> {
    let now = context.now;
    let Some(run) = known.job.run.clone() else {
        return Ok(Draft::unchanged(Reply::Unchanged));
    };
    let Some(next) = next_watch(&known.job, alive_from) else { return Ok(Draft::unchanged(Reply::Unchanged)) };
    if next > now {
        // A heartbeat has come since: look again then.
        if let Some(run) = known.job.run.as_mut() {
            run.watch_at = Some(next);
        }
        return Ok(Draft::new().done(known.job, Reply::Unchanged));
    }
    if run.runner.is_local() {
        return Ok(ask_stop(known.job, AfterStop::Swap, now));
    }
    let mut draft = Draft::new();
    let job = &mut known.job;
    let lapsed = run.lease_expires_at.is_some_and(|at| at.max(alive_from + job.policy.lease) <= now);
    let overran = job.policy.attempt_timeout.is_some_and(|limit| run.started_at + limit <= now);
    let error = if lapsed {
        "lease lapsed: no heartbeat came in time".to_owned()
    } else if out_of_time(job, now) {
        "max_duration passed".to_owned()
    } else if overran {
        "attempt_timeout passed".to_owned()
    } else {
        "stall_timeout passed: no sign of life".to_owned()
    };
    let lapse = error_of(job, &run, error.clone(), now);
    record_error(&mut draft, job, lapse);
    if let Some(stop) = run.stop {
        return Ok(after_stop(draft, known, stop.then, now));
    }
    // A worker that vanished is no reason to wait: the job is pending again at once.
    let retry = if lapsed { Retry::After(Duration::ZERO) } else { Retry::Backoff };
    Ok(charge_failure(draft, known, context, &FailedAttempt { token: run.token, retry, error: &error }))
}

/// The process died under it. Charged apart from failures, so that a job that kills the server stops at its own cap;
/// from the second time on it waits, so that its neighbours are done before it runs again.
pub(super) fn crash(context: Context, mut known: ExistingJob<'_>) -> Result<Decision, Refusal> {
    let now = context.now;
    let Some(run) = known.job.run.clone().filter(|run| run.runner.is_local()) else {
        return Ok(Draft::unchanged(Reply::Unchanged));
    };
    let mut draft = Draft::new();
    let job = &mut known.job;
    job.crashes += 1;
    let error = "the server stopped while this attempt ran";
    let death = error_of(job, &run, error.to_owned(), now);
    record_error(&mut draft, job, death);
    count_canary(&mut draft, known.facts.plugin, &run, true, now);
    if let Some(stop) = run.stop.filter(|stop| stop.then != AfterStop::Swap) {
        return Ok(after_stop(draft, known, stop.then, now));
    }
    if job.crashes >= bounds::MAX_CRASHES || out_of_time(job, now) {
        end(&mut draft, &mut known, State::Dead, now, "the server stopped too often while it ran");
    } else if job.crashes == 1 {
        make_pending(&mut draft, job, known.facts.rounds, now, error);
    } else {
        let backoff =
            Backoff { kind: BackoffKind::Exponential, base: Duration::from_secs(1), cap: Duration::from_secs(60) };
        let delay = retry::delay(backoff, job.crashes - 1, context.random(5));
        make_retrying(&mut draft, &mut known, now, delay, error);
    }
    Ok(draft.now(known.job))
}
