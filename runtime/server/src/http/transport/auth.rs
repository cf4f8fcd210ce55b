//! Access control: a request must name this server by one of its names, must have the key if there is one, and must not come from a
//! web page of another site. Checked in this order, before any route sees the request.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::future::RouteFuture;
use futures_util::future::Either;
use hyper::body::Incoming;
use hyper::service::Service;
use subtle::ConstantTimeEq;

use crate::http::transport::error::{Error, Result};
use crate::http::transport::headers::{Guarded, guarded, is_only_https};
use crate::http::transport::host::Hosts;
use crate::http::transport::peer::{ClientAddress, Peer};
use crate::http::transport::throttle::Throttle;
use crate::http::transport::warnings::{Watched, watched};
use crate::limits;

/// The cookie for browsers, whose EventSource cannot send a custom header.
const COOKIE: &str = "windlass_key";

/// The one key of this server.
#[derive(Clone)]
pub struct Key(Arc<str>);

impl Key {
    pub fn new(key: &str) -> Key {
        Key(key.into())
    }

    /// Takes equally long for a wrong key and for the right one.
    fn matches(&self, sent: &str) -> bool {
        self.0.as_bytes().ct_eq(sent.as_bytes()).into()
    }
}

/// Paths that need no key, because they reveal nothing about jobs: the server's health and the description of the API.
const OPEN: [&str; 5] = ["/", "/healthz", "/readyz", "/openapi.json", "/docs"];

/// Checks each request, then passes it to its route. Not a layer of the router, because each layer costs
/// every request several allocations.
#[derive(Clone)]
pub struct AccessControl {
    router: Router,
    rules: Arc<Rules>,
    /// The connection on which the requests arrive.
    peer: Option<Peer>,
}

/// What is checked.
struct Rules {
    key: Option<Key>,
    hosts: Hosts,
    throttle: Throttle,
}

/// Whose request was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Admitted {
    /// Its path needs no key.
    Anybody,
    /// It has the key, or there is none.
    Known,
}

impl AccessControl {
    pub fn new(router: Router, key: Option<Key>, hosts: Hosts) -> AccessControl {
        AccessControl { router, rules: Arc::new(Rules { key, hosts, throttle: Throttle::default() }), peer: None }
    }

    /// Access control for the requests of one connection.
    pub fn of(&self, peer: Peer) -> AccessControl {
        AccessControl { peer: Some(peer), ..self.clone() }
    }

    fn admit<B>(&self, request: &Request<B>) -> Result<()> {
        let Some(peer) = &self.peer else { return self.rules.admit(request, None).map(drop) };
        let gone = || Error::overloaded("too many connections", limits::FETCH_RETRY);
        if !peer.slot.request_arrived() {
            return Err(gone());
        }
        match self.rules.admit(request, Some(peer.client(request.headers())))? {
            Admitted::Anybody => Ok(()),
            // From here on the connection keeps its slot.
            Admitted::Known if peer.slot.prove() => Ok(()),
            Admitted::Known => Err(gone()),
        }
    }
}

impl Service<Request<Incoming>> for AccessControl {
    type Response = Response;
    type Error = Infallible;
    type Future = Guarded<Either<Ready<std::result::Result<Response, Infallible>>, Watched<RouteFuture<Infallible>>>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let is_https = self.peer.as_ref().is_some_and(|peer| peer.is_https(request.headers()));
        let only_https = is_only_https(is_https, request.headers());
        let response = match self.admit(&request) {
            Ok(()) => Either::Right(watched(tower_service::Service::call(&mut self.router.clone(), request))),
            Err(error) => Either::Left(ready(Ok(refused(error)))),
        };
        guarded(response, only_https)
    }
}

