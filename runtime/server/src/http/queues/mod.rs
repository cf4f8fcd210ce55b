//! `/queues`: the state of queues, and their settings.

pub(crate) mod records;
pub(crate) mod rounds;
pub(crate) mod settings;

use std::time::{Duration, Instant};

use axum::Json;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windlass_core::limits::Rate;
use windlass_core::{QueueName, Refusal, Settings};
use windlass_store::QueueView;

use crate::http::Api;
use crate::http::jobs::{Status, status};
use crate::http::transport::error::{Error, Result};
use crate::http::transport::extract::{Body, NamePath, Query};
use crate::http::wire::{NameText, Rfc3339, Span, StateCounts, Totals};
use crate::metrics::{Rates, Recent};
use rounds::RoundsNow;
use settings::{RateView, SettingsView};

#[derive(Debug, Serialize, ToSchema)]
pub struct QueueAnswer {
    #[schema(value_type = NameText)]
    name: QueueName,
    /// The plugin that runs its jobs; `null` if there is none and workers may fetch them.
    served_by: Option<String>,
    paused: bool,
    draining: bool,
    max_concurrency: Option<u32>,
    rate: Option<RateView>,
    rate_limit: Option<u32>,
    rate_window_ms: Option<u64>,
    created_at: Rfc3339,
    #[serde(flatten)]
    now: StateCounts,
    totals: Totals,
    enqueued: u64,
    failed: u64,
    oldest_pending_at: Option<Rfc3339>,
    /// Jobs per second, over the last minute.
    enqueued_per_second: f64,
    completed_per_second: f64,
    /// Attempts that failed, and jobs that died.
    failed_attempts_per_second: f64,
    /// The same over the last five seconds.
    enqueued_per_second_5s: f64,
    completed_per_second_5s: f64,
    failed_attempts_per_second_5s: f64,
    /// The state of its rounds, if it has rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    rounds: Option<RoundsNow>,
}

impl QueueAnswer {
    fn new(view: QueueView, rates: &Rates) -> QueueAnswer {
        let recent = rates.of(&view.queue.name, Instant::now(), &view.queue.counts);
        QueueAnswer::with_rates(view, recent)
    }

    pub fn with_rates(view: QueueView, recent: Recent) -> QueueAnswer {
        let QueueView { queue, served_by, oldest_pending_at, rounds } = view;
        let rate = queue.settings.rate;
        QueueAnswer {
            served_by: served_by.map(|plugin| plugin.to_string()),
            paused: queue.settings.paused,
            draining: queue.settings.draining,
            max_concurrency: queue.settings.max_concurrency,
            rate: rate.map(RateView::from),
            rate_limit: rate.map(|rate| rate.count),
            rate_window_ms: rate.map(|rate| u64::try_from(rate.per.as_millis()).unwrap_or(u64::MAX)),
            created_at: Rfc3339(queue.created_at),
            now: StateCounts::from(&queue.counts),
            totals: Totals::from(&queue.counts),
            enqueued: queue.counts.enqueued,
            failed: queue.counts.failed,
            oldest_pending_at: oldest_pending_at.map(Rfc3339),
            enqueued_per_second: recent.minute.enqueued,
            completed_per_second: recent.minute.completed,
            failed_attempts_per_second: recent.minute.failed,
            enqueued_per_second_5s: recent.seconds.enqueued,
            completed_per_second_5s: recent.seconds.completed,
            failed_attempts_per_second_5s: recent.seconds.failed,
            rounds: rounds.map(RoundsNow::from),
            name: queue.name,
        }
    }
}

/// List all queues, with their counters
#[utoipa::path(get, path = "/queues", tag = "queues", responses((status = 200, body = Vec<QueueAnswer>)))]
pub async fn list(api: Api) -> Result<Json<Vec<QueueAnswer>>> {
    let views = api.store.queues().await?.into_iter();
    Ok(Json(views.map(|view| QueueAnswer::new(view, &api.rates)).collect()))
}

/// One queue, with all its settings.
#[derive(Debug, Serialize, ToSchema)]
pub struct WholeQueue {
    #[serde(flatten)]
    queue: QueueAnswer,
    settings: SettingsView,
    /// The key or the person that changed the settings last.
    #[serde(skip_serializing_if = "Option::is_none")]
    settings_created_by: Option<String>,
}

/// Show one queue, with its settings
#[utoipa::path(get, path = "/queues/{name}", tag = "queues", responses((status = 200, body = WholeQueue)))]
pub async fn show(api: Api, NamePath(name): NamePath) -> Result<Json<WholeQueue>> {
    let found = api.store.queues().await?.into_iter().find(|view| view.queue.name == name);
    let view = found.ok_or_else(|| Refusal::not_found("queue", &name))?;
    let (settings, settings_created_by) = (view.queue.settings.clone().into(), view.queue.settings_by.clone());
    Ok(Json(WholeQueue { queue: QueueAnswer::new(view, &api.rates), settings, settings_created_by }))
}

