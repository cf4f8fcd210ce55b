//! `/jobs`: reading jobs, and acting on one of them.

pub(crate) mod attempt;
pub(crate) mod attempts;
pub(crate) mod bulk;
pub(crate) mod count;
pub(crate) mod dead;
pub(crate) mod dry_run;
pub(crate) mod edit;
pub(crate) mod raw;
pub(crate) mod search;
pub(crate) mod stats;
pub(crate) mod usage;
pub(crate) mod view;

use axum::Json;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windlass_core::{Command, JobId, Name, Refusal, Reply};
use windlass_store::{JobList, Store, Unreadable};

use crate::http::Api;
use crate::http::access::Way;
use crate::http::events;
use crate::http::events::StreamEvent;
use crate::http::produce::permitted;
use crate::http::transport::error::{Error, Result};
use crate::http::transport::extract::{Body, JobPath, Query};
use crate::http::wire::filter::state;
use crate::http::wire::{BodiesShown, NameText, PriorityName, Rfc3339, Span, preview_chars};
use crate::limits;
use view::{JobView, WholeJob};

/// The response to most actions.
#[derive(Debug, Serialize, ToSchema)]
pub struct Status {
    pub status: &'static str,
}

pub fn status(status: &'static str) -> Json<Status> {
    Json(Status { status })
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ShowQuery {
    /// How much of payload, checkpoint and result: all (the default), their first characters, or nothing.
    #[serde(default)]
    payload: BodiesShown,
    /// How many characters of each.
    #[param(minimum = 1, maximum = 65536)]
    preview_chars: Option<usize>,
}

/// Show one job, with its whole record
#[utoipa::path(get, path = "/jobs/{id}", tag = "jobs", params(ShowQuery), responses((status = 200, body = WholeJob)))]
pub async fn show(api: Api, JobPath(id): JobPath, Query(query): Query<ShowQuery>) -> Result<Json<WholeJob>> {
    let chars = preview_chars(query.preview_chars, limits::PREVIEW_OF_ONE)?;
    let store = api.store.frozen();
    let job = store.job(id).await?.ok_or_else(|| Refusal::not_found("job", id))?;
    Ok(Json(view::whole_with(&store, job, query.payload, chars).await?))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ListQuery {
    queue: Option<String>,
    state: Option<String>,
    limit: Option<usize>,
    #[serde(default)]
    offset: usize,
}

/// Jobs that belong to the response but cannot be read, because a file of the store is damaged.
#[derive(Debug, Serialize, ToSchema)]
pub struct UnreadableJobs {
    count: u64,
    /// The first 100 of them.
    ids: Vec<String>,
    /// What is damaged, and what can be done about it.
    error: String,
}

impl UnreadableJobs {
    /// `None` if everything could be read.
    pub fn of(unreadable: Unreadable) -> Option<UnreadableJobs> {
        let error = unreadable.why?;
        let ids = unreadable.ids.iter().map(JobId::to_string).collect();
        Some(UnreadableJobs { count: unreadable.count, ids, error })
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Jobs {
    jobs: Vec<JobView>,
    /// Only if there are such jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<UnreadableJobs>,
}

/// List jobs
///
/// The latest change of state first, without bodies and errors. A search can sort in other ways.
#[utoipa::path(get, path = "/jobs", tag = "jobs", params(ListQuery), responses((status = 200, body = Jobs)))]
pub async fn list(api: Api, Query(query): Query<ListQuery>) -> Result<Json<Jobs>> {
    let state = match query.state {
        Some(word) => Some(state(&word)?),
        None => None,
    };
    let queue = match query.queue {
        Some(name) => Some(Name::parse("queue", &name)?),
        None => None,
    };
    let limit = query.limit.unwrap_or(limits::PAGE).min(limits::PAGE_MOST);
    let (jobs, unreadable) = api.store.list(JobList { queue, state, limit, offset: query.offset }).await?;
    Ok(Json(Jobs { jobs: jobs.into_iter().map(JobView::from).collect(), unreadable: UnreadableJobs::of(unreadable) }))
}

#[derive(Debug, Deserialize, ToSchema)]
struct BulkGet {
    job_ids: Vec<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct WholeJobs {
    jobs: Vec<WholeJob>,
    /// Only if there are such jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<UnreadableJobs>,
}

/// Show many jobs
///
/// The records of many jobs. Those that do not exist are left out; those that cannot be read are listed in
/// `unreadable`.
#[utoipa::path(
    post,
    path = "/jobs/bulk-get",
    tag = "jobs",
    request_body = BulkGet,
    responses((status = 200, body = WholeJobs))
)]
pub async fn bulk_get(api: Api, body: Body) -> Result<Json<WholeJobs>> {
    let BulkGet { job_ids } = body.json()?;
    if job_ids.len() > limits::BULK_GET {
        return Err(Error::field("job_ids", format!("at most {} at once, not {}", limits::BULK_GET, job_ids.len())));
    }
    let store = api.store.frozen();
    let (mut jobs, mut unreadable) = (Vec::with_capacity(job_ids.len()), Unreadable::default());
    for id in job_ids.iter().filter_map(|id| id.parse().ok()) {
        match whole(&store, id).await {
            Ok(job) => jobs.extend(job),
            Err(error) => unreadable.add(id, error.into_damage()?),
        }
    }
    Ok(Json(WholeJobs { jobs, unreadable: UnreadableJobs::of(unreadable) }))
}

async fn whole(store: &Store, id: JobId) -> Result<Option<WholeJob>> {
    match store.job(id).await? {
        Some(job) => Ok(Some(view::whole(store, job).await?)),
        None => Ok(None),
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct LogQuery {
    #[serde(default)]
    from: u64,
    limit: Option<usize>,
    /// A stream of `log` events instead of a page: the lines from `from` on, then new ones, until the job has ended.
    #[serde(default)]
    follow: bool,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Logs {
    lines: Vec<LogLineView>,
    /// Where the next page starts.
    next: u64,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LogLine)]
struct LogLineView {
    n: u64,
    at: Rfc3339,
    attempt: u32,
    level: String,
    text: String,
}

/// The log of a job, as pages or as a live stream
#[utoipa::path(
    get,
    path = "/jobs/{id}/logs",
    tag = "jobs",
    params(LogQuery),
    responses(
        (
            status = 200,
            description = "A page of lines; with `follow=true` a stream of `log` events.",
            content((Logs = "application/json"), (StreamEvent = "text/event-stream"))
        )
    )
)]
pub async fn logs(api: Api, JobPath(id): JobPath, Query(query): Query<LogQuery>) -> Result<Response> {
    if query.follow {
        return events::follow_log(&api, id, query.from).await;
    }
    let store = api.store.frozen();
    if store.job(id).await?.is_none() {
        return Err(Refusal::not_found("job", id).into());
    }
    let limit = query.limit.unwrap_or(limits::LOG_PAGE).min(limits::LOG_PAGE_MOST);
    let lines = store.logs(id, query.from, limit).await?;
    let next = lines.last().map_or(query.from, |(n, _)| n + 1);
    let lines = lines.into_iter().map(|(n, line)| LogLineView {
        n,
        at: Rfc3339(line.at),
        attempt: line.attempt,
        level: line.level,
        text: line.text,
    });
    Ok(Json(Logs { lines: lines.collect(), next }).into_response())
}

/// The optional fields of an action.
#[derive(Debug, Default, Deserialize, ToSchema)]
struct Reason {
    reason: Option<String>,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
struct CancelRequest {
    reason: Option<String>,
    /// How long a running attempt in a plugin may take before it is stopped by force, at most an hour; 5 seconds if it
    /// is not said. Asked again, it may only get shorter.
    grace: Option<Span>,
}

/// Cancel a job
#[utoipa::path(
    post,
    path = "/jobs/{id}/cancel",
    tag = "jobs",
    request_body = Option<CancelRequest>,
    responses((status = 200, body = Status))
)]
pub async fn cancel(api: Api, JobPath(id): JobPath, body: Body) -> Result<Json<Status>> {
    let CancelRequest { reason, grace } = body.json_or_default()?;
    let reason = reason.unwrap_or_else(|| "cancelled by hand".to_owned());
    let command = Command::Cancel { reason, grace: grace.map(|span| span.0) };
    let reply = ask(&api, id, command).await?;
    // An active job ends when its attempt does.
    Ok(status(if matches!(reply, Reply::Stopping) { "cancelling" } else { "cancelled" }))
}

/// Run an ended job from the start, after removing everything below it
///
/// Its descendants are removed first, so that its new children get the same ids and nothing exists twice.
#[utoipa::path(
    post,
    path = "/jobs/{id}/rebuild",
    tag = "jobs",
    responses((status = 200, body = Status), (status = 409, description = "Another job has its unique key."))
)]
pub async fn rebuild(api: Api, JobPath(id): JobPath) -> Result<Json<Status>> {
    ask(&api, id, Command::Rebuild).await?;
    Ok(status("rebuilding"))
}

