//! The description of the API: `GET /openapi.json`, generated from the routes, and `GET /docs`, a page that shows it.
//!
//! Routes are added only through [`Routes`], which accepts none without a description. What all routes share
//! (refusals, the key, path parameters) is added here and not repeated at each of them.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::MethodRouter;
use bytes::Bytes;
use serde_json::{Map, Value, json};
use utoipa::PartialSchema;
use utoipa::openapi::PathItem;
use utoipa::openapi::path::Operation;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};
use windlass_core::access::Permission;

use crate::http::Shared;
use crate::http::access::RouteTable;
use crate::http::events::EventData;
use crate::http::transport::error::ErrorAnswer;
use crate::http::transport::headers::page_policy;
use crate::http::wire::aliases;
use crate::http::wire::{BulkIdText, JobIdText, NameText};

/// Routes of the server, each with its description.
pub struct Routes {
    router: OpenApiRouter<Shared>,
    /// The prefix of their paths. Included in each path, because a nested router would parse every request once more.
    prefix: &'static str,
    /// Names that two different types have; one would be described as the other.
    clashes: BTreeSet<String>,
    /// What each route needs.
    permissions: Vec<(Method, String, Permission)>,
}

/// The finished description, as it is sent; it never changes while the program runs.
static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| Bytes::from(crate::http::routes().split().1.to_string()));

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

const TAGS: [(&str, &str); 12] = [
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

impl Routes {
    pub fn new() -> Routes {
        Routes::under("")
    }

    /// Routes whose paths start with this.
    pub fn under(prefix: &'static str) -> Routes {
        Routes { router: OpenApiRouter::default(), prefix, clashes: BTreeSet::new(), permissions: Vec::new() }
    }

    /// Adds what `routes!` makes of handlers that have `#[utoipa::path]`, all of which need this permission.
    pub fn with(mut self, needed: Permission, mut route: UtoipaMethodRouter<Shared>) -> Routes {
        let known = self.router.get_openapi().components.as_ref();
        for (name, schema) in &route.0 {
            if known.and_then(|known| known.schemas.get(name)).is_some_and(|other| other != schema) {
                self.clashes.insert(name.clone());
            }
        }
        let paths = std::mem::take(&mut route.1.paths).into_iter();
        route.1.paths = paths.map(|(path, item)| (format!("{}{path}", self.prefix), item)).collect();
        for (path, item) in &mut route.1.paths {
            for (method, operation) in operations_of(item) {
                self.permissions.push((method, path.clone(), needed));
                let extension = (PERMISSION.to_owned(), Value::from(needed.as_str()));
                operation.extensions.get_or_insert_default().extend([extension]);
            }
        }
        self.router = self.router.routes(route);
        self
    }

    /// Public files, which are read with GET. They are no part of the API, so they have no description.
    pub fn with_files(mut self, path: &str, files: MethodRouter<Shared>) -> Routes {
        let path = format!("{}{path}", self.prefix);
        self.router = self.router.route(&path, files);
        self.permissions.push((Method::GET, path, Permission::Public));
        self
    }

    /// These and others, which have their own prefix.
    pub fn join(self, others: Routes) -> Routes {
        let clashes = self.clashes.into_iter().chain(others.clashes).collect();
        let permissions = self.permissions.into_iter().chain(others.permissions).collect();
        Routes { router: self.router.merge(others.router), prefix: self.prefix, clashes, permissions }
    }

    /// What each route needs.
    pub fn table(&self) -> RouteTable {
        RouteTable::new(self.permissions.iter().cloned())
    }

    /// The routes for the server, and what they are.
    pub fn split(self) -> (axum::Router<Shared>, Value) {
        debug_assert!(self.clashes.is_empty(), "two types of the API have one name: {:?}", self.clashes);
        let (router, described) = self.router.split_for_parts();
        // A tree of plain fields always serializes.
        let mut document = serde_json::to_value(described).unwrap_or_default();
        finish(&mut document);
        (router, document)
    }
}

/// The field of an operation that names the permission it needs.
const PERMISSION: &str = "x-permission";

fn operations_of(item: &mut PathItem) -> impl Iterator<Item = (Method, &mut Operation)> {
    let methods = [
        (Method::GET, item.get.as_mut()),
        (Method::PUT, item.put.as_mut()),
        (Method::POST, item.post.as_mut()),
        (Method::DELETE, item.delete.as_mut()),
        (Method::PATCH, item.patch.as_mut()),
    ];
    methods.into_iter().filter_map(|(method, operation)| Some((method, operation?)))
}

/// This description, as OpenAPI 3.1
///
/// Generated from the routes of the running server.
#[utoipa::path(get, path = "/openapi.json", tag = "system", responses((status = 200, body = serde_json::Value)))]
pub async fn document() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], DOCUMENT.clone()).into_response()
}

