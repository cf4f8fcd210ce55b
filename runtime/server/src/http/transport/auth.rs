//! Access control: a request must name this server by one of its names, must not come from a web page of another site,
//! and its sender must be known and have the permission that the route needs. Checked in this order, before any route
//! sees the request.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderValue, Method, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::future::RouteFuture;
use futures_util::future::{BoxFuture, Either, FutureExt};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::service::Service;
use tokio::time::timeout;
use windlass_core::access::Permission::{Anybody, Enqueue, Public};
use windlass_store::Caller;

use crate::http::access::{Authority, Refused, RouteTable};
use crate::http::produce::inbound::{Signed, authenticates_itself};
use crate::http::transport::credentials::{Credentials, in_cookie, in_header};
use crate::http::transport::error::{Error, Result};
use crate::http::transport::headers::{Forbidden, Guarded, More, guarded, is_only_https, preflight};
use crate::http::transport::host::Hosts;
use crate::http::transport::peer::{ClientAddress, Peer};
use crate::http::transport::same_origin::{check_console, check_foreign, is_foreign, is_safe};
use crate::http::transport::warnings::{Watched, watched};
use crate::limits;
use crate::oidc::Oidc;
use crate::webhooks::inbound::InboundHooks;

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
    caller: Arc<Caller>,
    /// It needs no key, because its signature will be verified.
    signed: Option<Signed>,
    /// It comes from a page of another site, and is let in as anybody's: such a page may read the response.
    any_page: bool,
    /// The request may be about a session, whose cookie is for https only if this is.
    https: Option<Https>,
}

/// Whether the client of a request that may be about a session uses https.
#[derive(Clone, Copy, Debug)]
pub struct Https(pub bool);

/// What is checked.
struct Rules {
    hosts: Hosts,
    routes: RouteTable,
    authority: Authority,
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
        let rules = Rules { hosts, routes, authority, inbound };
        AccessControl { router, rules: Arc::new(rules), peer: None }
    }

    /// Access control for the requests of one connection.
    pub fn of(&self, peer: Peer) -> AccessControl {
        AccessControl { peer: Some(peer), ..self.clone() }
    }

    fn admit<B>(&self, request: &Request<B>, is_https: bool) -> Result<Admitted> {
        let Some(peer) = &self.peer else { return self.rules.admit(request, None, is_https) };
        let gone = || Error::overloaded("too many connections", limits::FETCH_RETRY);
        if !peer.slot.request_arrived() {
            return Err(gone());
        }
        let admitted = self.rules.admit(request, Some(peer.client(request.headers())), is_https)?;
        // A connection of somebody who was recognised keeps its slot.
        if admitted.caller.actor.role.is_some() && !peer.slot.prove() {
            return Err(gone());
        }
        Ok(admitted)
    }
}

type Answered = std::result::Result<Response, Infallible>;
/// The response to a request for which nobody else has to be asked first.
type AtOnce = Either<Ready<Answered>, Watched<RouteFuture<Infallible>>>;

impl Service<Request<Incoming>> for AccessControl {
    type Response = Response;
    type Error = Infallible;
    type Future = Guarded<Either<AtOnce, BoxFuture<'static, Answered>>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let is_https = self.peer.as_ref().is_some_and(|peer| peer.is_https(request.headers()));
        let only_https = is_only_https(is_https, request.headers());
        if self.rules.is_preflight(&request) {
            return guarded(Either::Left(Either::Left(ready(Ok(preflight())))), More { only_https, ..More::default() });
        }
        let mut more = More { only_https, ..More::default() };
        let response = match self.admit(&request, is_https) {
            Ok(admitted) => {
                more.any_page = admitted.any_page;
                more.forbidden = Some(self.forbidden(&request, &admitted));
                Either::Left(self.route(request, admitted))
            }
            Err(error) => match self.may_know_later(&request, &error) {
                None if request.body().is_end_stream() => Either::Left(Either::Left(ready(Ok(refused(error))))),
                None => Either::Right(refused_after(request.into_body(), error).boxed()),
                Some(oidc) => Either::Right(self.clone().ask_first(oidc, request, is_https).boxed()),
            },
        };
        guarded(response, more)
    }
}

impl AccessControl {
    fn route(&self, mut request: Request<Incoming>, admitted: Admitted) -> AtOnce {
        let Admitted { caller, signed, https, any_page: _ } = admitted;
        request.extensions_mut().insert(caller);
        if let Some(signed) = signed {
            request.extensions_mut().insert(signed);
        }
        if let Some(https) = https {
            request.extensions_mut().insert(https);
        }
        Either::Right(watched(tower_service::Service::call(&mut self.router.clone(), request)))
    }

