//! `GET /jobs/{id}/attempts`: every attempt of a job, those that have ended and the one that runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use serde::Serialize;
use utoipa::ToSchema;
use windlass_core::{Denial, Job, LimitKind, PastAttempt, Refusal, Time, queued_at};
use windlass_store::{AttemptRow, Clock};

use crate::denials::command_for;
use crate::dispatcher::RunningAttempt;
use crate::http::Api;
use crate::http::jobs::attempt::{RunnerView, UsageView, usage_view};
use crate::http::live::attempts::live_of;
use crate::http::live::view::LiveView;
use crate::http::transport::error::Result;
use crate::http::transport::extract::JobPath;
use crate::http::wire::Rfc3339;

#[derive(Debug, Serialize, ToSchema)]
pub struct JobAttempts {
    /// How many times the job was started.
    total: u32,
    /// How many of them are not listed: only the latest are stored.
    before: u32,
    /// Oldest first.
    attempts: Vec<AttemptView>,
}

/// One attempt of a job.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct AttemptView {
    /// From 1, and never again the same.
    number: u32,
    /// What handlers see: begins again at 1 when the job is retried by hand.
    attempt: u32,
    /// `running`, `completed`, `failed`, `crashed` (the server died), `handed_back`, `stopped`, `waits` (for its
    /// children), `continued` (another iteration follows), or `unknown`.
    outcome: &'static str,
    reason: Option<String>,
    /// When the job became pending for it.
    queued_at: Option<Rfc3339>,
    started_at: Option<Rfc3339>,
    ended_at: Option<Rfc3339>,
    waited_ms: Option<u64>,
    ran_ms: Option<u64>,
    /// How long the job was put off after it, and until when.
    backoff_ms: Option<u64>,
    next_at: Option<Rfc3339>,
    error: Option<String>,
    backtrace: Option<String>,
    /// Whether it ran on a canary.
    canary: bool,
    #[serde(flatten)]
    runner: RunnerView,
    #[serde(flatten)]
    usage: UsageView,
    /// The limits that it ran into: `memory`, `cpu_time`, `attempt_timeout`, `stall_timeout`, `log`, `checkpoint`,
    /// `result`, `children` or `http`.
    hits: Vec<&'static str>,
    /// What it was denied.
    denials: Vec<DenialView>,
    /// What it uses now, if it runs in the sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    live: Option<LiveView>,
}

/// Something that an attempt tried and that its plugin is not granted.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct DenialView {
    /// The field of a grant that would allow it: `http`, `private_http`, `secrets` or `spawn`.
    capability: String,
    /// What it tried: a host, the name of a secret, a queue.
    wanted: String,
    at: Rfc3339,
    job_id: String,
    /// What to add to the plugin's grant to allow it.
    #[schema(value_type = Object)]
    grant: BTreeMap<String, [String; 1]>,
    /// The command that does that.
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
}

impl DenialView {
    pub fn of(denial: Denial, job: &windlass_core::JobId, plugin: Option<&str>) -> DenialView {
        DenialView {
            command: plugin.map(|plugin| command_for(&denial, plugin)),
            grant: [(denial.capability.clone(), [denial.grant])].into(),
            capability: denial.capability,
            wanted: denial.wanted,
            at: Rfc3339(denial.at),
            job_id: job.to_string(),
        }
    }
}

/// List the attempts of a job: how long each waited and ran, who ran it, how it ended, and what it used
///
/// The latest 100 are stored, and removed with the job.
#[utoipa::path(get, path = "/jobs/{id}/attempts", tag = "jobs", responses((status = 200, body = JobAttempts)))]
pub async fn of_job(api: Api, JobPath(id): JobPath) -> Result<Json<JobAttempts>> {
    let store = api.store.frozen();
    let job = store.job(id).await?.ok_or_else(|| Refusal::not_found("job", id))?;
    let rows = store.attempts(id).await?;
    let now = (api.clock.now(), Instant::now());
    let attempts = views(&job, rows, &api.running.list(), now);
    let before = job.fence.saturating_sub(u32::try_from(attempts.len()).unwrap_or(u32::MAX));
    Ok(Json(JobAttempts { total: job.fence, before, attempts }))
}

