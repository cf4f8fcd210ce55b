//! Clients that take too long, and more of them than there may be connections: each has a timeout, so others do not
//! wait for ever.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_e2e::{DEADLINE, Data, Server};

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.url("").trim_start_matches("http://")).expect("connected");
    stream.set_read_timeout(Some(DEADLINE)).expect("a socket");
    stream
}

/// Everything that the server sends until it closes the connection.
fn rest(mut stream: TcpStream) -> String {
    let mut said = String::new();
    match stream.read_to_string(&mut said) {
        Ok(_) => said,
        // It may close before it has read everything.
        Err(error) if error.kind() == ErrorKind::ConnectionReset => said,
        Err(error) => panic!("it is not closed: {error}"),
    }
}

#[test]
fn a_request_head_that_never_ends_closes_the_connection() {
    let server = Server::start_on(&Data::new(), &["--insecure", "--client-timeout", "1"]);
    let mut stream = connect(&server);
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-slow: ").expect("sent");
    let said = rest(stream);
    assert!(said.is_empty() || said.starts_with("HTTP/1.1 408"), "{said}");
    assert_eq!(server.get("/healthz").status, 200);
}

#[test]
fn a_body_that_stalls_gets_408_and_nothing_is_done() {
    let server = Server::start_on(&Data::new(), &["--insecure", "--client-timeout", "1"]);
    let mut stream = connect(&server);
    let head = "POST /api/v1/enqueue HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 100\r\n\r\n";
    write!(stream, "{head}{{\"queue\": \"q\"").expect("sent");
    let said = rest(stream);
    assert!(said.starts_with("HTTP/1.1 408 "), "{said}");
    let body: Value = serde_json::from_str(said.split("\r\n\r\n").nth(1).expect("a body")).expect("JSON");
    assert_eq!(body["code"], "REQUEST_TIMEOUT");
    assert_eq!(server.get("/api/v1/queues").body, json!([]));
}

#[test]
fn a_connection_beyond_the_limit_waits_for_a_free_one() {
    let server = Server::start_on(&Data::new(), &["--insecure", "--max-connections", "1"]);
    let mut first = connect(&server);
    first.write_all(b"GET /api/v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("sent");
    first.read_exact(&mut [0; 15]).expect("it is served");
    let mut second = connect(&server);
    second.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").expect("sent");
    second.set_read_timeout(Some(Duration::from_millis(300))).expect("a socket");
    let early = second.read(&mut [0; 16]).expect_err("there is no place for it yet");
    assert!(matches!(early.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{early}");
    drop(first);
    second.set_read_timeout(Some(DEADLINE)).expect("a socket");
    assert!(rest(second).starts_with("HTTP/1.1 200 "));
}

#[test]
fn a_client_that_does_not_read_its_response_loses_its_connection() {
    let server = Server::start_on(
        &Data::new(),
        &["--insecure", "--max-connections", "1", "--client-timeout", "1", "--max-body", "64MiB"],
    );
    // More than the operating system buffers for a connection on both sides.
    let id = server.enqueue(&json!({"queue": "q", "payload": "x".repeat(48 << 20)}));
    let mut idle = connect(&server);
    write!(idle, "GET /api/v1/jobs/{id} HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("sent");
    idle.read_exact(&mut [0; 15]).expect("the answer has begun");
    let mut next = connect(&server);
    next.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").expect("sent");
    assert!(rest(next).starts_with("HTTP/1.1 200 "), "the place is free again");
    let mut left = Vec::new();
    let ended = idle.read_to_end(&mut left);
    assert!(ended.is_err() || left.len() < 48 << 20, "it was cut off");
}
