//! External workers fetching jobs: `POST /fetch` and `POST /fetch/batch`, both long polls.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use tracing::warn;
use utoipa::ToSchema;
use windlass_core::{
    BodyKind, Command, Fail, Failure, HandBack, Holder, JobId, Name, QueueName, Retry, Token, Usage, WorkerHappening,
    bounds,
};
use windlass_store::{Assignment, By, Claim, Clock};

use crate::http::Api;
use crate::http::flows::children;
use crate::http::ops::pause;
use crate::http::transport::error::{Error, Result};
use crate::http::transport::extract::Body;
use crate::http::wire::{GroupCounts, NameText, Shown, Span};
use crate::http::worker::workers::tell;
use crate::limits;

#[derive(Debug, Default, Deserialize, ToSchema)]
struct Fetch {
    #[schema(required = true, value_type = Vec<NameText>, min_items = 1)]
    #[serde(default)]
    queues: Vec<String>,
    worker_id: Option<String>,
    hostname: Option<String>,
    timeout: Option<Span>,
    /// For `/fetch/batch`: how many jobs at most; 1 by default.
    #[schema(minimum = 1, maximum = 512)]
    count: Option<usize>,
}

#[derive(Debug, Serialize, ToSchema)]
struct Fetched {
    job_id: String,
    #[schema(value_type = NameText)]
    queue: QueueName,
    #[schema(value_type = serde_json::Value)]
    payload: Option<Shown>,
    attempt: u32,
    /// The number of runs, including the first.
    max_attempts: u32,
    max_retries: u32,
    /// How long the worker may hold the job without a heartbeat, in seconds.
    lease_duration: u64,
    lease_token: String,
    #[schema(value_type = serde_json::Value)]
    checkpoint: Option<Shown>,
    tags: BTreeMap<String, String>,
    /// Its round, in a queue with rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    round: Option<u32>,
    /// The job waited for its children and they have ended: `GET /jobs/{id}/children` has their results.
    #[serde(skip_serializing_if = "Option::is_none")]
    children: Option<GroupCounts>,
}

#[derive(Debug, Serialize, ToSchema)]
struct FetchedMany {
    jobs: Vec<Fetched>,
}

/// Fetch a job, waiting for one if necessary
///
/// Returns one job, or 204 when the time is up.
#[utoipa::path(
    post,
    path = "/fetch",
    tag = "workers",
    request_body = Fetch,
    responses(
        (status = 200, body = Fetched),
        (
            status = 204,
            description = "No job within the timeout. While the whole server is paused, the header `Windlass-Warning` says so."
        ),
        (status = 422, description = "A plugin serves the queue.")
    )
)]
pub async fn one(api: Api, body: Body) -> Result<Response> {
    let fetched = claim(&api, body.json()?, 1).await?;
    Ok(match fetched.into_iter().next() {
        Some(job) => Json(job).into_response(),
        None => StatusCode::NO_CONTENT.into_response(),
    })
}

/// Fetch several jobs, waiting for the first if necessary
#[utoipa::path(
    post,
    path = "/fetch/batch",
    tag = "workers",
    request_body = Fetch,
    responses((status = 200, body = FetchedMany), (status = 422, description = "A plugin serves the queue."))
)]
pub async fn batch(api: Api, body: Body) -> Result<Response> {
    let fetch: Fetch = body.json()?;
    let count = fetch.count.unwrap_or(1);
    if !(1..=limits::WORKER_BATCH).contains(&count) {
        return Err(Error::field("count", format!("1 to {} jobs at once, not {count}", limits::WORKER_BATCH)));
    }
    let jobs = claim(&api, fetch, count).await?;
    Ok(Json(FetchedMany { jobs }).into_response())
}

async fn claim(api: &Api, fetch: Fetch, count: usize) -> Result<Vec<Fetched>> {
    let queues = queues(api, &fetch.queues)?;
    let worker_id = name("worker_id", fetch.worker_id)?;
    let hostname = name("hostname", fetch.hostname)?;
    let worker = api.worker_id(&worker_id);
    if api.workers.fetched(&worker, &hostname, &queues, api.clock.now()) {
        tell(api, &worker_id, &hostname, &queues, WorkerHappening::Connected);
    }
    let wait = poll_time(fetch.timeout.map_or(limits::POLL, |span| span.0));
    let waiting = api.workers.wait(&queues, api.clock.now()).map_err(|full| too_many(&full))?;
    let by = By::Worker { worker_id: worker_id.clone(), hostname };
    // Dropping a claim releases the jobs it would have received, so a client that disconnects loses nothing. In this
    // order, so that a worker that is draining claims nothing.
    let claimed = tokio::select! {
        biased;
        () = api.shutdown.requested() => return Err(Error::stopping()),
        // It waits as long as any other fetch, so that the worker does not poll in a busy loop.
        () = api.workers.drained(&worker) => {
            tokio::select! {
                () = tokio::time::sleep(wait) => return Ok(Vec::new()),
                () = api.shutdown.requested() => return Err(Error::stopping()),
            }
        }
        claimed = api.store.claim(Claim { by, queues, count, wait }) => claimed?,
    };
    waiting.end(api.clock.now());
    if claimed.is_empty() {
        pause::warn(api);
    }
    let mut unsent = Unsent { api: api.clone(), claimed: Vec::with_capacity(claimed.len()) };
    unsent.claimed.extend(claimed.iter().map(|assignment| (assignment.job.id, assignment.token)));
    let mut fetched = Vec::with_capacity(claimed.len());
    for assignment in claimed {
        let (id, token) = (assignment.job.id, assignment.token);
        match fetched_job(api, assignment).await {
            Ok(job) => fetched.push(job),
            Err(error) => {
                fail(api, id, token, error.into_damage()?).await?;
                unsent.claimed.retain(|(claimed, _)| *claimed != id);
            }
        }
    }
    unsent.claimed.clear();
    Ok(fetched)
}

