//! A restored copy that is started with `--paused`: nothing in it starts or is sent until it is resumed; then
//! everything continues.

use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use windlass_e2e::{Data, Origin, Server, answer, eventually, windlass};

const PAUSED: &str = "paused: nothing starts until `windlass resume`";

/// Runs the command against the server.
fn run(server: &Server, words: &[&str]) -> Output {
    let mut command: Command = windlass();
    command.env("WINDLASS_URL", server.url("")).args(words).stdout(Stdio::piped());
    command.output().expect("it runs")
}

fn said(server: &Server, words: &[&str]) -> String {
    let output = run(server, words);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// A copy of a folder, as a backup makes it.
fn copy(from: &Data) -> Data {
    let to = Data::new();
    let copied = Command::new("cp").arg("-a").arg(from.path().join(".")).arg(to.path()).status();
    assert!(copied.expect("cp runs").success());
    to
}

fn states(server: &Server, ids: &[&str]) -> Vec<Value> {
    ids.iter().map(|id| server.job(id)["state"].clone()).collect()
}

#[test]
fn a_restored_copy_does_nothing_until_it_is_resumed() {
    let hooks = Origin::start(|_, stream| answer(stream, 200, ""));
    let original = Server::start_on(&Data::new(), &["--webhooks-private"]);
    original.upload("digest", "digest");
    // A queue without a worker so far, one with a plugin that is busy, and one with a worker.
    let pending = original.enqueue(&json!({"queue": "mail"}));
    let leased = original.enqueue(&json!({"queue": "leased", "lease_duration": 60}));
    let fetch = json!({"queues": ["leased"], "worker_id": "w", "timeout": 1});
    assert_eq!(original.post("/api/v1/fetch", &fetch).body["job_id"], leased.as_str());
    let running = original.enqueue(&json!({"queue": "digest", "payload": {"generate_mb": 40, "pause_ms": 100}}));
    eventually("it has saved something", || original.job(&running)["checkpoint"].is_object().then_some(()));
    let delayed = original.enqueue(&json!({"queue": "mail", "delay": "2s"}));
    let tick = json!({"name": "tick", "queue": "ticks", "cron": "* * * * * *"});
    assert_eq!(original.post("/api/v1/schedules", &tick).status, 201);
    let backup = copy(&original.kill_9());

    let copy = Server::start_on(&backup, &["--paused", "--webhooks-private"]);
    eventually("the log says it", || copy.said().contains(PAUSED).then_some(()));
    let ready = copy.get("/readyz");
    assert_eq!((ready.status, ready.body), (200, json!({"status": "paused", "message": PAUSED})));
    assert!(said(&copy, &["status"]).starts_with(PAUSED), "{}", said(&copy, &["status"]));
    assert_eq!(copy.get("/api/v1/info").body["paused"], true);
    let hook = json!({"url": hooks.url("/hook"), "events": ["pending", "started", "completed", "enqueued"]});
    assert_eq!(copy.post("/api/v1/webhook-endpoints", &hook).status, 201);

    // Jobs are accepted with a warning, and not assigned.
    let new = copy.post("/api/v1/enqueue", &json!({"queue": "mail"}));
    assert_eq!(new.status, 201, "{new:?}");
    let warnings = new.body["warnings"].to_string();
    assert!(warnings.contains(PAUSED), "{warnings}");
    let fetched = copy.post("/api/v1/fetch/batch", &json!({"queues": ["mail", "ticks"], "count": 9, "timeout": 1}));
    assert_eq!((fetched.status, &fetched.body["jobs"]), (200, &json!([])), "{fetched:?}");
    assert!(fetched.body["warnings"].to_string().contains(PAUSED), "{fetched:?}");

    // The delay and several times of the schedule pass on the server's own clock.
    let (ticks, due) = (copy.queue("ticks")["enqueued"].clone(), copy.job(&delayed)["scheduled_at"].clone());
    eventually("the delay is over", || {
        let now = copy.post("/api/v1/enqueue", &json!({"queue": "clock"})).body["job_id"].clone();
        let now = copy.job(now.as_str().expect("an id"))["created_at"].clone();
        (now.as_str() > due.as_str()).then_some(())
    });
    let ids = [pending.as_str(), &leased, &running, &delayed];
    assert_eq!(states(&copy, &ids), ["pending", "active", "pending", "scheduled"]);
    assert_eq!(copy.queue("ticks")["enqueued"], ticks, "no instant has run");

    // It stays paused after a restart without the flag.
    let copy = Server::start_on(&copy.kill_9(), &["--webhooks-private"]);
    eventually("the log says it", || copy.said().contains(PAUSED).then_some(()));
    assert_eq!(states(&copy, &ids), ["pending", "active", "pending", "scheduled"]);
    assert!(hooks.asked("/hook").is_empty(), "nobody was told of anything");

    assert_eq!(said(&copy, &["resume"]).trim(), "resumed: jobs start again");
    assert_eq!(copy.get("/readyz").body, json!({"status": "ready"}));
    copy.wait_for(&running, "completed");
    let mut got = Vec::new();
    eventually("all of them are given out", || {
        let fetch = json!({"queues": ["mail"], "count": 9, "timeout": 1});
        for job in copy.post("/api/v1/fetch/batch", &fetch).body["jobs"].as_array().expect("a list") {
            got.push(job["job_id"].as_str().expect("an id").to_owned());
        }
        [&pending, &delayed].into_iter().all(|id| got.contains(id)).then_some(())
    });
    eventually("the schedule runs", || (copy.queue("ticks")["enqueued"] != ticks).then_some(()));
    assert_eq!(copy.job(&leased)["state"], "active", "its lease began again");
    eventually("the webhook is told", || (!hooks.asked("/hook").is_empty()).then_some(()));
    let gauge = String::from_utf8(copy.download("/metrics")).expect("text");
    assert!(gauge.contains("windlass_paused 0"), "{gauge}");
}

#[test]
fn a_running_server_is_paused_and_resumed() {
    let server = Server::start();
    server.upload("digest", "digest");
    let running = server.enqueue(&json!({"queue": "digest", "payload": {"generate_mb": 20, "pause_ms": 50}}));
    eventually("it runs", || (server.job(&running)["state"] == "active").then_some(()));
    assert_eq!(said(&server, &["pause"]).trim(), PAUSED);
    assert_eq!(server.post("/api/v1/pause", &json!({})).body, json!({"status": "paused"}), "twice is once");
    let waiting = server.enqueue(&json!({"queue": "digest", "payload": {"text": "a"}}));
    server.wait_for(&running, "completed");
    assert_eq!(server.job(&waiting)["state"], "pending", "what ran has ended, and nothing else has started");
    let top: Value = serde_json::from_str(&said(&server, &["top", "--output", "json"])).expect("JSON");
    assert_eq!(top["paused"], true);
    let resumed: Value = serde_json::from_str(&said(&server, &["resume", "--output", "json"])).expect("JSON");
    assert_eq!(resumed, json!({"status": "resumed"}));
    server.wait_for(&waiting, "completed");
    // The variable has the same effect as the flag.
    let data = server.kill_9();
    let mut command = windlass();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data.path()).env("WINDLASS_PAUSED", "true");
    let server = Server::spawn(command, &data).expect("it starts");
    let status: Value = serde_json::from_str(&said(&server, &["status", "--output", "json"])).expect("JSON");
    assert_eq!(status["paused"], true);
    assert!(status["paused_since"].is_string(), "{status:#}");
}
