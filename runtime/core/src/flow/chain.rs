//! Chains: steps that follow each other, each with the result of the one before.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::flow::Links;
use crate::flow::payload::{over, raw, value};
use crate::{Body, BodyRef, Job, JobId, NewJob, PolicyChoice, QueueName, Refusal, State, StepStatus, bounds};

/// What was asked for: kept once for all jobs of the chain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Chain {
    pub steps: Vec<ChainStep>,
    pub on_failure: Option<ChainStep>,
    pub on_exit: Option<ChainStep>,
    /// Jobs of the chain that are still stored. The chain is deleted with the last of them.
    pub kept_by: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChainStep {
    pub queue: QueueName,
    pub payload: Option<Vec<u8>>,
}

/// Where in a chain a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainPlace {
    /// The first job of the chain, by which the chain is known.
    pub first: JobId,
    /// From 0; for `on_failure` and `on_exit`, that of the step they follow.
    pub step: u32,
    pub part: ChainPart,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChainPart {
    Step,
    OnFailure,
    OnExit,
}

impl ChainPlace {
    /// The chain's id, as people see it.
    pub fn chain_id(&self) -> String {
        Chain::id(self.first)
    }
}

impl Chain {
    pub fn id(first: JobId) -> String {
        first.to_string().replacen("job_", "chain_", 1)
    }

    /// The first job of the chain of this id.
    pub fn first(id: &str) -> Option<JobId> {
        format!("job_{}", id.strip_prefix("chain_")?).parse().ok()
    }

    pub fn check(&self, queue: &QueueName) -> Result<(), Refusal> {
        if !(2..=bounds::CHAIN_STEPS).contains(&self.steps.len()) {
            let why = format!("`steps` has 2 to {} steps, not {}", bounds::CHAIN_STEPS, self.steps.len());
            return Err(Refusal::invalid("chain", why));
        }
        if self.steps.first().is_some_and(|first| first.queue != *queue) {
            return Err(Refusal::invalid(
                "chain",
                format!("its first step is the job itself, so its queue is `{queue}`"),
            ));
        }
        let all = self.steps.iter().chain(&self.on_failure).chain(&self.on_exit);
        let bytes: usize = all.filter_map(|step| step.payload.as_ref()).map(Vec::len).sum();
        if bytes > bounds::CHAIN_BYTES {
            let why = format!("its payloads have at most {} bytes together, not {bytes}", bounds::CHAIN_BYTES);
            return Err(Refusal::invalid("chain", why));
        }
        Ok(())
    }

    /// The job that follows one of the chain that has ended, if any does. `result` is its result, when that is small
    /// enough to be handed on; a larger one is handed on by reference.
    pub fn next(&self, job: &Job, result: Option<&[u8]>) -> Option<NewJob> {
        let place = job.links.as_ref().and_then(|links| links.chain).filter(|place| place.part == ChainPart::Step)?;
        let exits = job.step_status == Some(StepStatus::Exit);
        let (part, step) = match job.state {
            State::Completed => match self.steps.get(place.step as usize + 1).filter(|_| !exits) {
                Some(step) => (ChainPart::Step, step),
                None => (ChainPart::OnExit, self.on_exit.as_ref()?),
            },
            State::Dead => (ChainPart::OnFailure, self.on_failure.as_ref()?),
            // Whoever cancels a step wants the chain to stop.
            _ => return None,
        };
        let told = match part {
            ChainPart::OnFailure => BTreeMap::from([
                ("failed_job_id", raw(&job.id.to_string())),
                ("failed_step", raw(&place.step)),
                ("error", raw(job.last_error.as_deref().unwrap_or("it died without an error"))),
            ]),
            ChainPart::Step | ChainPart::OnExit => BTreeMap::from([
                ("previous_job_id", raw(&job.id.to_string())),
                (
                    "previous_result",
                    match (job.result, result) {
                        (BodyRef::None, _) => raw(&()),
                        (_, Some(bytes)) => value(bytes),
                        (_, None) => raw(&BTreeMap::from([("$result_of", job.id.to_string())])),
                    },
                ),
            ]),
        };
        let next = place.step + u32::from(part == ChainPart::Step);
        let place = ChainPlace { step: next, part, ..place };
        Some(NewJob {
            id: Some(JobId::of_chain(place.first, next, part as u8)),
            queue: Some(step.queue.clone()),
            payload: Some(Body::Inline(over(told, step.payload.as_deref()))),
            policy: PolicyChoice { priority: Some(job.priority), ..PolicyChoice::default() },
            tags: job.tags.clone(),
            scope: job.scope.clone(),
            limit_key: job.limit_key.clone(),
            batch_id: job.batch_id.clone(),
            created_by: job.created_by.clone(),
            links: Some(Box::new(Links { chain: Some(place), ..Links::default() })),
            ..NewJob::default()
        })
    }
}
