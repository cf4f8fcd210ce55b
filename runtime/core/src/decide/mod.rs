//! The one place where a job's fate is decided.
//!
//! [`decide`] takes a command, the facts the store has loaded for it, the time and a seed, and answers with row changes,
//! effects and a reply, or refuses and changes nothing. Every transition a job can make stands in one of the files
//! beside this one: `enqueue`, `attempt` (what runners say), `checkpoint` (what they save), `act` (what people ask),
//! `rebuild` (from nothing, with all below it), `clock` (what time brings), `ties` (what other jobs and rounds bring).

mod attempt;
mod checkpoint;
mod clock;
mod dependencies;
mod enqueue;
mod operator;
mod rebuild;
#[cfg(test)]
mod tests;

use core::time::Duration;

use crate::flow::RoundFacts;
use crate::{
    AfterStop, BodyKind, BodyRef, Change, Command, Decision, Effect, EndedAttempt, Event, EventKind, Facts, Job, JobId,
    Reason, Refusal, Reply, State, Time, Until, retry,
};

pub use clock::next_watch;

pub fn decide(command: Command, facts: Facts<'_>, now: Time, seed: u64) -> Result<Decision, Refusal> {
    let context = Context { now, seed };
    match command {
        Command::Enqueue(new) => enqueue::enqueue(context, *new, facts),
        Command::Start { runner } => attempt::start(context, known(facts)?, runner),
        Command::Complete { holder, result, usage, closing, notes } => {
            attempt::complete(context, known(facts)?, holder, result, usage, closing, notes)
        }
        Command::Fail { holder, failure, usage } => attempt::fail(context, known(facts)?, holder, failure, usage),
        Command::HandBack { holder, reason, usage } => {
            attempt::hand_back(context, known(facts)?, holder, reason, usage)
        }
        Command::Swap { by } => Ok(crate::decide::operator::swap(context, known(facts)?, by)),
        Command::Heartbeat { holder, progress, checkpoint, spent, notes } => {
            attempt::beat(context, known(facts)?, holder, progress, checkpoint, spent, notes)
        }
        Command::Cancel { reason } => crate::decide::operator::cancel(context, known(facts)?, reason),
        Command::Retry => crate::decide::operator::retry(context, known(facts)?),
        Command::Rebuild => rebuild::rebuild(context, known(facts)?),
        Command::Clear => rebuild::clear(context, known(facts)?),
        Command::Cleared => rebuild::cleared(context, known(facts)?),
        Command::Requeue => crate::decide::operator::requeue(context, known(facts)?),
        Command::Move { queue, reset_attempts, priority } => {
            crate::decide::operator::move_to(context, known(facts)?, queue, reset_attempts, priority)
        }
        Command::Reprioritise { priority } => crate::decide::operator::reprioritise(context, known(facts)?, priority),
        Command::Hold { reason } => crate::decide::operator::hold(context, known(facts)?, reason),
        Command::Approve => crate::decide::operator::approve(context, known(facts)?),
        Command::Reject { reason } => crate::decide::operator::reject(context, known(facts)?, reason),
        Command::Delete => crate::decide::operator::delete(context, known(facts)?),
        Command::Due => clock::due(context, known(facts)?),
        Command::Expire => clock::expire(context, known(facts)?),
        Command::Watch { alive_from } => clock::watch(context, known(facts)?, alive_from),
        Command::Wait { holder, on_child_failure, checkpoint, usage, notes } => {
            attempt::wait(context, known(facts)?, holder, on_child_failure, checkpoint, usage, notes)
        }
        Command::RoundStarted => crate::decide::dependencies::round_started(context, known(facts)?),
        Command::Joined => crate::decide::dependencies::joined(context, known(facts)?),
        Command::ChildFailed { child, more } => {
            crate::decide::dependencies::child_failed(context, known(facts)?, child.as_deref(), more)
        }
        Command::DependencyEnded { dependency, state } => {
            crate::decide::dependencies::dependency_ended(context, known(facts)?, dependency, state)
        }
        Command::Crash => clock::crash(context, known(facts)?),
    }
}

/// The moment and the chance a decision is made with.
#[derive(Clone, Copy)]
struct Context {
    now: Time,
    seed: u64,
}

