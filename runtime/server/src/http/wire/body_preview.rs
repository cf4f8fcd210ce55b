//! The beginning of a body in answers, so that nobody has to load 16 MiB to see what a job is about.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::http::transport::error::{Error, Result};
use crate::limits;

/// How much of a body an answer shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lower")]
pub enum BodiesShown {
    None,
    /// The first characters.
    Preview,
    #[default]
    Full,
}

/// The beginning of a body.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct BodyPreview {
    /// The first characters as they are stored; in base64 if the body is no text; empty if it is encrypted.
    text: String,
    encoding: BodyEncoding,
    size_bytes: u64,
    /// There is more of it.
    truncated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum BodyEncoding {
    Text,
    Base64,
    /// A checkpoint that contains a secret, of which only the length is shown.
    Encrypted,
}

/// The number of characters that was asked for, within its bounds.
pub fn preview_chars(wanted: Option<usize>, unless_said: usize) -> Result<usize> {
    let chars = wanted.unwrap_or(unless_said);
    if !(1..=limits::PREVIEW_MOST).contains(&chars) {
        return Err(Error::field("preview_chars", format!("1 to {} characters, not {chars}", limits::PREVIEW_MOST)));
    }
    Ok(chars)
}

impl BodyPreview {
    /// How many bytes are read for so many characters.
    pub fn head(chars: usize) -> usize {
        4 * chars
    }

    /// Of a body of this size that begins so.
    pub fn of(head: &[u8], size_bytes: u64, chars: usize) -> BodyPreview {
        let whole = head.len() as u64 >= size_bytes;
        let valid = match std::str::from_utf8(head) {
            Ok(text) => Some(text),
            // The head may end within a character.
            Err(error) if error.error_len().is_none() && !whole => {
                std::str::from_utf8(&head[..error.valid_up_to()]).ok()
            }
            Err(_) => None,
        };
        let (text, encoding, shown) = match valid {
            Some(valid) => {
                let end = valid.char_indices().nth(chars).map_or(valid.len(), |(end, _)| end);
                (valid[..end].to_owned(), BodyEncoding::Text, end)
            }
            None => {
                let shown = head.len().min((chars / 4 * 3).max(3));
                (STANDARD.encode(&head[..shown]), BodyEncoding::Base64, shown)
            }
        };
        BodyPreview { text, encoding, size_bytes, truncated: (shown as u64) < size_bytes }
    }

    /// Of a body that is not shown.
    pub fn encrypted(size_bytes: u64) -> BodyPreview {
        BodyPreview { text: String::new(), encoding: BodyEncoding::Encrypted, size_bytes, truncated: size_bytes > 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &[u8], chars: usize, expected: &str, encoding: BodyEncoding, truncated: bool) {
        let head = &body[..body.len().min(BodyPreview::head(chars))];
        let found = BodyPreview::of(head, body.len() as u64, chars);
        let size_bytes = body.len() as u64;
        assert_eq!(
            found,
            BodyPreview { text: expected.to_owned(), encoding, size_bytes, truncated },
            "{chars} of {body:?}"
        );
    }

    #[test]
    fn text_is_cut_between_two_characters_and_other_bytes_are_in_base64() {
        check(b"{\"n\": 1}", 100, "{\"n\": 1}", BodyEncoding::Text, false);
        check(b"{\"n\": 1}", 4, "{\"n\"", BodyEncoding::Text, true);
        check(b"", 4, "", BodyEncoding::Text, false);
        let emoji = "x\u{1F600}\u{1F600}\u{1F600}";
        for (chars, expected) in [(1, "x"), (2, "x\u{1F600}"), (3, "x\u{1F600}\u{1F600}")] {
            check(emoji.as_bytes(), chars, expected, BodyEncoding::Text, true);
        }
        check(emoji.as_bytes(), 4, emoji, BodyEncoding::Text, false);
        check(b"\xff\x00\x01\x02", 4, "/wAB", BodyEncoding::Base64, true);
        check(b"\xff\x00\x01", 8, "/wAB", BodyEncoding::Base64, false);
        check("\u{1F600}".as_bytes().split_last().expect("bytes").1, 8, "8J+Y", BodyEncoding::Base64, false);
    }

    #[test]
    fn the_number_of_characters_is_bounded() {
        assert_eq!(preview_chars(None, 200).ok(), Some(200));
        assert_eq!(preview_chars(Some(limits::PREVIEW_MOST), 200).ok(), Some(limits::PREVIEW_MOST));
        for wrong in [0, limits::PREVIEW_MOST + 1] {
            assert!(preview_chars(Some(wrong), 200).is_err(), "{wrong}");
        }
    }
}