/// Give a dead job one more attempt, keeping its history
#[utoipa::path(
    post,
    path = "/jobs/{id}/requeue",
    tag = "jobs",
    responses((status = 200, body = Status), (status = 409, description = "Another job has its unique key."))
)]
pub async fn requeue(api: Api, JobPath(id): JobPath) -> Result<Json<Status>> {
    ask(&api, id, Command::Requeue).await?;
    Ok(status("requeued"))
}

#[derive(Debug, Default, Deserialize, ToSchema)]
struct Move {
    #[schema(required = true, value_type = NameText)]
    queue: Option<String>,
    #[serde(default)]
    reset_attempts: bool,
    priority: Option<PriorityName>,
}

/// Move a job to another queue
#[utoipa::path(
    post,
    path = "/jobs/{id}/move",
    tag = "jobs",
    request_body = Move,
    responses((status = 200, body = Status), (status = 409, description = "Another job has its unique key."))
)]
pub async fn move_to(api: Api, JobPath(id): JobPath, body: Body) -> Result<Json<Status>> {
    let wanted: Move = body.json_or_default()?;
    let Some(queue) = wanted.queue else {
        return Err(Error::field("queue", "is missing; name the queue to move the job to"));
    };
    let queue = Name::parse("queue", &queue)?;
    permitted::check_way(&api, [&queue], Way::Operated)?;
    let command = Command::Move(windlass_core::Move {
        queue,
        reset_attempts: wanted.reset_attempts,
        priority: wanted.priority.map(Into::into),
    });
    ask(&api, id, command).await?;
    Ok(status("moved"))
}

