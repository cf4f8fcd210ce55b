//! The HTTP API: a folder for each group of resources. Wire types live here and are converted on purpose; a handler
//! reads a request, asks the store or the registry, and writes the response. It decides nothing about a job.
//!
//! Reading order: `transport` (how receiving requests and responding, with every refusal in one place), `wire` (types
//! that several resources share), then the resources: `produce`, `jobs`, `flows`, `queues`, `schedules`, `plugins`,
//! `worker`, `events`, `live`, `ops`, and `console`, the files of the application for browsers.
//!
//! Two subjects are spread over several places, each for a reason:
//!
//! | subject | place | what is there |
//! |---|---|---|
//! | access | `transport::auth` | the checks that every request passes, in their order |
//! | | `transport::credentials`, `same_origin`, `throttle` | reading what a request proves its sender with; where it came from; how often |
//! | | `access` | who somebody is and what a route needs: keys, sessions, rules and namespaces in memory |
//! | | `auth` | the routes about it: signing in, `/auth/keys`, `/namespaces`, `/enqueue-rules`, `/audit-logs` |
//! | | `crate::oidc` | the provider: its keys, tokens, and the steps of signing in |
//! | webhooks | `webhooks` | the routes about them: outgoing ones, their deliveries, and inbound ones |
//! | | `produce::inbound` | a webhook that arrives and becomes a job |
//! | | `crate::webhooks` | sending events, with retries; verifying signatures |

mod access;
mod auth;
mod console;
mod events;
mod flows;
mod jobs;
mod live;
mod ops;
mod plugins;
mod produce;
mod queues;
mod schedules;
mod transport;
mod webhooks;
pub mod wire;
mod worker;

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::{Method, Uri, request};
use axum::routing::get;
use utoipa_axum::routes;
use windlass_core::access::Permission::{
    Administer, AdministerServer, Anybody, Deploy, Enqueue, Operate, Public, Read, ReadJob, SignedIn, Work,
};
use windlass_core::{AllowedQueues, Name, Namespace};
use windlass_store::{Caller, Store};

use crate::Shutdown;
use crate::clock::SystemClock;
use crate::dispatcher::RunningAttempts;
use crate::metrics::{PluginFigures, Rates, Series};
use crate::registry::Registry;
use crate::secrets::Secrets;
use crate::webhooks::Webhooks;
use crate::webhooks::inbound::InboundHooks;
pub(crate) use access::key_text;
pub use access::{Authority, StartKey};
pub use console::Console;
pub use events::{Hub, event_json, test_event_json};
pub use jobs::search::{OrderName, SortName};
pub use live::Pulse;
pub use ops::pause::PAUSED;
pub use ops::server_state::{ServerSettings, ServerState};
pub use transport::auth::AccessControl;
pub use transport::body_budget::BodyBudget;
pub use transport::connections::ConnectionSlots;
use transport::error::{Error, Result};
use transport::extract;
pub use transport::host::{AllowedHost, Hosts};
pub use transport::listen::{Bounds, Door, serve};
use transport::openapi::Routes;
pub use transport::tls::{Tls, TlsFiles};
pub use worker::workers::{WorkerId, Workers};

/// What all requests share: the state of the router. Cheap to clone, which the router does several times for each
/// request.
#[derive(Clone)]
pub struct Shared(Arc<Parts>);

/// What a handler works with: the parts of the server, and the store as the caller may see it.
#[derive(Clone)]
pub struct Api {
    parts: Arc<Parts>,
    /// Shows and changes what is the caller's, and nothing else.
    pub store: Store,
    pub caller: Arc<Caller>,
}

/// The parts of the server that handlers use.
pub struct Parts {
    /// Everything that is stored, whoever it belongs to. Handlers use the caller's.
    pub whole_store: Store,
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
    pub series: Series,
    pub pulse: Pulse,
    /// The attempts that run in this process, and how many may at once.
    pub running: RunningAttempts,
    pub slots: usize,
    pub figures: PluginFigures,
    pub server_state: ServerState,
    pub webhooks: Webhooks,
    pub authority: Authority,
    pub inbound: InboundHooks,
    pub console: Console,
    pub shutdown: Shutdown,
}

impl Deref for Shared {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl Deref for Api {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.parts
    }
}

impl FromRequestParts<Shared> for Api {
    type Rejection = Error;

    async fn from_request_parts(request: &mut request::Parts, shared: &Shared) -> Result<Api> {
        let caller = extract::caller(request)?;
        let store = shared.whole_store.of_caller(Arc::clone(&caller));
        Ok(Api { parts: Arc::clone(&shared.0), store, caller })
    }
}

impl Api {
    /// A name that the caller gave, in the caller's namespace.
    pub fn own(&self, name: Name) -> Name {
        name.within(&self.caller.allowed.namespace)
    }

    /// A worker that is the caller, by the name it gives itself.
    pub fn worker_id(&self, name: &str) -> WorkerId {
        (self.caller.allowed.namespace.clone(), name.to_owned())
    }

