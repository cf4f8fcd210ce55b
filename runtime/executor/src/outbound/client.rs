//! One request: checked, connected and sent, and its response returned, each step within its timeout.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderValue};
use hyper::http::uri::Scheme;
use hyper::{Method, Request, Response, Uri};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};
use wasmtime_wasi_http::io::TokioIo;
use wasmtime_wasi_http::p2::bindings::http::types::ErrorCode;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpHooks};

use crate::attempt::meter::CpuMeter;
use crate::limits::{HTTP_HEAD_BYTES, HTTP_HEADERS, HTTP_OPEN, RequestLimits};
use crate::outbound::body::{RequestBody, ResponseBody};
use crate::outbound::connect::Stream;
use crate::outbound::{Journal, Network};
use crate::permissions::Hosts;

/// Sends the requests of one attempt. Cheap to clone: each request has a clone.
#[derive(Clone)]
pub(super) struct Client {
    pub(super) network: Network,
    pub(super) hosts: Hosts,
    pub(super) journal: Arc<Journal>,
    limits: RequestLimits,
    cpu: Arc<CpuMeter>,
    /// Limits the requests that are sent at once.
    permits: Arc<Semaphore>,
    /// Requests that have not ended.
    open: Arc<AtomicUsize>,
}

type Answer = (Response<WasiBody>, Box<dyn Future<Output = Result<(), Error>> + Send>);

/// The destination of a request.
pub(super) struct Target {
    /// Without the brackets of an IPv6 address.
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) tls: bool,
}

/// A request that has not ended: it counts until its response has been read or dropped.
pub(super) struct OpenRequest {
    open: Arc<AtomicUsize>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Client {
    pub(super) fn new(
        network: Network,
        hosts: Hosts,
        limits: RequestLimits,
        journal: Arc<Journal>,
        cpu: Arc<CpuMeter>,
    ) -> Self {
        let permits = Arc::new(Semaphore::new(limits.at_once.max(1)));
        Client { network, hosts, journal, limits, cpu, permits, open: Arc::default() }
    }

    async fn send(
        self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        mut open_request: OpenRequest,
    ) -> Result<Answer, Error> {
        let asked = options.unwrap_or_default();
        let within = |asked: Option<Duration>, limit: Duration| asked.map_or(limit, |asked| asked.min(limit));
        let over = Instant::now() + self.limits.total;
        let target = Target::of(&request)?;
        if let Err(refused) = self.hosts.host(&target.host, target.port) {
            self.journal.refuse(refused);
            return Err(Error::HttpRequestDenied);
        }
        let connected = over.min(Instant::now() + within(asked.connect_timeout, self.limits.connect));
        let turn = timeout_at(connected, Arc::clone(&self.permits).acquire_owned()).await;
        open_request._permit =
            Some(turn.map_err(|_| Error::ConnectionLimitReached)?.map_err(|_| Error::ConfigurationError)?);
        let stream = timeout_at(connected, self.connect(&target)).await.map_err(|_| Error::ConnectionTimeout)??;

        let first_byte = over.min(Instant::now() + within(asked.first_byte_timeout, self.limits.first_byte));
        let (response, connection) = timeout_at(first_byte, self.exchange(stream, &target, request))
            .await
            .map_err(|_| Error::ConnectionReadTimeout)??;
        let most = self.limits.response_bytes;
        let announced = hyper::body::Body::size_hint(response.body()).lower();
        if announced > most {
            self.journal.too_large();
            return Err(Error::HttpResponseBodySize(Some(announced)));
        }
        let quiet = within(asked.between_bytes_timeout, self.limits.between_bytes);
        let response = response.map(|body| {
            ResponseBody::new(body, most, quiet, over, (open_request, Arc::clone(&self.journal))).boxed_unsync()
        });
        Ok((response, connection))
    }

    /// Sends the request and waits for the head of its response. The returned future drives the connection while the
    /// body is read.
    async fn exchange(
        &self,
        stream: Stream,
        target: &Target,
        request: Request<WasiBody>,
    ) -> Result<(Response<Incoming>, Box<dyn Future<Output = Result<(), Error>> + Send>), Error> {
        let mut http = http1::Builder::new();
        http.max_buf_size(HTTP_HEAD_BYTES).max_headers(HTTP_HEADERS);
        let (mut sender, connection) = http.handshake(TokioIo::new(stream)).await?;
        let mut connection = Some(Box::pin(connection));
        let too_large = Arc::new(AtomicBool::new(false));
        let most = self.limits.request_bytes;
        let request = plain(request, target)?.map(|body| RequestBody::new(body, most, Arc::clone(&too_large)));
        let response = {
            let mut sending = pin!(sender.send_request(request));
            // The connection does the work, so it is polled until the response has arrived.
            poll_fn(|context| {
                if let Poll::Ready(answer) = sending.as_mut().poll(context) {
                    return Poll::Ready(answer);
                }
                match connection.as_mut().map(|connection| connection.as_mut().poll(context)) {
                    Some(Poll::Ready(ended)) => {
                        connection = None;
                        match ended {
                            Ok(()) => sending.as_mut().poll(context),
                            Err(error) => Poll::Ready(Err(error)),
                        }
                    }
                    Some(Poll::Pending) | None => Poll::Pending,
                }
            })
            .await
        };
        let response = response.map_err(|error| match too_large.load(Ordering::Relaxed) {
            true => {
                self.journal.too_large();
                Error::HttpRequestBodySize(Some(most))
            }
            false => Error::Hyper(error),
        })?;
        let cpu = Arc::clone(&self.cpu);
        let rest = async move {
            if let Some(mut connection) = connection {
                // The reader of the body sees how it ends.
                let _ = poll_fn(|context| cpu.charge_aside(|| connection.as_mut().poll(context))).await;
            }
            Ok(())
        };
        Ok((response, Box::new(rest)))
    }
}

impl Target {
    fn of(request: &Request<WasiBody>) -> Result<Target, Error> {
        let authority = request.uri().authority().ok_or(Error::HttpRequestUriInvalid)?;
        // User information in the URL is not meant for the server, and would end up in its `Host` header.
        if authority.as_str().contains('@') {
            return Err(Error::HttpRequestUriInvalid);
        }
        // A tunnel would bypass every check.
        if request.method() == Method::CONNECT {
            return Err(Error::HttpRequestMethodInvalid);
        }
        if request.headers().len() > HTTP_HEADERS {
            return Err(Error::HttpRequestHeaderSectionSize(None));
        }
        let tls = request.uri().scheme() == Some(&Scheme::HTTPS);
        let host = authority.host();
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let port = match authority.port() {
            Some(port) => port.as_u16(),
            None if tls => 443,
            None => 80,
        };
        if host.is_empty() || port == 0 {
            return Err(Error::HttpRequestUriInvalid);
        }
        Ok(Target { host: host.to_owned(), port, tls })
    }

