//! `GET /system`: what runs, how full it is, and with which limits. Never a secret: keys and their files are not part
//! of it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Json;
use serde::Serialize;
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;
use utoipa::ToSchema;
use windlass_core::Time;
use windlass_core::access::{Permission, Role};
use windlass_executor::confinement::{Confinement, Protection, of_children};
use windlass_store::Clock;
use windlass_store::store::CommitTally;

use crate::app::confinement;
use crate::config::{Config, DurabilitySetting};
use crate::http::transport::error::Result;
use crate::http::wire::Rfc3339;
use crate::http::{Api, Bounds, ConnectionSlots};
use crate::limits;

/// What stays the same while the server runs.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    started_at: Time,
    data: PathBuf,
    durability: DurabilitySetting,
    files: usize,
    limits: BTreeMap<&'static str, u64>,
    flags: Flags,
}

/// Settings that are on or off.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
struct Flags {
    /// Whether connections are encrypted by this server.
    tls: bool,
    /// Whether clients need a certificate.
    client_certificates: bool,
    /// Whether a proxy ends TLS in front of it.
    behind_proxy: bool,
    /// Whether anyone who can connect may do everything.
    open_to_all: bool,
    /// Whether webhooks are delivered to private networks.
    webhooks_private: bool,
    /// Whether what workers say without a lease token is refused.
    require_lease_token: bool,
    /// Whether texts of jobs are encrypted before they are stored.
    encrypt_bodies: bool,
}

/// Cheap to clone.
#[derive(Clone)]
pub struct ServerState(Arc<Inner>);

struct Inner {
    settings: ServerSettings,
    connections: ConnectionSlots,
    confinement: OnceCell<std::result::Result<Confinement, String>>,
    /// The sizes of folders when they were last measured.
    sizes: Mutex<Option<(Instant, Sizes)>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sizes {
    blobs: u64,
    compiled: u64,
}

impl ServerSettings {
    pub fn of(config: &Config, started_at: Time, files: usize, bounds: Bounds) -> ServerSettings {
        let number = |count: usize| count as u64;
        let limits = [
            ("max_body_bytes", number(config.max_body)),
            ("max_buffered_bodies_bytes", number(config.max_buffered_bodies)),
            ("slots", number(config.slots)),
            ("plugin_share_percent", u64::from(config.plugin_share)),
            ("spawn_depth", u64::from(config.spawn_depth)),
            ("max_connections", number(bounds.connections)),
            ("max_connections_per_address", number(bounds.of_address)),
            ("max_fetches", number(config.max_fetches)),
            ("client_timeout_ms", millis(config.client_timeout)),
            ("component_bytes", number(limits::COMPONENT)),
            ("batch_jobs", number(limits::BATCH)),
        ];
        let flags = Flags {
            tls: config.tls.is_some(),
            client_certificates: config.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some()),
            behind_proxy: config.behind_proxy,
            open_to_all: config.is_open(),
            webhooks_private: config.webhooks_private,
            require_lease_token: config.require_lease_token,
            encrypt_bodies: config.encrypt_bodies,
        };
        let (data, durability) = (config.data.clone(), config.durability);
        ServerSettings { started_at, data, durability, files, limits: limits.into(), flags }
    }
}

impl ServerState {
    pub fn new(settings: ServerSettings, connections: ConnectionSlots) -> ServerState {
        let (confinement, sizes) = (OnceCell::new(), Mutex::default());
        ServerState(Arc::new(Inner { settings, connections, confinement, sizes }))
    }

    /// Whether what workers say without a lease token is refused.
    pub fn requires_lease_token(&self) -> bool {
        self.0.settings.flags.require_lease_token
    }

    /// What confines the processes that compile and search: tried once, by the first who asks.
    async fn confinement(&self) -> &std::result::Result<Confinement, String> {
        let tried = async || {
            let tried = spawn_blocking(|| of_children(&confinement())).await;
            tried.unwrap_or_else(|_| Err("the attempt to find out was interrupted".to_owned()))
        };
        self.0.confinement.get_or_init(tried).await
    }

    /// Measured again now and then: a folder may have many files.
    async fn sizes(&self) -> Sizes {
        let known = *self.0.sizes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, sizes)) = known
            && at.elapsed() < limits::SIZES_EVERY
        {
            return sizes;
        }
        let data = self.0.settings.data.clone();
        let measure = move || Sizes { blobs: size_of(&data.join("blobs")), compiled: size_of(&data.join("compiled")) };
        let sizes = spawn_blocking(measure).await.unwrap_or_default();
        *self.0.sizes.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), sizes));
        sizes
    }
}

