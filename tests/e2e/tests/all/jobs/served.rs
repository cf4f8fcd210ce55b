//! The response to an enqueue tells whether the queue is served.

use std::thread;

use serde_json::{Value, json};
use windlass_e2e::{Server, eventually};

#[track_caller]
fn enqueue(server: &Server, queue: &str) -> Value {
    let answer = server.post("/api/v1/enqueue", &json!({"queue": queue}));
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.body
}

#[test]
fn an_enqueue_to_an_unserved_queue_is_accepted_with_a_warning() {
    let server = Server::start();
    let body = enqueue(&server, "lonely");
    assert_eq!(body["served_by"], Value::Null);
    assert!(body.as_object().is_some_and(|body| body.contains_key("served_by")), "{body:#}");
    let warning = body["warnings"][0].as_str().expect("a warning");
    for part in ["no plugin", "no worker", "`lonely`"] {
        assert!(warning.contains(part), "{warning}");
    }
    let hook = server.post("/api/v1/webhooks/lonely", &json!({"from": "elsewhere"})).body;
    assert!(hook["served_by"].is_null() && hook["warnings"].is_array(), "{hook:#}");
}

#[test]
fn an_enqueue_names_the_plugin_that_serves_the_queue() {
    let server = Server::start();
    server.upload("digest", "served");
    let body = enqueue(&server, "served");
    assert_eq!((&body["served_by"], &body["warnings"]), (&json!("digest"), &Value::Null), "{body:#}");
}

#[test]
fn a_worker_serves_a_queue_while_it_waits_there_and_after_it_has_fetched() {
    let server = Server::start();
    let client = (*server).clone();
    let waiting = thread::spawn(move || client.post("/api/v1/fetch", &json!({"queues": ["work"], "timeout": 50})));
    eventually("the fetch waits", || (enqueue(&server, "work")["served_by"] == "workers").then_some(()));
    waiting.join().expect("it was given a job");
    let body = enqueue(&server, "work");
    assert_eq!((&body["served_by"], &body["warnings"]), (&json!("workers"), &Value::Null), "{body:#}");
    assert!(enqueue(&server, "other")["served_by"].is_null(), "another queue is not served by that");
}

#[test]
fn a_bulk_enqueue_reports_it_for_each_of_its_queues() {
    let server = Server::start();
    server.upload("digest", "served");
    let jobs = json!({"jobs": [{"queue": "served"}, {"queue": "lonely"}, {"queue": "lonely"}]});
    let body = server.post("/api/v1/enqueue/batch", &jobs).body;
    assert_eq!(body["served_by"], json!({"served": "digest", "lonely": null}), "{body:#}");
    let warnings = body["warnings"].as_array().expect("warnings");
    assert!(warnings.len() == 1 && warnings[0].as_str().is_some_and(|text| text.contains("`lonely`")), "{body:#}");
}

#[test]
fn a_duplicate_reports_it_for_the_queue_of_the_existing_job() {
    let server = Server::start();
    server.upload("digest", "served");
    let unique = |queue: &str| json!({"queue": queue, "unique_key": "k", "unique_scope": "scope", "scope": "a:1", "delay": "1h"});
    assert_eq!(server.post("/api/v1/enqueue", &unique("served")).status, 201);
    let again = server.post("/api/v1/enqueue", &unique("lonely"));
    assert_eq!((again.status, &again.body["served_by"]), (200, &json!("digest")), "{again:?}");
}
