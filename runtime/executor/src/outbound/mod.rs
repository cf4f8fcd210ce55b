//! Outbound HTTP: what a guest sends with `wasi:http/outgoing-handler`, to the hosts it is granted and within its
//! limits.
//!
//! Every request is checked, so a redirect that a guest follows is treated like any other request. The name is resolved
//! once, here; each address is checked by `permissions`, and the connection is made to an address that passed, without
//! a second lookup. There is no proxy, no connection pool and no session cache: nothing leaks from one attempt to
//! another.
//!
//! Reading order: `client` (one request), `connect` (from a name to a connection), `body` (both bodies, bounded),
//! `link` (what the guest can hold in host memory before it sends anything).

mod body;
mod client;
mod connect;
mod link;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::Semaphore;
use tokio_rustls::rustls::ClientConfig;
use wasmtime::component::ResourceTable;
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView};
use windlass_core::LimitKind;

use self::client::Client;
use crate::attempt::gauge::Gauge;
use crate::attempt::log::AttemptLog;
use crate::host::{Level, Stream};
use crate::limits::{HTTP_FIELDS_BYTES, HTTP_LOOKUPS, HTTP_REFUSALS, RequestLimits};
use crate::permissions::{Hosts, Refused};

pub(crate) use link::add_to_linker;

/// What the requests of all attempts share. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Network {
    tls: Arc<ClientConfig>,
    lookups: Arc<Semaphore>,
}

impl Network {
    /// `trusted`: certificates of authorities besides the public ones.
    pub(crate) fn new(trusted: &[Vec<u8>]) -> Result<Self, String> {
        let lookups = Arc::new(Semaphore::new(HTTP_LOOKUPS));
        Ok(Network { tls: Arc::new(connect::tls(trusted)?), lookups })
    }
}

/// The HTTP side of one attempt.
pub(crate) struct Outbound {
    context: WasiHttpCtx,
    client: Client,
    journal: Arc<Journal>,
}

impl Outbound {
    pub(crate) fn new(
        network: Network,
        hosts: Hosts,
        limits: RequestLimits,
        log: Arc<AttemptLog>,
        gauge: Arc<Gauge>,
    ) -> Self {
        let mut context = WasiHttpCtx::new();
        context.set_field_size_limit(HTTP_FIELDS_BYTES);
        let journal = Arc::new(Journal {
            log,
            gauge: Arc::clone(&gauge),
            refused: Mutex::default(),
            host_failure: OnceLock::new(),
        });
        let client = Client::new(network, hosts, limits, Arc::clone(&journal), Arc::clone(gauge.cpu()));
        Outbound { context, client, journal }
    }

    pub(crate) fn view<'a>(&'a mut self, table: &'a mut ResourceTable) -> WasiHttpCtxView<'a> {
        WasiHttpCtxView { hooks: &mut self.client, table, ctx: &mut self.context }
    }

    pub(crate) fn refused(&self) -> Vec<String> {
        self.journal.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn host_failure(&self) -> Option<String> {
        self.journal.host_failure.get().cloned()
    }
}

/// Explains failed requests in the attempt's log and error. `wasi:http` has only bare codes for them.
pub(crate) struct Journal {
    log: Arc<AttemptLog>,
    gauge: Arc<Gauge>,
    refused: Mutex<Vec<String>>,
    /// The first request that failed because of this machine.
    host_failure: OnceLock<String>,
}

impl Journal {
    /// Reports a request that was not allowed: in the log now, and in the error if the attempt fails.
    fn refuse(&self, Refused { how, denied }: Refused) {
        if let Some(denied) = denied {
            self.gauge.deny(&denied);
        }
        {
            let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
            if refused.contains(&how) {
                return;
            }
            if refused.len() < HTTP_REFUSALS {
                refused.push(how.clone());
            }
        }
        self.log(how);
    }

    /// Reports a request that failed for a shortage on this machine: if the attempt fails, it is not the guest's
    /// failure.
    fn shortage(&self, why: &str) {
        if self.host_failure.set(why.to_owned()).is_ok() {
            self.log(why.to_owned());
        }
    }

    /// A body that was larger than it may be.
    fn too_large(&self) {
        self.gauge.hit(LimitKind::Http);
    }

    /// Logs why a request failed, for the plugin's author.
    fn log(&self, why: String) {
        self.log.write(Stream::Log, Level::Warn, why);
    }
}