    /// The store as an admin of another namespace sees it, in the name of the caller.
    pub fn store_of(&self, namespace: &Namespace) -> Store {
        let allowed = AllowedQueues::of(namespace.clone());
        self.whole_store.of_caller(Arc::new(Caller { allowed, ..Caller::clone(&self.caller) }))
    }

    /// What all requests share, for reading the rest of one.
    pub fn shared(&self) -> Shared {
        Shared(Arc::clone(&self.parts))
    }

    /// For changes of plugins that the caller asks for.
    pub fn registry(&self) -> Registry {
        self.registry.of_caller(&self.store)
    }
}

/// The whole API, behind its access control.
pub fn service(parts: Parts, hosts: Hosts) -> AccessControl {
    let (routes, authority, inbound) = (routes(), parts.authority.clone(), parts.inbound.clone());
    let table = routes.table();
    let (router, _) = routes.split();
    let router = router.fallback(no_route).method_not_allowed_fallback(wrong_method);
    let router =
        router.with_state(Shared(Arc::new(parts))).layer(axum::middleware::from_fn(transport::compress::compress));
    AccessControl::new(router, hosts, table, authority, inbound)
}

/// The description of the API, for tests that compare something with it.
#[cfg(test)]
pub fn description() -> serde_json::Value {
    routes().split().1
}

/// All routes of the server. `Routes` accepts no handler without its description and the permission that it needs.
fn routes() -> Routes {
    Routes::new()
        .with(Public, routes!(ops::index::index))
        .with(Public, routes!(ops::system::health))
        .with(Public, routes!(ops::system::ready))
        .with(Read, routes!(ops::metrics::show))
        .with(Public, routes!(transport::openapi::document))
        .with(Public, routes!(transport::openapi::page))
        .with_files("/ui", get(console::to_address))
        .with_files("/ui/", get(console::show))
        .with_files("/ui/{*path}", get(console::show))
        .join(v1())
}

/// Everything under `/api/v1`, a function for each group of resources.
fn v1() -> Routes {
    let routes = Routes::under("/api/v1");
    [server, access, plugin, producer, flow, job, bulk, queue, schedule, worker, event, webhook]
        .into_iter()
        .fold(routes, |all, add| add(all))
}

fn server(routes: Routes) -> Routes {
    routes
        .with(SignedIn, routes!(ops::system::info))
        .with(Read, routes!(ops::system::cluster))
        .with(AdministerServer, routes!(ops::pause::pause))
        .with(AdministerServer, routes!(ops::pause::resume))
        .with(Read, routes!(ops::metrics::show_v1))
        .with(Read, routes!(live::series::show_series))
        .with(Read, routes!(live::series::queues))
        .with(Read, routes!(live::pulse::watch))
        .with(Read, routes!(ops::server_state::show))
}

fn access(routes: Routes) -> Routes {
    routes
        .with(Anybody, routes!(auth::session::status))
        .with(Public, routes!(auth::session::sign_in))
        .with(Anybody, routes!(auth::session::sign_out))
        .with(Public, routes!(auth::oidc::login))
        .with(Public, routes!(auth::oidc::callback))
        .with(Administer, routes!(auth::keys::list, auth::keys::create))
        .with(Administer, routes!(auth::keys::revoke))
        .with(Administer, routes!(auth::rules::show, auth::rules::replace))
        .with(Administer, routes!(auth::audit::show))
        .with(AdministerServer, routes!(auth::namespaces::list, auth::namespaces::create))
        .with(AdministerServer, routes!(auth::namespaces::set_quotas))
        .with(AdministerServer, routes!(auth::namespaces::remove))
}

fn plugin(routes: Routes) -> Routes {
    routes
        .with(Read, routes!(plugins::list))
        .with(Read, routes!(plugins::show))
        .with(Deploy, routes!(plugins::upload, plugins::remove))
        .with(Deploy, routes!(plugins::activate))
        .with(Deploy, routes!(plugins::rollback))
        .with(Deploy, routes!(plugins::remove_version))
        .with(Deploy, routes!(plugins::start_canary, plugins::stop_canary))
        .with(Deploy, routes!(plugins::promote_canary))
        .with(Read, routes!(plugins::manifest))
        .with(Deploy, routes!(plugins::set_manifest))
        .with(Read, routes!(plugins::grant))
        .with(Administer, routes!(plugins::set_grant, plugins::revoke))
        .with(Deploy, routes!(plugins::download))
        .with(Administer, routes!(plugins::secrets::list))
        .with(Administer, routes!(plugins::secrets::set, plugins::secrets::remove))
        .with(AdministerServer, routes!(plugins::secrets::rotate))
}

fn producer(routes: Routes) -> Routes {
    routes
        .with(Enqueue, routes!(produce::enqueue::one))
        .with(Enqueue, routes!(produce::enqueue::batch))
        // The older path of an outgoing webhook differs from that of an incoming one by its method alone.
        .with(Enqueue, routes!(produce::inbound::webhook))
        .with(Administer, routes!(webhooks::remove_alias))
}

