//! A checkpoint is saved: the job keeps it, is handed over to another version that waits for it, and has made progress
//! if the checkpoint differs from the one before.

use crate::decide::{Draft, ExistingJob};
use crate::{AfterStop, Body, BodyKind, BodyRef, Change, Checkpoint, EventKind, Job, Plugin, Run, Runner, Time};

pub(super) fn take_checkpoint(draft: &mut Draft, known: &mut ExistingJob<'_>, checkpoint: Checkpoint, now: Time) {
    let Checkpoint { body, schema, usage: _ } = checkpoint;
    if is_progress(known, &body) {
        // It got further than the last crash let it, so it did not cause that one.
        known.job.crashes = 0;
    }
    let job = &mut known.job;
    job.checkpoint = BodyRef::from(&body);
    job.checkpoint_schema = schema;
    job.checkpoint_by = match job.run.as_ref().map(|run| &run.runner) {
        Some(Runner::Local { version, .. }) => Some(version.clone()),
        Some(Runner::External { .. }) | None => None,
    };
    draft.event(job, now, EventKind::Checkpoint { attempt: job.attempt, bytes: job.checkpoint.len() });
    draft.changes.push(Change::Body { job: job.id, kind: BodyKind::Checkpoint, body: Some(body) });
}

/// Whether a checkpoint differs from the one before it. A handler that saves the same again and again before it takes
/// the server down has made no progress.
fn is_progress(known: &ExistingJob<'_>, new: &Body) -> bool {
    match new {
        Body::Inline(bytes) => known.facts.checkpoint.as_deref() != Some(&**bytes),
        Body::Blob(_) => known.job.checkpoint != BodyRef::from(new),
    }
}

/// Whether the attempt ends with the checkpoint it has just saved, because another version waits for it. One that the
/// other version cannot read keeps the job where it is.
pub(super) fn hands_over(job: &mut Job, run: &Run, plugin: Option<&Plugin>, now: Time) -> bool {
    if run.stop.as_ref().is_some_and(|stop| stop.then == AfterStop::Swap) {
        return true;
    }
    if run.swap_by.is_none() {
        return false;
    }
    if plugin.is_none_or(|plugin| plugin.pins(job).is_none()) {
        return true;
    }
    stay(job, now);
    false
}

/// The new version cannot read the checkpoint: the attempt continues on its own version, and the timeline says so.
pub(super) fn stay(job: &mut Job, now: Time) {
    job.pinned.clone_from(&job.checkpoint_by);
    let schema = job.checkpoint_schema;
    job.note(now, format!("stays with its version: the new one does not read its checkpoint (schema {schema})"));
    if let Some(run) = job.run.as_mut() {
        run.swap_by = None;
        run.watch_at = None;
    }
}
