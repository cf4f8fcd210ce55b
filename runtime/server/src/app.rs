//! The parts of a server, and the order in which they start and stop.
//!
//! Start: store (locks the data folder), executor, secrets, registry (loads the plugins). Stop: no new claims and no
//! new connections; handlers get a grace period and their jobs are handed back; open requests finish; the store closes
//! last.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tracing::{info, warn};
use windlass_core::SlotShare;
use windlass_executor::{self as executor, BadRoot, CacheConfig, Executor, FolderScope, GrantRoots};
use windlass_store::{AuditRetention, Clock, Encryption, FairUse, OpenError, Opening, Options, Store};

use crate::clock::SystemClock;
use crate::dispatcher::{Dispatcher, RunningAttempts};
use crate::http;
use crate::http::{
    AllowedHost, Authority, BodyBudget, Bounds, ConnectionSlots, Console, Door, Hosts, Hub, Parts, Pulse,
    ServerSettings, ServerState, StartKey, Tls, Workers, serve,
};
use crate::metrics;
use crate::metrics::PluginFigures;
use crate::oidc::{Oidc, OidcError};
use crate::registry::Registry;
use crate::secrets::keyring::KeyFile;
use crate::secrets::{KeyError, Secrets};
use crate::webhooks::Webhooks;
use crate::webhooks::inbound::InboundHooks;
use crate::{Config, Shutdown, cli, files, first_key, limits};

