//! A page of another site that reaches this server under the site's own name: its requests are refused before anything
//! is done.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};
use windlass_e2e::{DEADLINE, Data, Server, windlass};

/// Sends a request with exactly these headers, and returns the status and the body.
fn ask(server: &Server, request: &str, headers: &[&str], body: &[u8]) -> (u16, Value) {
    let address = server.url("").trim_start_matches("http://").replace("0.0.0.0", "127.0.0.1");
    let mut stream = TcpStream::connect(address).expect("connected");
    stream.set_read_timeout(Some(DEADLINE)).expect("a socket");
    let mut head = format!("{request} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
    for header in headers {
        head.push_str(&format!("{header}\r\n"));
    }
    stream.write_all(format!("{head}\r\n").as_bytes()).expect("sent");
    stream.write_all(body).expect("sent");
    let mut said = String::new();
    stream.read_to_string(&mut said).expect("an answer");
    let status = said.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{said}"));
    (status, serde_json::from_str(said.split("\r\n\r\n").nth(1).unwrap_or_default()).unwrap_or_default())
}

#[test]
fn a_rebound_name_gets_no_access() {
    let server = Server::start_on(&Data::new(), &["--insecure"]);
    let port = server.url("").rsplit(':').next().expect("a port").to_owned();
    let (host, origin) = (format!("host: evil.example:{port}"), format!("origin: http://evil.example:{port}"));
    for (request, body) in [
        ("GET /healthz", &b""[..]),
        ("GET /openapi.json", b""),
        ("GET /docs", b""),
        ("GET /api/v1/jobs", b""),
        ("POST /api/v1/enqueue", br#"{"queue": "q"}"#),
        ("PUT /api/v1/plugins/evil?queues=q", b"\0asm"),
        ("GET /nothing", b""),
    ] {
        let (status, answer) = ask(&server, request, &[&host, &origin], body);
        assert_eq!((status, &answer["code"]), (421, &json!("HOST_NOT_ALLOWED")), "{request}: {answer}");
        let why = answer["error"].as_str().unwrap_or_default();
        assert!(why.contains("--allowed-host evil.example"), "{why}");
    }
    assert_eq!(server.get("/api/v1/queues").body, json!([]));
}

#[test]
fn a_request_without_exactly_one_valid_host_is_a_bad_request() {
    let server = Server::start_on(&Data::new(), &["--insecure"]);
    let wrong: [&[&str]; 4] = [&[], &["host: localhost", "host: localhost"], &["host: local host"], &["host: a/b"]];
    for headers in wrong {
        let (status, answer) = ask(&server, "GET /healthz", headers, b"");
        assert_eq!((status, &answer["code"]), (400, &json!("VALIDATION_ERROR")), "{headers:?}: {answer}");
        assert!(answer["error"].as_str().is_some_and(|why| why.contains("`Host`")), "{answer}");
    }
}

#[test]
fn loopback_names_and_allowed_hosts_are_accepted() {
    let data = Data::new();
    let mut command = windlass();
    command.args(["serve", "--insecure", "--listen", "127.0.0.1:0", "--data"]).arg(data.path());
    command.args(["--allowed-host", "jobs.example.com", "--allowed-host", "*.corp.example"]);
    let server = Server::spawn(command, &data).unwrap_or_else(|refused| panic!("{refused:#?}"));
    for host in ["localhost", "localhost:1", "127.0.0.1", "[::1]:80", "jobs.example.com", "a.corp.example:443"] {
        let (status, answer) = ask(&server, "GET /healthz", &[&format!("host: {host}")], b"");
        assert_eq!(status, 200, "{host}: {answer}");
    }
    for host in ["corp.example", "10.0.0.1", "other.example.com"] {
        let (status, _) = ask(&server, "GET /healthz", &[&format!("host: {host}")], b"");
        assert_eq!(status, 421, "{host}");
    }
}

#[test]
fn names_come_from_the_environment_and_the_config_file_too() {
    let data = Data::new();
    let start = |setting: &dyn Fn(&mut std::process::Command)| {
        let mut command = windlass();
        command.args(["serve", "--insecure", "--listen", "127.0.0.1:0", "--data"]).arg(data.path());
        setting(&mut command);
        Server::spawn(command, &data)
    };
    let asked = |server: &Server, host: &str| ask(server, "GET /healthz", &[&format!("host: {host}")], b"").0;
    let server = start(&|command| _ = command.env("WINDLASS_ALLOWED_HOST", "a.example,b.example")).expect("it starts");
    assert_eq!((asked(&server, "a.example"), asked(&server, "b.example")), (200, 200));
    drop(server);
    let file = data.path().join("windlass.toml");
    std::fs::write(&file, "allowed_host = [\"c.example\"]\n").expect("room");
    let server = start(&|command| _ = command.arg("--config").arg(&file)).expect("it starts");
    assert_eq!((asked(&server, "c.example"), asked(&server, "a.example")), (200, 421));
    drop(server);
    let Err(refused) = start(&|command| _ = command.args(["--allowed-host", "http://a.example"])) else {
        panic!("that is no name")
    };
    assert!(refused.said.contains("windlass.example.com"), "it says how to write one: {}", refused.said);
}

#[test]
fn when_listening_on_all_addresses_any_address_is_accepted_and_no_unknown_name() {
    let data = Data::new();
    let mut command = windlass();
    command.args(["serve", "--listen", "0.0.0.0:0", "--insecure", "--data"]).arg(data.path());
    let server = Server::spawn(command, &data).unwrap_or_else(|refused| panic!("{refused:#?}"));
    for (host, expected) in [("192.0.2.7:7070", 200), ("[2001:db8::1]", 200), ("localhost", 200), ("evil.example", 421)]
    {
        let (status, answer) = ask(&server, "GET /healthz", &[&format!("host: {host}")], b"");
        assert_eq!(status, expected, "{host}: {answer}");
    }
}

#[test]
fn without_a_key_no_other_site_reads_or_changes_anything() {
    let server = Server::start_on(&Data::new(), &["--insecure"]);
    let address = server.url("").trim_start_matches("http://").to_owned();
    let host = format!("host: {address}");
    for foreign in
        ["origin: https://evil.example", "origin: null", "sec-fetch-site: cross-site", "origin: http://localhost:3000"]
    {
        for request in ["GET /api/v1/jobs", "POST /api/v1/enqueue", "GET /healthz"] {
            // A server without a key ignores keys.
            let headers: [&str; 3] = [&host, foreign, "x-api-key: any-key-at-all"];
            let (status, answer) = ask(&server, request, &headers, br#"{"queue": "q"}"#);
            assert_eq!((status, &answer["code"]), (403, &json!("FORBIDDEN")), "{request}, {foreign}: {answer}");
        }
    }
    assert_eq!(server.get("/api/v1/queues").body, json!([]));
    let link = [&*host, "sec-fetch-site: cross-site", "sec-fetch-mode: navigate", "sec-fetch-dest: document"];
    assert_eq!(ask(&server, "GET /docs", &link, b"").0, 200, "a person follows a link");
}