impl Context {
    /// Fresh bits for each purpose.
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
        // The store answers "no such job" itself, by the name it was asked with.
        None => Err(Refusal::not_found("job", "")),
    }
}

/// Collects what a decision changes.
struct Draft {
    changes: Vec<Change>,
    effects: Vec<Effect>,
    /// The attempt that makes room with this decision.
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

    /// Stores the job and answers.
    fn done(mut self, mut job: Job, reply: Reply) -> Decision {
        if let Some(ran) = self.ran {
            job.usage = Some(ran.usage);
            job.timeline.made_by(ran);
        }
        self.changes.push(Change::Job(Box::new(job)));
        Decision { changes: self.changes, effects: self.effects, reply }
    }

    /// Stores the job and answers where it stands.
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

/// The job waits in line from now; or for its round, when that may not run.
fn make_pending(draft: &mut Draft, job: &mut Job, rounds: Option<RoundFacts>, now: Time, reason: impl Into<Reason>) {
    let reason = reason.into();
    job.end_run();
    job.scheduled_at = None;
    if let Some(round) = held_back(job, rounds) {
        return crate::decide::dependencies::block(draft, job, now, format!("{reason}; waits for round {round}"));
    }
    job.enter(State::Pending, now, reason.clone());
    draft.event(job, now, EventKind::Pending { reason });
}

/// The round of a job, when it may not run now.
fn held_back(job: &Job, rounds: Option<RoundFacts>) -> Option<u32> {
    job.round.filter(|round| rounds.is_some_and(|rounds| !rounds.admits(*round)))
}

/// The job goes on: in line when nothing holds it back, otherwise blocked until the jobs it depends on have ended.
fn make_ready(draft: &mut Draft, job: &mut Job, rounds: Option<RoundFacts>, now: Time, reason: impl Into<Reason>) {
    if job.waits_for() > 0 {
        job.end_run();
        crate::decide::dependencies::block(draft, job, now, reason);
    } else {
        make_pending(draft, job, rounds, now, reason);
    }
}

/// The job waits out `delay`, then stands in line; at once when there is none.
fn make_retrying(
    draft: &mut Draft,
    job: &mut Job,
    rounds: Option<RoundFacts>,
    now: Time,
    delay: Duration,
    error: &str,
) {
    job.end_run();
    if delay.is_zero() {
        draft.event(
            job,
            now,
            EventKind::Failed { attempt: job.attempt, error: error.to_owned(), next_attempt_at: now },
        );
        make_pending(draft, job, rounds, now, "retried at once");
        return;
    }
    let next_attempt_at = now + delay;
    job.scheduled_at = Some(next_attempt_at);
    job.enter(State::Retrying, now, error.to_owned());
    draft.event(job, now, EventKind::Failed { attempt: job.attempt, error: error.to_owned(), next_attempt_at });
}

/// The job ends here: its lock goes (or keeps the job for its period), and so does its place in time.
fn end(draft: &mut Draft, known: &mut ExistingJob<'_>, state: State, now: Time, reason: impl Into<Reason>) {
    let reason = reason.into();
    let job = &mut known.job;
    job.end_run();
    job.scheduled_at = None;
    if let Some(links) = &mut job.links {
        links.waits_for_children = None;
        links.clearing = None;
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

/// The job and its lock go for good.
fn remove(known: &ExistingJob<'_>, now: Time) -> Decision {
    take_away(known, now, Change::Remove)
}

/// The same, of one that will be made anew.
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

/// The attempt has ended and somebody had asked for a stop: what they wanted happens now.
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
        AfterStop::Clear => return rebuild::clear_now(draft, known, now),
        AfterStop::Delete => {
            let mut gone = remove(&known, now);
            draft.changes.retain(|change| matches!(change, Change::Event(_)));
            draft.changes.append(&mut gone.changes);
            return Decision { changes: draft.changes, effects: draft.effects, reply: Reply::Removed };
        }
    }
    draft.now(known.job)
}

/// Why a job is back in line after a swap.
const SWAPPED: &str = "a new version of the plugin takes over";

/// Keeps text within bounds without cutting a character in two.
pub(crate) fn bounded(mut text: String, bytes: usize) -> String {
    if text.len() > bytes {
        let mut cut = bytes;
        while !text.is_char_boundary(cut) {
            cut -= 1;
        }
        text.truncate(cut);
        text.push('…');
    }
    text
}
