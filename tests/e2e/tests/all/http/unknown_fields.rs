//! A field that the server does not know is most likely a typing mistake: the answer names it, and a strict client is
//! refused.

use serde_json::{Value, json};
use windlass_e2e::{Answer, Server, windlass};

/// The warnings about what is unknown; others, such as that of a queue nobody serves, are left out.
fn warnings(answer: &Answer) -> Vec<&str> {
    let all = answer.body["warnings"].as_array().map_or(&[][..], Vec::as_slice).iter().filter_map(Value::as_str);
    all.filter(|warning| warning.starts_with("unknown")).collect()
}

#[track_caller]
fn warns(answer: &Answer, expected: &[&str]) {
    assert!(answer.status < 300, "{answer:?}");
    assert_eq!(warnings(answer), expected, "{answer:?}");
}

#[test]
fn a_misspelt_field_is_named_in_the_answer_with_the_name_that_was_meant() {
    let server = Server::start();
    let limit = "unknown field `limitkey`; did you mean `limit_key`?";
    warns(&server.post("/api/v1/enqueue", &json!({"queue": "q", "limitkey": "tenant"})), &[limit]);
    let jobs = json!({"jobs": [{"queue": "q"}, {"queue": "q", "limitkey": "a"}], "batch": {}});
    let inside = "unknown field `jobs[1].limitkey`; did you mean `limit_key`?";
    warns(&server.post("/api/v1/enqueue", &jobs), &[inside]);
    warns(&server.post("/api/v1/enqueue/batch", &jobs), &[inside]);
    let chain = json!({"queue": "a", "chain": {"steps": [{"queue": "a"}, {"queue": "b"}], "on_exit": {"queue": "c", "payloat": 1}}});
    warns(&server.post("/api/v1/enqueue", &chain), &["unknown field `chain.on_exit.payloat`; did you mean `payload`?"]);
    let batch = json!({"callback_que": "q"});
    warns(&server.post("/api/v1/batch", &batch), &["unknown field `callback_que`; did you mean `callback_queue`?"]);
    let schedule = json!({"name": "t", "queue": "q", "cron": "0 1 * * *", "max_retry": 1});
    warns(&server.post("/api/v1/schedules", &schedule), &["unknown field `max_retry`; did you mean `max_attempts`?"]);
    let settings = json!({"defaults": {"max_retry": 1}, "retention": {"dead": {"ages": "1h"}}});
    let expected = [
        "unknown field `defaults.max_retry`; did you mean `max_attempts`?",
        "unknown field `retention.dead.ages`; did you mean `age`?",
    ];
    warns(&server.post("/api/v1/queues/q/settings", &settings), &expected);
    let search = json!({"queue": "q", "limit": 5, "sate": "dead"});
    warns(&server.post("/api/v1/jobs/search", &search), &["unknown field `sate`; did you mean `state`?"]);
    let bulk = json!({"action": "retry", "filter": {"state": "dead", "queu": "q"}});
    warns(&server.post("/api/v1/jobs/bulk", &bulk), &["unknown field `filter.queu`; did you mean `queue`?"]);
    warns(&server.get("/api/v1/jobs?stat=dead"), &["unknown query parameter `stat`; did you mean `state`?"]);
    let heartbeat = json!({"jobs": {"x": {"usag": {}}}});
    warns(&server.post("/api/v1/heartbeat", &heartbeat), &["unknown field `jobs.x.usag`; did you mean `usage`?"]);
    let id = server.enqueue(&json!({"queue": "w"}));
    server.post("/api/v1/fetch", &json!({"queues": ["w"], "worker_id": "w"}));
    let heartbeat = json!({"worker_id": "w", "jobs": [{"job_id": id, "progress": "{\"percnt\": 5}"}]});
    let expected = format!("unknown field `jobs.{id}.progress.percnt`; did you mean `percent`?");
    warns(&server.post("/api/v1/heartbeat", &heartbeat), &[&expected]);
    let ack = json!({"children": [{"queue": "w", "tag": {}}], "usage": {"cost": 1}});
    let expected = [
        "unknown field `children[0].tag`; did you mean `tags`?",
        "unknown field `usage.cost`; did you mean `cost_usd`?",
    ];
    warns(&server.post(&format!("/api/v1/ack/{id}"), &ack), &expected);
    // A refusal for another reason says it too: here it is the reason.
    let refused = server.post("/api/v1/enqueue", &json!({"quene": "q"}));
    assert_eq!((refused.status, warnings(&refused)), (400, vec!["unknown field `quene`; did you mean `queue`?"]));
}

