//! The server as the commands see it: an address, a key, and answers that are JSON or an error that says what to do
//! next.

use std::io::{BufRead, BufReader};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::cli::terminal::show;
use crate::cli::tls::{TlsFlags, remedy};
use crate::key_file::FileKey;
use crate::{first_key, limits};

/// Which server to use, and how to show its responses.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Server and output")]
pub struct Remote {
    #[command(flatten)]
    address: Address,

    /// Text for people, or JSON for programs
    #[arg(long, value_enum, default_value = "text", global = true)]
    pub output: Output,

    /// Accept fields that the server does not know, with a warning instead of an error
    #[arg(long, global = true)]
    lenient: bool,
}

/// Which server to use.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Server and output")]
pub struct Address {
    /// The server's address, with http:// or https://
    #[arg(long, env = "WINDLASS_URL", default_value = DEFAULT_URL, global = true)]
    url: String,

    /// The server's key, if it has one
    #[arg(long, env = "WINDLASS_API_KEY", value_name = "KEY", hide_env_values = true, global = true)]
    api_key: Option<String>,

    /// A file with that key, which keeps it out of the list of processes
    #[arg(long, env = "WINDLASS_API_KEY_FILE", value_name = "FILE", conflicts_with = "api_key", global = true)]
    api_key_file: Option<FileKey>,

    /// The namespace to work in, for a key that is valid in all of them
    #[arg(long, env = "WINDLASS_NAMESPACE", value_name = "NAMESPACE", global = true)]
    namespace: Option<String>,

    #[command(flatten)]
    tls: TlsFlags,
}

impl From<Address> for Remote {
    fn from(address: Address) -> Remote {
        Remote { address, output: Output::Text, lenient: false }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    Text,
    Json,
}

const DEFAULT_URL: &str = "http://127.0.0.1:7070";
/// How long one answer may take; a server that is stuck should not hang a script for ever.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How long a command that was interrupted waits for the server.
const GLANCE: Duration = Duration::from_secs(2);
/// Compiling a large component takes its time.
const UPLOAD: Duration = Duration::from_secs(600);

type Called = Result<ureq::http::Response<ureq::Body>, ureq::Error>;

impl Remote {
    pub fn json(&self) -> bool {
        self.output == Output::Json
    }

    pub fn get(&self, path: &str) -> anyhow::Result<Value> {
        let request = self.agent(Some(TIMEOUT))?.get(self.url(path));
        self.answer(self.with_key(request).call())
    }

    pub fn delete(&self, path: &str) -> anyhow::Result<Value> {
        let request = self.agent(Some(TIMEOUT))?.delete(self.url(path));
        self.answer(self.with_key(request).call())
    }

    pub fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        let request = self.agent(Some(TIMEOUT))?.post(self.strict_url(path));
        self.answer(self.with_key(request).send_json(body))
    }

    /// The same with a header.
    pub fn post_with(&self, path: &str, (name, value): (&str, &str), body: &Value) -> anyhow::Result<Value> {
        let request = self.agent(Some(TIMEOUT))?.post(self.strict_url(path)).header(name, value);
        self.answer(self.with_key(request).send_json(body))
    }

    pub fn patch(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        let request = self.agent(Some(TIMEOUT))?.patch(self.strict_url(path));
        self.answer(self.with_key(request).send_json(body))
    }

    pub fn put(&self, path: &str, bytes: &[u8]) -> anyhow::Result<Value> {
        let request = self.agent(Some(UPLOAD))?.put(self.strict_url(path));
        self.answer(self.with_key(request).send(bytes))
    }

    /// The same with headers.
    pub fn put_with(&self, path: &str, headers: &[(&str, String)], bytes: &[u8]) -> anyhow::Result<Value> {
        let mut request = self.agent(Some(UPLOAD))?.put(self.url(path));
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        self.answer(self.with_key(request).send(bytes))
    }

    /// A request whose answer is not worth waiting for long.
    pub fn glance(&self, path: &str) -> anyhow::Result<Value> {
        let request = self.agent(Some(GLANCE))?.get(self.url(path));
        self.answer(self.with_key(request).call())
    }

    /// A request that may be answered late.
    pub fn wait(&self, path: &str, timeout: Duration) -> anyhow::Result<Value> {
        let request = self.agent(Some(timeout + TIMEOUT))?.get(self.url(path));
        self.answer(self.with_key(request).call())
    }

