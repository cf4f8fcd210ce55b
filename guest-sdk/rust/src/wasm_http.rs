//! One request through wasi:http.

use std::io::{self, Read};

use crate::error::{Error, Result};
use crate::http::{Opened, Request};
use crate::wasm::bindings::wasi::http::outgoing_handler::handle;
use crate::wasm::bindings::wasi::http::types::{
    ErrorCode, Fields, IncomingBody, Method, OutgoingBody, OutgoingRequest, RequestOptions, Scheme,
};
use crate::wasm::bindings::wasi::io::streams::{InputStream, StreamError};

pub(crate) fn open(request: Request) -> Result<Opened> {
    let failed = |why: &str| Error::new(format_args!("{}: {why}", request.url));
    let out = convert(&request)?;
    // The body is taken before the request is given away, and filled after.
    let body = out.body().map_err(|()| failed("it has no body to fill"))?;
    let options = request.timeout.map(|timeout| {
        let options = RequestOptions::new();
        let nanos = u64::try_from(timeout.as_nanos()).ok();
        let _ = options.set_connect_timeout(nanos);
        let _ = options.set_first_byte_timeout(nanos);
        let _ = options.set_between_bytes_timeout(nanos);
        options
    });
    let future = handle(out, options).map_err(|code| failed(words(&code)))?;
    if !request.body.is_empty() {
        let stream = body.write().map_err(|()| failed("its body cannot be written"))?;
        for part in request.body.chunks(4096) {
            stream.blocking_write_and_flush(part).map_err(|_| failed("it could not be sent whole"))?;
        }
    }
    OutgoingBody::finish(body, None).map_err(|code| failed(words(&code)))?;
    future.subscribe().block();
    let answer = match future.get() {
        Some(Ok(Ok(answer))) => answer,
        Some(Ok(Err(code))) => return Err(failed(words(&code))),
        _ => return Err(failed("no answer came")),
    };
    let headers = answer.headers().entries().into_iter();
    let headers = headers.map(|(name, value)| (name, String::from_utf8_lossy(&value).into_owned())).collect();
    let body = answer.consume().map_err(|()| failed("the answer has no body"))?;
    let stream = body.stream().map_err(|()| failed("the answer's body cannot be read"))?;
    let body = Body { stream, _body: body, rest: Vec::new(), at: 0 };
    Ok(Opened { status: answer.status(), headers, body: Box::new(body) })
}

fn convert(request: &Request) -> Result<OutgoingRequest> {
    let wrong = || Error::fatal(format_args!("`{}` is no address to send a request to", request.url));
    let (scheme, rest) = match request.url.split_once("://") {
        Some(("http", rest)) => (Scheme::Http, rest),
        Some(("https", rest)) => (Scheme::Https, rest),
        _ => return Err(wrong()),
    };
    let rest = rest.split('#').next().unwrap_or(rest);
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let path = if path.starts_with('/') { path.to_owned() } else { ["/", path].concat() };
    let headers: Vec<_> =
        request.headers.iter().map(|(name, value)| (name.clone(), value.clone().into_bytes())).collect();
    let headers = Fields::from_list(&headers).map_err(|_| Error::fatal("a header of the request cannot be sent"))?;
    let out = OutgoingRequest::new(headers);
    out.set_method(&method(&request.method)).map_err(|()| wrong())?;
    out.set_scheme(Some(&scheme)).map_err(|()| wrong())?;
    out.set_authority(Some(authority)).map_err(|()| wrong())?;
    out.set_path_with_query(Some(&path)).map_err(|()| wrong())?;
    Ok(out)
}

fn method(name: &str) -> Method {
    match name {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "PUT" => Method::Put,
        "DELETE" => Method::Delete,
        "OPTIONS" => Method::Options,
        "PATCH" => Method::Patch,
        other => Method::Other(other.to_owned()),
    }
}

/// The common errors in words. The rest have only their place in the interface's list.
fn words(code: &ErrorCode) -> &str {
    match code {
        ErrorCode::HttpRequestDenied => "the request was denied; the plugin needs a grant for this host",
        ErrorCode::DnsError(_) | ErrorCode::DnsTimeout | ErrorCode::DestinationNotFound => "the host was not found",
        ErrorCode::DestinationIpProhibited => "the host's address is not allowed",
        ErrorCode::ConnectionRefused => "the connection was refused",
        ErrorCode::ConnectionTimeout | ErrorCode::ConnectionReadTimeout | ErrorCode::HttpResponseTimeout => {
            "it took too long"
        }
        ErrorCode::ConnectionTerminated | ErrorCode::HttpResponseIncomplete => "the connection broke off",
        ErrorCode::TlsCertificateError | ErrorCode::TlsProtocolError | ErrorCode::TlsAlertReceived(_) => "TLS failed",
        ErrorCode::InternalError(Some(why)) => why,
        _ => "the request failed",
    }
}

/// Reads the body of an answer. The stream must go before the body that it comes from, and fields are dropped in order.
struct Body {
    stream: InputStream,
    _body: IncomingBody,
    rest: Vec<u8>,
    at: usize,
}

impl Read for Body {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.at == self.rest.len() {
            self.at = 0;
            self.rest = match self.stream.blocking_read(64 * 1024) {
                Ok(part) => part,
                Err(StreamError::Closed) => Vec::new(),
                Err(StreamError::LastOperationFailed(_)) => {
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the answer broke off"));
                }
            };
        }
        let some = (self.rest.len() - self.at).min(into.len());
        into[..some].copy_from_slice(&self.rest[self.at..self.at + some]);
        self.at += some;
        Ok(some)
    }
}
