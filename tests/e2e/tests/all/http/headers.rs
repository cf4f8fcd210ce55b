//! The headers that tell a browser what it must not do: on every response, refusals included.

use std::io::{Read, Write};
use std::net::TcpStream;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;
use sha2::{Digest, Sha256};
use windlass_e2e::{Certificates, DEADLINE, Data, Server};

const KEY: &str = "a-key-that-is-only-for-the-tests";

/// The head and the body of the response to a request that is sent as it is.
fn ask(server: &Server, request: &str) -> (String, String) {
    let address = server.url("").trim_start_matches("http://").to_owned();
    let mut stream = TcpStream::connect(address).expect("connected");
    stream.set_read_timeout(Some(DEADLINE)).expect("a socket");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut said = String::new();
    stream.read_to_string(&mut said).expect("a response");
    let (head, body) = said.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no response: {said:?}"));
    (head.to_lowercase(), body.to_owned())
}

fn get(server: &Server, path: &str, headers: &str) -> (String, String) {
    ask(server, &format!("GET {path} HTTP/1.1\r\nconnection: close\r\n{headers}\r\n"))
}

#[track_caller]
fn check(head: &str, status: u16) {
    assert!(head.starts_with(&format!("http/1.1 {status} ")), "not {status}: {head}");
    assert!(head.contains("\r\nx-content-type-options: nosniff"), "{head}");
    assert!(head.contains("\r\nreferrer-policy: no-referrer"), "{head}");
    let policy = head.lines().find_map(|line| line.strip_prefix("content-security-policy: ")).unwrap_or_default();
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{head}");
    assert!(!policy.contains("unsafe") && !policy.contains('*'), "{head}");
}

#[test]
fn every_response_has_them_and_every_refusal() {
    let server = Server::start_on(&Data::new(), &["--api-key", KEY, "--max-connections-per-address", "2"]);
    let key = format!("host: localhost\r\nx-api-key: {KEY}\r\n");
    for (path, headers, status) in [
        ("/healthz", "host: localhost\r\n", 200),
        ("/openapi.json", "host: localhost\r\n", 200),
        ("/", "host: localhost\r\n", 200),
        ("/docs", "host: localhost\r\n", 200),
        ("/metrics", &key, 200),
        ("/api/v1/queues", &key, 200),
        ("/api/v1/queues/none", &key, 404),
        ("/nothing", &key, 404),
        ("/api/v1/enqueue", &key, 405),
        ("/api/v1/queues", "host: localhost\r\n", 401),
        ("/api/v1/queues", "host: localhost\r\nx-api-key: another\r\n", 401),
        ("/healthz", "host: evil.example\r\n", 421),
        ("/healthz", "", 400),
    ] {
        check(&get(&server, path, headers).0, status);
    }
    let large = format!("POST /api/v1/enqueue HTTP/1.1\r\nconnection: close\r\n{key}content-length: 99999999\r\n");
    check(&ask(&server, &format!("{large}expect: 100-continue\r\n\r\n")).0, 413);
    // Every place of this address is taken by a stream.
    let open = || {
        let mut stream = TcpStream::connect(server.url("").trim_start_matches("http://")).expect("connected");
        write!(stream, "GET /api/v1/events HTTP/1.1\r\n{key}\r\n").expect("sent");
        stream.read_exact(&mut [0; 15]).expect("it is served");
        stream
    };
    let _streams = [open(), open()];
    let address = server.url("").trim_start_matches("http://").to_owned();
    let mut refused = TcpStream::connect(address).expect("connected");
    refused.set_read_timeout(Some(DEADLINE)).expect("a socket");
    refused.shutdown(std::net::Shutdown::Write).expect("connected");
    let mut said = String::new();
    refused.read_to_string(&mut said).expect("a response");
    check(&said.to_lowercase(), 429);
}

#[test]
fn what_a_handler_returned_cannot_become_a_page() {
    let server = Server::start_on(&Data::new(), &["--insecure"]);
    let id = server.enqueue(&json!({"queue": "q", "payload": "<script>alert(1)</script>"}));
    let (head, _) = get(&server, &format!("/api/v1/jobs/{id}/payload"), "host: localhost\r\n");
    check(&head, 200);
    assert!(head.contains("sandbox"), "{head}");
    let (head, _) = get(&server, &format!("/api/v1/flows/{id}?format=svg"), "host: localhost\r\n");
    check(&head, 200);
}

#[test]
fn the_pages_may_use_exactly_the_style_and_script_that_they_contain() {
    let server = Server::start();
    for path in ["/docs"] {
        let text = String::from_utf8(server.download(path)).expect("text");
        let headers = server.try_headers(path).expect("a response");
        let policy = headers["content-security-policy"].to_str().expect("text");
        let mut found = 0;
        for (tag, kind) in [("style", "style-src"), ("script", "script-src")] {
            let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
            let parts = text.split(&open).skip(1).filter_map(|rest| rest.split(&close).next());
            for inside in parts {
                let digest = format!("'sha256-{}'", BASE64_STANDARD.encode(Sha256::digest(inside)));
                let rule = policy.split("; ").find(|rule| rule.starts_with(kind)).unwrap_or_default();
                assert!(rule.contains(&digest), "{path} may not use its {tag}: {policy}");
                found += 1;
            }
        }
        assert!(found >= 1, "{path} has no style");
        // What a digest cannot allow.
        for inline in [" style=", " onclick=", " onload=", "javascript:"] {
            assert!(!text.contains(inline), "{path} has {inline}");
        }
    }
}

#[test]
fn only_under_tls_a_browser_is_told_to_use_nothing_else() {
    const HEADER: &str = "strict-transport-security";
    let plain = Server::start();
    assert!(!plain.try_headers("/healthz").expect("a response").contains_key(HEADER));
    // A client cannot say so itself.
    let claimed = get(&plain, "/healthz", "host: localhost\r\nx-forwarded-proto: https\r\n").0;
    assert!(!claimed.contains(HEADER), "{claimed}");
    let encrypted = Server::try_start_tls(&Data::new(), &Certificates::new(), &[]).expect("it starts");
    assert_eq!(encrypted.try_headers("/healthz").expect("a response")[HEADER], "max-age=31536000");
    let proxied = Server::start_on(&Data::new(), &["--behind-proxy"]);
    let said = |proto: &str| get(&proxied, "/healthz", &format!("host: 127.0.0.1\r\nx-forwarded-proto: {proto}\r\n")).0;
    assert!(said("https").contains(HEADER) && !said("http").contains(HEADER));
}