    /// The bytes of an answer, as they are.
    pub fn download(&self, path: &str) -> anyhow::Result<Vec<u8>> {
        match self.with_key(self.agent(Some(UPLOAD))?.get(self.url(path))).call() {
            Ok(mut response) if response.status().is_success() => {
                let bytes = response.body_mut().with_config().limit(limits::BODY_MOST as u64).read_to_vec();
                bytes.context("the answer broke off; try again")
            }
            other => self.answer(other).and_then(|answer| bail!("not a body, but {answer}")),
        }
    }

    /// A command for this server that can be typed as it is: it names the address where the environment does not.
    pub fn command(&self, words: &str) -> String {
        let url = &self.address.url;
        let known = std::env::var("WINDLASS_URL").unwrap_or_else(|_| DEFAULT_URL.to_owned());
        let tls = self.address.tls.typed();
        if *url == known { format!("windlass {words}{tls}") } else { format!("windlass {words} --url {url}{tls}") }
    }

    /// The page on which the server describes its API.
    pub fn docs(&self) -> String {
        format!("{}/docs", self.address.url.trim_end_matches('/'))
    }

    /// A live stream, after the event `last` if one has been seen. `None` if there are no more events.
    pub fn events(&self, path: &str, last: Option<&str>) -> anyhow::Result<Option<Events>> {
        let mut request = self.with_key(self.agent(None)?.get(self.url(path)));
        if let Some(last) = last {
            request = request.header("Last-Event-ID", last);
        }
        match request.call() {
            Ok(response) if response.status() == 204 => Ok(None),
            Ok(response) if response.status() == 200 => {
                Ok(Some(Events { lines: Box::new(BufReader::new(response.into_body().into_reader())) }))
            }
            other => self.answer(other).and_then(|answer| bail!("not a stream, but {answer}")),
        }
    }

    /// The address for a body, whose unknown fields are refused unless the user wants otherwise.
    fn strict_url(&self, path: &str) -> String {
        let url = self.url(path);
        match (self.lenient, url.contains('?')) {
            (true, _) => url,
            (false, false) => format!("{url}?strict=true"),
            (false, true) => format!("{url}&strict=true"),
        }
    }

    fn url(&self, path: &str) -> String {
        format!("{}/api/v1{path}", self.address.url.trim_end_matches('/'))
    }

    fn agent(&self, timeout: Option<Duration>) -> anyhow::Result<ureq::Agent> {
        let mut config = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(timeout);
        if self.address.url.starts_with("https:") {
            config = config.tls_config(self.address.tls.config()?);
        }
        // A redirect would send the key to another address than the one that was named.
        Ok(config.max_redirects(0).timeout_connect(Some(Duration::from_secs(10))).build().into())
    }

    /// The key that was given; or the first key of this user's own server on this machine.
    fn key(&self) -> Option<String> {
        let file = || self.address.api_key_file.as_ref().map(|file| file.key.clone());
        let given = self.address.api_key.clone().or_else(file);
        given.or_else(|| first_key::find(own_port(&self.address.url)?))
    }

    fn with_key<B>(&self, request: ureq::RequestBuilder<B>) -> ureq::RequestBuilder<B> {
        let request = match self.key() {
            Some(key) => request.header("X-API-Key", key),
            None => request,
        };
        match &self.address.namespace {
            Some(namespace) => request.header("X-Windlass-Namespace", namespace),
            None => request,
        }
    }

    fn answer(&self, called: Called) -> anyhow::Result<Value> {
        let mut response = called.map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        let text = response.body_mut().read_to_string().context("the answer broke off; try again")?;
        let body: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
        if status.is_success() {
            // Beside the answer: it is what programs read.
            for warning in body["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                show::note(&format!("warning: {warning}"));
            }
            return Ok(body);
        }
        let target = response.headers().get("location").and_then(|target| target.to_str().ok());
        if let Some(target) = target.filter(|_| status.is_redirection()) {
            bail!(
                "{} redirects to {target}; if that is the right address, name it with --url or WINDLASS_URL",
                self.address.url
            );
        }
        let Some(why) = body["error"].as_str() else {
            bail!("{} answered {status}, and not as a Windlass would; is that the right address?", self.address.url);
        };
        match status.as_u16() {
            401 => bail!("{why}; give a key with --api-key-file, WINDLASS_API_KEY_FILE or WINDLASS_API_KEY"),
            403 => bail!("{why}"),
            404 => bail!("{why}{}", where_to_look(why)),
            400 if why.starts_with("unknown field") => {
                bail!("{why}\nnothing was done; correct it, or send it as it is with --lenient")
            }
            429 | 503 => bail!("{why}; nothing was done, try again in a moment"),
            _ => bail!("{why}"),
        }
    }

