//! The HTTP API: one file per resource. Wire types live here and are converted on purpose; a handler reads a request, asks the
//! store or the registry, and writes the answer. It decides nothing about a job.
//!
//! Reading order: `error` (every refusal in one place), `read` (requests), `wire` (words that several resources share), then
//! the resources.

mod error;
mod read;
mod wire;

mod enqueue;
mod fetch;
mod heartbeat;
mod job_view;
mod jobs;
mod plugins;
mod queues;
mod settle;
mod system;

use std::sync::Arc;

use axum::Router;
use axum::http::{Method, Uri};
use axum::routing::{delete, get, post};
use windlass_store::Store;

use crate::Shutdown;
use crate::clock::SystemClock;
use crate::registry::Registry;
use error::Error;

/// What every handler works with.
#[derive(Clone)]
pub struct Api {
    pub store: Store,
    pub registry: Registry,
    pub clock: Arc<SystemClock>,
    pub max_body: usize,
    pub shutdown: Shutdown,
}

pub fn router(api: Api) -> Router {
    Router::new()
        .route("/healthz", get(system::health))
        .nest("/api/v1", v1())
        .fallback(no_route)
        .method_not_allowed_fallback(wrong_method)
        .with_state(api)
}

fn v1() -> Router<Api> {
    Router::new()
        .route("/info", get(system::info))
        .route("/plugins", get(plugins::list))
        .route("/plugins/{name}", get(plugins::show).put(plugins::upload))
        .route("/enqueue", post(enqueue::one))
        .route("/enqueue/batch", post(enqueue::batch))
        .route("/jobs", get(jobs::list))
        .route("/jobs/{id}", get(jobs::show).delete(jobs::delete))
        .route("/jobs/{id}/logs", get(jobs::logs))
        .route("/jobs/{id}/cancel", post(jobs::cancel))
        .route("/jobs/{id}/retry", post(jobs::retry))
        .route("/jobs/{id}/requeue", post(jobs::requeue))
        .route("/jobs/{id}/move", post(jobs::move_to))
        .route("/jobs/{id}/hold", post(jobs::hold))
        .route("/jobs/{id}/approve", post(jobs::approve))
        .route("/jobs/{id}/reject", post(jobs::reject))
        .route("/queues", get(queues::list))
        .route("/queues/{name}", delete(queues::remove))
        .route("/queues/{name}/pause", post(queues::pause))
        .route("/queues/{name}/resume", post(queues::resume))
        .route("/queues/{name}/drain", post(queues::drain))
        .route("/queues/{name}/clear", post(queues::clear))
        .route("/queues/{name}/concurrency", post(queues::concurrency))
        .route("/queues/{name}/throttle", post(queues::throttle).delete(queues::unthrottle))
        .route("/fetch", post(fetch::one))
        .route("/fetch/batch", post(fetch::batch))
        .route("/ack/batch", post(settle::ack_batch))
        .route("/ack/{id}", post(settle::ack))
        .route("/fail/{id}", post(settle::fail))
        .route("/heartbeat", post(heartbeat::beat))
}

async fn no_route(method: Method, uri: Uri) -> Error {
    Error::not_found(format!("there is no {method} {}; the API is under /api/v1", uri.path()))
}

async fn wrong_method(method: Method, uri: Uri) -> Error {
    Error::wrong_method(format!("{} does not take {method}; the Allow header says what it takes", uri.path()))
}