/// Every field of the documented wire format.
fn documented() -> Vec<(&'static str, Value)> {
    let usage = json!({"input_tokens": 1, "output_tokens": 1, "cache_creation_tokens": 0, "cache_read_tokens": 0, "model": "m",
        "provider": "p", "cost_usd": 0.1});
    let job = json!({"queue": "q", "payload": {"limitkey": 1}, "priority": "high", "unique_key": "k", "unique_period": 60, "max_attempts": 2,
        "retry_backoff": "fixed", "retry_base_delay": "1s", "retry_max_delay": "2s", "expire_after": "1h", "tags": {"any": "thing"},
        "scheduled_at": "2030-01-01T00:00:00Z", "agent": {"max_iterations": 1, "max_cost_usd": 1, "iteration_timeout": "1m"},
        "depends_on": [], "checkpoint": {"a": 1}, "chain": {"steps": [{"queue": "q", "payload": 1}, {"queue": "r"}],
        "on_failure": {"queue": "f", "payload": 1}, "on_exit": "e"}});
    let window = |name: &str| [format!("{name}_after"), format!("{name}_before")];
    let times = ["created", "scheduled", "started", "completed", "expire"].into_iter().flat_map(window);
    let mut search = json!({"queue": "q", "state": ["dead"], "priority": "high", "tags": {"a": "b"}, "payload_contains": "x",
        "payload_jq": ".a", "worker_id": "w", "has_errors": true, "error_contains": "e", "batch_id": "b", "unique_key": "k",
        "job_id_prefix": "job_", "attempt_min": 1, "attempt_max": 2, "sort": "created_at", "order": "asc", "limit": 1});
    times.for_each(|field| search[field] = json!("2020-01-01T00:00:00Z"));
    vec![
        ("/enqueue", job.clone()),
        ("/enqueue", json!({"jobs": [{"queue": "q"}], "batch": {"callback_queue": "c", "callback_payload": {"x": 1}}})),
        ("/enqueue/batch", json!({"jobs": [{"queue": "q", "parent_id": null, "batch_id": null}]})),
        ("/batch", json!({"callback_queue": "c", "callback_payload": {"x": 1}})),
        (
            "/webhook-endpoints",
            json!({"url": "https://hooks.example.com/", "events": ["*"], "secret": "whsec_YSBzZWNyZXQgb2YgMzIgYnl0ZXMsIGFuZCBub3QgbW9y", "enabled": false,
                "retry_limit": 3}),
        ),
        ("/fetch/batch", json!({"queues": ["w"], "worker_id": "w", "hostname": "h", "timeout": 0, "count": 1})),
        ("/ack/batch", json!({"acks": [{"job_id": "job_00000000000000000000000000", "result": 1, "usage": usage}]})),
        (
            "/heartbeat",
            json!({"jobs": {"x": {"progress": {"current": 1, "total": 2, "message": "m"}, "checkpoint": {"any": 1}, "usage": usage}}}),
        ),
        ("/heartbeat", json!({"worker_id": "w", "jobs": [{"job_id": "x", "progress": "{}", "checkpoint": "{}"}]})),
        ("/jobs/bulk-get", json!({"job_ids": []})),
        ("/jobs/search", search),
        (
            "/jobs/bulk",
            json!({"filter": {"queue": "q"}, "action": "change_priority", "priority": "high", "async": false}),
        ),
        ("/queues/q/concurrency", json!({"max": 5})),
        ("/queues/q/throttle", json!({"rate": 5, "period": "1m"})),
        ("/queues/q/throttle", json!({"rate": 5, "window_ms": 1000})),
        (
            "/schedules",
            json!({"name": "s", "queue": "q", "cron": "0 1 * * *", "timezone": "UTC", "payload": {}, "unique_key": "k", "max_attempts": 2}),
        ),
    ]
}

