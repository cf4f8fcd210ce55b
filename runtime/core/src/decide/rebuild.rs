//! A job runs again from the start. Everything below it is removed first, so that its children get the same ids again
//! and nothing exists twice. The store walks the tree; these rules decide about each job in it.

use crate::decide::attempt::wrong_state;
use crate::decide::operator::{ask_stop, reset, take_lock_again};
use crate::decide::{Context, Draft, ExistingJob, dependencies, forget, make_ready};
use crate::flow::AfterRemoval;
use crate::{AfterStop, BodyKind, Change, Decision, EventKind, Job, JobAction, Refusal, Reply, State, Time};

const REMOVING: &str = "everything below it is being removed";

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
        begin_removal(job, AfterRemoval::Rebuild);
        dependencies::block(&mut draft, job, context.now, REMOVING);
    } else {
        make_ready(&mut draft, job, rounds, context.now, "rebuilt");
    }
    Ok(draft.now(known.job))
}

/// An ancestor is rebuilt. A running attempt is stopped first.
pub(super) fn remove_subtree(context: Context, known: ExistingJob<'_>) -> Result<Decision, Refusal> {
    if known.job.state == State::Active {
        return Ok(ask_stop(known.job, AfterStop::Remove, context.now));
    }
    if known.job.removing() == Some(AfterRemoval::Remove) {
        return Ok(Draft::unchanged(Reply::Unchanged));
    }
    Ok(remove_now(Draft::new(), known, context.now))
}

/// Removes the job: at once if it has no children, otherwise when they have been removed.
pub(super) fn remove_now(mut draft: Draft, mut known: ExistingJob<'_>, now: Time) -> Decision {
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
    begin_removal(job, AfterRemoval::Remove);
    job.enter(State::Blocked, now, REMOVING);
    draft.event(job, now, EventKind::Removing);
    draft.now(known.job)
}

/// Nothing is left below the job.
pub(super) fn subtree_removed(context: Context, mut known: ExistingJob<'_>) -> Result<Decision, Refusal> {
    match known.job.removing() {
        None => Ok(Draft::unchanged(Reply::Unchanged)),
        Some(AfterRemoval::Remove) => Ok(forget(&known, context.now)),
        Some(AfterRemoval::Rebuild) => {
            let mut draft = Draft::new();
            let job = &mut known.job;
            job.children = 0;
            if let Some(links) = &mut job.links {
                links.adopted = 0;
                links.removing = None;
            }
            make_ready(&mut draft, job, known.facts.rounds, context.now, "rebuilt");
            Ok(draft.now(known.job))
        }
    }
}

/// A job is to be deleted while everything below it is being removed: it is deleted after that.
pub(super) fn delete(mut job: Job, now: Time) -> Decision {
    if job.removing() == Some(AfterRemoval::Remove) {
        return Draft::unchanged(Reply::Stopping);
    }
    job.links.get_or_insert_default().removing = Some(AfterRemoval::Remove);
    job.updated_at = now;
    Draft::new().done(job, Reply::Stopping)
}

fn has_children(job: &Job) -> bool {
    job.children > 0 || job.adopted() > 0
}

fn begin_removal(job: &mut Job, then: AfterRemoval) {
    let links = job.links.get_or_insert_default();
    links.waits_for_children = None;
    links.removing = Some(then);
}
