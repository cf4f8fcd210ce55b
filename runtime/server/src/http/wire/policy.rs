//! The policy of a job in requests and answers: the same words for a job, a queue's defaults and a schedule.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_core::PolicyChoice;

use crate::http::transport::error::Result;
use crate::http::wire::aliases;
use crate::http::wire::{BackoffName, PriorityName, Span, Text};

/// As it is sent. Absent fields get the defaults of the queue, then those of the plugin and the server.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
pub struct PolicyBody {
    pub priority: Option<PriorityName>,
    /// The number of runs, including the first.
    pub max_attempts: Option<u32>,
    pub max_retries: Option<u32>,
    pub retry_backoff: Option<BackoffName>,
    pub retry_base_delay: Option<Span>,
    pub retry_max_delay: Option<Span>,
    pub attempt_timeout: Option<Span>,
    pub stall_timeout: Option<Span>,
    pub max_duration: Option<Span>,
    pub lease_duration: Option<Span>,
    pub expire_after: Option<Span>,
    pub ttl: Option<Span>,
}

impl PolicyBody {
    /// `place` is what stands before a field's name in an error.
    pub fn read(self, place: &str) -> Result<PolicyChoice> {
        let span = |span: Option<Span>| span.map(|span| span.0);
        Ok(PolicyChoice {
            priority: self.priority.map(Into::into),
            max_attempts: aliases::max_attempts(place, self.max_attempts, self.max_retries)?,
            backoff: self.retry_backoff.map(Into::into),
            base_delay: span(self.retry_base_delay),
            max_delay: span(self.retry_max_delay),
            attempt_timeout: span(self.attempt_timeout),
            stall_timeout: span(self.stall_timeout),
            max_duration: span(self.max_duration),
            expire_after: span(self.expire_after),
            lease: span(self.lease_duration),
            ttl: span(self.ttl),
        })
    }
}

/// As it is shown: only the fields that were set.
#[derive(Debug, Serialize, ToSchema)]
pub struct PolicyView {
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<PriorityName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_retries: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_backoff: Option<BackoffName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_base_delay: Option<Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_max_delay: Option<Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt_timeout: Option<Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stall_timeout: Option<Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_duration: Option<Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_duration: Option<Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expire_after: Option<Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<Text>,
}

impl From<PolicyChoice> for PolicyView {
    fn from(choice: PolicyChoice) -> PolicyView {
        let text = |span: Option<Duration>| span.map(Text);
        PolicyView {
            priority: choice.priority.map(Into::into),
            max_attempts: choice.max_attempts,
            max_retries: choice.max_attempts,
            retry_backoff: choice.backoff.map(Into::into),
            retry_base_delay: text(choice.base_delay),
            retry_max_delay: text(choice.max_delay),
            attempt_timeout: text(choice.attempt_timeout),
            stall_timeout: text(choice.stall_timeout),
            max_duration: text(choice.max_duration),
            lease_duration: text(choice.lease),
            expire_after: text(choice.expire_after),
            ttl: text(choice.ttl),
        }
    }
}