    /// The `Host` header, with the port unless it is the default one.
    fn header(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        match (self.tls, self.port) {
            (true, 443) | (false, 80) => host,
            (_, port) => format!("{host}:{port}"),
        }
    }
}

/// The request in origin form: only the path in its first line, and the real host in a header, whatever the guest set.
fn plain(mut request: Request<WasiBody>, target: &Target) -> Result<Request<WasiBody>, Error> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let path = if path.is_empty() { "/" } else { path };
    *request.uri_mut() = Uri::builder().path_and_query(path).build().map_err(|_| Error::HttpRequestUriInvalid)?;
    let host = HeaderValue::from_str(&target.header()).map_err(|_| Error::HttpRequestUriInvalid)?;
    request.headers_mut().insert(HOST, host);
    Ok(request)
}

impl WasiHttpHooks for Client {
    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _sent: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = Result<Answer, Error>> + Send> {
        let open = self.open.fetch_add(1, Ordering::Relaxed);
        let open_request = OpenRequest { open: Arc::clone(&self.open), _permit: None };
        if open >= HTTP_OPEN {
            return Box::new(async { Err(Error::ConnectionLimitReached) });
        }
        let (cpu, client) = (Arc::clone(&self.cpu), self.clone());
        let mut sending: Pin<Box<dyn Future<Output = Result<Answer, Error>> + Send>> =
            Box::pin(client.send(request, options, open_request));
        Box::new(poll_fn(move |context| cpu.charge_aside(|| sending.as_mut().poll(context))))
    }

    // The default implementations write a warning to the server's log, which guests must not be able to fill.

    fn p2_error_from_hyper(&mut self, error: &hyper::Error) -> ErrorCode {
        if error.is_incomplete_message() {
            ErrorCode::HttpResponseIncomplete
        } else if error.is_parse_too_large() {
            ErrorCode::HttpResponseHeaderSectionSize(None)
        } else {
            ErrorCode::HttpProtocolError
        }
    }

    fn p2_error_from_connect(&mut self, _error: &std::io::Error) -> ErrorCode {
        ErrorCode::ConnectionRefused
    }

    fn p2_error_from_tls(&mut self, _error: &std::io::Error) -> ErrorCode {
        ErrorCode::TlsProtocolError
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Empty;

    use super::*;

    fn target(uri: &str) -> Result<(String, u16, String), Error> {
        let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
        let request = Request::builder().uri(uri).body(body).expect("a request");
        let target = Target::of(&request)?;
        let request = plain(request, &target)?;
        assert_eq!(request.uri().authority(), None);
        assert_eq!(request.headers()[HOST], target.header());
        Ok((target.host.clone(), target.port, target.header()))
    }

    #[test]
    fn the_host_header_names_the_destination_of_the_request() {
        let table = [
            ("http://api.example.com/a?b", ("api.example.com", 80, "api.example.com")),
            ("https://api.example.com", ("api.example.com", 443, "api.example.com")),
            ("https://api.example.com:80/", ("api.example.com", 80, "api.example.com:80")),
            ("http://[::1]:9000/", ("::1", 9000, "[::1]:9000")),
        ];
        for (uri, (host, port, header)) in table {
            let found = target(uri).expect(uri);
            assert_eq!((found.0.as_str(), found.1, found.2.as_str()), (host, port, header));
        }
        for wrong in ["http://user@api.example.com/", "http://api.example.com:0/"] {
            assert!(matches!(target(wrong), Err(Error::HttpRequestUriInvalid)), "{wrong}");
        }
    }
}
