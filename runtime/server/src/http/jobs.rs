//! `/jobs`: looking at jobs, and what people ask of one.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use windlass_core::{Command, JobId, Name, Refusal, Reply};
use windlass_store::JobList;

use super::Api;
use super::error::{Error, Result};
use super::job_view::{self, JobView, WholeJob};
use super::read::{Body, JobPath, Query};
use super::wire::{PriorityWord, Rfc3339};
use crate::limits;

/// The answer to most actions.
#[derive(Debug, Serialize)]
pub struct Status {
    pub status: &'static str,
}

pub fn status(status: &'static str) -> Json<Status> {
    Json(Status { status })
}

pub async fn show(State(api): State<Api>, JobPath(id): JobPath) -> Result<Json<WholeJob>> {
    let job = api.store.job(id).await?.ok_or_else(|| Refusal::not_found("job", id))?;
    Ok(Json(job_view::whole(&api.store, job).await?))
}

#[derive(Debug, Deserialize)]
pub struct ListQuery {
    queue: Option<String>,
    state: Option<String>,
    limit: Option<usize>,
    #[serde(default)]
    offset: usize,
}

#[derive(Debug, Serialize)]
pub struct Jobs {
    jobs: Vec<JobView>,
}

/// A plain list, newest first, without bodies and errors.
pub async fn list(State(api): State<Api>, Query(query): Query<ListQuery>) -> Result<Json<Jobs>> {
    let state = match query.state {
        Some(word) => Some(state(&word)?),
        None => None,
    };
    let queue = match query.queue {
        Some(name) => Some(Name::parse("queue", &name)?),
        None => None,
    };
    let limit = query.limit.unwrap_or(limits::PAGE).min(limits::PAGE_MOST);
    let jobs = api.store.jobs(JobList { queue, state, limit, offset: query.offset }).await?;
    Ok(Json(Jobs { jobs: jobs.into_iter().map(JobView::from).collect() }))
}

#[derive(Debug, Deserialize)]
pub struct DeadQuery {
    queue: Option<String>,
    limit: Option<usize>,
    #[serde(default)]
    offset: usize,
}

/// The dead letter queue.
pub async fn dead(State(api): State<Api>, Query(query): Query<DeadQuery>) -> Result<Json<Jobs>> {
    let DeadQuery { queue, limit, offset } = query;
    list(State(api), Query(ListQuery { queue, state: Some("dead".to_owned()), limit, offset })).await
}

#[derive(Debug, Deserialize)]
struct BulkGet {
    job_ids: Vec<String>,
}

#[derive(Debug, Serialize)]
pub struct WholeJobs {
    jobs: Vec<WholeJob>,
}

/// The records of many jobs; those that do not exist are left out.
pub async fn bulk_get(State(api): State<Api>, body: Body) -> Result<Json<WholeJobs>> {
    let BulkGet { job_ids } = body.json()?;
    if job_ids.len() > limits::BULK_GET {
        return Err(Error::field("job_ids", format!("at most {} at once, not {}", limits::BULK_GET, job_ids.len())));
    }
    let mut jobs = Vec::with_capacity(job_ids.len());
    for id in job_ids.iter().filter_map(|id| id.parse().ok()) {
        if let Some(job) = api.store.job(id).await? {
            jobs.push(job_view::whole(&api.store, job).await?);
        }
    }
    Ok(Json(WholeJobs { jobs }))
}

fn state(word: &str) -> Result<windlass_core::State> {
    use windlass_core::State;
    let known = State::ALL.into_iter().find(|state| state.word() == word);
    known.ok_or_else(|| {
        let words = State::ALL.map(State::word).join(", ");
        Error::field("state", format!("{word:?} is not a state; the states are {words}"))
    })
}

#[derive(Debug, Deserialize)]
pub struct LogQuery {
    #[serde(default)]
    from: u64,
    limit: Option<usize>,
}