/// Hold a job until it is approved or rejected
#[utoipa::path(
    post,
    path = "/jobs/{id}/hold",
    tag = "jobs",
    request_body = Option<Reason>,
    responses((status = 200, body = Status))
)]
pub async fn hold(api: Api, JobPath(id): JobPath, body: Body) -> Result<Json<Status>> {
    let Reason { reason } = body.json_or_default()?;
    ask(&api, id, Command::Hold { reason: reason.unwrap_or_else(|| "held by hand".to_owned()) }).await?;
    Ok(status("held"))
}

/// Let a held job run
#[utoipa::path(post, path = "/jobs/{id}/approve", tag = "jobs", responses((status = 200, body = Status)))]
pub async fn approve(api: Api, JobPath(id): JobPath) -> Result<Json<Status>> {
    ask(&api, id, Command::Approve).await?;
    Ok(status("pending"))
}

/// End a held job as dead
#[utoipa::path(
    post,
    path = "/jobs/{id}/reject",
    tag = "jobs",
    request_body = Option<Reason>,
    responses((status = 200, body = Status))
)]
pub async fn reject(api: Api, JobPath(id): JobPath, body: Body) -> Result<Json<Status>> {
    let Reason { reason } = body.json_or_default()?;
    ask(&api, id, Command::Reject { reason: reason.unwrap_or_else(|| "rejected by hand".to_owned()) }).await?;
    Ok(status("dead"))
}

/// Delete a job
#[utoipa::path(delete, path = "/jobs/{id}", tag = "jobs", responses((status = 200, body = Status)))]
pub async fn delete(api: Api, JobPath(id): JobPath) -> Result<Json<Status>> {
    ask(&api, id, Command::Delete).await?;
    Ok(status("deleted"))
}

async fn ask(api: &Api, id: JobId, command: Command) -> Result<Reply> {
    Ok(api.store.ask(id, command, Vec::new()).await?)
}
