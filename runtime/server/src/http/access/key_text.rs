//! How API keys and the cookies of sessions look: a prefix (`wl_` of a key), an id of 12 characters, `_`, 43 random
//! characters, and a checksum of 6, which tells a mistyped key from a wrong one without a look at any table.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

/// Keys.
pub const KEY: Form = Form { prefix: "wl_" };
/// The cookies of sessions.
pub const SESSION: Form = Form { prefix: "ws_" };

/// What both have in common.
pub struct Form {
    prefix: &'static str,
}

const ID: usize = 12;
const SECRET: usize = 43;
const CHECKSUM: usize = 6;

/// A new key, and what is stored of it.
pub struct Made {
    pub id: String,
    /// Shown once.
    pub key: String,
    pub sha256: [u8; 32],
}

/// A key as somebody sent it.
pub struct Sent<'a> {
    pub id: &'a str,
    secret: &'a str,
}

impl Form {
    /// A new one; none if the system has no randomness.
    pub fn make(&self) -> Option<Made> {
        let (mut id, mut secret) = ([0; 8], [0; 32]);
        getrandom::fill(&mut id).ok()?;
        getrandom::fill(&mut secret).ok()?;
        // Letters and digits only, so that a double click marks the whole of it.
        let id: String = hex(&id).chars().take(ID).collect();
        let secret = URL_SAFE_NO_PAD.encode(secret);
        let sha256 = hash(&secret);
        let checksum = checksum(&id, &secret);
        Some(Made { key: format!("{}{id}_{secret}{checksum}", self.prefix), id, sha256 })
    }

    /// Reads one; none if it cannot be one.
    pub fn read<'a>(&self, text: &'a str) -> Option<Sent<'a>> {
        let (id, rest) = text.strip_prefix(self.prefix)?.split_at_checked(ID)?;
        let (secret, sum) = rest.strip_prefix('_')?.split_at_checked(SECRET)?;
        let is_whole = sum.len() == CHECKSUM && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        (is_whole && sum == checksum(id, secret)).then_some(Sent { id, secret })
    }
}

impl Sent<'_> {
    pub fn sha256(&self) -> [u8; 32] {
        hash(self.secret)
    }

    /// A hash that only whoever has this and the other secret can compute.
    pub fn sha256_with(&self, other: &str) -> [u8; 32] {
        Sha256::new().chain_update(self.secret.as_bytes()).chain_update(other.as_bytes()).finalize().into()
    }
}

fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

/// Not secret: whoever sees the id and the secret can compute it. FNV-1a, because it is computed for each request.
fn checksum(id: &str, secret: &str) -> String {
    let bytes = id.bytes().chain(secret.bytes());
    let sum = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    hex(&sum.to_be_bytes()[..CHECKSUM / 2])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_reads_back_as_what_was_made() {
        let made = KEY.make().expect("randomness");
        let sent = KEY.read(&made.key).expect("a key");
        assert_eq!((sent.id, sent.sha256()), (made.id.as_str(), made.sha256));
        assert_eq!(made.key.len(), KEY.prefix.len() + ID + 1 + SECRET + CHECKSUM);
        assert_ne!(KEY.make().expect("randomness").key, made.key);
    }

    #[test]
    fn a_mistyped_key_is_noticed() {
        let key = KEY.make().expect("randomness").key;
        let mistyped = |at: usize| {
            let mut text = key.clone().into_bytes();
            text[at] = if text[at] == b'a' { b'b' } else { b'a' };
            String::from_utf8(text).expect("text")
        };
        for at in [0, 3, 10, 15, 16, 40, key.len() - 1] {
            assert!(KEY.read(&mistyped(at)).is_none(), "{at}");
        }
        assert!(SESSION.read(&key).is_none(), "a key is no session");
        for wrong in ["", "wl_", &key[1..], &key[..key.len() - 1], &format!("{key}x"), "wl_é234567890a_"] {
            assert!(KEY.read(wrong).is_none(), "{wrong}");
        }
    }
}
