//! People who sign in with an OpenID Connect provider, and programs with its tokens: against a real provider.

mod sign_in;
mod tokens;
mod wrong;

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use windlass_e2e::{Browser, CLIENT_ID, CLIENT_SECRET, Client, Data, Page, Provider, Server, eventually};

use super::make_namespace;

const LOGIN: &str = "/api/v1/auth/oidc/login";
const CALLBACK: &str = "/api/v1/auth/oidc/callback";
const STATUS: &str = "/api/v1/auth/status";
const QUEUES: &str = "/api/v1/queues";

/// What programs' tokens must be meant for.
const AUDIENCE: &str = "https://windlass.example.com";

/// The settings that all tests share.
fn flags<'a>(issuer: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let usual = ["--oidc-issuer", issuer, "--oidc-client-id", CLIENT_ID, "--oidc-audience", AUDIENCE];
    let roles =
        ["--oidc-role", "platform=admin@*", "--oidc-role", "sre=operator", "--oidc-role", "acme-dev=viewer@acme"];
    [&usual[..], &roles, more].concat()
}

/// Starts a server with this provider, which knows a few people.
fn start(provider: &Provider) -> Server {
    start_on(&Data::new(), provider, &[])
}

fn start_on(data: &Data, provider: &Provider, more: &[&str]) -> Server {
    let secret = secret_file();
    let path = secret.path().to_str().expect("text");
    let server =
        Server::start_on(data, &flags(provider.issuer(), &[&["--oidc-client-secret-file", path], more].concat()));
    let accounts = json!({
        "ann": {"name": "Ann", "groups": ["staff", "sre"]},
        "bob": {"name": "Bob", "groups": ["platform"]},
        "cho": {"email": "cho@example.com", "email_verified": true, "groups": ["acme-dev"]},
        "dan": {"name": "Dan", "groups": ["staff"]},
        "eve": {"name": "Eve"},
    });
    provider.setup(&server.url(""), &accounts);
    server
}

fn secret_file() -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), format!("{CLIENT_SECRET}\n")).expect("it is written");
    file
}

/// Goes through the provider, up to the address with which it sends the browser back.
#[track_caller]
fn up_to_callback(server: &Server, browser: &mut Browser) -> String {
    let page =
        browser.follow(&server.url(&format!("{LOGIN}?to=/ui/jobs%3Fstate=dead")), |next| next.contains(CALLBACK));
    page.location.clone().unwrap_or_else(|| panic!("the provider did not send the browser back: {page:?}"))
}

/// Signs somebody in, and returns where the browser was sent.
#[track_caller]
fn sign_in(server: &Server, browser: &mut Browser) -> String {
    let back = up_to_callback(server, browser);
    place(&browser.open(&back), server)
}

/// The path that a page leads to.
#[track_caller]
fn place(page: &Page, server: &Server) -> String {
    assert_eq!(page.status, 303, "{page:?}");
    let to = page.location.as_deref().expect("a redirection names a place");
    to.strip_prefix(&server.url("")).unwrap_or_else(|| panic!("{to} is not on the server")).to_owned()
}

/// The session of a browser, as a header.
#[track_caller]
fn session(server: &Server, browser: &Browser) -> String {
    browser.cookie(&server.url(""), "windlass_session").expect("a session")
}

/// Waits until the server's log has a line with this.
#[track_caller]
fn wait_for_log(server: &Server, what: &str) {
    eventually(&format!("the log says {what:?}"), || server.said().contains(what).then_some(()));
}

fn is_signed_in(server: &Server, browser: &Browser) -> bool {
    browser.cookie(&server.url(""), "windlass_session").is_some()
}

fn status(server: &Server, cookie: &str) -> Value {
    server.without_key().get_with(STATUS, &[("Cookie", cookie)]).body
}

/// Seconds since 1970, so far from now.
fn seconds(from_now: i64) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_secs();
    i64::try_from(now).expect("it is not that late") + from_now
}

/// The claims of a good token of a program.
fn good_claims() -> Value {
    json!({
        "sub": "repo:example/shop", "aud": AUDIENCE, "groups": ["sre"], "iat": seconds(-10), "nbf": seconds(-10),
        "exp": seconds(600),
    })
}

/// The same with changes.
fn claims_with(changes: &Value) -> Value {
    let mut claims = good_claims();
    for (name, value) in changes.as_object().expect("an object") {
        claims[name] = value.clone();
    }
    claims
}

/// A client that sends a token in place of a key.
fn with_token(server: &Server, token: &str) -> Client {
    server.without_key().with_key(Some(token.to_owned()))
}
