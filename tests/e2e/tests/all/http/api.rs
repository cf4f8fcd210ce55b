//! Producers and operators: what is sent in comes out again, and what is asked for happens.

use serde_json::{Value, json};
use windlass_e2e::Server;

#[test]
fn every_field_of_an_enqueue_is_kept() {
    let server = Server::start();
    let parent = server.enqueue(&json!({"queue": "parents"}));
    let batch = server.post("/api/v1/batch", &json!({})).body["batch_id"].clone();
    let sent = json!({
        "queue": "emails.send", "payload": {"b": 1.50, "a": [null, "é"]}, "priority": "high", "max_attempts": 7,
        "retry_backoff": "linear", "retry_base_delay": "1m30s", "retry_max_delay": 3600, "expire_after": "2h",
        "attempt_timeout": "10m", "stall_timeout": 30, "max_duration": "1h30m", "ttl": "1d",
        "unique_key": "user-1", "unique_period": 120, "unique_scope": "scope", "unique_until": "period",
        "tags": {"team": "a", "kind": "mail"}, "scope": "user:1", "limit_key": "tenant-9", "target_worker": "w1",
        "batch_id": batch, "parent_id": parent, "checkpoint": {"at": 3}, "scheduled_at": "2031-05-01T10:00:00+02:00",
        "a_field_of_tomorrow": {"x": 1},
    });
    let answer = server.post("/api/v1/enqueue", &sent);
    assert_eq!((answer.status, &answer.body["status"]), (201, &json!("scheduled")), "{answer:?}");
    let job = server.job(answer.body["job_id"].as_str().expect("an id"));
    let same = [
        "queue",
        "payload",
        "priority",
        "max_attempts",
        "retry_backoff",
        "expire_after",
        "unique_key",
        "unique_period",
        "unique_scope",
        "unique_until",
        "tags",
        "scope",
        "limit_key",
        "target_worker",
        "batch_id",
        "parent_id",
        "attempt_timeout",
        "max_duration",
        "ttl",
        "checkpoint",
    ];
    for field in same {
        let expected = match field {
            "retry_backoff" => json!("linear"),
            field => sent[field].clone(),
        };
        assert_eq!(job[field], expected, "{field}");
    }
    assert_eq!(job["state"], "scheduled");
    assert_eq!(job["scheduled_at"], "2031-05-01T08:00:00.000Z");
    assert_eq!((&job["retry_base_delay"], &job["retry_base_delay_ms"]), (&json!("1m30s"), &json!(90_000)));
    assert_eq!((&job["retry_max_delay"], &job["retry_max_delay_ms"]), (&json!("1h"), &json!(3_600_000)));
    assert_eq!(job["stall_timeout"], "30s");
    assert_eq!((&job["attempt"], &job["result"], &job["progress"]), (&json!(0), &Value::Null, &Value::Null));
}

#[test]
fn defaults_are_those_of_the_wire_format() {
    let server = Server::start();
    let job = server.job(&server.enqueue(&json!({"queue": "q"})));
    assert_eq!(job["payload"], json!({}));
    assert_eq!((&job["priority"], &job["max_attempts"]), (&json!("normal"), &json!(3)));
    assert_eq!((&job["retry_backoff"], &job["retry_base_delay"]), (&json!("exponential"), &json!("5s")));
    assert_eq!((&job["retry_max_delay"], &job["state"]), (&json!("10m"), &json!("pending")));
    let null = server.job(&server.enqueue(&json!({"queue": "q", "payload": null})));
    assert_eq!(null["payload"], Value::Null);
}

#[test]
fn a_duplicate_gets_the_job_that_is_there() {
    let server = Server::start();
    let job = json!({"queue": "q", "unique_key": "once"});
    let id = server.enqueue(&job);
    let again = server.post("/api/v1/enqueue", &job);
    assert_eq!(again.status, 200, "{again:?}");
    assert_eq!((&again.body["job_id"], &again.body["unique_job_id"]), (&json!(id), &json!(id)));
    assert_eq!((&again.body["unique_existing"], &again.body["status"]), (&json!(true), &json!("duplicate")));
    assert_eq!(again.body["job"]["id"], json!(id));
    assert_eq!(server.queue("q")["pending"], 1);
}

#[test]
fn a_batch_answers_ids_in_order_in_both_forms() {
    let server = Server::start();
    let jobs = json!({"jobs": [{"queue": "a", "payload": 1}, {"queue": "b", "payload": 2, "priority": "critical"}]});
    for path in ["/api/v1/enqueue/batch", "/api/v1/enqueue"] {
        let answer = server.post(path, &jobs);
        assert_eq!(answer.status, 201, "{answer:?}");
        let ids = answer.body["job_ids"].as_array().expect("ids").clone();
        assert_eq!(ids.len(), 2);
        for (n, id) in ids.iter().enumerate() {
            assert_eq!(server.job(id.as_str().expect("an id"))["payload"], json!(n + 1));
            assert_eq!(&answer.body["jobs"][n]["id"], id);
        }
    }
}

#[test]
fn a_plain_list_can_be_narrowed_and_paged() {
    let server = Server::start();
    for n in 0..5 {
        server.enqueue(&json!({"queue": if n < 3 { "a" } else { "b" }, "payload": n}));
    }
    let ids = |path: &str| -> Vec<String> {
        let body = server.get(path).body;
        let jobs = body["jobs"].as_array().unwrap_or_else(|| panic!("{body:#}"));
        jobs.iter().map(|job| job["id"].as_str().expect("an id").to_owned()).collect()
    };
    assert_eq!(ids("/api/v1/jobs").len(), 5);
    assert_eq!(ids("/api/v1/jobs?queue=a").len(), 3);
    assert_eq!(ids("/api/v1/jobs?queue=a&state=pending").len(), 3);
    assert_eq!(ids("/api/v1/jobs?state=completed").len(), 0);
    let (first, second) = (ids("/api/v1/jobs?limit=3"), ids("/api/v1/jobs?limit=3&offset=3"));
    assert_eq!((first.len(), second.len()), (3, 2));
    assert!(first.iter().all(|id| !second.contains(id)));
}

