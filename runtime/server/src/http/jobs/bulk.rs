//! One action on many jobs: `POST /jobs/bulk`, and `/bulk` for those that run in the background.

use std::collections::HashSet;
use std::convert::Infallible;
use std::time::{Duration, Instant};

use axum::Json;
use axum::body::Body as Stream;
use axum::extract::Path;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{sleep_until, timeout};
use utoipa::ToSchema;
use windlass_core::{Action, Bulk, BulkId, BulkStatus, Guard, JobId, Name, Refusal};
use windlass_store::search::{Filter, Search};

use crate::http::Api;
use crate::http::access::Way;
use crate::http::events::StreamEvent;
use crate::http::jobs::dry_run;
use crate::http::jobs::dry_run::DryRun;
use crate::http::produce::permitted;
use crate::http::transport::error::{Error, Result};
use crate::http::transport::extract::Body;
use crate::http::wire::filter::JobFilter;
use crate::http::wire::{JobIdText, NameText, PriorityName, Rfc3339};
use crate::limits;

/// An action, and the jobs it applies to: by their ids or by a filter.
#[derive(Debug, Deserialize, ToSchema)]
struct BulkRequest {
    /// retry, rebuild, requeue, cancel, move, change_priority, hold, approve, reject, delete or run_now.
    #[schema(required = true)]
    action: Option<String>,
    #[schema(value_type = Option<Vec<JobIdText>>)]
    job_ids: Option<Vec<String>>,
    /// Evaluated once, when the request arrives; jobs that are enqueued later are not included.
    filter: Option<JobFilter>,
    /// The queue that `move` moves jobs to.
    #[schema(value_type = Option<NameText>)]
    move_to_queue: Option<String>,
    /// The priority that `change_priority` sets.
    priority: Option<PriorityName>,
    /// For cancel, hold and reject.
    reason: Option<String>,
    /// Respond immediately instead of waiting for the end. Always so above 10,000 jobs.
    #[serde(default, rename = "async")]
    in_background: bool,
    /// Change nothing, and say what would be done: how many jobs, in which states, and how many would be passed over.
    #[serde(default)]
    dry_run: bool,
}

/// The operation that has ended, or with `dry_run` what it would do.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum BulkAnswer {
    Done(BulkDone),
    DryRun(DryRun),
}

#[derive(Debug, Serialize, ToSchema)]
pub struct BulkDone {
    bulk_operation_id: String,
    total: u64,
    affected: u64,
    errors: u64,
    /// The first of the errors.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    duration_ms: u64,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct BulkAccepted {
    bulk_operation_id: String,
    status: &'static str,
    estimated_total: u64,
    progress_url: String,
}

/// An operation and its progress.
#[derive(Debug, Serialize, ToSchema)]
pub struct BulkView {
    id: String,
    /// queued, running, completed, failed or cancelled.
    status: &'static str,
    action: &'static str,
    total: u64,
    processed: u64,
    affected: u64,
    errors: u64,
    error: Option<String>,
    created_at: Rfc3339,
    updated_at: Rfc3339,
    finished_at: Option<Rfc3339>,
}

impl From<Bulk> for BulkView {
    fn from(bulk: Bulk) -> BulkView {
        BulkView {
            id: bulk.id.to_string(),
            status: bulk.status.as_str(),
            action: bulk.action.as_str(),
            total: bulk.total,
            processed: bulk.processed,
            affected: bulk.affected,
            errors: bulk.errors,
            error: bulk.error,
            created_at: Rfc3339(bulk.created_at),
            updated_at: Rfc3339(bulk.updated_at),
            finished_at: bulk.finished_at.map(Rfc3339),
        }
    }
}

/// Apply one action to many jobs
///
/// Jobs in other states are skipped. An accepted operation is completed even if the server crashes, and it handles each
/// job once.
#[utoipa::path(post, path = "/jobs/bulk", tag = "jobs", request_body = BulkRequest, responses((status = 200, body = BulkAnswer), (status = 202, body = BulkAccepted)))]
pub async fn start(api: Api, body: Body) -> Result<Response> {
    let began = Instant::now();
    let wanted: BulkRequest = body.json()?;
    let action = action(&wanted)?;
    if let Action::Move { queue } = &action {
        permitted::check_way(&api, [queue], Way::Operated)?;
    }
    if wanted.dry_run {
        let dry_run = match (wanted.job_ids, wanted.filter) {
            (Some(ids), None) => dry_run::of_ids(&api, &action, &listed(&ids)?, began).await?,
            (None, Some(filter)) => dry_run::of_filter(&api, &action, filter, began).await?,
            (Some(_), Some(_)) | (None, None) => return Err(not_named()),
        };
        return Ok(Json(BulkAnswer::DryRun(dry_run)).into_response());
    }
    let (jobs, guard) = match (wanted.job_ids, wanted.filter) {
        (Some(ids), None) => (listed(&ids)?, Guard::default()),
        (None, Some(filter)) => chosen(&api, filter).await?,
        (Some(_), Some(_)) | (None, None) => return Err(not_named()),
    };
    let in_background = wanted.in_background;
    let news = api.store.watch_bulks();
    let bulk = api.store.start_bulk(action, guard, jobs).await?;
    answer(&api, bulk, news, in_background, began).await
}

