//! One attempt of a job that has ended, as the store keeps it: when, who, how it ended, what it used.
//!
//! An attempt that completed its job and met nothing unusual is told by the job itself; it gets a row of its own when
//! the job is taken up again. Most jobs complete in their first attempt, so most have no row here.

use serde::{Deserialize, Serialize};

use crate::{Findings, Job, Reason, Runner, State, Step, Time, Usage};

/// An attempt that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastAttempt {
    /// Which claim of the job it was. Other than the attempt, it never begins again at 1.
    pub number: u32,
    pub attempt: u32,
    /// When the job became pending for it; unknown if its timeline has dropped that.
    pub queued_at: Option<Time>,
    pub started_at: Time,
    pub ended_at: Time,
    pub outcome: AttemptOutcome,
    /// Why, as the timeline says.
    pub reason: Reason,
    /// When the job runs again, if it waits for that.
    pub next_at: Option<Time>,
    pub runner: Runner,
    pub canary: bool,
    pub usage: Usage,
    pub findings: Findings,
}

/// How an attempt has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AttemptOutcome {
    Completed,
    Failed,
    /// The process died while it ran in it.
    Crashed,
    /// Given back unfinished, or handed over to another version.
    HandedBack,
    /// Because somebody wanted it, or its job had expired.
    Stopped,
    /// For the job's children.
    Waits,
    /// An iteration of an agent; another one follows.
    Continued,
}

impl AttemptOutcome {
    pub const ALL: [AttemptOutcome; 7] = [
        AttemptOutcome::Completed,
        AttemptOutcome::Failed,
        AttemptOutcome::Crashed,
        AttemptOutcome::HandedBack,
        AttemptOutcome::Stopped,
        AttemptOutcome::Waits,
        AttemptOutcome::Continued,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            AttemptOutcome::Completed => "completed",
            AttemptOutcome::Failed => "failed",
            AttemptOutcome::Crashed => "crashed",
            AttemptOutcome::HandedBack => "handed_back",
            AttemptOutcome::Stopped => "stopped",
            AttemptOutcome::Waits => "waits",
            AttemptOutcome::Continued => "continued",
        }
    }
}

impl PastAttempt {
    /// The attempt that completed a job, as the job tells it.
    pub fn of_completed(job: &Job) -> Option<PastAttempt> {
        if job.state != State::Completed {
            return None;
        }
        Some(PastAttempt {
            number: job.fence,
            attempt: job.attempt,
            queued_at: queued_at(job, job.attempt),
            started_at: job.started_at?,
            ended_at: job.completed_at?,
            outcome: AttemptOutcome::Completed,
            reason: "completed".into(),
            next_at: None,
            runner: job.ran_by.clone()?,
            canary: false,
            usage: job.usage.unwrap_or_default(),
            findings: Findings::default(),
        })
    }
}

/// When a job became pending before its latest attempt of this number, as far as its timeline still says.
pub fn queued_at(job: &Job, attempt: u32) -> Option<Time> {
    let is_own = |step: &Step| step.state == State::Active && step.attempt == attempt;
    let steps = &job.timeline.steps;
    let last = steps.iter().rposition(is_own)?;
    // What is noted while it runs, or while it waits, is a step too.
    let before = steps[..last].iter().rev().skip_while(|step| is_own(step));
    before.take_while(|step| step.state == State::Pending).last().map(|step| step.at)
}
