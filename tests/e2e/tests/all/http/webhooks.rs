//! Events sent to addresses: what was asked for, signed, again when it failed, and on from there after a restart.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use hmac::{Hmac, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use windlass_e2e::{DEADLINE, Data, Server, eventually, files_holding};

/// One delivery as it came.
struct Delivery {
    headers: Vec<(String, String)>,
    bytes: Vec<u8>,
    body: Value,
}

impl Delivery {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }
}

/// An address that answers each delivery with the next of these statuses, and 200 after them.
fn address(statuses: &'static [u16]) -> (String, Receiver<Delivery>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/hook?x=1", listener.local_addr().expect("an address"));
    let (sender, deliveries) = mpsc::channel();
    let mut statuses = statuses.iter().copied();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let status = statuses.next().unwrap_or(200);
            if let Some(delivery) = receive(stream, status)
                && sender.send(delivery).is_err()
            {
                return;
            }
        }
    });
    (url, deliveries)
}

fn receive(mut stream: TcpStream, status: u16) -> Option<Delivery> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    assert_eq!(line.trim_end(), "POST /hook?x=1 HTTP/1.1");
    let mut headers = Vec::new();
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.push((name.to_lowercase(), value.to_owned()));
    }
    let length: usize = headers.iter().find(|(name, _)| name == "content-length")?.1.parse().ok()?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    write!(stream, "HTTP/1.1 {status} X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").ok()?;
    Some(Delivery { headers, body: serde_json::from_slice(&body).expect("JSON"), bytes: body })
}

fn next(deliveries: &Receiver<Delivery>) -> Delivery {
    deliveries.recv_timeout(DEADLINE).expect("a delivery")
}

const PRIVATE: &[&str] = &["--webhooks-private"];

#[test]
fn what_was_asked_for_arrives_signed_and_in_order() {
    let server = Server::start_on(&Data::new(), PRIVATE);
    let (url, deliveries) = address(&[]);
    let hook = server.post(
        "/api/v1/webhook-endpoints",
        &json!({"url": url, "events": ["enqueued", "cancelled"], "secret": "s3cret"}),
    );
    assert_eq!(hook.status, 201, "{hook:?}");
    assert_eq!((&hook.body["has_secret"], &hook.body["retry_limit"]), (&json!(true), &json!(3)));
    assert!(!hook.body.to_string().contains("s3cret"), "{hook:?}");
    let id = server.enqueue(&json!({"queue": "q"}));
    server.post(&format!("/api/v1/jobs/{id}/hold"), &json!({}));
    server.post(&format!("/api/v1/jobs/{id}/cancel"), &json!({"reason": "no"}));
    for kind in ["enqueued", "cancelled"] {
        let delivery = next(&deliveries);
        assert_eq!((&delivery.body["type"], &delivery.body["job_id"]), (&json!(kind), &json!(id)));
        assert_eq!(delivery.header("x-windlass-event"), Some(kind));
        assert_eq!(delivery.header("content-type"), Some("application/json"));
        let signature = delivery.header("x-windlass-signature").expect("signed");
        assert!(signature.starts_with("sha256=") && signature.len() == 71, "{signature}");
    }
    eventually("it is counted", || (server.get("/api/v1/webhook-endpoints").body[0]["delivered"] == 2).then_some(()));
    let hook_id = hook.body["id"].as_str().expect("an id");
    assert_eq!(server.delete(&format!("/api/v1/webhook-endpoints/{hook_id}")).body, json!({"status": "deleted"}));
    assert_eq!(server.delete(&format!("/api/v1/webhook-endpoints/{hook_id}")).status, 404);
    assert_eq!(server.get("/api/v1/webhook-endpoints").body, json!([]));
}

#[test]
fn a_delivery_that_fails_is_tried_again_and_given_up_in_the_end() {
    let server = Server::start_on(&Data::new(), PRIVATE);
    let (url, deliveries) = address(&[500, 302, 503, 404, 200]);
    server.post("/api/v1/webhook-endpoints", &json!({"url": url, "events": ["enqueued"], "retry_limit": 1}));
    for _ in 0..3 {
        server.enqueue(&json!({"queue": "q"}));
    }
    let named: Vec<String> =
        (0..5).map(|_| next(&deliveries).header("x-windlass-delivery").expect("named").to_owned()).collect();
    assert!(named[0] == named[1] && named[2] == named[3] && named[3] != named[4], "{named:?}");
    let hook = eventually("both are counted", || {
        let hook = server.get("/api/v1/webhook-endpoints").body[0].clone();
        (hook["delivered"] == 1 && hook["failed"] == 2).then_some(hook)
    });
    assert_eq!(hook["last_error"], Value::Null, "the last one arrived: {hook:#}");
}

#[test]
fn after_a_restart_it_goes_on_where_it_was() {
    let data = Data::new();
    let server = Server::start_on(&data, PRIVATE);
    // Nobody listens there yet.
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port");
    let place = closed.local_addr().expect("an address");
    drop(closed);
    let hook = json!({"url": format!("http://{place}/hook?x=1"), "events": ["enqueued"], "retry_limit": 20});
    assert_eq!(server.post("/api/v1/webhook-endpoints", &hook).status, 201);
    let id = server.enqueue(&json!({"queue": "q"}));
    let data = server.kill_9();
    let listener = TcpListener::bind(place).expect("the same port");
    let server = Server::start_on(&data, PRIVATE);
    let (stream, _) = listener.accept().expect("it is told");
    let delivery = receive(stream, 200).expect("a delivery");
    assert_eq!(delivery.body["job_id"], json!(id));
    eventually("it is counted", || (server.get("/api/v1/webhook-endpoints").body[0]["delivered"] == 1).then_some(()));
}

