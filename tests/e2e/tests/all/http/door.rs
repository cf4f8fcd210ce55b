//! The description of the API, workers that drain or disconnect, limits on fetches, followed logs, metrics.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::thread;

use serde_json::{Value, json};
use windlass_e2e::{Data, Server, eventually};

fn fetch(server: &Server, worker: &str, queue: &str, timeout: u64) -> windlass_e2e::Answer {
    server.post("/api/v1/fetch", &json!({"queues": [queue], "worker_id": worker, "timeout": timeout}))
}

#[test]
fn the_description_matches_the_servers_responses_and_the_page_shows_it() {
    let server = Server::start();
    let document: Value = serde_json::from_slice(&server.download("/openapi.json")).expect("JSON");
    assert!(document["openapi"].as_str().is_some_and(|version| version.starts_with("3.1")), "{}", document["openapi"]);
    let paths = document["paths"].as_object().expect("paths");
    assert!(paths.len() > 40, "only {} paths", paths.len());
    // Every path without parameters is answered as described.
    let mut asked = 0;
    for (path, item) in paths {
        let described = &item["get"]["responses"];
        let no_json = path == "/docs" || path == "/" || path.ends_with("/metrics");
        let endless = described["200"]["content"]["text/event-stream"].is_object();
        // Those that redirect are for browsers that sign in with a provider.
        if item["get"].is_null() || path.contains('{') || no_json || endless || described["303"].is_object() {
            continue;
        }
        let answer = server.get(path);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        assert!(item["get"]["responses"]["200"].is_object(), "{path}");
        asked += 1;
    }
    assert!(asked > 8, "only {asked} were asked");
    let page = String::from_utf8(server.download("/docs")).expect("text");
    assert!(page.contains("/openapi.json"), "{page}");
    for outside in ["src=\"http", "href=\"http", "@import", "url(http"] {
        assert!(!page.contains(outside), "the page asks others: {outside}");
    }
}

#[test]
fn the_description_needs_no_key_and_everything_else_does() {
    let server = Server::start_on(&Data::new(), &["--api-key", "a-key-that-is-long-enough"]);
    for open in ["/healthz", "/readyz", "/openapi.json"] {
        assert_eq!(server.get(open).status, 200, "{open}");
    }
    for closed in [
        "/metrics",
        "/api/v1/metrics",
        "/api/v1/info",
        "/api/v1/queues",
        "/api/v1/webhooks",
        "/api/v1/webhook-endpoints",
        "/nothing",
    ] {
        assert_eq!(server.get(closed).status, 401, "{closed}");
    }
}

#[test]
fn a_worker_that_drains_gets_no_more_jobs_and_finishes_those_it_has() {
    let server = Server::start();
    assert_eq!(server.post("/api/v1/workers/ann/drain", &json!({})).status, 404, "nobody knows her");
    let held = server.enqueue(&json!({"queue": "q"}));
    assert_eq!(fetch(&server, "ann", "q", 1).body["job_id"], json!(held));
    // A waiting poll ends when the worker is drained, and gets no later job.
    let client = (*server).clone();
    let waiting = thread::spawn(move || {
        client.post("/api/v1/fetch", &json!({"queues": ["q"], "worker_id": "ann", "timeout": 2}))
    });
    assert_eq!(server.post("/api/v1/workers/ann/drain", &json!({})).body, json!({"status": "draining"}));
    let next = server.enqueue(&json!({"queue": "q"}));
    assert_eq!(waiting.join().expect("answered").status, 204);
    let workers = server.get("/api/v1/workers").body;
    assert_eq!(
        (&workers[0]["id"], &workers[0]["draining"], &workers[0]["jobs"]),
        (&json!("ann"), &json!(true), &json!([held]))
    );
    assert!(workers[0]["uptime_seconds"].is_u64(), "{workers}");
    assert_eq!(server.post(&format!("/api/v1/ack/{held}"), &json!({})).status, 200);
    assert_eq!(fetch(&server, "bob", "q", 1).body["job_id"], json!(next), "others go on");
    server.post("/api/v1/workers/ann/resume", &json!({}));
    let last = server.enqueue(&json!({"queue": "q"}));
    assert_eq!(fetch(&server, "ann", "q", 5).body["job_id"], json!(last));
}

#[test]
fn a_job_for_one_worker_is_not_assigned_to_another() {
    let server = Server::start();
    let id = server.enqueue(&json!({"queue": "q", "target_worker": "ann"}));
    assert_eq!(fetch(&server, "bob", "q", 0).status, 204);
    assert_eq!(fetch(&server, "ann", "q", 1).body["job_id"], json!(id));
}

