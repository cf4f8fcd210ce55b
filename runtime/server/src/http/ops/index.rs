//! `GET /`: what a person finds who opens the server's address, and the same for programs.

use std::sync::LazyLock;

use axum::Json;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::transport::headers::page_policy;

const PAGE: &str = include_str!("../index.html");
static PAGE_POLICY: LazyLock<String> = LazyLock::new(|| page_policy(PAGE));
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What this server is, for programs that ask at its root.
#[derive(Debug, Serialize, ToSchema)]
pub struct Index {
    name: &'static str,
    version: &'static str,
    /// Where the API begins.
    api: &'static str,
    docs: &'static str,
    openapi: &'static str,
    health: &'static str,
}

/// What this server is
///
/// A page for people. A client that asks for `application/json` and not for `text/html` gets JSON.
#[utoipa::path(
    get,
    path = "/",
    tag = "system",
    responses((status = 200, content((String = "text/html"), (Index = "application/json"))))
)]
pub async fn index(headers: HeaderMap) -> Response {
    let mut response = if wants_json(&headers) {
        let index = Index {
            name: "windlass",
            version: VERSION,
            api: "/api/v1",
            docs: "/docs",
            openapi: "/openapi.json",
            health: "/healthz",
        };
        Json(index).into_response()
    } else {
        let headers = [
            (header::CONTENT_TYPE, "text/html; charset=utf-8"),
            (header::CONTENT_SECURITY_POLICY, PAGE_POLICY.as_str()),
        ];
        (headers, PAGE.replace("{version}", VERSION)).into_response()
    };
    response.headers_mut().insert(header::VARY, header::HeaderValue::from_static("accept"));
    response
}

fn wants_json(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT);
    let names = |kind: &str| accepted.iter().any(|value| value.to_str().is_ok_and(|text| text.contains(kind)));
    names("application/json") && !names("text/html")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_for_those_who_ask_for_it() {
        for (accept, expected) in [
            (None, false),
            (Some("*/*"), false),
            (Some("text/html,application/xhtml+xml,*/*;q=0.8"), false),
            (Some("application/json"), true),
            (Some("application/json, text/plain, */*"), true),
            (Some("text/html, application/json"), false),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(accept) = accept {
                headers.insert(header::ACCEPT, accept.parse().expect("a header"));
            }
            assert_eq!(wants_json(&headers), expected, "{accept:?}");
        }
    }
}
