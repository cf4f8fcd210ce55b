//! The memory for request bodies: many slow ones beside a client that works.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};
use windlass_e2e::{Client, DEADLINE, Data, Server};

const MIB: usize = 1 << 20;

/// Sends the beginning of a large body and no more.
fn stall(server: &Server) -> TcpStream {
    let mut stream = TcpStream::connect(server.url("").trim_start_matches("http://")).expect("connected");
    stream.set_read_timeout(Some(DEADLINE)).expect("a socket");
    let length = 4 * MIB;
    write!(stream, "POST /api/v1/enqueue HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n")
        .expect("sent");
    let part = format!(r#"{{"queue": "slow", "payload": "{}"#, "x".repeat(MIB));
    // A refusal may come before everything is sent.
    let _ = stream.write_all(part.as_bytes());
    stream
}

#[test]
fn many_slow_large_bodies_do_not_keep_out_a_client_that_works() {
    let flags = ["--insecure", "--max-body", "4MiB", "--max-buffered-bodies", "8MiB", "--client-timeout", "3600"];
    let server = Server::start_on(&Data::new(), &flags);
    let slow: Vec<TcpStream> = (0..40).map(|_| stall(&server)).collect();
    for n in 0..20 {
        let client = Client::new(server.url(""));
        let small = client.post("/api/v1/enqueue", &json!({"queue": "q", "payload": n}));
        assert_eq!(small.status, 201, "{n}: {small:?}");
        let large = client.post("/api/v1/enqueue", &json!({"queue": "q", "payload": "x".repeat(3 * MIB)}));
        assert_eq!(large.status, 201, "{n}: {large:?}");
    }
    assert_eq!(server.queue("q")["pending"], 40);
    // At least those that the memory could not hold were told to come again.
    let refused = slow.into_iter().filter_map(|mut stream| {
        stream.shutdown(std::net::Shutdown::Write).ok()?;
        let mut said = String::new();
        stream.read_to_string(&mut said).ok()?;
        said.starts_with("HTTP/1.1 429 ").then_some(said)
    });
    let refused: Vec<String> = refused.collect();
    assert!(refused.len() >= 30, "only {} were refused", refused.len());
    for said in refused {
        assert!(said.contains("retry-after: 1\r\n"), "{said}");
        let body: Value = serde_json::from_str(said.split("\r\n\r\n").nth(1).expect("a body")).expect("JSON");
        assert_eq!((&body["code"], &body["retry_after_ms"]), (&json!("OVERLOADED"), &json!(1000)), "{body}");
    }
    let queues = server.get("/api/v1/queues").body;
    assert_eq!(queues.as_array().map(Vec::len), Some(1), "nothing was done for the slow ones: {queues:#}");
}

#[test]
fn a_body_that_fits_alone_is_accepted_to_the_last_byte() {
    let flags = ["--insecure", "--max-body", "4MiB", "--max-buffered-bodies", "4MiB"];
    let server = Server::start_on(&Data::new(), &flags);
    let frame = r#"{"queue": "q", "payload": ""}"#.len();
    let payload = "x".repeat(4 * MIB - frame);
    let whole = format!(r#"{{"queue": "q", "payload": "{payload}"}}"#);
    assert_eq!(server.post_bytes("/api/v1/enqueue", whole.as_bytes()).status, 201);
    // A component may be larger than a body, but not larger than the memory for all of them.
    let refused = server.put("/api/v1/plugins/large?queues=q", &vec![0; 5 * MIB]);
    assert_eq!((refused.status, &refused.body["code"]), (413, &json!("PAYLOAD_TOO_LARGE")));
    assert!(refused.body["error"].as_str().is_some_and(|why| why.contains("--max-buffered-bodies")), "{refused:?}");
}
