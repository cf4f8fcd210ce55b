//! A plugin whose component is damaged on disk: its jobs wait without counting failures, until the same bytes are
//! uploaded again.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use windlass_e2e::{Data, Server, eventually, plugin, windlass};

fn blob_of(server: &Server, name: &str) -> PathBuf {
    let version = server.get(&format!("/api/v1/plugins/{name}")).body["active"].clone();
    server.data().path().join("blobs").join(version.as_str().expect("a digest"))
}

/// Flips a bit in the middle.
fn damage(file: &PathBuf) {
    let mut bytes = fs::read(file).expect("it is there");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(file, bytes).expect("it can be written");
}

/// Damages the component of `digest` while the server is stopped, and removes its compiled code.
fn restarted_with_damage(server: Server) -> Server {
    let blob = blob_of(&server, "digest");
    let (_, _, data) = server.stop();
    damage(&blob);
    Server::start_on(&data, &[])
}

fn hello(server: &Server, queue: &str) -> String {
    server.enqueue(&json!({"queue": queue, "payload": {"text": "hello"}, "max_attempts": 1}))
}

fn command(server: &Server, words: &[&str]) -> String {
    let output =
        windlass().args(words).env("WINDLASS_URL", server.url("")).stdout(std::process::Stdio::piped()).output();
    let output = output.expect("it runs");
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn jobs_of_a_plugin_whose_component_is_damaged_wait_and_uploading_the_same_bytes_repairs_it() {
    let server = Server::start();
    server.upload("digest", "digest");
    server.upload("hostile", "hostile");
    let server = restarted_with_damage(server);
    let waiting: Vec<String> = (0..3).map(|_| hello(&server, "digest")).collect();
    // A job of another plugin comes after them, and completes.
    let neighbour = server.enqueue(&json!({"queue": "hostile", "payload": {"try": "clock"}}));
    server.wait_for(&neighbour, "completed");
    for id in &waiting {
        let job = server.job(id);
        assert_eq!((&job["state"], &job["attempt"]), (&json!("pending"), &json!(0)), "{:#}", job["timeline"]);
    }

    let shown = server.get("/api/v1/plugins/digest").body;
    assert_eq!(shown["ready"], false);
    let problem = shown["problem"].as_str().expect("a reason");
    assert!(problem.contains("damaged") && problem.contains("windlass plugin push digest"), "{problem}");
    assert_eq!(shown["versions"][0]["problem"], shown["problem"]);
    let ready: Vec<Value> = server.get("/api/v1/plugins").body["plugins"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|plugin| plugin["ready"].clone())
        .collect();
    assert_eq!(ready, [json!(false), json!(true)]);
    for words in [vec!["plugin", "list"], vec!["plugin", "show", "digest"], vec!["status"]] {
        let said = command(&server, &words);
        assert!(said.contains("is damaged"), "{words:?}: {said}");
    }
    let status: Value = serde_json::from_str(&command(&server, &["status", "--output", "json"])).expect("JSON");
    assert_eq!(status["plugins_not_ready"][0]["plugin"], "digest", "{status:#}");
    let metrics = String::from_utf8(server.download("/metrics")).expect("text");
    assert!(metrics.contains("windlass_plugin_ready{plugin=\"digest\"} 0"), "{metrics}");
    let refused = server.post("/api/v1/plugins/digest/activate", &json!({"version": shown["active"]}));
    assert_eq!((refused.status, &refused.body["code"]), (422, &json!("COMPONENT_DAMAGED")), "{refused:?}");

    let answer = server.put("/api/v1/plugins/digest", &plugin("digest"));
    assert_eq!((answer.status, &answer.body["ready"], &answer.body["problem"]), (200, &json!(true), &Value::Null));
    for id in &waiting {
        let job = server.wait_for(id, "completed");
        assert_eq!((&job["failures"], &job["attempt"]), (&json!(0), &json!(1)), "{:#}", job["timeline"]);
    }
    // And the file that was written is intact.
    let (_, _, data) = server.stop();
    let server = Server::start_on(&data, &[]);
    assert_eq!(server.get("/api/v1/plugins/digest").body["ready"], true);
    server.wait_for(&hello(&server, "digest"), "completed");
}

#[test]
fn a_component_that_is_restored_on_disk_is_used_without_a_restart() {
    let server = Server::start();
    server.upload("digest", "digest");
    let server = restarted_with_damage(server);
    let id = hello(&server, "digest");
    let blob = blob_of(&server, "digest");
    assert_eq!(server.get("/api/v1/plugins/digest").body["ready"], false);
    damage(&blob);
    eventually("it is looked at again", || (server.get("/api/v1/plugins/digest").body["ready"] == true).then_some(()));
    assert_eq!(server.wait_for(&id, "completed")["failures"], 0);
}

#[test]
fn a_damaged_version_cannot_be_activated_and_the_active_one_stays() {
    let data = Data::new();
    let server = Server::start_on(&data, &[]);
    server.upload("digest", "digest");
    // Stored and not active, so it is not read before it is activated.
    let other = windlass_e2e::variant(&plugin("digest"), 1);
    let answer = server.put("/api/v1/plugins/digest?activate=false", &other);
    let version = answer.body["version"].as_str().expect("a digest").to_owned();
    damage(&data.path().join("blobs").join(&version));
    let refused = server.post("/api/v1/plugins/digest/activate", &json!({"version": version}));
    assert_eq!((refused.status, &refused.body["code"]), (422, &json!("COMPONENT_DAMAGED")), "{refused:?}");
    let shown = server.get("/api/v1/plugins/digest").body;
    assert_eq!(shown["ready"], true, "the active one is not touched by it");
    assert!(shown["versions"][1]["problem"].is_string(), "{:#}", shown["versions"]);
    server.wait_for(&hello(&server, "digest"), "completed");
}

#[test]
fn a_damaged_canary_is_rolled_back_and_no_job_counts_a_failure() {
    let server = Server::start();
    server.upload("digest", "digest");
    let other = windlass_e2e::variant(&plugin("digest"), 1);
    let answer = server.put("/api/v1/plugins/digest?activate=false", &other);
    let version = answer.body["version"].as_str().expect("a digest").to_owned();
    let trial = json!({"version": version, "share": 100, "max_failure_rate": 0.0, "min_attempts": 1});
    assert_eq!(server.post("/api/v1/plugins/digest/canary", &trial).status, 200);
    let (_, _, data) = server.stop();
    damage(&data.path().join("blobs").join(&version));
    let server = Server::start_on(&data, &[]);
    assert_eq!(server.get("/api/v1/plugins/digest").body["ready"], true);
    let job = server.wait_for(&hello(&server, "digest"), "completed");
    assert_eq!((&job["failures"], &job["attempt"]), (&json!(0), &json!(2)), "{:#}", job["timeline"]);
    assert_eq!(server.get("/api/v1/plugins/digest").body["canary"], Value::Null, "taken back");
}
