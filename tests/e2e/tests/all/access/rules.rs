//! Enqueue rules: a public form feeds one queue, and does nothing else.

use serde_json::json;
use windlass_e2e::Server;

use super::{client_of, client_with};

#[test]
fn anybody_enqueues_where_a_rule_says_so_as_often_as_it_says_and_does_nothing_else() {
    let server = Server::start();
    let stranger = server.without_key();
    let form = json!({"queue": "contact", "payload": {"text": "hello"}});
    assert_eq!(stranger.post("/api/v1/enqueue", &form).status, 401);
    let rule = json!([{"queues": ["contact"], "who": "anybody", "rate": {"count": 2, "per": "1h"}}]);
    let set = server.put("/api/v1/enqueue-rules", rule.to_string().as_bytes());
    assert_eq!(set.status, 200, "{set:?}");
    let first = stranger.post("/api/v1/enqueue", &form);
    assert_eq!(first.status, 201, "{first:?}");
    let id = first.body["job_id"].as_str().expect("an id");
    assert_eq!(server.job(id)["created_by"], "anybody");
    assert_eq!(stranger.post("/api/v1/enqueue", &json!({"queue": "other"})).status, 403);
    let sneaky = json!({"queue": "contact", "chain": {"steps": [{"queue": "contact"}, {"queue": "other"}]}});
    assert_eq!(stranger.post("/api/v1/enqueue", &sneaky).status, 403);
    for path in [format!("/api/v1/jobs/{id}"), "/api/v1/queues".to_owned()] {
        assert_eq!(stranger.get(&path).status, 401, "{path}");
    }
    assert_eq!(stranger.post("/api/v1/enqueue", &form).status, 201);
    let refused = stranger.post("/api/v1/enqueue", &form);
    assert_eq!((refused.status, &refused.body["code"]), (429, &json!("RATE_LIMITED")), "{refused:?}");
    // Rules outlive a restart.
    let server = Server::start_on(&server.kill_9(), &[]);
    assert_eq!(server.without_key().post("/api/v1/enqueue", &form).status, 201);
}

#[test]
fn a_rule_for_some_keys_keeps_other_producers_out_of_a_queue() {
    let server = Server::start();
    let (own, id) = client_with(&server, &json!({"name": "payroll", "role": "producer"}));
    let other = client_of(&server, "producer", "default");
    let rule = json!([{"queues": ["pay.*"], "who": {"keys": [id]}}]);
    assert_eq!(server.put("/api/v1/enqueue-rules", rule.to_string().as_bytes()).status, 200);
    let pay = json!({"queue": "pay.out"});
    assert_eq!(own.post("/api/v1/enqueue", &pay).status, 201);
    assert_eq!(other.post("/api/v1/enqueue", &pay).status, 403);
    assert_eq!(other.post("/api/v1/enqueue", &json!({"queue": "mail"})).status, 201);
    assert_eq!(server.post("/api/v1/enqueue", &pay).status, 201, "an admin always may");
    let open = json!([{"queues": ["a"], "who": "anybody"}]);
    let refused = server.put("/api/v1/enqueue-rules", open.to_string().as_bytes());
    assert_eq!((refused.status, &refused.body["code"]), (400, &json!("VALIDATION_ERROR")), "it needs a rate");
}
