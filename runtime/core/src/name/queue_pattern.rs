//! Queues by a pattern, for the capability to spawn jobs into them.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::Name;

/// `emails.send` is that queue, `emails.*` every queue whose name begins with `emails.`, and `*` every queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueuePattern {
    text: String,
    is_prefix: bool,
}

impl QueuePattern {
    /// Whether it covers every queue.
    pub(crate) fn is_any(&self) -> bool {
        self.is_prefix && self.text.is_empty()
    }

    pub fn covers(&self, queue: &str) -> bool {
        if self.is_prefix { queue.starts_with(&self.text) } else { queue == self.text }
    }

    /// Whether all that `other` covers is covered by this one, too.
    pub fn includes(&self, other: &QueuePattern) -> bool {
        match (self.is_prefix, other.is_prefix) {
            (true, _) => other.text.starts_with(&self.text),
            (false, false) => self.text == other.text,
            (false, true) => false,
        }
    }
}

impl FromStr for QueuePattern {
    type Err = String;

    fn from_str(text: &str) -> Result<QueuePattern, String> {
        let wrong =
            || format!("{text:?} is not a queue; write `emails.send`, `emails.*` for all that begin so, or `*`");
        let (name, is_prefix) = text.strip_suffix('*').map_or((text, false), |name| (name, true));
        let fits = is_prefix && name.is_empty() || Name::parse("spawn", name).is_ok();
        if fits { Ok(QueuePattern { text: name.to_owned(), is_prefix }) } else { Err(wrong()) }
    }
}

impl fmt::Display for QueuePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.text, if self.is_prefix { "*" } else { "" })
    }
}

impl Serialize for QueuePattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for QueuePattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<QueuePattern, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> QueuePattern {
        text.parse().unwrap_or_else(|why| panic!("{why}"))
    }

    #[test]
    fn a_pattern_covers_and_includes_what_it_says_and_no_more() {
        let table = [
            ("emails.send", "emails.send", true),
            ("emails.send", "emails.send2", false),
            ("emails.*", "emails.send", true),
            ("emails.*", "emails", false),
            ("emails.*", "emailsx", false),
            ("*", "anything", true),
        ];
        for (text, queue, expected) in table {
            assert_eq!(pattern(text).covers(queue), expected, "{text} and {queue}");
            assert_eq!(pattern(text).includes(&pattern(queue)), expected, "{text} and {queue}");
        }
        assert!(pattern("*").includes(&pattern("emails.*")) && pattern("emails.*").includes(&pattern("emails.eu.*")));
        assert!(!pattern("emails.*").includes(&pattern("*")) && !pattern("emails.a").includes(&pattern("emails.*")));
    }

    #[test]
    fn a_pattern_is_shown_as_it_can_be_written_again_and_others_are_refused() {
        for text in ["emails.send", "emails.*", "*"] {
            assert_eq!(pattern(text).to_string(), text);
        }
        for wrong in ["", "a b", "*.send", "a*b", "**"] {
            assert!(wrong.parse::<QueuePattern>().expect_err(wrong).contains("emails.*"), "{wrong}");
        }
    }
}
