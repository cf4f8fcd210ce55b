//! What belongs to one running guest: the data of its wasmtime store.

use std::sync::Arc;
use std::time::{Duration, Instant};

use wasmtime::component::{HasData, ResourceTable};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtxView, WasiHttpView};
use windlass_core::flow::Tally;
use windlass_core::{Notes, Usage};

use crate::attempt::disk_rate::{DiskRate, PluginBudget};
use crate::attempt::gauge::Gauge;
use crate::attempt::log::AttemptLog;
use crate::attempt::meter::{CpuMeter, Liveness, MemoryMeter};
use crate::attempt::stop::Stop;
use crate::bindings::windlass::job::types;
use crate::host::{Children, Host, RequestedWait};
use crate::limits::{Limits, RESOURCES};
use crate::outbound::{Network, Outbound};
use crate::permissions::{NoFolder, Permissions};

pub(crate) struct State {
    pub(crate) host: Arc<dyn Host>,
    pub(crate) limits: Limits,
    pub(crate) permissions: Permissions,
    pub(crate) stop: Stop,
    pub(crate) log: Arc<AttemptLog>,
    pub(crate) children: Children,
    pub(crate) joined: Option<Tally>,
    pub(crate) notes: Notes,
    /// The wait for children that the guest asked for; it takes effect if the guest returns ok.
    pub(crate) wait: Option<RequestedWait>,
    pub(crate) memory: MemoryMeter,
    pub(crate) cpu: Arc<CpuMeter>,
    pub(crate) host_calls: u64,
    pub(crate) gauge: Arc<Gauge>,
    pub(crate) liveness: Arc<Liveness>,
    disk_rate: DiskRate,
    /// Sources attached to the component.
    pub(crate) sources: Option<Arc<str>>,
    network: Network,
    /// Created when the guest first calls `wasi:http`.
    outbound: Option<Box<Outbound>>,
    wasi: WasiCtx,
    resources: ResourceTable,
}

/// What belongs to one attempt, whichever instance serves it.
pub(crate) struct Parts {
    pub(crate) host: Arc<dyn Host>,
    pub(crate) limits: Limits,
    pub(crate) stop: Stop,
    pub(crate) liveness: Arc<Liveness>,
    pub(crate) gauge: Arc<Gauge>,
    pub(crate) permissions: Permissions,
    pub(crate) children_committed: u32,
    pub(crate) joined: Option<Tally>,
    pub(crate) sources: Option<Arc<str>>,
    pub(crate) network: Network,
    pub(crate) disk: Arc<PluginBudget>,
}

impl State {
    pub(crate) fn new(parts: Parts) -> Result<Self, NoFolder> {
        let (host, liveness, gauge) = (Arc::clone(&parts.host), Arc::clone(&parts.liveness), Arc::clone(&parts.gauge));
        let log = Arc::new(AttemptLog::new(host, liveness, gauge, parts.limits.log_bytes));
        let mut resources = ResourceTable::new();
        resources.set_max_capacity(RESOURCES);
        Ok(State {
            wasi: parts.permissions.wasi(&log)?,
            memory: MemoryMeter::new(parts.limits.memory_bytes, Arc::clone(&parts.gauge)),
            children: Children::starting_at(parts.children_committed),
            joined: parts.joined,
            notes: Notes::default(),
            wait: None,
            host_calls: 0,
            host: parts.host,
            limits: parts.limits,
            permissions: parts.permissions,
            stop: parts.stop,
            log,
            cpu: Arc::clone(parts.gauge.cpu()),
            gauge: parts.gauge,
            liveness: parts.liveness,
            disk_rate: DiskRate::begin(parts.disk, Instant::now()),
            sources: parts.sources,
            network: parts.network,
            outbound: None,
            resources,
        })
    }

    /// Resets the state of a used instance for the next attempt. Its memory, files and handles stay as they are.
    pub(crate) fn renew(&mut self, parts: Parts) {
        let (host, liveness, gauge) = (Arc::clone(&parts.host), Arc::clone(&parts.liveness), Arc::clone(&parts.gauge));
        self.log.renew(host, liveness, gauge, parts.limits.log_bytes);
        self.memory.renew(Arc::clone(&parts.gauge));
        self.children = Children::starting_at(parts.children_committed);
        self.joined = parts.joined;
        self.notes = Notes::default();
        self.wait = None;
        self.host_calls = 0;
        self.host = parts.host;
        self.limits = parts.limits;
        self.permissions = parts.permissions;
        self.stop = parts.stop;
        self.liveness = parts.liveness;
        self.disk_rate = DiskRate::begin(parts.disk, Instant::now());
        self.cpu = Arc::clone(parts.gauge.cpu());
        self.gauge = parts.gauge;
        self.sources = parts.sources;
        self.network = parts.network;
        self.outbound = None;
    }

    /// Charges what goes to the disk with a checkpoint or a result of so many bytes. Returns how long to wait for that.
    pub(crate) fn charge_disk(&mut self, body: usize) -> Duration {
        self.disk_rate.take(body, &self.children, &self.notes, self.log.written(), Instant::now())
    }

    /// The HTTP requests that were denied, each as a sentence that says what to grant.
    pub(crate) fn refused(&self) -> Vec<String> {
        self.outbound.as_ref().map_or_else(Vec::new, |outbound| outbound.refused())
    }

    /// What the host failed to do for this attempt, through no fault of the guest.
    pub(crate) fn host_failure(&self) -> Option<String> {
        self.outbound.as_ref().and_then(|outbound| outbound.host_failure())
    }

    /// The usage of the attempt so far, given its processor time.
    pub(crate) fn used(&self, cpu: Duration) -> Usage {
        Usage {
            cpu_ms: millis(cpu),
            wall_ms: millis(self.liveness.elapsed()),
            peak_memory: self.memory.peak() as u64,
            host_calls: self.host_calls,
            log_bytes: self.log.written(),
        }
    }

    pub(crate) fn host_called(&mut self) {
        self.host_calls += 1;
        self.gauge.set_host_calls(self.host_calls);
    }

    /// Resets the stall timeout: the guest made progress.
    pub(crate) fn alive(&self) {
        self.liveness.sign();
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

impl WasiView for State {
    /// WASI calls this once in every call of the guest.
    fn ctx(&mut self) -> WasiCtxView<'_> {
        self.host_called();
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.resources }
    }
}

impl WasiHttpView for State {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        self.host_called();
        let outbound = self.outbound.get_or_insert_with(|| {
            let (log, gauge) = (Arc::clone(&self.log), Arc::clone(&self.gauge));
            let hosts = self.permissions.hosts();
            Box::new(Outbound::new(self.network.clone(), hosts, self.limits.http.clone(), log, gauge))
        });
        outbound.view(&mut self.resources)
    }
}

impl HasData for State {
    type Data<'a> = &'a mut State;
}

/// `types` has no functions, but linking it requires this implementation.
impl types::Host for State {}

/// Ends the guest from inside a host call: the attempt has been superseded, and its outcome is not needed.
#[derive(Debug, thiserror::Error)]
#[error("the attempt is over")]
pub(crate) struct Superseded;

/// Ends the guest from inside a host call, or before it started: the host has failed, for this reason.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Interrupted(pub(crate) String);

/// Ends the guest from inside the epoch callback: its processor time is used up.
#[derive(Debug, thiserror::Error)]
#[error("the processor time is used up")]
pub(crate) struct CpuTimeUsedUp;