/// Pause a queue: start no more of its jobs
#[utoipa::path(post, path = "/queues/{name}/pause", tag = "queues", responses((status = 200, body = Status)))]
pub async fn pause(api: Api, NamePath(queue): NamePath) -> Result<Json<Status>> {
    configure(&api, queue, |settings| settings.paused = true).await?;
    Ok(status("paused"))
}

/// Resume a queue: start its jobs again
#[utoipa::path(post, path = "/queues/{name}/resume", tag = "queues", responses((status = 200, body = Status)))]
pub async fn resume(api: Api, NamePath(queue): NamePath) -> Result<Json<Status>> {
    configure(&api, queue, |settings| {
        settings.paused = false;
        settings.draining = false;
    })
    .await?;
    Ok(status("resumed"))
}

/// Drain a queue: start no more of its jobs, and let running ones finish
#[utoipa::path(post, path = "/queues/{name}/drain", tag = "queues", responses((status = 200, body = Status)))]
pub async fn drain(api: Api, NamePath(queue): NamePath) -> Result<Json<Status>> {
    configure(&api, queue, |settings| {
        settings.paused = true;
        settings.draining = true;
    })
    .await?;
    Ok(status("draining"))
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Removed {
    status: &'static str,
    /// How many jobs were removed.
    jobs: u64,
}

/// Remove the pending and scheduled jobs of a queue
#[utoipa::path(post, path = "/queues/{name}/clear", tag = "queues", responses((status = 200, body = Removed)))]
pub async fn clear(api: Api, NamePath(queue): NamePath) -> Result<Json<Removed>> {
    let jobs = api.store.clear(queue).await?;
    Ok(Json(Removed { status: "cleared", jobs }))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Confirm {
    confirm: Option<String>,
}

/// Delete a queue and all its jobs
#[utoipa::path(
    delete,
    path = "/queues/{name}",
    tag = "queues",
    params(Confirm),
    responses((status = 200, body = Removed))
)]
pub async fn remove(api: Api, NamePath(queue): NamePath, Query(query): Query<Confirm>) -> Result<Json<Removed>> {
    if query.confirm.as_deref() != Some("true") {
        let why = format!("deleting queue {queue} removes it and all its jobs; add ?confirm=true to do that");
        return Err(Error::field("confirm", why));
    }
    let jobs = api.store.remove_queue(queue).await?;
    Ok(Json(Removed { status: "deleted", jobs }))
}

#[derive(Debug, Default, Deserialize, ToSchema)]
struct Concurrency {
    max: Option<u32>,
}

/// Limit how many jobs of a queue run at once
///
/// `0`, `null` or nothing: no limit.
#[utoipa::path(
    post,
    path = "/queues/{name}/concurrency",
    tag = "queues",
    request_body = Option<Concurrency>,
    responses((status = 200, body = Status))
)]
pub async fn concurrency(api: Api, NamePath(queue): NamePath, body: Body) -> Result<Json<Status>> {
    let Concurrency { max } = body.json_or_default()?;
    let max = max.filter(|max| *max > 0);
    configure(&api, queue, move |settings| settings.max_concurrency = max).await?;
    Ok(status("ok"))
}

#[derive(Debug, Default, Deserialize, ToSchema)]
struct Throttle {
    rate: Option<u32>,
    period: Option<Span>,
    window_ms: Option<u64>,
}

/// Limit how many jobs of a queue start in a period
#[utoipa::path(
    post,
    path = "/queues/{name}/throttle",
    tag = "queues",
    request_body = Throttle,
    responses((status = 200, body = Status))
)]
pub async fn throttle(api: Api, NamePath(queue): NamePath, body: Body) -> Result<Json<Status>> {
    let wanted: Throttle = body.json_or_default()?;
    let Some(count) = wanted.rate else {
        return Err(Error::field("rate", "is missing; send how many jobs may start in a period"));
    };
    let (period, window) = (wanted.period.map(|period| period.0), wanted.window_ms.map(Duration::from_millis));
    let per = match (period, window) {
        (Some(period), Some(window)) if period != window => {
            let why = "differs from its alias `window_ms`; send one of them, or the same time in both";
            return Err(Error::field("period", why));
        }
        (Some(per), _) | (None, Some(per)) => per,
        (None, None) => return Err(Error::field("period", "is missing; send the length of a period, such as \"1m\"")),
    };
    let rate = Rate { count, per };
    rate.check("rate")?;
    configure(&api, queue, move |settings| settings.rate = Some(rate)).await?;
    Ok(status("ok"))
}

/// Remove the limit on how many jobs of a queue start in a period
#[utoipa::path(delete, path = "/queues/{name}/throttle", tag = "queues", responses((status = 200, body = Status)))]
pub async fn unthrottle(api: Api, NamePath(queue): NamePath) -> Result<Json<Status>> {
    configure(&api, queue, |settings| settings.rate = None).await?;
    Ok(status("ok"))
}

async fn configure(api: &Api, queue: QueueName, change: impl FnOnce(&mut Settings) + Send + 'static) -> Result<()> {
    api.store.configure(queue, change).await?;
    Ok(())
}