fn not_named() -> Error {
    Error::invalid("name the jobs: send either `job_ids` or a `filter`")
}

/// Waits a limited time for the end of an operation, unless the client asked not to.
pub async fn answer(
    api: &Api,
    bulk: Bulk,
    news: Receiver<Bulk>,
    in_background: bool,
    began: Instant,
) -> Result<Response> {
    if in_background || bulk.total > limits::BULK_SYNC as u64 {
        return Ok(accepted(&bulk).into_response());
    }
    let id = bulk.id;
    match timeout(limits::BULK_WAIT, ended(api, id, news)).await {
        Ok(ended) => Ok(Json(BulkAnswer::Done(done(ended?, began))).into_response()),
        // The operation continues in the background.
        Err(_) => Ok(accepted(&bulk).into_response()),
    }
}

fn action(wanted: &BulkRequest) -> Result<Action> {
    let reason = |otherwise: &str| wanted.reason.clone().unwrap_or_else(|| otherwise.to_owned());
    let known = Action::WORDS.join(", ");
    let Some(word) = wanted.action.as_deref() else {
        return Err(Error::field("action", format!("is missing; it is one of {known}")));
    };
    Ok(match word {
        "retry" => Action::Retry,
        "rebuild" => Action::Rebuild,
        "requeue" => Action::Requeue,
        "cancel" => Action::Cancel { reason: reason("cancelled by hand") },
        "hold" => Action::Hold { reason: reason("held by hand") },
        "approve" => Action::Approve,
        "reject" => Action::Reject { reason: reason("rejected by hand") },
        "delete" => Action::Delete,
        "run_now" => Action::RunNow,
        "move" => match &wanted.move_to_queue {
            Some(queue) => Action::Move { queue: Name::parse("move_to_queue", queue)? },
            None => return Err(Error::field("move_to_queue", "is missing; name the queue to move the jobs to")),
        },
        "change_priority" => match wanted.priority {
            Some(priority) => Action::ChangePriority { priority: priority.into() },
            None => return Err(Error::field("priority", "is missing; it is critical, high, normal or low")),
        },
        other => return Err(Error::field("action", format!("{other:?} is not one of {known}"))),
    })
}

/// The listed jobs, each once, in the order of the list.
fn listed(ids: &[String]) -> Result<Vec<JobId>> {
    let mut seen = HashSet::new();
    let mut jobs = Vec::with_capacity(ids.len());
    for (index, text) in ids.iter().enumerate() {
        let id =
            text.parse().map_err(|wrong| Error::field(&format!("job_ids[{index}]"), format!("{text:?}: {wrong}")))?;
        if seen.insert(id) {
            jobs.push(id);
        }
    }
    Ok(jobs)
}

/// The jobs that match the filter now. One that has left its state or queue when its turn comes is skipped.
async fn chosen(api: &Api, filter: JobFilter) -> Result<(Vec<JobId>, Guard)> {
    let (filter, payload_filter) = filter.read().await?;
    not_empty(&filter, payload_filter.is_none())?;
    let guard = Guard { queue: filter.queue.clone(), states: filter.states.clone() };
    let jobs = api.store.search_ids(Search { payload_filter, ..Search::of(filter, 0) }).await?;
    Ok((jobs, guard))
}

/// An action on every job is more likely a mistake than intended.
pub fn not_empty(filter: &Filter, no_payload_filter: bool) -> Result<()> {
    if *filter == Filter::default() && no_payload_filter {
        return Err(Error::field("filter", "is empty and would match every job; give at least one condition"));
    }
    Ok(())
}

fn accepted(bulk: &Bulk) -> (StatusCode, Json<BulkAccepted>) {
    let id = bulk.id.to_string();
    let progress_url = format!("/api/v1/bulk/{id}/progress");
    let taken =
        BulkAccepted { bulk_operation_id: id, status: bulk.status.as_str(), estimated_total: bulk.total, progress_url };
    (StatusCode::ACCEPTED, Json(taken))
}

fn done(bulk: Bulk, began: Instant) -> BulkDone {
    BulkDone {
        bulk_operation_id: bulk.id.to_string(),
        total: bulk.total,
        affected: bulk.affected,
        errors: bulk.errors,
        error: bulk.error,
        duration_ms: began.elapsed().as_millis() as u64,
    }
}

/// Waits for the end of an operation.
async fn ended(api: &Api, id: BulkId, mut news: Receiver<Bulk>) -> Result<Bulk> {
    loop {
        let bulk = known(api, id).await?;
        if bulk.status.is_over() {
            return Ok(bulk);
        }
        next_of(&mut news, id).await;
    }
}