/// Fails an attempt that cannot start because the job's data is damaged; handed back, it would block the queue.
async fn fail(api: &Api, id: JobId, token: Token, why: String) -> Result<()> {
    let failure =
        Failure { error: format!("the job's data cannot be read: {why}"), backtrace: None, retry: Retry::Backoff };
    let command = Command::Fail(Fail { holder: Holder::Token(token), failure, usage: Usage::default() });
    api.store.ask(id, command, Vec::new()).await?;
    Ok(())
}

fn too_many(queue: &QueueName) -> Error {
    let why = format!("too many fetches wait on queue {queue}; try again in a moment, or start fewer workers");
    Error::overloaded(why, limits::FETCH_RETRY)
}

/// Claimed jobs that have not been sent yet. If it is dropped before they are, because the client disconnected or a
/// body cannot be read, it hands them back.
struct Unsent {
    api: Api,
    claimed: Vec<(JobId, Token)>,
}

impl Drop for Unsent {
    fn drop(&mut self) {
        if self.claimed.is_empty() {
            return;
        }
        let reason = || "the worker disconnected before it got the job".to_owned();
        let claimed = std::mem::take(&mut self.claimed).into_iter();
        let back = |token| {
            Command::HandBack(HandBack { holder: Holder::Token(token), reason: reason(), usage: Usage::default() })
        };
        let asks = claimed.map(|(id, token)| (id, back(token))).collect();
        let store = self.api.store.clone();
        tokio::spawn(async move {
            if let Err(error) = store.ask_each(asks).await {
                warn!("jobs of a worker that disconnected are pending again when their leases lapse: {error}");
            }
        });
    }
}

fn queues(api: &Api, names: &[String]) -> Result<Vec<QueueName>> {
    if names.is_empty() || names.len() > limits::QUEUES {
        return Err(Error::field("queues", format!("name 1 to {} queues to fetch from", limits::QUEUES)));
    }
    let mut queues = Vec::with_capacity(names.len());
    for name in names {
        let queue = api.own(Name::parse("queues", name)?);
        if let Some(plugin) = api.registry.served_by(&queue) {
            let why = format!(
                "queue {queue} is served by plugin {plugin}, which runs its jobs in the server; fetch from another queue"
            );
            return Err(Error::served_by_plugin(why));
        }
        queues.push(queue);
    }
    Ok(queues)
}

/// A name that a worker gives itself; a missing one is empty.
fn name(field: &str, text: Option<String>) -> Result<String> {
    let text = text.unwrap_or_default();
    if text.len() > bounds::WORKER_BYTES {
        return Err(Error::field(field, format!("at most {} bytes", bounds::WORKER_BYTES)));
    }
    Ok(text)
}

/// A little less than the client asked for, because its own timeout may be as long as the poll.
fn poll_time(asked: Duration) -> Duration {
    let asked = asked.min(limits::POLL_MOST);
    asked.saturating_sub(limits::POLL_EARLY.min(asked / 10))
}

async fn fetched_job(api: &Api, Assignment { job, token, .. }: Assignment) -> Result<Fetched> {
    let payload = api.store.body(&job, BodyKind::Payload).await?;
    let checkpoint = api.store.body(&job, BodyKind::Checkpoint).await?;
    let joined = job.links.as_ref().is_some_and(|links| links.joined);
    let children = if joined { children::counts(&api.store, &job).await? } else { None };
    Ok(Fetched {
        children,
        round: job.round,
        job_id: job.id.to_string(),
        queue: job.queue,
        payload: payload.map(Shown),
        attempt: job.attempt,
        max_attempts: job.policy.max_attempts,
        max_retries: job.policy.max_attempts,
        lease_duration: job.policy.lease.as_secs(),
        lease_token: token.to_string(),
        checkpoint: checkpoint.map(Shown),
        tags: job.tags.into_iter().collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poll_ends_before_its_client_gives_up() {
        assert_eq!(poll_time(Duration::from_secs(30)), Duration::from_millis(29_500));
        assert_eq!(poll_time(Duration::from_secs(1)), Duration::from_millis(900));
        assert_eq!(poll_time(Duration::from_secs(3600)), Duration::from_millis(59_500));
        assert_eq!(poll_time(Duration::ZERO), Duration::ZERO);
    }
}
