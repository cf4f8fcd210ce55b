//! Payloads made by the rules: what a producer gave, merged over what the flow adds.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::value::RawValue;

/// The fields of `given` over those of `added`. A `given` that is no JSON object becomes the field `payload`.
pub fn over(added: BTreeMap<&str, Box<RawValue>>, given: Option<&[u8]>) -> Bytes {
    let mut fields: BTreeMap<&str, &RawValue> = added.iter().map(|(name, value)| (*name, &**value)).collect();
    let own: BTreeMap<String, Box<RawValue>>;
    let whole: Box<RawValue>;
    match given {
        None => {}
        Some(given) => match serde_json::from_slice::<BTreeMap<String, Box<RawValue>>>(given) {
            Ok(object) => {
                own = object;
                fields.extend(own.iter().map(|(name, value)| (name.as_str(), &**value)));
            }
            Err(_) => {
                whole = value(given);
                fields.insert("payload", &whole);
            }
        },
    }
    Bytes::from(serde_json::to_vec(&fields).unwrap_or_default())
}

/// Bytes as JSON: as they are when they are JSON, otherwise as text.
pub(super) fn value(bytes: &[u8]) -> Box<RawValue> {
    match serde_json::from_slice::<Box<RawValue>>(bytes) {
        Ok(json) => json,
        Err(_) => raw(&String::from_utf8_lossy(bytes)),
    }
}

/// Anything that can be written as JSON.
pub(super) fn raw(value: &(impl serde::Serialize + ?Sized)) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(given: Option<&str>, expected: &str) {
        let added = BTreeMap::from([("a", raw(&1)), ("b", raw("two"))]);
        assert_eq!(over(added, given.map(str::as_bytes)), expected.as_bytes());
    }

    #[test]
    fn what_was_given_overrides_what_is_added() {
        check(None, r#"{"a":1,"b":"two"}"#);
        check(Some(r#"{"b": {"x": [1, 2]}, "c": null}"#), r#"{"a":1,"b":{"x": [1, 2]},"c":null}"#);
        check(Some("[1]"), r#"{"a":1,"b":"two","payload":[1]}"#);
        check(Some("no json"), r#"{"a":1,"b":"two","payload":"no json"}"#);
    }
}
