//! `--encrypt-bodies`: no text of a job is on the disk in clear, and nothing else changes for anybody.

use serde_json::{Value, json};
use windlass_e2e::{Data, Server, eventually, files_holding};

/// What no file may contain: it is in payloads, results, checkpoints, logs, errors, records and schedules.
const MARKER: &str = "plaintext-marker-51ab";
const ENCRYPTED: &[&str] = &["--encrypt-bodies"];

fn work(server: &Server, queue: &str, note: &str) -> String {
    let id = server.enqueue(&json!({"queue": queue, "payload": {"note": note}, "max_attempts": 1}));
    let fetched = server.post("/api/v1/fetch", &json!({"queues": [queue], "worker_id": "w", "timeout": 1}));
    assert_eq!(fetched.body["job_id"], json!(id), "{fetched:?}");
    assert_eq!(fetched.body["payload"]["note"], json!(note));
    let beat =
        json!({"jobs": {&id: {"checkpoint": {"step": note}, "progress": {"current": 1, "total": 2, "message": note}}}});
    assert_eq!(server.post("/api/v1/heartbeat", &beat).status, 200);
    let saved =
        eventually("the checkpoint is shown", || server.job(&id)["checkpoint"]["step"].as_str().map(str::to_owned));
    assert_eq!(saved, note);
    id
}

/// Finds the job by its payload, in both ways.
fn finds(server: &Server, id: &str, note: &str) {
    let wanted = [json!({"payload_contains": note}), json!({"payload_jq": format!(".note == \"{note}\"")})];
    for filter in wanted {
        let found = server.post("/api/v1/jobs/search", &filter);
        let ids: Vec<&Value> = found.body["jobs"].as_array().expect("jobs").iter().map(|job| &job["id"]).collect();
        assert!(ids.contains(&&json!(id)), "{filter}: {found:?}");
    }
}

#[test]
fn no_file_has_a_text_of_a_job_in_clear_and_everything_reads_it_as_before() {
    let data = Data::new();
    let server = Server::start_on(&data, ENCRYPTED);
    let mut events = server.events("/api/v1/events?last_event_id=0");
    let note = format!("{MARKER} small");
    let large = format!("{MARKER} {}", "large ".repeat(30_000));
    let small_id = work(&server, "q", &note);
    let done = server.post(&format!("/api/v1/ack/{small_id}"), &json!({"result": {"said": note}}));
    assert_eq!(done.status, 200, "{done:?}");
    let large_id = work(&server, "q", &large);
    let failed = server.post(&format!("/api/v1/fail/{large_id}"), &json!({"error": note, "backtrace": note}));
    assert_eq!(failed.status, 200, "{failed:?}");
    let schedule = json!({"name": "yearly", "queue": "later", "cron": "0 0 1 1 *", "payload": {"note": note}});
    assert_eq!(server.post("/api/v1/schedules", &schedule).status, 201);
    let batch = json!({"callback_queue": "later", "callback_payload": {"note": note}});
    assert!(server.post("/api/v1/batch", &batch).status < 300);
    let chain = json!({"queue": "later", "payload": {}, "chain": {"steps": [
        {"queue": "later"}, {"queue": "later", "payload": {"note": note}}]}});
    server.enqueue(&chain);
    assert!(events.any(|event| event.data.to_string().contains(MARKER)), "the stream tells it");

    let check = |server: &Server| {
        assert_eq!(server.job(&small_id)["result"]["said"], json!(note));
        assert_eq!(server.job(&large_id)["errors"][0]["error"], json!(note));
        assert_eq!(server.job(&large_id)["payload"]["note"], json!(large));
        assert_eq!(server.job(&large_id)["checkpoint"]["step"], json!(large));
        assert_eq!(server.get("/api/v1/schedules/yearly").body["payload"]["note"], json!(note));
        finds(server, &small_id, &note);
    };
    check(&server);
    let data = server.kill_9();
    assert_eq!(files_holding(data.path(), MARKER.as_bytes()), Vec::<String>::new());

    let server = Server::start_on(&data, ENCRYPTED);
    check(&server);
    let (_, log, data) = server.stop();
    assert!(!log.contains(MARKER), "the server's log");
    assert_eq!(files_holding(data.path(), MARKER.as_bytes()), Vec::<String>::new());

    // Switched off, what was encrypted is still read, and the rest is written in clear; and the other way round.
    let server = Server::start_on(&data, &[]);
    check(&server);
    let clear = work(&server, "q", "in clear");
    let data = server.kill_9();
    let server = Server::start_on(&data, ENCRYPTED);
    check(&server);
    assert_eq!(server.job(&clear)["payload"]["note"], "in clear");
}

#[test]
fn a_job_in_a_plugin_goes_on_from_its_encrypted_checkpoint_after_kill_9() {
    let data = Data::new();
    let server = Server::start_on(&data, ENCRYPTED);
    server.upload("digest", "demo.digest");
    let payload = json!({"generate_mb": 16, "seed": 7, "pause_ms": 50});
    let id = server.enqueue(&json!({"queue": "demo.digest", "payload": payload}));
    eventually("it has saved", || server.job(&id)["checkpoint"]["steps_done"].as_u64().filter(|steps| *steps > 1));
    let data = server.kill_9();
    let server = Server::start_on(&data, ENCRYPTED);
    let job = server.wait_for(&id, "completed");
    assert!(job["result"]["steps_run"].as_u64() < job["result"]["steps"].as_u64(), "{job:#}");
}

#[test]
fn without_its_key_the_server_does_not_start_and_a_rotation_keeps_everything_readable() {
    let data = Data::new();
    let server = Server::start_on(&data, ENCRYPTED);
    let id = server.enqueue(&json!({"queue": "q", "payload": {"note": MARKER}}));
    let rotated = server.post("/api/v1/secrets/rotate", &json!({}));
    assert!(rotated.body["encrypted_anew"].as_u64() >= Some(1), "the data keys: {rotated:?}");
    let dropped = server.post("/api/v1/secrets/rotate", &json!({"drop_old": true}));
    assert_eq!(dropped.body["dropped"], json!([1]), "{dropped:?}");
    server.kill_9();

    let key = data.path().join("secrets.key");
    let right = std::fs::read(&key).expect("the key file");
    std::fs::write(&key, "ab".repeat(32)).expect("another key");
    let refused = Server::try_start(&data, &[]).expect_err("it is another key");
    assert!(refused.said.contains("does not decrypt a data key of the stored jobs"), "{}", refused.said);
    std::fs::remove_file(&key).expect("it goes");
    let refused = Server::try_start(&data, ENCRYPTED).expect_err("there is no key");
    assert!(refused.said.contains("is missing") && refused.said.contains("--secret-key-file"), "{}", refused.said);
    std::fs::write(&key, right).expect("the key is back");
    let server = Server::start_on(&data, &[]);
    assert_eq!(server.job(&id)["payload"]["note"], MARKER);
}
