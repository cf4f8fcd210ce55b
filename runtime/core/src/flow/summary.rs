//! A flow in one line, for a list: what it is, how many of its jobs have ended, and whether all is over.

use crate::flow::{Batch, BatchStatus, Chain, Family, Tally, percent};
use crate::{Job, JobId, State, StepStatus, Time};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FlowKind {
    Batch,
    Chain,
    /// A job and its children.
    Tree,
}

impl FlowKind {
    pub const ALL: [FlowKind; 3] = [FlowKind::Batch, FlowKind::Chain, FlowKind::Tree];

    pub fn as_str(self) -> &'static str {
        match self {
            FlowKind::Batch => "batch",
            FlowKind::Chain => "chain",
            FlowKind::Tree => "tree",
        }
    }
}

/// Names of steps in the label of a chain.
const STEPS_NAMED: usize = 5;

#[derive(Clone, Debug, PartialEq)]
pub struct FlowSummary {
    pub id: String,
    pub kind: FlowKind,
    /// The queues that it leads through or begins in; of a batch, that of its callback.
    pub label: String,
    pub status: BatchStatus,
    /// Of a tree, the job and its children.
    pub tally: Tally,
    pub percent: f64,
    pub created_at: Time,
    /// When all was over.
    pub ended_at: Option<Time>,
}

impl FlowSummary {
    pub fn of_batch(batch: &Batch) -> FlowSummary {
        FlowSummary {
            id: batch.id.clone(),
            kind: FlowKind::Batch,
            label: batch.callback_queue.as_ref().map(ToString::to_string).unwrap_or_default(),
            status: batch.standing(),
            tally: batch.tally,
            percent: batch.tally.percent(),
            created_at: batch.created_at,
            ended_at: batch.finished_at.filter(|_| batch.standing() == BatchStatus::Finished),
        }
    }

    /// `steps` are the jobs of the chain's steps that there are, in their order. What follows a failure or the end is
    /// not counted.
    pub fn of_chain(first: JobId, chain: &Chain, steps: &[Job]) -> FlowSummary {
        let total = chain.steps.len();
        let at = |step: &Job| step.links.as_ref().and_then(|links| links.chain).map_or(0, |place| place.step as usize);
        // Steps before the first that there is were followed by it, so they had completed when they were removed.
        let removed = steps.first().map_or(0, at) as u64;
        let mut tally = Tally { total: total as u64, completed: removed, ..Tally::default() };
        for step in steps {
            match step.state {
                State::Completed => tally.completed += 1,
                State::Dead => tally.dead += 1,
                State::Cancelled => tally.cancelled += 1,
                _ => {}
            }
        }
        let last = steps.last();
        // A step is followed by the next, unless it failed or said that the chain ends with it.
        let over = last.is_some_and(|last| {
            let follows = last.state == State::Completed && last.step_status != Some(StepStatus::Exit);
            last.is_ended() && (!follows || at(last) + 1 >= total)
        });
        tally.open = if over { 0 } else { tally.total - tally.completed - tally.dead - tally.cancelled };
        let done = (100.0 * removed as f64 + steps.iter().map(percent).sum::<f64>()) / total.max(1) as f64;
        let mut names: Vec<&str> = chain.steps.iter().take(STEPS_NAMED).map(|step| step.queue.as_str()).collect();
        if total > names.len() {
            names.push("…");
        }
        FlowSummary {
            id: Chain::id(first),
            kind: FlowKind::Chain,
            label: names.join(" → "),
            status: if over { BatchStatus::Finished } else { BatchStatus::Running },
            tally,
            percent: if over { 100.0 } else { done },
            created_at: steps.first().map_or(first.time(), |step| step.created_at),
            ended_at: last.filter(|_| over).and_then(end_of),
        }
    }

