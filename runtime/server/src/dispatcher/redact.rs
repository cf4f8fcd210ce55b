//! Removes the secrets that an attempt was given from everything that is stored of its output and its result.
//!
//! It finds a value unchanged, line by line, and as a JSON string. It cannot find one that a guest has split or
//! encoded.

use bytes::Bytes;
use memchr::memmem;
use windlass_executor::{Permissions, Secret};

use crate::limits;

/// The texts to redact. Cheap when there are none.
#[derive(Default)]
pub(crate) struct Redactor {
    /// Longest first, so that no part of a longer one remains.
    texts: Vec<String>,
}

const MARK: &str = "[secret]";
/// Redacting a shorter text would remove half of every line, and no secret is shorter.
const LEAST: usize = limits::SECRET_LEAST;
/// The shortest line that is redacted from a secret with several lines, such as a private key.
const LEAST_LINE: usize = 8;

impl Redactor {
    pub(crate) fn of(permissions: &Permissions) -> Redactor {
        let mut texts = Vec::new();
        for value in permissions.secrets.values().flatten().map(Secret::reveal) {
            let lines = value.lines().map(str::trim).filter(|line| line.len() >= LEAST_LINE && *line != value);
            texts.extend(lines.map(str::to_owned));
            texts.extend([value.to_owned(), value.trim().to_owned(), in_json(value)]);
        }
        texts.retain(|text| text.len() >= LEAST);
        texts.sort_by(|a, b| b.len().cmp(&a.len()).then(a.cmp(b)));
        texts.dedup();
        Redactor { texts }
    }

    /// The text without secrets.
    pub(crate) fn clean(&self, mut text: String) -> String {
        for secret in &self.texts {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), MARK);
            }
        }
        text
    }

    /// For a truncated text: also redacts the beginning of a secret at its end.
    pub(crate) fn clean_cut(&self, text: String) -> String {
        let mut text = self.clean(text);
        for secret in &self.texts {
            let lengths = (LEAST..secret.len()).rev().filter(|length| secret.is_char_boundary(*length));
            let begun = lengths.into_iter().find(|length| text.ends_with(&secret[..*length]));
            if let Some(length) = begun {
                text.truncate(text.len() - length);
                text.push_str(MARK);
                break;
            }
        }
        text
    }

    /// Bytes without secrets.
    pub(super) fn clean_bytes(&self, mut bytes: Bytes) -> Bytes {
        for secret in &self.texts {
            let finder = memmem::Finder::new(secret.as_bytes());
            if finder.find(&bytes).is_none() {
                continue;
            }
            let (mut clean, mut from) = (Vec::with_capacity(bytes.len()), 0);
            for at in finder.find_iter(&bytes) {
                clean.extend_from_slice(&bytes[from..at]);
                clean.extend_from_slice(MARK.as_bytes());
                from = at + secret.len();
            }
            clean.extend_from_slice(&bytes[from..]);
            bytes = clean.into();
        }
        bytes
    }

    /// Whether the bytes contain a secret.
    pub(super) fn contains_secret(&self, bytes: &[u8]) -> bool {
        self.texts.iter().any(|secret| memmem::find(bytes, secret.as_bytes()).is_some())
    }

    pub(super) fn clean_some(&self, text: Option<String>) -> Option<String> {
        text.map(|text| self.clean(text))
    }
}

/// As it appears inside a JSON string.
fn in_json(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redactor(values: &[&str]) -> Redactor {
        let named = values.iter().enumerate().map(|(n, value)| (n.to_string(), Some(Secret::new(*value))));
        Redactor::of(&Permissions { secrets: named.collect(), ..Permissions::default() })
    }

    #[test]
    fn secrets_are_redacted_wherever_they_appear() {
        let redactor = redactor(&["hunter22", "hunter22-long", "a\"quoted\"one"]);
        let check = |text: &str, expected: &str| assert_eq!(redactor.clean(text.to_owned()), expected);
        check("nothing here", "nothing here");
        check("hunter22hunter22", "[secret][secret]");
        check("it was hunter22-long.", "it was [secret].");
        check("{\"key\":\"a\\\"quoted\\\"one\"}", "{\"key\":\"[secret]\"}");
    }

    #[test]
    fn a_key_of_several_lines_is_found_line_by_line() {
        let redactor = redactor(&["-----BEGIN KEY-----\nMIIEvQIBADAN\nabc\n-----END KEY-----\n"]);
        assert_eq!(redactor.clean("line MIIEvQIBADAN".to_owned()), "line [secret]");
        assert_eq!(redactor.clean("abc".to_owned()), "abc", "too short to be distinguished from other text");
    }

    #[test]
    fn the_beginning_of_a_secret_is_redacted_where_a_text_was_cut() {
        let redactor = redactor(&["correct horse battery"]);
        assert_eq!(redactor.clean_cut("it is correct hor".to_owned()), "it is [secret]");
        assert_eq!(redactor.clean_cut("it is correct horse battery".to_owned()), "it is [secret]");
        assert_eq!(redactor.clean_cut("it is cor".to_owned()), "it is cor");
    }

    #[test]
    fn bytes_are_redacted_and_searched_like_text() {
        let redactor = redactor(&["hunter22"]);
        let check = |bytes: &'static [u8], expected: &'static [u8]| {
            assert_eq!(redactor.clean_bytes(Bytes::from_static(bytes)), expected);
            assert_eq!(redactor.contains_secret(bytes), bytes != expected);
        };
        check(b"\xff\x00", b"\xff\x00");
        check(b"\xffhunter22\x00hunter22", b"\xff[secret]\x00[secret]");
        check(b"hunter2", b"hunter2");
    }

    #[test]
    fn a_secret_too_short_to_redact_leaves_the_text_unchanged() {
        assert_eq!(redactor(&["abc"]).clean("abcabc".to_owned()), "abcabc");
    }
}
