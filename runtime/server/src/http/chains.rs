//! Chains as producers write them, and as jobs show them.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use windlass_core::flow::{Chain, ChainStep};
use windlass_core::{Name, QueueName};

use super::error::{Error, Result};
use super::read::Body;
use super::wire::{NameText, Shown};

/// Steps that follow each other, each with the result of the one before.
#[derive(Debug, Deserialize, ToSchema)]
pub struct ChainBody<'a> {
    /// At least two; the first is the job itself.
    #[serde(borrow)]
    #[schema(value_type = Vec<StepBody>, min_items = 2)]
    steps: Vec<StepBody<'a>>,
    /// What is run when a step dies: a step, or the name of a queue.
    #[serde(borrow, default)]
    #[schema(value_type = Option<StepBody>)]
    on_failure: Option<StepOrQueue<'a>>,
    /// What is run after the last step, and after one that ends the chain with `step_status: exit`.
    #[serde(borrow, default)]
    #[schema(value_type = Option<StepBody>)]
    on_exit: Option<StepOrQueue<'a>>,
}

#[derive(Debug, Deserialize, ToSchema)]
pub struct StepBody<'a> {
    #[schema(value_type = NameText)]
    queue: String,
    /// Laid over `previous_job_id` and `previous_result`.
    #[serde(borrow, default)]
    #[schema(value_type = serde_json::Value)]
    payload: Option<&'a RawValue>,
}

/// A step, or only its queue. Read from the raw text: serde cannot borrow it through an untagged enum.
#[derive(Debug)]
struct StepOrQueue<'a>(StepBody<'a>);

impl<'de: 'a, 'a> Deserialize<'de> for StepOrQueue<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<StepOrQueue<'a>, D::Error> {
        use serde::de::Error as _;
        let raw = <&'de RawValue>::deserialize(deserializer)?;
        let step = if raw.get().starts_with('"') {
            serde_json::from_str(raw.get()).map(|queue| StepBody { queue, payload: None })
        } else {
            serde_json::from_str(raw.get())
        };
        step.map(StepOrQueue)
            .map_err(|_| D::Error::custom("a step {\"queue\": …, \"payload\": …}, or the name of a queue"))
    }
}

impl<'a> ChainBody<'a> {
    /// The job is the first step: it takes that one's payload when it has none of its own.
    pub fn first_payload(&self) -> Option<&'a RawValue> {
        self.steps.first().and_then(|step| step.payload)
    }

    pub fn into_chain(self, body: &Body, place: &str) -> Result<Chain> {
        let step = |step: StepBody<'_>, field: &str| -> Result<ChainStep> {
            let queue = Name::parse("queue", &step.queue)
                .map_err(|error| Error::invalid(format!("{place}{field}: {error}, not {:?}", step.queue)))?;
            Ok(ChainStep { queue, payload: step.payload.map(|raw| body.part(raw).to_vec()) })
        };
        let steps = self.steps.into_iter().enumerate();
        Ok(Chain {
            steps: steps.map(|(index, one)| step(one, &format!("steps[{index}]"))).collect::<Result<_>>()?,
            on_failure: self.on_failure.map(|one| step(one.0, "on_failure")).transpose()?,
            on_exit: self.on_exit.map(|one| step(one.0, "on_exit")).transpose()?,
            kept_by: 0,
        })
    }
}

/// A chain as its jobs show it.
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
