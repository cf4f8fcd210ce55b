//! Standard Webhooks (standardwebhooks.com), in both directions: the names of the headers, secrets, and what is signed,
//! which is the id, the time and the body.

use base64::Engine;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::general_purpose::{GeneralPurpose, STANDARD};
use base64::engine::{DecodePaddingMode, GeneralPurposeConfig};
use windlass_core::Time;

use crate::limits;
use crate::webhooks::signature::{Key, Signature};

pub const ID: &str = "webhook-id";
pub const TIMESTAMP: &str = "webhook-timestamp";
pub const SIGNATURE: &str = "webhook-signature";

/// What a secret begins with; the rest is the key in Base64.
const PREFIX: &str = "whsec_";
/// The version of the signature before its Base64.
const VERSION: &str = "v1,";

/// Some services leave out the padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &ALPHABET,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A new secret.
pub fn generate() -> Result<String, getrandom::Error> {
    let mut key = [0; limits::SIGNING_KEY];
    getrandom::fill(&mut key)?;
    Ok(format!("{PREFIX}{}", STANDARD.encode(key)))
}

/// The key of a secret that somebody has chosen for a webhook of ours.
pub fn key_of(secret: &str) -> Result<Key, String> {
    let (least, most) = (limits::SIGNING_KEY_LEAST, limits::SIGNING_KEY_MOST);
    let bytes = secret.strip_prefix(PREFIX).and_then(|text| LENIENT.decode(text).ok());
    bytes.filter(|bytes| (least..=most).contains(&bytes.len())).map(Key::new).ok_or_else(|| {
        format!(
            "should be `{PREFIX}` and {least} to {most} random bytes in Base64; leave it out, and the server makes one"
        )
    })
}

/// The key of a secret that another service has made: some leave out the prefix, and some put the version before it.
pub fn key_of_sender(secret: &str) -> Result<Key, String> {
    let (least, most) = (limits::SENDER_SECRET_LEAST, limits::SENDER_SECRET);
    let text = secret.strip_prefix(VERSION).unwrap_or(secret);
    let bytes = LENIENT.decode(text.strip_prefix(PREFIX).unwrap_or(text)).ok();
    bytes.filter(|bytes| (least..=most).contains(&bytes.len())).map(Key::new).ok_or_else(|| {
        format!("should be the secret as the sender shows it: `{PREFIX}` and Base64 of at least {least} bytes")
    })
}

/// The key of a secret that is stored. One from before secrets had this form is used as it is.
pub fn key_of_stored(secret: &str) -> Key {
    key_of(secret).unwrap_or_else(|_| Key::new(secret.as_bytes().to_vec()))
}

/// The value of the signature's header: one signature for each key.
pub fn sign<'a>(keys: impl Iterator<Item = &'a Key>, id: &str, at: Time, body: &[u8]) -> String {
    let before = before_body(id, &seconds(at));
    let signed = keys.map(|key| format!("{VERSION}{}", STANDARD.encode(key.sign(&[&before, body]))));
    signed.collect::<Vec<_>>().join(" ")
}

/// A time as its header has it.
pub fn seconds(at: Time) -> String {
    (at.millis() / 1_000).to_string()
}

/// What is signed before the body.
pub fn before_body(id: &str, timestamp: &str) -> Vec<u8> {
    format!("{id}.{timestamp}.").into_bytes()
}

/// The signatures in a header that this version knows; others are left out.
pub fn signatures(header: &str) -> Vec<Signature> {
    let known = header.split_ascii_whitespace().filter_map(|one| one.strip_prefix(VERSION));
    known.filter_map(|text| LENIENT.decode(text).ok()?.try_into().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the specification and of its reference libraries.
    const EXAMPLES: [(&str, &str, u64, &str, &str); 2] = [
        (
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            r#"{"test": 2432232314}"#,
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        ),
        (
            "whsec_plJ3nmyCDGBKInavdOK15jsl",
            "msg_loFOjxBNrRLzqYUf",
            1_731_705_121,
            r#"{"event_type":"ping","data":{"success":true}}"#,
            "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0=",
        ),
    ];

    #[test]
    fn a_signature_is_that_of_the_published_examples() {
        for (secret, id, seconds, body, signature) in EXAMPLES {
            let key = key_of_sender(secret).expect("a published secret");
            let at = Time(seconds * 1_000 + 999);
            assert_eq!(sign([&key].into_iter(), id, at, body.as_bytes()), signature);
            let before = before_body(id, &seconds.to_string());
            assert!(key.has_signed(&[&before, body.as_bytes()], &signatures(signature)));
        }
    }

    #[test]
    fn two_keys_sign_beside_each_other_and_either_is_enough_to_verify() {
        let (new, old) = (Key::new(vec![1; 32]), Key::new(vec![2; 32]));
        let header = sign([&new, &old].into_iter(), "m", Time(5_000), b"body");
        let before = before_body("m", "5");
        for key in [&new, &old] {
            assert!(key.has_signed(&[&before, b"body"], &signatures(&header)), "{header}");
        }
        assert_eq!(header.split(' ').count(), 2);
    }

    #[test]
    fn signatures_of_other_versions_and_what_is_none_are_left_out() {
        let right = STANDARD.encode([7; 32]);
        let header = format!("v1a,{right} v1,short v1,{right} v2,{right} nonsense");
        assert_eq!(signatures(&header), [[7; 32]]);
        assert!(signatures("").is_empty());
        assert_eq!(signatures(&format!("v1,{}", right.trim_end_matches('='))), [[7; 32]], "without its padding");
    }

    #[test]
    fn a_generated_secret_is_one_that_is_accepted_and_never_the_same() {
        let (first, second) = (generate().expect("randomness"), generate().expect("randomness"));
        assert!(key_of(&first).is_ok() && key_of_sender(&first).is_ok());
        assert_ne!(first, second);
    }

    #[test]
    fn a_secret_that_is_refused_is_not_repeated_in_the_message() {
        for wrong in ["s3cret", "whsec_", "whsec_c2hvcnQ=", "whsec_not base64 at all!!", ""] {
            let why = key_of(wrong).expect_err(wrong);
            assert!(why.contains("whsec_") && (wrong.len() < 7 || !why.contains(wrong)), "{why}");
        }
        let long = format!("whsec_{}", STANDARD.encode([1; 65]));
        assert!(key_of(&long).is_err() && key_of_sender(&long).is_ok());
        let same = STANDARD.encode([1; 32]);
        let key = key_of(&format!("whsec_{same}")).expect("a good secret");
        assert_eq!(key_of_sender(&same), Ok(key.clone()));
        assert_eq!(key_of_sender(&format!("v1,whsec_{same}")), Ok(key));
    }

    #[test]
    fn a_secret_from_before_is_the_key_as_it_is() {
        assert_eq!(key_of_stored("s3cret"), Key::new(b"s3cret".to_vec()));
    }
}
