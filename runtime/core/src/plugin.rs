//! A plugin: a named component with immutable versions, one of them active, and the queues it serves.

use serde::{Deserialize, Serialize};

use crate::{Blob, QueueName, Time};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plugin {
    pub name: String,
    pub queues: Vec<QueueName>,
    /// Oldest first. A version is named by the SHA-256 of its bytes and never changes.
    pub versions: Vec<Version>,
    /// The version that new attempts take.
    pub active: Option<[u8; 32]>,
    pub created_at: Time,
    pub updated_at: Time,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    pub component: Blob,
    pub uploaded_at: Time,
    pub uploaded_by: Option<String>,
    /// The interfaces it imports.
    pub imports: Vec<String>,
}

impl Plugin {
    pub fn active_version(&self) -> Option<&Version> {
        let active = self.active?;
        self.versions.iter().find(|version| version.component.sha256 == active)
    }
}

impl Version {
    /// The version's name: the digest in hexadecimal.
    pub fn digest(&self) -> String {
        self.component.hex()
    }
}