#[test]
fn people_can_hold_approve_reject_move_cancel_retry_and_delete() {
    let server = Server::start();
    let id = server.enqueue(&json!({"queue": "q", "payload": 1}));
    let act = |action: &str, body: Value| {
        let answer = server.post(&format!("/api/v1/jobs/{id}/{action}"), &body);
        (answer.status, answer.body)
    };
    let ok = |word: &str| (200, json!({"status": word}));
    let state = || server.job(&id)["state"].clone();

    assert_eq!(act("hold", json!({"reason": "look at it first"})), ok("held"));
    assert_eq!((state(), server.job(&id)["hold_reason"].clone()), (json!("held"), json!("look at it first")));
    assert_eq!(act("approve", json!({})), ok("pending"));
    assert_eq!(act("approve", json!({})).1["code"], "APPROVE_ERROR");
    assert_eq!(act("move", json!({"queue": "elsewhere"})), ok("moved"));
    assert_eq!(server.job(&id)["queue"], "elsewhere");
    assert_eq!(act("move", json!({})).1["code"], "VALIDATION_ERROR");
    assert_eq!(act("cancel", json!({})), ok("cancelled"));
    assert_eq!(act("retry", json!({})), ok("retried"));
    assert_eq!(act("retry", json!({})).1["code"], "RETRY_ERROR");
    assert_eq!(act("requeue", json!({})).1["code"], "REQUEUE_ERROR");
    assert_eq!(act("hold", json!({})), ok("held"));
    assert_eq!(act("reject", json!({"reason": "no"})), ok("dead"));
    assert_eq!(act("requeue", json!({})), ok("requeued"));
    assert_eq!(state(), "pending");
    assert_eq!(server.delete(&format!("/api/v1/jobs/{id}")).body, json!({"status": "deleted"}));
    assert_eq!(server.get(&format!("/api/v1/jobs/{id}")).status, 404);
}

#[test]
fn an_action_needs_no_body() {
    let server = Server::start();
    let id = server.enqueue(&json!({"queue": "q"}));
    let answer = server.post_bytes(&format!("/api/v1/jobs/{id}/cancel"), b"");
    assert_eq!((answer.status, &answer.body), (200, &json!({"status": "cancelled"})));
}

#[test]
fn a_queue_can_be_paused_limited_cleared_and_removed() {
    let server = Server::start();
    server.upload("digest", "digest");
    let act = |action: &str, body: Value| server.post(&format!("/api/v1/queues/digest/{action}"), &body).body;

    assert_eq!(act("pause", json!({})), json!({"status": "paused"}));
    let id = server.enqueue(&json!({"queue": "digest", "payload": {"text": "x"}}));
    assert_eq!((&server.queue("digest")["paused"], &server.queue("digest")["pending"]), (&json!(true), &json!(1)));
    assert_eq!(act("resume", json!({})), json!({"status": "resumed"}));
    server.wait_for(&id, "completed");

    assert_eq!(act("concurrency", json!({"max": 3})), json!({"status": "ok"}));
    assert_eq!(act("throttle", json!({"rate": 10, "period": "1m"})), json!({"status": "ok"}));
    let queue = server.queue("digest");
    assert_eq!(
        (&queue["max_concurrency"], &queue["rate_limit"], &queue["rate_window_ms"]),
        (&json!(3), &json!(10), &json!(60_000))
    );
    assert_eq!(act("throttle", json!({"rate": 0, "window_ms": 5}))["code"], "VALIDATION_ERROR");
    assert_eq!(act("throttle", json!({"rate": 5}))["code"], "VALIDATION_ERROR");
    assert_eq!(server.delete("/api/v1/queues/digest/throttle").body, json!({"status": "ok"}));
    assert_eq!(act("concurrency", json!({"max": 0})), json!({"status": "ok"}));
    let queue = server.queue("digest");
    assert_eq!((&queue["max_concurrency"], &queue["rate_limit"]), (&Value::Null, &Value::Null));

    assert_eq!(act("drain", json!({})), json!({"status": "draining"}));
    server.enqueue(&json!({"queue": "digest"}));
    server.enqueue(&json!({"queue": "digest", "scheduled_at": "2031-01-01T00:00:00Z"}));
    assert_eq!(act("clear", json!({})), json!({"status": "cleared", "jobs": 2}));
    assert_eq!(server.queue("digest")["pending"], 0);

    assert_eq!(server.delete("/api/v1/queues/digest").status, 400, "not without ?confirm=true");
    server.enqueue(&json!({"queue": "other"}));
    let removed = server.delete("/api/v1/queues/other?confirm=true");
    assert_eq!((removed.status, &removed.body["status"]), (200, &json!("deleted")), "{removed:?}");
}

#[test]
fn a_large_payload_comes_back_byte_for_byte() {
    let server = Server::start();
    let text = "0123456789abcdef".repeat(64 * 1024);
    let id = server.enqueue(&json!({"queue": "q", "payload": {"text": text}}));
    assert_eq!(server.job(&id)["payload"]["text"], text.as_str());
}

#[test]
fn the_server_tells_about_itself() {
    let server = Server::start();
    assert_eq!(server.get("/healthz").body, json!({"status": "ok"}));
    let info = server.get("/api/v1/info").body;
    assert_eq!(info["api_version"], "v1");
    assert!(info["server_version"].is_string());
}
