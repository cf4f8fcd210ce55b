//! HTTP for handlers. The plugin must be granted the hosts.
//!
//! ```no_run
//! # fn get() -> windlass::Result<String> {
//! let answer = windlass::http::get("https://api.example.com/").header("accept", "text/plain").send()?;
//! if answer.status != 200 {
//!     return Err(windlass::Error::new(format_args!("the answer was {}", answer.status)));
//! }
//! answer.text()
//! # }
//! ```
//!
//! A body can be read as a stream, with [`Request::open`] and [`std::io::Read`]. Redirects are not followed. In native
//! tests there is no network; [`Fake::http`](crate::testing::Fake::http) answers the requests.

use std::io::{self, Read};
use std::time::Duration;

use crate::error::{Error, Result};

/// A request, before it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub method: String,
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// The time limit for connecting, for the first byte, and between any two bytes.
    pub timeout: Option<Duration>,
}

/// A response with its whole body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// A response whose body is read as a stream.
pub struct Opened {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub(crate) body: Box<dyn Read>,
}

/// A GET request.
pub fn get(url: impl Into<String>) -> Request {
    Request::new("GET", url)
}

/// A POST request with a body.
pub fn post(url: impl Into<String>, body: impl Into<Vec<u8>>) -> Request {
    Request { body: body.into(), ..Request::new("POST", url) }
}

impl Request {
    pub fn new(method: impl Into<String>, url: impl Into<String>) -> Self {
        Request { method: method.into(), url: url.into(), headers: Vec::new(), body: Vec::new(), timeout: None }
    }

    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sends the request and reads the whole response. A response of any status, such as 404 or 500, is not an error.
    pub fn send(self) -> Result<Response> {
        let mut opened = self.open()?;
        let mut body = Vec::new();
        opened.read_to_end(&mut body)?;
        Ok(Response { status: opened.status, headers: opened.headers, body })
    }

    /// Sends the request and returns the response as soon as its head has arrived.
    pub fn open(self) -> Result<Opened> {
        #[cfg(target_arch = "wasm32")]
        return crate::wasm_http::open(self);
        #[cfg(not(target_arch = "wasm32"))]
        crate::testing::answer(&self).map(|Response { status, headers, body }| Opened {
            status,
            headers,
            body: Box::new(io::Cursor::new(body)),
        })
    }
}

impl Response {
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Response { status, headers: Vec::new(), body: body.into() }
    }

    /// The first header of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }

    pub fn text(&self) -> Result<String> {
        String::from_utf8(self.body.clone()).map_err(|_| Error::new("the answer is no UTF-8 text"))
    }

    pub fn json<T: serde::de::DeserializeOwned>(&self) -> Result<T> {
        Ok(serde_json::from_slice(&self.body)?)
    }
}

impl Opened {
    /// The first header of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }
}

impl Read for Opened {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.body.read(into)
    }
}

fn find<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}
