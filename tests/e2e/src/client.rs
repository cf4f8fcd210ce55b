//! An HTTP client for a server: every response is a status and JSON, including errors.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use serde_json::Value;
use ureq::middleware::MiddlewareNext;
use ureq::tls::TlsConfig;

use crate::events::Events;
use crate::wait::{DEADLINE, eventually};

#[derive(Clone, Debug)]
pub struct Client {
    agent: ureq::Agent,
    url: String,
    key: Arc<Mutex<Option<String>>>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub status: u16,
    /// `null` for an empty body.
    pub body: Value,
    /// The `Allow` header.
    pub allow: Option<String>,
    /// The `Retry-After` header.
    pub retry_after: Option<String>,
    /// The `Set-Cookie` header.
    pub set_cookie: Option<String>,
    /// The `Access-Control-Allow-Origin` header.
    pub allow_origin: Option<String>,
}

impl Client {
    pub fn new(url: String) -> Client {
        Client::with_tls(url, TlsConfig::default())
    }

    /// A client that trusts and shows certificates as it is told.
    pub(crate) fn with_tls(url: String, tls: TlsConfig) -> Client {
        let key = Arc::new(Mutex::new(None::<String>));
        let own = Arc::clone(&key);
        let add_key = move |mut request: ureq::http::Request<ureq::SendBody<'_>>, next: MiddlewareNext<'_>| {
            let headers = request.headers_mut();
            let shown = ["x-api-key", "authorization", "cookie"].iter().any(|name| headers.contains_key(*name));
            if let Some(key) = own.lock().expect("nobody panics with it").as_ref().filter(|_| !shown) {
                headers.insert("x-api-key", key.parse().expect("a key is a header's value"));
            }
            next.handle(request)
        };
        let config = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(DEADLINE));
        Client { agent: config.tls_config(tls).middleware(add_key).build().into(), url, key }
    }

    /// Sends this key with each request that has none of its own.
    pub fn with_key(self, key: Option<String>) -> Client {
        *self.key.lock().expect("nobody panics with it") = key;
        self
    }

    /// The key that it sends.
    pub fn key(&self) -> Option<String> {
        self.key.lock().expect("nobody panics with it").clone()
    }

    /// The same client of a server that was started again, at another address.
    pub fn at(&self, server: &Client) -> Client {
        server.without_key().with_key(self.key())
    }

    /// A client that sends no key.
    pub fn without_key(&self) -> Client {
        Client::new(self.url.clone())
    }

    /// The headers of the response to a GET, whatever its status; or why there is none.
    pub fn try_headers(&self, path: &str) -> Result<ureq::http::HeaderMap, ureq::Error> {
        Ok(self.agent.get(self.url(path)).call()?.headers().clone())
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    pub fn get(&self, path: &str) -> Answer {
        answer(path, self.agent.get(self.url(path)).call())
    }

    /// The status of the response to a GET, whose body need not end.
    pub fn status_of(&self, path: &str) -> u16 {
        let called = self.agent.get(self.url(path)).call();
        called.unwrap_or_else(|error| panic!("{path}: {error}")).status().as_u16()
    }

    pub fn delete(&self, path: &str) -> Answer {
        answer(path, self.agent.delete(self.url(path)).call())
    }

    /// A DELETE with additional headers.
    pub fn delete_with(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        let request = headers
            .iter()
            .fold(self.agent.delete(self.url(path)), |request, (name, value)| request.header(*name, *value));
        answer(path, request.call())
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        answer(path, self.agent.post(self.url(path)).send_json(body))
    }

    /// What a browser asks before a page of another origin may send JSON: the status, and whom the response lets in.
    pub fn preflight(&self, path: &str, origin: &str) -> (u16, Option<String>) {
        let request = self.agent.options(self.url(path)).header("Origin", origin);
        let asked = request
            .header("Access-Control-Request-Method", "POST")
            .header("Access-Control-Request-Headers", "content-type")
            .call();
        let answer = answer(path, asked);
        (answer.status, answer.allow_origin)
    }

    /// A POST of any bytes.
    pub fn post_bytes(&self, path: &str, body: &[u8]) -> Answer {
        answer(path, self.agent.post(self.url(path)).send(body))
    }

    /// The same with additional headers.
    pub fn post_bytes_with(&self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let request = headers
            .iter()
            .fold(self.agent.post(self.url(path)), |request, (name, value)| request.header(*name, *value));
        answer(path, request.send(body))
    }

    pub fn patch(&self, path: &str, body: &Value) -> Answer {
        answer(path, self.agent.patch(self.url(path)).send_json(body))
    }

    pub fn put(&self, path: &str, body: &[u8]) -> Answer {
        self.put_with(path, &[], body)
    }

    /// A PUT with additional headers.
    pub fn put_with(&self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let put = self.agent.put(self.url(path)).config().timeout_global(Some(COMPILING)).build();
        let request = headers.iter().fold(put, |request, (name, value)| request.header(*name, *value));
        answer(path, request.send(body))
    }

    /// Uploads a component with its manifest.
    pub fn upload_with(&self, path: &str, component: &[u8], manifest: &str) -> Answer {
        let manifest = base64::engine::general_purpose::STANDARD.encode(manifest);
        self.put_with(path, &[("Windlass-Manifest", &manifest)], component)
    }

    /// A GET with additional headers.
    pub fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        let request =
            headers.iter().fold(self.agent.get(self.url(path)), |request, (name, value)| request.header(*name, *value));
        answer(path, request.call())
    }

    pub fn post_with(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
        let request = headers
            .iter()
            .fold(self.agent.post(self.url(path)), |request, (name, value)| request.header(*name, *value));
        answer(path, request.send_json(body))
    }

    /// The bytes of a response that is not JSON.
    #[track_caller]
    pub fn download(&self, path: &str) -> Vec<u8> {
        let mut response = self.agent.get(self.url(path)).call().unwrap_or_else(|error| panic!("{path}: {error}"));
        response.body_mut().read_to_vec().unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Opens a live stream.
    #[track_caller]
    pub fn events(&self, path: &str) -> Events {
        self.events_after(path, None)
    }

    /// The same, reconnecting after the event `last`.
    #[track_caller]
    pub fn events_after(&self, path: &str, last: Option<u64>) -> Events {
        let mut request = self.agent.get(self.url(path));
        if let Some(last) = last {
            request = request.header("Last-Event-ID", last.to_string());
        }
        let response = request.call().unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(response.status(), 200, "{path}");
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Events::new(response.into_body())
    }

    /// Uploads a plugin to serve `queues`, and asserts that it is accepted.
    #[track_caller]
    pub fn upload(&self, name: &str, queues: &str) {
        let answer = self.put(&format!("/api/v1/plugins/{name}?queues={queues}"), &crate::plugin(name));
        assert!(answer.status == 201 || answer.status == 200, "{answer:?}");
    }

    /// Enqueues a job and returns its id.
    #[track_caller]
    pub fn enqueue(&self, job: &Value) -> String {
        let answer = self.post("/api/v1/enqueue", job);
        assert_eq!(answer.status, 201, "{answer:?}");
        text(&answer.body["job_id"])
    }

    #[track_caller]
    pub fn job(&self, id: &str) -> Value {
        let answer = self.get(&format!("/api/v1/jobs/{id}"));
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body
    }

    /// Waits until the job is in this state, and returns it.
    #[track_caller]
    pub fn wait_for(&self, id: &str, state: &str) -> Value {
        let mut last = Value::Null;
        eventually(&format!("job {id} {state}"), || {
            last = self.job(id);
            let ended = ["completed", "dead", "cancelled"].iter().any(|end| last["state"] == *end);
            assert!(!ended || last["state"] == state, "the job should become {state}: {last:#}");
            (last["state"] == state).then(|| last.clone())
        })
    }

    /// The queue with this name, as `GET /queues` returns it.
    #[track_caller]
    pub fn queue(&self, name: &str) -> Value {
        let queues = self.get("/api/v1/queues").body;
        let found = queues.as_array().and_then(|list| list.iter().find(|queue| queue["name"] == name)).cloned();
        found.unwrap_or_else(|| panic!("no queue {name} in {queues:#}"))
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("a string, not {value}")).to_owned()
}

/// A large component is compiled at the lowest priority, which takes minutes while other tests keep every core busy.
const COMPILING: Duration = Duration::from_secs(900);

/// Enough for a job with the largest payload and the largest result.
const MOST: u64 = 100 << 20;

type Called = Result<ureq::http::Response<ureq::Body>, ureq::Error>;

#[track_caller]
fn answer(path: &str, called: Called) -> Answer {
    let mut response = called.unwrap_or_else(|error| panic!("{path}: {error}"));
    let status = response.status().as_u16();
    let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let (allow, retry_after, set_cookie) = (header("allow"), header("retry-after"), header("set-cookie"));
    let allow_origin = header("access-control-allow-origin");
    let body = response.body_mut().with_config().limit(MOST).read_to_string();
    let body = body.unwrap_or_else(|error| panic!("{path}: {error}"));
    let body = match body.as_str() {
        "" => Value::Null,
        json => serde_json::from_str(json).unwrap_or_else(|error| panic!("{path}: {status} {json:?}: {error}")),
    };
    Answer { status, body, allow, retry_after, set_cookie, allow_origin }
}
