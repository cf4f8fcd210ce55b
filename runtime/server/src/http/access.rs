//! Who may come in: whoever has the key, when there is one, and never a page of somebody else's site.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::future::RouteFuture;
use futures_util::future::Either;
use hyper::body::Incoming;
use hyper::service::Service;
use subtle::ConstantTimeEq;

use super::error::{Error, Result};

/// The cookie for browsers, whose EventSource cannot send a header of ours.
const COOKIE: &str = "windlass_key";

/// The one key of this server.
#[derive(Clone)]
pub struct Key(Arc<str>);

impl Key {
    pub fn new(key: &str) -> Key {
        Key(key.into())
    }

    /// Takes as long for a wrong key as for the right one.
    fn fits(&self, sent: &str) -> bool {
        self.0.as_bytes().ct_eq(sent.as_bytes()).into()
    }
}

/// What tells nothing of anybody's jobs: whether the server lives, and how it is spoken to.
const OPEN: [&str; 4] = ["/healthz", "/readyz", "/openapi.json", "/docs"];

/// The door of the server: looks at who comes, then hands the request to its route. Not a layer of the router, whose layers cost
/// every request several allocations.
#[derive(Clone)]
pub struct Door {
    router: Router,
    key: Option<Key>,
}

impl Door {
    pub fn new(router: Router, key: Option<Key>) -> Door {
        Door { router, key }
    }
}

impl Service<Request<Incoming>> for Door {
    type Response = Response;
    type Error = Infallible;
    type Future = Either<Ready<std::result::Result<Response, Infallible>>, RouteFuture<Infallible>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let admitted =
            if OPEN.contains(&request.uri().path()) { Ok(()) } else { admit(self.key.as_ref(), request.headers()) };
        match admitted {
            Ok(()) => Either::Right(tower_service::Service::call(&mut self.router.clone(), request)),
            Err(error) => Either::Left(ready(Ok(refused(error)))),
        }
    }
}

fn refused(error: Error) -> Response {
    let mut response = error.into_response();
    if response.status() == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

fn admit(key: Option<&Key>, headers: &HeaderMap) -> Result<()> {
    let shown = in_header(headers);
    // A page cannot make a browser send these headers to another site. A cookie, or nothing at all, it can.
    if shown.is_none() && is_foreign(headers) {
        return Err(Error::forbidden("a page of another site asked for this; only this server's own pages may"));
    }
    let Some(key) = key else { return Ok(()) };
    match shown.or_else(|| in_cookie(headers)) {
        Some(sent) if key.fits(sent) => Ok(()),
        Some(_) => {
            Err(Error::forbidden("this is not the key; it is what --api-key or WINDLASS_API_KEY of the server says"))
        }
        None => Err(Error::unauthorized("a key is needed; send it as `X-API-Key: KEY` or `Authorization: Bearer KEY`")),
    }
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

/// Whether a browser says that the request comes from a page of another origin.
fn is_foreign(headers: &HeaderMap) -> bool {
    let text = |name: header::HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let Some(origin) = text(header::ORIGIN) else { return false };
    let from = origin.split_once("://").map_or(origin, |(_, host)| host);
    text(header::HOST) != Some(from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(key: Option<&str>, headers: &[(&'static str, &str)], admitted: bool) {
        let map: HeaderMap = headers
            .iter()
            .map(|(name, value)| (header::HeaderName::from_static(name), value.parse().expect("a header")))
            .collect();
        let key = key.map(Key::new);
        assert_eq!(admit(key.as_ref(), &map).is_ok(), admitted, "{headers:?}");
    }

    #[test]
    fn a_key_is_taken_from_either_header_or_the_cookie() {
        check(None, &[], true);
        let key = Some("k-0123456789");
        check(key, &[], false);
        check(key, &[("x-api-key", "k-0123456789")], true);
        check(key, &[("x-api-key", "k-0123456780")], false);
        check(key, &[("authorization", "bearer k-0123456789")], true);
        check(key, &[("authorization", "Basic k-0123456789")], false);
        check(key, &[("cookie", "a=b; windlass_key=k-0123456789")], true);
    }

    #[test]
    fn a_page_of_another_site_is_refused_unless_it_shows_the_key_itself() {
        check(None, &[("host", "localhost:7070"), ("origin", "http://localhost:7070")], true);
        check(None, &[("host", "localhost:7070"), ("origin", "https://evil.example")], false);
        let foreign = [("host", "localhost:7070"), ("origin", "null"), ("x-api-key", "k-0123456789")];
        check(Some("k-0123456789"), &foreign, true);
    }
}
