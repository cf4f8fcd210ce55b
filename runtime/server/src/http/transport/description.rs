//! What all routes have in common in the description of the API: the introduction, refusals, the key, path parameters
//! and warnings. `openapi` adds it to what the routes say about themselves.

use std::collections::BTreeSet;

use axum::http::StatusCode;
use serde_json::{Map, Value, json};
use utoipa::PartialSchema;
use windlass_core::access::Permission;

use crate::http::events::EventData;
use crate::http::transport::error::ErrorAnswer;
use crate::http::wire::aliases;
use crate::http::wire::{BulkIdText, JobIdText, NameText};

/// The field of an operation that names the permission it needs.
pub(super) const PERMISSION: &str = "x-permission";

/// The refusals that every request may get, in addition to those of its route.
const REFUSALS: [(u16, &str); 9] = [
    (400, "The request is wrong; `error` says what to change."),
    (401, "The request has no key, or one that is wrong, revoked or expired."),
    (
        403,
        "The key's role or queues do not include this (`x-permission` names what is needed), or the request comes from a web page of another site.",
    ),
    (408, "The body did not arrive in time; nothing was done."),
    (413, "The body is larger than the server accepts."),
    (421, "The `Host` header names another server; `--allowed-host` adds a name."),
    (429, "Too many requests; nothing was done. Try again after `Retry-After`."),
    (500, "An error inside the server; its log has the details. A change may or may not be stored."),
    (503, "The server is stopping or its store cannot be written; nothing was done. Try again."),
];

const ABOUT: &str = "Durable background jobs whose handlers are WebAssembly components, run in the server, or external workers that \
     fetch over HTTP. Times are RFC 3339 in UTC. Durations are text such as `1h30m`, or whole numbers of seconds. Fields that a \
     request has and the server does not know are ignored, and named in `warnings` of the answer; with `?strict=true` the request is \
     refused instead. Every refusal is `{\"error\": …, \"code\": …}`; 429 and 503 mean that nothing was done.";

/// The part of a response that names unknown fields and query parameters of the request.
const WARNED: &str = "Warned";
const ABOUT_WARNINGS: &str = "Fields and query parameters of the request that the server does not know, with the name that was \
     probably meant. Absent if all are known.";

pub(super) const TAGS: [(&str, &str); 12] = [
    ("producers", "Enqueueing jobs."),
    ("jobs", "Reading jobs, and acting on them."),
    ("flows", "Batches, chains and other jobs that belong together."),
    ("queues", "The state of queues, and their settings."),
    ("schedules", "Jobs that are enqueued at set times."),
    ("plugins", "Handlers as WebAssembly components."),
    ("secrets", "Values that handlers may use and that cannot be read back."),
    ("access", "Keys, namespaces, enqueue rules, and the audit log."),
    ("workers", "Running jobs in your own programs."),
    ("events", "Live streams, and waiting for jobs to end."),
    ("webhooks", "Events sent to your own addresses."),
    ("system", "The server itself."),
];

/// Adds to the description of the routes what they have in common.
pub(super) fn finish(document: &mut Value) {
    introduce(document);
    let warning = finish_schemas(document);
    finish_operations(document, &warning);
}

/// What the API is, and how one signs in.
fn introduce(document: &mut Value) {
    document["info"] = json!({
        "title": "Windlass",
        "version": env!("CARGO_PKG_VERSION"),
        "description": ABOUT,
        "license": { "name": "Apache-2.0 OR MIT", "identifier": "Apache-2.0 OR MIT" },
    });
    document["servers"] = json!([{ "url": "/" }]);
    document["tags"] = TAGS.iter().map(|(name, about)| json!({ "name": name, "description": about })).collect();
    document["security"] = json!([{ "header": [] }, { "bearer": [] }, { "cookie": [] }, { "session": [] }]);
    document["components"]["securitySchemes"] = json!({
        "header": { "type": "apiKey", "in": "header", "name": "X-API-Key" },
        "bearer": { "type": "http", "scheme": "bearer" },
        "cookie": { "type": "apiKey", "in": "cookie", "name": "windlass_key" },
        "session": { "type": "apiKey", "in": "cookie", "name": "windlass_session" },
    });
}

