//! A new job: checked, given its policy, and put where it belongs.

use crate::decide::{Context, Draft, ExistingJob, bounded, end, held_back};
use crate::flow::{ChainPart, ChainPlace};
use crate::{
    Body, BodyKind, BodyRef, Change, Decision, EventKind, Facts, Job, JobId, Lock, NewJob, Plugin, Refusal, Reply,
    State, Time, Timeline, bounds,
};

pub(super) fn enqueue(context: Context, new: NewJob, mut facts: Facts<'_>) -> Result<Decision, Refusal> {
    new.check(context.now)?;
    let now = context.now;
    if let Some(twin) = &facts.job {
        // A derived id that is stored already: the same child or the same scheduled instant, told again.
        return Ok(Draft::unchanged(Reply::Duplicate { id: twin.id }));
    }
    if let Some(lock) = facts.lock.as_ref().filter(|lock| new.unique.is_some() && lock.holds(now)) {
        return Ok(Draft::unchanged(Reply::Duplicate { id: lock.job }));
    }
    let queue = facts.queue;
    let by_plugin = facts.plugin.and_then(Plugin::active_version).map(|version| version.manifest.policy());
    let choice = new.policy.or(&queue.settings.defaults).or(&by_plugin.unwrap_or_default());
    let scheduled_at = new.scheduled_at.or(new.delay.map(|delay| now + delay)).filter(|at| *at > now);
    let id =
        new.id.unwrap_or_else(|| JobId::new(now, u128::from(context.random(1)) << 16 ^ u128::from(context.random(2))));
    let mut job = Job {
        id,
        queue: queue.name.clone(),
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
        state: State::Pending,
        since: now,
        ready_seq: 0,
        fence: 0,
        attempt: 0,
        failures: 0,
        crashes: 0,
        granted: 0,
        run: None,
        ran_by: None,
        usage: None,
        scheduled_at,
        expire_at: choice.expire_after.map(|span| now + span),
        created_at: now,
        updated_at: now,
        started_at: None,
        first_started_at: None,
        completed_at: None,
        failed_at: None,
        keep_until: None,
        hold_reason: None,
        exit_reason: None,
        step_status: None,
        spending: None,
        progress: None,
        payload: BodyRef::None,
        checkpoint: BodyRef::None,
        checkpoint_schema: 0,
        checkpoint_by: None,
        pinned: None,
        result: BodyRef::None,
        last_error: None,
        ended_by: None,
        children: 0,
        records: 0,
        links: new.links,
        timeline: Timeline::default(),
    };
    // A round is an attempt: the tighter of the two bounds holds.
    let round = job.agent.as_ref().and_then(|agent| agent.iteration_timeout);
    job.policy.attempt_timeout = job.policy.attempt_timeout.into_iter().chain(round).min();
    let mut draft = Draft::new();
    job.payload = store_body(&mut draft, id, BodyKind::Payload, new.payload);
    job.checkpoint = store_body(&mut draft, id, BodyKind::Checkpoint, new.checkpoint);
    if let (Some(key), Some(unique)) = (job.lock_key(), &job.unique) {
        let lock = Lock { job: id, until: unique.until, expires_at: now + unique.period };
        facts.lock = Some(lock.clone());
        draft.changes.push(Change::Lock { key, lock: Some(lock) });
    }
    draft.event(&job, now, EventKind::Enqueued);
    if let Some(chain) = new.chain {
        let place = ChainPlace { first: id, step: 0, part: ChainPart::Step };
        job.links.get_or_insert_default().chain = Some(place);
        draft.changes.push(Change::Chain { first: id, chain });
    }
    let failed =
        crate::decide::dependencies::depend(&mut draft, &mut job, &facts.dependencies, new.on_dependency_failure);
    let state = if let Some(reason) = new.hold_reason {
        let reason = bounded(reason, bounds::REASON_BYTES);
        draft.event(&job, now, EventKind::Held { reason: reason.clone().into() });
        job.hold_reason = Some(reason);
        State::Held
    } else if job.waits_for() > 0 || failed.is_some() {
        draft.event(&job, now, EventKind::Blocked { waits_for: job.waits_for(), round: None });
        State::Blocked
    } else if job.scheduled_at.is_some() {
        State::Scheduled
    } else if let Some(round) = held_back(&job, facts.rounds) {
        draft.event(&job, now, EventKind::Blocked { waits_for: 0, round: Some(round) });
        State::Blocked
    } else {
        State::Pending
    };
    job.enter(state, now, "enqueued");
    if let Some((state, reason)) = failed {
        let mut known = ExistingJob { job, facts };
        end(&mut draft, &mut known, state, now, reason);
        return Ok(draft.done(known.job, Reply::Stored { id, state }));
    }
    Ok(draft.done(job, Reply::Stored { id, state }))
}

fn store_body(draft: &mut Draft, job: JobId, kind: BodyKind, body: Option<Body>) -> BodyRef {
    let Some(body) = body else { return BodyRef::None };
    let place = BodyRef::from(&body);
    draft.changes.push(Change::Body { job, kind, body: Some(body) });
    place
}

impl NewJob {
    /// Refuses what could never be stored, naming the field. Looks at nothing but the input, so that many can be
    /// checked before the first is stored.
    pub fn check(&self, now: Time) -> Result<(), Refusal> {
        let new = self;
        new.policy.check()?;
        if let Some(agent) = &new.agent {
            agent.check()?;
        }
        if let Some(unique) = &new.unique {
            unique.check(new.scope.as_deref())?;
        }
        let texts = [
            ("scope", new.scope.as_deref(), bounds::SCOPE_BYTES),
            ("limit_key", new.limit_key.as_deref(), bounds::LIMIT_KEY_BYTES),
            ("target_worker", new.target_worker.as_deref(), bounds::WORKER_BYTES),
            ("batch_id", new.batch_id.as_deref(), bounds::NAME_BYTES),
        ];
        for (field, text, most) in texts {
            if text.is_some_and(|text| text.is_empty() || text.len() > most || text.contains('\0')) {
                return Err(Refusal::invalid(field, format!("1 to {most} bytes without a zero byte")));
            }
        }
        if let (Some(chain), Some(queue)) = (&new.chain, &new.queue) {
            chain.check(queue)?;
        }
        if new.depends_on.len() > bounds::DEPENDENCIES {
            let why = format!("at most {} jobs; for more, make a batch with a callback", bounds::DEPENDENCIES);
            return Err(Refusal::invalid("depends_on", why));
        }
        if new.tags.len() > bounds::TAGS {
            return Err(Refusal::invalid("tags", format!("at most {} tags", bounds::TAGS)));
        }
        for (key, value) in &new.tags {
            if key.is_empty() || key.len() > bounds::TAG_KEY_BYTES || value.len() > bounds::TAG_VALUE_BYTES {
                let why = format!(
                    "a tag's key has 1 to {} bytes and its value at most {}",
                    bounds::TAG_KEY_BYTES,
                    bounds::TAG_VALUE_BYTES
                );
                return Err(Refusal::invalid("tags", why));
            }
        }
        if new.scheduled_at.is_some_and(|at| at > now + bounds::FURTHEST) {
            return Err(Refusal::invalid("scheduled_at", "at most ten years from now"));
        }
        if new.delay.is_some_and(|delay| delay > bounds::FURTHEST) {
            return Err(Refusal::invalid("delay", "at most ten years"));
        }
        Ok(())
    }
}