/// What a receiver computes to hold against `X-Windlass-Signature`.
fn signature(secret: &str, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("a key of any length");
    mac.update(body);
    let hex: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={hex}")
}

#[test]
fn the_secret_of_a_webhook_is_sealed_and_signs_after_a_restart_too() {
    const SECRET: &str = "b3tw33n-us-and-the-r3c3iver";
    let data = Data::new();
    let server = Server::start_on(&data, PRIVATE);
    let (url, deliveries) = address(&[]);
    let hook = json!({"url": url, "events": ["enqueued"], "secret": SECRET});
    assert_eq!(server.post("/api/v1/webhook-endpoints", &hook).status, 201);
    server.enqueue(&json!({"queue": "q"}));
    let delivery = next(&deliveries);
    assert_eq!(delivery.header("x-windlass-signature"), Some(signature(SECRET, &delivery.bytes).as_str()));
    let (_, said, data) = server.stop();
    assert!(!said.contains(SECRET), "the server's log");
    assert_eq!(files_holding(data.path(), SECRET.as_bytes()), Vec::<String>::new());

    let server = Server::start_on(&data, PRIVATE);
    let id = server.enqueue(&json!({"queue": "q"}));
    let delivery = std::iter::from_fn(|| Some(next(&deliveries))).find(|delivery| delivery.body["job_id"] == json!(id));
    let delivery = delivery.expect("it is told");
    assert_eq!(delivery.header("x-windlass-signature"), Some(signature(SECRET, &delivery.bytes).as_str()));
    server.stop();

    let key = data.path().join("secrets.key");
    std::fs::write(&key, "ab".repeat(32)).expect("another key");
    let refused = Server::try_start(&data, PRIVATE).expect_err("it is another key");
    assert!(refused.said.contains("the secret of the webhook `hook_"), "{}", refused.said);
    std::fs::remove_file(&key).expect("it goes");
    let refused = Server::try_start(&data, PRIVATE).expect_err("there is no key");
    assert!(refused.said.contains("the key of the stored secrets (1 of them)"), "{}", refused.said);
}

#[test]
fn inner_addresses_and_other_nonsense_are_refused_with_words() {
    let server = Server::start();
    for (hook, word) in [
        (json!({}), "url"),
        (json!({"url": "http://127.0.0.1/"}), "--webhooks-private"),
        (json!({"url": "http://169.254.169.254/latest/meta-data"}), "--webhooks-private"),
        (json!({"url": "ftp://example.com/"}), "https://example.com/hooks"),
        (json!({"url": "https://example.com/", "events": ["finished"]}), "completed"),
        (json!({"url": "https://example.com/", "retry_limit": 99}), "retry_limit"),
        (json!({"url": "https://example.com/", "secret": ""}), "secret"),
    ] {
        let answer = server.post("/api/v1/webhook-endpoints", &hook);
        assert_eq!(answer.status, 400, "{hook}: {answer:?}");
        assert!(answer.body["error"].as_str().is_some_and(|error| error.contains(word)), "{hook}: {answer:?}");
    }
    assert_eq!(server.get("/api/v1/webhook-endpoints").body, json!([]));
}

#[test]
fn outgoing_webhooks_are_found_under_their_older_path_too_and_incoming_ones_beside_it() {
    let server = Server::start();
    let hook = json!({"url": "https://example.com/hooks", "events": ["dead"]});
    let older = server.post("/api/v1/webhooks", &hook);
    assert_eq!(older.status, 201, "{older:?}");
    let id = older.body["id"].as_str().expect("an id");
    let shown = server.get(&format!("/api/v1/webhook-endpoints/{id}"));
    assert_eq!((shown.status, &shown.body), (200, &older.body));
    assert_eq!(server.get("/api/v1/webhook-endpoints").body, server.get("/api/v1/webhooks").body);
    // A job for a queue with the name of the endpoint: the incoming path is another.
    let job = server.post(&format!("/api/v1/webhooks/{id}"), &json!({"from": "elsewhere"}));
    assert_eq!((job.status, &job.body["status"]), (201, &json!("pending")), "{job:?}");
    assert_eq!(server.post(&format!("/api/v1/webhook-endpoints/{id}"), &json!({})).status, 405);
    assert_eq!(server.delete(&format!("/api/v1/webhooks/{id}")).body, json!({"status": "deleted"}));
    assert_eq!(server.get(&format!("/api/v1/webhook-endpoints/{id}")).status, 404);
    let document = server.get("/openapi.json").body;
    let deprecated = |path: &str, method: &str| document["paths"][path][method]["deprecated"].clone();
    for (path, method, expected) in [
        ("/api/v1/webhooks", "get", json!(true)),
        ("/api/v1/webhooks", "post", json!(true)),
        ("/api/v1/webhooks/{name}", "delete", json!(true)),
        ("/api/v1/webhooks/{name}", "post", Value::Null),
        ("/api/v1/webhook-endpoints", "post", Value::Null),
    ] {
        assert!(document["paths"][path][method].is_object(), "{method} {path}");
        assert_eq!(deprecated(path, method), expected, "{method} {path}");
    }
}
