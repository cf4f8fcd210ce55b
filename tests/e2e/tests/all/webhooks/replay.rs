//! A signed webhook that comes again: it is answered like the first, and enqueues nothing.

use serde_json::{Value, json};
use windlass_e2e::{Data, Server};

use super::sender::{Headers, github, now, send, standard, stripe};

const SECRET: &str = "a secret that the sender has";
const WHSEC: &str = "whsec_YSBmaXJzdCBzZWNyZXQgb2YgMzIgYnl0ZXMsIGEgaG8=";

fn server(data: &Data, scheme: &str, secret: &str) -> Server {
    let server = Server::start_on(data, &[]);
    let settings = json!({"scheme": scheme, "secret": secret}).to_string();
    assert_eq!(server.put("/api/v1/inbound-webhooks/q", settings.as_bytes()).status, 200);
    server
}

/// The first is stored, and the second is the same job.
#[track_caller]
fn once(server: &Server, first: (&Headers, &[u8]), second: (&str, &Headers, &[u8])) -> Value {
    let stored = send(server, "q", first.0, first.1);
    assert_eq!((stored.status, &stored.body["unique_existing"]), (201, &json!(false)), "{stored:?}");
    let (query, headers, body) = second;
    let again = send(server, &format!("q{query}"), headers, body);
    assert_eq!((again.status, &again.body["job_id"]), (200, &stored.body["job_id"]), "{again:?}");
    again.body
}

#[test]
fn a_copy_of_what_github_signed_is_recognised_whatever_else_it_says() {
    let data = Data::new();
    let server = server(&data, "github", SECRET);
    let body = br#"{"action": "opened"}"#;
    let (first, copy) = (github(SECRET, "d1", body), github(SECRET, "d1", body));
    let again = once(&server, (&first, body), ("", &copy, body));
    // The id of the delivery and the query are not signed.
    let id = again["job_id"].clone();
    for (query, delivery) in [("", "d2"), ("?priority=critical&tags=a:b", "d1")] {
        let copy = send(&server, &format!("q{query}"), &github(SECRET, delivery, body), body);
        assert_eq!((copy.status, &copy.body["job_id"]), (200, &id), "{copy:?}");
    }
    let refused = send(&server, "q?unique_key=mine", &github(SECRET, "d3", body), body);
    assert_eq!(refused.status, 400, "{refused:?}");
    let mut keyed = github(SECRET, "d4", body);
    keyed.push(("Idempotency-Key", "another".into()));
    assert_eq!(send(&server, "q", &keyed, body).body["job_id"], id);
    assert_eq!(server.queue("q")["pending"], 1);

    // It is remembered on disk, and after its job has ended.
    let data = server.kill_9();
    let server = Server::start_on(&data, &[]);
    let fetched = server.post("/api/v1/fetch", &json!({"queues": ["q"], "worker_id": "w"})).body;
    server.post(&format!("/api/v1/ack/{}", fetched["job_id"].as_str().expect("a job")), &json!({"result": "hidden"}));
    let copy = send(&server, "q", &github(SECRET, "d1", body), body);
    assert_eq!((copy.status, &copy.body["job_id"]), (200, &id), "{copy:?}");
    let other = send(&server, "q", &github(SECRET, "d1", b"{}"), b"{}");
    assert_eq!(other.status, 201, "another body is another delivery: {other:?}");
}

#[test]
fn whoever_repeats_a_signed_webhook_learns_nothing_of_its_job() {
    let server = server(&Data::new(), "github", SECRET);
    let body = br#"{"card": "4242"}"#;
    let first = github(SECRET, "d1", body);
    assert_eq!(send(&server, "q", &first, body).status, 201);
    let fetched = server.post("/api/v1/fetch", &json!({"queues": ["q"], "worker_id": "w"})).body;
    let ack = format!("/api/v1/ack/{}", fetched["job_id"].as_str().expect("a job"));
    assert_eq!(server.post(&ack, &json!({"result": "a confidential result"})).status, 200);
    let again = send(&server, "q", &first, body);
    assert_eq!(again.status, 200, "{again:?}");
    let text = again.body.to_string();
    assert!(!text.contains("confidential") && !text.contains("4242"), "{text}");
}

#[test]
fn a_stripe_event_is_recognised_by_its_id_when_it_is_signed_anew() {
    let server = server(&Data::new(), "stripe", SECRET);
    let body = br#"{"id": "evt_1", "type": "charge.succeeded"}"#;
    once(&server, (&stripe(SECRET, now() - 60, body), body), ("", &stripe(SECRET, now(), body), body));
    let other = br#"{"id": "evt_2", "type": "charge.succeeded"}"#;
    assert_eq!(send(&server, "q", &stripe(SECRET, now(), other), other).status, 201);
    // Without an id, what was signed is recognised.
    let plain = b"[1]";
    let at = now();
    once(&server, (&stripe(SECRET, at, plain), plain), ("", &stripe(SECRET, at, plain), plain));
}

#[test]
fn a_standard_webhook_is_recognised_by_its_id_when_it_is_signed_anew() {
    let server = server(&Data::new(), "standard", WHSEC);
    let body = br#"{"type": "user.created"}"#;
    once(
        &server,
        (&standard(WHSEC, "msg_1", now() - 60, body), body),
        ("", &standard(WHSEC, "msg_1", now(), body), body),
    );
    let other = send(&server, "q", &standard(WHSEC, "msg_2", now(), body), body);
    assert_eq!(other.status, 201, "another id is another delivery: {other:?}");
}
