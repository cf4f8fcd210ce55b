//! `GET /attempts`: the attempts that run now, in the sandbox and on external workers.

use std::collections::HashMap;
use std::time::Instant;

use axum::Json;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windlass_core::{Job, JobId, Name, QueueName, Runner, State as JobState};
use windlass_store::{Clock, JobList};

use crate::dispatcher::RunningAttempt;
use crate::http::Api;
use crate::http::jobs::attempt::RunnerView;
use crate::http::jobs::view::ProgressView;
use crate::http::live::view::LiveView;
use crate::http::transport::error::{Error, Result};
use crate::http::transport::extract::Query;
use crate::http::wire::{NameText, Rfc3339};
use crate::limits;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct AttemptsQuery {
    /// Only those of jobs of this queue.
    queue: Option<String>,
    /// Only those of this plugin.
    plugin: Option<String>,
    /// How many at most, 1 to 1000; those that began last come first.
    limit: Option<usize>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct RunningAnswer {
    attempts: Vec<AttemptNow>,
    /// How many run, whether they are listed or not.
    total: u64,
}

/// An attempt that runs now.
#[derive(Debug, Serialize, ToSchema)]
pub struct AttemptNow {
    job_id: String,
    #[schema(value_type = NameText)]
    queue: QueueName,
    attempt: u32,
    max_attempts: u32,
    /// `sandbox` or `worker`.
    runs_in: &'static str,
    /// The plugin with its version, or the external worker.
    #[serde(flatten)]
    runner: RunnerView,
    /// Whether it runs on a canary.
    canary: bool,
    started_at: Option<Rfc3339>,
    /// The last report that was stored: progress, a checkpoint, a heartbeat.
    heartbeat_at: Option<Rfc3339>,
    /// When the lease of an external worker ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_expires_at: Option<Rfc3339>,
    progress: Option<ProgressView>,
    /// What it uses; `null` on a worker.
    live: Option<LiveView>,
}

/// List the attempts that run now, with what they use and may use
///
/// Those that began last come first.
#[utoipa::path(
    get,
    path = "/attempts",
    tag = "jobs",
    params(AttemptsQuery),
    responses((status = 200, body = RunningAnswer))
)]
pub async fn list(api: Api, Query(query): Query<AttemptsQuery>) -> Result<Json<RunningAnswer>> {
    let limit = query.limit.unwrap_or(limits::PAGE);
    if !(1..=limits::PAGE_MOST).contains(&limit) {
        return Err(Error::field("limit", format!("1 to {}", limits::PAGE_MOST)));
    }
    let name = |field, text: Option<String>| match text {
        Some(text) => Ok::<_, Error>(Some(api.own(Name::parse(field, &text)?))),
        None => Ok(None),
    };
    let (queue, plugin) = (name("queue", query.queue)?, name("plugin", query.plugin)?);
    let list = JobList { queue, state: Some(JobState::Active), limit: limits::ATTEMPTS, offset: 0 };
    let mut active = api.store.jobs(list).await?;
    if let Some(plugin) = plugin {
        let is_of = |job: &Job| matches!(job.run.as_ref().map(|run| &run.runner), Some(Runner::Local { plugin: of, .. }) if *of == plugin);
        active.retain(is_of);
    }
    let total = active.len() as u64;
    active.sort_by_key(|job| std::cmp::Reverse(job.started_at));
    active.truncate(limit);
    let running: HashMap<(JobId, u32), _> =
        api.running.list().into_iter().map(|one| ((one.job, one.attempt), one)).collect();
    let now = (api.clock.now(), Instant::now());
    let attempts = active.into_iter().map(|job| {
        let live = running.get(&(job.id, job.attempt)).map(|one| LiveView::of(one, now));
        AttemptNow::of(job, live)
    });
    Ok(Json(RunningAnswer { attempts: attempts.collect(), total }))
}

impl AttemptNow {
    fn of(job: Job, live: Option<LiveView>) -> AttemptNow {
        let run = job.run.as_ref();
        let is_local = run.is_some_and(|run| run.runner.is_local());
        AttemptNow {
            job_id: job.id.to_string(),
            attempt: job.attempt,
            max_attempts: job.policy.max_attempts,
            runs_in: if is_local { "sandbox" } else { "worker" },
            canary: run.is_some_and(|run| run.canary),
            started_at: run.map(|run| Rfc3339(run.started_at)),
            heartbeat_at: run.map(|run| Rfc3339(run.heartbeat_at)),
            lease_expires_at: run.and_then(|run| run.lease_expires_at).map(Rfc3339),
            runner: run.map(|run| RunnerView::from(run.runner.clone())).unwrap_or_default(),
            progress: job.progress.map(ProgressView::from),
            live,
            queue: job.queue,
        }
    }
}

/// What a running attempt of a job uses, if it runs in this process.
pub fn live_of(
    running: &[std::sync::Arc<RunningAttempt>],
    job: &Job,
    now: (windlass_core::Time, Instant),
) -> Option<LiveView> {
    let found = running.iter().find(|one| (one.job, one.attempt) == (job.id, job.attempt) && job.run.is_some());
    found.map(|one| LiveView::of(one, now))
}
