//! Chains in the requests of producers, and in responses about jobs.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use windlass_core::flow::{Chain, ChainStep};
use windlass_core::{Name, QueueName};

use crate::http::transport::error::{Error, Result};
use crate::http::transport::extract::Body;
use crate::http::wire::{NameText, Shown};

/// Steps that follow each other, each with the result of the one before.
#[derive(Debug, Deserialize, ToSchema)]
pub struct ChainBody<'a> {
    /// At least two; the first is the job itself.
    #[serde(borrow)]
    #[schema(value_type = Vec<StepBody>, min_items = 2)]
    steps: Vec<StepBody<'a>>,
    /// The job to run when a step dies: a step, or the name of a queue.
    #[serde(borrow, default)]
    #[schema(value_type = Option<StepBody>)]
    on_failure: Option<StepOrQueue<'a>>,
    /// The job to run after the last step, and after one that ends the chain with `step_status: exit`.
    #[serde(borrow, default)]
    #[schema(value_type = Option<StepBody>)]
    on_exit: Option<StepOrQueue<'a>>,
}

#[derive(Debug, Deserialize, ToSchema)]
pub struct StepBody<'a> {
    #[schema(value_type = NameText)]
    queue: String,
    /// Its fields are added to, and replace, `previous_job_id` and `previous_result`.
    #[serde(borrow, default)]
    #[schema(value_type = serde_json::Value)]
    payload: Option<&'a RawValue>,
}

/// A step, or only its queue. Read later: serde cannot borrow it through an untagged enum.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
struct StepOrQueue<'a>(#[serde(borrow)] &'a RawValue);

impl<'a> StepOrQueue<'a> {
    fn read(&self, body: &Body, place: &str) -> Result<StepBody<'a>> {
        let wrong = || Error::field(place, "a step {\"queue\": …, \"payload\": …}, or the name of a queue");
        match self.0.get().as_bytes().first() {
            Some(b'"') => {
                let queue = serde_json::from_str(self.0.get()).map_err(|_| wrong())?;
                Ok(StepBody { queue, payload: None })
            }
            Some(b'{') => body.json_part(self.0, place),
            _ => Err(wrong()),
        }
    }
}

impl<'a> ChainBody<'a> {
    /// The job is the first step, and uses that step's payload if it has none of its own.
    pub fn first_payload(&self) -> Option<&'a RawValue> {
        self.steps.first().and_then(|step| step.payload)
    }

    pub fn into_chain(self, body: &Body, place: &str) -> Result<Chain> {
        let step = |step: StepBody<'_>, field: &str| -> Result<ChainStep> {
            let queue = Name::parse("queue", &step.queue)
                .map_err(|error| Error::invalid(format!("{place}{field}: {error}, not {:?}", step.queue)))?;
            Ok(ChainStep { queue, payload: step.payload.map(|raw| body.part(raw).to_vec()) })
        };
        let either = |one: StepOrQueue<'_>, field: &str| step(one.read(body, &format!("{place}{field}"))?, field);
        let steps = self.steps.into_iter().enumerate();
        Ok(Chain {
            steps: steps.map(|(index, one)| step(one, &format!("steps[{index}]"))).collect::<Result<_>>()?,
            on_failure: self.on_failure.map(|one| either(one, "on_failure")).transpose()?,
            on_exit: self.on_exit.map(|one| either(one, "on_exit")).transpose()?,
            references: 0,
        })
    }
}

/// A chain in the response about one of its jobs.
#[derive(Debug, Serialize, ToSchema)]
pub struct ChainView {
    steps: Vec<ChainStepView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_failure: Option<ChainStepView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_exit: Option<ChainStepView>,
}

#[derive(Debug, Serialize, ToSchema)]
struct ChainStepView {
    #[schema(value_type = NameText)]
    queue: QueueName,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = serde_json::Value)]
    payload: Option<Shown>,
}

impl From<Chain> for ChainView {
    fn from(chain: Chain) -> ChainView {
        let step = |step: ChainStep| ChainStepView {
            queue: step.queue,
            payload: step.payload.map(|bytes| Shown(bytes.into())),
        };
        ChainView {
            steps: chain.steps.into_iter().map(step).collect(),
            on_failure: chain.on_failure.map(step),
            on_exit: chain.on_exit.map(step),
        }
    }
}
