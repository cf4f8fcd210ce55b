//! Webhooks that are changed while they deliver.

use serde_json::{Value, json};
use windlass_e2e::{Data, Server, eventually};

use super::receiver::{PRIVATE, address, next};

fn path(hook: &Value) -> String {
    format!("/api/v1/webhook-endpoints/{}", hook["id"].as_str().expect("an id"))
}

#[test]
fn a_delivery_that_waits_for_its_next_attempt_is_sent_to_a_corrected_address_at_once() {
    let server = Server::start_on(&Data::new(), PRIVATE);
    // It fails again and again: the pauses grow to minutes.
    let (wrong, refused) = address(&[500; 64]);
    let (right, deliveries) = address(&[]);
    let hook = json!({"url": wrong, "events": ["enqueued"], "retry_limit": 20});
    let hook = server.post("/api/v1/webhook-endpoints", &hook).body;
    let id = server.enqueue(&json!({"queue": "q"}));
    let first = next(&refused);
    next(&refused);
    let edited = server.patch(&path(&hook), &json!({"url": right}));
    assert_eq!((edited.status, &edited.body["url"]), (200, &json!(right)), "{edited:?}");
    assert_eq!((&edited.body["events"], &edited.body["retry_limit"]), (&json!(["enqueued"]), &json!(20)), "they stay");
    let delivery = next(&deliveries);
    assert_eq!((delivery.id(), &delivery.body["job_id"]), (first.id(), &json!(id)));
    eventually("it is counted", || (server.get(&path(&hook)).body["delivered"] == 1).then_some(()));
}

#[test]
fn a_webhook_gets_the_events_that_it_was_edited_to_get() {
    let server = Server::start_on(&Data::new(), PRIVATE);
    let (url, deliveries) = address(&[]);
    let hook = server.post("/api/v1/webhook-endpoints", &json!({"url": url, "events": ["dead"]})).body;
    server.enqueue(&json!({"queue": "q"}));
    assert_eq!(server.patch(&path(&hook), &json!({"events": ["cancelled"]})).status, 200);
    let id = server.enqueue(&json!({"queue": "q"}));
    server.post(&format!("/api/v1/jobs/{id}/cancel"), &json!({}));
    let delivery = next(&deliveries);
    assert_eq!((&delivery.body["type"], &delivery.body["job_id"]), (&json!("cancelled"), &json!(id)));
}

#[test]
fn a_webhook_that_is_enabled_gets_what_happens_from_then_on() {
    let server = Server::start_on(&Data::new(), PRIVATE);
    let (url, deliveries) = address(&[]);
    let hook = json!({"url": url, "events": ["enqueued"], "enabled": false});
    let hook = server.post("/api/v1/webhook-endpoints", &hook).body;
    server.enqueue(&json!({"queue": "q"}));
    let edited = server.patch(&path(&hook), &json!({"enabled": true}));
    assert_eq!((edited.status, &edited.body["enabled"]), (200, &json!(true)), "{edited:?}");
    let id = server.enqueue(&json!({"queue": "q"}));
    assert_eq!(next(&deliveries).body["job_id"], json!(id), "not the job from before");
    assert_eq!(server.patch(&path(&hook), &json!({"enabled": false})).body["enabled"], json!(false));
    assert_eq!(server.get(&path(&hook)).body["enabled"], json!(false));
}

#[test]
fn an_edit_is_checked_like_a_new_webhook() {
    let server = Server::start();
    let hook = server.post("/api/v1/webhook-endpoints", &json!({"url": "https://example.com/"})).body;
    for (edit, word) in [
        (json!({"url": "http://127.0.0.1/"}), "--webhooks-private"),
        (json!({"url": "nowhere"}), "https://example.com/hooks"),
        (json!({"events": []}), "events"),
        (json!({"events": ["finished"]}), "completed"),
        (json!({"retry_limit": 99}), "retry_limit"),
    ] {
        let answer = server.patch(&path(&hook), &edit);
        assert_eq!(answer.status, 400, "{edit}: {answer:?}");
        assert!(answer.body["error"].as_str().is_some_and(|error| error.contains(word)), "{edit}: {answer:?}");
    }
    let unknown = server.patch(&format!("{}?strict=true", path(&hook)), &json!({"secret": "x"}));
    assert_eq!(unknown.status, 400, "{unknown:?}");
    let mut shown = server.get(&path(&hook)).body;
    shown["secret"] = hook["secret"].clone();
    assert_eq!(shown, hook, "nothing has changed");
    for request in ["", "/rotate-secret", "/test", "/deliveries/x/redeliver"] {
        let path = format!("/api/v1/webhook-endpoints/hook_0{request}");
        let answer = if request.is_empty() { server.patch(&path, &json!({})) } else { server.post(&path, &json!({})) };
        assert_eq!((answer.status, &answer.body["code"]), (404, &json!("NOT_FOUND")), "{path}: {answer:?}");
    }
    assert_eq!(server.get("/api/v1/webhook-endpoints/hook_0/deliveries").status, 404);
}
