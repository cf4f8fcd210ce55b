//! `/queues`: how queues stand, and what operators set.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use windlass_core::limits::Rate;
use windlass_core::{QueueName, Refusal, Settings, State as JobState};
use windlass_store::QueueView;

use super::Api;
use super::error::{Error, Result};
use super::jobs::{Status, status};
use super::queue_settings::SettingsView;
use super::read::{Body, NamePath, Query};
use super::wire::{Rfc3339, Span};

#[derive(Debug, Serialize)]
pub struct QueueAnswer {
    name: QueueName,
    /// The plugin that runs its jobs; `null` when none does and external workers may fetch them.
    served_by: Option<String>,
    paused: bool,
    draining: bool,
    max_concurrency: Option<u32>,
    rate_limit: Option<u32>,
    rate_window_ms: Option<u64>,
    created_at: Rfc3339,
    pending: u64,
    active: u64,
    scheduled: u64,
    retrying: u64,
    held: u64,
    blocked: u64,
    completed: u64,
    dead: u64,
    cancelled: u64,
    /// Since the queue was made.
    enqueued: u64,
    failed: u64,
    oldest_pending_at: Option<Rfc3339>,
}

impl From<QueueView> for QueueAnswer {
    fn from(view: QueueView) -> QueueAnswer {
        let QueueView { queue, served_by, oldest_pending_at } = view;
        let now = |state| queue.counts.of(state);
        let rate = queue.settings.rate;
        QueueAnswer {
            served_by,
            paused: queue.settings.paused,
            draining: queue.settings.draining,
            max_concurrency: queue.settings.max_concurrency,
            rate_limit: rate.map(|rate| rate.count),
            rate_window_ms: rate.map(|rate| u64::try_from(rate.per.as_millis()).unwrap_or(u64::MAX)),
            created_at: Rfc3339(queue.created_at),
            pending: now(JobState::Pending),
            active: now(JobState::Active),
            scheduled: now(JobState::Scheduled),
            retrying: now(JobState::Retrying),
            held: now(JobState::Held),
            blocked: now(JobState::Blocked),
            completed: now(JobState::Completed),
            dead: now(JobState::Dead),
            cancelled: now(JobState::Cancelled),
            enqueued: queue.counts.enqueued,
            failed: queue.counts.failed,
            oldest_pending_at: oldest_pending_at.map(Rfc3339),
            name: queue.name,
        }
    }
}

pub async fn list(State(api): State<Api>) -> Result<Json<Vec<QueueAnswer>>> {
    Ok(Json(api.store.queues().await?.into_iter().map(QueueAnswer::from).collect()))
}

/// One queue, with all its settings.
#[derive(Debug, Serialize)]
pub struct WholeQueue {
    #[serde(flatten)]
    queue: QueueAnswer,
    settings: SettingsView,
}

pub async fn show(State(api): State<Api>, NamePath(name): NamePath) -> Result<Json<WholeQueue>> {
    let found = api.store.queues().await?.into_iter().find(|view| view.queue.name == name);
    let view = found.ok_or_else(|| Refusal::not_found("queue", &name))?;
    let settings = view.queue.settings.clone().into();
    Ok(Json(WholeQueue { queue: view.into(), settings }))
}

pub async fn pause(State(api): State<Api>, NamePath(queue): NamePath) -> Result<Json<Status>> {
    configure(&api, queue, |settings| settings.paused = true).await?;
    Ok(status("paused"))
}

pub async fn resume(State(api): State<Api>, NamePath(queue): NamePath) -> Result<Json<Status>> {
    configure(&api, queue, |settings| {
        settings.paused = false;
        settings.draining = false;
    })
    .await?;
    Ok(status("resumed"))
}

pub async fn drain(State(api): State<Api>, NamePath(queue): NamePath) -> Result<Json<Status>> {
    configure(&api, queue, |settings| {
        settings.paused = true;
        settings.draining = true;
    })
    .await?;
    Ok(status("draining"))
}

#[derive(Debug, Serialize)]
pub struct Removed {
    status: &'static str,
    /// How many jobs went.
    jobs: u64,
}

pub async fn clear(State(api): State<Api>, NamePath(queue): NamePath) -> Result<Json<Removed>> {
    let jobs = api.store.clear(queue).await?;
    Ok(Json(Removed { status: "cleared", jobs }))
}

#[derive(Debug, Deserialize)]
pub struct Confirm {
    confirm: Option<String>,
}

pub async fn remove(
    State(api): State<Api>,
    NamePath(queue): NamePath,
    Query(query): Query<Confirm>,
) -> Result<Json<Removed>> {
    if query.confirm.as_deref() != Some("true") {
        let why = format!("deleting queue {queue} removes it and all its jobs; add ?confirm=true if that is meant");
        return Err(Error::field("confirm", why));
    }
    let jobs = api.store.remove_queue(queue).await?;
    Ok(Json(Removed { status: "deleted", jobs }))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Concurrency {
    max: Option<u32>,
}

/// `0`, `null` or nothing: no limit.
pub async fn concurrency(State(api): State<Api>, NamePath(queue): NamePath, body: Body) -> Result<Json<Status>> {
    let Concurrency { max } = body.json_or_default()?;
    let max = max.filter(|max| *max > 0);
    configure(&api, queue, move |settings| settings.max_concurrency = max).await?;
    Ok(status("ok"))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Throttle {
    rate: Option<u32>,
    period: Option<Span>,
    window_ms: Option<u64>,
}

pub async fn throttle(State(api): State<Api>, NamePath(queue): NamePath, body: Body) -> Result<Json<Status>> {
    let wanted: Throttle = body.json_or_default()?;
    let Some(count) = wanted.rate else {
        return Err(Error::field("rate", "is missing; say how many jobs may start in a period"));
    };
    let window = wanted.window_ms.map(std::time::Duration::from_millis);
    let Some(per) = wanted.period.map(|period| period.0).or(window) else {
        return Err(Error::field(
            "period",
            "is missing; say how long a period is, such as \"1m\", or send `window_ms`",
        ));
    };
    let rate = Rate { count, per };
    rate.check("rate")?;
    configure(&api, queue, move |settings| settings.rate = Some(rate)).await?;
    Ok(status("ok"))
}

pub async fn unthrottle(State(api): State<Api>, NamePath(queue): NamePath) -> Result<Json<Status>> {
    configure(&api, queue, |settings| settings.rate = None).await?;
    Ok(status("ok"))
}

async fn configure(api: &Api, queue: QueueName, change: impl FnOnce(&mut Settings) + Send + 'static) -> Result<()> {
    api.store.configure(queue, change).await?;
    Ok(())
}
