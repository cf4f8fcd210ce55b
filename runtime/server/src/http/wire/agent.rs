//! What handlers that work in iterations send and receive: `agent`, `usage`, `agent_status`, `step_status`. The rules
//! are in `windlass_core::agent`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_core::{Agent, AgentStatus, ModelUsage, ModelUsageTotals, StepStatus};

use crate::http::wire::{Span, Text, wire_enum};

wire_enum!(StepStatusName = StepStatus { Continue, Exit });
wire_enum!(AgentStatusName = AgentStatus { Continue, Done, Hold });

/// The limits of an agent. When one is reached, the job is held until a person decides.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub struct AgentBody {
    max_iterations: Option<u32>,
    max_cost_usd: Option<f64>,
    iteration_timeout: Option<Span>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct AgentAnswer {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_iterations: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_cost_usd: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    iteration_timeout: Option<Text>,
    /// Iterations that have ended.
    iteration: u32,
}

/// What was used. Each report is added to those before it.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct TokenUsage {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
    #[serde(default)]
    cache_creation_tokens: u64,
    #[serde(default)]
    cache_read_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<String>,
    #[serde(default)]
    cost_usd: f64,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct AttemptUsage {
    attempt: u32,
    #[serde(flatten)]
    usage: TokenUsage,
}

impl From<AgentBody> for Agent {
    fn from(body: AgentBody) -> Agent {
        Agent {
            max_iterations: body.max_iterations,
            max_cost_usd: body.max_cost_usd,
            iteration_timeout: body.iteration_timeout.map(|span| span.0),
            ..Agent::default()
        }
    }
}

impl From<Agent> for AgentAnswer {
    fn from(agent: Agent) -> AgentAnswer {
        AgentAnswer {
            max_iterations: agent.max_iterations,
            max_cost_usd: agent.max_cost_usd,
            iteration_timeout: agent.iteration_timeout.map(Text),
            iteration: agent.iteration,
        }
    }
}

impl From<TokenUsage> for ModelUsage {
    fn from(usage: TokenUsage) -> ModelUsage {
        ModelUsage {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cache_creation_tokens: usage.cache_creation_tokens,
            cache_read_tokens: usage.cache_read_tokens,
            model: usage.model,
            provider: usage.provider,
            cost_usd: usage.cost_usd,
        }
    }
}

impl From<ModelUsage> for TokenUsage {
    fn from(spent: ModelUsage) -> TokenUsage {
        TokenUsage {
            input_tokens: spent.input_tokens,
            output_tokens: spent.output_tokens,
            cache_creation_tokens: spent.cache_creation_tokens,
            cache_read_tokens: spent.cache_read_tokens,
            model: spent.model,
            provider: spent.provider,
            cost_usd: spent.cost_usd,
        }
    }
}

/// The sum, and the latest attempts one by one.
pub fn usage(spending: Option<Box<ModelUsageTotals>>) -> (Option<TokenUsage>, Option<Vec<AttemptUsage>>) {
    let Some(spending) = spending else { return (None, None) };
    let attempts = spending.attempts.into_iter();
    let attempts = attempts.map(|(attempt, spent)| AttemptUsage { attempt, usage: spent.into() }).collect();
    (Some(spending.total.into()), Some(attempts))
}
