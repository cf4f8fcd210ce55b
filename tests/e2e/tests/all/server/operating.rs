//! What operators look at and set: queues, figures, workers, versions of plugins, webhooks.

use serde_json::{Value, json};
use windlass_e2e::{Server, plugin};

#[test]
fn the_settings_of_a_queue_are_kept_and_reach_its_jobs() {
    let server = Server::start();
    let sent = json!({"max_concurrency": 4, "rate": {"count": 100, "per": "1m"}, "key_concurrency": 2, "key_rate": {"count": 5, "per": 1},
        "ageing": "10m", "defaults": {"max_attempts": 9, "retry_backoff": "fixed", "lease_duration": "30s"},
        "retention": {"completed": {"age": "1h", "count": 1000}, "dead": {"age": "30d"}}});
    let answer = server.post("/api/v1/queues/q/settings", &sent);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.body["retention"]["completed"], json!({"age": "1h", "count": 1000}));
    assert_eq!(answer.body["retention"]["cancelled"], json!({"age": "7d", "count": null}));
    assert_eq!(answer.body["key_rate"], json!({"count": 5, "per": "1s"}));
    let job = server.job(&server.enqueue(&json!({"queue": "q"})));
    assert_eq!((&job["max_attempts"], &job["retry_backoff"]), (&json!(9), &json!("fixed")));

    let less = server.post("/api/v1/queues/q/settings", &json!({"rate": null, "ageing": null})).body;
    assert_eq!((&less["rate"], &less["ageing"], &less["max_concurrency"]), (&json!(null), &json!(null), &json!(4)));
    let shown = server.get("/api/v1/queues/q").body;
    assert_eq!((&shown["settings"], &shown["pending"]), (&less, &json!(1)));
    let wrong = server.post("/api/v1/queues/q/settings", &json!({"rate": {"count": 0, "per": "1m"}}));
    assert_eq!((wrong.status, &wrong.body["code"]), (400, &json!("VALIDATION_ERROR")));
    assert_eq!(server.get("/api/v1/queues/none").status, 404);
}

#[test]
fn figures_count_what_ended_and_how_long_it_took() {
    let server = Server::start();
    server.upload("digest", "digest");
    for n in 0..3 {
        let id = server.enqueue(&json!({"queue": "digest", "payload": {"text": n.to_string()}}));
        server.wait_for(&id, "completed");
    }
    let dead = server.enqueue(&json!({"queue": "digest", "payload": "not an object", "max_attempts": 1}));
    server.wait_for(&dead, "dead");
    let stats = server.get("/api/v1/jobs/stats").body;
    assert_eq!((&stats["completed"], &stats["failed"], &stats["success_rate"]), (&json!(3), &json!(1), &json!(0.75)));
    assert!(stats["avg_execution_time"].is_number());
    let queue = server.get("/api/v1/queues/digest/stats").body;
    assert_eq!((&queue["name"], &queue["sample"], &queue["completed"]), (&json!("digest"), &json!(3), &json!(3)));
    assert!(queue["run_ms"]["p99"].is_u64() && queue["wait_ms"]["p50"].is_u64(), "{queue}");
    let list = server.get("/api/v1/dead?queue=digest").body["jobs"].clone();
    assert_eq!(list.as_array().map(Vec::len), Some(1));
    assert_eq!(list[0]["id"], json!(dead));
}

#[test]
fn many_jobs_are_read_at_once_and_unknown_ones_left_out() {
    let server = Server::start();
    let ids: Vec<String> = (0..3).map(|n| server.enqueue(&json!({"queue": "q", "payload": n}))).collect();
    let asked = json!({"job_ids": [ids[2], "job_01JQ8ZK3V7N3W5X9Y1A2B3C4D5", "nonsense", ids[0]]});
    let jobs = server.post("/api/v1/jobs/bulk-get", &asked).body["jobs"].clone();
    let payloads: Vec<&Value> = jobs.as_array().expect("jobs").iter().map(|job| &job["payload"]).collect();
    assert_eq!(payloads, [2, 0]);
    let many = vec!["x"; 1_001];
    assert_eq!(server.post("/api/v1/jobs/bulk-get", &json!({"job_ids": many})).status, 400);
}

#[test]
fn any_body_posted_to_a_webhook_becomes_a_payload() {
    let server = Server::start();
    let post = |body: &[u8]| {
        let answer =
            server.post_bytes("/api/v1/webhooks/hooks?priority=high&max_attempts=2&tags=from:github,kind:push", body);
        assert_eq!(answer.status, 201, "{answer:?}");
        server.job(answer.body["job_id"].as_str().expect("an id"))
    };
    let job = post(b" {\"a\": 1} ");
    assert_eq!(
        (&job["payload"], &job["priority"], &job["max_attempts"]),
        (&json!({"a": 1}), &json!("high"), &json!(2))
    );
    assert_eq!(job["tags"], json!({"from": "github", "kind": "push"}));
    assert_eq!(post(b"plain words")["payload"], "plain words");
    assert_eq!(post(b"")["payload"], json!({}));
    assert_eq!(post(&[0xff, 0xfe])["payload"], json!({"$base64": "//4="}));
    assert_eq!(server.post_bytes("/api/v1/webhooks/hooks?tags=nonsense", b"").status, 400);
}

