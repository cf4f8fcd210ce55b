//! Starting, stopping, and refusing to start.

use std::fs::Permissions;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::json;
use windlass_e2e::{Data, Server, eventually, windlass};

#[track_caller]
fn refused(started: Result<Server, windlass_e2e::Refused>, because: &str) {
    let Err(refused) = started else { panic!("the server should not have started") };
    assert_eq!(refused.status.code(), Some(1), "{refused:#?}");
    assert!(refused.said.contains(because), "{refused:#?}");
    let panicked = refused.said.contains("panicked") || refused.said.contains("backtrace");
    assert!(!panicked, "people get no stack trace: {refused:#?}");
}

#[test]
fn a_second_server_on_the_same_folder_refuses_to_start_and_the_first_continues() {
    let first = Server::start();
    refused(Server::try_start(first.data(), &[]), "is in use by another windlass process");
    assert_eq!(first.get("/healthz").body, json!({"status": "ok"}));
}

/// Every file and folder below that is accessible to users other than its owner.
fn open_to_others(path: &Path, found: &mut Vec<String>) {
    let mode = std::fs::symlink_metadata(path).expect("it is there").permissions().mode();
    if mode & 0o077 != 0 {
        found.push(format!("{} {:o}", path.display(), mode & 0o777));
    }
    if path.is_dir() {
        std::fs::read_dir(path).expect("lists").flatten().for_each(|entry| open_to_others(&entry.path(), found));
    }
}

#[test]
fn a_data_folder_is_accessible_only_to_its_owner_even_if_it_was_open_before() {
    let data = Data::new();
    std::fs::set_permissions(data.path(), Permissions::from_mode(0o755)).expect("opens it");
    let server = Server::start_on(&data, &[]);
    server.upload("digest", "digest");
    let text = "x".repeat(200_000);
    let job = server.enqueue(&json!({"queue": "digest", "payload": {"text": text}}));
    server.wait_for(&job, "completed");
    let mut open = Vec::new();
    open_to_others(data.path(), &mut open);
    assert_eq!(open, Vec::<String>::new());
}

#[test]
fn a_data_folder_of_another_user_is_refused_with_what_to_do() {
    let data = Data::new();
    if std::os::unix::fs::chown(data.path(), Some(12_345), None).is_err() {
        println!("skipped: only root may give a folder away");
        return;
    }
    refused(Server::try_start(&data, &[]), "belongs to user 12345");
    refused(Server::try_start(&data, &[]), "chown -R");
    assert_eq!(std::fs::read_dir(data.path()).expect("lists").count(), 0, "it wrote into it");
}

#[test]
fn a_port_that_is_taken_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("an address").to_string();
    let mut command = windlass();
    let data = Data::new();
    command.args(["serve", "--listen", &address, "--data"]).arg(data.path());
    refused(Server::spawn(command, &data), &address);
}

#[test]
fn a_restart_keeps_plugins_and_jobs() {
    let server = Server::start();
    server.upload("digest", "digest");
    let before = server.enqueue(&json!({"queue": "digest", "payload": {"text": "before"}}));
    let result = server.wait_for(&before, "completed")["result"].clone();
    let (status, _, data) = server.stop();
    assert!(status.success(), "{status}");

    let server = Server::start_on(&data, &[]);
    assert!(server.said().contains("plugin digest"), "the start tells which plugins are loaded: {}", server.said());
    assert_eq!(server.job(&before)["result"], result);
    let after = server.enqueue(&json!({"queue": "digest", "payload": {"text": "after"}}));
    server.wait_for(&after, "completed");
}

#[test]
fn a_running_job_is_handed_back_when_the_server_stops_and_counts_no_failure() {
    let server = Server::start();
    server.upload("digest", "digest");
    let id = server.enqueue(&json!({"queue": "digest", "payload": {"generate_mb": 30, "pause_ms": 50}}));
    eventually("it has saved a step", || server.job(&id)["checkpoint"].is_object().then_some(()));
    let (status, said, data) = server.stop();
    assert!(status.success() && said.contains("stopped"), "{status}: {said}");

    let server = Server::start_on(&data, &[]);
    let job = server.wait_for(&id, "completed");
    assert_eq!((&job["attempt"], &job["failures"], &job["crashes"]), (&json!(2), &json!(0), &json!(0)));
    assert_eq!(job["errors"], json!([]));
    assert_eq!(job["result"]["attempts"].as_array().map(Vec::len), Some(2), "{:#}", job["result"]);
    let back = job["timeline"].as_array().and_then(|steps| steps.get(2)).cloned().expect("the move back in line");
    assert_eq!((&back["state"], &back["attempt"], &back["plugin"]), (&json!("pending"), &json!(1), &json!("digest")));
    assert!(
        back["wall_ms"].as_u64() > Some(0) && back["host_calls"].as_u64() > Some(0),
        "what it took is told: {back:#}"
    );
}

#[test]
fn a_config_file_is_read_and_an_unknown_key_in_it_is_named() {
    let data = Data::new();
    let file = data.path().join("windlass.toml");
    let flags = ["--config", file.to_str().expect("a readable path")];
    std::fs::write(&file, "max_body = \"1KiB\"\n").expect("a file");
    let server = Server::start_on(&data, &flags);
    let answer = server.post("/api/v1/enqueue", &json!({"queue": "q", "payload": "x".repeat(2_000)}));
    assert_eq!(answer.status, 413, "{answer:?}");
    drop(server);

    std::fs::write(&file, "max_bodi = \"1KiB\"\n").expect("a file");
    refused(Server::try_start(&data, &flags), "max_bodi");
}

#[test]
fn a_variable_overrides_the_file_and_a_flag_overrides_the_variable() {
    let data = Data::new();
    let file = data.path().join("windlass.toml");
    std::fs::write(&file, "listen = \"127.0.0.1:1\"\nmax_body = 1\n").expect("a file");
    let mut command = windlass();
    command.arg("serve").args(["--listen", "127.0.0.1:0"]);
    command.env("WINDLASS_CONFIG", &file).env("WINDLASS_DATA", data.path());
    command.env("WINDLASS_LISTEN", "127.0.0.1:2").env("WINDLASS_MAX_BODY", "1MiB");
    let server = Server::spawn(command, &data).unwrap_or_else(|refused| panic!("{refused:#?}"));
    assert_eq!(server.post("/api/v1/enqueue", &json!({"queue": "q"})).status, 201);
}

/// A name without a dot is looked up in the file that `HOSTALIASES` names. A pipe without a writer makes that wait for
/// ever.
#[test]
fn a_stop_does_not_wait_for_pending_name_lookups() {
    use std::os::unix::fs::OpenOptionsExt;
    const NONBLOCK: i32 = 0o4000;
    let data = Data::new();
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("aliases");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("there is a mkfifo").success());
    let mut command = windlass();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data.path()).env("HOSTALIASES", &pipe);
    let server = Server::spawn(command, &data).unwrap_or_else(|refused| panic!("{refused:#?}"));
    for _ in 0..5 {
        let made = server.post("/api/v1/webhook-endpoints", &json!({"url": "http://nowhere/"}));
        assert_eq!(made.status, 201, "{made:?}");
    }
    server.enqueue(&json!({"queue": "q"}));
    // It can be opened for writing once there is a reader, and while it is open, the reader waits for a line.
    let held = eventually("a name is being looked up", || {
        std::fs::OpenOptions::new().write(true).custom_flags(NONBLOCK).open(&pipe).ok()
    });
    let (status, said, _) = server.stop();
    drop(held);
    assert!(status.success() && said.contains("stopped"), "{status}: {said}");
}
