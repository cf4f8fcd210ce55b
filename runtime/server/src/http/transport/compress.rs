//! Compressed answers: gzip, for clients that accept it, of JSON and text that is large enough to gain from it.
//!
//! Whoever sees the sizes of compressed answers learns something about what is in them, if they can also put text of
//! their own beside it and look again and again (BREACH). Three things stand against that. Answers of routes that may
//! show a secret are not compressed. No page of another site can make a browser send requests: they are refused before
//! they get here, and cookies do not come with them. And each compressed answer is longer by a random number of bytes,
//! so that sizes differ by themselves more than by a letter that is guessed right.

use std::io::Write;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use axum::middleware::Next;
use bytes::Bytes;
use flate2::{Compression, GzBuilder};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use tokio::task::spawn_blocking;

use crate::limits;

/// Where an answer may show a secret, such as a new key, once.
const WITH_SECRETS: [&str; 5] = ["/auth/", "/secrets", "/webhook-endpoints", "/inbound-webhooks", "/webhooks"];

/// Compresses the answer of a route, where that helps.
pub async fn compress(request: Request, next: Next) -> Response<Body> {
    let path = request.uri().path();
    let path = path.strip_prefix("/api/v1").unwrap_or(path);
    let may_compress = request.method() != Method::HEAD
        && accepts_gzip(request.headers())
        && !WITH_SECRETS.iter().any(|prefix| path.starts_with(prefix));
    let response = next.run(request).await;
    if may_compress && gains(&response) { compressed(response).await } else { response }
}

/// `gzip` or `*` in `Accept-Encoding`, unless its weight is zero.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let lists = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let mut all = None;
    for coding in lists.flat_map(|list| list.split(',')) {
        let (name, parameters) = coding.split_once(';').unwrap_or((coding, ""));
        let weight = parameters.trim().strip_prefix("q=").map_or(Ok(1.0), str::parse::<f32>);
        let wanted = weight.is_ok_and(|weight| weight > 0.0);
        match name.trim() {
            name if name.eq_ignore_ascii_case("gzip") => return wanted,
            "*" => all = Some(wanted),
            _ => {}
        }
    }
    all.unwrap_or(false)
}

/// Whether the answer is text of a known size, which is neither small nor a stream nor compressed already.
fn gains(response: &Response<Body>) -> bool {
    let headers = response.headers();
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_text = content_type.starts_with("application/json") || content_type.starts_with("text/");
    let size = response.body().size_hint().exact();
    is_text
        && !content_type.starts_with("text/event-stream")
        && response.status() != StatusCode::PARTIAL_CONTENT
        && !headers.contains_key(header::CONTENT_ENCODING)
        && size.is_some_and(|size| (limits::COMPRESS_LEAST..=limits::COMPRESS_MOST).contains(&size))
}

async fn compressed(response: Response<Body>) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    let bytes = match body.collect().await {
        Ok(collected) => collected.to_bytes(),
        // A body of a known size is in memory.
        Err(error) => Bytes::from(format!("the answer cannot be read: {error}")),
    };
    let packed = match bytes.len() {
        ..limits::COMPRESS_HERE => gzip(&bytes),
        // Other requests should not wait for a large one.
        _ => {
            let bytes = bytes.clone();
            spawn_blocking(move || gzip(&bytes)).await.unwrap_or_default()
        }
    };
    parts.headers.append(header::VARY, HeaderValue::from_static("accept-encoding"));
    if packed.is_empty() || packed.len() >= bytes.len() {
        return Response::from_parts(parts, Body::from(bytes));
    }
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    Response::from_parts(parts, Body::from(packed))
}

/// Compressed cheaply, and with a comment of random length. Empty if that fails, which memory never does.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut random = [0; 1];
    // Without randomness there is no comment, and the answer is still right.
    let _ = getrandom::fill(&mut random);
    let comment = vec![b'-'; usize::from(random[0])];
    let mut encoder = GzBuilder::new().comment(comment).write(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use axum::Router;
    use axum::response::IntoResponse;
    use axum::routing::get;
    use tower_service::Service;

    use super::*;

    fn accepting(text: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::ACCEPT_ENCODING, text.parse().expect("a header"))])
    }

    #[test]
    fn a_client_says_whether_it_accepts_gzip() {
        for (text, expected) in [
            ("gzip", true),
            ("deflate, GZIP;q=0.5, br", true),
            ("gzip;q=0", false),
            ("*", true),
            ("*;q=0, gzip", true),
            ("gzip;q=0, *", false),
            ("br", false),
            ("", false),
            ("gzip;q=x", false),
        ] {
            assert_eq!(accepts_gzip(&accepting(text)), expected, "{text:?}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }

    async fn answer(path: &str, encoding: &str) -> (HeaderMap, Bytes) {
        let text = || "the same again and again ".repeat(200);
        let mut router = Router::new()
            .route("/api/v1/jobs", get(async move || axum::Json(text())))
            .route("/api/v1/auth/keys", get(async move || axum::Json(text())))
            .route("/short", get(async || axum::Json("short")))
            .route("/file", get(async move || ([(header::CONTENT_TYPE, "application/wasm")], text()).into_response()))
            .route(
                "/stream",
                get(async move || ([(header::CONTENT_TYPE, "text/event-stream")], text()).into_response()),
            )
            .layer(axum::middleware::from_fn(compress));
        let request = Request::builder().uri(path).header(header::ACCEPT_ENCODING, encoding);
        let request = request.body(Body::empty()).expect("a request");
        let response = router.call(request).await.expect("an answer");
        let headers = response.headers().clone();
        (headers, response.into_body().collect().await.expect("a body").to_bytes())
    }

    #[tokio::test]
    async fn a_large_answer_is_compressed_and_reads_back() {
        let (headers, packed) = answer("/api/v1/jobs", "gzip").await;
        assert_eq!(headers[header::CONTENT_ENCODING], "gzip");
        assert_eq!(headers[header::VARY], "accept-encoding");
        let mut text = String::new();
        flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut text).expect("gzip");
        let (plain_headers, plain) = answer("/api/v1/jobs", "br").await;
        assert_eq!((text.as_bytes(), plain_headers.get(header::CONTENT_ENCODING)), (&plain[..], None));
        assert!(packed.len() < plain.len() / 4, "{} of {}", packed.len(), plain.len());
    }

    #[tokio::test]
    async fn what_is_small_or_a_stream_or_no_text_or_may_be_secret_is_not_compressed() {
        for path in ["/short", "/stream", "/file", "/api/v1/auth/keys"] {
            assert!(!answer(path, "gzip").await.0.contains_key(header::CONTENT_ENCODING), "{path}");
        }
    }

    #[test]
    fn the_same_answer_has_many_sizes() {
        let text = "the same again and again ".repeat(200);
        let sizes: std::collections::BTreeSet<usize> = (0..64).map(|_| gzip(text.as_bytes()).len()).collect();
        assert!(sizes.len() > 16, "{sizes:?}");
    }
}
