//! Names that people give: queues, plugins, schedules, secrets. Checked once, at the door, and carried as proof.
//! They lie in a `namespace`; a `queue_pattern` names several queues.

pub(crate) mod namespace;
pub mod queue_pattern;

use core::fmt;
use core::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::name::namespace::DEFAULT_NAMESPACE;
use crate::{Namespace, Refusal, bounds};

/// A name of 1 to 128 characters out of letters, digits and `. _ - : /`, such as `emails.send`, in a namespace.
///
/// Everything that people see is the name alone: as text, in JSON and in messages. The namespace is part of its
/// identity, and of its stored form, in which it stands before the name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    /// The namespace's prefix, if it has one, then the name.
    qualified: Arc<str>,
    /// Where the name itself begins.
    start: u8,
}

/// The name of a queue.
pub type QueueName = Name;

/// Stands between a namespace and a name; no name contains it.
const SEPARATOR: char = '|';

impl Name {
    /// A name in the namespace `default`.
    pub fn parse(field: &'static str, text: &str) -> Result<Name, Refusal> {
        let fits = (1..=bounds::NAME_BYTES).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-:/".contains(&byte));
        if fits {
            return Ok(Name { qualified: text.into(), start: 0 });
        }
        Err(Refusal::invalid(
            field,
            format!("a name has 1 to {} of the characters A-Z a-z 0-9 . _ - : /", bounds::NAME_BYTES),
        ))
    }

    /// The same name in another namespace.
    pub fn within(&self, namespace: &Namespace) -> Name {
        match namespace.prefix() {
            prefix if prefix == self.prefix() => self.clone(),
            Some(prefix) => {
                let qualified = format!("{prefix}{SEPARATOR}{}", self.as_str());
                Name { qualified: qualified.into(), start: prefix.len() as u8 + 1 }
            }
            None => Name { qualified: self.as_str().into(), start: 0 },
        }
    }

    /// The name alone, as people know it. Two namespaces may have the same one: it is never a key.
    pub fn as_str(&self) -> &str {
        &self.qualified[usize::from(self.start)..]
    }

    /// The name with its namespace: a key.
    pub fn qualified(&self) -> &str {
        &self.qualified
    }

    pub fn namespace(&self) -> Namespace {
        self.prefix().map_or_else(Namespace::default, Namespace::of_prefix)
    }

    /// The prefix of its namespace; none for `default`.
    pub fn prefix(&self) -> Option<&str> {
        self.qualified.get(..usize::from(self.start).checked_sub(1)?)
    }

    /// The name of its namespace.
    pub fn namespace_name(&self) -> &str {
        self.prefix().unwrap_or(DEFAULT_NAMESPACE)
    }

    pub fn is_in(&self, namespace: &Namespace) -> bool {
        self.prefix() == namespace.prefix()
    }

    /// A name as it was stored: with its namespace, and checked when it was made.
    pub fn stored(text: &str) -> Name {
        let start = text.find(SEPARATOR).map_or(0, |at| at + SEPARATOR.len_utf8());
        Name { qualified: text.into(), start: u8::try_from(start).unwrap_or_default() }
    }
}

impl FromStr for Name {
    type Err = Refusal;
    fn from_str(text: &str) -> Result<Name, Refusal> {
        Name::parse("name", text)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.qualified())
    }
}

impl core::ops::Deref for Name {
    type Target = str;
    fn deref(&self) -> &str {
        self.as_str()
    }
}

/// For people the name alone; for the disk with its namespace.
impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let for_people = serializer.is_human_readable();
        serializer.serialize_str(if for_people { self.as_str() } else { self.qualified() })
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Name, D::Error> {
        let by_people = deserializer.is_human_readable();
        let text = String::deserialize(deserializer)?;
        if by_people { text.parse().map_err(de::Error::custom) } else { Ok(Name::stored(&text)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().expect("a name")
    }

    #[test]
    fn a_name_cannot_say_which_namespace_it_is_in() {
        assert!("acme|mail".parse::<Name>().is_err());
        assert!(serde_json::from_str::<Name>("\"acme|mail\"").is_err());
        assert!("".parse::<Name>().is_err() && "a b".parse::<Name>().is_err());
        assert!("n".repeat(bounds::NAME_BYTES).parse::<Name>().is_ok());
        assert!("n".repeat(bounds::NAME_BYTES + 1).parse::<Name>().is_err());
    }

    #[test]
    fn the_same_name_in_two_namespaces_is_two_keys_and_one_text() {
        let (acme, globex): (Namespace, Namespace) = ("acme".parse().expect("one"), "globex".parse().expect("one"));
        let (plain, one, other) = (name("mail"), name("mail").within(&acme), name("mail").within(&globex));
        assert!(plain != one && one != other);
        assert_eq!([plain.qualified(), one.qualified(), other.qualified()], ["mail", "acme|mail", "globex|mail"]);
        for each in [&plain, &one, &other] {
            assert_eq!((each.as_str(), &**each, each.to_string().as_str()), ("mail", "mail", "mail"));
            assert_eq!(serde_json::to_string(each).expect("JSON"), "\"mail\"");
        }
        assert_eq!((one.namespace(), plain.namespace()), (acme.clone(), Namespace::default()));
        assert_eq!((one.namespace_name(), plain.namespace_name()), ("acme", "default"));
        assert!(one.is_in(&acme) && !one.is_in(&globex) && !plain.is_in(&acme));
        assert_eq!(one.within(&globex), other);
        assert_eq!(one.within(&Namespace::default()), plain);
    }

    #[test]
    fn the_stored_form_has_the_namespace_and_that_of_default_is_the_name() {
        let acme = "acme".parse::<Namespace>().expect("a namespace");
        for each in [name("mail"), name("mail").within(&acme)] {
            let bytes = postcard::to_allocvec(&each).expect("bytes");
            assert_eq!(bytes, postcard::to_allocvec(each.qualified()).expect("bytes"));
            assert_eq!(postcard::from_bytes::<Name>(&bytes).expect("a name"), each);
        }
    }
}
