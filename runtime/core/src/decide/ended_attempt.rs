//! Writes down each attempt that a decision ends: whatever ends it, and in the same commit.

use crate::job::past_attempt::queued_at;
use crate::{
    AfterStop, AttemptOutcome, Change, Command, Decision, Facts, Findings, Job, JobId, PastAttempt, Reason, State,
    Time, Usage,
};

/// What is known of an attempt before the decision that may end it.
pub(super) struct BeforeEnd {
    job: JobId,
    number: u32,
    attempt: u32,
    started_at: Time,
    canary: bool,
    /// It was asked to stop, for good.
    stopping: bool,
    reported: Reported,
    findings: Findings,
}

/// What ends it, if it ends.
#[derive(Clone, Copy)]
enum Reported {
    Complete(Usage),
    Fail(Usage),
    Wait(Usage),
    HandBack(Usage),
    Crash,
    /// The clock gave it up.
    Lapse,
    Other,
}

/// What a decision about these facts may end; nothing for most commands.
pub(super) fn before(command: &Command, facts: &mut Facts<'_>) -> Option<BeforeEnd> {
    let findings = facts.findings.take();
    let job = facts.job.as_ref()?;
    let run = job.run.as_ref()?;
    let reported = match command {
        Command::Complete(complete) => Reported::Complete(complete.usage),
        Command::Fail(fail) => Reported::Fail(fail.usage),
        Command::Wait(wait) => Reported::Wait(wait.usage),
        Command::HandBack(hand_back) => Reported::HandBack(hand_back.usage),
        // With a checkpoint, another version may take over.
        Command::Heartbeat(heartbeat) => Reported::HandBack(heartbeat.checkpoint.as_ref()?.usage),
        Command::Crash => Reported::Crash,
        Command::Watch { .. } => Reported::Lapse,
        _ => Reported::Other,
    };
    Some(BeforeEnd {
        job: job.id,
        number: job.fence,
        attempt: job.attempt,
        started_at: run.started_at,
        canary: run.canary,
        stopping: run.stop.as_ref().is_some_and(|stop| stop.then != AfterStop::Swap),
        reported,
        findings: findings.map(|findings| findings.bounded()).unwrap_or_default(),
    })
}

/// What a completed job tells of its attempt.
pub(super) fn completed_before(facts: &Facts<'_>) -> Option<(JobId, Box<PastAttempt>)> {
    let job = facts.job.as_ref()?;
    Some((job.id, Box::new(PastAttempt::of_completed(job)?)))
}

/// A completed job is taken up again: what it told of its attempt is written down before it is forgotten.
pub(super) fn write_completed(job: JobId, attempt: Box<PastAttempt>, decision: &mut Decision) {
    let leaves = |change: &Change| matches!(change, Change::Job(now) if now.id == job && now.state != State::Completed);
    if decision.changes.iter().any(leaves) {
        decision.changes.push(Change::Attempt { job, attempt, replace: false });
    }
}

impl BeforeEnd {
    /// Adds the row of the attempt to a decision that has ended it.
    pub(super) fn write(self, decision: &mut Decision, now: Time) {
        let is_own = |change: &Change| matches!(change, Change::Job(job) if job.id == self.job);
        let Some(Change::Job(job)) = decision.changes.iter().find(|change| is_own(change)) else { return };
        // It still runs; or its job tells all there is.
        if job.run.is_some() || self.is_plain(job) {
            return;
        }
        let Some(runner) = job.ran_by.clone() else { return };
        let (outcome, usage) = self.outcome(job);
        let last = job.timeline.steps.last();
        let attempt = Box::new(PastAttempt {
            number: self.number,
            attempt: self.attempt,
            queued_at: queued_at(job, self.attempt),
            started_at: self.started_at,
            ended_at: now,
            outcome,
            reason: last.map_or(Reason::Borrowed(""), |step| step.reason.clone()),
            next_at: job.scheduled_at.filter(|_| job.state == State::Retrying),
            runner,
            canary: self.canary,
            usage,
            findings: self.findings,
        });
        decision.changes.push(Change::Attempt { job: self.job, attempt, replace: true });
    }

    fn is_plain(&self, job: &Job) -> bool {
        job.state == State::Completed && !self.canary && self.findings.is_empty()
    }

    fn outcome(&self, job: &Job) -> (AttemptOutcome, Usage) {
        match self.reported {
            Reported::Complete(usage) if job.state == State::Completed => (AttemptOutcome::Completed, usage),
            Reported::Complete(usage) if self.stopping => (AttemptOutcome::Stopped, usage),
            Reported::Complete(usage) => (AttemptOutcome::Continued, usage),
            Reported::Fail(usage) => (AttemptOutcome::Failed, usage),
            Reported::Wait(usage) | Reported::HandBack(usage) if self.stopping => (AttemptOutcome::Stopped, usage),
            Reported::Wait(usage) => (AttemptOutcome::Waits, usage),
            Reported::HandBack(usage) => (AttemptOutcome::HandedBack, usage),
            Reported::Crash => (AttemptOutcome::Crashed, Usage::default()),
            Reported::Lapse => (AttemptOutcome::Failed, Usage::default()),
            Reported::Other => (AttemptOutcome::Stopped, Usage::default()),
        }
    }
}
