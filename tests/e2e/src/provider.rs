//! An OpenID Connect provider on loopback, a real one: `tests/e2e/provider`. And a browser, which keeps cookies and
//! follows redirections.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::client::Client;
use crate::wait::DEADLINE;

/// The id that the provider knows the server by, and its secret.
pub const CLIENT_ID: &str = "windlass";
pub const CLIENT_SECRET: &str = "the-secret-of-the-client-in-the-tests";

/// A running provider. It is killed when it is dropped.
#[derive(Debug)]
pub struct Provider {
    child: Child,
    issuer: String,
    control: Client,
}

impl Provider {
    pub fn start() -> Provider {
        Provider::start_on(0)
    }

    /// A provider on this port; 0 for any.
    #[track_caller]
    pub fn start_on(port: u16) -> Provider {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("provider");
        install();
        let mut child = Command::new("node")
            .args(["provider.mjs", &port.to_string()])
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("node runs");
        let mut lines = BufReader::new(child.stdout.take().expect("the harness asked for a pipe")).lines();
        // It may say other things first.
        let said = lines.by_ref().map_while(Result::ok).find(|line| line.starts_with("http://"));
        let issuer = said.unwrap_or_else(|| panic!("the provider did not start; its messages are above"));
        // Reading on, so that it never waits for us.
        std::thread::spawn(move || lines.for_each(drop));
        let control = Client::new(issuer.clone());
        Provider { child, issuer, control }
    }

    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Whom it knows, as `{name: {claim: value}}`, and which server it sends them back to.
    #[track_caller]
    pub fn setup(&self, server: &str, accounts: &Value) {
        let redirects = [format!("{server}/api/v1/auth/oidc/callback")];
        self.ask("/test/setup", &json!({"accounts": accounts, "redirects": redirects}));
    }

    /// Groups are no longer in the id token: only the userinfo endpoint tells them.
    #[track_caller]
    pub fn tell_groups_apart(&self) {
        self.ask("/test/setup", &json!({"thin": true}));
    }

    /// From now on it signs with a new key, and publishes no other.
    #[track_caller]
    pub fn rotate(&self) {
        self.ask("/test/rotate", &json!({}));
    }

    /// Changes the next id token: `claims` of it, and `by` what it is signed.
    #[track_caller]
    pub fn change_next(&self, how: &Value) {
        self.ask("/test/next", how);
    }

    /// A token with the `claims` and the signature that are asked for.
    #[track_caller]
    pub fn token(&self, how: &Value) -> String {
        let said = self.ask("/test/token", how);
        said.as_str().unwrap_or_else(|| panic!("no token: {said}")).to_owned()
    }

    #[track_caller]
    fn ask(&self, path: &str, body: &Value) -> Value {
        let answer = self.control.post(path, body);
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body["text"].clone()
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Installs the provider, once for all tests; fails with what is missing.
#[track_caller]
fn install() {
    static DONE: OnceLock<Result<(), String>> = OnceLock::new();
    let done = DONE.get_or_init(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/sign-in-provider.sh");
        let ran = Command::new(script).stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
        if ran.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&ran.stderr).into_owned()) }
    });
    if let Err(why) = done {
        panic!("{why}");
    }
}

/// What a browser knows and does: it keeps the cookies of each server, and follows redirections.
#[derive(Clone, Debug)]
pub struct Browser {
    agent: ureq::Agent,
    /// By host and port, as each was set: name, value and path.
    cookies: BTreeMap<String, BTreeMap<String, (String, String)>>,
    /// As whom the provider signs its user in; nobody for an empty name.
    pub account: String,
}

/// Where a browser has come to.
#[derive(Clone, Debug)]
pub struct Page {
    pub address: String,
    pub status: u16,
    /// Where it is sent next.
    pub location: Option<String>,
    pub body: String,
}

impl Browser {
    pub fn of(account: &str) -> Browser {
        let config = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(DEADLINE));
        let agent = config.max_redirects(0).max_redirects_will_error(false).build().into();
        Browser { agent, cookies: BTreeMap::new(), account: account.to_owned() }
    }

    /// One request, whose redirection is not followed.
    #[track_caller]
    pub fn open(&mut self, address: &str) -> Page {
        let (host, path) = split(address);
        let mut request = self.agent.get(address);
        let here = |(_, (_, at)): &(&String, &(String, String))| path.starts_with(at.as_str());
        let cookies = self.cookies.get(&host).into_iter().flatten().filter(here);
        let cookies: Vec<_> = cookies.map(|(name, (value, _))| format!("{name}={value}")).collect();
        if !cookies.is_empty() {
            request = request.header("cookie", cookies.join("; "));
        }
        if !self.account.is_empty() {
            request = request.header("x-account", &self.account);
        }
        let mut response = request.call().unwrap_or_else(|error| panic!("{address}: {error}"));
        for cookie in response.headers().get_all("set-cookie") {
            self.keep(&host, cookie.to_str().expect("text"));
        }
        let location = response.headers().get("location").map(|value| value.to_str().expect("text").to_owned());
        let location = location.map(|to| if to.starts_with('/') { format!("http://{host}{to}") } else { to });
        let body = response.body_mut().read_to_string().unwrap_or_default();
        Page { address: address.to_owned(), status: response.status().as_u16(), location, body }
    }

    /// Follows redirections until there is none, or the next address fits.
    #[track_caller]
    pub fn follow(&mut self, address: &str, until: impl Fn(&str) -> bool) -> Page {
        let mut page = self.open(address);
        for _ in 0..20 {
            match page.location.clone() {
                Some(next) if !until(&next) => page = self.open(&next),
                _ => return page,
            }
        }
        panic!("there is no end of redirections: {page:?}");
    }

    /// A cookie for a server, as `name=value`.
    pub fn cookie(&self, server: &str, name: &str) -> Option<String> {
        let (value, _) = self.cookies.get(&split(server).0)?.get(name)?;
        Some(format!("{name}={value}"))
    }

    fn keep(&mut self, host: &str, cookie: &str) {
        let mut parts = cookie.split("; ");
        let (name, value) = parts.next().and_then(|pair| pair.split_once('=')).expect("a cookie");
        let parts: Vec<_> = parts.map(|part| part.split_once('=').unwrap_or((part, ""))).collect();
        let of = |name: &str| parts.iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| *value);
        let kept = self.cookies.entry(host.to_owned()).or_default();
        if of("max-age") == Some("0") || value.is_empty() {
            kept.remove(name);
        } else {
            kept.insert(name.to_owned(), (value.to_owned(), of("path").unwrap_or("/").to_owned()));
        }
    }
}

/// Host and port of an address, and its path.
fn split(address: &str) -> (String, String) {
    let rest = address.strip_prefix("http://").unwrap_or_else(|| panic!("{address} is no address"));
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    (host.to_owned(), format!("/{path}"))
}
