//! Whose word about a job counts.

use serde_json::{Value, json};
use windlass_e2e::{Client, Data, Server};

use super::{client_of, client_with, make_namespace};

fn fetch(client: &Client, queue: &str) -> Value {
    let fetched = client.post("/api/v1/fetch", &json!({"queues": [queue], "worker_id": "w", "timeout": 5}));
    assert_eq!(fetched.status, 200, "{fetched:?}");
    fetched.body
}

#[test]
fn without_a_token_only_the_key_that_fetched_a_job_speaks_for_it() {
    let server = Server::start();
    let (own, other) = (client_of(&server, "worker", "default"), client_of(&server, "worker", "default"));
    let id = server.enqueue(&json!({"queue": "mail"}));
    let token = fetch(&own, "mail")["lease_token"].clone();
    for path in [format!("/api/v1/ack/{id}"), format!("/api/v1/fail/{id}")] {
        let refused = other.post(&path, &json!({"result": "forged", "error": "forged"}));
        assert_eq!((refused.status, &refused.body["code"]), (410, &json!("JOB_NOT_ACTIVE")), "{path}: {refused:?}");
    }
    let batch = other.post("/api/v1/ack/batch", &json!({"acks": [{"job_id": id, "result": "forged"}]}));
    assert_eq!(batch.body, json!({"acked": 0}));
    let beat = |client: &Client| {
        client.post("/api/v1/heartbeat", &json!({"jobs": {&id: {"progress": {"current": 1, "total": 2}}}})).body["jobs"]
            [&id]["status"]
            .clone()
    };
    assert_eq!([beat(&other), beat(&own)], [json!("cancel"), json!("ok")]);
    // With the token, the key does not matter: workers share jobs as they like.
    let with_token = json!({"jobs": {&id: {"lease_token": token}}});
    assert_eq!(other.post("/api/v1/heartbeat", &with_token).body["jobs"][&id]["status"], "ok");
    let server = Server::start_on(&server.kill_9(), &[]);
    let (own, other) = (own.at(&server), other.at(&server));
    assert_eq!(
        other.post(&format!("/api/v1/ack/{id}"), &json!({"result": "forged"})).status,
        410,
        "also after a restart"
    );
    for _ in 0..2 {
        assert_eq!(own.post(&format!("/api/v1/ack/{id}"), &json!({"result": "own"})).status, 200, "an older client");
    }
    assert_eq!(other.post(&format!("/api/v1/ack/{id}"), &json!({})).status, 410, "nor is the ack repeated for it");
    assert_eq!(server.job(&id)["result"], "own");
    let id = server.enqueue(&json!({"queue": "mail"}));
    fetch(&own, "mail");
    assert_eq!(server.post(&format!("/api/v1/ack/{id}"), &json!({})).status, 200, "an admin may");
}

#[test]
fn a_server_can_require_lease_tokens() {
    let server = Server::start_on(&Data::new(), &["--require-lease-token"]);
    let worker = client_of(&server, "worker", "default");
    let id = server.enqueue(&json!({"queue": "mail"}));
    let token = fetch(&worker, "mail")["lease_token"].clone();
    for (path, body) in [
        (format!("/api/v1/ack/{id}"), json!({})),
        (format!("/api/v1/fail/{id}"), json!({"error": "e"})),
        ("/api/v1/ack/batch".to_owned(), json!({"acks": [{"job_id": id}]})),
        ("/api/v1/heartbeat".to_owned(), json!({"jobs": {&id: {}}})),
    ] {
        let refused = worker.post(&path, &body);
        assert_eq!((refused.status, &refused.body["code"]), (400, &json!("VALIDATION_ERROR")), "{path}: {refused:?}");
        assert!(refused.body["error"].as_str().is_some_and(|why| why.contains("lease_token")), "{refused:?}");
    }
    assert_eq!(worker.post(&format!("/api/v1/ack/{id}"), &json!({"lease_token": token})).status, 200);
}

#[test]
fn a_worker_marks_records_only_in_its_own_namespace_and_queues() {
    let server = Server::start();
    make_namespace(&server, "acme", &json!({}));
    let record = |client: &Client| {
        let id = client.enqueue(&json!({"queue": "src"}));
        fetch(client, "src");
        let ack = json!({"records": [{"key": "a", "value": {}}]});
        assert_eq!(client.post(&format!("/api/v1/ack/{id}"), &ack).status, 200);
    };
    let acme = client_of(&server, "admin", "acme");
    record(&server);
    record(&acme);
    let mark_of = |client: &Client| client.get("/api/v1/queues/src/records").body["records"][0]["mark"].clone();
    let marks = json!([{"queue": "src", "key": "a", "mark": "of acme"}]);
    let id = acme.enqueue(&json!({"queue": "work"}));
    fetch(&acme, "work");
    let beat = json!({"jobs": {&id: {"checkpoint": {"at": 1}, "marks": marks}}});
    assert_eq!(acme.post("/api/v1/heartbeat", &beat).status, 200);
    assert_eq!([mark_of(&acme), mark_of(&server)], [json!("of acme"), json!(null)]);
    let acks = json!({"acks": [{"job_id": id, "marks": [{"queue": "src", "key": "a", "mark": "with the ack"}]}]});
    assert_eq!(acme.post("/api/v1/ack/batch", &acks).body, json!({"acked": 1}));
    assert_eq!([mark_of(&acme), mark_of(&server)], [json!("with the ack"), json!(null)]);
    // A key of some queues marks in those.
    let (limited, _) = client_with(&server, &json!({"name": "w", "role": "worker", "queues": ["work"]}));
    let id = server.enqueue(&json!({"queue": "work"}));
    fetch(&limited, "work");
    let refused = limited.post(&format!("/api/v1/ack/{id}"), &json!({"marks": marks}));
    assert_eq!((refused.status, &refused.body["code"]), (403, &json!("FORBIDDEN")), "{refused:?}");
}
