//! Changes of plugins. Code is checked and compiled before the change is sent to the store, so that nothing becomes
//! active that cannot run; what the change means is decided in core.

use std::fmt;
use std::path::PathBuf;

use bytes::Bytes;
use windlass_core::access::AuditOutcome;
use windlass_core::plugin::grant::Grant;
use windlass_core::plugin::manifest::Manifest;
use windlass_core::{Blob, Name, NewCanary, Plugin, PluginCommand, QueueName, Refusal, Swap, Version};
use windlass_executor as executor;

use crate::metrics;
use crate::registry::{Error, Missing, Registry, find_version};

/// A component and what is uploaded with it.
pub struct Upload {
    pub bytes: Bytes,
    pub manifest: Option<Manifest>,
    pub queues: Option<Vec<QueueName>>,
    pub by: Option<String>,
    /// `None`: the version is stored, but not activated.
    pub swap: Option<Swap>,
}

/// The result of an upload.
#[derive(Debug)]
pub struct Uploaded {
    pub plugin: Plugin,
    /// The digest of what was uploaded.
    pub version: String,
    /// Whether these bytes are new to the plugin.
    pub new_version: bool,
}

impl Registry {
    /// Checks, compiles, stores and activates a component in one step, or refuses it and changes nothing.
    pub async fn upload(&self, name: Name, upload: Upload) -> Result<Uploaded, Error> {
        let prepared = self.prepare_upload(&upload).await;
        let (code, component) = self.noted(prepared, "plugin.upload", &name).await?;
        self.store_upload(name, upload, code, component).await
    }

    /// Passes on what was refused before the store was asked, which writes its own refusals into the audit log.
    async fn noted<T>(&self, prepared: Result<T, Error>, action: &'static str, name: &Name) -> Result<T, Error> {
        let refused = match &prepared {
            Err(Error::Rejected(why)) => Some(why.to_string()),
            Err(Error::Store(windlass_store::Error::Refused(why))) => Some(why.to_string()),
            Err(_) | Ok(_) => None,
        };
        if let Some(why) = refused {
            self.store.note(action, name.to_string(), AuditOutcome::Refused(why)).await?;
        }
        prepared
    }

    async fn prepare_upload(&self, upload: &Upload) -> Result<(executor::Plugin, Blob), Error> {
        if let Some(manifest) = &upload.manifest {
            manifest.check()?;
        }
        let code = metrics::compile(&self.inner.executor, upload.bytes.clone()).await?;
        Ok((code, self.inner.store.store_blob(upload.bytes.clone()).await?))
    }

    async fn store_upload(
        &self,
        name: Name,
        upload: Upload,
        code: executor::Plugin,
        component: Blob,
    ) -> Result<Uploaded, Error> {
        let Upload { bytes: _, manifest, queues, by, swap } = upload;
        let _changing = self.inner.changing.lock().await;
        let known = self.plugins().await?.into_iter().find(|plugin| plugin.name == name);
        let new_version = known.is_none_or(|plugin| plugin.version(&component.sha256).is_none());
        let imports = code.imports().to_vec();
        // The code is available before the store can assign a job to it, and is removed if the store refuses.
        self.insert_code(component.sha256, code);
        let command = PluginCommand::Upload { component, imports, manifest, queues, by, swap };
        let plugin = self.ask(&name, command).await?;
        Ok(Uploaded { plugin, version: component.hex(), new_version })
    }

    /// Makes a stored version the one that new attempts use. `version` may be the start of its digest.
    pub async fn activate(&self, name: &Name, version: &str, swap: Swap) -> Result<Plugin, Error> {
        let _changing = self.inner.changing.lock().await;
        let plugin = self.plugin(name).await?;
        let version = find_version(&plugin, version)?;
        self.prepare(name, version).await?;
        self.ask(name, PluginCommand::Activate { version: version.component.sha256, swap }).await
    }

    /// Activates the version uploaded before the active one.
    pub async fn roll_back(&self, name: &Name, swap: Swap) -> Result<Plugin, Error> {
        let _changing = self.inner.changing.lock().await;
        let plugin = self.plugin(name).await?;
        if let Some(before) = plugin.before_active() {
            self.prepare(name, before).await?;
        }
        self.ask(name, PluginCommand::Rollback { swap }).await
    }

