//! `GET /`: leads a person who opens the server's address to the console, and tells programs what this server is.

use axum::Json;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::console;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What this server is, for programs that ask at its root.
#[derive(Debug, Serialize, ToSchema)]
pub struct Index {
    name: &'static str,
    version: &'static str,
    /// Where the API begins.
    api: &'static str,
    /// The console, for browsers.
    console: &'static str,
    docs: &'static str,
    openapi: &'static str,
    health: &'static str,
}

/// What this server is
///
/// A browser, which asks for `text/html`, is led to the console.
#[utoipa::path(
    get,
    path = "/",
    tag = "system",
    responses((status = 200, body = Index), (status = 303, description = "To the console, for a browser."))
)]
pub async fn index(headers: HeaderMap) -> Response {
    let mut response = if wants_page(&headers) {
        Redirect::to(console::ADDRESS).into_response()
    } else {
        let index = Index {
            name: "windlass",
            version: VERSION,
            api: "/api/v1",
            console: console::ADDRESS,
            docs: "/docs",
            openapi: "/openapi.json",
            health: "/healthz",
        };
        Json(index).into_response()
    };
    response.headers_mut().insert(header::VARY, header::HeaderValue::from_static("accept"));
    response
}

fn wants_page(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT);
    accepted.iter().any(|value| value.to_str().is_ok_and(|text| text.contains("text/html")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_console_is_for_those_who_ask_for_a_page() {
        for (accept, expected) in [
            (None, false),
            (Some("*/*"), false),
            (Some("text/html,application/xhtml+xml,*/*;q=0.8"), true),
            (Some("application/json"), false),
            (Some("application/json, text/plain, */*"), false),
            (Some("text/html, application/json"), true),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(accept) = accept {
                headers.insert(header::ACCEPT, accept.parse().expect("a header"));
            }
            assert_eq!(wants_page(&headers), expected, "{accept:?}");
        }
    }
}