/// Sends a fetch and disconnects without waiting for the response.
fn fetch_and_go(server: &Server, close: bool) -> TcpStream {
    let address = server.url("").trim_start_matches("http://").to_owned();
    let mut stream = TcpStream::connect(address).expect("connected");
    let body = r#"{"queues": ["q"], "worker_id": "gone", "timeout": 50}"#;
    let length = body.len();
    write!(
        stream,
        "POST /api/v1/fetch HTTP/1.1\r\nhost: localhost\r\nx-api-key: {}\r\ncontent-length: {length}\r\n\r\n{body}",
        server.key()
    )
    .expect("sent");
    eventually("the fetch waits", || {
        let workers = server.get("/api/v1/workers").body;
        workers.as_array().is_some_and(|list| list.iter().any(|worker| worker["id"] == "gone")).then_some(())
    });
    if close {
        drop(stream.shutdown(std::net::Shutdown::Both));
    }
    stream
}

#[test]
fn a_fetch_whose_client_has_disconnected_takes_no_job() {
    let server = Server::start();
    drop(fetch_and_go(&server, true));
    let id = server.enqueue(&json!({"queue": "q"}));
    let fetched = fetch(&server, "stayed", "q", 30);
    assert_eq!((fetched.status, &fetched.body["job_id"]), (200, &json!(id)), "{fetched:?}");
    let job = server.job(&id);
    assert_eq!((&job["worker_id"], &job["failures"]), (&json!("stayed"), &json!(0)), "{job:#}");
}

#[test]
fn too_many_fetches_on_one_queue_are_refused_and_other_queues_are_not_affected() {
    let server = Server::start_on(&Data::new(), &["--max-fetches", "1"]);
    let mut waiting = fetch_and_go(&server, false);
    let refused = eventually("the place is taken", || {
        let answer = fetch(&server, "second", "q", 0);
        (answer.status == 429).then_some(answer)
    });
    assert_eq!(refused.body["code"], "OVERLOADED", "{refused:?}");
    assert!(refused.body["retry_after_ms"].as_u64().is_some_and(|wait| wait > 0), "{refused:?}");
    assert!(refused.retry_after.as_ref().and_then(|wait| wait.parse::<u64>().ok()) > Some(0), "{refused:?}");
    assert_eq!(fetch(&server, "third", "other", 0).status, 204, "another queue does not notice");
    server.enqueue(&json!({"queue": "q"}));
    let mut answer = [0; 15];
    waiting.read_exact(&mut answer).expect("the first one is answered");
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
    assert_eq!(fetch(&server, "second", "q", 0).status, 204, "its place is free again");
}

#[test]
fn the_log_of_a_job_is_followed_to_its_end() {
    let server = Server::start();
    server.upload("digest", "digest");
    let id = server.enqueue(&json!({"queue": "digest", "payload": {"generate_mb": 4, "seed": 1}}));
    let live: Vec<_> = server.events(&format!("/api/v1/jobs/{id}/logs?follow=true")).collect();
    server.wait_for(&id, "completed");
    assert!(live.iter().all(|event| event.kind == "log"), "{live:?}");
    let page = server.get(&format!("/api/v1/jobs/{id}/logs")).body;
    let lines = page["lines"].as_array().expect("lines");
    assert_eq!(live.len(), lines.len(), "{live:?}\n{page:#}");
    let again: Vec<_> = server.events(&format!("/api/v1/jobs/{id}/logs?follow=true&from=1")).collect();
    assert_eq!(again.len(), lines.len().saturating_sub(1), "an ended job's log ends at once");
    assert_eq!(server.get(&format!("/api/v1/jobs/{}/logs?follow=true", id.replace("job_01", "job_02"))).status, 404);
}

#[test]
fn queues_have_histograms_and_rates() {
    let server = Server::start();
    for _ in 0..3 {
        server.enqueue(&json!({"queue": "q"}));
    }
    for _ in 0..2 {
        let id = fetch(&server, "w", "q", 1).body["job_id"].as_str().expect("an id").to_owned();
        server.post(&format!("/api/v1/ack/{id}"), &json!({}));
    }
    let metrics = String::from_utf8(server.download("/metrics")).expect("text");
    let families =
        |text: &str| text.lines().filter(|line| line.starts_with("# TYPE")).map(str::to_owned).collect::<Vec<_>>();
    let same = String::from_utf8(server.download("/api/v1/metrics")).expect("text");
    assert_eq!(families(&metrics), families(&same));
    for line in [
        "# TYPE windlass_job_wait_seconds histogram",
        "windlass_job_wait_seconds_count{queue=\"q\"} 2",
        "windlass_job_wait_seconds_bucket{queue=\"q\",le=\"+Inf\"} 2",
        "windlass_job_run_seconds_bucket{queue=\"q\",le=\"+Inf\"} 2",
        "# TYPE windlass_commit_seconds histogram",
        "# TYPE windlass_compile_seconds histogram",
        "windlass_jobs{queue=\"q\",state=\"pending\"} 1",
    ] {
        assert!(metrics.lines().any(|found| found == line), "no {line:?} in\n{metrics}");
    }
    // Every metric has its help and type before its first sample.
    let mut told = Vec::new();
    for line in metrics.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            told.push(rest.split(' ').next().expect("a name").to_owned());
        } else if !line.starts_with('#') {
            let name = line.split(['{', ' ']).next().expect("a name");
            assert!(told.iter().any(|family| name.starts_with(family.as_str())), "{name} has no TYPE");
        }
    }
    let queue = eventually("a rate", || {
        let queue = server.queue("q");
        queue["completed_per_second"].as_f64().is_some_and(|rate| rate > 0.0).then_some(queue)
    });
    assert!(queue["enqueued_per_second"].as_f64() > Some(0.0), "{queue:#}");
    let stats = server.get("/api/v1/queues/q/stats").body;
    assert_eq!(stats["success_rate"], 1.0, "{stats:#}");
    for spread in ["wait_ms", "run_ms"] {
        for part in ["p50", "p95", "p99"] {
            assert!(stats[spread][part].is_u64(), "{stats:#}");
        }
    }
}

