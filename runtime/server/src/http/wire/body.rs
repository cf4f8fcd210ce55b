//! Payload, checkpoint and result in answers: JSON as JSON, byte for byte, and anything else as `{"$base64": …}`, JSON
//! that is nested too deep for most readers among it. Of a checkpoint that holds a secret, only its length:
//! `{"$encrypted": 512}`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::checkpoints::plaintext_len;
use crate::json::is_deeper;
use crate::limits;

/// Bytes of a body, as an answer shows them.
#[derive(Clone, Debug)]
pub struct Shown(pub Bytes);

impl Serialize for Shown {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !is_deeper(&self.0, limits::JSON_DEPTH)
            && let Ok(json) = serde_json::from_slice::<&RawValue>(&self.0)
        {
            return json.serialize(serializer);
        }
        #[derive(Serialize)]
        enum Other {
            #[serde(rename = "$base64")]
            Base64(String),
            #[serde(rename = "$encrypted")]
            Encrypted(usize),
        }
        match plaintext_len(&self.0) {
            Some(bytes) => Other::Encrypted(bytes).serialize(serializer),
            None => Other::Base64(STANDARD.encode(&self.0)).serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &'static [u8], expected: &str) {
        assert_eq!(serde_json::to_string(&Shown(Bytes::from_static(bytes))).expect("it is shown"), expected);
    }

    #[test]
    fn json_is_shown_as_it_came_and_the_rest_in_base64() {
        check(b"{\"b\":1.50,\"a\":2}", "{\"b\":1.50,\"a\":2}");
        check(b"null", "null");
        check(b"plain text", "{\"$base64\":\"cGxhaW4gdGV4dA==\"}");
        check(b"\xff\x00", "{\"$base64\":\"/wA=\"}");
        check(b"", "{\"$base64\":\"\"}");
    }

    #[test]
    fn json_that_would_break_its_readers_is_shown_in_base64() {
        let nested = |depth: usize| Bytes::from(format!("{}{}", "[".repeat(depth), "]".repeat(depth)));
        let shown = |depth: usize| serde_json::to_string(&Shown(nested(depth))).expect("it is shown");
        assert_eq!(shown(limits::JSON_DEPTH).as_bytes(), nested(limits::JSON_DEPTH));
        for depth in [limits::JSON_DEPTH + 1, 200_000] {
            assert!(shown(depth).starts_with("{\"$base64\":"));
        }
    }
}
