//! Sessions: what is stored when somebody signs in with a browser. The browser holds a cookie; the key is stored in
//! neither place.

use serde::{Deserialize, Serialize};

use crate::Time;
use crate::access::{Actor, KeyNamespaces, Role};
use crate::queue_pattern::QueuePattern;

/// A session as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Part of the cookie, in clear.
    pub id: String,
    pub sha256: [u8; 32],
    pub of: SessionOf,
    /// What the key or the person is called.
    pub name: String,
    pub role: Role,
    pub namespaces: KeyNamespaces,
    /// The queues that it may use, by patterns; empty: all of its namespace.
    pub queues: Vec<QueuePattern>,
    pub created_at: Time,
    pub expires_at: Time,
}

/// Who has signed in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionOf {
    /// Whoever has this key. The session ends with it.
    Key(String),
    /// Whoever has the key that the server was started with.
    StartKey,
    /// A person whom another server vouches for.
    Person {
        actor: String,
        /// That server.
        issuer: String,
    },
}

impl Session {
    pub fn is_expired(&self, now: Time) -> bool {
        self.expires_at <= now
    }
}

impl SessionOf {
    /// What the audit log calls whoever it is.
    pub fn actor(&self) -> &str {
        match self {
            SessionOf::Key(id) => id,
            SessionOf::StartKey => Actor::STARTED_WITH,
            SessionOf::Person { actor, .. } => actor,
        }
    }
}