    /// What is noted if its handler refuses the caller.
    fn forbidden(&self, request: &Request<Incoming>, admitted: &Admitted) -> Forbidden {
        let (method, uri) = (request.method().clone(), request.uri().clone());
        Forbidden { authority: self.rules.authority.clone(), caller: Arc::clone(&admitted.caller), method, uri }
    }

    /// Whom to ask before a request is refused for good: its token may be signed with a new key.
    fn may_know_later(&self, request: &Request<Incoming>, error: &Error) -> Option<Oidc> {
        if error.is_unauthorized() { self.rules.authority.may_know_later(request) } else { None }
    }

    async fn ask_first(self, oidc: Oidc, request: Request<Incoming>, is_https: bool) -> Answered {
        oidc.refresh().await;
        match self.admit(&request, is_https) {
            Ok(admitted) => self.route(request, admitted).await,
            Err(error) => refused_after(request.into_body(), error).await,
        }
    }
}

/// Refuses a request once its body has been sent, if that is small and soon: a client that still writes while its connection is
/// closed would find that broken, and not read why.
async fn refused_after(mut body: Incoming, error: Error) -> Answered {
    let sent = async {
        let mut bytes = 0;
        while let Some(Ok(frame)) = body.frame().await {
            bytes += frame.data_ref().map_or(0, |data| data.len());
            if bytes > limits::REFUSED_BODY {
                return;
            }
        }
    };
    // Whether it has ended or has taken too long, the answer is the same.
    let _ = timeout(limits::REFUSAL_TIME, sent).await;
    Ok(refused(error))
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
    /// Whether a browser asks in advance if a page of another site may enqueue, and some namespace lets anybody do so.
    /// Which one the page means is known when it enqueues.
    fn is_preflight<B>(&self, request: &Request<B>) -> bool {
        let headers = request.headers();
        let asks = |name| headers.get(name).is_some_and(|method: &HeaderValue| method == "POST");
        request.method() == Method::OPTIONS
            && headers.contains_key(header::ORIGIN)
            && asks(header::ACCESS_CONTROL_REQUEST_METHOD)
            && self.hosts.check(request.uri(), headers).is_ok()
            && self.routes.permission(&Method::POST, request.uri().path()) == Enqueue
            && !self.authority.is_open()
            && self.authority.lets_anybody_in(None)
    }

    fn admit<B>(&self, request: &Request<B>, client: Option<ClientAddress>, is_https: bool) -> Result<Admitted> {
        let (method, headers) = (request.method(), request.headers());
        self.hosts.check(request.uri(), headers)?;
        let address = client.map(ClientAddress::ip);
        if let Some(signed) = authenticates_itself(&self.inbound, request, |namespace| self.authority.has(namespace)) {
            return Ok(Admitted {
                caller: Arc::new(signed.caller(address)),
                signed: Some(signed),
                any_page: false,
                https: None,
            });
        }
        let path = request.uri().path();
        let needed = self.routes.permission(method, path);
        let shown = in_header(headers);
        // A page cannot make a browser send a key in a header to another site, but it can send requests with a cookie
        // or without any key. Without keys every admitted request may do everything, so none from a page of another
        // site is.
        let proves_itself = shown.is_some() && !self.authority.is_open();
        let harmless = needed == Public && is_safe(method) && !self.authority.is_open();
        // Where a rule lets anybody enqueue, a page of another site is anybody, whatever cookies its visitor has.
        let any_page = shown.is_none()
            && is_foreign(method, headers)
            && !self.authority.is_open()
            && self.authority.lets_pages_in(request, needed);
        if !proves_itself && !harmless && !any_page {
            check_foreign(method, headers)?;
        }
        let sent = if any_page { None } else { shown.or_else(|| in_cookie(headers)) };
        if matches!(sent, Some(Credentials::Session(_))) && !is_safe(method) {
            check_console(headers, is_https)?;
        }
        if let Some(Credentials::Key(key)) = sent {
            self.authority.check_throttle(client, key)?;
        }
        let https = matches!(needed, Public | Anybody).then_some(Https(is_https));
        match self.authority.admit(sent, request, needed, address) {
            Ok(caller) => {
                if caller.actor.role.is_some() {
                    self.authority.right_key(client);
                }
                Ok(Admitted { caller: Arc::new(caller), signed: None, any_page, https })
            }
            Err(Refused::WrongKey(error)) => {
                self.authority.wrong_key(client);
                self.authority.note_wrong_key(client);
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