/// Returns the references to those that have `warnings` themselves.
fn finish_schemas(document: &mut Value) -> BTreeSet<String> {
    document["components"]["schemas"]["Error"] = serde_json::to_value(ErrorAnswer::schema()).unwrap_or_default();
    document["components"]["schemas"]["EventData"] = serde_json::to_value(EventData::schema()).unwrap_or_default();
    // Without `contentSchema`: what a stream of a bulk operation carries, and the end of a stream, has another form
    // than `EventData`.
    document["components"]["schemas"]["StreamEvent"]["properties"]["data"]["contentMediaType"] =
        json!("application/json");
    // A job without a body fits several of these forms.
    for several in ["Bodies", "FoundPayload"] {
        if let Some(bodies) = document["components"]["schemas"][several].as_object_mut()
            && let Some(forms) = bodies.remove("oneOf")
        {
            bodies.insert("anyOf".to_owned(), forms);
        }
    }
    aliases::mark(document);
    let mut warning = BTreeSet::new();
    if let Some(schemas) = document["components"]["schemas"].as_object_mut() {
        schemas.values_mut().for_each(loosen);
        let has = |schema: &Value| schema["properties"]["warnings"].is_object() || schema["oneOf"].is_array();
        let named = schemas.iter().filter(|(_, schema)| has(schema));
        warning.extend(named.map(|(name, _)| format!("#/components/schemas/{name}")));
        let warnings = json!({ "type": "array", "items": { "type": "string" }, "description": ABOUT_WARNINGS });
        schemas.insert(WARNED.to_owned(), json!({ "properties": { "warnings": warnings } }));
    }
    warning
}

fn finish_operations(document: &mut Value, warning: &BTreeSet<String>) {
    let Some(paths) = document["paths"].as_object_mut() else { return };
    let mut ids = BTreeSet::new();
    for (path, item) in paths {
        let Some(item) = item.as_object_mut() else { continue };
        for (method, operation) in item {
            let Some(operation) = operation.as_object_mut() else { continue };
            complete(path, operation);
            secure(operation);
            warn(operation, warning);
            let mut id = operation.get("operationId").and_then(Value::as_str).unwrap_or_default().to_owned();
            // One handler may take two methods.
            if ids.contains(&id) {
                id = format!("{id}_{method}");
                operation.insert("operationId".to_owned(), Value::from(id.clone()));
            }
            ids.insert(id);
        }
    }
}

/// Says of an operation that it needs no key, or may do without.
fn secure(operation: &mut Map<String, Value>) {
    let needs = |one: Permission| operation.get(PERMISSION).is_some_and(|needed| needed == one.as_str());
    let (public, anybody) = (needs(Permission::Public), needs(Permission::Anybody));
    if public {
        operation.insert("security".to_owned(), json!([]));
    } else if anybody {
        // An empty alternative: nothing is needed.
        operation.insert("security".to_owned(), json!([{}, { "header": [] }, { "session": [] }]));
    }
}

/// A flattened part that is absent is not null; its fields are omitted.
fn loosen(schema: &mut Value) {
    let Some(parts) = schema.get_mut("allOf").and_then(Value::as_array_mut) else { return };
    for part in parts {
        let Some(forms) = part.get("oneOf").and_then(Value::as_array) else { continue };
        if forms.iter().any(|form| form["type"] == "null") {
            let forms: Vec<Value> = forms.iter().filter(|form| form["type"] != "null").cloned().collect();
            *part = json!({ "anyOf": forms.into_iter().chain([json!({ "type": "object" })]).collect::<Vec<_>>() });
        }
    }
}

