//! Changes of a job that waits: its payload, how it is treated, and when it is due.

use crate::decide::attempt::wrong_state;
use crate::decide::{Context, Draft, ExistingJob, bounded, make_pending};
use crate::job::new_job::check_tags;
use crate::{BodyKind, Decision, Edit, EventKind, Job, JobAction, PolicyChoice, Refusal, State, Time, bounds};

/// It waits no longer for its time.
pub(super) fn run_now(context: Context, mut known: ExistingJob<'_>) -> Result<Decision, Refusal> {
    if !matches!(known.job.state, State::Scheduled | State::Retrying) {
        return Err(wrong_state(JobAction::RunNow, &known.job, "scheduled and retrying"));
    }
    let mut draft = Draft::new();
    make_pending(&mut draft, &mut known.job, known.facts.rounds, context.now, "run now by hand");
    Ok(draft.now(known.job))
}

/// Changes what is given, and leaves the rest. A job that has begun or ended is not changed.
pub(super) fn edit(context: Context, mut known: ExistingJob<'_>, mut edit: Edit) -> Result<Decision, Refusal> {
    match known.job.state {
        State::Scheduled | State::Pending | State::Retrying | State::Held | State::Blocked => {}
        State::Active | State::Completed | State::Dead | State::Cancelled => {
            return Err(wrong_state(JobAction::Edit, &known.job, "waiting"));
        }
    }
    edit.check(&known.job, context.now)?;
    let fields = edit.fields();
    if fields.is_empty() {
        return Ok(Draft::new().now(known.job));
    }
    let (mut draft, by) = (Draft::new(), std::mem::take(&mut edit.by));
    let job = &mut known.job;
    if let Some(payload) = edit.payload.take() {
        job.payload = draft.store_body(job.id, BodyKind::Payload, payload);
    }
    let due = edit.scheduled_at;
    edit.apply(job);
    let reason = bounded(format!("{fields} changed by {by}"), bounds::REASON_BYTES);
    draft.event(job, context.now, EventKind::Edited { by, fields });
    match (due, job.state) {
        (Some(at), State::Scheduled | State::Retrying) if at <= context.now => {
            make_pending(&mut draft, job, known.facts.rounds, context.now, reason);
        }
        (Some(at), State::Scheduled | State::Retrying) => {
            job.scheduled_at = Some(at);
            job.note(context.now, reason);
            draft.event(job, context.now, EventKind::Scheduled { at });
        }
        (Some(at), State::Pending) if at > context.now => {
            job.scheduled_at = Some(at);
            job.enter(State::Scheduled, context.now, reason);
            draft.event(job, context.now, EventKind::Scheduled { at });
        }
        (Some(at), State::Blocked) => {
            job.scheduled_at = Some(at).filter(|at| *at > context.now);
            job.note(context.now, reason);
        }
        // It is due already, or nothing was said of its time.
        (Some(_) | None, _) => job.note(context.now, reason),
    }
    Ok(draft.now(known.job))
}

impl Edit {
    /// Refuses what no job could live by, and what this one cannot have.
    fn check(&self, job: &Job, now: Time) -> Result<(), Refusal> {
        let choice = PolicyChoice {
            max_attempts: self.max_attempts,
            attempt_timeout: self.attempt_timeout.flatten(),
            stall_timeout: self.stall_timeout.flatten(),
            max_duration: self.max_duration.flatten(),
            ..PolicyChoice::default()
        };
        choice.check()?;
        if let Some(tags) = &self.tags {
            check_tags(tags)?;
        }
        if self.max_attempts.is_some_and(|most| most.max(1) + job.granted <= job.failures) {
            let why = format!("{} attempts have failed already; give it more than that", job.failures);
            return Err(Refusal::invalid("max_attempts", why));
        }
        let Some(at) = self.scheduled_at else { return Ok(()) };
        if at > now + bounds::FURTHEST {
            return Err(Refusal::invalid("scheduled_at", "at most ten years from now"));
        }
        match job.state {
            State::Held => Err(Refusal::invalid("scheduled_at", "a held job has no time: it runs once it is approved")),
            State::Blocked if job.waits_for() == 0 => {
                let why = "a job that waits for its round, its children or a removal has no time of its own";
                Err(Refusal::invalid("scheduled_at", why))
            }
            State::Scheduled
            | State::Pending
            | State::Active
            | State::Retrying
            | State::Blocked
            | State::Completed
            | State::Dead
            | State::Cancelled => Ok(()),
        }
    }

    /// The names of what is changed; empty, if that is nothing.
    pub fn fields(&self) -> String {
        let given = [
            ("payload", self.payload.is_some()),
            ("priority", self.priority.is_some()),
            ("scheduled_at", self.scheduled_at.is_some()),
            ("tags", self.tags.is_some()),
            ("max_attempts", self.max_attempts.is_some()),
            ("attempt_timeout", self.attempt_timeout.is_some()),
            ("stall_timeout", self.stall_timeout.is_some()),
            ("max_duration", self.max_duration.is_some()),
        ];
        given.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect::<Vec<_>>().join(", ")
    }

    /// What takes no more than a new value.
    fn apply(self, job: &mut Job) {
        job.priority = self.priority.unwrap_or(job.priority);
        if let Some(tags) = self.tags {
            job.tags = tags;
        }
        let policy = &mut job.policy;
        policy.max_attempts = self.max_attempts.map_or(policy.max_attempts, |most| most.max(1));
        policy.stall_timeout = self.stall_timeout.unwrap_or(policy.stall_timeout);
        policy.max_duration = self.max_duration.unwrap_or(policy.max_duration);
        if let Some(limit) = self.attempt_timeout {
            // An iteration of an agent is an attempt: the shorter of the two limits holds.
            let of_iteration = job.agent.as_ref().and_then(|agent| agent.iteration_timeout);
            policy.attempt_timeout = limit.into_iter().chain(of_iteration).min();
        }
    }
}
