//! The description of the API: `GET /openapi.json`, generated from the routes, and `GET /docs`, a page that shows it.
//!
//! Routes are added only through [`Routes`], which accepts none without a description. What all routes share
//! (refusals, the key, path parameters) is added here and not repeated at each of them.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use axum::http::{Method, header};
use axum::response::{IntoResponse, Response};
use axum::routing::MethodRouter;
use bytes::Bytes;
use serde_json::Value;
use utoipa::openapi::PathItem;
use utoipa::openapi::path::Operation;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};
use windlass_core::access::Permission;

use crate::http::Shared;
use crate::http::access::RouteTable;
use crate::http::transport::description::{PERMISSION, finish};
use crate::http::transport::headers::page_policy;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::transport::description::TAGS;

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
