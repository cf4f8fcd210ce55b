//! Waiting for a job at a terminal: the output shows immediately what the job waits for, and how it ended.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};
use windlass_e2e::{Server, eventually, windlass};

fn start(server: &Server, arguments: &[&str]) -> Child {
    let mut command = windlass();
    command.env("WINDLASS_URL", server.url("")).args(arguments).stdout(Stdio::piped());
    command.spawn().expect("the command runs")
}

fn run(server: &Server, arguments: &[&str]) -> Output {
    start(server, arguments).wait_with_output().expect("it ends")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Lets a worker fetch the next job of the queue and fail it.
fn fail(server: &Server, queue: &str, error: &str, backtrace: &str) {
    let job = server.post("/api/v1/fetch", &json!({"queues": [queue], "worker_id": "w", "timeout": 30})).body;
    let id = job["job_id"].as_str().unwrap_or_else(|| panic!("no job: {job}"));
    let failed = server.post(&format!("/api/v1/fail/{id}"), &json!({"error": error, "backtrace": backtrace}));
    assert_eq!(failed.status, 200, "{failed:?}");
}

#[test]
fn waiting_on_an_unserved_queue_warns_immediately_and_ctrl_c_leaves_the_job() {
    let server = Server::start();
    let mut watch = start(&server, &["enqueue", "lonely", "--watch"]);
    let mut lines = BufReader::new(watch.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
    let mut first = Vec::new();
    // The event that it was enqueued is the last one; after it nothing happens.
    for line in lines.by_ref() {
        let over = line == "enqueued";
        first.push(line);
        if over {
            break;
        }
    }
    let first = first.join("\n");
    let job = server.get("/api/v1/jobs?queue=lonely").body["jobs"][0].clone();
    let id = job["id"].as_str().expect("a job");
    for part in [
        "warning: no plugin serves queue `lonely`, and no worker",
        "windlass plugin push DIR --queues lonely",
        "/docs",
        &format!("{id} is pending in lonely"),
    ] {
        assert!(first.contains(part), "{part} is missing: {first}");
    }
    let pressed = Command::new("kill").arg("-INT").arg(watch.id().to_string()).status().expect("there is a kill");
    assert!(pressed.success());
    let rest: Vec<String> = lines.collect();
    let rest = rest.join("\n");
    let status = eventually("it ends", || watch.try_wait().expect("our own child"));
    assert_eq!(status.code(), Some(130), "{rest}");
    for part in [
        &format!("stopped watching; {id} stays queued (pending)"),
        &format!("windlass job watch {id}"),
        &format!("windlass job cancel {id}"),
    ] {
        assert!(rest.contains(part.as_str()), "{part} is missing: {rest}");
    }
    assert_eq!(server.job(id)["state"], "pending");
}

#[test]
fn a_job_in_a_served_queue_has_no_warnings_and_its_id_is_shown() {
    let server = Server::start();
    server.upload("digest", "digest");
    let watched = run(&server, &["enqueue", "digest", r#"{"text": "hello"}"#, "--watch"]);
    assert!(watched.status.success() && !said(&watched).contains("warning"), "{}", said(&watched));
    let id = said(&watched).lines().next().and_then(|line| line.split(' ').next()).expect("a line").to_owned();
    assert_eq!(server.job(&id)["state"], "completed", "{}", said(&watched));
    let result: Value = serde_json::from_slice(&watched.stdout).expect("the result, and nothing else");
    assert!(result["sha256"].is_string(), "{result}");

    let short = run(&server, &["enqueue", "nobody"]);
    assert!(said(&short).contains("windlass plugin push DIR --queues nobody"), "{}", said(&short));
    assert!(String::from_utf8_lossy(&short.stdout).starts_with("job_"), "scripts take the id alone: {short:?}");
}

#[test]
fn a_job_that_dies_ends_the_watch_with_its_error_backtrace_and_what_to_do() {
    let server = Server::start();
    let watch = start(&server, &["enqueue", "q", "--max-attempts", "1", "--watch"]);
    fail(&server, "q", "the disk is on fire", "at burn (disk.py:7)\nat main (app.py:3)");
    let ended = watch.wait_with_output().expect("it ends");
    let id = server.get("/api/v1/jobs?queue=q").body["jobs"][0]["id"].as_str().expect("a job").to_owned();
    let check = |ended: &Output| {
        assert_eq!(ended.status.code(), Some(1), "{}", said(ended));
        for part in [
            "dead: the disk is on fire",
            "    at burn (disk.py:7)\n    at main (app.py:3)\n",
            &format!("windlass job get {id}"),
            &format!("windlass job logs {id}"),
            &format!("windlass job retry {id}"),
        ] {
            assert!(said(ended).contains(part), "{part} is missing: {}", said(ended));
        }
    };
    check(&ended);
    check(&run(&server, &["job", "watch", &id]));
    let elsewhere = windlass().args(["job", "watch", &id, "--url", &server.url("")]).output().expect("it runs");
    assert!(said(&elsewhere).contains(&format!("job retry {id} --url {}", server.url(""))), "{}", said(&elsewhere));
}

#[test]
fn the_text_output_of_a_job_shows_what_the_json_has() {
    let server = Server::start();
    let id = server
        .enqueue(&json!({"queue": "q", "max_attempts": 2, "retry_backoff": "none", "agent": {"max_iterations": 5}}));
    fail(&server, "q", "first try", "at once");
    let job = server.post("/api/v1/fetch", &json!({"queues": ["q"], "worker_id": "w", "timeout": 30})).body;
    assert_eq!(job["job_id"], id.as_str());
    let usage = json!({"input_tokens": 1200, "output_tokens": 34, "cost_usd": 0.5});
    let progress = json!({"current": 1, "total": 4, "message": "a quarter", "phase": "working"});
    server.post("/api/v1/heartbeat", &json!({"jobs": {&id: {"progress": progress, "usage": usage}}}));
    server.post(&format!("/api/v1/jobs/{id}/cancel"), &json!({"reason": "found a better way"}));
    let text = || String::from_utf8(run(&server, &["job", "get", &id]).stdout).expect("text");
    let running = text();
    for part in [
        "attempts        2 started, 1 failed",
        "25 %  working: a quarter",
        "1200 input tokens, 34 output tokens, 0.5000 USD",
        "found a better way",
        "requested at ",
        "    first try\n    at once\n",
        "attempt 1",
        "timeline",
        "enqueued",
    ] {
        assert!(running.contains(part), "{part} is missing:\n{running}");
    }
    assert_eq!(server.job(&id)["cancel_reason"], "found a better way");
    server.post(&format!("/api/v1/ack/{id}"), &json!({}));
    let ended = text();
    assert!(
        ended.contains("state           cancelled") && ended.contains("cancel          found a better way"),
        "{ended}"
    );
    assert_eq!(server.job(&id)["cancel_reason"], "found a better way");

    server.upload("digest", "digest");
    let id = server.enqueue(&json!({"queue": "digest", "payload": {"text": "hello"}}));
    assert!(run(&server, &["job", "wait", &id]).status.success());
    let text = String::from_utf8(run(&server, &["job", "get", &id]).stdout).expect("text");
    assert!(text.contains("cost            cpu ") && text.contains(", memory "), "{text}");
}
