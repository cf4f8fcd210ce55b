//! Names of the older wire format that the API still accepts and shows, each with the name to use instead. The
//! description of the API marks them as deprecated, and docs/http-api.md lists them; a test compares the three.

use serde_json::{Map, Value, json};

use crate::http::transport::error::{Error, Result};

/// A field or query parameter under its older name.
pub struct Alias {
    pub name: &'static str,
    /// The name to use instead.
    pub instead: &'static str,
    /// The schemas that have it; none for a query parameter.
    pub schemas: &'static [&'static str],
}

const fn alias(name: &'static str, instead: &'static str, schemas: &'static [&'static str]) -> Alias {
    Alias { name, instead, schemas }
}

/// Every alias of a field. Two fields with one name in different schemas can stand for different things.
pub const FIELDS: &[Alias] = &[
    alias("max_retries", "max_attempts", &["JobBody", "PolicyBody", "PolicyView", "JobView", "Fetched"]),
    alias("retry_base_delay_ms", "retry_base_delay", &["JobView"]),
    alias("retry_max_delay_ms", "retry_max_delay", &["JobView"]),
    alias("worker_id", "worker.id", &["RunnerView"]),
    alias("hostname", "worker.hostname", &["RunnerView"]),
    alias("processing", "active", &["Stats"]),
    alias("failed", "dead", &["Stats"]),
    alias("enqueued", "totals.enqueued", &["QueueAnswer"]),
    alias("failed", "totals.failed_attempts", &["QueueAnswer"]),
    alias("at_ns", "at", &["EventData"]),
    alias("rate_limit", "rate.count", &["QueueAnswer"]),
    alias("rate_window_ms", "rate.per", &["QueueAnswer"]),
    alias("window_ms", "period", &["Throttle"]),
    alias("errors[].created_at", "errors[].at", &["ErrorView"]),
];

/// Every alias of a query parameter.
pub const PARAMETERS: &[Alias] = &[alias("max_retries", "max_attempts", &[])];

impl Alias {
    /// The name without the path to it.
    fn field(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }
}

/// Every alias of an operation: method, path, and the one to use instead.
pub const OPERATIONS: &[(&str, &str, &str)] = &[
    ("get", "/api/v1/webhooks", "GET /webhook-endpoints"),
    ("post", "/api/v1/webhooks", "POST /webhook-endpoints"),
    ("delete", "/api/v1/webhooks/{name}", "DELETE /webhook-endpoints/{id}"),
];

/// The name to suggest to a client that seems to have meant this field of a request.
pub fn current(name: &'static str) -> &'static str {
    match name {
        "max_retries" => "max_attempts",
        "window_ms" => "period",
        name => name,
    }
}

/// The number of attempts under its name, or under the older one. `place` is what stands before a field's name in an
/// error.
pub fn max_attempts(place: &str, named: Option<u32>, older: Option<u32>) -> Result<Option<u32>> {
    match (named, older) {
        (Some(named), Some(older)) if named != older => Err(Error::field(
            &format!("{place}max_attempts"),
            format!("is {named}, and its alias `max_retries` is {older}; send one of them, or the same number in both"),
        )),
        (named, older) => Ok(named.or(older)),
    }
}

/// Marks the aliases in the description of the API.
pub fn mark(document: &mut Value) {
    for alias in FIELDS {
        for schema in alias.schemas {
            if let Some(schema) = document["components"]["schemas"].get_mut(*schema) {
                each_property(schema, alias.field(), &mut |property| deprecate(property, alias.instead));
            }
        }
    }
    for (method, path, instead) in OPERATIONS {
        if let Some(operation) = document["paths"][*path].get_mut(*method).and_then(Value::as_object_mut) {
            deprecate(operation, instead);
        }
    }
    let paths = document["paths"].as_object_mut().into_iter().flatten();
    for (_, operation) in paths.flat_map(|(_, item)| item.as_object_mut().into_iter().flatten()) {
        // Indexing would add `parameters: null` to an operation that has none; the same above.
        for parameter in operation.get_mut("parameters").and_then(Value::as_array_mut).into_iter().flatten() {
            let alias = PARAMETERS.iter().find(|alias| parameter["name"] == alias.name && parameter["in"] == "query");
            if let (Some(alias), Some(parameter)) = (alias, parameter.as_object_mut()) {
                deprecate(parameter, alias.instead);
            }
        }
    }
}

/// A schema has its properties itself, or in the parts it is made of.
fn each_property(schema: &mut Value, name: &str, change: &mut impl FnMut(&mut Map<String, Value>)) {
    let properties = schema.get_mut("properties");
    if let Some(property) = properties.and_then(|all| all.get_mut(name)).and_then(Value::as_object_mut) {
        change(property);
    }
    for part in schema.get_mut("allOf").and_then(Value::as_array_mut).into_iter().flatten() {
        each_property(part, name, change);
    }
}

fn deprecate(described: &mut Map<String, Value>, instead: &str) {
    described.insert("deprecated".to_owned(), json!(true));
    let about = format!("Alias of `{instead}` for clients of the older wire format.");
    described.insert("description".to_owned(), json!(about));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(schema: &Value, name: &str) -> bool {
        let parts = schema["allOf"].as_array().into_iter().flatten();
        schema["properties"][name]["deprecated"] == true || parts.into_iter().any(|part| has(part, name))
    }

    #[test]
    fn every_alias_is_a_field_and_is_listed_in_the_documents() {
        let description = crate::http::description();
        let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/http-api.md");
        let document = std::fs::read_to_string(document).expect("the document");
        let (_, table) = document.split_once("## Aliases for clients of the older wire format").expect("the table");
        for alias in FIELDS.iter().chain(PARAMETERS) {
            for schema in alias.schemas {
                let described = &description["components"]["schemas"][*schema];
                assert!(has(described, alias.field()), "{schema} has no {}: {described}", alias.name);
            }
            let row = table.lines().find(|line| {
                line.contains(&format!("`{}`", alias.name)) && line.contains(&format!("`{}`", alias.instead))
            });
            assert!(row.is_some(), "docs/http-api.md: the table of aliases has no `{}`", alias.name);
        }
    }

    #[test]
    fn every_alias_of_an_operation_is_one_and_is_listed_in_the_documents() {
        let description = crate::http::description();
        let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/http-api.md");
        let document = std::fs::read_to_string(document).expect("the document");
        for (method, path, instead) in OPERATIONS {
            assert_eq!(description["paths"][*path][*method]["deprecated"], true, "{method} {path}");
            assert!(document.lines().any(|line| line.starts_with('|') && line.contains(instead)), "{instead}");
        }
    }

    #[test]
    fn a_number_of_attempts_may_come_under_both_names_when_it_is_the_same() {
        for (named, older, expected) in
            [(None, None, None), (Some(3), None, Some(3)), (None, Some(4), Some(4)), (Some(5), Some(5), Some(5))]
        {
            assert_eq!(max_attempts("", named, older).expect("no conflict"), expected);
        }
        assert!(max_attempts("", Some(1), Some(0)).is_err());
    }
}
