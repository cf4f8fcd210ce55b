//! The JSON Schema of a plugin's payloads, for people: forms are made of it. Nothing is checked against it when a job
//! is enqueued; that is the handler's matter.

use core::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

use crate::Refusal;

/// Bytes of a schema as JSON.
pub const PAYLOAD_SCHEMA_BYTES: usize = 16 * 1024;

/// A schema as its author wrote it. In TOML and JSON it is a table; elsewhere, on disk too, it is its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PayloadSchema(Value);

impl PayloadSchema {
    pub fn value(&self) -> &Value {
        &self.0
    }

    /// Refuses what no form could be made of: it need not be a good schema, but it has to have the form of one.
    pub fn check(&self) -> Result<(), Refusal> {
        let refused = |why: String| Err(Refusal::invalid("payload", why));
        let Some(schema) = self.0.as_object() else {
            return refused(format!("a JSON Schema, which is an object, not {}", kind(&self.0)));
        };
        let bytes = self.0.to_string().len();
        if bytes > PAYLOAD_SCHEMA_BYTES {
            return refused(format!("a schema of at most {PAYLOAD_SCHEMA_BYTES} bytes as JSON, not {bytes}"));
        }
        for field in ["properties", "$defs", "definitions"] {
            let Some(found) = schema.get(field) else { continue };
            let Some(members) = found.as_object() else {
                return refused(format!("`{field}` has a schema for each name; it is an object, not {}", kind(found)));
            };
            let odd = members.iter().find(|(_, member)| !member.is_object() && !member.is_boolean());
            if let Some((name, member)) = odd {
                return refused(format!("`{field}.{name}` is a schema, which is an object, not {}", kind(member)));
            }
        }
        let names = |found: &Value| found.as_array().is_some_and(|names| names.iter().all(Value::is_string));
        if schema.get("required").is_some_and(|found| !names(found)) {
            return refused("`required` is a list of names".to_owned());
        }
        Ok(())
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

impl Serialize for PayloadSchema {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            self.0.serialize(serializer)
        } else {
            serializer.serialize_str(&self.0.to_string())
        }
    }
}

impl<'de> Deserialize<'de> for PayloadSchema {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PayloadSchema, D::Error> {
        if deserializer.is_human_readable() {
            return Value::deserialize(deserializer).map(PayloadSchema);
        }
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl FromStr for PayloadSchema {
    type Err = serde_json::Error;

    fn from_str(text: &str) -> Result<PayloadSchema, serde_json::Error> {
        serde_json::from_str(text).map(PayloadSchema)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_no_form_could_be_made_of_is_refused() {
        let check = |schema: Value| PayloadSchema(schema).check().map_err(|error| error.to_string());
        for good in [
            json!({}),
            json!({"type": "object", "required": ["to"], "properties": {"to": {"type": "string"}, "any": true}}),
            json!({"$ref": "#/$defs/Order", "$defs": {"Order": {"properties": {"n": {"type": "integer"}}}}}),
        ] {
            assert_eq!(check(good.clone()), Ok(()), "{good}");
        }
        for (bad, says) in [
            (json!("object"), "an object, not a text"),
            (json!([{}]), "an object, not a list"),
            (json!({"properties": ["to"]}), "`properties` has a schema for each name"),
            (json!({"properties": {"to": "string"}}), "`properties.to` is a schema"),
            (json!({"$defs": 1}), "`$defs` has"),
            (json!({"required": "to"}), "`required` is a list of names"),
            (json!({"description": "x".repeat(PAYLOAD_SCHEMA_BYTES)}), "at most 16384 bytes"),
        ] {
            let error = check(bad.clone()).expect_err("it is refused");
            assert!(error.contains("payload") && error.contains(says), "{bad}: {error}");
        }
    }
}