    pub fn of_tree(root: &Job, family: &Family) -> FlowSummary {
        let mut tally = family.tally;
        tally.total += 1;
        match root.state {
            State::Completed => tally.completed += 1,
            State::Dead => tally.dead += 1,
            State::Cancelled => tally.cancelled += 1,
            _ => tally.open += 1,
        }
        let over = tally.open == 0;
        FlowSummary {
            id: root.id.to_string(),
            kind: FlowKind::Tree,
            label: root.queue.to_string(),
            status: if over { BatchStatus::Finished } else { BatchStatus::Running },
            tally,
            percent: tally.percent(),
            created_at: root.created_at,
            ended_at: end_of(root).filter(|_| over),
        }
    }
}

fn end_of(job: &Job) -> Option<Time> {
    job.completed_at.or(job.failed_at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::{ChainPart, ChainPlace, ChainStep, Links};

    fn id(n: u64) -> JobId {
        JobId::new(Time(n), u128::from(n))
    }

    fn job(n: u64, state: State) -> Job {
        let mut job = Job::new(id(n), "mail".parse().expect("a name"), Time(n));
        job.enter(state, Time(n + 5), "");
        job.completed_at = (state == State::Completed).then_some(Time(n + 5));
        job.failed_at = matches!(state, State::Dead | State::Cancelled).then_some(Time(n + 5));
        job
    }

    fn step(step: u32, state: State) -> Job {
        let mut job = job(u64::from(step) + 10, state);
        let place = ChainPlace { first: id(10), step, part: ChainPart::Step };
        job.links = Some(Box::new(Links { chain: Some(place), ..Links::default() }));
        job
    }

    fn chain(steps: &[Job]) -> FlowSummary {
        let named = |name: &str| ChainStep { queue: name.parse().expect("a name"), payload: None };
        let chain = Chain { steps: vec![named("a"), named("b"), named("c")], ..Chain::default() };
        FlowSummary::of_chain(id(10), &chain, steps)
    }

    #[test]
    fn a_chain_is_over_when_its_last_step_is_or_none_follows() {
        use State::{Active, Completed, Dead};
        for (states, status, open) in [
            (&[Active][..], BatchStatus::Running, 3),
            (&[Completed], BatchStatus::Running, 2),
            (&[Completed, Completed], BatchStatus::Running, 1),
            (&[Completed, Completed, Completed], BatchStatus::Finished, 0),
            (&[Completed, Dead], BatchStatus::Finished, 0),
        ] {
            let steps: Vec<Job> = (0..).zip(states).map(|(at, state)| step(at, *state)).collect();
            let found = chain(&steps);
            assert_eq!((found.status, found.tally.open, found.tally.total), (status, open, 3), "{states:?}");
            assert_eq!(found.ended_at.is_some(), status == BatchStatus::Finished);
        }
        // The first two were removed.
        let found = chain(&[step(2, Active)]);
        assert_eq!((found.tally.completed, found.tally.open, found.status), (2, 1, BatchStatus::Running));
        assert!((found.percent - 200.0 / 3.0).abs() < 1e-9, "{}", found.percent);
        let mut exits = step(0, Completed);
        exits.step_status = Some(StepStatus::Exit);
        let found = chain(&[exits]);
        assert_eq!((found.status, found.percent, &*found.label), (BatchStatus::Finished, 100.0, "a → b → c"));
    }

    #[test]
    fn a_tree_counts_its_root_and_is_over_with_all_of_it() {
        let family = |open, completed| {
            let tally = Tally { total: open + completed, open, completed, ..Tally::default() };
            Family { tally, ..Family::default() }
        };
        let running = FlowSummary::of_tree(&job(1, State::Completed), &family(1, 2));
        assert_eq!((running.status, running.tally.total, running.percent), (BatchStatus::Running, 4, 75.0));
        assert_eq!(running.ended_at, None);
        let over = FlowSummary::of_tree(&job(1, State::Dead), &family(0, 3));
        assert_eq!((over.status, over.tally.dead, over.ended_at), (BatchStatus::Finished, 1, Some(Time(6))));
    }
}
