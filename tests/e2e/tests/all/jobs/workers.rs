//! External workers: they fetch over HTTP from queues that no plugin serves.

use serde_json::{Value, json};
use windlass_e2e::Server;

fn fetch(server: &Server) -> Value {
    let answer =
        server.post("/api/v1/fetch", &json!({"queues": ["q"], "worker_id": "w", "hostname": "h", "timeout": 5}));
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body
}

fn id_of(fetched: &Value) -> String {
    fetched["job_id"].as_str().expect("an id").to_owned()
}

#[test]
fn a_worker_fetches_beats_and_acks() {
    let server = Server::start();
    let id = server.enqueue(&json!({"queue": "q", "payload": {"n": 1}, "tags": {"a": "b"}, "checkpoint": [1]}));
    let fetched = fetch(&server);
    assert_eq!(
        (&fetched["job_id"], &fetched["queue"], &fetched["payload"]),
        (&json!(id), &json!("q"), &json!({"n": 1}))
    );
    assert_eq!(
        (&fetched["attempt"], &fetched["max_attempts"], &fetched["lease_duration"]),
        (&json!(1), &json!(3), &json!(60))
    );
    assert_eq!((&fetched["checkpoint"], &fetched["tags"]), (&json!([1]), &json!({"a": "b"})));

    let heartbeat = server.post(
        "/api/v1/heartbeat",
        &json!({"jobs": {
            &id: {"progress": {"current": 1, "total": 4, "message": "first"}, "checkpoint": {"at": 1}},
            "job_01JQ8ZK3V7N3W5X9Y1A2B3C4D5": {},
        }}),
    );
    assert_eq!(heartbeat.body["jobs"][&id], json!({"status": "ok"}), "{heartbeat:?}");
    assert_eq!(heartbeat.body["jobs"]["job_01JQ8ZK3V7N3W5X9Y1A2B3C4D5"], json!({"status": "cancel"}));
    assert!(heartbeat.body["lease_expires_at"].is_string());
    let older = json!({"worker_id": "w", "jobs": [{"job_id": id, "checkpoint": "{\"at\": 2}"}]});
    assert_eq!(server.post("/api/v1/heartbeat", &older).body["jobs"][&id], json!({"status": "ok"}));
    let job = server.job(&id);
    assert_eq!((&job["checkpoint"], &job["worker"]), (&json!({"at": 2}), &json!({"id": "w", "hostname": "h"})));
    assert_eq!((&job["worker_id"], &job["hostname"]), (&json!("w"), &json!("h")));

    let ack = json!({"result": {"done": true}, "lease_token": fetched["lease_token"]});
    for _ in 0..2 {
        let answer = server.post(&format!("/api/v1/ack/{id}"), &ack);
        assert_eq!((answer.status, &answer.body), (200, &json!({"status": "ok"})), "an ack may be repeated");
    }
    let job = server.job(&id);
    assert_eq!((&job["state"], &job["result"]), (&json!("completed"), &json!({"done": true})));
    assert_eq!(job["progress"]["message"], "first");
}

#[test]
fn a_worker_is_listed_with_its_jobs_even_after_a_restart() {
    let server = Server::start();
    let id = server.enqueue(&json!({"queue": "q"}));
    fetch(&server);
    // A heartbeat that does not name the worker, and a fetch that does not name its host.
    server.post("/api/v1/fetch", &json!({"queues": ["q"], "worker_id": "w", "timeout": 0}));
    let first = server.get("/api/v1/workers").body[0].clone();
    assert_eq!((&first["hostname"], &first["jobs"]), (&json!("h"), &json!([id])));
    let heard = |server: &Server| server.get("/api/v1/workers").body[0]["last_heartbeat"].as_str().map(str::to_owned);
    let before = heard(&server);
    windlass_e2e::eventually("the heartbeat shows", || {
        server.post("/api/v1/heartbeat", &json!({"jobs": {&id: {}}}));
        (heard(&server) > before).then_some(())
    });
    let server = Server::start_on(&server.kill_9(), &[]);
    let worker = server.get("/api/v1/workers").body[0].clone();
    assert_eq!(
        (&worker["id"], &worker["hostname"], &worker["queues"], &worker["jobs"]),
        (&json!("w"), &json!("h"), &json!(["q"]), &json!([id]))
    );
}