#[test]
fn an_agent_works_in_iterations_within_its_limits() {
    let server = Server::start();
    let id = server
        .enqueue(&json!({"queue": "q", "agent": {"max_iterations": 2, "max_cost_usd": 5, "iteration_timeout": "10m"}}));
    let mut checkpoint = Value::Null;
    for round in 1..=2 {
        let fetched = fetch(&server, "w", "q", 2).body;
        assert_eq!((&fetched["job_id"], &fetched["checkpoint"]), (&json!(id), &checkpoint), "round {round}");
        checkpoint = json!({"round": round});
        let ack = json!({
            "agent_status": "continue",
            "checkpoint": checkpoint,
            "usage": {"input_tokens": 100, "output_tokens": 10, "model": "m", "cost_usd": 0.5},
            "lease_token": fetched["lease_token"],
        });
        for _ in 0..2 {
            assert_eq!(
                server.post(&format!("/api/v1/ack/{id}"), &ack).body,
                json!({"status": "ok"}),
                "an ack may be repeated"
            );
        }
    }
    let job = server.job(&id);
    assert_eq!(
        (&job["state"], &job["hold_reason"]),
        (&json!("held"), &json!("max_iterations reached: 2 of 2")),
        "{job:#}"
    );
    assert_eq!(
        job["agent"],
        json!({"max_iterations": 2, "max_cost_usd": 5.0, "iteration_timeout": "10m", "iteration": 2})
    );
    assert_eq!((&job["usage"]["input_tokens"], &job["usage"]["cost_usd"]), (&json!(200), &json!(1.0)));
    assert_eq!(job["usage_by_attempt"].as_array().map(Vec::len), Some(2), "{job:#}");
    assert_eq!(server.post(&format!("/api/v1/jobs/{id}/approve"), &json!({})).body, json!({"status": "pending"}));
    fetch(&server, "w", "q", 2);
    let done = json!({"agent_status": "done", "step_status": "exit", "exit_reason": "enough", "result": 42});
    assert_eq!(server.post(&format!("/api/v1/ack/{id}"), &done).status, 200);
    let job = server.job(&id);
    assert_eq!((&job["state"], &job["result"]), (&json!("completed"), &json!(42)));
    assert_eq!((&job["exit_reason"], &job["step_status"]), (&json!("enough"), &json!("exit")));
}

#[test]
fn an_agent_can_hold_its_job_for_a_person() {
    let server = Server::start();
    let id = server.enqueue(&json!({"queue": "q"}));
    fetch(&server, "w", "q", 2);
    let heartbeat = json!({"jobs": {&id: {"usage": {"output_tokens": 3}}}});
    assert_eq!(server.post("/api/v1/heartbeat", &heartbeat).body["jobs"][&id]["status"], "ok");
    let ack = json!({"agent_status": "hold", "hold_reason": "which one?"});
    assert_eq!(server.post(&format!("/api/v1/ack/{id}"), &ack).status, 200);
    let job = server.job(&id);
    assert_eq!(
        (&job["state"], &job["hold_reason"], &job["usage"]["output_tokens"]),
        (&json!("held"), &json!("which one?"), &json!(3))
    );
}

#[test]
fn a_worker_of_a_hundred_lines_of_python_does_its_work() {
    let server = Server::start();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/worker.py");
    let mut worker = Command::new("python3");
    server.tell(worker.args([script, "counting"]));
    worker.stdout(Stdio::null()).stderr(Stdio::null());
    let mut worker = worker.spawn().expect("there is a python3");
    let good = server.enqueue(&json!({"queue": "counting", "payload": {"to": 3}, "checkpoint": 1}));
    let bad = server.enqueue(&json!({"queue": "counting", "payload": {"fail": "no luck"}, "max_attempts": 1}));
    let job = server.wait_for(&good, "completed");
    let dead = server.wait_for(&bad, "dead");
    worker.kill().expect("it runs");
    worker.wait().expect("our own child");
    assert_eq!(
        (&job["result"], &job["progress"]["current"], &job["checkpoint"]),
        (&json!({"counted": 3}), &json!(3), &json!(3)),
        "{job:#}"
    );
    assert_eq!(dead["errors"][0]["error"], "ValueError: no luck", "{dead:#}");
}
