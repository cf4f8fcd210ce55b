//! Outbound HTTP: what a guest sends with `wasi:http/outgoing-handler`, within the hosts it is granted and the limits it has.
//!
//! Every request is decided anew, so a redirect that a guest follows is checked like any other. The name is looked up once, here;
//! each address is put to `capability`, and the connection goes to an address that passed: nobody looks it up a second time. There
//! is no proxy, no pool of connections and no memory of earlier ones: nothing leaks from one attempt to another.
//!
//! Reading order: `client` (one request), `connect` (from a name to a connection), `body` (both bodies, bounded), `link` (what the
//! guest can keep in our memory before it sends anything).

mod body;
mod client;
mod connect;
mod link;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::Semaphore;
use tokio_rustls::rustls::ClientConfig;
use wasmtime::component::ResourceTable;
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView};

use self::client::Client;
use crate::attempt::log::Logbook;
use crate::attempt::meter::CpuMeter;
use crate::host::{Level, Stream};
use crate::limits::{HTTP_FIELDS_BYTES, HTTP_LOOKUPS, HTTP_REFUSALS, HttpLimits};
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
        limits: HttpLimits,
        logbook: Arc<Logbook>,
        cpu: Arc<CpuMeter>,
    ) -> Self {
        let mut context = WasiHttpCtx::new();
        context.set_field_size_limit(HTTP_FIELDS_BYTES);
        let journal = Arc::new(Journal { logbook, refused: Mutex::default(), trouble: OnceLock::new() });
        let client = Client::new(network, hosts, limits, Arc::clone(&journal), cpu);
        Outbound { context, client, journal }
    }

    pub(crate) fn view<'a>(&'a mut self, table: &'a mut ResourceTable) -> WasiHttpCtxView<'a> {
        WasiHttpCtxView { hooks: &mut self.client, table, ctx: &mut self.context }
    }

    pub(crate) fn refused(&self) -> Vec<String> {
        self.journal.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn trouble(&self) -> Option<String> {
        self.journal.trouble.get().cloned()
    }
}

/// What is told of requests that went wrong. `wasi:http` has only bare codes for it.
pub(crate) struct Journal {
    logbook: Arc<Logbook>,
    refused: Mutex<Vec<String>>,
    /// The first thing that this machine could not do for a request.
    trouble: OnceLock<String>,
}

impl Journal {
    /// A request that was not allowed: for the log at once, and for the error if the attempt fails.
    fn refuse(&self, Refused(how): Refused) {
        {
            let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
            if refused.contains(&how) {
                return;
            }
            if refused.len() < HTTP_REFUSALS {
                refused.push(how.clone());
            }
        }
        self.say(how);
    }

    /// A request that this machine had nothing left to send with: if the attempt fails, it is not the guest's failure.
    fn short(&self, why: &str) {
        if self.trouble.set(why.to_owned()).is_ok() {
            self.say(why.to_owned());
        }
    }

    /// Why a request failed, for the guest's author.
    fn say(&self, why: String) {
        self.logbook.write(Stream::Log, Level::Warn, why);
    }
}
