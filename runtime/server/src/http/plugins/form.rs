//! Manifests and grants as text: TOML, or the same as JSON.

use serde::de::DeserializeOwned;

use crate::http::transport::error::{Error, Result};
use crate::http::transport::extract;
use crate::limits;

/// Reads either form. A text that starts with a brace is JSON, because no TOML document does.
pub fn read<T: DeserializeOwned>(bytes: &[u8], what: &str) -> Result<T> {
    if bytes.len() > limits::MANIFEST {
        return Err(Error::too_large(format!(
            "{what} has {} bytes, and the limit is {}",
            bytes.len(),
            limits::MANIFEST
        )));
    }
    if bytes.trim_ascii_start().first() == Some(&b'{') {
        return extract::parse(bytes);
    }
    let Ok(text) = std::str::from_utf8(bytes) else {
        return Err(Error::not_json(format!("{what} is neither TOML nor JSON: it is not text")));
    };
    // The parser's message names the field, shows its line and lists the known fields.
    toml::from_str(text)
        .map_err(|error| Error::invalid(format!("{what} is not valid: {}", error.to_string().trim_end())))
}
