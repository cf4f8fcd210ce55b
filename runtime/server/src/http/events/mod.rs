//! Live streams: `GET /events`, `GET /jobs/{id}/events`, and `GET /jobs/{id}/wait` for clients that only want the
//! outcome.
//!
//! Reading order: `hub` (one receiver for all watchers), `watch` (what one watcher gets), `line` (how it is written).

mod hub;
mod line;
mod no_job;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout_at};
use utoipa::{IntoParams, ToSchema};
use windlass_core::{EventKind, Job, JobId, Name, Refusal, Time};

pub use self::hub::Hub;
use self::hub::{HubEvent, Joined};
pub use self::line::{event_json, test_event_json};
use self::watch::{Wanted, Watched, Watcher, is_end};
use crate::http::Api;
use crate::http::jobs::view;
use crate::http::jobs::view::WholeJob;
use crate::http::transport::error::{Error, Result};
use crate::http::transport::extract::{JobPath, Query};
use crate::http::wire::{Rfc3339, Span};
use crate::limits;

/// One event of a stream: lines `id: `, `event: ` and `data: `, one of each, and an empty line.
#[derive(ToSchema)]
#[allow(dead_code, reason = "only described: events are written as text")]
pub struct StreamEvent {
    /// Its number, to reconnect with. A line of a log has none.
    #[schema(nullable = false)]
    id: Option<String>,
    /// Its type, such as `completed`; `gone` and `dropped` are about the stream itself.
    #[schema(nullable = false)]
    event: Option<String>,
    /// JSON: for an event of a job, a round or a plugin, as `EventData` describes it.
    #[schema(nullable = false)]
    data: Option<String>,
}