fn refused(error: Error) -> Response {
    let mut response = error.into_response();
    let headers = response.headers_mut();
    // Whoever has no access does not keep a connection.
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    if response.status() == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

impl Rules {
    fn admit<B>(&self, request: &Request<B>, client: Option<ClientAddress>) -> Result<Admitted> {
        let headers = request.headers();
        self.hosts.check(request.uri(), headers)?;
        let Some(key) = &self.key else {
            // An admitted request may do everything, so none from a page of another site is admitted, whatever it asks for.
            return if is_foreign(request.method(), headers) { Err(foreign()) } else { Ok(Admitted::Known) };
        };
        if OPEN.contains(&request.uri().path()) {
            return Ok(Admitted::Anybody);
        }
        let shown = in_header(headers);
        // A page cannot make a browser send these headers to another site, but it can send requests with a cookie or without any key.
        if shown.is_none() && is_foreign(request.method(), headers) {
            return Err(foreign());
        }
        match shown.or_else(|| in_cookie(headers)) {
            Some(sent) if key.matches(sent) => {
                if let Some(client) = client {
                    self.throttle.right(client);
                }
                Ok(Admitted::Known)
            }
            Some(_) => Err(self.wrong_key(client)),
            None => Err(Error::unauthorized(
                "this server requires a key; send it as `X-API-Key: KEY` or `Authorization: Bearer KEY`",
            )),
        }
    }
}

impl Rules {
    fn wrong_key(&self, client: Option<ClientAddress>) -> Error {
        if let Some(client) = client {
            let now = Instant::now();
            if let Err(wait) = self.throttle.check(client, now) {
                return Error::rate_limited(
                    "too many wrong keys came from this address; wait, and send the right one",
                    wait,
                );
            }
            self.throttle.wrong(client, now);
        }
        Error::forbidden(
            "the key is wrong; send the one that the server was started with (--api-key or WINDLASS_API_KEY)",
        )
    }
}

fn foreign() -> Error {
    Error::forbidden(
        "the request comes from a web page of another site; only pages of this server may send it without a key",
    )
}

fn in_header(headers: &HeaderMap) -> Option<&str> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    text("x-api-key").or_else(|| {
        let (scheme, key) = text("authorization")?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(key.trim())
    })
}

fn in_cookie(headers: &HeaderMap) -> Option<&str> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = all.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == COOKIE).map(|(_, key)| key)
}

