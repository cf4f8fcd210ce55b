//! A job's bodies: payload, checkpoint, result. To the rules they are bytes, of which only size and place matter.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Bytes handed in with a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Small enough to travel in the commit.
    Inline(Bytes),
    /// Already a durable file, named by its content.
    Blob(Blob),
}

/// A content-addressed file: the SHA-256 of its bytes, and their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Blob {
    pub sha256: [u8; 32],
    pub len: u64,
}

impl Blob {
    /// The digest as people write it.
    pub fn hex(&self) -> String {
        self.sha256.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Which of a job's bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum BodyKind {
    Payload,
    Checkpoint,
    Result,
}

impl BodyKind {
    pub const ALL: [BodyKind; 3] = [BodyKind::Payload, BodyKind::Checkpoint, BodyKind::Result];
}

/// Where a body of a job is stored, by the job's row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum BodyRef {
    #[default]
    None,
    Inline {
        len: u32,
    },
    Blob(Blob),
}

impl BodyRef {
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u64 {
        match self {
            BodyRef::None => 0,
            BodyRef::Inline { len } => u64::from(*len),
            BodyRef::Blob(blob) => blob.len,
        }
    }

    pub fn is_none(&self) -> bool {
        matches!(self, BodyRef::None)
    }
}

impl From<&Body> for BodyRef {
    fn from(body: &Body) -> BodyRef {
        match body {
            Body::Inline(bytes) => BodyRef::Inline { len: u32::try_from(bytes.len()).unwrap_or(u32::MAX) },
            Body::Blob(blob) => BodyRef::Blob(*blob),
        }
    }
}
