//! HMAC-SHA256, with which all webhooks are signed, and the comparison that takes equally long for a wrong signature
//! and a right one.

use std::fmt;

use hmac::{Hmac, Mac};
use sha2::Sha256;
use subtle::{Choice, ConstantTimeEq};

pub type Signature = [u8; 32];

/// What signatures are made with. Never shown, not even for debugging.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(Vec<u8>);

impl Key {
    pub fn new(bytes: Vec<u8>) -> Key {
        Key(bytes)
    }

    /// The signature of these parts, one after another.
    pub fn sign(&self, parts: &[&[u8]]) -> Signature {
        let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(&self.0).expect("HMAC takes a key of any length");
        parts.iter().for_each(|part| mac.update(part));
        mac.finalize().into_bytes().into()
    }

    /// Whether one of the signatures is the right one. Looks at all of them.
    pub fn has_signed(&self, parts: &[&[u8]], signatures: &[Signature]) -> bool {
        let right = self.sign(parts);
        signatures.iter().fold(Choice::from(0), |found, sent| found | sent.ct_eq(&right)).into()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_the_one_that_others_compute() {
        // The second test case of RFC 4231, in one part and in several.
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        let key = Key::new(b"Jefe".to_vec());
        assert_eq!(hex(&key.sign(&[b"what do ya want for nothing?"])), expected);
        assert_eq!(hex(&key.sign(&[b"what do ya ", b"", b"want for nothing?"])), expected);
    }

    #[test]
    fn one_right_signature_among_several_is_enough() {
        let (key, other) = (Key::new(vec![1; 32]), Key::new(vec![2; 32]));
        let body: &[&[u8]] = &[b"body"];
        assert!(key.has_signed(body, &[other.sign(body), key.sign(body)]));
        assert!(!key.has_signed(body, &[other.sign(body)]) && !key.has_signed(body, &[]));
        let mut almost = key.sign(body);
        almost[31] ^= 1;
        assert!(!key.has_signed(body, &[almost]));
    }

    #[test]
    fn a_key_is_not_shown_when_it_is_debugged() {
        assert_eq!(format!("{:?}", Key::new(b"s3cret".to_vec())), "Key(…)");
    }
}
