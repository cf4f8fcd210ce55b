//! Rows as format 1 had them, and what they are today. Written by no version any more.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use windlass_core::plugin::egress::HostPattern;
use windlass_core::plugin::grant::{FolderGrant, Grant};
use windlass_core::plugin::manifest::{Build, Capabilities, Limits, Manifest, Retry};
use windlass_core::{
    Blob, Canary, DeliveryLog, Digest, Name, Namespace, Plugin, PluginHistoryEntry, QueueName, SigningSecrets, Time,
    Version, Webhook,
};

use crate::disk::Space;

/// A row of format 1 in the form that is read today, when it differs.
pub(crate) fn upgrade(space: Space, row: &[u8]) -> Result<Option<Vec<u8>>, postcard::Error> {
    let written = match space {
        // The depth comes last: no job has one yet, so all are as if nobody had spawned them.
        Space::Jobs => [row, &postcard::to_stdvec(&0_u32)?].concat(),
        Space::Plugins => {
            let old: Plugin1 = postcard::from_bytes(row)?;
            postcard::to_extend(&Plugin::from(old), Vec::new())?
        }
        Space::Grants => {
            let (name, old): (Name, Grant1) = postcard::from_bytes(row)?;
            postcard::to_extend(&(name, Grant::from(old)), Vec::new())?
        }
        Space::Webhooks => {
            let old: Webhook1 = postcard::from_bytes(row)?;
            postcard::to_extend(&Webhook::from(old), Vec::new())?
        }
        _ => return Ok(None),
    };
    Ok(Some(written))
}

#[derive(Deserialize)]
struct Plugin1 {
    name: Name,
    queues: Vec<QueueName>,
    versions: Vec<Version1>,
    active: Option<Digest>,
    canary: Option<Canary>,
    history: Vec<PluginHistoryEntry>,
    created_at: Time,
    updated_at: Time,
}

#[derive(Deserialize)]
struct Version1 {
    component: Blob,
    uploaded_at: Time,
    uploaded_by: Option<String>,
    imports: Vec<String>,
    manifest: Manifest1,
    revision: u32,
}

#[derive(Deserialize)]
struct Manifest1 {
    queues: Vec<QueueName>,
    reuse: u32,
    retry: Retry,
    limits: Limits,
    config: BTreeMap<String, String>,
    capabilities: Capabilities1,
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

impl From<Plugin1> for Plugin {
    fn from(old: Plugin1) -> Plugin {
        let Plugin1 { name, queues, versions, active, canary, history, created_at, updated_at } = old;
        let versions = versions.into_iter().map(Version::from).collect();
        Plugin { name, queues, versions, active, canary, history, created_at, updated_at }
    }
}

impl From<Version1> for Version {
    fn from(old: Version1) -> Version {
        let Version1 { component, uploaded_at, uploaded_by, imports, manifest, revision } = old;
        Version { component, uploaded_at, uploaded_by, imports, manifest: manifest.into(), revision }
    }
}

impl From<Manifest1> for Manifest {
    fn from(old: Manifest1) -> Manifest {
        let Manifest1 { queues, reuse, retry, limits, config, capabilities, schemas, build } = old;
        let Capabilities1 { http, read, write, environment, secrets } = capabilities;
        let capabilities = Capabilities { http, read, write, environment, secrets, spawn: Vec::new() };
        Manifest { queues, reuse, retry, limits, config, capabilities, schemas, build }
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