#[derive(Debug, Serialize)]
pub struct Logs {
    lines: Vec<Line>,
    /// Where the next page begins.
    next: u64,
}

#[derive(Debug, Serialize)]
struct Line {
    n: u64,
    at: Rfc3339,
    attempt: u32,
    level: String,
    text: String,
}

pub async fn logs(State(api): State<Api>, JobPath(id): JobPath, Query(query): Query<LogQuery>) -> Result<Json<Logs>> {
    if api.store.job(id).await?.is_none() {
        return Err(Refusal::not_found("job", id).into());
    }
    let limit = query.limit.unwrap_or(limits::LOG_PAGE).min(limits::LOG_PAGE_MOST);
    let lines = api.store.logs(id, query.from, limit).await?;
    let next = lines.last().map_or(query.from, |(n, _)| n + 1);
    let lines = lines.into_iter().map(|(n, line)| Line {
        n,
        at: Rfc3339(line.at),
        attempt: line.attempt,
        level: line.level,
        text: line.text,
    });
    Ok(Json(Logs { lines: lines.collect(), next }))
}

/// What an action may say of itself.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Reason {
    reason: Option<String>,
}

pub async fn cancel(State(api): State<Api>, JobPath(id): JobPath, body: Body) -> Result<Json<Status>> {
    let Reason { reason } = body.json_or_default()?;
    let command = Command::Cancel { reason: reason.unwrap_or_else(|| "cancelled by hand".to_owned()) };
    let reply = ask(&api, id, command).await?;
    // An active job ends when its attempt does.
    Ok(status(if matches!(reply, Reply::Stopping) { "cancelling" } else { "cancelled" }))
}

pub async fn retry(State(api): State<Api>, JobPath(id): JobPath) -> Result<Json<Status>> {
    ask(&api, id, Command::Retry).await?;
    Ok(status("retried"))
}

pub async fn requeue(State(api): State<Api>, JobPath(id): JobPath) -> Result<Json<Status>> {
    ask(&api, id, Command::Requeue).await?;
    Ok(status("requeued"))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Move {
    queue: Option<String>,
    reset_attempts: bool,
    priority: Option<PriorityWord>,
}

pub async fn move_to(State(api): State<Api>, JobPath(id): JobPath, body: Body) -> Result<Json<Status>> {
    let wanted: Move = body.json_or_default()?;
    let Some(queue) = wanted.queue else {
        return Err(Error::field("queue", "is missing; name the queue to move the job to"));
    };
    let command = Command::Move {
        queue: Name::parse("queue", &queue)?,
        reset_attempts: wanted.reset_attempts,
        priority: wanted.priority.map(Into::into),
    };
    ask(&api, id, command).await?;
    Ok(status("moved"))
}

pub async fn hold(State(api): State<Api>, JobPath(id): JobPath, body: Body) -> Result<Json<Status>> {
    let Reason { reason } = body.json_or_default()?;
    ask(&api, id, Command::Hold { reason: reason.unwrap_or_else(|| "held by hand".to_owned()) }).await?;
    Ok(status("held"))
}

pub async fn approve(State(api): State<Api>, JobPath(id): JobPath) -> Result<Json<Status>> {
    ask(&api, id, Command::Approve).await?;
    Ok(status("pending"))
}

pub async fn reject(State(api): State<Api>, JobPath(id): JobPath, body: Body) -> Result<Json<Status>> {
    let Reason { reason } = body.json_or_default()?;
    ask(&api, id, Command::Reject { reason: reason.unwrap_or_else(|| "rejected by hand".to_owned()) }).await?;
    Ok(status("dead"))
}

pub async fn delete(State(api): State<Api>, JobPath(id): JobPath) -> Result<Json<Status>> {
    ask(&api, id, Command::Delete).await?;
    Ok(status("deleted"))
}

async fn ask(api: &Api, id: JobId, command: Command) -> Result<Reply> {
    Ok(api.store.ask(id, command, Vec::new()).await?)
}
