//! `/jobs/{id}/result` and `/jobs/{id}/payload`: a body unchanged, with its own content type. What a handler produced
//! must never run as a page of this server, so the type is one of three that cannot run, and a header keeps the browser
//! from guessing another.

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde_json::value::RawValue;
use windlass_core::{BodyKind, Job, Refusal};

use crate::http::Api;
use crate::http::transport::error::{Error, Result};
use crate::http::transport::extract::JobPath;

/// The bytes of a job's result
///
/// `application/json` when it is JSON, `text/plain` when it is other text, and otherwise `application/octet-stream`.
#[utoipa::path(
    get,
    path = "/jobs/{id}/result",
    tag = "jobs",
    responses(
        (
            status = 200,
            description = "The bytes that the handler returned.",
            content((serde_json::Value = "application/json"), (String = "text/plain"), (Vec<u8> = "application/octet-stream"))
        ),
        (status = 404, description = "There is no such job, or it has no result.")
    )
)]
pub async fn result(api: Api, JobPath(id): JobPath) -> Result<Response> {
    let store = api.store.frozen();
    let job = store.job(id).await?.ok_or_else(|| Refusal::not_found("job", id))?;
    let bytes = store.body(&job, BodyKind::Result).await?.ok_or_else(|| no_result(&job))?;
    Ok(raw(bytes, &job, "result"))
}

/// The bytes of a job's payload
///
/// `application/json` when it is JSON, `text/plain` when it is other text, and otherwise `application/octet-stream`.
#[utoipa::path(
    get,
    path = "/jobs/{id}/payload",
    tag = "jobs",
    responses(
        (
            status = 200,
            description = "The bytes that the handler is given.",
            content((serde_json::Value = "application/json"), (String = "text/plain"), (Vec<u8> = "application/octet-stream"))
        )
    )
)]
pub async fn payload(api: Api, JobPath(id): JobPath) -> Result<Response> {
    let store = api.store.frozen();
    let job = store.job(id).await?.ok_or_else(|| Refusal::not_found("job", id))?;
    let bytes = store.body(&job, BodyKind::Payload).await?.unwrap_or_default();
    Ok(raw(bytes, &job, "payload"))
}

fn no_result(job: &Job) -> Error {
    let (id, state) = (job.id, job.state.as_str());
    if job.state.is_ended() {
        return Error::not_found(format!("job {id} is {state} and has no result"));
    }
    Error::not_found(format!("job {id} is {state} and has no result yet; GET /api/v1/jobs/{id}/wait waits for its end"))
}

fn raw(bytes: Bytes, job: &Job, what: &str) -> Response {
    let (content_type, disposition, extension) = kind(&bytes);
    let file = format!("{disposition}; filename=\"{}-{what}.{extension}\"", job.id);
    let mut response = bytes.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    const POLICY: HeaderValue = HeaderValue::from_static("sandbox; default-src 'none'; frame-ancestors 'none'");
    headers.insert(header::CONTENT_SECURITY_POLICY, POLICY);
    // An id consists of letters, digits and `_`, so it is valid in a header.
    if let Ok(file) = HeaderValue::from_str(&file) {
        headers.insert(header::CONTENT_DISPOSITION, file);
    }
    response
}

/// The content type, whether a browser shows or saves it, and its file extension.
fn kind(bytes: &[u8]) -> (&'static str, &'static str, &'static str) {
    if serde_json::from_slice::<&RawValue>(bytes).is_ok() {
        ("application/json", "inline", "json")
    } else if std::str::from_utf8(bytes).is_ok_and(|text| !text.contains('\0')) {
        ("text/plain; charset=utf-8", "inline", "txt")
    } else {
        ("application/octet-stream", "attachment", "bin")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_type_follows_from_the_bytes_and_is_never_a_page() {
        for (bytes, expected) in [
            (&b"{\"a\": 1}"[..], "application/json"),
            (b" 17 ", "application/json"),
            (b"plain text", "text/plain; charset=utf-8"),
            ("caf\u{e9}".as_bytes(), "text/plain; charset=utf-8"),
            (b"", "text/plain; charset=utf-8"),
            (b"<!doctype html><script>alert(1)</script>", "text/plain; charset=utf-8"),
            (b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>", "text/plain; charset=utf-8"),
            (b"\x89PNG\r\n\x1a\n", "application/octet-stream"),
            (b"text with a \0 in it", "application/octet-stream"),
        ] {
            assert_eq!(kind(bytes).0, expected, "{bytes:?}");
        }
    }
}
