//! Rows as older formats had them, and what they are today. Written by no version any more.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use windlass_core::plugin::egress::HostPattern;
use windlass_core::plugin::grant::{FolderGrant, Grant};
use windlass_core::plugin::manifest::{Build, Capabilities, Limits, Manifest, Retry};
use windlass_core::{
    Blob, Canary, DeliveryLog, Digest, Name, Namespace, Plugin, PluginHistoryEntry, QueueName, SigningSecrets, Time,
    Version, Webhook,
};

use crate::disk::Space;

/// A row of an older format of its space in the form that is read today.
pub(crate) fn upgrade(space: Space, format: u8, row: &[u8]) -> Result<Vec<u8>, postcard::Error> {
    match (space, format) {
        // The depth comes last: no job has one yet, so all are as if nobody had spawned them.
        (Space::Jobs, _) => Ok([row, &postcard::to_stdvec(&0_u32)?].concat()),
        (Space::Plugins, 1) => plugin::<Capabilities1>(row),
        (Space::Plugins, _) => plugin::<Capabilities>(row),
        (Space::Grants, _) => {
            let (name, old): (Name, Grant1) = postcard::from_bytes(row)?;
            postcard::to_stdvec(&(name, Grant::from(old)))
        }
        (Space::Webhooks, _) => {
            let old: Webhook1 = postcard::from_bytes(row)?;
            postcard::to_stdvec(&Webhook::from(old))
        }
        _ => Ok(row.to_vec()),
    }
}

fn plugin<C: DeserializeOwned + Into<Capabilities>>(row: &[u8]) -> Result<Vec<u8>, postcard::Error> {
    let old: OldPlugin<C> = postcard::from_bytes(row)?;
    postcard::to_stdvec(&Plugin::from(old))
}

/// Format 1 had other capabilities than format 2, and is the same otherwise.
#[derive(Deserialize)]
struct OldPlugin<C> {
    name: Name,
    queues: Vec<QueueName>,
    versions: Vec<OldVersion<C>>,
    active: Option<Digest>,
    canary: Option<Canary>,
    history: Vec<PluginHistoryEntry>,
    created_at: Time,
    updated_at: Time,
}

#[derive(Deserialize)]
struct OldVersion<C> {
    component: Blob,
    uploaded_at: Time,
    uploaded_by: Option<String>,
    imports: Vec<String>,
    manifest: OldManifest<C>,
    revision: u32,
}

#[derive(Deserialize)]
struct OldManifest<C> {
    queues: Vec<QueueName>,
    reuse: u32,
    retry: Retry,
    limits: Limits,
    config: BTreeMap<String, String>,
    capabilities: C,
    schemas: Option<Vec<u32>>,
    build: Build,
}

#[derive(Deserialize)]
struct Capabilities1 {
    http: Vec<HostPattern>,
    read: Vec<String>,
    write: Vec<String>,
    environment: Vec<String>,
    secrets: Vec<String>,
}

#[derive(Deserialize)]
struct Grant1 {
    limits: Limits,
    http: Vec<HostPattern>,
    private_http: Vec<HostPattern>,
    folders: BTreeMap<String, FolderGrant>,
    environment: BTreeMap<String, String>,
    secrets: BTreeSet<String>,
}

impl<C: Into<Capabilities>> From<OldPlugin<C>> for Plugin {
    fn from(old: OldPlugin<C>) -> Plugin {
        let OldPlugin { name, queues, versions, active, canary, history, created_at, updated_at } = old;
        let versions = versions.into_iter().map(Version::from).collect();
        Plugin { name, queues, versions, active, canary, history, created_at, updated_at, uploaders: BTreeMap::new() }
    }
}

impl<C: Into<Capabilities>> From<OldVersion<C>> for Version {
    fn from(old: OldVersion<C>) -> Version {
        let OldVersion { component, uploaded_at, uploaded_by, imports, manifest, revision } = old;
        Version { component, uploaded_at, uploaded_by, imports, manifest: manifest.into(), revision }
    }
}

impl<C: Into<Capabilities>> From<OldManifest<C>> for Manifest {
    fn from(old: OldManifest<C>) -> Manifest {
        let OldManifest { queues, reuse, retry, limits, config, capabilities, schemas, build } = old;
        let capabilities = capabilities.into();
        Manifest { queues, reuse, retry, limits, config, capabilities, schemas, payload: None, build }
    }
}

impl From<Capabilities1> for Capabilities {
    fn from(old: Capabilities1) -> Capabilities {
        let Capabilities1 { http, read, write, environment, secrets } = old;
        Capabilities { http, read, write, environment, secrets, spawn: Vec::new() }
    }
}

impl From<Grant1> for Grant {
    fn from(old: Grant1) -> Grant {
        let Grant1 { limits, http, private_http, folders, environment, secrets } = old;
        Grant { limits, http, private_http, folders, environment, secrets, spawn: Vec::new() }
    }
}

#[derive(Deserialize)]
struct Webhook1 {
    id: String,
    url: String,
    events: Vec<String>,
    encrypted_secret: Option<Vec<u8>>,
    enabled: bool,
    retry_limit: u32,
    created_at: Time,
    told: u64,
    delivered: u64,
    failed: u64,
    last_error: Option<String>,
}

impl From<Webhook1> for Webhook {
    fn from(old: Webhook1) -> Webhook {
        let Webhook1 { id, url, events, encrypted_secret, enabled, retry_limit, created_at, .. } = old;
        let Webhook1 { told, delivered, failed, last_error, .. } = old;
        let secrets = SigningSecrets { newest: encrypted_secret, previous: None };
        let (updated_at, log) = (created_at, DeliveryLog::default());
        Webhook {
            id,
            url,
            events,
            secrets,
            enabled,
            retry_limit,
            created_at,
            updated_at,
            delivered_up_to: told,
            delivered,
            failed,
            last_error,
            log,
            namespace: Namespace::default(),
        }
    }
}
