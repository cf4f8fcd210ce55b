//! What a caller may enqueue: the rules for queues, and what somebody without a key may say about a job.

use windlass_core::access::Permission;
use windlass_core::flow::{Callback, NewBatch};
use windlass_core::{NewJob, PolicyChoice, QueueName, UniqueScope};

use crate::http::Api;
use crate::http::access::Way;
use crate::http::transport::error::{Error, Result};

/// How much of a job that is there already is in the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    Whole,
    /// For those who may enqueue and not read.
    Short,
}

impl Existing {
    /// What the caller of a request may see: jobs of others are not for somebody without a key, who could guess their
    /// unique keys.
    pub(crate) fn for_caller(api: &Api) -> Existing {
        let may_read = api.caller.actor.role.is_some_and(|role| role.may(Permission::ReadJob, false));
        if may_read { Existing::Whole } else { Existing::Short }
    }
}

/// Refuses jobs, and the callback of their batch, that the caller may not enqueue. Nothing is stored of what is
/// refused.
pub(crate) fn check(api: &Api, jobs: &[&NewJob], batch: Option<&NewBatch>) -> Result<()> {
    if api.caller.actor.role.is_none() {
        if batch.is_some() {
            return Err(not_without_a_key("batch"));
        }
        jobs.iter().try_for_each(|job| check_stranger(job))?;
    }
    let callback = batch.and_then(|batch| batch.callback.as_ref()).map(|Callback { queue, .. }| queue);
    let queues: Vec<&QueueName> = jobs.iter().flat_map(|job| job.queues()).chain(callback).collect();
    api.authority.check_enqueue(&api.caller, &queues, Way::Enqueued)
}

/// Refuses checkpoints of somebody without a key. They are apart from their jobs until they are stored.
pub(crate) fn check_checkpoints(api: &Api, count: usize) -> Result<()> {
    if count > 0 && api.caller.actor.role.is_none() { Err(not_without_a_key("checkpoint")) } else { Ok(()) }
}

/// Refuses to bring jobs into a queue in another way than enqueueing them.
pub(crate) fn check_way<'a>(api: &Api, queues: impl IntoIterator<Item = &'a QueueName>, way: Way) -> Result<()> {
    api.authority.check_enqueue(&api.caller, &queues.into_iter().collect::<Vec<_>>(), way)
}

/// Batches hold jobs of others together: whoever is let in by a rule for some queues has no part in them.
pub(crate) fn check_batches(api: &Api) -> Result<()> {
    match api.caller.actor.role {
        Some(role) if role.may(Permission::Enqueue, false) => Ok(()),
        _ => Err(Error::forbidden("an enqueue rule lets you enqueue jobs, and not make or seal batches; use a key")),
    }
}

/// Somebody without a key says what the job is, and nothing about how, when, where and after what it runs.
fn check_stranger(job: &NewJob) -> Result<()> {
    let NewJob { policy, unique, .. } = job;
    let beyond = [
        ("priority, attempts, delays or time limits", *policy != PolicyChoice::default()),
        ("scheduled_at", job.scheduled_at.is_some()),
        ("delay", job.delay.is_some()),
        ("scope", job.scope.is_some()),
        ("unique_scope", unique.as_ref().is_some_and(|unique| unique.within == UniqueScope::Scope)),
        ("limit_key", job.limit_key.is_some()),
        ("target_worker", job.target_worker.is_some()),
        ("parent_id", job.parent.is_some()),
        ("batch_id", job.batch_id.is_some()),
        ("agent", job.agent.is_some()),
        ("hold_reason", job.hold_reason.is_some()),
        ("depends_on", !job.depends_on.is_empty()),
        ("chain", job.chain.is_some()),
    ];
    match beyond.into_iter().find(|(_, is_set)| *is_set) {
        Some((what, _)) => Err(not_without_a_key(what)),
        None => Ok(()),
    }
}

fn not_without_a_key(what: &str) -> Error {
    Error::forbidden(format!(
        "somebody without a key may set the queue, payload, tags and unique_key of a job; leave {what} out, or use a key"
    ))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use windlass_core::{Priority, Unique, Until};

    use super::*;

    #[test]
    fn somebody_without_a_key_says_what_a_job_is_and_nothing_about_how_it_runs() {
        let unique =
            |within| Some(Unique { key: "form-1".into(), within, until: Until::End, period: Duration::from_secs(60) });
        let plain = NewJob {
            tags: vec![("form".into(), "contact".into())],
            unique: unique(UniqueScope::Queue),
            ..NewJob::default()
        };
        assert!(check_stranger(&plain).is_ok());
        let urgent = PolicyChoice { priority: Some(Priority::Critical), ..PolicyChoice::default() };
        for beyond in [
            NewJob { policy: urgent, ..NewJob::default() },
            NewJob { delay: Some(Duration::from_secs(1)), ..NewJob::default() },
            NewJob { unique: unique(UniqueScope::Scope), ..NewJob::default() },
            NewJob { target_worker: Some("w".into()), ..NewJob::default() },
            NewJob { batch_id: Some("b".into()), ..NewJob::default() },
            NewJob { hold_reason: Some("h".into()), ..NewJob::default() },
        ] {
            assert!(check_stranger(&beyond).is_err(), "{beyond:?}");
        }
    }
}
