//! The attempts of a job: who ran each, what it used, why it failed, and the steps of the timeline.

use serde::Serialize;
use utoipa::ToSchema;
use windlass_core::{AttemptError, Runner, Step, Usage};

use crate::http::wire::{Rfc3339, StateName};

/// The plugin or the external worker that ran it.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct RunnerView {
    #[serde(skip_serializing_if = "Option::is_none")]
    plugin: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plugin_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    worker: Option<WorkerView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    worker_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hostname: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
struct WorkerView {
    id: String,
    hostname: String,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ErrorView {
    attempt: u32,
    error: String,
    backtrace: Option<String>,
    at: Rfc3339,
    created_at: Rfc3339,
    #[serde(flatten)]
    runner: RunnerView,
    #[serde(flatten)]
    usage: UsageView,
}

/// What an attempt of a plugin used.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct UsageView {
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wall_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    peak_memory: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    host_calls: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    log_bytes: Option<u64>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct StepView {
    at: Rfc3339,
    #[schema(value_type = StateName)]
    state: &'static str,
    attempt: u32,
    reason: String,
    /// The attempt that ended here without a failure: handed back, moved to another version, or stopped.
    #[serde(flatten)]
    runner: RunnerView,
    #[serde(flatten)]
    usage: UsageView,
}

impl From<Runner> for RunnerView {
    fn from(runner: Runner) -> RunnerView {
        match runner {
            Runner::Local { plugin, version } => {
                RunnerView { plugin: Some(plugin.to_string()), plugin_version: Some(version), ..RunnerView::default() }
            }
            Runner::External { worker_id, hostname } => RunnerView {
                worker: Some(WorkerView { id: worker_id.clone(), hostname: hostname.clone() }),
                worker_id: Some(worker_id),
                hostname: Some(hostname),
                ..RunnerView::default()
            },
        }
    }
}

impl From<AttemptError> for ErrorView {
    fn from(error: AttemptError) -> ErrorView {
        ErrorView {
            attempt: error.attempt,
            error: error.error,
            backtrace: error.backtrace,
            at: Rfc3339(error.at),
            created_at: Rfc3339(error.at),
            runner: error.runner.into(),
            usage: usage_view(error.usage).unwrap_or_default(),
        }
    }
}

/// Only attempts of plugins are measured.
pub fn usage_view(usage: Usage) -> Option<UsageView> {
    (usage != Usage::default()).then_some(UsageView {
        cpu_ms: Some(usage.cpu_ms),
        wall_ms: Some(usage.wall_ms),
        peak_memory: Some(usage.peak_memory),
        host_calls: Some(usage.host_calls),
        log_bytes: Some(usage.log_bytes),
    })
}

impl From<&Step> for StepView {
    fn from(step: &Step) -> StepView {
        let reason = step.reason.to_string();
        let (runner, usage) = match step.ran.as_deref() {
            Some(ran) => (ran.runner.clone().into(), usage_view(ran.usage).unwrap_or_default()),
            None => (RunnerView::default(), UsageView::default()),
        };
        StepView { at: Rfc3339(step.at), state: step.state.as_str(), attempt: step.attempt, reason, runner, usage }
    }
}
