//! A job is taken up again from nothing: all that is below it goes first, so that its children come out under the same
//! ids and nothing is doubled. Who is below whom is the store's to walk; each job moves by these rules.

use crate::decide::attempt::wrong_state;
use crate::decide::operator::{ask_stop, reset, take_lock_again};
use crate::decide::{Context, Draft, ExistingJob, dependencies, forget, make_ready};
use crate::flow::Clearing;
use crate::{AfterStop, BodyKind, Change, Decision, EventKind, Job, JobAction, Refusal, Reply, State, Time};

const CLEARING: &str = "its subtree is being cleared";

pub(super) fn rebuild(context: Context, mut known: ExistingJob<'_>) -> Result<Decision, Refusal> {
    if !known.job.is_ended() {
        return Err(wrong_state(JobAction::Rebuild, &known.job, "dead, cancelled and completed"));
    }
    let mut draft = Draft::new();
    take_lock_again(&mut draft, &known, JobAction::Rebuild, context.now)?;
    let rounds = known.facts.rounds;
    let job = &mut known.job;
    draft.drop_body(job.id, BodyKind::Checkpoint, &mut job.checkpoint);
    draft.drop_body(job.id, BodyKind::Result, &mut job.result);
    job.checkpoint_schema = 0;
    job.checkpoint_by = None;
    job.pinned = None;
    if job.records > 0 {
        job.records = 0;
        draft.changes.push(Change::DropRecords(job.id));
    }
    job.attempt = 0;
    job.failures = 0;
    job.crashes = 0;
    job.granted = 0;
    reset(job, rounds);
    if has_children(job) {
        clearing(job, Clearing::Rebuild);
        dependencies::block(&mut draft, job, context.now, CLEARING);
    } else {
        make_ready(&mut draft, job, rounds, context.now, "rebuilt");
    }
    Ok(draft.now(known.job))
}

/// An ancestor is rebuilt. A running attempt is stopped first.
pub(super) fn clear(context: Context, known: ExistingJob<'_>) -> Result<Decision, Refusal> {
    if known.job.state == State::Active {
        return Ok(ask_stop(known.job, AfterStop::Clear, context.now));
    }
    if known.job.clearing() == Some(Clearing::Remove) {
        return Ok(Draft::unchanged(Reply::Unchanged));
    }
    Ok(clear_now(Draft::new(), known, context.now))
}

/// The job goes: at once when it has no children, otherwise when they have gone.
pub(super) fn clear_now(mut draft: Draft, mut known: ExistingJob<'_>, now: Time) -> Decision {
    let job = &mut known.job;
    if !has_children(job) {
        let mut gone = forget(&known, now);
        draft.changes.retain(|change| matches!(change, Change::Event(_)));
        draft.changes.append(&mut gone.changes);
        return Decision { changes: draft.changes, effects: draft.effects, reply: Reply::Removed };
    }
    job.end_run();
    job.scheduled_at = None;
    job.expire_at = None;
    job.keep_until = None;
    job.hold_reason = None;
    clearing(job, Clearing::Remove);
    job.enter(State::Blocked, now, CLEARING);
    draft.event(job, now, EventKind::Clearing);
    draft.now(known.job)
}

/// Nothing is left below the job.
pub(super) fn cleared(context: Context, mut known: ExistingJob<'_>) -> Result<Decision, Refusal> {
    match known.job.clearing() {
        None => Ok(Draft::unchanged(Reply::Unchanged)),
        Some(Clearing::Remove) => Ok(forget(&known, context.now)),
        Some(Clearing::Rebuild) => {
            let mut draft = Draft::new();
            let job = &mut known.job;
            job.children = 0;
            if let Some(links) = &mut job.links {
                links.adopted = 0;
                links.clearing = None;
            }
            make_ready(&mut draft, job, known.facts.rounds, context.now, "rebuilt");
            Ok(draft.now(known.job))
        }
    }
}

/// Somebody wants a job gone whose subtree is being cleared: it goes when that is done.
pub(super) fn delete(mut job: Job, now: Time) -> Decision {
    if job.clearing() == Some(Clearing::Remove) {
        return Draft::unchanged(Reply::Stopping);
    }
    job.links.get_or_insert_default().clearing = Some(Clearing::Remove);
    job.updated_at = now;
    Draft::new().done(job, Reply::Stopping)
}

fn has_children(job: &Job) -> bool {
    job.children > 0 || job.adopted() > 0
}

fn clearing(job: &mut Job, then: Clearing) {
    let links = job.links.get_or_insert_default();
    links.waits_for_children = None;
    links.clearing = Some(then);
}
