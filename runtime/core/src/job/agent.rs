//! Handlers that work in iterations: what an ack may say besides the result, how many iterations a job may take, and
//! what was spent.
//!
//! An agent acks each iteration with `continue` (another iteration from this checkpoint), `hold` (a person should look)
//! or `done`. Iterations and cost are counted here; when one is used up the job is held, so that a person decides and
//! no work is lost.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Checkpoint, Job, Refusal, Token, bounds};

/// What is reported at the end of an attempt, besides the result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Closing {
    /// Whether the chain that the job is a step of continues.
    pub step: Option<StepStatus>,
    pub agent: Option<AgentStatus>,
    pub hold_reason: Option<String>,
    pub exit_reason: Option<String>,
    pub checkpoint: Option<Checkpoint>,
    pub spent: Option<ModelUsage>,
}

/// What becomes of a chain after this step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StepStatus {
    Continue,
    /// The chain ends here, successfully.
    Exit,
}

/// What becomes of an agent's job after this iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AgentStatus {
    Continue,
    Done,
    Hold,
}

/// How far an agent may go, and how far it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Agent {
    pub max_iterations: Option<u32>,
    pub max_cost_usd: Option<f64>,
    /// The longest one iteration may take.
    pub iteration_timeout: Option<Duration>,
    /// Iterations that have ended.
    pub iteration: u32,
    /// The token of the ack that ended the last iteration, so that its repetition is answered as the first was.
    pub continued_by: Option<Token>,
}

/// What an attempt paid for: tokens of a model, and money.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelUsage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cache_creation_tokens: u64,
    pub cache_read_tokens: u64,
    /// The last ones named.
    pub model: Option<String>,
    pub provider: Option<String>,
    pub cost_usd: f64,
}

/// What a job has cost: in all, and by attempt, the latest ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelUsageTotals {
    pub total: ModelUsage,
    pub attempts: Vec<(u32, ModelUsage)>,
}

impl Agent {
    pub fn check(&self) -> Result<(), Refusal> {
        if self.max_iterations == Some(0) {
            return Err(Refusal::invalid("agent", "`max_iterations` is at least 1; leave it out for no bound"));
        }
        if self.max_cost_usd.is_some_and(|cost| !cost.is_finite() || cost < 0.0) {
            return Err(Refusal::invalid("agent", "`max_cost_usd` is zero or more"));
        }
        if self.iteration_timeout.is_some_and(|span| span.is_zero() || span > bounds::LONGEST) {
            return Err(Refusal::invalid("agent", "`iteration_timeout` is more than zero and at most ten years"));
        }
        Ok(())
    }

    /// Why there is no further iteration, if that is so.
    pub(crate) fn used_up(&self, spent: Option<&ModelUsageTotals>) -> Option<String> {
        if let Some(most) = self.max_iterations.filter(|most| self.iteration >= *most) {
            return Some(format!("max_iterations reached: {} of {most}", self.iteration));
        }
        let cost = spent.map_or(0.0, |spending| spending.total.cost_usd);
        let most = self.max_cost_usd.filter(|most| cost >= *most)?;
        Some(format!("max_cost_usd reached: {cost} of {most}"))
    }
}

impl ModelUsage {
    pub fn check(&self) -> Result<(), Refusal> {
        if !self.cost_usd.is_finite() || self.cost_usd < 0.0 {
            return Err(Refusal::invalid("usage", "`cost_usd` is zero or more"));
        }
        Ok(())
    }

    fn add(&mut self, more: &ModelUsage) {
        self.input_tokens = self.input_tokens.saturating_add(more.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(more.output_tokens);
        self.cache_creation_tokens = self.cache_creation_tokens.saturating_add(more.cache_creation_tokens);
        self.cache_read_tokens = self.cache_read_tokens.saturating_add(more.cache_read_tokens);
        self.cost_usd += more.cost_usd;
        for (place, name) in [(&mut self.model, &more.model), (&mut self.provider, &more.provider)] {
            if let Some(name) = name {
                let mut name = name.clone();
                name.truncate(name.floor_char_boundary(bounds::NAME_BYTES));
                *place = Some(name);
            }
        }
    }
}

impl Job {
    /// One more report of what the present attempt paid for: reports add up.
    pub(crate) fn spend(&mut self, spent: &ModelUsage) {
        let spending = self.spending.get_or_insert_default();
        spending.total.add(spent);
        match spending.attempts.last_mut() {
            Some((attempt, sum)) if *attempt == self.attempt => sum.add(spent),
            _ => {
                if spending.attempts.len() >= bounds::SPENDING_ATTEMPTS {
                    spending.attempts.remove(0);
                }
                let mut first = ModelUsage::default();
                first.add(spent);
                spending.attempts.push((self.attempt, first));
            }
        }
    }
}