    /// Tries a version on a share of the attempts; `new` has everything but the version.
    pub async fn start_canary(&self, name: &Name, version: &str, new: NewCanary) -> Result<Plugin, Error> {
        let _changing = self.inner.changing.lock().await;
        let plugin = self.plugin(name).await?;
        let version = find_version(&plugin, version)?;
        self.prepare(name, version).await?;
        let version = version.component.sha256;
        self.ask(name, PluginCommand::StartCanary(NewCanary { version, ..new })).await
    }

    pub async fn end_canary(&self, name: &Name, promote: bool) -> Result<Plugin, Error> {
        self.ask(name, PluginCommand::EndCanary { promote }).await
    }

    /// Replaces the manifest of a version, or of the active one if none is named.
    pub async fn set_manifest(&self, name: &Name, version: Option<&str>, manifest: Manifest) -> Result<Plugin, Error> {
        let plugin = self.plugin(name).await?;
        let version = match version {
            Some(text) => Some(find_version(&plugin, text)?.component.sha256),
            None => None,
        };
        self.ask(name, PluginCommand::SetManifest { version, manifest }).await
    }

    pub async fn remove_version(&self, name: &Name, version: &str, force: bool) -> Result<Plugin, Error> {
        let plugin = self.plugin(name).await?;
        let version = find_version(&plugin, version)?.component.sha256;
        self.ask(name, PluginCommand::RemoveVersion { version, force }).await
    }

    /// Removes a plugin and its grant. The jobs of its queues wait for another plugin, or for workers.
    pub async fn remove(&self, name: &Name, force: bool) -> Result<(), Error> {
        self.store.change_plugin(name.clone(), PluginCommand::Remove { force }).await?;
        Ok(self.refresh().await?)
    }

    /// Replaces what the operator grants. A folder is granted by the path that it resolves to now; one that is already
    /// granted stays unchanged, even if it could no longer be granted: it is checked whenever it is opened.
    pub async fn grant(&self, name: &Name, grant: Grant) -> Result<(), Error> {
        let resolved = self.resolve_folders(name, grant).await;
        let grant = self.noted(resolved, "plugin.grant", name).await?;
        self.store.change_plugin(name.clone(), PluginCommand::Grant(grant)).await?;
        Ok(self.refresh().await?)
    }

    async fn resolve_folders(&self, name: &Name, mut grant: Grant) -> Result<Grant, Error> {
        grant.check()?;
        let already = self.granted(name).folders;
        for (guest, folder) in grant.folders.iter_mut().filter(|(guest, folder)| already.get(*guest) != Some(folder)) {
            folder.path = self.resolve_folder(guest, &folder.path).await?;
        }
        Ok(grant)
    }

    async fn resolve_folder(&self, guest: &str, path: &str) -> Result<String, Refusal> {
        let (scope, folder) = (self.inner.scope.clone(), PathBuf::from(path));
        // A folder may be on a slow disk.
        let resolved = tokio::task::spawn_blocking(move || scope.resolve(&folder)).await;
        let refused = |why: &dyn fmt::Display| {
            Refusal::invalid("folders", format!("{path} cannot be granted as `{guest}`: {why}"))
        };
        match resolved {
            Ok(Ok(real)) => real
                .into_os_string()
                .into_string()
                .map_err(|_| refused(&"its path is not valid UTF-8; rename the folder")),
            Ok(Err(why)) => Err(refused(&why)),
            Err(panicked) => Err(refused(&panicked)),
        }
    }

    /// Changes the plugin in the store, and then the copy in memory.
    async fn ask(&self, name: &Name, command: PluginCommand) -> Result<Plugin, Error> {
        let changed = self.store.change_plugin(name.clone(), command).await;
        self.refresh().await?;
        changed?.ok_or_else(|| Refusal::not_found("plugin", name).into())
    }

    /// Makes sure that a version can run before it is used.
    async fn prepare(&self, name: &Name, version: &Version) -> Result<(), Error> {
        match self.compile_stored(name, version).await {
            Ok(_) => Ok(()),
            Err(Missing::Rejected { why, .. }) => Err(why.into()),
            Err(Missing::Store { why, .. }) => Err(why.into()),
            Err(missing @ (Missing::Damaged { .. } | Missing::Known { .. })) => {
                Err(Error::Damaged(missing.to_string()))
            }
            Err(Missing::Version { version, .. }) => Err(Refusal::not_found("version", version).into()),
        }
    }
}
