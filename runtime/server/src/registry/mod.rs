//! Which plugins there are, which queues they serve, and their compiled code.
//!
//! The store is authoritative: this holds the code of the versions in use and a copy of the stored plugins, and changes
//! only after the store has. It never runs a guest. `change` has the operations on plugins.

mod change;
mod ready;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Mutex, watch};
use tokio::time::MissedTickBehavior;
use tracing::{error, info, warn};
use windlass_core::plugin::grant::{Grant, StoredGrant};
use windlass_core::{Digest, EventKind, Name, Plugin, QueueName, Refusal, Version, parse_digest};
use windlass_executor::{self as executor, Executor, FolderScope, Rejected};
use windlass_store::Store;

use crate::attempt_setup::{AttemptSetup, Surroundings, setup};
use crate::denials::grant_command;
use crate::metrics;
use crate::secrets::Secrets;
use crate::{Shutdown, limits};

pub use change::Upload;
pub use ready::Claimable;
use ready::Problem;

/// Cheap to clone.
#[derive(Clone)]
pub struct Registry {
    inner: Arc<Inner>,
    /// Through which changes are asked for: of a caller, or the server's own.
    store: Store,
}

struct Inner {
    store: Store,
    executor: Executor,
    secrets: Secrets,
    /// Where folders that plugins are granted may be.
    scope: FolderScope,
    /// The largest checkpoint or result of a plugin whose manifest sets no other limit.
    max_body: usize,
    /// Held while a plugin's code is prepared and the plugin changed in the store.
    changing: Mutex<()>,
    loaded: RwLock<Loaded>,
    claimable: watch::Sender<Claimable>,
}

#[derive(Default)]
struct Loaded {
    /// Compiled code by digest: the same bytes under two names are compiled once.
    code: HashMap<Digest, executor::Plugin>,
    served_by: HashMap<QueueName, Name>,
    plugins: HashMap<Name, Plugin>,
    grants: BTreeMap<Name, StoredGrant>,
    /// The versions that cannot be run.
    problems: HashMap<Digest, Problem>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Rejected(#[from] Rejected),
    #[error(transparent)]
    Store(#[from] windlass_store::Error),
    /// The stored component is not what was uploaded.
    #[error("{0}")]
    Damaged(String),
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Error {
        Error::Store(refusal.into())
    }
}

/// Why an attempt has no code to run.
#[derive(Debug, thiserror::Error)]
pub enum Missing {
    #[error(
        "version {version} of plugin `{plugin}` is no longer stored; upload it again: windlass plugin push {plugin} FILE"
    )]
    Version { plugin: Name, version: String },
    #[error(
        "version {version} of plugin `{plugin}` cannot be run by this server: {why}. Upload one that can, or activate another: \
         windlass plugin activate {plugin} DIGEST"
    )]
    Rejected { plugin: Name, version: String, why: Rejected },
    #[error(
        "the component of plugin `{plugin}`, version {version}, is damaged: {what}. To repair it, upload the same component again: \
         windlass plugin push {plugin} FILE"
    )]
    Damaged { plugin: Name, version: String, what: String },
    #[error("version {version} of plugin `{plugin}` cannot be read: {why}")]
    Store { plugin: Name, version: String, why: windlass_store::Error },
    /// A problem that was found before.
    #[error("plugin `{plugin}` is not ready: {why}")]
    Known { plugin: Name, why: String },
}

impl Missing {
    /// Whether the problem may go away by itself.
    fn is_temporary(&self) -> bool {
        match self {
            Missing::Rejected { why, .. } => why.is_temporary(),
            Missing::Version { .. } | Missing::Store { .. } => true,
            Missing::Damaged { .. } | Missing::Known { .. } => false,
        }
    }
}

impl Registry {
    /// Compiles the active version of every plugin in the store, so that the first job does not wait for it. A plugin
    /// that cannot be compiled is not ready: its jobs wait, and those of other plugins run.
    pub async fn load(
        store: Store,
        executor: Executor,
        secrets: Secrets,
        scope: FolderScope,
        max_body: usize,
    ) -> Result<Registry, windlass_store::Error> {
        let loaded = RwLock::new(Loaded::default());
        let claimable = watch::Sender::default();
        let changing = Mutex::new(());
        let inner = Inner { store: store.clone(), executor, secrets, scope, max_body, changing, loaded, claimable };
        let registry = Registry { inner: Arc::new(inner), store };
        registry.refresh().await?;
        for plugin in registry.plugins().await? {
            if let Some(why) = registry.refused_folder(&plugin) {
                error!("plugin {} is not ready, and its jobs wait: {why}", plugin.name);
            }
            let canary = plugin.canary.as_ref().and_then(|canary| plugin.version(&canary.version));
            for version in plugin.active_version().into_iter().chain(canary) {
                match registry.compile_stored(&plugin.name, version).await {
                    Ok(_) => info!("plugin {} ({}) serves {}", plugin.name, short(version), queues(&plugin)),
                    Err(why) if why.is_temporary() => warn!("plugin {} is not loaded yet: {why}", plugin.name),
                    // `compile_stored` has stored and logged the problem.
                    Err(_) => {}
                }
            }
        }
        Ok(registry)
    }

