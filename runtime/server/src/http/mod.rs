//! The HTTP API: a folder for each group of resources. Wire types live here and are converted on purpose; a handler reads a request, asks the
//! store or the registry, and writes the answer. It decides nothing about a job.
//!
//! Reading order: `transport` (how a request comes in and an answer goes out, with every refusal in one place), `wire` (types that
//! several resources share), then the resources: `produce`, `jobs`, `flows`, `queues`, `schedules`, `plugins`, `worker`, `events`, `ops`.

mod events;
mod flows;
mod jobs;
mod ops;
mod plugins;
mod produce;
mod queues;
mod schedules;
mod transport;
pub mod wire;
mod worker;

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{Method, Uri};
use utoipa_axum::routes;
use windlass_store::Store;

use crate::Shutdown;
use crate::clock::SystemClock;
use crate::metrics::Rates;
use crate::registry::Registry;
use crate::secrets::Secrets;
use crate::webhooks::Webhooks;
pub use events::{Hub, event_json};
pub use jobs::search::{OrderWord, SortName};
pub use ops::pause::PAUSED;
pub use transport::auth::{AccessControl, Key};
use transport::error::Error;
pub use transport::host::{AllowedHost, Hosts};
pub use transport::listen::{Bounds, serve};
use transport::openapi::Routes;
pub use worker::workers::Workers;

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
pub fn door(parts: Parts, hosts: Hosts) -> AccessControl {
    let key = parts.key.clone();
    let (router, _) = routes().split();
    let router = router.fallback(no_route).method_not_allowed_fallback(wrong_method);
    AccessControl::new(router.with_state(Api(Arc::new(parts))), key, hosts)
}

/// The description of the API, for tests that hold something against it.
#[cfg(test)]
pub fn description() -> serde_json::Value {
    routes().split().1
}

/// Everything the server answers. `Routes` takes no handler without its description.
fn routes() -> Routes {
    Routes::new()
        .with(routes!(crate::http::ops::index::index))
        .with(routes!(crate::http::ops::system::health))
        .with(routes!(crate::http::ops::system::ready))
        .with(routes!(crate::http::ops::metrics::show))
        .with(routes!(crate::http::transport::openapi::document))
        .with(routes!(crate::http::transport::openapi::page))
        .join(v1())
}

fn v1() -> Routes {
    Routes::under("/api/v1")
        .with(routes!(crate::http::ops::system::info))
        .with(routes!(crate::http::ops::system::cluster))
        .with(routes!(crate::http::ops::pause::pause))
        .with(routes!(crate::http::ops::pause::resume))
        .with(routes!(crate::http::ops::metrics::show_v1))
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
        .with(routes!(crate::http::plugins::secrets::list))
        .with(routes!(crate::http::plugins::secrets::set, crate::http::plugins::secrets::remove))
        .with(routes!(crate::http::produce::enqueue::one))
        .with(routes!(crate::http::produce::enqueue::batch))
        .with(routes!(crate::http::produce::inbound::webhook, crate::http::events::webhooks::remove))
        .with(routes!(crate::http::events::webhooks::list, crate::http::events::webhooks::create))
        .with(routes!(crate::http::flows::children::list))
        .with(routes!(crate::http::flows::children::tree))
        .with(routes!(flows::show))
        .with(routes!(crate::http::flows::batches::make))
        .with(routes!(crate::http::flows::batches::show))
        .with(routes!(crate::http::flows::batches::seal))
        .with(routes!(jobs::list))
        .with(routes!(crate::http::jobs::stats::all))
        .with(routes!(jobs::bulk_get))
        .with(routes!(crate::http::jobs::search::search))
        .with(routes!(crate::http::jobs::search::dead))
        .with(routes!(crate::http::jobs::bulk::start))
        .with(routes!(crate::http::jobs::bulk::list_bulks))
        .with(routes!(crate::http::jobs::bulk::show_bulk, crate::http::jobs::bulk::delete_bulk))
        .with(routes!(crate::http::jobs::bulk::progress))
        .with(routes!(crate::http::jobs::bulk::cancel_bulk))
        .with(routes!(jobs::show, jobs::delete))
        .with(routes!(jobs::logs))
        .with(routes!(crate::http::jobs::raw::result))
        .with(routes!(crate::http::jobs::raw::payload))
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
        .with(routes!(crate::http::queues::settings::change))
        .with(routes!(crate::http::queues::rounds::list_rounds))
        .with(routes!(crate::http::queues::rounds::sweep))
        .with(routes!(crate::http::queues::records::list_records))
        .with(routes!(crate::http::jobs::stats::of_queue))
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
        .with(routes!(crate::http::worker::workers::list))
        .with(routes!(crate::http::worker::workers::drain))
        .with(routes!(crate::http::worker::workers::resume))
        .with(routes!(crate::http::worker::fetch::one))
        .with(routes!(crate::http::worker::fetch::batch))
        .with(routes!(crate::http::worker::ack::ack_batch))
        .with(routes!(crate::http::worker::ack::ack))
        .with(routes!(crate::http::worker::ack::fail))
        .with(routes!(crate::http::worker::heartbeat::beat))
}

async fn no_route(method: Method, uri: Uri) -> Error {
    Error::not_found(format!("there is no {method} {}; the API is under /api/v1", uri.path()))
}

async fn wrong_method(method: Method, uri: Uri) -> Error {
    Error::wrong_method(format!("{} does not take {method}; the Allow header says what it takes", uri.path()))
}
