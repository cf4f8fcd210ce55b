//! What other jobs bring: a dependency or the children have ended, or the rounds before its own.

use crate::decide::{Context, Draft, ExistingJob, end, held_back, make_pending, make_ready};
use crate::flow::{AfterRemoval, FailedChild, Links, OnFailure, RoundFacts, blame};
use crate::{Change, Decision, EventKind, Job, JobId, Reason, Refusal, Reply, State, Time};

/// Ties a new job to those it depends on. Answers how it ends at once, if one of them has failed already.
pub(super) fn depend(
    draft: &mut Draft,
    job: &mut Job,
    dependencies: &[(JobId, State)],
    policy: OnFailure,
) -> Option<(State, Reason)> {
    if dependencies.is_empty() {
        return None;
    }
    let links: &mut Links = job.links.get_or_insert_default();
    links.on_dependency_failure = policy;
    let mut failed = None;
    for (dependency, state) in dependencies {
        links.depends_on += 1;
        if !state.is_ended() {
            links.waits_for += 1;
        } else if failed.is_none() {
            failed = failure(policy, *dependency, *state);
        }
        draft.changes.push(Change::Link { dependency: *dependency, dependant: job.id });
    }
    failed
}

/// What the failure of a dependency does to a job whose policy does not ignore it.
fn failure(policy: OnFailure, dependency: JobId, state: State) -> Option<(State, Reason)> {
    if state == State::Completed {
        return None;
    }
    let reason = format!("dependency {dependency} is {}", state.as_str()).into();
    match policy {
        OnFailure::Fail => Some((State::Dead, reason)),
        OnFailure::Cancel => Some((State::Cancelled, reason)),
        OnFailure::Continue => None,
    }
}

pub(super) fn dependency_ended(
    context: Context,
    mut known: ExistingJob<'_>,
    dependency: JobId,
    state: State,
) -> Result<Decision, Refusal> {
    let job = &mut known.job;
    let Some(links) = job.links.as_mut().filter(|links| links.waits_for > 0) else {
        return Ok(Draft::unchanged(Reply::Unchanged));
    };
    links.waits_for -= 1;
    let failed = failure(links.on_dependency_failure, dependency, state);
    let mut draft = Draft::new();
    if job.is_ended() || job.removing() == Some(AfterRemoval::Remove) {
        // Should it be retried, it has one less to wait for.
        return Ok(draft.done(known.job, Reply::Unchanged));
    }
    if let Some((state, reason)) = failed {
        end(&mut draft, &mut known, state, context.now, reason);
    } else if job.waits_for() == 0 && job.state == State::Blocked && job.removing().is_none() {
        unblock(&mut draft, job, known.facts.rounds, context.now, "the jobs it waited for have ended");
    }
    Ok(draft.now(known.job))
}

/// The rounds before the job's own have ended, and the gates let its round start.
pub(super) fn round_started(context: Context, mut known: ExistingJob<'_>) -> Result<Decision, Refusal> {
    let rounds = known.facts.rounds;
    if known.job.waits_for_round().is_none() || held_back(&known.job, rounds).is_some() {
        return Ok(Draft::unchanged(Reply::Unchanged));
    }
    let mut draft = Draft::new();
    make_pending(&mut draft, &mut known.job, rounds, context.now, "its round has started");
    Ok(draft.now(known.job))
}

/// The job waited for its children, and they have ended: it is run again.
pub(super) fn joined(context: Context, mut known: ExistingJob<'_>) -> Result<Decision, Refusal> {
    let Some(links) = known.job.links.as_mut().filter(|links| links.waits_for_children.is_some()) else {
        return Ok(Draft::unchanged(Reply::Unchanged));
    };
    links.waits_for_children = None;
    links.joined = true;
    let mut draft = Draft::new();
    make_ready(&mut draft, &mut known.job, known.facts.rounds, context.now, "its children have ended");
    Ok(draft.now(known.job))
}

/// The job waited for its children, and fails with the first of them that does.
pub(super) fn child_failed(
    context: Context,
    mut known: ExistingJob<'_>,
    child: Option<&FailedChild>,
    more: u64,
) -> Result<Decision, Refusal> {
    if known.job.links.as_ref().is_none_or(|links| links.waits_for_children.is_none()) {
        return Ok(Draft::unchanged(Reply::Unchanged));
    }
    let mut draft = Draft::new();
    let error = blame(child, more);
    known.job.last_error = Some(error.clone());
    end(&mut draft, &mut known, State::Dead, context.now, error);
    Ok(draft.now(known.job))
}

/// Nothing else holds it back: it is pending, or scheduled until its time.
fn unblock(draft: &mut Draft, job: &mut Job, rounds: Option<RoundFacts>, now: Time, reason: &'static str) {
    match job.scheduled_at.filter(|at| *at > now) {
        Some(at) => {
            job.enter(State::Scheduled, now, reason);
            draft.event(job, now, EventKind::Scheduled { at });
        }
        None => make_pending(draft, job, rounds, now, reason),
    }
}

pub(super) fn block(draft: &mut Draft, job: &mut Job, now: Time, reason: impl Into<Reason>) {
    job.enter(State::Blocked, now, reason);
    draft.event(job, now, EventKind::Blocked { waits_for: job.waits_for(), round: job.waits_for_round() });
}