/// Whether a browser says that the request comes from a page of another origin. Following a link from there to here is allowed,
/// because the other page cannot read the response.
fn is_foreign(method: &Method, headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).map(HeaderValue::as_bytes);
    let own = |origin: &HeaderValue| {
        let origin = origin.as_bytes();
        let from = origin.windows(3).position(|part| part == b"://").map_or(origin, |at| &origin[at + 3..]);
        host == Some(from)
    };
    if !headers.get_all(header::ORIGIN).iter().all(own) {
        return true;
    }
    let says =
        |name: &'static str, value: &str| headers.get(name).is_some_and(|sent| sent.as_bytes() == value.as_bytes());
    let follows_link = || {
        (method == Method::GET || method == Method::HEAD)
            && says("sec-fetch-mode", "navigate")
            && says("sec-fetch-dest", "document")
    };
    (says("sec-fetch-site", "cross-site") || says("sec-fetch-site", "same-site")) && !follows_link()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The status with which a request is refused; 200 if it is admitted.
    #[track_caller]
    fn check(key: Option<&str>, request: &str, headers: &[(&'static str, &str)], expected: u16) {
        let (method, path) = request.split_once(' ').expect("a method and a path");
        let mut built = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            built = built.header(*name, *value);
        }
        if !headers.iter().any(|(name, _)| *name == "host") {
            built = built.header("host", "localhost:7070");
        }
        let address = "127.0.0.1:7070";
        let hosts = Hosts::new(address, address.parse().expect("an address"), &[]);
        let rules = Rules { key: key.map(Key::new), hosts, throttle: Throttle::default() };
        let admitted = rules.admit(&built.body(()).expect("a request"), None);
        let status = admitted.map_or_else(|error| error.into_response().status(), |_| StatusCode::OK);
        assert_eq!(status.as_u16(), expected, "{request} {headers:?}");
    }

    const KEY: Option<&str> = Some("k-0123456789");

    #[test]
    fn a_key_is_read_from_either_header_or_the_cookie() {
        let get = "GET /api/v1/queues";
        check(None, get, &[], 200);
        check(KEY, get, &[], 401);
        check(KEY, get, &[("x-api-key", "k-0123456789")], 200);
        check(KEY, get, &[("x-api-key", "k-0123456780")], 403);
        check(KEY, get, &[("authorization", "bearer k-0123456789")], 200);
        check(KEY, get, &[("authorization", "Basic k-0123456789")], 401);
        check(KEY, get, &[("cookie", "a=b; windlass_key=k-0123456789")], 200);
        check(KEY, "GET /healthz", &[], 200);
    }

    #[test]
    fn a_page_of_another_site_is_refused_unless_it_shows_the_key_itself() {
        let post = "POST /api/v1/enqueue";
        check(None, post, &[("origin", "http://localhost:7070")], 200);
        check(None, post, &[("origin", "https://evil.example")], 403);
        check(KEY, post, &[("origin", "null"), ("x-api-key", "k-0123456789")], 200);
        check(KEY, post, &[("origin", "null"), ("cookie", "windlass_key=k-0123456789")], 403);
    }

    #[test]
    fn without_a_key_no_page_of_another_site_gets_anything() {
        for request in ["GET /api/v1/queues", "GET /healthz", "POST /api/v1/enqueue", "DELETE /api/v1/plugins/x"] {
            for origin in
                ["https://evil.example", "null", "http://localhost:3000", "", "http://localhost:7070.evil.example"]
            {
                check(None, request, &[("origin", origin)], 403);
                check(None, request, &[("origin", origin), ("x-api-key", "any-key-at-all")], 403);
            }
            check(None, request, &[("origin", "http://localhost:7070"), ("origin", "https://evil.example")], 403);
            check(None, request, &[("origin", "http://ev\u{ef}l.example")], 403);
            check(None, request, &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")], 403);
            check(None, request, &[("sec-fetch-site", "same-site")], 403);
            check(None, request, &[("sec-fetch-site", "same-origin"), ("origin", "http://localhost:7070")], 200);
            check(None, request, &[("sec-fetch-site", "none")], 200);
        }
    }

    #[test]
    fn a_person_may_follow_a_link_but_not_a_frame_or_a_form() {
        let link = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
        check(None, "GET /docs", &link, 200);
        check(None, "POST /api/v1/enqueue", &link, 403);
        let frame = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")];
        check(None, "GET /docs", &frame, 403);
    }

    #[test]
    fn another_host_name_is_refused_before_the_key_is_checked_and_for_open_paths() {
        for path in ["GET /healthz", "GET /docs", "GET /api/v1/queues"] {
            for key in [None, KEY] {
                let rebound = [("host", "evil.example:7070"), ("origin", "http://evil.example:7070")];
                check(key, path, &rebound, 421);
                check(key, path, &[("host", "evil.example"), ("x-api-key", "k-0123456789")], 421);
            }
        }
    }

    #[test]
    fn wrong_keys_are_throttled_by_client_and_the_right_one_never_is() {
        let hosts = Hosts::new("127.0.0.1:7070", "127.0.0.1:7070".parse().expect("an address"), &[]);
        let rules = Rules { key: KEY.map(Key::new), hosts, throttle: Throttle::default() };
        let send = |key: &str, client: [u8; 4]| {
            let request = Request::builder().uri("/api/v1/queues").header("host", "localhost").header("x-api-key", key);
            let client = ClientAddress::new(client.into());
            let admitted = rules.admit(&request.body(()).expect("a request"), Some(client));
            admitted.map_or_else(|error| error.into_response().status(), |_| StatusCode::OK).as_u16()
        };
        let (one, other) = ([192, 0, 2, 1], [192, 0, 2, 2]);
        for _ in 0..limits::WRONG_KEYS {
            assert_eq!(send("wrong", one), 403);
        }
        assert_eq!((send("wrong", one), send("wrong", other)), (429, 403));
        assert_eq!(send("k-0123456789", one), 200);
        assert_eq!(send("wrong", one), 403, "it starts again");
    }
}
