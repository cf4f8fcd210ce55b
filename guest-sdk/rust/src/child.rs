//! Other jobs that a handler starts.

use std::time::Duration;

use serde::Serialize;

use crate::error::{Error, Result};

/// A job to start. Anything absent is decided by the settings of its queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Child {
    pub queue: String,
    pub payload: Vec<u8>,
    pub priority: Option<Priority>,
    pub delay: Option<Duration>,
    pub max_attempts: Option<u32>,
    pub unique_key: Option<String>,
    pub unique_period: Option<Duration>,
    pub tags: Vec<(String, String)>,
    pub scope: Option<String>,
}

/// The order in which a queue's pending jobs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    Critical,
    High,
    Normal,
    Low,
}

impl Child {
    /// A job with a JSON payload.
    pub fn new(queue: impl Into<String>, payload: &impl Serialize) -> Result<Self> {
        let payload = serde_json::to_vec(payload).map_err(|error| {
            Error::fatal(format_args!("the payload of the child cannot be written as JSON: {error}"))
        })?;
        Ok(Child::raw(queue, payload))
    }

    /// A job with a payload of bytes.
    pub fn raw(queue: impl Into<String>, payload: impl Into<Vec<u8>>) -> Self {
        Child { queue: queue.into(), payload: payload.into(), ..Child::default() }
    }

    #[must_use]
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = Some(priority);
        self
    }

    /// How long it waits before it may start.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }

    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = Some(attempts);
        self
    }

    /// A key that only one job at a time may hold. If another job holds it, this one is not started.
    #[must_use]
    pub fn unique_key(mut self, key: impl Into<String>) -> Self {
        self.unique_key = Some(key.into());
        self
    }

    /// The longest time for which the job may hold the key.
    #[must_use]
    pub fn unique_period(mut self, period: Duration) -> Self {
        self.unique_period = Some(period);
        self
    }

    #[must_use]
    pub fn tag(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.tags.push((name.into(), value.into()));
        self
    }

    /// What it is about, as `type:id`.
    #[must_use]
    pub fn scope(mut self, scope: impl Into<String>) -> Self {
        self.scope = Some(scope.into());
        self
    }
}
