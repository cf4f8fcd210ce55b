//! A new job: given its policy, and put where it belongs.

use crate::decide::{Context, Draft, ExistingJob, bounded, dependencies, end, held_back};
use crate::flow::{Chain, ChainPart, ChainPlace};
use crate::{
    Body, BodyKind, BodyRef, Change, CheckedJob, Decision, EventKind, Facts, Job, JobId, Lock, NewJob, Plugin, Reply,
    State, Time, bounds,
};

pub(super) fn enqueue(context: Context, new: CheckedJob, mut facts: Facts<'_>) -> Decision {
    let (now, mut new) = (context.now, new.into_inner());
    if let Some(id) = duplicate_of(&new, &facts, now) {
        return Draft::unchanged(Reply::Duplicate { id });
    }
    let mut draft = Draft::new();
    let (payload, checkpoint, chain) = (new.payload.take(), new.checkpoint.take(), new.chain.take());
    let (hold_reason, on_dependency_failure) = (new.hold_reason.take(), new.on_dependency_failure);
    let mut job = create(context, new, &facts);
    let id = job.id;
    job.payload = store_body(&mut draft, id, BodyKind::Payload, payload);
    job.checkpoint = store_body(&mut draft, id, BodyKind::Checkpoint, checkpoint);
    if let (Some(key), Some(unique)) = (job.lock_key(), &job.unique) {
        let lock = Lock { job: id, until: unique.until, expires_at: now + unique.period };
        facts.lock = Some(lock.clone());
        draft.changes.push(Change::Lock { key, lock: Some(lock) });
    }
    draft.event(&job, now, EventKind::Enqueued);
    if let Some(chain) = chain {
        begin_chain(&mut draft, &mut job, chain);
    }
    let failed = dependencies::depend(&mut draft, &mut job, &facts.dependencies, on_dependency_failure);
    let state = match hold_reason {
        Some(reason) => hold(&mut draft, &mut job, reason, now),
        None => first_state(&mut draft, &job, &facts, failed.is_some(), now),
    };
    job.enter(state, now, "enqueued");
    if let Some((state, reason)) = failed {
        let mut known = ExistingJob { job, facts };
        end(&mut draft, &mut known, state, now, reason);
        return draft.done(known.job, Reply::Stored { id, state });
    }
    draft.done(job, Reply::Stored { id, state })
}

/// The job that is there already: with the same derived id, because a child or a scheduled instant was sent again, or
/// with the same unique key.
fn duplicate_of(new: &NewJob, facts: &Facts<'_>, now: Time) -> Option<JobId> {
    let twin = facts.job.as_ref().map(|twin| twin.id);
    let lock = facts.lock.as_ref().filter(|lock| new.unique.is_some() && lock.holds(now));
    twin.or(lock.map(|lock| lock.job))
}

fn create(context: Context, new: NewJob, facts: &Facts<'_>) -> Job {
    let (now, queue) = (context.now, facts.queue);
    let random = || u128::from(context.random(1)) << 16 ^ u128::from(context.random(2));
    let id = new.id.unwrap_or_else(|| JobId::following(facts.newest, now, random()));
    let by_plugin = facts.plugin.and_then(Plugin::active_version).map(|version| version.manifest.policy());
    let choice = new.policy.or(&queue.settings.defaults).or(&by_plugin.unwrap_or_default());
    let mut job = Job {
        priority: choice.priority.unwrap_or_default(),
        policy: choice.resolve(),
        tags: new.tags,
        scope: new.scope,
        limit_key: new.limit_key,
        target_worker: new.target_worker,
        unique: new.unique,
        parent: new.parent,
        round: facts.rounds.map(|rounds| rounds.of_new()),
        batch_id: new.batch_id,
        schedule: new.schedule,
        created_by: new.created_by,
        agent: new.agent,
        scheduled_at: new.scheduled_at.or(new.delay.map(|delay| now + delay)).filter(|at| *at > now),
        expire_at: choice.expire_after.map(|span| now + span),
        links: new.links,
        depth: facts.depth,
        ..Job::new(id, queue.name.clone(), now)
    };
    // An iteration is an attempt: the shorter of the two limits holds.
    let iteration_timeout = job.agent.as_ref().and_then(|agent| agent.iteration_timeout);
    job.policy.attempt_timeout = job.policy.attempt_timeout.into_iter().chain(iteration_timeout).min();
    job
}

fn begin_chain(draft: &mut Draft, job: &mut Job, chain: Box<Chain>) {
    let place = ChainPlace { first: job.id, step: 0, part: ChainPart::Step };
    job.links.get_or_insert_default().chain = Some(place);
    draft.changes.push(Change::Chain { first: job.id, chain });
}

fn hold(draft: &mut Draft, job: &mut Job, reason: String, now: Time) -> State {
    let reason = bounded(reason, bounds::REASON_BYTES);
    draft.event(job, now, EventKind::Held { reason: reason.clone().into() });
    job.hold_reason = Some(reason);
    State::Held
}

/// The first state of a job that is not held. One that ends at once, because a dependency has failed, was blocked
/// first.
fn first_state(draft: &mut Draft, job: &Job, facts: &Facts<'_>, ends_at_once: bool, now: Time) -> State {
    if job.waits_for() > 0 || ends_at_once {
        draft.event(job, now, EventKind::Blocked { waits_for: job.waits_for(), round: None });
        State::Blocked
    } else if job.scheduled_at.is_some() {
        State::Scheduled
    } else if let Some(round) = held_back(job, facts.rounds) {
        draft.event(job, now, EventKind::Blocked { waits_for: 0, round: Some(round) });
        State::Blocked
    } else {
        State::Pending
    }
}

fn store_body(draft: &mut Draft, job: JobId, kind: BodyKind, body: Option<Body>) -> BodyRef {
    body.map_or(BodyRef::None, |body| draft.store_body(job, kind, body))
}