/// A server that has loaded its data and plugins, and does not serve yet.
pub struct App {
    store: Store,
    executor: Executor,
    registry: Registry,
    clock: Arc<SystemClock>,
    secrets: Secrets,
    inbound: InboundHooks,
    max_body: usize,
    max_buffered_bodies: usize,
    bounds: Bounds,
    slots: usize,
    authority: Authority,
    max_fetches: usize,
    webhooks_private: bool,
    listen: String,
    allowed_hosts: Vec<AllowedHost>,
    console: Console,
    behind_proxy: bool,
    settings: ServerSettings,
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Executor(#[from] executor::Error),
    #[error(transparent)]
    GrantRoot(#[from] BadRoot),
    #[error("cannot load the plugins: {0}")]
    Plugins(#[source] windlass_store::Error),
    #[error(transparent)]
    Secrets(#[from] KeyError),
    #[error("cannot read the API keys: {0}")]
    Keys(#[source] windlass_store::Error),
    #[error(transparent)]
    Oidc(#[from] OidcError),
    #[error(transparent)]
    FirstKey(#[from] first_key::FirstKeyError),
    #[error("this store already has a dispatcher; open it again to start another server")]
    SecondDispatcher,
    #[error("the address of the listening socket cannot be read: {0}")]
    Address(#[source] std::io::Error),
}

/// The command that compiles one component: this program with `compile-component`.
pub fn compiler() -> Vec<OsString> {
    own_command(cli::COMPILE)
}

/// The command that reports what confines the processes that compile components and run jq filters.
pub fn confinement() -> Vec<OsString> {
    own_command(cli::CONFINEMENT)
}

fn own_command(name: &str) -> Vec<OsString> {
    // The link leads to the running program, even if an update has replaced the file.
    let own = Path::new("/proc/self/exe");
    let program =
        if own.exists() { own.to_owned() } else { std::env::current_exe().unwrap_or_else(|_| "windlass".into()) };
    vec![program.into_os_string(), name.into()]
}

impl App {
    pub async fn start(config: &Config) -> Result<App, StartError> {
        // Before any other file is opened.
        let files = files::raise();
        let clock = Arc::new(SystemClock::start());
        let clock_started = clock.now();
        let options = Options { dir: config.data.clone(), durability: config.durability.into() };
        let time = Arc::clone(&clock) as Arc<dyn windlass_store::Clock>;
        let key_path = config.secret_key_file.clone().unwrap_or_else(|| config.data.join("secrets.key"));
        let key_file = KeyFile::new(&key_path);
        let opening = Opening {
            lost: config.accept_missing_commits,
            paused: config.paused,
            fair_use: fair_use(config),
            audit: audit(config),
            encryption: Some(Encryption { wrap: Arc::new(key_file.clone()), is_on: config.encrypt_bodies }),
        };
        let store = Store::open_with(options, time, opening)?;
        info!("the data is in {}", config.data.display());
        let executor = Executor::new(executor_config(config))?;
        let secrets = Secrets::load(store.clone(), &key_file).await?;
        let inbound = InboundHooks::load(&store, &secrets).await.map_err(KeyError::from)?;
        let oidc = config.oidc.clone().map(Oidc::new).transpose()?;
        // After these files have been created, so that their paths can be resolved.
        let private = private_files(config, &key_path);
        let scope = FolderScope::Roots(Arc::new(GrantRoots::new(&config.grant_root, &private)?));
        let registry = Registry::load(store.clone(), executor.clone(), secrets.clone(), scope, config.max_body);
        let registry = registry.await.map_err(StartError::Plugins)?;
        let start_key = config.api_key.as_deref().map(StartKey::new);
        let authority = Authority::load(store.clone(), Arc::clone(&clock), start_key, oidc, config.is_open());
        let authority = authority.await.map_err(StartError::Keys)?;
        first_key::ensure(&store, &authority, &clock, config).await?;
        Ok(App {
            store,
            executor,
            registry,
            clock,
            secrets,
            inbound,
            max_body: config.max_body,
            max_buffered_bodies: config.max_buffered_bodies,
            bounds: bounds(config, files),
            slots: config.slots,
            authority,
            max_fetches: config.max_fetches,
            webhooks_private: config.webhooks_private,
            listen: config.listen.clone(),
            allowed_hosts: config.allowed_host.clone(),
            console: Console::new(config.ui_dir.clone()),
            behind_proxy: config.behind_proxy,
            settings: ServerSettings::of(config, clock_started, files, bounds(config, files)),
        })
    }

    /// Whether nothing starts until the server is resumed.
    pub fn is_paused(&self) -> bool {
        self.store.paused().is_some()
    }

    /// Serves until `shutdown` is requested, and returns when everything has stopped.
    pub async fn run(self, listener: TcpListener, tls: Option<Tls>, shutdown: Shutdown) -> Result<(), StartError> {
        let address = listener.local_addr().map_err(StartError::Address)?;
        let hosts = Hosts::new(&self.listen, address, &self.allowed_hosts);
        // First, so that no event is published before the hub can deliver it.
        let hub = Hub::start(self.store.clone(), shutdown.clone());
        let orders = self.store.orders().ok_or(StartError::SecondDispatcher)?;
        let (running, figures) = (RunningAttempts::default(), PluginFigures::default());
        let slots = ConnectionSlots::new(self.bounds.connections, self.bounds.of_address);
        let dispatcher = self.dispatcher(running.clone(), figures.clone());
        tokio::spawn(self.registry.clone().follow(shutdown.clone()));
        if let Some(oidc) = self.authority.oidc().cloned() {
            tokio::spawn(oidc.follow(shutdown.clone()));
        }
        let noting = tokio::spawn(self.authority.clone().note_use(shutdown.clone()));
        let dispatching = tokio::spawn(dispatcher.run(orders, shutdown.clone()));
        let (rates, series) = metrics::sample_queues(self.store.clone(), Arc::clone(&self.clock), shutdown.clone());
        let webhooks = self.start_webhooks(shutdown.clone());
        let parts = Parts {
            whole_store: self.store.clone(),
            registry: self.registry.clone(),
            secrets: self.secrets.clone(),
            clock: Arc::clone(&self.clock),
            max_body: self.max_body,
            bodies: BodyBudget::new(self.max_buffered_bodies),
            client_timeout: self.bounds.client_timeout,
            hub,
            workers: Workers::new(self.max_fetches),
            rates,
            series,
            pulse: Pulse::default(),
            running,
            slots: self.slots,
            figures,
            server_state: ServerState::new(self.settings, slots.clone()),
            webhooks,
            authority: self.authority.clone(),
            inbound: self.inbound.clone(),
            console: self.console.clone(),
            shutdown: shutdown.clone(),
        };
        let door = Door { listener, tls, behind_proxy: self.behind_proxy, slots };
        serve(door, http::service(parts, hosts), self.bounds, shutdown).await;
        if let Err(error) = dispatching.await {
            warn!("the dispatcher ended with an error: {error}");
        }
        // It writes once more when the server stops.
        let _ = noting.await;
        self.store.close().await;
        Ok(())
    }

    fn dispatcher(&self, running: RunningAttempts, figures: PluginFigures) -> Dispatcher {
        let (store, executor, registry) = (self.store.clone(), self.executor.clone(), self.registry.clone());
        Dispatcher::new(store, executor, registry, Arc::clone(&self.clock), (self.slots, running, figures))
    }

    fn start_webhooks(&self, shutdown: Shutdown) -> Webhooks {
        let (store, secrets, clock) = (self.store.clone(), self.secrets.clone(), Arc::clone(&self.clock));
        Webhooks::start(store, secrets, clock, self.webhooks_private, shutdown)
    }
}

fn executor_config(config: &Config) -> executor::Config {
    let cache = CacheConfig { folder: config.data.join("compiled"), key_file: config.data.join("compiled.key") };
    executor::Config {
        max_component_bytes: limits::COMPONENT,
        compiler: Some(compiler()),
        cache: Some(cache),
        ..executor::Config::default()
    }
}

/// What no plugin may see, whatever folder it is granted.
fn private_files(config: &Config, key_file: &Path) -> Vec<PathBuf> {
    let oidc_client = config.oidc.as_ref().and_then(|oidc| oidc.client.as_ref());
    let oidc_secret = oidc_client.and_then(|client| client.secret.as_ref()).map(|secret| &secret.path);
    let named = [&config.file, &config.api_key_file].into_iter().flatten();
    let tls_key = config.tls.as_ref().map(|tls| &tls.key);
    let files = named.chain(tls_key).chain(oidc_secret).map(PathBuf::as_path);
    [config.data.as_path(), key_file].into_iter().chain(files).map(Path::to_owned).collect()
}

/// How much of the audit log is kept.
fn audit(config: &Config) -> AuditRetention {
    const DAY: Duration = Duration::from_secs(24 * 3600);
    AuditRetention { age: config.audit_days.map(|days| DAY * days), entries: config.audit_entries }
}

/// What no plugin may exceed, for the sake of the others.
fn fair_use(config: &Config) -> FairUse {
    let slots = u32::try_from(config.slots).unwrap_or(u32::MAX);
    FairUse { slots: Some(SlotShare { slots, percent: config.plugin_share }), spawn_depth: config.spawn_depth }
}

fn bounds(config: &Config, files: usize) -> Bounds {
    let connections = files::connections(config.max_connections, files);
    // All connections come from the proxy, which is one address.
    let share = match config.behind_proxy {
        true => connections,
        false => (connections / limits::ADDRESS_SHARE).max(limits::ADDRESS_LEAST),
    };
    let of_address = config.max_connections_per_address.unwrap_or(share).min(connections);
    Bounds { connections, of_address, client_timeout: config.client_timeout }
}
