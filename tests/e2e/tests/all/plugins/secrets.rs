//! Secrets reach only the plugins that are granted them.

use std::io::Write;
use std::process::Stdio;

use serde_json::json;
use windlass_e2e::{Data, Server, eventually, files_holding, plugin, windlass};

const SECRET: &str = "hunter2-5up3r-s3cr3t-t0k3n";
const MANIFEST: &str = "[capabilities]\nsecrets = [\"token\"]\nspawn = [\"children\"]";

fn server_with_secret(data: &Data) -> Server {
    let server = Server::start_on(data, &[]);
    server.upload_with("/api/v1/plugins/hostile", &plugin("hostile"), MANIFEST);
    let mut set = windlass();
    set.args(["secret", "set", "token"]).env("WINDLASS_URL", server.url("")).stdin(Stdio::piped());
    let mut child = set.spawn().expect("it runs");
    child.stdin.take().expect("a pipe").write_all(format!("{SECRET}\n").as_bytes()).expect("it reads");
    assert!(child.wait().expect("our own child").success());
    server
}

#[test]
fn a_secret_is_read_by_the_plugin_that_is_granted_it_and_shown_nowhere() {
    let data = Data::new();
    let server = server_with_secret(&data);
    let tell = json!({"queue": "hostile", "payload": {"try": "tell_secret", "name": "token"}, "max_attempts": 1});
    let denied = server.enqueue(&tell);
    let job = server.wait_for(&denied, "dead");
    let error = job["errors"][0]["error"].as_str().expect("an error");
    assert!(error.contains("windlass plugin grant hostile --secret token"), "{error}");

    let grant = json!({"secrets": ["token"]}).to_string();
    assert_eq!(server.put("/api/v1/plugins/hostile/grant", grant.as_bytes()).status, 200);
    let mut events = server.events("/api/v1/events?last_event_id=0");
    let told = server.enqueue(&tell);
    let job = server.wait_for(&told, "dead");
    assert!(
        job["errors"][0]["error"].as_str().is_some_and(|error| error.contains("in the error: [secret]")),
        "{job:#}"
    );
    let progress = events.find(|event| event.kind == "progress").expect("it reports").data.to_string();
    assert!(progress.contains("in progress: [secret]") && !progress.contains(SECRET), "{progress}");
    let logs = eventually("the log is stored", || {
        let logs = server.get(&format!("/api/v1/jobs/{told}/logs")).body.to_string();
        (logs.matches("[secret]").count() >= 3).then_some(logs)
    });
    let paths = ["/api/v1/secrets", "/api/v1/plugins", "/api/v1/plugins/hostile", "/metrics", "/api/v1/jobs"];
    let answers: Vec<String> = paths
        .iter()
        .map(|path| String::from_utf8_lossy(&server.download(path)).into_owned())
        .chain([job.to_string(), logs])
        .collect();
    for answer in &answers {
        assert!(!answer.contains(SECRET), "{answer}");
    }
    assert!(answers[0].contains("\"granted_to\":[\"hostile\"]"), "{}", answers[0]);

    let (_, said, data) = server.stop();
    assert!(!said.contains(SECRET), "the server's log");
    assert_eq!(files_holding(data.path(), SECRET.as_bytes()), Vec::<String>::new());

    // It survives a restart.
    let server = Server::start_on(&data, &[]);
    let id = server.enqueue(&json!({"queue": "hostile", "payload": {"try": "secret", "name": "token"}}));
    assert_eq!(server.wait_for(&id, "completed")["result"], "[secret]");
}

