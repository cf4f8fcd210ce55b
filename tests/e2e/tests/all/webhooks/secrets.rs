//! The secrets that sign what is sent: made by the server or given to it, two of them during a rotation, and never
//! shown.

use serde_json::{Value, json};
use windlass_e2e::{Data, Server, files_holding};

use super::receiver::{Delivery, PRIVATE, address, next};

const FIRST: &str = "whsec_YSBmaXJzdCBzZWNyZXQgb2YgMzIgYnl0ZXMsIGEgaG8=";
const SECOND: &str = "whsec_YSBzZWNvbmQgc2VjcmV0IG9mIHRoaXJ0eS10d28gYnl0";

/// A webhook with this secret, for new jobs.
fn hook(server: &Server, url: &str, secret: &str) -> String {
    let body = json!({"url": url, "events": ["enqueued"], "secret": secret});
    let made = server.post("/api/v1/webhook-endpoints", &body);
    assert_eq!(made.status, 201, "{made:?}");
    assert!(made.body.get("secret").is_none(), "who sent it has it: {made:?}");
    made.body["id"].as_str().expect("an id").to_owned()
}

fn rotate(server: &Server, id: &str, body: &Value) -> Value {
    let answer = server.post(&format!("/api/v1/webhook-endpoints/{id}/rotate-secret"), body);
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body
}

/// The delivery for a new job: others may come before it.
fn next_job(server: &Server, deliveries: &std::sync::mpsc::Receiver<Delivery>) -> Delivery {
    let id = server.enqueue(&json!({"queue": "q"}));
    std::iter::from_fn(|| Some(next(deliveries))).find(|found| found.body["job_id"] == json!(id)).expect("it is told")
}

#[test]
fn a_secret_is_encrypted_and_signs_after_a_restart_too() {
    let data = Data::new();
    let server = Server::start_on(&data, PRIVATE);
    let (url, deliveries) = address(&[]);
    hook(&server, &url, FIRST);
    assert!(next_job(&server, &deliveries).is_signed_with(FIRST));
    let (_, said, data) = server.stop();
    assert!(!said.contains(FIRST), "the server's log");
    assert_eq!(files_holding(data.path(), FIRST.as_bytes()), Vec::<String>::new());

    let server = Server::start_on(&data, PRIVATE);
    assert!(next_job(&server, &deliveries).is_signed_with(FIRST));
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
fn a_rotated_secret_signs_beside_the_new_one_also_after_a_restart_until_it_is_dropped() {
    let data = Data::new();
    let server = Server::start_on(&data, PRIVATE);
    let (url, deliveries) = address(&[]);
    let id = hook(&server, &url, FIRST);
    let rotated = rotate(&server, &id, &json!({"secret": SECOND}));
    assert!(rotated["previous_secret_until"].is_string() && rotated.get("secret").is_none(), "{rotated}");
    let delivery = next_job(&server, &deliveries);
    assert!(delivery.is_signed_with(FIRST) && delivery.is_signed_with(SECOND));
    server.stop();

    let server = Server::start_on(&data, PRIVATE);
    let delivery = next_job(&server, &deliveries);
    assert!(delivery.is_signed_with(FIRST) && delivery.is_signed_with(SECOND));

    // A third one drops the first; one that has leaked goes at once.
    let made = rotate(&server, &id, &json!({}));
    let third = made["secret"].as_str().expect("one that the server has made").to_owned();
    let delivery = next_job(&server, &deliveries);
    assert!(delivery.is_signed_with(SECOND) && delivery.is_signed_with(&third) && !delivery.is_signed_with(FIRST));
    let rotated = rotate(&server, &id, &json!({"secret": FIRST, "keep_previous": 0}));
    assert_eq!(rotated["previous_secret_until"], Value::Null);
    let delivery = next_job(&server, &deliveries);
    assert!(delivery.is_signed_with(FIRST) && delivery.signatures().count() == 1);

    let refused =
        server.post(&format!("/api/v1/webhook-endpoints/{id}/rotate-secret"), &json!({"keep_previous": "99d"}));
    assert_eq!(refused.status, 400, "{refused:?}");
    let paths = ["/api/v1/webhook-endpoints", "/openapi.json", "/metrics", "/api/v1/secrets"];
    let shown: String = paths.iter().map(|path| String::from_utf8_lossy(&server.download(path)).into_owned()).collect();
    let (_, said, data) = server.stop();
    for secret in [FIRST, SECOND, &third] {
        assert!(!shown.contains(secret) && !said.contains(secret), "shown");
        assert_eq!(files_holding(data.path(), secret.as_bytes()), Vec::<String>::new());
    }
}

#[test]
fn a_rotated_secret_stops_signing_when_its_time_is_over() {
    let server = Server::start_on(&Data::new(), PRIVATE);
    let (url, deliveries) = address(&[]);
    let id = hook(&server, &url, FIRST);
    rotate(&server, &id, &json!({"secret": SECOND, "keep_previous": "1ms"}));
    windlass_e2e::eventually("the old one is silent", || {
        let delivery = next_job(&server, &deliveries);
        assert!(delivery.is_signed_with(SECOND));
        (!delivery.is_signed_with(FIRST)).then_some(())
    });
    let shown = server.get(&format!("/api/v1/webhook-endpoints/{id}")).body;
    assert_eq!(shown["previous_secret_until"], Value::Null);
}