    fn unreachable(&self, error: &ureq::Error) -> anyhow::Error {
        let url = &self.address.url;
        match remedy(error) {
            Some(remedy) => anyhow!("cannot speak to the server at {url}: {error}; {remedy}"),
            None => anyhow!(
                "cannot reach a server at {url}: {error}; start one with `windlass serve`, or name another with --url or WINDLASS_URL"
            ),
        }
    }
}

/// The command that lists what exists, for an error about something that does not.
fn where_to_look(why: &str) -> &'static str {
    let missing = why.strip_prefix("there is no ").unwrap_or_default();
    match missing.split(" `").next().unwrap_or_default() {
        "job" => "; `windlass job list` and `windlass search` show those there are",
        "queue" => "; `windlass queue list` shows those there are",
        "schedule" => "; `windlass schedule list` shows those there are",
        "plugin" => "; `windlass plugin list` shows those there are",
        "secret" => "; `windlass secret list` shows those there are",
        "webhook" => "; `windlass webhook list` shows those there are",
        "delivery" => "; `windlass webhook deliveries` shows those there are",
        "inbound webhook" => "; `windlass webhook inbound list` shows those there are",
        "worker" => "; `windlass worker list` shows those there are",
        _ => "",
    }
}

/// The port of a server on this machine.
fn own_port(url: &str) -> Option<u16> {
    let uri: axum::http::Uri = url.parse().ok()?;
    let host = uri.host()?.trim_start_matches('[').trim_end_matches(']');
    let is_own = host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    is_own.then(|| uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 }))
}

/// A part of a path or query, with what has a meaning there written in another way.
pub fn part(text: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let pieces =
        text.bytes().map(|byte| if keep(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") });
    pieces.collect()
}

/// A stream of events, as they come.
pub struct Events {
    lines: Box<dyn BufRead>,
}

pub struct Event {
    /// To come back with. A line of a log has none.
    pub id: Option<String>,
    pub kind: String,
    pub data: Value,
}

impl Events {
    /// The next event; none when the stream has ended, in order or not.
    pub fn next(&mut self) -> Option<Event> {
        let (mut id, mut kind, mut data) = (None, String::new(), None);
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim_end_matches(['\r', '\n']);
            match line.split_once(": ") {
                Some(("id", text)) => id = Some(text.to_owned()),
                Some(("event", text)) => text.clone_into(&mut kind),
                Some(("data", text)) => data = serde_json::from_str(text).ok(),
                _ if line.is_empty() => {
                    if let Some(data) = data.take() {
                        return Some(Event { id, kind, data });
                    }
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_slash_is_one_part_of_a_path() {
        assert_eq!(part("emails.send"), "emails.send");
        assert_eq!(part("a/b c?é"), "a%2Fb%20c%3F%C3%A9");
    }

    #[test]
    fn whoever_asks_for_what_is_not_there_is_told_where_to_look() {
        assert!(where_to_look("there is no queue `x`").contains("windlass queue list"));
        assert!(where_to_look("there is no job `x`: `id`: a job id is").contains("windlass search"));
        assert_eq!(where_to_look("there is no GET /x"), "");
    }

    #[test]
    fn events_are_read_and_comments_passed_over() {
        let text = ": still here\n\nid: 7\nevent: progress\ndata: {\"seq\":7}\n\nevent: log\ndata: {}\n\nid: 8\n";
        let mut events = Events { lines: Box::new(text.as_bytes()) };
        let first = events.next().expect("an event");
        assert_eq!(
            (first.id.as_deref(), first.kind.as_str(), &first.data["seq"]),
            (Some("7"), "progress", &Value::from(7))
        );
        assert_eq!(events.next().expect("a line").id, None);
        assert!(events.next().is_none(), "half an event is none");
    }
}
