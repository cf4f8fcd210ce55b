//! Access control: a request must name this server by one of its names, must not come from a web page of another site, and its sender
//! must be known and have the permission that the route needs. Checked in this order, before any route sees the request.

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
use windlass_core::access::Permission;
use windlass_store::Caller;

use crate::http::access::{Authority, Refused, RouteTable};
use crate::http::produce::inbound::{Signed, authenticates_itself};
use crate::http::transport::error::{Error, Result};
use crate::http::transport::headers::{Guarded, guarded, is_only_https};
use crate::http::transport::host::Hosts;
use crate::http::transport::peer::{ClientAddress, Peer};
use crate::http::transport::throttle::Throttle;
use crate::http::transport::warnings::{Watched, watched};
use crate::limits;
use crate::webhooks::inbound::InboundHooks;

/// The cookie for browsers, whose EventSource cannot send a custom header.
const COOKIE: &str = "windlass_key";

/// Checks each request, then passes it to its route. Not a layer of the router, because each layer costs
/// every request several allocations.
#[derive(Clone)]
pub struct AccessControl {
    router: Router,
    rules: Arc<Rules>,
    /// The connection on which the requests arrive.
    peer: Option<Peer>,
}

/// Whose request was admitted.
struct Admitted {
    caller: Caller,
    /// It needs no key, because its signature will be verified.
    signed: Option<Signed>,
}

/// What is checked.
struct Rules {
    hosts: Hosts,
    routes: RouteTable,
    authority: Authority,
    throttle: Throttle,
    inbound: InboundHooks,
}

impl AccessControl {
    pub fn new(
        router: Router,
        hosts: Hosts,
        routes: RouteTable,
        authority: Authority,
        inbound: InboundHooks,
    ) -> AccessControl {
        let rules = Rules { hosts, routes, authority, throttle: Throttle::default(), inbound };
        AccessControl { router, rules: Arc::new(rules), peer: None }
    }

    /// Access control for the requests of one connection.
    pub fn of(&self, peer: Peer) -> AccessControl {
        AccessControl { peer: Some(peer), ..self.clone() }
    }

    fn admit<B>(&self, request: &Request<B>) -> Result<Admitted> {
        let Some(peer) = &self.peer else { return self.rules.admit(request, None) };
        let gone = || Error::overloaded("too many connections", limits::FETCH_RETRY);
        if !peer.slot.request_arrived() {
            return Err(gone());
        }
        let admitted = self.rules.admit(request, Some(peer.client(request.headers())))?;
        // A connection of somebody who was recognised keeps its slot.
        if admitted.caller.actor.role.is_some() && !peer.slot.prove() {
            return Err(gone());
        }
        Ok(admitted)
    }
}

impl Service<Request<Incoming>> for AccessControl {
    type Response = Response;
    type Error = Infallible;
    type Future = Guarded<Either<Ready<std::result::Result<Response, Infallible>>, Watched<RouteFuture<Infallible>>>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        let is_https = self.peer.as_ref().is_some_and(|peer| peer.is_https(request.headers()));
        let only_https = is_only_https(is_https, request.headers());
        let response = match self.admit(&request) {
            Ok(Admitted { caller, signed }) => {
                request.extensions_mut().insert(Arc::new(caller));
                if let Some(signed) = signed {
                    request.extensions_mut().insert(signed);
                }
                Either::Right(watched(tower_service::Service::call(&mut self.router.clone(), request)))
            }
            Err(error) => Either::Left(ready(Ok(refused(error)))),
        };
        guarded(response, only_https)
    }
}

