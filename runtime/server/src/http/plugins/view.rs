//! Plugins in responses.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use windlass_core::plugin::grant::{Grant, command, effective};
use windlass_core::{Blob, Canary, Digest, Plugin, PluginHistoryEntry, QueueName, Version};
use windlass_store::Running;

use crate::http::Api;
use crate::http::transport::error::Result;
use crate::http::wire::{NameText, Rfc3339};

#[derive(Debug, Serialize, ToSchema)]
pub struct PluginAnswer {
    name: String,
    #[schema(value_type = Vec<NameText>)]
    queues: Vec<QueueName>,
    /// Whether its jobs can start. If not they wait, and `problem` says why.
    ready: bool,
    /// Why its jobs cannot start, and what to do about it.
    problem: Option<String>,
    /// The version that new attempts use.
    active: Option<String>,
    /// A version that gets a share of the new attempts.
    canary: Option<CanaryAnswer>,
    /// How many of its attempts run now.
    running: usize,
    versions: Vec<VersionAnswer>,
    /// What the operator grants it.
    #[schema(value_type = Object)]
    grant: Value,
    /// What the active version asks for and is not granted, each with the command that grants it.
    denied: Vec<String>,
    /// Its recent history, oldest first.
    history: Vec<PluginHistoryAnswer>,
    created_at: Rfc3339,
    updated_at: Rfc3339,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct VersionAnswer {
    /// The SHA-256 of the component.
    version: String,
    size: u64,
    uploaded_at: Rfc3339,
    #[serde(skip_serializing_if = "Option::is_none")]
    uploaded_by: Option<String>,
    imports: Vec<String>,
    /// How many attempts still run on it.
    running: usize,
    /// Why this server cannot run it, for example because its component is damaged.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    /// How many times its manifest was replaced.
    manifest_revision: u32,
    /// What it serves, needs and asks for.
    #[schema(value_type = Object)]
    manifest: Value,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct CanaryAnswer {
    version: String,
    share: u32,
    max_failure_rate: f64,
    min_attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    promote_after: Option<u32>,
    started_at: Rfc3339,
    /// Attempts since the canary started, and how many of them ran on it.
    attempts: u64,
    given: u64,
    /// How many of those have ended, and how many failed.
    ended: u32,
    failed: u32,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct PluginHistoryAnswer {
    at: Rfc3339,
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    detail: String,
}

/// A manifest with the version it belongs to.
#[derive(Debug, Serialize, ToSchema)]
pub struct ManifestAnswer {
    version: String,
    revision: u32,
    #[schema(value_type = Object)]
    manifest: Value,
}

pub async fn show_plugin(api: &Api, plugin: Plugin) -> Result<PluginAnswer> {
    let running = api.store.running().await?;
    Ok(answer(plugin, api, &running))
}

pub async fn show_plugins(api: &Api, plugins: Vec<Plugin>) -> Result<Vec<PluginAnswer>> {
    let running = api.store.running().await?;
    Ok(plugins.into_iter().map(|plugin| answer(plugin, api, &running)).collect())
}

/// A grant, in the form in which it can be set.
pub fn show_grant(grant: &Grant) -> Value {
    value(grant)
}

fn answer(plugin: Plugin, api: &Api, running: &[Running]) -> PluginAnswer {
    let grant = api.registry.granted(&plugin.name);
    let asked = plugin.active_version().map(|version| &version.manifest);
    let denied = asked.map(|asked| effective(asked, &grant).1).unwrap_or_default();
    let hint = api.registry.scope().hint();
    let own: Vec<&Running> = running.iter().filter(|attempt| attempt.plugin == plugin.name).collect();
    let version = |version: Version| VersionAnswer {
        running: own.iter().filter(|attempt| attempt.version == version.digest()).count(),
        version: version.digest(),
        size: version.component.len,
        uploaded_at: Rfc3339(version.uploaded_at),
        uploaded_by: version.uploaded_by,
        imports: version.imports,
        problem: api.registry.problem(&version.component.sha256),
        manifest_revision: version.revision,
        manifest: value(&version.manifest),
    };
    let problem = api.registry.not_ready(&plugin);
    PluginAnswer {
        ready: problem.is_none(),
        problem,
        active: plugin.active.as_ref().map(hex),
        denied: denied.iter().map(|denied| denied.sentence(&command(&plugin.name), hint.as_deref())).collect(),
        grant: value(&grant),
        running: own.len(),
        versions: plugin.versions.into_iter().map(version).collect(),
        name: plugin.name.to_string(),
        queues: plugin.queues,
        canary: plugin.canary.map(CanaryAnswer::from),
        history: plugin.history.into_iter().map(PluginHistoryAnswer::from).collect(),
        created_at: Rfc3339(plugin.created_at),
        updated_at: Rfc3339(plugin.updated_at),
    }
}

/// These types always serialize.
fn value(data: &impl Serialize) -> Value {
    serde_json::to_value(data).unwrap_or_default()
}

fn hex(digest: &Digest) -> String {
    Blob { sha256: *digest, len: 0 }.hex()
}

impl From<&Version> for ManifestAnswer {
    fn from(version: &Version) -> ManifestAnswer {
        let manifest = value(&version.manifest);
        ManifestAnswer { version: version.digest(), revision: version.revision, manifest }
    }
}

impl From<Canary> for CanaryAnswer {
    fn from(canary: Canary) -> CanaryAnswer {
        CanaryAnswer {
            version: hex(&canary.version),
            share: canary.share,
            max_failure_rate: f64::from(canary.max_failures_per_mille) / 1_000.0,
            min_attempts: canary.min_attempts,
            promote_after: canary.promote_after,
            started_at: Rfc3339(canary.started_at),
            attempts: canary.seen,
            given: canary.given,
            ended: canary.ended,
            failed: canary.failed,
        }
    }
}

impl CanaryAnswer {
    pub fn version(&self) -> &str {
        &self.version
    }
}

impl From<PluginHistoryEntry> for PluginHistoryAnswer {
    fn from(happened: PluginHistoryEntry) -> PluginHistoryAnswer {
        PluginHistoryAnswer {
            at: Rfc3339(happened.at),
            kind: happened.happening.as_str(),
            version: happened.version.as_ref().map(hex),
            detail: happened.detail,
        }
    }
}