/// The `data` of an event, and the body of a webhook's delivery.
#[derive(ToSchema)]
#[allow(dead_code, reason = "only described: events are written as text")]
pub struct EventData {
    /// The number of the event. A line of a log has none.
    #[schema(nullable = false)]
    seq: Option<u64>,
    #[schema(example = "completed")]
    r#type: String,
    /// The job, unless the event is about a round or a plugin.
    #[schema(nullable = false)]
    job_id: Option<String>,
    #[schema(nullable = false)]
    queue: Option<String>,
    #[schema(nullable = false)]
    scope: Option<String>,
    /// The plugin, of an event about one.
    #[schema(nullable = false)]
    plugin: Option<String>,
    at: Rfc3339,
    at_ns: u64,
    /// Further fields, depending on the type.
    data: serde_json::Value,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct EventQuery {
    queues: Option<String>,
    job_ids: Option<String>,
    types: Option<String>,
    scopes: Option<String>,
    last_event_id: Option<String>,
}

/// All events, as a live stream
///
/// Every event that matches the filters, from now on or after the last one the client has seen.
#[utoipa::path(
    get,
    path = "/events",
    tag = "events",
    params(
        EventQuery,
        (
            "Last-Event-ID" = Option<String>,
            Header,
            description = "The id of the last event the client has seen; the stream continues after it."
        )
    ),
    responses(
        (status = 200, description = "A stream of events.", body = StreamEvent, content_type = "text/event-stream")
    )
)]
pub async fn all(api: Api, headers: HeaderMap, Query(query): Query<EventQuery>) -> Result<Response> {
    let last = last_event(&headers, query.last_event_id.as_deref())?;
    let wanted = wanted(&api, &query)?;
    let (recent, live) = api.hub.join();
    let newest = recent.last().map_or(0, |event| event.record.seq);
    let watcher = Watcher::new(&api, wanted, live);
    let Some(last) = last else {
        return Ok(watcher.beginning_now(newest).into_response());
    };
    let bounds = api.store.event_bounds().await?;
    if last >= bounds.reserved.max(1) {
        let why = format!("there has never been an event {last}; the stream continues with new events");
        let watcher = watcher.beginning_now(newest).first(line::of_stream("gone", "UNKNOWN_EVENT", &why));
        return Ok(watcher.into_response());
    }
    let mut watcher = watcher.replay(last, recent);
    if last.saturating_add(1) < bounds.from {
        let why = format!("the events after {last} and before {} are no longer stored", bounds.from);
        watcher = watcher.first(line::of_stream("gone", "EVENTS_GONE", &why));
    }
    Ok(watcher.into_response())
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct JobEventQuery {
    last_event_id: Option<String>,
    #[serde(default)]
    logs: bool,
    #[serde(default)]
    logs_from: u64,
}

/// What happens to one job, as a live stream that ends with it
///
/// The stored events of one job, then new ones, until it has ended.
#[utoipa::path(
    get,
    path = "/jobs/{id}/events",
    tag = "events",
    params(
        JobEventQuery,
        (
            "Last-Event-ID" = Option<String>,
            Header,
            description = "The id of the last event the client has seen; the stream continues after it."
        )
    ),
    responses(
        (status = 200, description = "A stream of events.", body = StreamEvent, content_type = "text/event-stream"),
        (status = 204, description = "The job has ended, and the client has seen that.")
    )
)]
pub async fn of_job(
    api: Api,
    JobPath(id): JobPath,
    headers: HeaderMap,
    Query(query): Query<JobEventQuery>,
) -> Result<Response> {
    let last = last_event(&headers, query.last_event_id.as_deref())?;
    // Subscribed before the job is read, so that everything after the read arrives live.
    let Joined { oldest, recent, live } = api.hub.join_job(id);
    let log_live = api.hub.watch_log(id);
    let job = api.store.job(id).await?.ok_or_else(|| Refusal::not_found("job", id))?;
    let over = job.is_ended();
    let (mut past, mut end_is_stored) = since_last_retry(past_of(&api, &job, oldest, recent).await?, over);
    if over && !end_is_stored {
        // It ended after the subscription: what came in between is on disk, in the commits up to that of its end.
        (past, end_is_stored) = since_last_retry(stored_of(&api, &job).await?, over);
    }
    past.retain(|event| last.is_none_or(|last| event.record.seq > last));
    if end_is_stored && past.is_empty() && last.is_some() {
        // The client has seen everything. After a 204 a browser does not reconnect.
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let end = if over && !end_is_stored { Some(line::of_ended_job(&api.whole_store, &job).await) } else { None };
    let wanted = Wanted { jobs: vec![id], ..Wanted::default() };
    let log_from = query.logs.then_some(query.logs_from);
    let watcher = Watcher::new(&api, wanted, live);
    let watched = Watched::new(job, log_from, log_live, end);
    Ok(watcher.of_job(watched, past, over).into_response())
}

/// Only the log of a job, from a line on, until it has ended.
pub async fn follow_log(api: &Api, id: JobId, from: u64) -> Result<Response> {
    let live = api.hub.watch_job(id);
    let log_live = api.hub.watch_log(id);
    let job = api.store.job(id).await?.ok_or_else(|| Refusal::not_found("job", id))?;
    let over = job.is_ended();
    let end = over.then(|| Bytes::from_static(b": the job has ended\n\n"));
    // No event has this name, so the stream contains no events.
    let wanted = Wanted { jobs: vec![id], types: vec!["log".to_owned()], ..Wanted::default() };
    let watcher = Watcher::new(api, wanted, live);
    let watched = Watched::new(job, Some(from), log_live, end);
    Ok(watcher.of_job(watched, Vec::new(), over).into_response())
}

/// The latest events of a job: from memory, and from disk if the job is older than the events in memory.
async fn past_of(
    api: &Api,
    job: &Job,
    first: Option<(u64, Time)>,
    mut past: Vec<Arc<HubEvent>>,
) -> Result<Vec<Arc<HubEvent>>> {
    if past.len() < limits::JOB_EVENTS && first.is_none_or(|(_, at)| at >= job.created_at) {
        let mut both = stored_of(api, job).await?;
        both.retain(|event| first.is_none_or(|(seq, _)| event.record.seq < seq));
        both.append(&mut past);
        past = both;
    }
    past.drain(..past.len().saturating_sub(limits::JOB_EVENTS));
    Ok(past)
}

/// The latest events of a job on disk.
async fn stored_of(api: &Api, job: &Job) -> Result<Vec<Arc<HubEvent>>> {
    let stored = api.store.events_of(job.id, job.created_at, limits::JOB_EVENTS).await?;
    Ok(stored.into_iter().map(|record| Arc::new(HubEvent::new(Arc::new(record)))).collect())
}

/// The events since the job was last retried, and whether its end is among them. A watcher closes the stream at the
/// first end it sees, and that of an earlier run would close it too early.
fn since_last_retry(mut past: Vec<Arc<HubEvent>>, over: bool) -> (Vec<Arc<HubEvent>>, bool) {
    let kind = |event: &Arc<HubEvent>| event.record.event.kind.clone();
    let last_end = past.iter().rposition(|event| is_end(&kind(event)));
    let revived = |event: &Arc<HubEvent>| {
        matches!(kind(event), EventKind::Pending { .. } | EventKind::Blocked { .. } | EventKind::Started { .. })
    };
    let end_is_stored = over && last_end.is_some_and(|end| !past[end..].iter().any(revived));
    let before = if end_is_stored {
        last_end.and_then(|end| past[..end].iter().rposition(|event| is_end(&kind(event))))
    } else {
        last_end
    };
    past.drain(..before.map_or(0, |end| end + 1));
    (past, end_is_stored)
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct WaitQuery {
    timeout: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Waited {
    #[serde(flatten)]
    job: WholeJob,
    /// The job has not ended; the response shows its current state.
    timed_out: bool,
}

/// Wait for the end of a job
///
/// Responds as soon as the job has ended, or with its current state when the time is up.
#[utoipa::path(
    get,
    path = "/jobs/{id}/wait",
    tag = "events",
    params(WaitQuery),
    responses((status = 200, body = Waited))
)]
pub async fn wait(api: Api, JobPath(id): JobPath, Query(query): Query<WaitQuery>) -> Result<Json<Waited>> {
    let deadline = Instant::now() + wait_time(query.timeout.as_deref())?;
    let mut live = api.hub.watch_job(id);
    loop {
        let store = api.store.frozen();
        let job = store.job(id).await?.ok_or_else(|| Refusal::not_found("job", id))?;
        let timed_out = !job.is_ended() && Instant::now() >= deadline;
        if job.is_ended() || timed_out {
            return Ok(Json(Waited { job: view::whole(&store, job).await?, timed_out }));
        }
        // The view is dropped here, so that it is not held while nothing is read.
        drop(store);
        let ended = async {
            // An error means that some events were missed, so the job is read.
            while let Ok(event) = live.recv().await {
                if event.record.event.job == id && is_end(&event.record.event.kind) {
                    break;
                }
            }
        };
        tokio::select! {
            _ = timeout_at(deadline, ended) => {}
            () = api.shutdown.requested() => return Err(Error::stopping()),
        }
    }
}

fn wait_time(text: Option<&str>) -> Result<Duration> {
    let Some(text) = text else { return Ok(limits::WAIT) };
    let span = match text.parse() {
        Ok(seconds) => Ok(Span(Duration::from_secs(seconds))),
        Err(_) => Span::parse(text),
    };
    let span = span.map_err(|why| Error::field("timeout", why))?;
    Ok(span.0.min(limits::WAIT_MOST))
}

/// The header that a browser sends when it reconnects, or the query parameter for clients that cannot set a header.
fn last_event(headers: &HeaderMap, query: Option<&str>) -> Result<Option<u64>> {
    let header = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    let Some(text) = header.or(query).filter(|text| !text.is_empty()) else { return Ok(None) };
    let number = text.parse().map_err(|_| {
        Error::field(
            "last_event_id",
            format!("{text:?} is not the id of an event; send the id of an event from the stream"),
        )
    });
    number.map(Some)
}

fn wanted(api: &Api, query: &EventQuery) -> Result<Wanted> {
    let allowed = Some(api.caller.allowed.clone());
    let mut wanted = Wanted { allowed, scopes: list(query.scopes.as_deref()), ..Wanted::default() };
    for name in list(query.queues.as_deref()) {
        wanted.queues.push(api.own(Name::parse("queues", &name)?));
    }
    for id in list(query.job_ids.as_deref()) {
        let id: JobId = id.parse().map_err(|wrong| Error::field("job_ids", format!("{id:?}: {wrong}")))?;
        wanted.jobs.push(id);
    }
    for kind in list(query.types.as_deref()) {
        if !EventKind::WORDS.contains(&kind.as_str()) {
            let known = EventKind::WORDS.join(", ");
            return Err(Error::field("types", format!("{kind:?} is not a type of event; the types are {known}")));
        }
        wanted.types.push(kind);
    }
    Ok(wanted)
}

/// `a,b,c`.
fn list(text: Option<&str>) -> Vec<String> {
    let parts = text.unwrap_or_default().split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(str::to_owned).collect()
}