/// Returns when the operation may have changed.
async fn next_of(news: &mut Receiver<Bulk>, id: BulkId) -> Option<Bulk> {
    loop {
        match news.recv().await {
            Ok(bulk) if bulk.id == id => return Some(bulk),
            Ok(_) => {}
            Err(RecvError::Lagged(_)) => return None,
            // The store is closing; the stored operation has the progress so far.
            Err(RecvError::Closed) => {
                tokio::time::sleep(Duration::from_millis(100)).await;
                return None;
            }
        }
    }
}

async fn known(api: &Api, id: BulkId) -> Result<Bulk> {
    Ok(api.store.bulk(id).await?.ok_or_else(|| Refusal::not_found("bulk operation", id))?)
}

fn id(text: &str) -> Result<BulkId> {
    text.parse().map_err(|wrong| Error::not_found(format!("there is no bulk operation `{text}`: {wrong}")))
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Bulks {
    bulks: Vec<BulkView>,
}

/// List all operations that are still stored, newest first
#[utoipa::path(get, path = "/bulk", tag = "jobs", responses((status = 200, body = Bulks)))]
pub async fn list_bulks(api: Api) -> Result<Json<Bulks>> {
    let bulks = api.store.bulks().await?;
    Ok(Json(Bulks { bulks: bulks.into_iter().rev().map(BulkView::from).collect() }))
}

/// Show the progress of an operation
#[utoipa::path(get, path = "/bulk/{id}", tag = "jobs", responses((status = 200, body = BulkView)))]
pub async fn show_bulk(api: Api, Path(text): Path<String>) -> Result<Json<BulkView>> {
    Ok(Json(known(&api, id(&text)?).await?.into()))
}

/// Stop an operation; jobs that it has handled stay as they are
#[utoipa::path(post, path = "/bulk/{id}/cancel", tag = "jobs", responses((status = 200, body = BulkView)))]
pub async fn cancel_bulk(api: Api, Path(text): Path<String>) -> Result<Json<BulkView>> {
    Ok(Json(api.store.cancel_bulk(id(&text)?).await?.into()))
}

/// The progress of an operation as a live stream, until it ends
#[utoipa::path(
    get,
    path = "/bulk/{id}/progress",
    tag = "jobs",
    responses(
        (
            status = 200,
            description = "Events `bulk.async.started`, `progress`, `completed`, `failed` and `cancelled`.",
            body = StreamEvent,
            content_type = "text/event-stream"
        )
    )
)]
pub async fn progress(api: Api, Path(text): Path<String>) -> Result<Response> {
    let id = id(&text)?;
    let news = api.store.watch_bulks();
    let bulk = known(&api, id).await?;
    let watcher = Watcher { api, id, news, first: Some(bulk), over: false };
    let lines = stream::unfold(watcher, |mut watcher| async move {
        let line = watcher.next().await?;
        Some((Ok::<_, Infallible>(line), watcher))
    });
    let mut response = Stream::from_stream(lines).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// A client that watches an operation.
struct Watcher {
    api: Api,
    id: BulkId,
    news: Receiver<Bulk>,
    /// Its state when the stream started.
    first: Option<Bulk>,
    over: bool,
}

impl Watcher {
    async fn next(&mut self) -> Option<Bytes> {
        if self.over || !self.api.authority.still_admits(&self.api.caller) {
            return None;
        }
        if let Some(bulk) = self.first.take() {
            self.over = bulk.status.is_over();
            let mut lines = line("started", &bulk);
            if self.over {
                lines.push_str(&line(bulk.status.as_str(), &bulk));
            }
            return Some(lines.into());
        }
        let quiet = sleep_until(tokio::time::Instant::now() + limits::SSE_COMMENT);
        let bulk = tokio::select! {
            bulk = next_of(&mut self.news, self.id) => bulk,
            () = quiet => return Some(Bytes::from_static(b": still here\n\n")),
            () = self.api.shutdown.requested() => return None,
        };
        // The key may have been revoked while nothing happened.
        if !self.api.authority.still_admits(&self.api.caller) {
            return None;
        }
        // Some changes were missed, so the operation is read again.
        let bulk = match bulk {
            Some(bulk) => bulk,
            None => known(&self.api, self.id).await.ok()?,
        };
        self.over = bulk.status.is_over();
        let word = if self.over { bulk.status.as_str() } else { "progress" };
        Some(line(word, &bulk).into())
    }
}

fn line(kind: &str, bulk: &Bulk) -> String {
    let percent = match (bulk.total, bulk.status) {
        (0, _) | (_, BulkStatus::Completed) => 100.0,
        (total, _) => (bulk.processed as f64 * 1000.0 / total as f64).floor() / 10.0,
    };
    let data = json!({
        "task_id": bulk.id.to_string(),
        "status": bulk.status.as_str(),
        "total": bulk.total,
        "processed": bulk.processed,
        "affected": bulk.affected,
        "errors": bulk.errors,
        "percent": percent,
        "error": bulk.error,
    });
    format!("event: bulk.async.{kind}\ndata: {data}\n\n")
}
