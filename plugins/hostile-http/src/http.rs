//! `wasi:http` as it comes, without a client in between.

use wasip2::http::outgoing_handler::handle;
use wasip2::http::types::{
    ErrorCode, Fields, FutureIncomingResponse, IncomingResponse, Method, OutgoingBody, OutgoingRequest, RequestOptions,
    Scheme,
};
use wasip2::io::streams::StreamError;
use windlass::{Error, Result};

use super::Attempt;

pub fn attempt(attempt: Attempt) -> Result<String> {
    match attempt {
        Attempt::Get { url, follow, connect_ms, first_byte_ms } => {
            let options = RequestOptions::new();
            let nanos = |ms: Option<u64>| ms.map(|ms| ms * 1_000_000);
            let _ = options.set_connect_timeout(nanos(connect_ms));
            let _ = options.set_first_byte_timeout(nanos(first_byte_ms));
            get(url, follow, options)
        }
        Attempt::Post { url, bytes } => post(&url, bytes),
        Attempt::Count { url } => {
            let response = answer(sent(&url, Fields::new(), None)?)?;
            Ok(read(&response, |_| {})?.to_string())
        }
        Attempt::Many { url, count } => many(&url, count),
        Attempt::Hoard { count, path_bytes } => hoard(count, path_bytes),
        Attempt::Long { bytes } => Ok(long(bytes)),
        Attempt::Headers { url, count } => {
            let headers = Fields::new();
            for n in 0..count {
                headers.append(&format!("x-{n}"), b"x").map_err(|error| Error::new(format_args!("{error:?}")))?;
            }
            Ok(answer(sent(&url, headers, None)?)?.status().to_string())
        }
        Attempt::Panic { url } => {
            let response = answer(sent(&url, Fields::new(), None)?)?;
            panic!("an answer of {} is open", response.status());
        }
    }
}

fn get(mut url: String, follow: bool, options: RequestOptions) -> Result<String> {
    for _ in 0..10 {
        let response = answer(sent(&url, Fields::new(), Some(copy(&options)))?)?;
        let location = response.headers().get("location").into_iter().next();
        match location {
            Some(location) if follow => url = String::from_utf8_lossy(&location).into_owned(),
            _ => {
                let mut text = Vec::new();
                read(&response, |bytes| text.extend_from_slice(bytes))?;
                return Ok(format!("{} {}", response.status(), String::from_utf8_lossy(&text)));
            }
        }
    }
    Err(Error::new("redirected ten times"))
}

fn copy(options: &RequestOptions) -> RequestOptions {
    let copy = RequestOptions::new();
    let _ = copy.set_connect_timeout(options.connect_timeout());
    let _ = copy.set_first_byte_timeout(options.first_byte_timeout());
    copy
}

fn request(url: &str, headers: Fields) -> Result<OutgoingRequest> {
    let (scheme, rest) = url.split_once("://").ok_or_else(|| Error::new("a URL has a scheme"))?;
    let (authority, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
    let request = OutgoingRequest::new(headers);
    let scheme = if scheme == "https" { Scheme::Https } else { Scheme::Http };
    let set = |part: &str, set: std::result::Result<(), ()>| set.map_err(|()| Error::new(format_args!("not a {part}")));
    set("scheme", request.set_scheme(Some(&scheme)))?;
    set("host", request.set_authority(Some(authority)))?;
    set("path", request.set_path_with_query(Some(path)))?;
    Ok(request)
}

fn sent(url: &str, headers: Fields, options: Option<RequestOptions>) -> Result<FutureIncomingResponse> {
    handle(request(url, headers)?, options).map_err(refused)
}

fn answer(future: FutureIncomingResponse) -> Result<IncomingResponse> {
    future.subscribe().block();
    match future.get() {
        Some(Ok(Ok(response))) => Ok(response),
        Some(Ok(Err(code))) => Err(refused(code)),
        _ => Err(Error::new("the answer was taken already")),
    }
}

fn read(response: &IncomingResponse, mut take: impl FnMut(&[u8])) -> Result<u64> {
    let body = response.consume().map_err(|()| Error::new("no body"))?;
    let stream = body.stream().map_err(|()| Error::new("no stream"))?;
    let mut total = 0;
    loop {
        match stream.blocking_read(64 * 1024) {
            Ok(bytes) => {
                total += bytes.len() as u64;
                take(&bytes);
            }
            Err(StreamError::Closed) => return Ok(total),
            Err(StreamError::LastOperationFailed(error)) => {
                return Err(Error::new(format_args!("cut off: {}", error.to_debug_string())));
            }
        }
    }
}

fn post(url: &str, bytes: usize) -> Result<String> {
    let request = request(url, Fields::new())?;
    request.set_method(&Method::Post).map_err(|()| Error::new("not a method"))?;
    let body = request.body().map_err(|()| Error::new("no body"))?;
    let future = handle(request, None).map_err(refused)?;
    {
        let stream = body.write().map_err(|()| Error::new("no stream"))?;
        let chunk = vec![b'x'; 4_096];
        let mut left = bytes;
        while left > 0 {
            let part = left.min(chunk.len());
            // Whoever does not want to read on closes the stream; the answer says why.
            if stream.blocking_write_and_flush(&chunk[..part]).is_err() {
                break;
            }
            left -= part;
        }
    }
    let _ = OutgoingBody::finish(body, None);
    let response = answer(future)?;
    let mut text = Vec::new();
    read(&response, |bytes| text.extend_from_slice(bytes))?;
    Ok(format!("{} {}", response.status(), String::from_utf8_lossy(&text)))
}

fn many(url: &str, count: usize) -> Result<String> {
    let mut futures = Vec::new();
    for _ in 0..count {
        futures.push(sent(url, Fields::new(), None)?);
    }
    let (mut open, mut codes) = (Vec::new(), Vec::new());
    for future in futures {
        match answer(future) {
            Ok(response) => open.push(response),
            Err(error) => codes.push(error.to_string()),
        }
    }
    codes.sort();
    codes.dedup();
    Ok(format!("{} open; {}", open.len(), codes.join(", ")))
}

fn hoard(count: usize, path_bytes: usize) -> Result<String> {
    let path = format!("/{}", "x".repeat(path_bytes));
    let mut hoard = Vec::new();
    for _ in 0..count {
        let request = OutgoingRequest::new(Fields::new());
        request.set_path_with_query(Some(&path)).map_err(|()| Error::new("the path was not taken"))?;
        hoard.push(request);
    }
    Ok(format!("holds {}", hoard.len()))
}

fn long(bytes: usize) -> String {
    let text = "x".repeat(bytes);
    let request = OutgoingRequest::new(Fields::new());
    let taken = [
        ("method", request.set_method(&Method::Other(text.clone())).is_ok()),
        ("scheme", request.set_scheme(Some(&Scheme::Other(text.clone()))).is_ok()),
        ("host", request.set_authority(Some(&text)).is_ok()),
        ("path", request.set_path_with_query(Some(&format!("/{text}"))).is_ok()),
    ];
    let taken: Vec<&str> = taken.into_iter().filter(|(_, taken)| *taken).map(|(part, _)| part).collect();
    taken.join(" ")
}

fn refused(code: ErrorCode) -> Error {
    Error::new(format_args!("refused: {code:?}"))
}
