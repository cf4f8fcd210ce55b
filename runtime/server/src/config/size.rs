//! Sizes in bytes, as people write them.

use std::str::FromStr;

use serde::{Deserialize, Deserializer, de};

/// A number of bytes, written as `1048576`, `512KiB` or `16MiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub usize);

impl FromStr for Size {
    type Err = String;
    fn from_str(text: &str) -> Result<Size, String> {
        let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
        let unit: usize = match text[digits.len()..].trim() {
            "" | "B" => 1,
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            _ => return Err(wrong_size(text)),
        };
        let number: usize = digits.parse().map_err(|_| wrong_size(text))?;
        number.checked_mul(unit).map(Size).ok_or_else(|| wrong_size(text))
    }
}

fn wrong_size(text: &str) -> String {
    format!("`{text}` is not a size; write a number of bytes, or one with KiB, MiB or GiB")
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Size, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Bytes(usize),
            Text(String),
        }
        match Form::deserialize(deserializer)? {
            Form::Bytes(bytes) => Ok(Size(bytes)),
            Form::Text(text) => text.parse().map_err(de::Error::custom),
        }
    }
}
