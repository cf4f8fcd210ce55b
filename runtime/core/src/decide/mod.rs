//! The one place where a job's state changes are decided.
//!
//! [`decide`] takes a command, the facts that the store has loaded for it, the time and a seed. It returns row changes,
//! effects and a reply, or refuses and changes nothing. Every transition is in one of the files beside this one:
//! `enqueue`, `attempt` (what runners report), `checkpoint` (what they save), `iteration` (what agents report),
//! `operator` (what people ask for), `edit` (changes of jobs that wait), `rebuild` (from the start, after everything
//! below is removed), `clock` (what time brings) and `dependencies` (what other jobs and rounds bring).

mod attempt;
mod checkpoint;
mod clock;
mod dependencies;
mod edit;
mod ended_attempt;
mod enqueue;
mod iteration;
mod operator;
mod rebuild;
#[cfg(test)]
mod tests;

use core::time::Duration;

use crate::flow::RoundFacts;
use crate::{
    AfterStop, Body, BodyKind, BodyRef, Change, Command, Decision, Effect, EndedAttempt, Event, EventKind, Facts, Job,
    JobId, Reason, Refusal, Reply, State, Time, Until, retry,
};

pub use clock::next_watch;

pub fn decide(command: Command, mut facts: Facts<'_>, now: Time, seed: u64) -> Result<Decision, Refusal> {
    let ends = ended_attempt::before(&command, &mut facts);
    let completed = ended_attempt::completed_before(&facts);
    let mut decision = decide_about(command, facts, now, seed)?;
    if let Some((job, attempt)) = completed {
        ended_attempt::write_completed(job, attempt, &mut decision);
    }
    if let Some(ends) = ends {
        ends.write(&mut decision, now);
    }
    Ok(decision)
}

fn decide_about(command: Command, facts: Facts<'_>, now: Time, seed: u64) -> Result<Decision, Refusal> {
    let context = Context { now, seed };
    match command {
        Command::Enqueue(new) => Ok(enqueue::enqueue(context, *new, facts)),
        Command::Start { runner, by } => attempt::start(context, known(facts)?, runner, by),
        Command::Complete(complete) => attempt::complete(context, known(facts)?, complete),
        Command::Fail(fail) => attempt::fail(context, known(facts)?, fail),
        Command::Wait(wait) => attempt::wait(context, known(facts)?, wait),
        Command::HandBack(hand_back) => attempt::hand_back(context, known(facts)?, hand_back),
        Command::Heartbeat(heartbeat) => attempt::heartbeat(context, known(facts)?, heartbeat),
        Command::Swap { by } => Ok(operator::swap(context, known(facts)?, by)),
        Command::Cancel { reason, grace } => operator::cancel(context, known(facts)?, reason, grace),
        Command::Retry => operator::retry(context, known(facts)?, None),
        Command::RetryWith { payload } => operator::retry(context, known(facts)?, Some(payload)),
        Command::RunNow => edit::run_now(context, known(facts)?),
        Command::Edit(edit) => edit::edit(context, known(facts)?, *edit),
        Command::Rebuild => rebuild::rebuild(context, known(facts)?),
        Command::Requeue => operator::requeue(context, known(facts)?),
        Command::Move(target) => operator::move_to(context, known(facts)?, target),
        Command::Reprioritise { priority } => operator::reprioritise(context, known(facts)?, priority),
        Command::Hold { reason } => operator::hold(context, known(facts)?, reason),
        Command::Approve => operator::approve(context, known(facts)?),
        Command::Reject { reason } => operator::reject(context, known(facts)?, reason),
        Command::Delete => operator::delete(context, known(facts)?),
        Command::Due => clock::due(context, known(facts)?),
        Command::Expire => clock::expire(context, known(facts)?),
        Command::Watch { alive_from } => clock::watch(context, known(facts)?, alive_from),
        Command::DependencyEnded { dependency, state } => {
            dependencies::dependency_ended(context, known(facts)?, dependency, state)
        }
        Command::RoundStarted => dependencies::round_started(context, known(facts)?),
        Command::RemoveSubtree => rebuild::remove_subtree(context, known(facts)?),
        Command::SubtreeRemoved => rebuild::subtree_removed(context, known(facts)?),
        Command::Joined => dependencies::joined(context, known(facts)?),
        Command::ChildFailed { child, more } => {
            dependencies::child_failed(context, known(facts)?, child.as_deref(), more)
        }
        Command::Crash => clock::crash(context, known(facts)?),
    }
}