fn flow(routes: Routes) -> Routes {
    routes
        .with(ReadJob, routes!(flows::children::list))
        .with(ReadJob, routes!(flows::children::tree))
        .with(Read, routes!(flows::list::list_flows))
        .with(Read, routes!(flows::list::list_batches))
        .with(ReadJob, routes!(flows::show))
        .with(Enqueue, routes!(flows::batches::create))
        .with(ReadJob, routes!(flows::batches::show))
        .with(Enqueue, routes!(flows::batches::seal))
}

fn job(routes: Routes) -> Routes {
    routes
        .with(Read, routes!(jobs::list))
        .with(Read, routes!(live::attempts::list))
        .with(Read, routes!(jobs::stats::all))
        .with(ReadJob, routes!(jobs::bulk_get))
        .with(Read, routes!(jobs::search::search))
        .with(Read, routes!(jobs::count::count))
        .with(Read, routes!(jobs::search::dead))
        .with(Read, routes!(jobs::dead::groups))
        .with(Read, routes!(jobs::usage::summary))
        .with(ReadJob, routes!(jobs::show))
        .with(Operate, routes!(jobs::delete, jobs::edit::change))
        .with(Operate, routes!(jobs::edit::run_now))
        .with(ReadJob, routes!(jobs::logs))
        .with(ReadJob, routes!(jobs::attempts::of_job))
        .with(ReadJob, routes!(jobs::raw::result))
        .with(ReadJob, routes!(jobs::raw::payload))
        .with(Operate, routes!(jobs::cancel))
        .with(Operate, routes!(jobs::edit::retry))
        .with(Operate, routes!(jobs::rebuild))
        .with(Operate, routes!(jobs::requeue))
        .with(Operate, routes!(jobs::move_to))
        .with(Operate, routes!(jobs::hold))
        .with(Operate, routes!(jobs::approve))
        .with(Operate, routes!(jobs::reject))
}

fn bulk(routes: Routes) -> Routes {
    routes
        .with(Operate, routes!(jobs::bulk::start))
        .with(Read, routes!(jobs::bulk::list_bulks))
        .with(Read, routes!(jobs::bulk::show_bulk))
        .with(Read, routes!(jobs::bulk::progress))
        .with(Operate, routes!(jobs::bulk::cancel_bulk))
}

fn queue(routes: Routes) -> Routes {
    routes
        .with(Read, routes!(queues::list))
        .with(Read, routes!(queues::show))
        .with(Operate, routes!(queues::remove))
        .with(Operate, routes!(queues::settings::change))
        .with(Read, routes!(queues::rounds::list_rounds))
        .with(Operate, routes!(queues::rounds::sweep))
        .with(Read, routes!(queues::records::list_records))
        .with(Read, routes!(jobs::stats::of_queue))
        .with(Operate, routes!(queues::pause))
        .with(Operate, routes!(queues::resume))
        .with(Operate, routes!(queues::drain))
        .with(Operate, routes!(queues::clear))
        .with(Operate, routes!(queues::concurrency))
        .with(Operate, routes!(queues::throttle, queues::unthrottle))
}

fn schedule(routes: Routes) -> Routes {
    routes
        .with(Read, routes!(schedules::list))
        .with(Operate, routes!(schedules::create))
        .with(Read, routes!(schedules::preview))
        .with(Read, routes!(schedules::show))
        .with(Operate, routes!(schedules::update, schedules::remove))
        .with(Operate, routes!(schedules::pause))
        .with(Operate, routes!(schedules::resume))
        .with(Operate, routes!(schedules::run))
        .with(Read, routes!(schedules::next))
}

fn worker(routes: Routes) -> Routes {
    routes
        .with(Read, routes!(worker::workers::list))
        .with(Operate, routes!(worker::workers::drain))
        .with(Operate, routes!(worker::workers::resume))
        .with(Work, routes!(worker::fetch::one))
        .with(Work, routes!(worker::fetch::batch))
        .with(Work, routes!(worker::ack::ack_batch))
        .with(Work, routes!(worker::ack::ack))
        .with(Work, routes!(worker::ack::fail))
        .with(Work, routes!(worker::heartbeat::heartbeat))
}

fn event(routes: Routes) -> Routes {
    routes.with(ReadJob, routes!(events::of_job)).with(ReadJob, routes!(events::wait)).with(Read, routes!(events::all))
}

fn webhook(routes: Routes) -> Routes {
    routes
        .with(Read, routes!(webhooks::list))
        .with(Administer, routes!(webhooks::create))
        .with(Read, routes!(webhooks::show))
        .with(Administer, routes!(webhooks::edit, webhooks::remove))
        .with(Administer, routes!(webhooks::rotate))
        .with(Read, routes!(webhooks::deliveries::list_deliveries))
        .with(Administer, routes!(webhooks::deliveries::redeliver))
        .with(Administer, routes!(webhooks::deliveries::test))
        .with(Read, routes!(webhooks::list_alias))
        .with(Administer, routes!(webhooks::create_alias))
        .with(Administer, routes!(webhooks::inbound::list_inbound))
        .with(Administer, routes!(webhooks::inbound::set_inbound, webhooks::inbound::remove_inbound))
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
