//! What an agent reports at the end of an iteration: that the job is done, that another iteration follows, or that a
//! person must decide.

use crate::decide::checkpoint::take_checkpoint;
use crate::decide::{Draft, ExistingJob, bounded, held_back, make_pending};
use crate::{AgentStatus, Closing, Decision, EventKind, Refusal, State, Time, Token, bounds};

/// What follows the iteration that an ack ends.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum AfterIteration {
    /// The job completes. Every job that is not an agent's ends this way.
    Complete,
    Another,
    Hold(String),
}

/// Stores what came with an ack besides the result.
pub(super) fn close(
    draft: &mut Draft,
    known: &mut ExistingJob<'_>,
    closing: Closing,
    now: Time,
) -> Result<AfterIteration, Refusal> {
    let job = &mut known.job;
    if let Some(spent) = &closing.spent {
        spent.check()?;
        job.spend(spent);
    }
    job.step_status = closing.step;
    job.exit_reason = closing.exit_reason.map(|text| bounded(text, bounds::REASON_BYTES));
    if let Some(checkpoint) = closing.checkpoint {
        take_checkpoint(draft, known, checkpoint, now);
    }
    let Some(status) = closing.agent else { return Ok(AfterIteration::Complete) };
    let job = &mut known.job;
    let agent = job.agent.get_or_insert_default();
    agent.iteration = agent.iteration.saturating_add(1);
    Ok(match status {
        AgentStatus::Done => AfterIteration::Complete,
        AgentStatus::Hold => {
            let reason = closing.hold_reason.unwrap_or_else(|| "held by its handler".to_owned());
            AfterIteration::Hold(bounded(reason, bounds::REASON_BYTES))
        }
        AgentStatus::Continue => match agent.used_up(job.spending.as_deref()) {
            Some(reason) => AfterIteration::Hold(reason),
            None => AfterIteration::Another,
        },
    })
}

/// The iteration is over and the job is not: it is pending again, or held for a person.
pub(super) fn next(
    mut draft: Draft,
    mut known: ExistingJob<'_>,
    next: AfterIteration,
    token: Token,
    now: Time,
) -> Decision {
    let job = &mut known.job;
    let agent = job.agent.get_or_insert_default();
    agent.continued_by = Some(token);
    let iteration = agent.iteration;
    // A whole iteration is progress, with a checkpoint or without.
    job.crashes = 0;
    job.end_run();
    match next {
        AfterIteration::Hold(reason) => {
            job.hold_reason = Some(reason.clone());
            job.enter(State::Held, now, reason.clone());
            draft.event(job, now, EventKind::Held { reason: reason.into() });
        }
        AfterIteration::Another | AfterIteration::Complete => {
            job.enter(State::Pending, now, format!("iteration {iteration} ended, another follows"));
            draft.event(job, now, EventKind::Continued { iteration });
            if held_back(job, known.facts.rounds).is_some() {
                make_pending(&mut draft, job, known.facts.rounds, now, "another iteration");
            }
        }
    }
    draft.now(known.job)
}
