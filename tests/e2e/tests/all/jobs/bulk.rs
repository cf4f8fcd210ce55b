//! One action on many jobs: by ids, by filter, in the background, through a crash.

use std::io::Write;
use std::process::{Output, Stdio};

use serde_json::{Value, json};
use windlass_e2e::{Server, eventually, windlass};

fn enqueue_many(server: &Server, queue: &str, count: usize) -> Vec<String> {
    let mut ids = Vec::with_capacity(count);
    for first in (0..count).step_by(5_000) {
        let jobs: Vec<Value> =
            (first..count.min(first + 5_000)).map(|n| json!({"queue": queue, "payload": {"n": n}})).collect();
        let answer = server.post("/api/v1/enqueue/batch", &json!({ "jobs": jobs }));
        assert_eq!(answer.status, 201, "{answer:?}");
        ids.extend(answer.body["job_ids"].as_array().expect("ids").iter().filter_map(Value::as_str).map(str::to_owned));
    }
    ids
}

#[track_caller]
fn bulk(server: &Server, request: &Value) -> Value {
    let answer = server.post("/api/v1/jobs/bulk", request);
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body
}

#[test]
fn every_action_works_by_ids_and_by_filter_and_skips_jobs_that_it_does_not_apply_to() {
    let server = Server::start();
    let ids = enqueue_many(&server, "q", 6);
    let count = |state: &str| server.queue("q")[state].clone();

    let done = bulk(&server, &json!({"action": "hold", "job_ids": &ids[..4], "reason": "look"}));
    assert_eq!((&done["affected"], &done["errors"], &done["total"]), (&json!(4), &json!(0), &json!(4)));
    assert_eq!(count("held"), 4);
    let done = bulk(&server, &json!({"action": "approve", "job_ids": [ids[0], ids[0], ids[5]]}));
    assert_eq!((&done["affected"], &done["total"]), (&json!(1), &json!(2)), "each once, and one was not held");
    assert_eq!(bulk(&server, &json!({"action": "reject", "filter": {"state": "held"}}))["affected"], 3);
    assert_eq!(count("dead"), 3);
    assert_eq!(server.get("/api/v1/dead?queue=q&limit=2").body["total"], 3);
    assert_eq!(
        bulk(&server, &json!({"action": "requeue", "filter": {"state": ["dead"], "queue": "q"}}))["affected"],
        3
    );
    let raised = json!({"action": "change_priority", "priority": "critical", "filter": {"queue": "q"}});
    assert_eq!(bulk(&server, &raised)["affected"], 6);
    assert_eq!(server.job(&ids[2])["priority"], "critical");
    assert_eq!(bulk(&server, &json!({"action": "cancel", "filter": {"payload_jq": ".n < 2"}}))["affected"], 2);
    assert_eq!(bulk(&server, &json!({"action": "retry", "job_ids": ids}))["affected"], 2, "the others had not ended");
    let moved = json!({"action": "move", "move_to_queue": "other", "filter": {"payload_jq": ".n == 3"}});
    assert_eq!(bulk(&server, &moved)["affected"], 1);
    assert_eq!(server.queue("other")["pending"], 1);
    assert_eq!(bulk(&server, &json!({"action": "delete", "filter": {"queue": "q"}}))["affected"], 5);
    assert_eq!(server.get(&format!("/api/v1/jobs/{}", ids[0])).status, 404);
    assert_eq!(bulk(&server, &json!({"action": "delete", "filter": {"queue": "q"}}))["total"], 0);
}

#[test]
fn an_impossible_request_is_refused_and_changes_nothing() {
    let server = Server::start();
    let ids = enqueue_many(&server, "q", 2);
    for (request, word) in [
        (json!({"job_ids": ids}), "action"),
        (json!({"action": "explode", "job_ids": ids}), "retry, rebuild, requeue"),
        (json!({"action": "delete"}), "either"),
        (json!({"action": "delete", "job_ids": ids, "filter": {"queue": "q"}}), "either"),
        (json!({"action": "delete", "filter": {}}), "every job"),
        (json!({"action": "delete", "job_ids": ["job_1"]}), "job_ids[0]"),
        (json!({"action": "move", "job_ids": ids}), "move_to_queue"),
        (json!({"action": "change_priority", "job_ids": ids}), "priority"),
        (json!({"action": "delete", "filter": {"state": "lost"}}), "not a state"),
    ] {
        let answer = server.post("/api/v1/jobs/bulk", &request);
        let error = answer.body["error"].as_str().unwrap_or_default();
        assert!(answer.status == 400 && error.contains(word), "{request}: {answer:?}");
    }
    assert_eq!(server.queue("q")["pending"], 2);
    for path in
        ["/api/v1/bulk/bulk_01JQ8ZK3V7N3W5X9Y1A2B3C4D5", "/api/v1/bulk/nonsense", "/api/v1/bulk/nonsense/progress"]
    {
        assert_eq!(server.get(path).status, 404, "{path}");
    }
}

