//! The headers that every response has, refusals included: they tell a browser not to guess, load, frame or reveal
//! anything.
//!
//! `AccessControl` passes each response through [`guarded`]. A response that needs more than the rest, such as a page
//! with a style, brings a policy of its own, which is left as it is.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use pin_project_lite::pin_project;
use sha2::{Digest, Sha256};
use windlass_store::Caller;

use crate::http::access::Authority;

/// A response that is no page loads nothing and is shown in no frame.
const CLOSED: HeaderValue = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
const NO_SNIFF: HeaderValue = HeaderValue::from_static("nosniff");
const ANY: HeaderValue = HeaderValue::from_static("*");
const NO_REFERRER: HeaderValue = HeaderValue::from_static("no-referrer");
/// The console runs its own scripts, styles and workers, all of them files of this server, and talks to this server
/// alone. Nothing becomes code or markup from a string.
pub const CONSOLE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
     worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
     trusted-types windlass";
/// A year. Only for this name, because those below it may belong to other programs.
const ONLY_HTTPS: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// The answer to a browser that asks whether a page of another site may send a request: any may enqueue here, without a
/// key or a cookie.
pub fn preflight() -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, ANY);
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("POST"));
    let allowed = "content-type, idempotency-key, x-windlass-namespace";
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(allowed));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}

/// What a response gets besides the headers that each has.
#[derive(Default)]
pub struct More {
    /// A browser never again asks this host without TLS.
    pub only_https: bool,
    /// Pages of any site may read the response.
    pub any_page: bool,
    /// Called if the response is that the caller may not do this.
    pub forbidden: Option<Forbidden>,
}

/// Who asked for what, for the audit log.
pub struct Forbidden {
    pub authority: Authority,
    pub caller: Arc<Caller>,
    pub method: Method,
    pub uri: Uri,
}

pin_project! {
    /// A response that gets the headers when it is there.
    pub struct Guarded<F> {
        #[pin]
        response: F,
        more: More,
    }
}

/// Adds the headers to a response.
pub fn guarded<F>(response: F, more: More) -> Guarded<F> {
    Guarded { response, more }
}

impl<F, E> Future for Guarded<F>
where
    F: Future<Output = Result<Response, E>>,
{
    type Output = Result<Response, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut response = ready!(this.response.poll(context))?;
        if response.status() == StatusCode::FORBIDDEN
            && let Some(Forbidden { authority, caller, method, uri }) = this.more.forbidden.take()
        {
            authority.note_denied(&caller, &format!("{method} {}", uri.path()));
        }
        add(response.headers_mut(), this.more.only_https);
        if this.more.any_page {
            response.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, ANY);
        }
        Poll::Ready(Ok(response))
    }
}

fn add(headers: &mut HeaderMap, only_https: bool) {
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, NO_SNIFF);
    headers.insert(header::REFERRER_POLICY, NO_REFERRER);
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(CLOSED);
    if only_https {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, ONLY_HTTPS);
    }
}

/// The same for a response that is written by hand.
pub fn by_hand() -> String {
    let mut headers = HeaderMap::new();
    add(&mut headers, false);
    let lines = headers.iter().map(|(name, value)| format!("{name}: {}\r\n", value.to_str().unwrap_or_default()));
    lines.collect()
}

/// Whether a browser should be told to use only https for the host of a request: if the client uses it, and the name is
/// not `localhost`, under which other programs of the machine may speak plain HTTP.
pub fn is_only_https(is_https: bool, headers: &HeaderMap) -> bool {
    let local = |host: &HeaderValue| {
        let name = host.as_bytes().split(|byte| *byte == b':').next().unwrap_or_default();
        name.eq_ignore_ascii_case(b"localhost")
    };
    is_https && !headers.get(header::HOST).is_some_and(local)
}

/// The policy of a page with its style and script inside: it may use these, which are named by their digests, and read
/// from this server.
pub fn page_policy(page: &str) -> String {
    let digests = |tag: &str| {
        let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
        let parts = page.split(open.as_str()).skip(1).filter_map(|rest| rest.split_once(close.as_str()));
        let named = parts.map(|(inside, _)| format!(" 'sha256-{}'", BASE64_STANDARD.encode(Sha256::digest(inside))));
        let named: String = named.collect();
        if named.is_empty() { " 'none'".to_owned() } else { named }
    };
    format!(
        "default-src 'none'; style-src{}; script-src{}; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        digests("style"),
        digests("script")
    )
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    async fn headers(response: impl IntoResponse, only_https: bool) -> HeaderMap {
        let response = std::future::ready(Ok::<_, Infallible>(response.into_response()));
        let Ok(response) = guarded(response, More { only_https, ..More::default() }).await;
        response.headers().clone()
    }

    #[tokio::test]
    async fn every_response_has_the_headers_and_keeps_a_policy_of_its_own() {
        let plain = headers("text", false).await;
        assert_eq!(plain["x-content-type-options"], "nosniff");
        assert_eq!(plain["referrer-policy"], "no-referrer");
        assert_eq!(plain["content-security-policy"], "default-src 'none'; frame-ancestors 'none'");
        assert!(!plain.contains_key("strict-transport-security"));
        let own = headers(([(header::CONTENT_SECURITY_POLICY, "sandbox")], "text"), true).await;
        assert_eq!(own["content-security-policy"], "sandbox");
        assert_eq!(own["strict-transport-security"], "max-age=31536000");
        assert!(by_hand().contains("x-content-type-options: nosniff\r\n"));
    }

    #[test]
    fn a_browser_is_bound_to_https_except_for_localhost() {
        for (is_https, host, expected) in [
            (true, "jobs.example.com", true),
            (true, "jobs.example.com:7070", true),
            (true, "localhost:7070", false),
            (true, "LocalHost", false),
            (true, "localhost.example.com", true),
            (false, "jobs.example.com", false),
        ] {
            let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_static(host))]);
            assert_eq!(is_only_https(is_https, &headers), expected, "{is_https} {host}");
        }
    }

    #[test]
    fn a_page_may_use_its_own_style_and_script_and_no_other() {
        // The digests are those of `openssl dgst -sha256 -binary | base64`, as a browser computes them.
        let policy = page_policy("<style>a {}</style><p><script>run()</script>");
        assert!(policy.contains("style-src 'sha256-mkSHzL7faOU7/U/v8Umg+058R69+vN2A2xmE3Fz1q98=';"), "{policy}");
        assert!(policy.contains("script-src 'sha256-AvyuiL0SD1mVY3NNxR+V2uo+lhk6RMFrytWmRt6CrJQ=';"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert!(page_policy("<p>").contains("script-src 'none'"));
    }
}
