//! Warnings about a request that succeeded: collected while it is handled, and added to its response as
//! `warnings`, a list of sentences.
//!
//! The list is task-local, so that handlers need not pass it around. It allocates nothing for a request without
//! warnings.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use pin_project_lite::pin_project;
use tokio::task::futures::TaskLocalFuture;

tokio::task_local! {
    static WARNINGS: RefCell<Vec<String>>;
}

/// The header for warnings of a response that is not a JSON object.
const HEADER: HeaderName = HeaderName::from_static("windlass-warning");

/// Adds a warning to the response of the current request.
pub fn add(warning: String) {
    // Outside of a request there is no response to add it to.
    let _ = WARNINGS.try_with(|warnings| warnings.borrow_mut().push(warning));
}

/// Takes all warnings so far, for a handler that puts them into its response itself.
pub fn take() -> Vec<String> {
    WARNINGS.try_with(|warnings| std::mem::take(&mut *warnings.borrow_mut())).unwrap_or_default()
}

pin_project! {
    /// A request that is being handled, then its response to which warnings are added.
    #[project = WatchedProjection]
    pub enum Watched<F> {
        Handled { #[pin] handler: TaskLocalFuture<RefCell<Vec<String>>, F> },
        Attaching { answer: BoxFuture<'static, Response> },
    }
}

/// Collects the warnings of a handler, and adds them to its response.
pub fn watched<F>(handler: F) -> Watched<F>
where
    F: Future,
{
    Watched::Handled { handler: WARNINGS.scope(RefCell::new(Vec::new()), handler) }
}

impl<F, E> Future for Watched<F>
where
    F: Future<Output = Result<Response, E>>,
{
    type Output = Result<Response, E>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let WatchedProjection::Handled { mut handler } = self.as_mut().project() {
            let response = ready!(handler.as_mut().poll(context))?;
            let warnings = handler.take_value().map(RefCell::into_inner).unwrap_or_default();
            if warnings.is_empty() {
                return Poll::Ready(Ok(response));
            }
            self.set(Watched::Attaching { answer: Box::pin(attach(response, warnings)) });
        }
        match self.project() {
            WatchedProjection::Attaching { answer } => answer.as_mut().poll(context).map(Ok),
            WatchedProjection::Handled { .. } => Poll::Pending,
        }
    }
}

/// Adds warnings to a response: to its JSON object, or otherwise as headers.
async fn attach(response: Response, warnings: Vec<String>) -> Response {
    let is_json = response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
    if !is_json {
        return in_headers(response, &warnings);
    }
    let (mut parts, body) = response.into_parts();
    // A body that fails here would have failed while it was sent.
    let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
    match with_field(&bytes, &warnings) {
        Some(bytes) => {
            parts.headers.remove(header::CONTENT_LENGTH);
            Response::from_parts(parts, Body::from(bytes))
        }
        None => in_headers(Response::from_parts(parts, Body::from(bytes)), &warnings),
    }
}

/// The object with an additional field and its own bytes unchanged; `None` if it is not an object.
fn with_field(object: &[u8], warnings: &[String]) -> Option<Bytes> {
    let rest = object.trim_ascii().strip_prefix(b"{")?;
    let mut whole = br#"{"warnings":"#.to_vec();
    serde_json::to_writer(&mut whole, warnings).ok()?;
    if rest.trim_ascii_start().first() != Some(&b'}') {
        whole.push(b',');
    }
    whole.extend_from_slice(rest);
    Some(whole.into())
}

fn in_headers(mut response: Response, warnings: &[String]) -> Response {
    for warning in warnings {
        let text: String = warning.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        if let Ok(value) = HeaderValue::from_bytes(text.as_bytes()) {
            response.headers_mut().append(HEADER, value);
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::Json;
    use axum::http::StatusCode;
    use axum::response::IntoResponse;
    use serde_json::{Value, json};

    use super::*;

    async fn answered(handler: impl Future<Output = Response>) -> (Response, Vec<u8>) {
        let handler = async { Ok::<_, Infallible>(handler.await) };
        let Ok(response) = watched(Box::pin(handler)).await;
        let (parts, body) = response.into_parts();
        let bytes = axum::body::to_bytes(body, usize::MAX).await.expect("a body");
        (Response::from_parts(parts, Body::empty()), bytes.to_vec())
    }

    #[tokio::test]
    async fn warnings_become_a_field_of_the_answer_and_change_nothing_else() {
        let (_, bytes) = answered(async {
            add("one".to_owned());
            tokio::task::yield_now().await;
            add("two".to_owned());
            ([(header::CONTENT_TYPE, "application/json")], r#"{"n": 1.50}"#).into_response()
        })
        .await;
        assert_eq!(String::from_utf8_lossy(&bytes), r#"{"warnings":["one","two"],"n": 1.50}"#);
        let (_, bytes) = answered(async {
            add("one".to_owned());
            Json(json!({})).into_response()
        })
        .await;
        assert_eq!(serde_json::from_slice::<Value>(&bytes).expect("JSON"), json!({"warnings": ["one"]}));
    }

    #[tokio::test]
    async fn an_answer_that_is_no_object_has_them_in_headers() {
        for response in [StatusCode::NO_CONTENT.into_response(), Json(json!([1])).into_response()] {
            let (response, _) = answered(async move {
                add("line\none".to_owned());
                add("two \u{e9}".to_owned());
                response
            })
            .await;
            let headers: Vec<_> = response.headers().get_all(HEADER).iter().map(HeaderValue::as_bytes).collect();
            assert_eq!(headers, ["line one".as_bytes(), "two \u{e9}".as_bytes()]);
        }
    }

    #[tokio::test]
    async fn one_request_does_not_get_the_warnings_of_another() {
        let (_, bytes) = answered(async {
            add("taken".to_owned());
            assert_eq!(take(), ["taken"]);
            Json(json!({"a": 1})).into_response()
        })
        .await;
        assert_eq!(bytes, br#"{"a":1}"#);
        add("outside of a request".to_owned());
        assert!(take().is_empty());
    }
}