/// This description, as a page for people
#[utoipa::path(
    get,
    path = "/docs",
    tag = "system",
    responses((status = 200, body = String, content_type = "text/html"))
)]
pub async fn page() -> Response {
    let headers =
        [(header::CONTENT_TYPE, "text/html; charset=utf-8"), (header::CONTENT_SECURITY_POLICY, PAGE_POLICY.as_str())];
    (headers, PAGE).into_response()
}

const PAGE: &str = include_str!("../docs.html");
static PAGE_POLICY: LazyLock<String> = LazyLock::new(|| page_policy(PAGE));

fn finish(document: &mut Value) {
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
    document["components"]["schemas"]["Error"] = serde_json::to_value(ErrorAnswer::schema()).unwrap_or_default();
    document["components"]["schemas"]["EventData"] = serde_json::to_value(EventData::schema()).unwrap_or_default();
    // Without `contentSchema`: what a stream of a bulk operation carries, and the end of a stream, has another form than `EventData`.
    document["components"]["schemas"]["StreamEvent"]["properties"]["data"]["contentMediaType"] =
        json!("application/json");
    // A job without a body fits several of these forms.
    if let Some(bodies) = document["components"]["schemas"]["Bodies"].as_object_mut()
        && let Some(forms) = bodies.remove("oneOf")
    {
        bodies.insert("anyOf".to_owned(), forms);
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
    let Some(paths) = document["paths"].as_object_mut() else { return };
    let mut ids = BTreeSet::new();
    for (path, item) in paths {
        let Some(item) = item.as_object_mut() else { continue };
        for (method, operation) in item {
            let Some(operation) = operation.as_object_mut() else { continue };
            complete(path, operation);
            let needs = |one: Permission| operation.get(PERMISSION).is_some_and(|needed| needed == one.as_str());
            let (public, anybody) = (needs(Permission::Public), needs(Permission::Anybody));
            if public {
                operation.insert("security".to_owned(), json!([]));
            } else if anybody {
                // An empty alternative: nothing is needed.
                operation.insert("security".to_owned(), json!([{}, { "header": [] }, { "session": [] }]));
            }
            warn(operation, &warning);
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

/// Adds `strict` to an operation that reads fields or query parameters, and `warnings` to its answers. The answers in `warning`
/// have them already.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of docs/access.md: a line for each permission, with its routes.
    fn table_of_routes() -> String {
        let mut routes = crate::http::routes().permissions;
        routes.sort_by_key(|(method, path, needed)| (*needed, path.clone(), method.to_string()));
        let mut lines = vec!["| permission | routes |".to_owned(), "|---|---|".to_owned()];
        for needed in Permission::ALL {
            let own = routes.iter().filter(|(_, _, of)| *of == needed);
            let own: Vec<_> =
                own.map(|(method, path, _)| format!("`{method} {}`", path.trim_start_matches("/api/v1"))).collect();
            lines.push(format!("| `{}` | {} |", needed.as_str(), own.join(", ")));
        }
        lines.join("\n")
    }

    #[test]
    fn the_document_about_access_lists_every_route_with_its_permission() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/access.md");
        let text = std::fs::read_to_string(file).expect("the document");
        let (before, rest) = text.split_once("<!-- routes -->\n").expect("where the table begins");
        let (listed, after) = rest.split_once("\n<!-- end of routes -->").expect("where the table ends");
        let table = table_of_routes();
        if std::env::var_os("WINDLASS_WRITE_DOCS").is_some() {
            let text = format!("{before}<!-- routes -->\n{table}\n<!-- end of routes -->{after}");
            std::fs::write(file, text).expect("it is written");
        } else {
            let again = "WINDLASS_WRITE_DOCS=1 cargo test --workspace --lib the_document_about_access";
            assert_eq!(listed, table, "write it again: {again}");
        }
    }

    fn operations(document: &Value) -> Vec<(String, &Value)> {
        let paths = document["paths"].as_object().expect("paths");
        let all = paths.iter().flat_map(|(path, item)| {
            let item = item.as_object().expect("methods");
            item.iter().map(move |(method, operation)| (format!("{method} {path}"), operation))
        });
        all.collect()
    }

    #[test]
    fn every_operation_describes_itself_and_its_responses() {
        let (_, document) = crate::http::routes().split();
        assert!(
            document["openapi"].as_str().is_some_and(|version| version.starts_with("3.1")),
            "{}",
            document["openapi"]
        );
        let mut ids = BTreeSet::new();
        let tags: Vec<&str> = TAGS.iter().map(|(name, _)| *name).collect();
        for (name, operation) in operations(&document) {
            let id = operation["operationId"].as_str().unwrap_or_else(|| panic!("{name} has no id"));
            assert!(ids.insert(id.to_owned()), "{name}: {id} occurs twice");
            assert!(operation["summary"].as_str().is_some_and(|text| !text.is_empty()), "{name} has no summary");
            let tag = operation["tags"][0].as_str().unwrap_or_default();
            assert!(tags.contains(&tag), "{name}: {tag:?} is not a known tag");
            let responses = operation["responses"].as_object().expect("responses");
            let good = |status: &&String| status.starts_with('2') || *status == "303";
            let good: Vec<_> = responses.iter().filter(|(status, _)| good(status)).collect();
            assert!(!good.is_empty(), "{name} has no good answer");
            for (status, answer) in good.iter().filter(|(status, _)| !["204", "303"].contains(&status.as_str())) {
                assert!(answer["content"].is_object(), "{name}: {status} does not describe its content");
            }
        }
        assert!(ids.len() > 50, "only {} operations", ids.len());
    }

    #[test]
    fn every_reference_leads_to_a_schema() {
        fn walk(value: &Value, schemas: &Value, seen: &mut usize) {
            match value {
                Value::Object(fields) => {
                    if let Some(target) = fields.get("$ref").and_then(Value::as_str) {
                        let name = target.rsplit('/').next().expect("a name");
                        assert!(schemas[name].is_object(), "{target} does not exist");
                        *seen += 1;
                    }
                    fields.values().for_each(|value| walk(value, schemas, seen));
                }
                Value::Array(items) => items.iter().for_each(|value| walk(value, schemas, seen)),
                _ => {}
            }
        }
        let (_, document) = crate::http::routes().split();
        let mut seen = 0;
        walk(&document, &document["components"]["schemas"], &mut seen);
        assert!(seen > 100, "only {seen} references");
    }

    #[test]
    fn no_part_of_the_description_is_null() {
        let (_, document) = crate::http::routes().split();
        for (name, operation) in operations(&document) {
            let fields = operation.as_object().expect("an operation");
            assert!(fields.values().all(|field| !field.is_null()), "{name}: {operation}");
        }
        let schemas = document["components"]["schemas"].as_object().expect("schemas");
        for (name, schema) in schemas {
            assert!(!schema.to_string().contains(r#""properties":null"#) && !schema.is_null(), "{name}: {schema}");
        }
    }

    #[test]
    fn every_request_with_fields_can_be_strict_and_its_answer_can_warn() {
        let (_, document) = crate::http::routes().split();
        let mut seen = 0;
        for (name, operation) in operations(&document) {
            if !operation["requestBody"]["content"]["application/json"].is_object() {
                continue;
            }
            let parameters = operation["parameters"].as_array().unwrap_or_else(|| panic!("{name} has no parameters"));
            assert_eq!(parameters.iter().filter(|one| one["name"] == "strict").count(), 1, "{name}");
            let responses = operation["responses"].as_object().expect("responses");
            for (status, response) in responses.iter().filter(|(status, _)| status.starts_with('2')) {
                let schema = &response["content"]["application/json"]["schema"];
                let parts = schema["allOf"].as_array().map_or(std::slice::from_ref(schema), Vec::as_slice);
                let names = parts.iter().filter_map(|part| part["$ref"].as_str()?.rsplit('/').next());
                let warns = names
                    .map(|name| &document["components"]["schemas"][name])
                    .any(|schema| schema["properties"]["warnings"].is_object() || schema["oneOf"].is_array());
                assert!(warns || response["headers"]["Windlass-Warning"].is_object(), "{name} {status}: {response}");
                seen += 1;
            }
        }
        assert!(seen > 20, "only {seen} answers");
    }

    #[test]
    fn no_two_types_have_the_same_name() {
        assert_eq!(crate::http::routes().clashes, BTreeSet::new());
    }
}
