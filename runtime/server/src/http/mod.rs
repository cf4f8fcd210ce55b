//! The HTTP API: one file per resource. Wire types live here and are converted on purpose; a handler reads a request, asks the
//! store or the registry, and writes the answer. It decides nothing about a job.
//!
//! Reading order: `error` (every refusal in one place), `read` (requests), `wire` (words that several resources share),
//! `openapi` (every route is described), then the resources.

mod access;
mod error;
mod host;
mod places;
mod read;
mod records;
mod rounds;
mod serve;
pub mod wire;

mod agent;
mod attempt_view;
mod batches;
mod bulk;
mod chains;
mod children;
mod enqueue;
mod events;
mod fetch;
mod filter;
mod flow_graph;
mod flow_picture;
mod flows;
mod heartbeat;
mod inbound;
mod index;
mod job_view;
mod jobs;
mod metrics;
mod openapi;
mod patient;
mod pause;
mod plugins;
mod policy;
mod queue_settings;
mod queues;
mod raw;
mod schedules;
mod search;
mod secrets;
mod served;
mod settle;
mod stats;
mod system;
mod unknown;
mod warnings;
mod webhooks;
mod workers;

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{Method, Uri};
use utoipa_axum::routes;
use windlass_store::Store;

use crate::Shutdown;
use crate::clock::SystemClock;
use crate::figures::Rates;
use crate::registry::Registry;
use crate::secrets::Secrets;
use crate::webhooks::Webhooks;
pub use access::{Door, Key};
use error::Error;
pub use events::{Hub, event_json};
pub use host::{AllowedHost, Hosts};
use openapi::Routes;
pub use pause::PAUSED;
pub use search::{OrderWord, SortWord};
pub use serve::{Bounds, serve};
pub use workers::Workers;

/// What every handler works with. Cheap to clone, which the router does several times for each request.
#[derive(Clone)]
pub struct Api(Arc<Parts>);

/// The parts of the server that handlers ask.
pub struct Parts {
    pub store: Store,
    pub registry: Registry,
    pub secrets: Secrets,
    pub clock: Arc<SystemClock>,
    pub max_body: usize,
    /// How long a client may fall silent in the middle of a body.
    pub client_timeout: Duration,
    pub hub: Hub,
    pub workers: Workers,
    pub rates: Rates,
    pub webhooks: Webhooks,
    /// Without one, everybody who gets through may do everything.
    pub key: Option<Key>,
    pub shutdown: Shutdown,
}

impl Deref for Api {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

/// The whole API, behind its door.
pub fn door(parts: Parts, hosts: Hosts) -> Door {
    let key = parts.key.clone();
    let (router, _) = routes().split();
    let router = router.fallback(no_route).method_not_allowed_fallback(wrong_method);
    Door::new(router.with_state(Api(Arc::new(parts))), key, hosts)
}

/// The description of the API, for tests that hold something against it.
#[cfg(test)]
pub fn description() -> serde_json::Value {
    routes().split().1
}

/// Everything the server answers. `Routes` takes no handler without its description.
fn routes() -> Routes {
    Routes::new()
        .with(routes!(index::index))
        .with(routes!(system::health))
        .with(routes!(system::ready))
        .with(routes!(metrics::show))
        .with(routes!(openapi::document))
        .with(routes!(openapi::page))
        .join(v1())
}

fn v1() -> Routes {
    Routes::under("/api/v1")
        .with(routes!(system::info))
        .with(routes!(system::cluster))
        .with(routes!(pause::pause))
        .with(routes!(pause::resume))
        .with(routes!(metrics::show_v1))
        .with(routes!(plugins::list))
        .with(routes!(plugins::show, plugins::upload, plugins::remove))
        .with(routes!(plugins::activate))
        .with(routes!(plugins::rollback))
        .with(routes!(plugins::remove_version))
        .with(routes!(plugins::start_canary, plugins::stop_canary))
        .with(routes!(plugins::promote_canary))
        .with(routes!(plugins::manifest, plugins::set_manifest))
        .with(routes!(plugins::grant, plugins::set_grant, plugins::revoke))
        .with(routes!(plugins::download))
        .with(routes!(secrets::list))
        .with(routes!(secrets::set, secrets::remove))
        .with(routes!(enqueue::one))
        .with(routes!(enqueue::batch))
        .with(routes!(inbound::webhook, webhooks::remove))
        .with(routes!(webhooks::list, webhooks::create))
        .with(routes!(children::list))
        .with(routes!(children::tree))
        .with(routes!(flows::show))
        .with(routes!(batches::make))
        .with(routes!(batches::show))
        .with(routes!(batches::seal))
        .with(routes!(jobs::list))
        .with(routes!(stats::all))
        .with(routes!(jobs::bulk_get))
        .with(routes!(search::search))
        .with(routes!(search::dead))
        .with(routes!(bulk::start))
        .with(routes!(bulk::list_bulks))
        .with(routes!(bulk::show_bulk, bulk::delete_bulk))
        .with(routes!(bulk::progress))
        .with(routes!(bulk::cancel_bulk))
        .with(routes!(jobs::show, jobs::delete))
        .with(routes!(jobs::logs))
        .with(routes!(raw::result))
        .with(routes!(raw::payload))
        .with(routes!(events::of_job))
        .with(routes!(events::wait))
        .with(routes!(events::all))
        .with(routes!(jobs::cancel))
        .with(routes!(jobs::retry))
        .with(routes!(jobs::rebuild))
        .with(routes!(jobs::requeue))
        .with(routes!(jobs::move_to))
        .with(routes!(jobs::hold))
        .with(routes!(jobs::approve))
        .with(routes!(jobs::reject))
        .with(routes!(queues::list))
        .with(routes!(queues::show, queues::remove))
        .with(routes!(queue_settings::change))
        .with(routes!(rounds::list_rounds))
        .with(routes!(rounds::sweep))
        .with(routes!(records::list_records))
        .with(routes!(stats::of_queue))
        .with(routes!(queues::pause))
        .with(routes!(queues::resume))
        .with(routes!(queues::drain))
        .with(routes!(queues::clear))
        .with(routes!(queues::concurrency))
        .with(routes!(queues::throttle, queues::unthrottle))
        .with(routes!(schedules::list, schedules::create))
        .with(routes!(schedules::show, schedules::update, schedules::remove))
        .with(routes!(schedules::pause))
        .with(routes!(schedules::resume))
        .with(routes!(schedules::run))
        .with(routes!(schedules::next))
        .with(routes!(workers::list))
        .with(routes!(workers::drain))
        .with(routes!(workers::resume))
        .with(routes!(fetch::one))
        .with(routes!(fetch::batch))
        .with(routes!(settle::ack_batch))
        .with(routes!(settle::ack))
        .with(routes!(settle::fail))
        .with(routes!(heartbeat::beat))
}

async fn no_route(method: Method, uri: Uri) -> Error {
    Error::not_found(format!("there is no {method} {}; the API is under /api/v1", uri.path()))
}

async fn wrong_method(method: Method, uri: Uri) -> Error {
    Error::wrong_method(format!("{} does not take {method}; the Allow header says what it takes", uri.path()))
}
