//! Who asked for a change, as the audit log and the records of what was made call them.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::access::Role;

/// Somebody who was let in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    /// The id of a key, `oidc:` and the subject of a person or a program, or one of the constants below.
    pub id: String,
    /// None for somebody without a key, whom an enqueue rule lets in.
    pub role: Option<Role>,
    pub address: Option<IpAddr>,
}

impl Actor {
    /// What stands before the subject of somebody whom an OpenID Connect provider vouches for.
    pub const OIDC: &str = "oidc:";
    /// Somebody without a key.
    pub const ANYBODY: &str = "anybody";
    /// Whoever has the key that the server was started with.
    pub const STARTED_WITH: &str = "start-key";
    /// Another service whose signature was verified.
    pub const SIGNED_WEBHOOK: &str = "signed-webhook";
    /// Whoever can reach a server that needs no key.
    pub const INSECURE: &str = "insecure";
}
