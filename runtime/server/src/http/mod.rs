//! The HTTP API: a folder for each group of resources. Wire types live here and are converted on purpose; a handler reads a request, asks the
//! store or the registry, and writes the response. It decides nothing about a job.
//!
//! Reading order: `transport` (how receiving requests and responding, with every refusal in one place), `wire` (types that
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
pub use jobs::search::{OrderName, SortName};
pub use ops::pause::PAUSED;
pub use transport::auth::{AccessControl, Key};
pub use transport::body_budget::BodyBudget;
use transport::error::Error;
pub use transport::host::{AllowedHost, Hosts};
pub use transport::listen::{Bounds, Door, serve};
use transport::openapi::Routes;
pub use transport::tls::{Tls, TlsFiles};
pub use worker::workers::Workers;

/// The state of every handler. Cheap to clone, which the router does several times for each request.
#[derive(Clone)]
pub struct Api(Arc<Parts>);

/// The parts of the server that handlers use.
pub struct Parts {
    pub store: Store,
    pub registry: Registry,
    pub secrets: Secrets,
    pub clock: Arc<SystemClock>,
    pub max_body: usize,
    /// The memory for the bodies of all requests.
    pub bodies: BodyBudget,
    /// How long a client may pause in the middle of a body.
    pub client_timeout: Duration,
    pub hub: Hub,
    pub workers: Workers,
    pub rates: Rates,
    pub webhooks: Webhooks,
    /// Without one, every client that can connect may do everything.
    pub key: Option<Key>,
    pub shutdown: Shutdown,
}

impl Deref for Api {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

/// The whole API, behind its access control.
pub fn service(parts: Parts, hosts: Hosts) -> AccessControl {
    let key = parts.key.clone();
    let (router, _) = routes().split();
    let router = router.fallback(no_route).method_not_allowed_fallback(wrong_method);
    AccessControl::new(router.with_state(Api(Arc::new(parts))), key, hosts)
}

/// The description of the API, for tests that compare something with it.
#[cfg(test)]
pub fn description() -> serde_json::Value {
    routes().split().1
}

/// All routes of the server. `Routes` accepts no handler without its description.
fn routes() -> Routes {
    Routes::new()
        .with(routes!(ops::index::index))
        .with(routes!(ops::system::health))
        .with(routes!(ops::system::ready))
        .with(routes!(ops::metrics::show))
        .with(routes!(transport::openapi::document))
        .with(routes!(transport::openapi::page))
        .join(v1())
}

/// Everything under `/api/v1`, a function for each group of resources.
fn v1() -> Routes {
    let routes = Routes::under("/api/v1");
    [server, plugin, producer, flow, job, bulk, queue, schedule, worker, event]
        .into_iter()
        .fold(routes, |all, add| add(all))
}

fn server(routes: Routes) -> Routes {
    routes
        .with(routes!(ops::system::info))
        .with(routes!(ops::system::cluster))
        .with(routes!(ops::pause::pause))
        .with(routes!(ops::pause::resume))
        .with(routes!(ops::metrics::show_v1))
}

fn plugin(routes: Routes) -> Routes {
    routes
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
        .with(routes!(plugins::secrets::list))
        .with(routes!(plugins::secrets::set, plugins::secrets::remove))
}

fn producer(routes: Routes) -> Routes {
    routes
        .with(routes!(produce::enqueue::one))
        .with(routes!(produce::enqueue::batch))
        // The older path of an outgoing webhook differs from that of an incoming one by its method alone.
        .with(routes!(produce::inbound::webhook, events::webhooks::remove_alias))
}

fn flow(routes: Routes) -> Routes {
    routes
        .with(routes!(flows::children::list))
        .with(routes!(flows::children::tree))
        .with(routes!(flows::show))
        .with(routes!(flows::batches::create))
        .with(routes!(flows::batches::show))
        .with(routes!(flows::batches::seal))
}

fn job(routes: Routes) -> Routes {
    routes
        .with(routes!(jobs::list))
        .with(routes!(jobs::stats::all))
        .with(routes!(jobs::bulk_get))
        .with(routes!(jobs::search::search))
        .with(routes!(jobs::search::dead))
        .with(routes!(jobs::show, jobs::delete))
        .with(routes!(jobs::logs))
        .with(routes!(jobs::raw::result))
        .with(routes!(jobs::raw::payload))
        .with(routes!(jobs::cancel))
        .with(routes!(jobs::retry))
        .with(routes!(jobs::rebuild))
        .with(routes!(jobs::requeue))
        .with(routes!(jobs::move_to))
        .with(routes!(jobs::hold))
        .with(routes!(jobs::approve))
        .with(routes!(jobs::reject))
}

fn bulk(routes: Routes) -> Routes {
    routes
        .with(routes!(jobs::bulk::start))
        .with(routes!(jobs::bulk::list_bulks))
        .with(routes!(jobs::bulk::show_bulk))
        .with(routes!(jobs::bulk::progress))
        .with(routes!(jobs::bulk::cancel_bulk))
}

fn queue(routes: Routes) -> Routes {
    routes
        .with(routes!(queues::list))
        .with(routes!(queues::show, queues::remove))
        .with(routes!(queues::settings::change))
        .with(routes!(queues::rounds::list_rounds))
        .with(routes!(queues::rounds::sweep))
        .with(routes!(queues::records::list_records))
        .with(routes!(jobs::stats::of_queue))
        .with(routes!(queues::pause))
        .with(routes!(queues::resume))
        .with(routes!(queues::drain))
        .with(routes!(queues::clear))
        .with(routes!(queues::concurrency))
        .with(routes!(queues::throttle, queues::unthrottle))
}

fn schedule(routes: Routes) -> Routes {
    routes
        .with(routes!(schedules::list, schedules::create))
        .with(routes!(schedules::show, schedules::update, schedules::remove))
        .with(routes!(schedules::pause))
        .with(routes!(schedules::resume))
        .with(routes!(schedules::run))
        .with(routes!(schedules::next))
}

fn worker(routes: Routes) -> Routes {
    routes
        .with(routes!(worker::workers::list))
        .with(routes!(worker::workers::drain))
        .with(routes!(worker::workers::resume))
        .with(routes!(worker::fetch::one))
        .with(routes!(worker::fetch::batch))
        .with(routes!(worker::ack::ack_batch))
        .with(routes!(worker::ack::ack))
        .with(routes!(worker::ack::fail))
        .with(routes!(worker::heartbeat::heartbeat))
}

fn event(routes: Routes) -> Routes {
    routes
        .with(routes!(events::of_job))
        .with(routes!(events::wait))
        .with(routes!(events::all))
        .with(routes!(events::webhooks::list, events::webhooks::create))
        .with(routes!(events::webhooks::show, events::webhooks::remove))
        .with(routes!(events::webhooks::list_alias, events::webhooks::create_alias))
}

async fn no_route(method: Method, uri: Uri) -> Error {
    Error::not_found(format!("there is no {method} {}; the API is under /api/v1", uri.path()))
}

async fn wrong_method(method: Method, uri: Uri) -> Error {
    Error::wrong_method(format!(
        "{} does not support {method}; the Allow header lists the methods it supports",
        uri.path()
    ))
}
