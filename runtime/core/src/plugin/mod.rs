//! A plugin: a named component with immutable versions, one of them active, and the queues it serves.
//!
//! Reading order: this file (what a plugin is), `change` (what people ask of one), `choose` (which version an attempt
//! takes, and what the ends of attempts mean for a canary).

mod change;
mod choose;
pub mod egress;
pub mod grant;
pub mod manifest;
pub mod payload_schema;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::trailing;
use crate::{Blob, Event, EventKind, JobId, Name, QueueName, Time, bounds};
use manifest::Manifest;

pub use change::{NewCanary, PluginChange, PluginCommand, PluginFacts, Stopped, Swap, change};
pub use choose::{Choice, Why, parse_digest};

/// The SHA-256 of a component: the name of a version.
pub type Digest = [u8; 32];

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plugin {
    pub name: Name,
    /// What the active version's manifest says, or the queue of the plugin's own name.
    pub queues: Vec<QueueName>,
    /// Oldest first. A version is named by the SHA-256 of its bytes and never changes.
    pub versions: Vec<Version>,
    /// The version that new attempts take.
    pub active: Option<Digest>,
    /// A version that is being tried on a share of them.
    pub canary: Option<Canary>,
    /// What happened to it lately, oldest first.
    pub history: Vec<PluginHistoryEntry>,
    pub created_at: Time,
    pub updated_at: Time,
    /// The key or the person that uploaded each version. The last field, because plugins that were stored without it
    /// are still read.
    #[serde(deserialize_with = "trailing::or_default")]
    pub uploaders: BTreeMap<Digest, String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    pub component: Blob,
    pub uploaded_at: Time,
    /// A label that whoever uploaded it chose; who that was is in `uploaders`.
    pub uploaded_by: Option<String>,
    /// The interfaces it imports.
    pub imports: Vec<String>,
    /// What it serves, needs and asks for.
    pub manifest: Manifest,
    /// How often the manifest was replaced since the upload.
    pub revision: u32,
}

/// A version on trial. Counted in the commits that start and end its attempts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Canary {
    pub version: Digest,
    /// How many of a hundred new attempts it gets.
    pub share: u32,
    /// The failures in a thousand of its attempts above which it is taken back.
    pub max_failures_per_mille: u32,
    /// A rate says nothing before so many attempts have ended.
    pub min_attempts: u32,
    /// After so many ended attempts within the rate it becomes the active version.
    pub promote_after: Option<u32>,
    pub started_at: Time,
    /// Attempts shared out since it began, and how many of them it got.
    pub seen: u64,
    pub given: u64,
    pub ended: u32,
    pub failed: u32,
}

/// One line of a plugin's history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginHistoryEntry {
    pub at: Time,
    pub happening: PluginHistoryKind,
    pub version: Option<Digest>,
    pub detail: String,
}

/// Something that happened to a plugin, as it is published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginEvent {
    pub plugin: Name,
    pub happening: PluginHistoryKind,
    pub version: Option<Digest>,
    pub detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PluginHistoryKind {
    Uploaded,
    Activated,
    ManifestSet,
    Granted,
    CanaryStarted,
    CanaryStopped,
    Promoted,
    RolledBack,
    VersionRemoved,
    Removed,
}

impl PluginHistoryKind {
    /// The name in the stream.
    pub fn as_str(self) -> &'static str {
        match self {
            PluginHistoryKind::Uploaded => "plugin.uploaded",
            PluginHistoryKind::Activated => "plugin.activated",
            PluginHistoryKind::ManifestSet => "plugin.manifest_set",
            PluginHistoryKind::Granted => "plugin.granted",
            PluginHistoryKind::CanaryStarted => "plugin.canary_started",
            PluginHistoryKind::CanaryStopped => "plugin.canary_stopped",
            PluginHistoryKind::Promoted => "plugin.promoted",
            PluginHistoryKind::RolledBack => "plugin.rolled_back",
            PluginHistoryKind::VersionRemoved => "plugin.version_removed",
            PluginHistoryKind::Removed => "plugin.removed",
        }
    }
}

impl Plugin {
    pub fn new(name: &Name, now: Time) -> Plugin {
        Plugin {
            name: name.clone(),
            queues: vec![name.clone()],
            versions: Vec::new(),
            active: None,
            canary: None,
            history: Vec::new(),
            created_at: now,
            updated_at: now,
            uploaders: BTreeMap::new(),
        }
    }

    pub fn active_version(&self) -> Option<&Version> {
        self.version(&self.active?)
    }

    /// The version uploaded before the active one.
    pub fn before_active(&self) -> Option<&Version> {
        let at = self.versions.iter().position(|version| Some(version.component.sha256) == self.active)?;
        self.versions.get(at.checked_sub(1)?)
    }

    pub fn version(&self, digest: &Digest) -> Option<&Version> {
        self.versions.iter().find(|version| version.component.sha256 == *digest)
    }

    /// Writes down what happened, and makes the event of it.
    fn note(
        &mut self,
        now: Time,
        happening: PluginHistoryKind,
        version: Option<Digest>,
        detail: impl Into<String>,
    ) -> Event {
        let detail = detail.into();
        self.updated_at = now;
        if self.history.len() >= bounds::PLUGIN_HISTORY {
            self.history.remove(0);
        }
        self.history.push(PluginHistoryEntry { at: now, happening, version, detail: detail.clone() });
        plugin_event(PluginEvent { plugin: self.name.clone(), happening, version, detail }, now)
    }

    /// A version becomes the one that new attempts take; its manifest says which queues are served.
    fn make_active(&mut self, digest: Digest) {
        let served = self.version(&digest).map(|version| version.manifest.queues.clone()).unwrap_or_default();
        if !served.is_empty() {
            self.queues = served;
        } else {
            self.queues = vec![self.name.clone()];
        }
        self.active = Some(digest);
    }
}

impl Version {
    /// The version's name: the digest in hexadecimal.
    pub fn digest(&self) -> String {
        self.component.hex()
    }

    /// Whether it can continue from a checkpoint of this schema.
    pub fn reads(&self, schema: u32) -> bool {
        self.manifest.schemas.as_ref().is_none_or(|schemas| schemas.contains(&schema))
    }
}

/// Enough of a digest for people to tell versions apart.
pub fn short(digest: &Digest) -> String {
    digest[..6].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An event about a plugin belongs to no job; its queue is the plugin's own name.
fn plugin_event(event: PluginEvent, now: Time) -> Event {
    let queue = event.plugin.clone();
    Event { at: now, job: JobId::NONE, queue, scope: None, kind: EventKind::Plugin(event) }
}
