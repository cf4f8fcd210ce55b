//! The running hash and counts. All of it can be saved in the middle of the stream.

use serde::{Deserialize, Serialize};
use sha2::digest::common::hazmat::{SerializableState, SerializedState};
use sha2::{Digest, Sha256};
use windlass::{Error, Result};

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Tally {
    pub(crate) bytes: u64,
    pub(crate) lines: u64,
    pub(crate) words: u64,
    /// Whether the last byte belonged to a word, which then continues in the next part.
    in_word: bool,
    /// The state of the hash, in hex. Empty before the first byte.
    hash: String,
}

impl Tally {
    pub(crate) fn add(&mut self, part: &[u8]) -> Result<()> {
        let mut hash = self.hash()?;
        hash.update(part);
        self.hash = hex(&hash.serialize());
        self.bytes += part.len() as u64;
        for byte in part {
            self.lines += u64::from(*byte == b'\n');
            let in_word = !byte.is_ascii_whitespace();
            self.words += u64::from(in_word && !self.in_word);
            self.in_word = in_word;
        }
        Ok(())
    }

    pub(crate) fn sha256(&self) -> Result<String> {
        Ok(hex(&self.hash()?.finalize()))
    }

    fn hash(&self) -> Result<Sha256> {
        if self.hash.is_empty() {
            return Ok(Sha256::new());
        }
        let damaged = || Error::fatal("the saved state of the hash is damaged");
        let bytes = unhex(&self.hash).ok_or_else(damaged)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_does_not_depend_on_where_the_text_is_cut() {
        let text = b"one two\nthree  four\n";
        let mut whole = Tally::default();
        whole.add(text).expect("a fresh hash");
        for cut in 0..text.len() {
            let mut parts = Tally::default();
            parts.add(&text[..cut]).expect("a fresh hash");
            parts.add(&text[cut..]).expect("its own state");
            assert_eq!(parts.sha256(), whole.sha256());
            assert_eq!((parts.bytes, parts.lines, parts.words), (20, 2, 4));
        }
    }

    #[test]
    fn the_digest_is_the_one_everybody_knows() {
        let mut tally = Tally::default();
        tally.add(b"abc").expect("a fresh hash");
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(tally.sha256().as_deref(), Ok(expected));
    }

    #[test]
    fn a_damaged_state_is_an_error() {
        for hash in ["zz", "abc", "00"] {
            let tally = Tally { hash: hash.to_owned(), ..Tally::default() };
            assert!(tally.sha256().expect_err("it is damaged").is_fatal());
        }
    }
}
