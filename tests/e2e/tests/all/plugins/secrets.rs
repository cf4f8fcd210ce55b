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