#[test]
fn a_fail_says_what_comes_next_and_a_hand_back_costs_nothing() {
    let server = Server::start();
    let id = server.enqueue(&json!({"queue": "q", "max_attempts": 2, "retry_backoff": "none"}));
    fetch(&server);
    let back = server.post(&format!("/api/v1/fail/{id}"), &json!({"error": "worker_shutdown"}));
    assert_eq!((&back.body["status"], &back.body["attempts_remaining"]), (&json!("pending"), &json!(2)), "{back:?}");
    fetch(&server);
    let first = server.post(&format!("/api/v1/fail/{id}"), &json!({"error": "boom", "backtrace": "at main"}));
    assert_eq!(
        (&first.body["status"], &first.body["attempts_remaining"]),
        (&json!("retrying"), &json!(1)),
        "{first:?}"
    );
    fetch(&server);
    let last = server.post(&format!("/api/v1/fail/{id}"), &json!({"error": "boom again"}));
    assert_eq!((&last.body["status"], &last.body["attempts_remaining"]), (&json!("dead"), &json!(0)), "{last:?}");
    let job = server.job(&id);
    assert_eq!((&job["attempt"], &job["failures"]), (&json!(3), &json!(2)));
    assert_eq!((&job["errors"][0]["error"], &job["errors"][0]["backtrace"]), (&json!("boom"), &json!("at main")));
    let late = server.post(&format!("/api/v1/fail/{id}"), &json!({"error": "too late"}));
    assert_eq!((late.status, &late.body["code"]), (410, &json!("JOB_NOT_ACTIVE")));
}

#[test]
fn a_cancellation_reaches_the_worker_with_its_next_heartbeat() {
    let server = Server::start();
    let id = server.enqueue(&json!({"queue": "q"}));
    fetch(&server);
    assert_eq!(server.post(&format!("/api/v1/jobs/{id}/cancel"), &json!({})).body, json!({"status": "cancelling"}));
    let heartbeat = server.post("/api/v1/heartbeat", &json!({"jobs": {&id: {}}}));
    assert_eq!(heartbeat.body["jobs"][&id], json!({"status": "cancel"}));
    assert_eq!(server.post(&format!("/api/v1/ack/{id}"), &json!({"result": 7})).status, 200);
    let job = server.job(&id);
    assert_eq!((&job["state"], &job["result"]), (&json!("cancelled"), &json!(7)));
}

#[test]
fn batches_of_fetches_and_acks() {
    let server = Server::start();
    for n in 0..3 {
        server.enqueue(&json!({"queue": "q", "payload": n}));
    }
    let fetched = server.post("/api/v1/fetch/batch", &json!({"queues": ["q"], "count": 10, "timeout": 1})).body;
    let jobs = fetched["jobs"].as_array().expect("a list");
    assert_eq!(jobs.len(), 3);
    let mut acks: Vec<Value> = jobs.iter().map(|job| json!({"job_id": id_of(job), "result": 1})).collect();
    acks.push(json!({"job_id": "job_01JQ8ZK3V7N3W5X9Y1A2B3C4D5"}));
    assert_eq!(server.post("/api/v1/ack/batch", &json!({"acks": acks})).body, json!({"acked": 3}));
    let empty = server.post("/api/v1/fetch/batch", &json!({"queues": ["q"], "timeout": 0}));
    assert_eq!((empty.status, &empty.body), (200, &json!({"jobs": []})));
}

#[test]
fn a_fetch_that_finds_nothing_is_a_204_and_one_that_cannot_is_told_why() {
    let server = Server::start();
    server.upload("digest", "digest");
    assert_eq!(server.post("/api/v1/fetch", &json!({"queues": ["q"], "timeout": 0})).status, 204);
    let none = server.post("/api/v1/fetch", &json!({"timeout": 0}));
    assert_eq!((none.status, &none.body["code"]), (400, &json!("VALIDATION_ERROR")));
    let served = server.post("/api/v1/fetch", &json!({"queues": ["q", "digest"]}));
    assert_eq!((served.status, &served.body["code"]), (422, &json!("QUEUE_SERVED_BY_PLUGIN")));
}

#[test]
fn a_waiting_fetch_gets_the_next_job() {
    let server = Server::start();
    let client: &windlass_e2e::Client = &server;
    let client = client.clone();
    let waiting = std::thread::spawn(move || client.post("/api/v1/fetch", &json!({"queues": ["q"], "timeout": 50})));
    let id = server.enqueue(&json!({"queue": "q"}));
    let fetched = waiting.join().expect("the fetch returns");
    assert_eq!((fetched.status, &fetched.body["job_id"]), (200, &json!(id)));
}

#[test]
fn a_duplicate_within_the_period_gets_the_finished_job_and_its_result() {
    let server = Server::start();
    let job = json!({"queue": "cache", "unique_key": "report-7", "unique_until": "period", "unique_period": "1h"});
    let id = server.enqueue(&job);
    server.post("/api/v1/fetch", &json!({"queues": ["cache"], "worker_id": "w", "timeout": 1}));
    assert_eq!(server.post(&format!("/api/v1/ack/{id}"), &json!({"result": {"rows": 12}})).status, 200);
    let again = server.post("/api/v1/enqueue", &job);
    assert_eq!((again.status, &again.body["job_id"]), (200, &json!(id)));
    assert_eq!(
        (&again.body["job"]["state"], &again.body["job"]["result"]),
        (&json!("completed"), &json!({"rows": 12}))
    );
}