/// The server, as those see it who may read. What concerns the machine is for those who administer the server.
#[derive(Debug, Serialize, ToSchema)]
pub struct SystemAnswer {
    version: &'static str,
    started_at: Rfc3339,
    uptime_ms: u64,
    /// The name of this server among those of a cluster.
    node: &'static str,
    /// `single`: one server.
    mode: &'static str,
    paused_since: Option<Rfc3339>,
    /// Why the store cannot be written, while it cannot.
    trouble: Option<String>,
    /// When a write is acknowledged: `fsync`, once it is on the disk, or `os`.
    durability: &'static str,
    processors: usize,
    slots: SlotsNow,
    /// Open live streams and waits.
    watchers: usize,
    commits: Commits,
    /// The limits in force. Names that end in `_bytes`, `_ms` or `_percent` say their unit.
    limits: BTreeMap<&'static str, u64>,
    #[serde(flatten)]
    flags: Flags,
    /// What confines the processes that compile components and run jq filters.
    confinement: ConfinementNow,
    data: Option<DataFolder>,
    memory: Option<Memory>,
    open_files: Option<Used>,
    connections: Option<Used>,
}

#[derive(Debug, Serialize, ToSchema)]
struct SlotsNow {
    total: usize,
    busy: usize,
    /// Slots in use by plugins of this namespace.
    by_plugin: BTreeMap<String, usize>,
}

/// Commits since the start.
#[derive(Debug, Serialize, ToSchema)]
struct Commits {
    count: u64,
    /// How long they took, by powers of two of a microsecond; `null` before the first.
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
    /// Those that took longer than 100 ms.
    slow: u64,
    bytes: u64,
    writes: u64,
}

#[derive(Debug, Serialize, ToSchema)]
struct ConfinementNow {
    landlock: ProtectionNow,
    seccomp: ProtectionNow,
}

#[derive(Debug, Serialize, ToSchema)]
struct ProtectionNow {
    in_force: bool,
    detail: String,
}

/// Where the data are, and how large their parts are.
#[derive(Debug, Serialize, ToSchema)]
struct DataFolder {
    dir: String,
    store_bytes: u64,
    journal_bytes: u64,
    /// Bodies of jobs over 64 KiB, and components.
    blobs_bytes: u64,
    compiled_bytes: u64,
    /// Of the disk that holds the folder.
    free_bytes: u64,
    size_bytes: u64,
}

#[derive(Debug, Serialize, ToSchema)]
struct Memory {
    resident_bytes: u64,
    /// What the bodies of requests take now.
    buffered_bodies_bytes: u64,
    buffered_bodies_limit_bytes: u64,
}

#[derive(Debug, Serialize, ToSchema)]
struct Used {
    open: usize,
    limit: usize,
}

/// What the server is and does: version, slots, commits, limits; for those who administer it also disk, memory and connections
#[utoipa::path(get, path = "/system", tag = "system", responses((status = 200, body = SystemAnswer)))]
pub async fn show(api: Api) -> Result<Json<SystemAnswer>> {
    let state = &api.server_state;
    let settings = &state.0.settings;
    let is_admin =
        api.caller.actor.role.is_some_and(|role: Role| role.may(Permission::AdministerServer, api.caller.everywhere));
    let (data, memory, open_files, connections) = match is_admin {
        true => (Some(data(&api).await), memory(&api), open_files(settings.files), Some(connections(&api))),
        false => (None, None, None, None),
    };
    Ok(Json(SystemAnswer {
        version: env!("CARGO_PKG_VERSION"),
        started_at: Rfc3339(settings.started_at),
        uptime_ms: millis(api.clock.now().since(settings.started_at)),
        node: "this server",
        mode: "single",
        paused_since: api.store.paused().map(Rfc3339),
        trouble: api.store.trouble(),
        durability: match settings.durability {
            DurabilitySetting::Fsync => "fsync",
            DurabilitySetting::Os => "os",
        },
        processors: std::thread::available_parallelism().map_or(1, usize::from),
        slots: slots(&api),
        watchers: api.hub.watchers() + api.pulse.watchers(),
        commits: commits(api.whole_store.commits()),
        limits: settings.limits.clone(),
        flags: settings.flags,
        confinement: state.confinement().await.into(),
        data,
        memory,
        open_files,
        connections,
    }))
}