#[test]
fn only_its_guest_can_read_a_checkpoint_with_a_secret() {
    let data = Data::new();
    let server = server_with_secret(&data);
    let grant = json!({"secrets": ["token"], "spawn": ["children"]}).to_string();
    assert_eq!(server.put("/api/v1/plugins/hostile/grant", grant.as_bytes()).status, 200);
    let keep =
        json!({"queue": "hostile", "payload": {"try": "keep_secret", "name": "token"}, "retry_base_delay": "1s"});
    let id = server.enqueue(&keep);
    let saved = eventually("it has saved", || server.job(&id)["checkpoint"].as_object().cloned());
    let length = format!("\"kept: {SECRET}\"").len();
    assert_eq!(serde_json::Value::from(saved), json!({ "$encrypted": length }));
    let (_, _, data) = server.stop();
    assert_eq!(files_holding(data.path(), SECRET.as_bytes()), Vec::<String>::new());

    let server = Server::start_on(&data, &[]);
    let job = server.wait_for(&id, "completed");
    assert_eq!(job["result"], "as it was: true; kept: [secret]");

    // A child runs with the payload it was given, so that is refused instead.
    let spawn = json!({"queue": "hostile", "payload": {"try": "spawn_secret", "name": "token"}, "max_attempts": 1});
    let job = server.wait_for(&server.enqueue(&spawn), "dead");
    let error = job["errors"][0]["error"].as_str().expect("an error");
    assert!(error.contains("contains a secret") && !error.contains(SECRET), "{error}");
}

#[test]
fn without_the_right_key_the_server_does_not_start_and_the_error_says_why() {
    let data = Data::new();
    server_with_secret(&data).stop();
    let key = data.path().join("secrets.key");
    let right = std::fs::read_to_string(&key).expect("the key is there");

    std::fs::remove_file(&key).expect("it goes");
    let refused = Server::try_start(&data, &[]).expect_err("there is no key");
    assert!(refused.said.contains("secrets.key") && refused.said.contains("--secret-key-file"), "{}", refused.said);
    std::fs::write(&key, "ab".repeat(32)).expect("another key");
    let refused = Server::try_start(&data, &[]).expect_err("it is another key");
    assert!(refused.said.contains("does not decrypt the secret `token`"), "{}", refused.said);
    std::fs::write(&key, "not a key").expect("no key");
    let refused = Server::try_start(&data, &[]).expect_err("it is no key");
    assert!(refused.said.contains("64 characters"), "{}", refused.said);

    let elsewhere = tempfile::tempdir().expect("a folder");
    let moved = elsewhere.path().join("windlass.key");
    std::fs::write(&moved, right).expect("the key, elsewhere");
    let server = Server::start_on(&data, &["--secret-key-file", moved.to_str().expect("text")]);
    assert_eq!(server.get("/api/v1/secrets").body["secrets"][0]["name"], "token");
}

#[test]
fn secrets_are_set_again_and_removed_and_never_read() {
    let server = server_with_secret(&Data::new());
    assert_eq!(server.put("/api/v1/secrets/other", b"another one").status, 200);
    assert_eq!(server.get("/api/v1/secrets").body["secrets"].as_array().map(Vec::len), Some(2));
    assert_eq!(server.get("/api/v1/secrets/token").status, 405);
    for (name, value, status) in [("a%20b", "long enough", 400), ("short", "abc", 400), ("empty", "", 400)] {
        let answer = server.put(&format!("/api/v1/secrets/{name}"), value.as_bytes());
        assert_eq!(answer.status, status, "{name}: {answer:?}");
    }
    assert_eq!(server.put("/api/v1/secrets/bytes", b"\xff\xfe\xfd\xfc").status, 400);
    assert_eq!(server.delete("/api/v1/secrets/other").status, 200);
    assert_eq!(server.delete("/api/v1/secrets/other").status, 404);

    let grant = json!({"secrets": ["token"]}).to_string();
    server.put("/api/v1/plugins/hostile/grant", grant.as_bytes());
    let read = json!({"queue": "hostile", "payload": {"try": "secret", "name": "token"}, "max_attempts": 1});
    assert_eq!(server.put("/api/v1/secrets/token", b"the second value").status, 200);
    let id = server.enqueue(&read);
    assert_eq!(server.wait_for(&id, "completed")["result"], "[secret]");
    server.delete("/api/v1/secrets/token");
    let id = server.enqueue(&read);
    let job = server.wait_for(&id, "dead");
    assert!(job["errors"][0]["error"].as_str().is_some_and(|error| error.contains("not set")), "{job:#}");
}

