//! Which plugins there are, which queues they serve, and their compiled code.
//!
//! The store's word is what counts: this holds the code of the active versions and a copy of the routing, and is changed
//! only after the store has been. It never runs a guest.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use tokio::sync::Mutex;
use tracing::{error, info};
use windlass_core::{Name, Plugin, QueueName, Refusal, Version};
use windlass_executor::{self as executor, Executor, Rejected};
use windlass_store::{Clock, PluginChange, Store};

use crate::clock::SystemClock;
use crate::figures;

/// Cheap to clone.
#[derive(Clone)]
pub struct Registry {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    executor: Executor,
    clock: Arc<SystemClock>,
    /// Held while a plugin's record is read, changed and written back.
    changing: Mutex<()>,
    loaded: RwLock<Loaded>,
}

#[derive(Default)]
struct Loaded {
    /// Compiled code by digest: the same bytes under two names are compiled once.
    code: HashMap<[u8; 32], executor::Plugin>,
    served_by: HashMap<QueueName, String>,
}

/// What became of an upload.
#[derive(Debug)]
pub struct Uploaded {
    pub plugin: Plugin,
    /// Whether these bytes are new to the plugin.
    pub new_version: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Rejected(#[from] Rejected),
    #[error(transparent)]
    Store(#[from] windlass_store::Error),
}

/// Why an attempt has no code to run.
#[derive(Debug, thiserror::Error)]
pub enum Missing {
    #[error("version {version} of plugin `{plugin}` is no longer stored")]
    Version { plugin: String, version: String },
    #[error("version {version} of plugin `{plugin}` cannot be used by this server: {why}")]
    Rejected { plugin: String, version: String, why: Rejected },
    #[error("version {version} of plugin `{plugin}` cannot be read: {why}")]
    Store { plugin: String, version: String, why: windlass_store::Error },
}

impl Registry {
    /// Compiles the active version of every plugin in the store, so that the first job does not wait for it. A plugin that
    /// cannot be compiled is reported and left: its jobs say why they fail, and the others run.
    pub async fn load(
        store: Store,
        executor: Executor,
        clock: Arc<SystemClock>,
    ) -> Result<Registry, windlass_store::Error> {
        let plugins = store.plugins().await?;
        let loaded = RwLock::new(Loaded::default());
        let registry = Registry { inner: Arc::new(Inner { store, executor, clock, changing: Mutex::new(()), loaded }) };
        registry.write(|loaded| loaded.served_by = routes(&plugins));
        for plugin in &plugins {
            let Some(version) = plugin.active_version() else {
                continue;
            };
            match registry.compile_stored(&plugin.name, version).await {
                Ok(code) => {
                    info!("plugin {} ({}) serves {}", plugin.name, short(version), queues(plugin));
                    registry.write(|loaded| loaded.code.insert(version.component.sha256, code));
                }
                Err(why) => error!("plugin {} is not loaded: {why}", plugin.name),
            }
        }
        Ok(registry)
    }

    /// Takes a component in: checked, compiled, stored and made active in one step, or refused with nothing changed.
    /// Without `queues`, a plugin keeps those it serves; a new one serves the queue of its own name.
    pub async fn upload(&self, name: Name, queues: Option<Vec<QueueName>>, bytes: Bytes) -> Result<Uploaded, Error> {
        let code = figures::compile(&self.inner.executor, bytes.clone()).await?;
        let blob = self.inner.store.keep_blob(bytes).await?;

        let _changing = self.inner.changing.lock().await;
        let plugins = self.inner.store.plugins().await?;
        let known = plugins.iter().find(|plugin| plugin.name == *name);
        let queues = queues.or_else(|| known.map(|plugin| plugin.queues.clone())).unwrap_or_else(|| vec![name.clone()]);
        let now = self.inner.clock.now();
        let mut plugin = known.cloned().unwrap_or_else(|| Plugin {
            name: name.to_string(),
            queues: Vec::new(),
            versions: Vec::new(),
            active: None,
            created_at: now,
            updated_at: now,
        });
        let new_version = plugin.versions.iter().all(|version| version.component != blob);
        if new_version {
            let imports = code.imports().to_vec();
            plugin.versions.push(Version { component: blob, uploaded_at: now, uploaded_by: None, imports });
        }
        plugin.queues = queues;
        plugin.active = Some(blob.sha256);
        plugin.updated_at = now;

        // The code is in place before the store can hand out a job for it, and goes again if the store refuses: one of the
        // queues may be another plugin's.
        self.write(|loaded| loaded.code.insert(blob.sha256, code));
        let stored = self.inner.store.change_plugin(PluginChange::Put(plugin.clone())).await;
        let mut plugins = plugins;
        if stored.is_ok() {
            plugins.retain(|other| other.name != plugin.name);
            plugins.push(plugin.clone());
        }
        self.write(|loaded| {
            loaded.served_by = routes(&plugins);
            loaded.code.retain(|digest, _| plugins.iter().any(|plugin| plugin.active == Some(*digest)));
        });
        stored?;
        Ok(Uploaded { plugin, new_version })
    }

    /// Makes a stored version the one that new attempts take. `version` may be the beginning of its digest.
    pub async fn activate(&self, name: &str, version: &str) -> Result<Plugin, Error> {
        let _changing = self.inner.changing.lock().await;
        let mut plugin = self.plugin(name).await?;
        let version = find_version(&plugin, version).map_err(windlass_store::Error::from)?.clone();
        let bytes = self.inner.store.read_blob(version.component).await?;
        let code = figures::compile(&self.inner.executor, bytes).await?;
        self.write(|loaded| loaded.code.insert(version.component.sha256, code));
        plugin.active = Some(version.component.sha256);
        plugin.updated_at = self.inner.clock.now();
        let stored = self.inner.store.change_plugin(PluginChange::Put(plugin.clone())).await;
        self.settle().await?;
        stored?;
        Ok(plugin)
    }

    /// Takes a plugin away. What runs finishes; the jobs of its queues wait for another, or for workers.
    pub async fn remove(&self, name: &str) -> Result<(), Error> {
        let _changing = self.inner.changing.lock().await;
        self.inner.store.change_plugin(PluginChange::Remove(name.to_owned())).await?;
        self.settle().await?;
        Ok(())
    }

    /// Brings the copy of the routing, and the code in memory, to what the store says.
    async fn settle(&self) -> Result<(), windlass_store::Error> {
        let plugins = self.inner.store.plugins().await?;
        self.write(|loaded| {
            loaded.served_by = routes(&plugins);
            loaded.code.retain(|digest, _| plugins.iter().any(|plugin| plugin.active == Some(*digest)));
        });
        Ok(())
    }

    pub async fn plugins(&self) -> Result<Vec<Plugin>, windlass_store::Error> {
        self.inner.store.plugins().await
    }

    pub async fn plugin(&self, name: &str) -> Result<Plugin, windlass_store::Error> {
        let found = self.plugins().await?.into_iter().find(|plugin| plugin.name == name);
        found.ok_or_else(|| Refusal::not_found("plugin", name).into())
    }

    /// The plugin that serves a queue, if one does.
    pub fn served_by(&self, queue: &QueueName) -> Option<String> {
        self.read(|loaded| loaded.served_by.get(queue).cloned())
    }

    /// The code of a plugin's version: in memory for an active one, out of the store for one that was replaced between the
    /// claim and now.
    pub async fn code(&self, plugin: &str, version: &str) -> Result<executor::Plugin, Missing> {
        let active = parse_digest(version).and_then(|digest| self.read(|loaded| loaded.code.get(&digest).cloned()));
        if let Some(code) = active {
            return Ok(code);
        }
        let (name, digest) = (plugin.to_owned(), version.to_owned());
        let stored = match self.plugin(plugin).await {
            Ok(stored) => stored,
            Err(windlass_store::Error::Refused(_)) => {
                return Err(Missing::Version { plugin: name, version: digest });
            }
            Err(why) => {
                return Err(Missing::Store { plugin: name, version: digest, why });
            }
        };
        match stored.versions.iter().find(|stored| stored.digest() == version) {
            Some(version) => self.compile_stored(plugin, version).await,
            None => Err(Missing::Version { plugin: name, version: digest }),
        }
    }

    async fn compile_stored(&self, plugin: &str, version: &Version) -> Result<executor::Plugin, Missing> {
        let (plugin, digest) = (plugin.to_owned(), version.digest());
        let bytes = match self.inner.store.read_blob(version.component).await {
            Ok(bytes) => bytes,
            Err(why) => {
                return Err(Missing::Store { plugin, version: digest, why });
            }
        };
        figures::compile(&self.inner.executor, bytes).await.map_err(|why| Missing::Rejected {
            plugin,
            version: digest,
            why,
        })
    }

    fn read<T>(&self, look: impl FnOnce(&Loaded) -> T) -> T {
        look(&self.inner.loaded.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<T>(&self, change: impl FnOnce(&mut Loaded) -> T) -> T {
        change(&mut self.inner.loaded.write().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The version that a digest, or enough of its beginning, names.
pub fn find_version<'a>(plugin: &'a Plugin, text: &str) -> Result<&'a Version, Refusal> {
    const ENOUGH: usize = 6;
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
fn routes(plugins: &[Plugin]) -> HashMap<QueueName, String> {
    let pairs =
        plugins.iter().flat_map(|plugin| plugin.queues.iter().map(|queue| (queue.clone(), plugin.name.clone())));
    pairs.collect()
}

fn queues(plugin: &Plugin) -> String {
    plugin.queues.iter().map(QueueName::as_str).collect::<Vec<_>>().join(", ")
}

/// Enough of a digest for people to tell versions apart.
fn short(version: &Version) -> String {
    version.digest().chars().take(12).collect()
}

fn parse_digest(text: &str) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (byte, pair) in digest.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::Blob;

    #[test]
    fn a_digest_survives_its_text_form() {
        let blob = Blob { sha256: [0xa7; 32], len: 1 };
        assert_eq!(parse_digest(&blob.hex()), Some(blob.sha256));
        assert_eq!(parse_digest("a7"), None);
        assert_eq!(parse_digest(&"zz".repeat(32)), None);
    }
}