/// Adds to one operation what it has in common with others.
fn complete(path: &str, operation: &mut Map<String, Value>) {
    // Handlers of two resources may have the same name; the tag makes the operation's id unique.
    let tag = operation.get("tags").and_then(|tags| tags[0].as_str()).unwrap_or_default().to_owned();
    if let Some(id) = operation.get_mut("operationId") {
        *id = Value::from(format!("{tag}_{}", id.as_str().unwrap_or_default()));
    }
    if let Some(parameters) = path_parameters(path, operation.get("parameters")) {
        operation.insert("parameters".to_owned(), parameters);
    }
    let in_path = path.contains('{');
    let Some(responses) = operation.get_mut("responses").and_then(Value::as_object_mut) else { return };
    for (status, response) in responses.iter_mut() {
        if response["description"].as_str().is_none_or(str::is_empty) {
            response["description"] = Value::from(phrase(status));
        }
        if status.starts_with('4') && response.get("content").is_none() {
            response["content"] = refusal();
        }
    }
    let missing = (404, "There is no such resource.");
    for (status, about) in REFUSALS.into_iter().chain(in_path.then_some(missing)) {
        let key = status.to_string();
        if !responses.contains_key(&key) {
            responses.insert(key, json!({ "description": about, "content": refusal() }));
        }
    }
}

/// Adds `strict` to an operation that reads fields or query parameters, and `warnings` to its answers. The answers in
/// `warning` have them already.
fn warn(operation: &mut Map<String, Value>, warning: &BTreeSet<String>) {
    let has_body = operation.get("requestBody").is_some_and(|body| body["content"]["application/json"].is_object());
    let parameters = operation.get("parameters").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    if !has_body && !parameters.iter().any(|parameter| parameter["in"] == "query") {
        return;
    }
    let strict = json!({
        "name": "strict", "in": "query", "required": false, "schema": { "type": "boolean" },
        "description": "`true` refuses fields and query parameters that the server does not know, instead of answering with `warnings`.",
    });
    let parameters: Vec<Value> = parameters.iter().cloned().chain([strict]).collect();
    operation.insert("parameters".to_owned(), Value::Array(parameters));
    let responses = operation.get_mut("responses").and_then(Value::as_object_mut).into_iter().flatten();
    for (_, response) in responses.filter(|(status, _)| status.starts_with('2')) {
        let schema = response.get("content").map_or(&Value::Null, |content| &content["application/json"]["schema"]);
        if schema.is_null() || schema["type"] == "array" {
            let value = json!({ "type": "string" });
            response["headers"]["Windlass-Warning"] = json!({ "description": ABOUT_WARNINGS, "schema": value });
        } else if !schema["$ref"].as_str().is_some_and(|name| warning.contains(name)) {
            let warned = json!({ "$ref": format!("#/components/schemas/{WARNED}") });
            let both = json!({ "allOf": [schema, warned] });
            response["content"]["application/json"]["schema"] = both;
        }
    }
}

fn refusal() -> Value {
    json!({ "application/json": { "schema": { "$ref": "#/components/schemas/Error" } } })
}

fn phrase(status: &str) -> &'static str {
    let known = status.parse().ok().and_then(|code| StatusCode::from_u16(code).ok());
    known.and_then(|status| status.canonical_reason()).unwrap_or("The answer.")
}

/// The parameters of an operation, those in its path among them.
fn path_parameters(path: &str, described: Option<&Value>) -> Option<Value> {
    let mut parameters = described.and_then(Value::as_array).cloned().unwrap_or_default();
    for name in path.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name) {
        if parameters.iter().any(|parameter| parameter["name"] == name && parameter["in"] == "path") {
            continue;
        }
        let is_job = name == "id" && ["/jobs/", "/ack/", "/fail/"].iter().any(|part| path.contains(part));
        let schema = match is_job {
            true => JobIdText::schema(),
            false if path.contains("/bulk/") => BulkIdText::schema(),
            false => NameText::schema(),
        };
        parameters.push(json!({ "name": name, "in": "path", "required": true, "schema": schema }));
    }
    (!parameters.is_empty()).then_some(Value::Array(parameters))
}