fn views(job: &Job, rows: Vec<AttemptRow>, running: &[Arc<RunningAttempt>], now: (Time, Instant)) -> Vec<AttemptView> {
    let mut views: BTreeMap<u32, AttemptView> = BTreeMap::new();
    for row in rows {
        views.insert(row.number, AttemptView::of_row(row, job));
    }
    // One that completed the job without anything unusual is told by the job.
    if let Some(past) = PastAttempt::of_completed(job).filter(|past| !views.contains_key(&past.number)) {
        views.insert(past.number, AttemptView::of_past(past, job));
    }
    if let Some(run) = &job.run {
        let queued = queued_at(job, job.attempt);
        let live = live_of(running, job, now);
        views.insert(
            job.fence,
            AttemptView {
                number: job.fence,
                attempt: job.attempt,
                outcome: "running",
                queued_at: queued.map(Rfc3339),
                started_at: Some(Rfc3339(run.started_at)),
                waited_ms: queued.map(|queued| millis(queued, run.started_at)),
                ran_ms: Some(millis(run.started_at, now.0)),
                canary: run.canary,
                runner: run.runner.clone().into(),
                hits: live.as_ref().map(|live| live.hits().to_vec()).unwrap_or_default(),
                live,
                ..AttemptView::default()
            },
        );
    }
    views.into_values().collect()
}

impl AttemptView {
    fn of_row(row: AttemptRow, job: &Job) -> AttemptView {
        let AttemptRow { number, past, error } = row;
        let mut view = match past {
            Some(past) => AttemptView::of_past(past, job),
            // Stored before attempts were: what its error says is all there is.
            None => AttemptView { number, outcome: "unknown", ..AttemptView::default() },
        };
        if let Some(error) = error {
            if view.ended_at.is_none() {
                view.attempt = error.attempt;
                view.outcome = "failed";
                view.ended_at = Some(Rfc3339(error.at));
                view.runner = error.runner.into();
                view.usage = usage_view(error.usage).unwrap_or_default();
            }
            view.error = Some(error.error);
            view.backtrace = error.backtrace;
        }
        view
    }

    fn of_past(past: PastAttempt, job: &Job) -> AttemptView {
        let plugin = match &past.runner {
            windlass_core::Runner::Local { plugin, .. } => Some(plugin.to_string()),
            windlass_core::Runner::External { .. } => None,
        };
        let denials = past.findings.denials.into_iter();
        AttemptView {
            number: past.number,
            attempt: past.attempt,
            outcome: past.outcome.as_str(),
            reason: Some(past.reason.into_owned()).filter(|reason| !reason.is_empty()),
            queued_at: past.queued_at.map(Rfc3339),
            started_at: Some(Rfc3339(past.started_at)),
            ended_at: Some(Rfc3339(past.ended_at)),
            waited_ms: past.queued_at.map(|queued| millis(queued, past.started_at)),
            ran_ms: Some(millis(past.started_at, past.ended_at)),
            backoff_ms: past.next_at.map(|next| millis(past.ended_at, next)),
            next_at: past.next_at.map(Rfc3339),
            canary: past.canary,
            runner: past.runner.into(),
            usage: usage_view(past.usage).unwrap_or_default(),
            hits: past.findings.hits.iter().map(LimitKind::as_str).collect(),
            denials: denials.map(|denial| DenialView::of(denial, &job.id, plugin.as_deref())).collect(),
            ..AttemptView::default()
        }
    }
}

fn millis(from: Time, to: Time) -> u64 {
    u64::try_from(to.since(from).as_millis()).unwrap_or(u64::MAX)
}