#[test]
fn every_documented_field_is_known() {
    let server = Server::start();
    for (path, body) in documented() {
        warns(&server.post(&format!("/api/v1{path}?strict=true"), &body), &[]);
    }
    // An answer can be changed and sent back.
    let made = server.get("/api/v1/schedules/s").body;
    warns(&server.put("/api/v1/schedules/s?strict=true", made.to_string().as_bytes()), &[]);
    let id = server.enqueue(&json!({"queue": "w"}));
    server.post("/api/v1/fetch?strict=true", &json!({"queues": ["w"]}));
    let ack = json!({"result": 1, "step_status": "continue", "checkpoint": {}, "usage": {}, "agent_status": "done", "hold_reason": null,
        "exit_reason": null, "lease_token": null});
    warns(&server.post(&format!("/api/v1/ack/{id}?strict=true"), &ack), &[]);
    warns(&server.get("/api/v1/jobs?queue=q&state=pending&limit=1&offset=0&strict=true"), &[]);
    warns(
        &server.post("/api/v1/webhooks/q?priority=high&max_attempts=1&tags=a:b&strict=true", &json!({"any": 1})),
        &[],
    );
}

#[test]
fn strict_refuses_in_the_same_words_and_does_nothing() {
    let server = Server::start();
    let typo = "unknown field `limitkey`; did you mean `limit_key`?";
    let refused = |path: &str, body: Value, why: &str| {
        let answer = server.post(&format!("/api/v1{path}?strict=true"), &body);
        assert_eq!((answer.status, &answer.body["code"]), (400, &json!("VALIDATION_ERROR")), "{answer:?}");
        assert_eq!(answer.body["error"], why, "{answer:?}");
    };
    refused("/enqueue", json!({"queue": "q", "limitkey": "tenant"}), typo);
    let inside = "unknown field `jobs[1].limitkey`; did you mean `limit_key`?";
    refused("/enqueue", json!({"jobs": [{"queue": "q"}, {"queue": "q", "limitkey": "a"}]}), inside);
    let chain = json!({"queue": "a", "chain": {"steps": [{"queue": "a"}, {"queue": "b"}], "on_failure": {"queue": "c", "payloat": 1}}});
    refused("/enqueue", chain, "unknown field `chain.on_failure.payloat`; did you mean `payload`?");
    let schedule = json!({"name": "t", "queue": "q", "cron": "0 1 * * *", "overlp": "skip"});
    refused("/schedules", schedule, "unknown field `overlp`; did you mean `overlap`?");
    refused(
        "/heartbeat",
        json!({"worker_id": "w", "jobs": {}, "worker": 1}),
        "unknown field `worker`; did you mean `worker_id`?",
    );
    assert_eq!(server.get("/api/v1/queues").body, json!([]));
    assert_eq!(server.get("/api/v1/schedules").body, json!([]));
    assert_eq!(server.get("/api/v1/workers").body, json!([]));
}

#[test]
fn the_command_refuses_unless_it_is_given_lenient() {
    let server = Server::start();
    let run = |arguments: &[&str]| {
        let output = windlass().env("WINDLASS_URL", server.url("")).args(arguments).output().expect("it runs");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let enqueue = ["enqueue", "q", "--with", r#"{"limitkey": "a"}"#];
    let (done, said) = run(&enqueue);
    assert!(!done && said.contains("did you mean `limit_key`?") && said.contains("--lenient"), "{said}");
    let (done, said) = run(&["queue", "set", "q", "--defaults", r#"{"max_retry": 1}"#]);
    assert!(!done && said.contains("`defaults.max_retry`; did you mean `max_attempts`?"), "{said}");
    assert_eq!(server.get("/api/v1/queues").body, json!([]));
    let (done, said) = run(&[&enqueue[..], &["--lenient"]].concat());
    assert!(done && said.contains("warning: unknown field `limitkey`"), "{said}");
    assert_eq!(server.queue("q")["pending"], 1);
}