    /// The same, for changes that a caller asks for.
    pub fn of_caller(&self, store: &Store) -> Registry {
        Registry { inner: Arc::clone(&self.inner), store: store.clone() }
    }

    /// Follows what the engine decides by itself (a canary is promoted or rolled back), and retries versions that could
    /// not be run, until the server stops.
    pub async fn follow(self, shutdown: Shutdown) {
        let mut events = self.inner.store.watch();
        let mut look = tokio::time::interval(limits::PROBLEM_RETRY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let received = tokio::select! {
                received = events.recv() => received,
                _ = look.tick() => {
                    self.retry_problems().await;
                    continue;
                }
                () = shutdown.requested() => return,
            };
            let about_plugins = match received {
                Ok(record) => matches!(record.event.kind, EventKind::Plugin(_)),
                Err(RecvError::Lagged(_)) => true,
                Err(RecvError::Closed) => return,
            };
            if about_plugins && let Err(error) = self.refresh().await {
                warn!("the plugins cannot be read: {error}");
            }
        }
    }

    /// Updates the copy of the plugins and the code in memory from the store. Code stays while attempts run on it.
    async fn refresh(&self) -> Result<(), windlass_store::Error> {
        let plugins = self.inner.store.plugins().await?;
        let grants = self.inner.store.grants().await?;
        let running = self.inner.store.running().await?;
        let used = |digest: &Digest| {
            plugins.iter().any(|plugin| {
                plugin.active.as_ref() == Some(digest)
                    || plugin.canary.as_ref().is_some_and(|canary| canary.version == *digest)
            }) || running.iter().any(|attempt| parse_digest(&attempt.version).as_ref() == Some(digest))
        };
        self.write(|loaded| {
            loaded.code.retain(|digest, _| used(digest));
            loaded.served_by = routes(&plugins);
            loaded.grants = grants;
            loaded.plugins = plugins.clone().into_iter().map(|plugin| (plugin.name.clone(), plugin)).collect();
            loaded.problems.retain(|digest, _| plugins.iter().any(|plugin| plugin.version(digest).is_some()));
        });
        self.publish_claimable();
        Ok(())
    }

    /// Reads the plugins again, after they have been changed past the registry.
    pub async fn reload(&self) -> Result<(), windlass_store::Error> {
        self.refresh().await
    }

    pub async fn plugins(&self) -> Result<Vec<Plugin>, windlass_store::Error> {
        self.inner.store.plugins().await
    }

    pub async fn plugin(&self, name: &Name) -> Result<Plugin, windlass_store::Error> {
        let found = self.plugins().await?.into_iter().find(|plugin| plugin.name == *name);
        found.ok_or_else(|| Refusal::not_found("plugin", name).into())
    }

    /// Whether a version with this digest is stored for the plugin, as far as the copy in memory says.
    pub fn has_version(&self, plugin: &Name, digest: &Digest) -> bool {
        self.read(|loaded| loaded.plugins.get(plugin).is_some_and(|plugin| plugin.version(digest).is_some()))
    }

    /// What the operator grants a plugin, whether the plugin exists or not.
    pub fn granted(&self, name: &Name) -> Grant {
        self.read(|loaded| loaded.grants.get(name).map(|stored| stored.grant.clone()).unwrap_or_default())
    }

    /// The key or the person that granted it.
    pub fn granted_by(&self, name: &Name) -> Option<String> {
        self.read(|loaded| loaded.grants.get(name)?.created_by.clone())
    }

    /// The plugins that are granted a secret.
    pub fn granted_to(&self, secret: &Name) -> Vec<Name> {
        let namespace = secret.namespace();
        let has = |(plugin, stored): &(&Name, &StoredGrant)| {
            plugin.is_in(&namespace) && stored.grant.secrets.contains(secret.as_str())
        };
        self.read(|loaded| loaded.grants.iter().filter(has).map(|(name, _)| name.clone()).collect())
    }

    /// Where folders that plugins are granted may be.
    pub fn scope(&self) -> &FolderScope {
        &self.inner.scope
    }

    pub fn secrets(&self) -> &Secrets {
        &self.inner.secrets
    }

    /// The plugin that serves a queue, if any.
    pub fn served_by(&self, queue: &QueueName) -> Option<Name> {
        self.read(|loaded| loaded.served_by.get(queue).cloned())
    }

