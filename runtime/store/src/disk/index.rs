//! The index entries of a job: a pure function of its row. A move writes the difference, so a job is never in two
//! places and never in none.

use windlass_core::{BodyKind, BodyRef, Job, JobId, State};

use crate::claim::lanes::ReadyPlace;
use crate::disk::Space;
use crate::disk::codec::FORMAT;
use crate::disk::keys;
use crate::disk::keys::{Mark, TimerFor};

pub type IndexKey = (Space, Vec<u8>);

/// Every index entry the job should have, with its value.
pub fn entries(job: &Job, queue: u32) -> Vec<(IndexKey, Vec<u8>)> {
    let mut out = Vec::with_capacity(4);
    if job.state == State::Pending {
        let key = keys::ready(&lane_of(job, queue), job.ready_seq);
        out.push(((Space::Ready, key), ReadyPlace::encode(job.id, job.since)));
    } else {
        out.push(((Space::States, keys::state(queue, job.state, job.since, job.id)), vec![FORMAT]));
    }
    if let Some(round) = job.waits_for_round() {
        out.push(((Space::Rounds, keys::waits_in_round(queue, round, job.since, job.id)), vec![FORMAT]));
    }
    let mut timer = |at, what| out.push(((Space::Timers, keys::timer(at, &what)), vec![FORMAT]));
    if let (State::Scheduled | State::Retrying, Some(at)) = (job.state, job.scheduled_at) {
        timer(at, TimerFor::Due(job.id));
    }
    if let (false, Some(at)) = (job.is_ended(), job.expire_at) {
        timer(at, TimerFor::Expire(job.id));
    }
    if let (true, Some(at)) = (job.is_ended(), job.keep_until) {
        timer(at, TimerFor::Retire(job.id));
    }
    if let Some(run) = &job.run {
        if let Some(at) = run.watch_at {
            timer(at, TimerFor::Watch(job.id));
        }
        if run.runner.is_local() {
            out.push(((Space::Locals, keys::job(job.id)), vec![FORMAT]));
        }
    }
    for kind in BodyKind::ALL {
        if let BodyRef::Blob(blob) = job.body(kind) {
            out.push(((Space::Blobs, keys::blob(&blob, job.id, kind)), vec![FORMAT]));
        }
    }
    out
}

/// The entries that a job has from its creation to its removal, with their value. Only a move to another queue, and
/// other tags, change one.
pub fn lasting(job: &Job, queue: u32) -> Vec<(IndexKey, Vec<u8>)> {
    let birth = keys::birth(job);
    let mut out = vec![((Space::Born, keys::born(queue, &birth)), lasting_value(job))];
    out.extend(marks(job));
    out
}

/// Those of them by which it is found in whichever queue it is.
pub(crate) fn marks(job: &Job) -> Vec<(IndexKey, Vec<u8>)> {
    let (birth, value) = (keys::birth(job), lasting_value(job));
    let entry = |mark| {
        let mut key = keys::marks(mark, job.queue.prefix());
        key.extend(birth);
        ((Space::Marks, key), value.clone())
    };
    marks_of(job).map(entry).collect()
}

fn lasting_value(job: &Job) -> Vec<u8> {
    let mut value = vec![FORMAT];
    if keys::birth(job) != job.id.to_bytes() {
        // The id cannot be read off the key.
        value.extend(job.id.to_bytes());
    }
    value
}

/// All that a job can be found by, besides its queue.
pub(crate) fn marks_of(job: &Job) -> impl Iterator<Item = Mark<'_>> {
    let tags = job.tags.iter().map(|(name, value)| Mark::Tag(name, value));
    let scope = job.scope.as_deref().map(Mark::Scope);
    let batch = job.batch_id.as_deref().map(Mark::Batch);
    let parent = job.parent.map(Mark::Parent);
    let unique = job.unique.as_ref().map(|unique| Mark::Unique(&unique.key));
    let chain = job.links.as_ref().and_then(|links| links.chain).map(|place| Mark::Chain(place.first));
    tags.chain(scope).chain(batch).chain(parent).chain(unique).chain(chain)
}

/// The job that a lasting entry names.
pub(crate) fn named_by(key: &[u8], value: &[u8]) -> Option<JobId> {
    match value.split_first() {
        Some((_, id)) if !id.is_empty() => id.try_into().ok().map(JobId::from_bytes),
        _ => keys::last_job(key),
    }
}

pub fn lane_of(job: &Job, queue: u32) -> Vec<u8> {
    let target = job.target_worker.as_deref().unwrap_or("");
    keys::lane(queue, job.priority, target, job.limit_key.as_deref().unwrap_or(""))
}

/// The entries alone.
pub(crate) fn keys_of(job: &Job, queue: u32) -> Vec<IndexKey> {
    entries(job, queue).into_iter().map(|(entry, _)| entry).collect()
}
