//! API keys: what is stored of one. The key itself is shown once, when it is made, and only its hash is stored.

use serde::{Deserialize, Serialize};

use crate::access::Role;
use crate::limits::Rate;
use crate::queue_pattern::QueuePattern;
use crate::{AllowedQueues, Namespace, Refusal, Time, bounds};

/// A key as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKey {
    /// Part of the key, in clear: what logs, lists and the audit log call it by.
    pub id: String,
    pub name: String,
    pub role: Role,
    pub namespaces: KeyNamespaces,
    /// The queues that it may use, by patterns; empty: all of its namespace.
    pub queues: Vec<QueuePattern>,
    /// How many requests it may make.
    pub rate: Option<Rate>,
    pub expires_at: Option<Time>,
    pub sha256: [u8; 32],
    pub created_at: Time,
    pub created_by: Option<String>,
    /// Written now and then, so that using a key costs no write.
    pub last_used_at: Option<Time>,
}

/// Where a key is valid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyNamespaces {
    One(Namespace),
    /// `*`: in each; a request says in which.
    All,
}

/// What is asked of a new key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewKey {
    pub name: String,
    pub role: Role,
    pub namespaces: KeyNamespaces,
    pub queues: Vec<QueuePattern>,
    pub rate: Option<Rate>,
    pub expires_at: Option<Time>,
}

impl KeyNamespaces {
    /// `*`, or the name of a namespace.
    pub fn parse(text: &str) -> Result<KeyNamespaces, Refusal> {
        if text == "*" { Ok(KeyNamespaces::All) } else { Namespace::parse("namespace", text).map(KeyNamespaces::One) }
    }

    pub fn as_str(&self) -> &str {
        match self {
            KeyNamespaces::One(namespace) => namespace.as_str(),
            KeyNamespaces::All => "*",
        }
    }

    /// The namespace of a request that names this one, or none.
    pub fn choose(&self, named: Option<Namespace>) -> Option<Namespace> {
        match (self, named) {
            (KeyNamespaces::All, named) => Some(named.unwrap_or_default()),
            (KeyNamespaces::One(own), None) => Some(own.clone()),
            (KeyNamespaces::One(own), Some(named)) => (*own == named).then_some(named),
        }
    }

    pub fn include(&self, namespace: &Namespace) -> bool {
        match self {
            KeyNamespaces::One(own) => own == namespace,
            KeyNamespaces::All => true,
        }
    }
}

impl NewKey {
    pub fn check(&self, now: Time) -> Result<(), Refusal> {
        if !(1..=bounds::KEY_NAME_BYTES).contains(&self.name.trim().len()) || self.name.chars().any(char::is_control) {
            let why = format!("1 to {} bytes that say who uses the key", bounds::KEY_NAME_BYTES);
            return Err(Refusal::invalid("name", why));
        }
        if self.queues.len() > bounds::KEY_QUEUES {
            return Err(Refusal::invalid("queues", format!("at most {} patterns", bounds::KEY_QUEUES)));
        }
        if let Some(rate) = &self.rate {
            rate.check("rate")?;
        }
        if self.expires_at.is_some_and(|at| at <= now) {
            return Err(Refusal::invalid("expires_at", "is in the past; name a time to come, or leave it out"));
        }
        Ok(())
    }

    pub fn make(self, id: String, sha256: [u8; 32], created_by: Option<String>, now: Time) -> ApiKey {
        let NewKey { name, role, namespaces, queues, rate, expires_at } = self;
        let last_used_at = None;
        ApiKey {
            id,
            name,
            role,
            namespaces,
            queues,
            rate,
            expires_at,
            sha256,
            created_at: now,
            created_by,
            last_used_at,
        }
    }
}

impl ApiKey {
    pub fn is_expired(&self, now: Time) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }

    /// What a request with this key may see, if it may be made in this namespace.
    pub fn allowed(&self, named: Option<Namespace>) -> Option<AllowedQueues> {
        let namespace = self.namespaces.choose(named)?;
        Some(AllowedQueues { namespace, patterns: self.queues.clone().into() })
    }

    /// Whether whoever has `self` may make and revoke keys that reach this far: nobody hands out more than they have.
    pub fn covers(&self, namespaces: &KeyNamespaces) -> bool {
        self.namespaces == KeyNamespaces::All || self.namespaces == *namespaces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted() -> NewKey {
        NewKey {
            name: "ci".into(),
            role: Role::Deployer,
            namespaces: KeyNamespaces::All,
            queues: Vec::new(),
            rate: None,
            expires_at: None,
        }
    }

    fn field(new: &NewKey) -> Option<&'static str> {
        match new.check(Time(10)) {
            Err(Refusal::Invalid { field, .. }) => Some(field),
            Err(other) => panic!("{other:?}"),
            Ok(()) => None,
        }
    }

    #[test]
    fn a_key_is_checked_field_by_field() {
        let named = |name: String| field(&NewKey { name, ..wanted() });
        assert_eq!((named("c".into()), named("c".repeat(bounds::KEY_NAME_BYTES))), (None, None));
        for wrong in ["".into(), "  ".into(), "a\u{1b}b".into(), "c".repeat(bounds::KEY_NAME_BYTES + 1)] {
            assert_eq!(named(wrong), Some("name"));
        }
        let until = |at| field(&NewKey { expires_at: Some(Time(at)), ..wanted() });
        assert_eq!((until(11), until(10)), (None, Some("expires_at")));
        let any: QueuePattern = "*".parse().expect("a pattern");
        let queues = |count| field(&NewKey { queues: vec![any.clone(); count], ..wanted() });
        assert_eq!((queues(bounds::KEY_QUEUES), queues(bounds::KEY_QUEUES + 1)), (None, Some("queues")));
    }

    #[test]
    fn a_key_expires_at_its_time() {
        let key = NewKey { expires_at: Some(Time(11)), ..wanted() }.make("k".into(), [0; 32], None, Time(10));
        assert!(!key.is_expired(Time(10)) && key.is_expired(Time(11)));
        assert!(!wanted().make("k".into(), [0; 32], None, Time(10)).is_expired(Time(u64::MAX)));
    }

    #[test]
    fn a_key_of_one_namespace_is_of_no_use_in_another() {
        let (acme, globex): (Namespace, Namespace) = ("acme".parse().expect("one"), "globex".parse().expect("one"));
        let one = KeyNamespaces::parse("acme").expect("a namespace");
        assert_eq!(one.choose(None), Some(acme.clone()));
        assert_eq!(one.choose(Some(acme.clone())), Some(acme.clone()));
        assert_eq!(one.choose(Some(globex.clone())), None);
        let all = KeyNamespaces::parse("*").expect("all");
        assert_eq!(all.choose(None), Some(Namespace::default()));
        assert_eq!(all.choose(Some(globex.clone())), Some(globex.clone()));
        assert!(one.include(&acme) && !one.include(&globex) && all.include(&globex));
        let key = |namespaces| NewKey { namespaces, ..wanted() }.make("k".into(), [0; 32], None, Time(1));
        assert!(key(all.clone()).covers(&one) && key(one.clone()).covers(&one) && !key(one).covers(&all));
    }
}