fn slots(api: &Api) -> SlotsNow {
    let running = api.running.list();
    let mut by_plugin = BTreeMap::new();
    for attempt in running.iter().filter(|attempt| api.caller.allowed.is_in_namespace(&attempt.plugin)) {
        *by_plugin.entry(attempt.plugin.to_string()).or_default() += 1;
    }
    SlotsNow { total: api.slots, busy: running.len(), by_plugin }
}

async fn data(api: &Api) -> DataFolder {
    let dir = &api.server_state.0.settings.data;
    let sizes = api.server_state.sizes().await;
    let used = api.whole_store.disk_use().unwrap_or_default();
    let (free_bytes, size_bytes) = disk(dir).unwrap_or_default();
    DataFolder {
        dir: fs::canonicalize(dir).unwrap_or_else(|_| dir.clone()).display().to_string(),
        store_bytes: used.tables,
        journal_bytes: used.journals,
        blobs_bytes: sizes.blobs,
        compiled_bytes: sizes.compiled,
        free_bytes,
        size_bytes,
    }
}

/// What is free for this process on the disk of a folder, and how large it is.
fn disk(folder: &Path) -> Option<(u64, u64)> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    Some((disk.f_bavail.saturating_mul(disk.f_frsize), disk.f_blocks.saturating_mul(disk.f_frsize)))
}

/// What the files of a folder and its subfolders take. One that vanishes meanwhile is not counted.
fn size_of(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(found) if found.is_dir() => size_of(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

/// None where the system does not say it in this way.
fn memory(api: &Api) -> Option<Memory> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = resident.split_whitespace().next()?.parse().ok()?;
    Some(Memory {
        resident_bytes: kibibytes * 1024,
        buffered_bodies_bytes: api.bodies.held() as u64,
        buffered_bodies_limit_bytes: api.bodies.most() as u64,
    })
}

fn open_files(limit: usize) -> Option<Used> {
    let open = fs::read_dir("/proc/self/fd").ok()?.count();
    Some(Used { open, limit })
}

fn connections(api: &Api) -> Used {
    let (open, limit) = api.server_state.0.connections.in_use();
    Used { open, limit }
}

fn commits(tally: &CommitTally) -> Commits {
    let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let took: Vec<u64> = tally.took.iter().map(read).collect();
    Commits {
        count: read(&tally.count),
        p50_ms: of_powers(&took, 50),
        p99_ms: of_powers(&took, 99),
        slow: read(&tally.slow),
        bytes: read(&tally.bytes),
        writes: read(&tally.writes),
    }
}

/// The upper bound of the power of two in which so many percent have been counted.
fn of_powers(counts: &[u64], percent: u64) -> Option<f64> {
    let total: u64 = counts.iter().sum();
    let rank = (total * percent).div_ceil(100).max(1);
    let mut seen = 0;
    let power = counts.iter().position(|count| {
        seen += count;
        seen >= rank
    })?;
    Some((1u64 << power) as f64 / 1_000.0)
}

impl From<&std::result::Result<Confinement, String>> for ConfinementNow {
    fn from(found: &std::result::Result<Confinement, String>) -> ConfinementNow {
        let (landlock, seccomp) = match found {
            Ok(Confinement { landlock, seccomp }) => (landlock.clone(), seccomp.clone()),
            Err(why) => (Err(why.clone()), Err(why.clone())),
        };
        ConfinementNow { landlock: landlock.into(), seccomp: seccomp.into() }
    }
}

impl From<Protection> for ProtectionNow {
    fn from(protection: Protection) -> ProtectionNow {
        let in_force = protection.is_ok();
        ProtectionNow { in_force, detail: protection.unwrap_or_else(|why| why) }
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commit_times_are_the_upper_bounds_of_their_powers() {
        let mut counts = [0; 32];
        assert_eq!(of_powers(&counts, 50), None);
        counts[9] = 98;
        counts[14] = 2;
        assert_eq!((of_powers(&counts, 50), of_powers(&counts, 99)), (Some(0.512), Some(16.384)));
    }

    #[test]
    fn a_folder_is_as_large_as_its_files_in_all_depths() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(folder.path().join("a/b")).expect("folders");
        fs::write(folder.path().join("one"), [0; 10]).expect("a file");
        fs::write(folder.path().join("a/b/two"), [0; 32]).expect("a file");
        assert_eq!(size_of(folder.path()), 42);
        assert_eq!(size_of(&folder.path().join("none")), 0);
        assert!(disk(folder.path()).is_some_and(|(free, size)| free <= size && size > 0));
    }
}