#[test]
fn a_request_sent_again_under_the_same_idempotency_key_makes_no_second_job() {
    let server = Server::start();
    let send = |key: &str, path: &str, body: &Value| server.post_with(path, &[("Idempotency-Key", key)], body);
    let one = json!({"queue": "q", "payload": 1});
    let first = send("k1", "/api/v1/enqueue", &one);
    let again = send("k1", "/api/v1/enqueue", &one);
    assert_eq!((first.status, again.status), (201, 200));
    assert_eq!(first.body["job_id"], again.body["job_id"]);
    assert_eq!(send("k2", "/api/v1/enqueue", &one).status, 201);
    let batch = json!({"jobs": [one, one]});
    let first = send("k3", "/api/v1/enqueue/batch", &batch).body["job_ids"].clone();
    assert_eq!(send("k3", "/api/v1/enqueue/batch", &batch).body["job_ids"], first);
    assert_ne!(first[0], first[1]);
    assert_eq!(server.queue("q")["pending"], 4);
    assert_eq!(send("", "/api/v1/enqueue", &one).status, 400);
}

#[test]
fn workers_that_fetched_are_listed_with_what_they_hold() {
    let server = Server::start();
    let id = server.enqueue(&json!({"queue": "q"}));
    let fetch = json!({"queues": ["q", "r"], "worker_id": "w1", "hostname": "h1", "timeout": 0});
    assert_eq!(server.post("/api/v1/fetch", &fetch).status, 200);
    let workers = server.get("/api/v1/workers").body;
    assert_eq!(
        (&workers[0]["id"], &workers[0]["hostname"], &workers[0]["jobs"]),
        (&json!("w1"), &json!("h1"), &json!([id]))
    );
    assert_eq!(workers[0]["queues"], json!(["q", "r"]));
    assert!(workers[0]["last_heartbeat"].is_string() && workers[0]["started_at"].is_string());
}

#[test]
fn a_plugin_can_be_activated_rolled_back_downloaded_and_deleted() {
    let server = Server::start();
    server.upload("digest", "digest");
    let old = server.get("/api/v1/plugins/digest").body["active"].as_str().expect("a digest").to_owned();
    // The same code with an empty custom section at its end: other bytes, another version.
    let mut bytes = plugin("digest");
    bytes.extend([0, 2, 1, b'x']);
    let new = server.put("/api/v1/plugins/digest", &bytes).body["version"].as_str().expect("a digest").to_owned();
    assert_ne!(old, new);
    let active = || server.get("/api/v1/plugins/digest").body["active"].clone();
    assert_eq!(server.post("/api/v1/plugins/digest/rollback", &json!({})).body["active"], json!(old));
    assert_eq!(active(), json!(old));
    assert_eq!(server.post("/api/v1/plugins/digest/rollback", &json!({})).status, 400, "there is nothing before it");
    let forward = server.post("/api/v1/plugins/digest/activate", &json!({"version": &new[..12]}));
    assert_eq!((forward.status, &forward.body["active"]), (200, &json!(new)), "{forward:?}");
    assert_eq!(server.post("/api/v1/plugins/digest/activate", &json!({"version": "ffffffffffff"})).status, 400);
    let job = server.enqueue(&json!({"queue": "digest", "payload": {"text": "x"}}));
    assert_eq!(server.wait_for(&job, "completed")["plugin_version"], json!(new));

    assert_eq!(server.download("/api/v1/plugins/digest/component"), bytes);
    assert_eq!(server.download(&format!("/api/v1/plugins/digest/component?version={old}")), plugin("digest"));
    assert_eq!(server.delete("/api/v1/plugins/digest").body, json!({"status": "deleted"}));
    assert_eq!(server.get("/api/v1/plugins/digest").status, 404);
    assert_eq!(server.queue("digest")["served_by"], Value::Null);
    let fetched = server.post("/api/v1/fetch", &json!({"queues": ["digest"], "timeout": 0}));
    assert_eq!(fetched.status, 204, "workers may take its queue now: {fetched:?}");
}

#[test]
fn figures_for_prometheus_have_help_type_and_labels() {
    let server = Server::start();
    server.enqueue(&json!({"queue": "q/1"}));
    let text = String::from_utf8(server.download("/metrics")).expect("text");
    assert!(text.contains("# TYPE windlass_jobs gauge\n"), "{text}");
    assert!(text.contains("windlass_jobs{queue=\"q/1\",state=\"pending\"} 1\n"), "{text}");
    assert!(text.contains("windlass_jobs_enqueued_total{queue=\"q/1\"} 1\n"), "{text}");
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').expect("a sample");
        assert!(value.parse::<f64>().is_ok(), "{line}");
        let family = name.split('{').next().unwrap_or_default();
        let family = family.trim_end_matches("_sum").trim_end_matches("_count").trim_end_matches("_bucket");
        assert!(text.contains(&format!("# HELP {family} ")), "{line}");
    }
    assert_eq!(server.get("/readyz").body, json!({"status": "ready"}));
}
