//! The HTTP API: one file per resource. Wire types live here and are converted on purpose; a handler reads a request, asks the
//! store or the registry, and writes the answer. It decides nothing about a job.
//!
//! Reading order: `error` (every refusal in one place), `read` (requests), `wire` (words that several resources share), then
//! the resources.

mod access;
mod error;
mod read;
mod serve;
mod wire;

mod enqueue;
mod events;
mod fetch;
mod heartbeat;
mod job_view;
mod jobs;
mod metrics;
mod plugins;
mod policy;
mod queue_settings;
mod queues;
mod schedules;
mod settle;
mod stats;
mod system;
mod workers;

use std::sync::Arc;

use axum::Router;
use axum::http::{Method, Uri};
use axum::middleware;
use axum::routing::{get, post};
use windlass_store::Store;

use crate::Shutdown;
use crate::clock::SystemClock;
use crate::registry::Registry;
pub use access::Key;
use error::Error;
pub use events::Hub;
pub use serve::serve;
pub use workers::Workers;

/// What every handler works with.
#[derive(Clone)]
pub struct Api {
    pub store: Store,
    pub registry: Registry,
    pub clock: Arc<SystemClock>,
    pub max_body: usize,
    pub hub: Hub,
    pub workers: Workers,
    /// Without one, everybody who gets through may do everything.
    pub key: Option<Key>,
    pub shutdown: Shutdown,
}

pub fn router(api: Api) -> Router {
    let guarded = middleware::from_fn_with_state(api.clone(), access::check);
    Router::new()
        .route("/healthz", get(system::health))
        .route("/readyz", get(system::ready))
        .route("/metrics", get(metrics::show).layer(guarded.clone()))
        .nest("/api/v1", v1().layer(guarded))
        .fallback(no_route)
        .method_not_allowed_fallback(wrong_method)
        .with_state(api)
}

fn v1() -> Router<Api> {
    Router::new()
        .route("/info", get(system::info))
        .route("/cluster/status", get(system::cluster))
        .route("/plugins", get(plugins::list))
        .route("/plugins/{name}", get(plugins::show).put(plugins::upload).delete(plugins::remove))
        .route("/plugins/{name}/activate", post(plugins::activate))
        .route("/plugins/{name}/rollback", post(plugins::rollback))
        .route("/plugins/{name}/component", get(plugins::download))
        .route("/enqueue", post(enqueue::one))
        .route("/enqueue/batch", post(enqueue::batch))
        .route("/webhooks/{queue}", post(enqueue::webhook))
        .route("/jobs", get(jobs::list))
        .route("/jobs/stats", get(stats::all))
        .route("/jobs/bulk-get", post(jobs::bulk_get))
        .route("/dead", get(jobs::dead))
        .route("/jobs/{id}", get(jobs::show).delete(jobs::delete))
        .route("/jobs/{id}/logs", get(jobs::logs))
        .route("/jobs/{id}/events", get(events::of_job))
        .route("/jobs/{id}/wait", get(events::wait))
        .route("/events", get(events::all))
        .route("/jobs/{id}/cancel", post(jobs::cancel))
        .route("/jobs/{id}/retry", post(jobs::retry))
        .route("/jobs/{id}/requeue", post(jobs::requeue))
        .route("/jobs/{id}/move", post(jobs::move_to))
        .route("/jobs/{id}/hold", post(jobs::hold))
        .route("/jobs/{id}/approve", post(jobs::approve))
        .route("/jobs/{id}/reject", post(jobs::reject))
        .route("/queues", get(queues::list))
        .route("/queues/{name}", get(queues::show).delete(queues::remove))
        .route("/queues/{name}/settings", post(queue_settings::change).put(queue_settings::change))
        .route("/queues/{name}/stats", get(stats::of_queue))
        .route("/queues/{name}/pause", post(queues::pause))
        .route("/queues/{name}/resume", post(queues::resume))
        .route("/queues/{name}/drain", post(queues::drain))
        .route("/queues/{name}/clear", post(queues::clear))
        .route("/queues/{name}/concurrency", post(queues::concurrency))
        .route("/queues/{name}/throttle", post(queues::throttle).delete(queues::unthrottle))
        .route("/schedules", get(schedules::list).post(schedules::create))
        .route("/schedules/{name}", get(schedules::show).put(schedules::update).delete(schedules::remove))
        .route("/schedules/{name}/pause", post(schedules::pause))
        .route("/schedules/{name}/resume", post(schedules::resume))
        .route("/schedules/{name}/run", post(schedules::run))
        .route("/schedules/{name}/next", get(schedules::next))
        .route("/workers", get(workers::list))
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