fn refused(error: Error) -> Response {
    let mut response = error.into_response();
    if response.status() == StatusCode::UNAUTHORIZED {
        let headers = response.headers_mut();
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        // Whoever has no access does not keep a connection.
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

impl Rules {
    fn admit<B>(&self, request: &Request<B>, client: Option<ClientAddress>) -> Result<Admitted> {
        let (method, headers) = (request.method(), request.headers());
        self.hosts.check(request.uri(), headers)?;
        if let Some(signed) = authenticates_itself(&self.inbound, request) {
            return Ok(Admitted { caller: signed.caller(client.map(ClientAddress::ip)), signed: Some(signed) });
        }
        let path = request.uri().path();
        let needed = self.routes.permission(method, path);
        let shown = in_header(headers);
        // A page cannot make a browser send a key in a header to another site, but it can send requests with a cookie or without any
        // key. Without keys every admitted request may do everything, so none from a page of another site is.
        let proves_itself = shown.is_some() && !self.authority.is_open();
        let harmless = needed == Permission::Public && !self.authority.is_open();
        if !proves_itself && !harmless && is_foreign(method, headers) {
            return Err(foreign());
        }
        let sent = shown.or_else(|| in_cookie(headers));
        if let (Some(client), Some(_)) = (client, sent)
            && let Err(wait) = self.throttle.check(client, Instant::now())
            && !self.authority.recognises(sent)
        {
            return Err(Error::rate_limited(
                "too many wrong keys came from this address; wait, and send the right one",
                wait,
            ));
        }
        match self.authority.admit(sent, headers, needed, client.map(ClientAddress::ip)) {
            Ok(caller) => {
                if let (Some(client), Some(_)) = (client, caller.actor.role) {
                    self.throttle.right(client);
                }
                Ok(Admitted { caller, signed: None })
            }
            Err(Refused::WrongKey(error)) => {
                if let Some(client) = client {
                    self.throttle.wrong(client, Instant::now());
                }
                Err(error)
            }
            Err(Refused::NotPermitted(caller, error)) => {
                self.authority.note_denied(&caller, &format!("{method} {path}"));
                Err(error)
            }
            Err(Refused::Other(error)) => Err(error),
        }
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

    #[track_caller]
    fn check(request: &str, headers: &[(&'static str, &str)], expected: bool) {
        let (method, _) = request.split_once(' ').expect("a method and a path");
        let mut map = HeaderMap::new();
        map.append("host", HeaderValue::from_static("localhost:7070"));
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_bytes(value.as_bytes()).expect("a value"));
        }
        let method: Method = method.parse().expect("a method");
        assert_eq!(is_foreign(&method, &map), expected, "{request} {headers:?}");
    }

    fn headers(name: &'static str, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name.parse().expect("a name"), HeaderValue::from_static(value))])
    }

    #[test]
    fn a_key_is_read_from_either_header_or_the_cookie() {
        assert_eq!(in_header(&headers("x-api-key", "k")), Some("k"));
        assert_eq!(in_header(&headers("authorization", "bearer k")), Some("k"));
        assert_eq!(in_header(&headers("authorization", "Basic k")), None);
        assert_eq!(in_cookie(&headers("cookie", "a=b; windlass_key=k")), Some("k"));
        assert_eq!(in_cookie(&headers("cookie", "windlass_keys=k")), None);
    }

    #[test]
    fn a_page_of_another_origin_is_recognised_by_what_its_browser_says() {
        let post = "POST /api/v1/enqueue";
        check(post, &[], false);
        check(post, &[("origin", "http://localhost:7070")], false);
        for origin in
            ["https://evil.example", "null", "http://localhost:3000", "", "http://localhost:7070.evil.example"]
        {
            check(post, &[("origin", origin)], true);
        }
        check(post, &[("origin", "http://localhost:7070"), ("origin", "https://evil.example")], true);
        check(post, &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")], true);
        check(post, &[("sec-fetch-site", "same-site")], true);
        check(post, &[("sec-fetch-site", "same-origin"), ("origin", "http://localhost:7070")], false);
        check(post, &[("sec-fetch-site", "none")], false);
    }

    #[test]
    fn a_person_may_follow_a_link_but_not_a_frame_or_a_form() {
        let link = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
        check("GET /docs", &link, false);
        check("POST /api/v1/enqueue", &link, true);
        let frame = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")];
        check("GET /docs", &frame, true);
    }
}
