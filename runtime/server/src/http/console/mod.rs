//! The console: `/ui/…`, an application for browsers whose built files (`ui/dist`) are in the binary.
//!
//! It has no rights of its own: its files are public, and everything it shows and does goes through the API with the
//! session of the person who signed in. The application chooses its page by the address, so every path that names no
//! file is answered with it.

mod files;

use std::path::PathBuf;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Redirect, Response};
use bytes::Bytes;

use self::files::{FILES, File};
use crate::http::Shared;
use crate::http::transport::error::Error;
use crate::http::transport::headers::CONSOLE_POLICY;

/// The file that every path leads to which names no other.
const PAGE: &str = "index.html";
pub const ADDRESS: &str = "/ui/";

/// Where the files come from. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Console {
    /// Read anew for each request, for those who work on the console.
    folder: Option<PathBuf>,
}

impl Console {
    pub fn new(folder: Option<PathBuf>) -> Console {
        Console { folder }
    }
}

/// `GET /ui`: relative addresses need the slash.
pub async fn to_address() -> Redirect {
    Redirect::permanent(ADDRESS)
}

/// `GET /ui/…`: a file of the console, or its page.
pub async fn show(State(shared): State<Shared>, uri: Uri, headers: HeaderMap) -> Response {
    let path = uri.path().strip_prefix(ADDRESS).unwrap_or_default();
    let name = if is_file_name(path) { path } else { PAGE };
    match &shared.console.folder {
        Some(folder) => match tokio::fs::read(folder.join(name)).await {
            Ok(bytes) => answer(name, Bytes::from(bytes), HeaderValue::from_static("no-store")),
            Err(error) => {
                let why = format!(
                    "the file {name} of the console cannot be read from --ui-dir: {error}; `make ui` builds it"
                );
                Error::not_found(why).into_response()
            }
        },
        None => match FILES.iter().find(|file| file.name == name) {
            Some(file) => built_in(file, &headers),
            None => Error::not_found(format!("the console has no file {name}")).into_response(),
        },
    }
}

/// All files are in one folder; a page's path that looks like one, such as that of a queue `a.js`, is below another.
fn is_file_name(path: &str) -> bool {
    let plain = path.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-".contains(&byte));
    plain && !path.starts_with('.') && [".html", ".js", ".css", ".svg"].iter().any(|ending| path.ends_with(ending))
}

fn built_in(file: &'static File, headers: &HeaderMap) -> Response {
    let named = |name: header::HeaderName, wanted: &str| {
        let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values
            .flat_map(|value| value.split(','))
            .any(|part| part.split(';').next().unwrap_or_default().trim() == wanted)
    };
    // The names of the files stay the same when they change, so a browser asks each time, and is mostly told that
    // nothing changed.
    let caching = HeaderValue::from_static("no-cache");
    let tag = HeaderValue::from_static(file.tag);
    if named(header::IF_NONE_MATCH, file.tag) {
        // Its headers replace those that the browser has stored: with the policy of all other responses, the page that it has could
        // load nothing any more.
        let policy = HeaderValue::from_static(CONSOLE_POLICY);
        let fields = [(header::ETAG, tag), (header::CACHE_CONTROL, caching), (header::CONTENT_SECURITY_POLICY, policy)];
        return (StatusCode::NOT_MODIFIED, fields).into_response();
    }
    let packed = named(header::ACCEPT_ENCODING, "gzip");
    let mut response = answer(file.name, Bytes::from_static(if packed { file.gzip } else { file.plain }), caching);
    let fields = response.headers_mut();
    fields.insert(header::ETAG, tag);
    fields.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if packed {
        fields.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

fn answer(name: &str, bytes: Bytes, caching: HeaderValue) -> Response {
    let kind = match name.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        _ => "application/octet-stream",
    };
    let fields = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CACHE_CONTROL, caching),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(CONSOLE_POLICY)),
    ];
    (fields, bytes).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_told_from_paths_of_pages() {
        for file in ["app.js", "index.html", "style.css", "icon.svg", "job-log.js"] {
            assert!(is_file_name(file), "{file}");
        }
        for page in
            ["", "queues", "queues/a.js", "../secrets.key", "..", ".js", "~acme/queues/app.js", "App.js", "a\\b.js"]
        {
            assert!(!is_file_name(page), "{page}");
        }
    }

    #[test]
    fn every_file_is_embedded_as_it_is_and_compressed() {
        for name in [PAGE, "app.js", "style.css"] {
            let file = FILES.iter().find(|file| file.name == name).expect(name);
            assert!(!file.plain.is_empty() && file.gzip.starts_with(&[0x1f, 0x8b]), "{name}");
            assert!(file.tag.starts_with('"') && file.tag.ends_with('"') && file.tag.len() > 16, "{}", file.tag);
        }
    }

    #[test]
    fn a_browser_that_has_a_file_is_not_sent_it_again() {
        let file = FILES.iter().find(|file| file.name == "app.js").expect("the application");
        let status = |name: &'static str, value: &str| {
            let value = HeaderValue::from_str(value).expect("a header");
            let response = built_in(file, &HeaderMap::from_iter([(header::HeaderName::from_static(name), value)]));
            (response.status().as_u16(), response.headers().contains_key(header::CONTENT_ENCODING))
        };
        assert_eq!(status("if-none-match", file.tag), (304, false));
        assert_eq!(status("if-none-match", "\"other\""), (200, false));
        let unchanged = HeaderMap::from_iter([(header::IF_NONE_MATCH, HeaderValue::from_static(file.tag))]);
        let policy = built_in(file, &unchanged).headers().get(header::CONTENT_SECURITY_POLICY).cloned();
        assert_eq!(policy, Some(HeaderValue::from_static(CONSOLE_POLICY)), "a browser takes it over for what it has");
        assert_eq!(status("accept-encoding", "br, gzip;q=0.8"), (200, true));
        assert_eq!(status("accept-encoding", "identity"), (200, false));
    }
}