    /// The code that an attempt of this version runs, and its permissions and limits. `served` are the queues that the
    /// plugin served when the job was claimed.
    pub async fn attempt_setup(
        &self,
        plugin: &Name,
        version: &str,
        served: &[QueueName],
    ) -> Result<(executor::Plugin, AttemptSetup), Missing> {
        let found = self.find_stored(plugin, version).await?;
        let setup = self.setup_for(plugin, &found, served);
        let digest = found.component.sha256;
        match self.read(|loaded| loaded.code.get(&digest).cloned()) {
            Some(code) => Ok((code, setup)),
            None => match self.known_problem(plugin, version) {
                Some(known) => Err(known),
                None => Ok((self.compile_stored(plugin, &found).await?, setup)),
            },
        }
    }

    /// A version by its digest: from the copy in memory, or from the store if the copy does not have it yet.
    async fn find_stored(&self, plugin: &Name, version: &str) -> Result<Version, Missing> {
        let digest = parse_digest(version);
        let known = || self.read(|loaded| loaded.plugins.get(plugin)?.version(&digest?).cloned());
        if let Some(found) = known() {
            return Ok(found);
        }
        let failed = |why| Missing::Store { plugin: plugin.clone(), version: version.to_owned(), why };
        self.refresh().await.map_err(failed)?;
        known().ok_or_else(|| Missing::Version { plugin: plugin.clone(), version: version.to_owned() })
    }

    fn setup_for(&self, plugin: &Name, version: &Version, served: &[QueueName]) -> AttemptSetup {
        let namespace = plugin.namespace();
        let surroundings = Surroundings {
            served,
            scope: self.inner.scope.clone(),
            secret: &|name| self.inner.secrets.get(&Name::parse("secret", name).ok()?.within(&namespace)),
            command: &grant_command(plugin),
            max_body: self.inner.max_body,
        };
        setup(&version.manifest, &self.granted(plugin), surroundings)
    }

    /// Compiles a stored version, usually from the cache, and retains its code, or the reason why it cannot be run.
    async fn compile_stored(&self, plugin: &Name, version: &Version) -> Result<executor::Plugin, Missing> {
        match self.read_and_compile(plugin, version).await {
            Ok(code) => {
                self.insert_code(version.component.sha256, code.clone());
                Ok(code)
            }
            Err(missing) => {
                self.add_problem(plugin, version, &missing);
                Err(missing)
            }
        }
    }

    async fn read_and_compile(&self, plugin: &Name, version: &Version) -> Result<executor::Plugin, Missing> {
        use windlass_store::Error::Damaged;
        let (plugin, digest) = (plugin.clone(), version.digest());
        let bytes = match self.inner.store.read_blob(version.component).await {
            Ok(bytes) => bytes,
            Err(Damaged { what }) => return Err(Missing::Damaged { plugin, version: short(version), what }),
            Err(why) => return Err(Missing::Store { plugin, version: digest, why }),
        };
        let compiled = metrics::compile(&self.inner.executor, bytes).await;
        compiled.map_err(|why| Missing::Rejected { plugin, version: short(version), why })
    }

    fn insert_code(&self, version: Digest, code: executor::Plugin) {
        self.write(|loaded| loaded.code.insert(version, code));
        self.remove_problem(&version);
    }

    fn read<T>(&self, look: impl FnOnce(&Loaded) -> T) -> T {
        look(&self.inner.loaded.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<T>(&self, change: impl FnOnce(&mut Loaded) -> T) -> T {
        change(&mut self.inner.loaded.write().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The version that a digest, or enough of its start, names.
pub fn find_version<'a>(plugin: &'a Plugin, text: &str) -> Result<&'a Version, Refusal> {
    const ENOUGH: usize = limits::DIGEST_LEAST;
    let mut named = plugin.versions.iter().filter(|version| text.len() >= ENOUGH && version.digest().starts_with(text));
    match (named.next(), named.next()) {
        (Some(version), None) => Ok(version),
        (Some(_), Some(_)) => {
            Err(Refusal::invalid("version", format!("several versions begin with {text}; send more of it")))
        }
        (None, _) => {
            let what = format!(
                "there is no version `{text}` of plugin `{}`; send at least {ENOUGH} characters of one that it has",
                plugin.name
            );
            Err(Refusal::invalid("version", what))
        }
    }
}

/// Which plugin serves which queue.
fn routes(plugins: &[Plugin]) -> HashMap<QueueName, Name> {
    let serving = plugins.iter().filter(|plugin| plugin.active.is_some());
    serving.flat_map(|plugin| plugin.queues.iter().map(|queue| (queue.clone(), plugin.name.clone()))).collect()
}

fn queues(plugin: &Plugin) -> String {
    plugin.queues.iter().map(QueueName::as_str).collect::<Vec<_>>().join(", ")
}

/// Enough of a digest to tell versions apart.
fn short(version: &Version) -> String {
    windlass_core::short_digest(&version.component.sha256)
}