/// The time and the randomness that a decision is made with.
#[derive(Clone, Copy)]
struct Context {
    now: Time,
    seed: u64,
}

impl Context {
    /// Random bits, others for each purpose.
    fn random(&self, purpose: u64) -> u64 {
        retry::mix(self.seed ^ purpose.wrapping_mul(0xA24B_AED4_963E_E407))
    }
}

/// Facts of a command about a job that exists.
struct ExistingJob<'a> {
    job: Job,
    facts: Facts<'a>,
}

fn known(mut facts: Facts<'_>) -> Result<ExistingJob<'_>, Refusal> {
    match facts.job.take() {
        Some(job) => Ok(ExistingJob { job, facts }),
        // The store has refused such a command already, with the id that it was given.
        None => Err(Refusal::not_found("job", "")),
    }
}

/// Collects what a decision changes.
struct Draft {
    changes: Vec<Change>,
    effects: Vec<Effect>,
    /// The attempt that ends with this decision without a failure.
    ran: Option<Box<EndedAttempt>>,
}

impl Draft {
    fn new() -> Draft {
        Draft { changes: Vec::with_capacity(4), effects: Vec::new(), ran: None }
    }

    fn event(&mut self, job: &Job, now: Time, kind: EventKind) {
        self.changes.push(Change::Event(Event {
            at: now,
            job: job.id,
            queue: job.queue.clone(),
            scope: job.scope.clone(),
            kind,
        }));
    }

    fn drop_body(&mut self, job: JobId, kind: BodyKind, body: &mut BodyRef) {
        if !body.is_none() {
            *body = BodyRef::None;
            self.changes.push(Change::Body { job, kind, body: None });
        }
    }

    /// Stores a body; returns where it is.
    fn store_body(&mut self, job: JobId, kind: BodyKind, body: Body) -> BodyRef {
        let place = BodyRef::from(&body);
        self.changes.push(Change::Body { job, kind, body: Some(body) });
        place
    }

    /// Stores the job and replies.
    fn done(mut self, mut job: Job, reply: Reply) -> Decision {
        if let Some(ran) = self.ran {
            job.usage = Some(ran.usage);
            job.timeline.ended_by(ran);
        }
        self.changes.push(Change::Job(Box::new(job)));
        Decision { changes: self.changes, effects: self.effects, reply }
    }

    /// Stores the job and replies with its state.
    fn now(self, job: Job) -> Decision {
        let reply = standing(&job);
        self.done(job, reply)
    }

    fn unchanged(reply: Reply) -> Decision {
        Decision { changes: Vec::new(), effects: Vec::new(), reply }
    }
}

fn standing(job: &Job) -> Reply {
    let next_attempt_at = match job.state {
        State::Retrying | State::Scheduled => job.scheduled_at,
        _ => None,
    };
    Reply::Now { state: job.state, next_attempt_at, runs_left: job.runs_left() }
}

/// The job is pending from now on; or blocked, when its round may not run yet.
fn make_pending(draft: &mut Draft, job: &mut Job, rounds: Option<RoundFacts>, now: Time, reason: impl Into<Reason>) {
    let reason = reason.into();
    job.end_run();
    job.scheduled_at = None;
    if let Some(round) = held_back(job, rounds) {
        return dependencies::block(draft, job, now, format!("{reason}; waits for round {round}"));
    }
    job.enter(State::Pending, now, reason.clone());
    draft.event(job, now, EventKind::Pending { reason });
}

/// The round of a job, if it may not run now.
fn held_back(job: &Job, rounds: Option<RoundFacts>) -> Option<u32> {
    job.round.filter(|round| rounds.is_some_and(|rounds| !rounds.admits(*round)))
}

/// The job is pending if nothing holds it back, otherwise blocked until the jobs that it depends on have ended.
fn make_ready(draft: &mut Draft, job: &mut Job, rounds: Option<RoundFacts>, now: Time, reason: impl Into<Reason>) {
    if job.waits_for() > 0 {
        job.end_run();
        dependencies::block(draft, job, now, reason);
    } else {
        make_pending(draft, job, rounds, now, reason);
    }
}

/// The job is pending again after `delay`; now, if that is zero.
fn make_retrying(draft: &mut Draft, known: &mut ExistingJob<'_>, now: Time, delay: Duration, error: &str) {
    let (job, rounds) = (&mut known.job, known.facts.rounds);
    job.end_run();
    let next_attempt_at = now + delay;
    let failed = EventKind::Failed { attempt: job.attempt, error: error.to_owned(), next_attempt_at };
    if delay.is_zero() {
        draft.event(job, now, failed);
        make_pending(draft, job, rounds, now, "retried at once");
        return;
    }
    job.scheduled_at = Some(next_attempt_at);
    job.enter(State::Retrying, now, error.to_owned());
    draft.event(job, now, failed);
}

/// The job ends. Its lock is released, or keeps the job until the lock's period is over.
fn end(draft: &mut Draft, known: &mut ExistingJob<'_>, state: State, now: Time, reason: impl Into<Reason>) {
    let reason = reason.into();
    let job = &mut known.job;
    job.end_run();
    job.scheduled_at = None;
    if let Some(links) = &mut job.links {
        links.waits_for_children = None;
        links.removing = None;
    }
    job.enter(state, now, reason.clone());
    match state {
        State::Completed => job.completed_at = Some(now),
        _ => job.failed_at = Some(now),
    }
    let keep = known.facts.queue.settings.retention.of(state).unwrap_or_default();
    job.keep_until = job.policy.ttl.map(|ttl| now + ttl);
    if let (Some(key), Some(lock)) = (job.lock_key(), &known.facts.lock)
        && lock.job == job.id
    {
        match lock.until {
            Until::End => draft.changes.push(Change::Lock { key, lock: None }),
            Until::Period => {
                let kept = job.keep_until.unwrap_or(now + keep.age);
                job.keep_until = Some(kept.max(lock.expires_at));
            }
        }
    }
    let attempt = job.attempt;
    let kind = match state {
        State::Completed => EventKind::Completed { attempt },
        State::Cancelled => EventKind::Cancelled { reason },
        _ => EventKind::Dead { attempt, reason },
    };
    draft.event(job, now, kind);
}

/// Removes the job and its lock.
fn remove(known: &ExistingJob<'_>, now: Time) -> Decision {
    take_away(known, now, Change::Remove)
}

/// The same for a job that its parent will create again.
fn forget(known: &ExistingJob<'_>, now: Time) -> Decision {
    take_away(known, now, Change::Forget)
}

fn take_away(known: &ExistingJob<'_>, now: Time, how: fn(JobId) -> Change) -> Decision {
    let mut draft = Draft::new();
    let job = &known.job;
    if let (Some(key), Some(lock)) = (job.lock_key(), &known.facts.lock)
        && lock.job == job.id
    {
        draft.changes.push(Change::Lock { key, lock: None });
    }
    draft.event(job, now, EventKind::Deleted);
    draft.changes.push(how(job.id));
    Decision { changes: draft.changes, effects: Vec::new(), reply: Reply::Removed }
}

/// The attempt has ended, and its stop had been requested: what was to follow the stop happens now.
fn after_stop(mut draft: Draft, mut known: ExistingJob<'_>, then: AfterStop, now: Time) -> Decision {
    match then {
        AfterStop::Swap => make_pending(&mut draft, &mut known.job, known.facts.rounds, now, SWAPPED),
        AfterStop::Cancel { reason } => end(&mut draft, &mut known, State::Cancelled, now, reason),
        AfterStop::Expire => end(&mut draft, &mut known, State::Dead, now, "expired"),
        AfterStop::Hold { reason } => {
            known.job.end_run();
            known.job.hold_reason = Some(reason.clone());
            known.job.enter(State::Held, now, reason.clone());
            draft.event(&known.job, now, EventKind::Held { reason: reason.into() });
        }
        AfterStop::Remove => return rebuild::remove_now(draft, known, now),
        AfterStop::Delete => {
            let mut gone = remove(&known, now);
            draft.changes.retain(|change| matches!(change, Change::Event(_)));
            draft.changes.append(&mut gone.changes);
            return Decision { changes: draft.changes, effects: draft.effects, reply: Reply::Removed };
        }
    }
    draft.now(known.job)
}

/// Why a job is pending again after a swap.
const SWAPPED: &str = "a new version of the plugin takes over";

/// Cuts text to at most so many bytes, between two characters.
pub(crate) fn bounded(mut text: String, bytes: usize) -> String {
    if text.len() > bytes {
        text.truncate(text.floor_char_boundary(bytes));
        text.push('…');
    }
    text
}
