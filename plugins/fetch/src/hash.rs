//! A running SHA-256 that can be saved in the middle of the stream.

use serde::{Deserialize, Serialize};
use sha2::digest::common::hazmat::{SerializableState, SerializedState};
use sha2::{Digest, Sha256};
use windlass::{Error, Result};

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Hash {
    pub(crate) bytes: u64,
    /// The state of the hash, in hex. Empty before the first byte.
    state: String,
}

impl Hash {
    pub(crate) fn add(&mut self, part: &[u8]) -> Result<()> {
        let mut hash = self.hash()?;
        hash.update(part);
        self.state = hex(&hash.serialize());
        self.bytes += part.len() as u64;
        Ok(())
    }

    pub(crate) fn sha256(&self) -> Result<String> {
        Ok(hex(&self.hash()?.finalize()))
    }

    fn hash(&self) -> Result<Sha256> {
        if self.state.is_empty() {
            return Ok(Sha256::new());
        }
        let damaged = || Error::fatal("the saved state of the hash is damaged");
        let bytes = unhex(&self.state).ok_or_else(damaged)?;
        let state = SerializedState::<Sha256>::try_from(bytes.as_slice()).map_err(|_| damaged())?;
        Sha256::deserialize(&state).map_err(|_| damaged())
    }
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|digit| DIGITS[digit as usize] as char).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> =
        text.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect::<Option<_>>()?;
    let (pairs, []) = digits.as_chunks::<2>() else {
        return None;
    };
    Some(pairs.iter().map(|[high, low]| high << 4 | low).collect())
}
