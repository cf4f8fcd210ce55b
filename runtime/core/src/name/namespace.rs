//! Namespaces: tenants that share one server and see nothing of each other.
//!
//! A namespace is a hidden prefix of every [`Name`]: two namespaces may have a queue, a plugin or a schedule of the
//! same name, and they are different keys everywhere in the store. What belongs to `default` has no prefix.

use core::fmt;
use core::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::queue_pattern::QueuePattern;
use crate::{Name, QueueName, Refusal, bounds};

/// The namespace of everything that names none.
pub const DEFAULT_NAMESPACE: &str = "default";

/// The name of a namespace: 1 to 32 of the characters a-z 0-9 - _.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace(Option<Arc<str>>);

impl Namespace {
    pub fn parse(field: &'static str, text: &str) -> Result<Namespace, Refusal> {
        let fits = (1..=bounds::NAMESPACE_BYTES).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte));
        match (fits, text) {
            (true, DEFAULT_NAMESPACE) => Ok(Namespace(None)),
            (true, _) => Ok(Namespace(Some(text.into()))),
            (false, _) => {
                let most = bounds::NAMESPACE_BYTES;
                Err(Refusal::invalid(field, format!("a namespace has 1 to {most} of the characters a-z 0-9 - _")))
            }
        }
    }

    pub fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or(DEFAULT_NAMESPACE)
    }

    pub fn is_default(&self) -> bool {
        self.0.is_none()
    }

    /// The prefix of its keys; none for `default`.
    pub fn prefix(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// The namespace of a stored prefix, which was checked when it was made.
    pub(crate) fn of_prefix(prefix: &str) -> Namespace {
        Namespace(Some(prefix.into()))
    }

    /// A text that people choose (a scope, say), as a key that no other namespace has.
    pub fn qualify(&self, text: &str) -> String {
        match &self.0 {
            Some(prefix) => format!("{prefix}\0{text}"),
            None => text.to_owned(),
        }
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Namespace {
    type Err = Refusal;
    fn from_str(text: &str) -> Result<Namespace, Refusal> {
        Namespace::parse("namespace", text)
    }
}

impl Serialize for Namespace {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Namespace {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Namespace, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// The namespace at the end of a row; of one that was stored without it, `default`.
pub(crate) fn or_default<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Namespace, D::Error> {
    Ok(Namespace::deserialize(deserializer).unwrap_or_default())
}

/// The queues that somebody may see and change: those of one namespace, or some of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedQueues {
    pub namespace: Namespace,
    /// Any of these; empty: all of the namespace.
    pub patterns: Arc<[QueuePattern]>,
}

impl AllowedQueues {
    /// All queues of a namespace.
    pub fn of(namespace: Namespace) -> AllowedQueues {
        AllowedQueues { namespace, patterns: Arc::default() }
    }

    pub fn allow(&self, queue: &QueueName) -> bool {
        self.is_in_namespace(queue) && self.matches(queue)
    }

    /// Whether a queue, a plugin, a schedule or another thing of this name belongs to the namespace.
    pub fn is_in_namespace(&self, name: &Name) -> bool {
        name.prefix() == self.namespace.prefix()
    }

    /// Whether the patterns leave a queue out, whatever its namespace.
    pub fn matches(&self, queue: &QueueName) -> bool {
        self.patterns.is_empty() || self.patterns.iter().any(|pattern| pattern.covers(queue))
    }

    /// Refuses a queue that is not allowed. One of another namespace cannot be named, so there is no need to say that
    /// it exists.
    pub fn check(&self, queue: &QueueName) -> Result<(), Refusal> {
        if self.allow(queue) {
            return Ok(());
        }
        let patterns = self.patterns.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        Err(Refusal::NotAllowed { why: format!("this key may use the queues {patterns}, and not `{queue}`") })
    }

    /// Whether nothing of the namespace is left out.
    pub fn are_all(&self) -> bool {
        self.patterns.is_empty() || self.patterns.iter().any(QueuePattern::is_any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(namespace: &str, patterns: &[&str]) -> AllowedQueues {
        let patterns = patterns.iter().map(|text| text.parse().expect("a pattern")).collect();
        AllowedQueues { namespace: namespace.parse().expect("a namespace"), patterns }
    }

    #[test]
    fn a_namespace_has_a_short_plain_name() {
        let longest = "n".repeat(bounds::NAMESPACE_BYTES);
        for good in ["a", "acme", "team-7", "a_b", &longest] {
            assert_eq!(good.parse::<Namespace>().expect(good).as_str(), good);
        }
        let too_long = "n".repeat(bounds::NAMESPACE_BYTES + 1);
        for wrong in ["", "Acme", "a|b", "a b", "a.b", "é", &too_long] {
            assert!(wrong.parse::<Namespace>().is_err(), "{wrong}");
        }
        assert!("default".parse::<Namespace>().expect("the default").is_default());
        assert!(!"acme".parse::<Namespace>().expect("a namespace").is_default());
    }

    #[test]
    fn a_qualified_text_of_one_namespace_is_none_of_another() {
        let (acme, default) = ("acme".parse::<Namespace>().expect("a namespace"), Namespace::default());
        assert_eq!(default.qualify("user:1"), "user:1");
        assert_ne!(acme.qualify("user:1"), default.qualify("acme\u{1}user:1"));
        assert_ne!(acme.qualify("user:1"), default.qualify("user:1"));
    }

    #[test]
    fn queues_of_other_namespaces_are_never_allowed() {
        let queue: QueueName = "mail.send".parse().expect("a name");
        let acme: Namespace = "acme".parse().expect("a namespace");
        for patterns in [&[][..], &["*"], &["mail.*"], &["mail.send"]] {
            assert!(allowed("default", patterns).allow(&queue), "{patterns:?}");
            assert!(allowed("acme", patterns).allow(&queue.within(&acme)), "{patterns:?}");
            assert!(!allowed("acme", patterns).allow(&queue), "{patterns:?}");
            assert!(!allowed("default", patterns).allow(&queue.within(&acme)), "{patterns:?}");
        }
    }

    #[test]
    fn patterns_leave_out_what_they_do_not_cover() {
        let queue: QueueName = "mail.send".parse().expect("a name");
        assert!(!allowed("default", &["web.*", "mail"]).allow(&queue));
        assert!(allowed("default", &["web.*", "mail.*"]).allow(&queue));
        assert!(allowed("default", &[]).are_all() && allowed("default", &["a", "*"]).are_all());
        assert!(!allowed("default", &["mail.*"]).are_all());
    }
}