/// The lines of the key file, which are the keys.
fn keys(data: &Data) -> Vec<String> {
    let text = std::fs::read_to_string(data.path().join("secrets.key")).expect("the key file");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn the_key_of_the_secrets_is_replaced_while_jobs_run_and_dropped_when_no_checkpoint_needs_it() {
    let data = Data::new();
    let server = server_with_secret(&data);
    let grant = json!({"secrets": ["token"]}).to_string();
    assert_eq!(server.put("/api/v1/plugins/hostile/grant", grant.as_bytes()).status, 200);
    let keep =
        json!({"queue": "hostile", "payload": {"try": "keep_secret", "name": "token"}, "retry_base_delay": "10m"});
    let id = server.enqueue(&keep);
    eventually("it has saved", || server.job(&id)["checkpoint"]["$encrypted"].as_u64());

    let rotated = server.post("/api/v1/secrets/rotate", &json!({}));
    assert_eq!((rotated.status, &rotated.body["current"]), (200, &json!(2)), "{rotated:?}");
    assert_eq!(rotated.body["encrypted_anew"], 1);
    assert_eq!(keys(&data).len(), 2);
    server.kill_9();
    let server = Server::start_on(&data, &[]);
    assert_eq!(server.post(&format!("/api/v1/jobs/{id}/run-now"), &json!({})).status, 200);
    let job = server.wait_for(&id, "completed");
    assert_eq!(job["result"], "as it was: true; kept: [secret]", "with the key before");

    assert_eq!(server.delete(&format!("/api/v1/jobs/{id}")).status, 200);
    let mut drop_old = windlass();
    server.tell(&mut drop_old).args(["secret", "rotate", "--drop-old"]).stdout(Stdio::piped());
    let out = drop_old.output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&out.stdout), "key 2 encrypts; 0 encrypted anew\nkey 1 dropped\n");
    let left = keys(&data);
    assert!(left.len() == 1 && left[0].starts_with("2:"), "{} keys", left.len());
    let read = json!({"queue": "hostile", "payload": {"try": "secret", "name": "token"}, "max_attempts": 1});
    assert_eq!(server.wait_for(&server.enqueue(&read), "completed")["result"], "[secret]");

    let log = server.get("/api/v1/audit-logs?action=secret.rotate").body;
    let steps = log["entries"].as_array().expect("entries").iter().filter_map(|entry| entry["target"].as_str());
    assert_eq!(steps.collect::<Vec<_>>(), ["key 2 added", "1 encrypted anew with key 2", "key 1 dropped"]);
}

#[test]
fn a_server_that_is_killed_while_it_replaces_keys_reads_every_secret_afterwards() {
    let data = Data::new();
    let mut server = server_with_secret(&data);
    let grant = json!({"secrets": ["token"]}).to_string();
    assert_eq!(server.put("/api/v1/plugins/hostile/grant", grant.as_bytes()).status, 200);
    for round in 0..3 {
        let before = keys(&data).len();
        let mut rotate = windlass();
        let mut rotating = server.tell(&mut rotate).args(["secret", "rotate"]).spawn().expect("it runs");
        eventually("a key is added", || (keys(&data).len() > before).then_some(()));
        server.kill_9();
        // It may have been told that it is done, or that the server is gone.
        rotating.wait().expect("our own child");
        server = Server::start_on(&data, &[]);
        let read = json!({"queue": "hostile", "payload": {"try": "secret", "name": "token"}, "max_attempts": 1});
        assert_eq!(server.wait_for(&server.enqueue(&read), "completed")["result"], "[secret]", "round {round}");
    }
    let dropped = server.post("/api/v1/secrets/rotate", &json!({"drop_old": true}));
    assert_eq!(dropped.body["kept"], json!([]), "{dropped:?}");
    assert_eq!(keys(&data).len(), 1);
}
