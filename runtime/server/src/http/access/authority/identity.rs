//! Somebody who was recognised: by a key, a session, or the word of a provider.

use std::sync::Arc;

use windlass_core::Time;
use windlass_core::access::{Actor, ApiKey, KeyNamespaces, Role};
use windlass_core::limits::Rate;
use windlass_core::queue_pattern::QueuePattern;

use crate::oidc::Vouched;

/// Somebody who was recognised, before it is known what they may do.
pub struct Identity {
    pub id: String,
    pub role: Role,
    pub namespaces: KeyNamespaces,
    pub queues: Arc<[QueuePattern]>,
    pub rate: Option<Rate>,
    pub name: String,
    pub by: By,
    pub session: Option<Arc<str>>,
    /// Until when the token is valid that was sent; none for keys, which are looked up.
    pub until: Option<Time>,
}

/// What somebody was recognised by.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// A key that was made, or a session begun with one. When it was last used is noted.
    Key,
    StartKey,
    /// The word of the OpenID Connect provider.
    Provider,
}

impl Identity {
    pub fn of_key(key: &ApiKey) -> Identity {
        Identity {
            id: key.id.clone(),
            role: key.role,
            namespaces: key.namespaces.clone(),
            queues: key.queues.clone().into(),
            rate: key.rate,
            name: key.name.clone(),
            by: By::Key,
            session: None,
            until: None,
        }
    }

    pub fn of_start_key() -> Identity {
        Identity {
            id: Actor::STARTED_WITH.to_owned(),
            role: Role::Admin,
            namespaces: KeyNamespaces::All,
            queues: Arc::default(),
            rate: None,
            name: Actor::STARTED_WITH.to_owned(),
            by: By::StartKey,
            session: None,
            until: None,
        }
    }

    pub fn of_vouched(vouched: Vouched) -> Identity {
        Identity {
            id: vouched.actor,
            role: vouched.role,
            namespaces: vouched.namespaces,
            queues: Arc::default(),
            rate: None,
            name: vouched.name,
            by: By::Provider,
            session: None,
            until: vouched.until,
        }
    }
}