#[test]
fn a_large_operation_runs_in_the_background_reports_progress_and_can_be_cancelled() {
    let server = Server::start();
    enqueue_many(&server, "q", 12_000);
    let taken = server.post("/api/v1/jobs/bulk", &json!({"action": "hold", "filter": {"queue": "q"}}));
    assert_eq!(taken.status, 202, "{taken:?}");
    assert_eq!(taken.body["estimated_total"], 12_000);
    // Enqueued after the request, so not one of them.
    let late = server.enqueue(&json!({"queue": "q"}));
    let events = server.events(taken.body["progress_url"].as_str().expect("a path"));
    let mut kinds = Vec::new();
    let mut last = Value::Null;
    for event in events {
        kinds.push(event.kind);
        last = event.data;
    }
    assert_eq!(kinds.first().map(String::as_str), Some("bulk.async.started"));
    assert_eq!(kinds.last().map(String::as_str), Some("bulk.async.completed"));
    assert_eq!((&last["affected"], &last["percent"]), (&json!(12_000), &json!(100.0)), "{last}");
    assert_eq!(server.job(&late)["state"], "pending");
    let id = taken.body["bulk_operation_id"].as_str().expect("an id");
    let record = server.get(&format!("/api/v1/bulk/{id}")).body;
    assert_eq!((&record["status"], &record["processed"]), (&json!("completed"), &json!(12_000)));
    assert!(record["finished_at"].is_string());

    let first =
        server.post("/api/v1/jobs/bulk", &json!({"action": "approve", "filter": {"state": "held"}, "async": true}));
    let second =
        server.post("/api/v1/jobs/bulk", &json!({"action": "delete", "filter": {"queue": "q"}, "async": true}));
    let id = second.body["bulk_operation_id"].as_str().expect("an id");
    let stopped = server.post(&format!("/api/v1/bulk/{id}/cancel"), &json!({}));
    assert_eq!((stopped.status, &stopped.body["status"]), (200, &json!("cancelled")), "{stopped:?}");
    let id = first.body["bulk_operation_id"].as_str().expect("an id");
    eventually("the first is through", || {
        (server.get(&format!("/api/v1/bulk/{id}")).body["status"] == "completed").then_some(())
    });
    let deleted = stopped.body["affected"].as_u64().expect("a number");
    assert_eq!(server.queue("q")["pending"], 12_001 - deleted);
    assert_eq!(server.get("/api/v1/bulk").body["bulks"].as_array().map(Vec::len), Some(3));
}

#[test]
fn an_operation_interrupted_by_kill_9_continues_and_does_nothing_twice() {
    const JOBS: usize = 20_000;
    let server = Server::start();
    let ids = enqueue_many(&server, "from", JOBS);
    let request = json!({"action": "move", "move_to_queue": "to", "job_ids": ids});
    let taken = server.post("/api/v1/jobs/bulk", &request);
    assert_eq!(taken.status, 202, "{taken:?}");
    let id = taken.body["bulk_operation_id"].as_str().expect("an id").to_owned();
    let path = format!("/api/v1/bulk/{id}");
    let cut = eventually("it has begun", || {
        let processed = server.get(&path).body["processed"].as_u64().expect("a number");
        (processed > 0).then_some(processed)
    });
    assert!(cut < JOBS as u64, "the kill comes in the middle");
    let server = Server::start_on(&server.kill_9(), &[]);
    let record = eventually("it is through", || {
        let record = server.get(&path).body;
        (record["status"] == "completed").then_some(record)
    });
    assert_eq!((&record["processed"], &record["affected"]), (&json!(JOBS), &json!(JOBS)));
    assert_eq!((&server.queue("from")["pending"], &server.queue("to")["pending"]), (&json!(0), &json!(JOBS)));
    // Each job's timeline shows how often it was moved.
    for page in ids.chunks(1_000) {
        let jobs = server.post("/api/v1/jobs/bulk-get", &json!({ "job_ids": page })).body;
        for job in jobs["jobs"].as_array().expect("jobs") {
            let steps = job["timeline"].as_array().expect("a timeline");
            let moves = steps.iter().filter(|step| step["reason"].as_str().is_some_and(|why| why.starts_with("moved")));
            assert_eq!(moves.count(), 1, "{job:#}");
        }
    }
}

fn run(server: &Server, arguments: &[&str], input: Option<&str>) -> Output {
    let mut command = windlass();
    command.env("WINDLASS_URL", server.url("")).args(arguments).stdout(Stdio::piped()).stdin(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(input.unwrap_or_default().as_bytes()).expect("it reads");
    drop(stdin);
    child.wait_with_output().expect("it ends")
}

#[test]
fn bulk_reads_what_a_search_prints() {
    let server = Server::start();
    let ids = enqueue_many(&server, "q", 5);
    bulk(&server, &json!({"action": "cancel", "job_ids": &ids[..3]}));
    let found = run(&server, &["search", "--state", "cancelled"], None);
    let found = String::from_utf8(found.stdout).expect("text");
    let retried = run(&server, &["bulk", "retry"], Some(&found));
    let said = String::from_utf8_lossy(&retried.stdout).into_owned();
    assert!(retried.status.success() && said.contains("retry completed: 3 of 3 jobs, 0 errors"), "{retried:?}");
    let held = run(&server, &["bulk", "hold", "--queue", "q", "--output", "json"], None);
    let held: Value = serde_json::from_slice(&held.stdout).expect("JSON");
    assert_eq!(held["affected"], 5);
    let moved = run(&server, &["bulk", "move", "--to", "r", &ids[0], &ids[1]], None);
    assert!(moved.status.success());
    assert_eq!(server.queue("r")["held"], 2);
    let refused = run(&server, &["bulk", "delete", &ids[0], "--queue", "q"], None);
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("not by both"));
    let deleted = run(&server, &["bulk", "delete", "--queue", "q", "--yes"], None);
    assert!(String::from_utf8_lossy(&deleted.stdout).contains("3 of 3"), "{deleted:?}");
    let later = run(&server, &["bulk", "approve", "--queue", "r", "--async"], None);
    let id = String::from_utf8(later.stdout).expect("text");
    assert!(id.starts_with("bulk_"), "{id}");
    let shown = run(&server, &["bulk", "show", id.trim()], None);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("approve"), "{shown:?}");
}
