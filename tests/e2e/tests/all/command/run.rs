//! `windlass run`: one job on a component, without a server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};
use windlass_e2e::{eventually, plugin, windlass};

/// A folder with a component in it, and its own cache.
struct Desk(tempfile::TempDir);

impl Desk {
    fn with(name: &str) -> Desk {
        let desk = Desk(tempfile::tempdir().expect("a folder"));
        std::fs::write(desk.component(), plugin(name)).expect("a file");
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn component(&self) -> PathBuf {
        self.path("plugin.wasm")
    }

    fn command(&self, payload: &Value, arguments: &[&str]) -> Command {
        let mut command = windlass();
        command.env("XDG_CACHE_HOME", shared_cache()).arg("run").arg(self.component());
        command.args(["--payload", &payload.to_string()]).args(arguments).stdout(Stdio::piped());
        command
    }

    fn run(&self, payload: &Value, arguments: &[&str]) -> Output {
        self.command(payload, arguments).output().expect("the command runs")
    }

    /// The status, and what `--output json` prints.
    fn told(&self, payload: &Value, arguments: &[&str]) -> (Option<i32>, Value) {
        let output = self.run(payload, &[arguments, &["--output", "json"]].concat());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let said = String::from_utf8_lossy(&output.stderr);
        (output.status.code(), serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text} {said}: {error}")))
    }
}

/// One for all tests, so that each component is compiled once.
fn shared_cache() -> &'static Path {
    static CACHE: std::sync::LazyLock<tempfile::TempDir> =
        std::sync::LazyLock::new(|| tempfile::tempdir().expect("a folder"));
    CACHE.path()
}

#[test]
fn a_job_runs_without_a_server_and_ends_as_the_job_does() {
    let desk = Desk::with("digest");
    let output = desk.run(&json!({"text": "hello"}), &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: Value = serde_json::from_slice(&output.stdout).expect("the result, and nothing else");
    assert_eq!(result["bytes"], 5);
    assert!(String::from_utf8_lossy(&output.stderr).contains("completed: "));

    let (code, told) = desk.told(&json!({"text": "hello"}), &[]);
    assert_eq!((code, &told["state"], &told["result"]), (Some(0), &json!("completed"), &result));
    assert!(
        told["usage"]["peak_memory"].as_u64() > Some(0) && told["usage"]["host_calls"].as_u64() > Some(0),
        "{told}"
    );

    let (code, told) = desk.told(&json!({"nonsense": 1}), &[]);
    assert_eq!((code, &told["state"]), (Some(1), &json!("dead")), "{told}");
    let missing = windlass().args(["run", "/nowhere/plugin.wasm"]).output().expect("the command runs");
    assert!(String::from_utf8_lossy(&missing.stderr).contains("cannot read the component"), "{missing:?}");
}

#[test]
fn a_flag_grants_a_capability_and_the_error_names_those_that_are_missing() {
    let desk = Desk::with("hostile");
    std::fs::create_dir(desk.path("here")).expect("a folder");
    std::fs::write(desk.path("here/file.txt"), "inside").expect("a file");
    let read = json!({"try": "read", "path": "/data/file.txt"});
    let (code, told) = desk.told(&read, &["--read", &format!("/data={}", desk.path("here").display())]);
    assert_eq!((code, &told["result"]), (Some(0), &json!("inside")), "{told}");

    std::fs::write(desk.path("windlass.toml"), "[capabilities]\nread = [\"/data\"]\n").expect("a file");
    let (code, told) = desk.told(&read, &[]);
    assert_eq!(code, Some(1));
    let error = told["error"].as_str().unwrap_or_default();
    assert!(error.contains("to allow it: windlass run --read /data="), "{error}");

    let tz = json!({"try": "environment", "name": "TZ"});
    assert_eq!(desk.told(&tz, &["--env", "TZ=UTC"]).1["result"], "UTC");
    assert_eq!(desk.told(&tz, &[]).0, Some(1));
    let config = json!({"try": "config", "name": "region"});
    assert_eq!(desk.told(&config, &["--config", "region=eu"]).1["result"], "eu");
}

#[test]
fn a_job_that_waits_for_its_children_shows_what_a_server_would_run() {
    let desk = Desk::with("hostile");
    let payload = json!({"try": "wait", "children": 2, "then": "wait"});
    let (code, told) = desk.told(&payload, &[]);
    let error = told["error"].as_str().expect("an error");
    assert!(code == Some(1) && error.contains("windlass run --spawn more"), "not into any queue: {told}");
    let (code, told) = desk.told(&payload, &["--spawn", "more", "--state", &desk.path("state").to_string_lossy()]);
    assert_eq!((code, &told["state"], &told["waits_for"]["count"]), (Some(0), &json!("blocked"), &json!(2)), "{told}");
    assert_eq!(told["children"], json!([{"queue": "more", "payload": 0}, {"queue": "more", "payload": 1}]));
    assert_eq!(told["checkpoint"]["bytes"], 7, "the next run would go on from here: {told}");
    let said = String::from_utf8_lossy(&desk.run(&payload, &["--spawn", "more"]).stderr).into_owned();
    assert!(said.contains("it waits here until its 2 children have ended"), "{said}");
    assert!(said.contains("it starts a job in `more`: 1"), "{said}");
}

#[test]
fn records_last_for_the_run_and_are_shown() {
    let desk = Desk::with("hostile");
    for then in ["save", "complete"] {
        let payload = json!({"try": "record", "key": "a/b", "queue": "walk", "then": then});
        let (code, told) = desk.told(&payload, &["--queue", "walk"]);
        assert_eq!((code, &told["result"]), (Some(0), &json!("no round: , ")), "{told}");
        assert_eq!(told["records"], json!([{"key": "a/b", "value": "ours", "mark": "seen"}]), "{then}: {told}");
    }
    let payload = json!({"try": "record", "key": "a/b", "queue": "elsewhere", "then": "complete"});
    let (code, told) = desk.told(&payload, &["--queue", "walk"]);
    assert_eq!((code, &told["records"]), (Some(1), &json!([])), "{told}");
    assert!(told["error"].as_str().is_some_and(|error| error.contains("the queue `elsewhere`")), "{told}");
}

#[test]
fn a_secret_reaches_the_handler_and_is_shown_nowhere() {
    let desk = Desk::with("hostile");
    let (tell, give) = (json!({"try": "tell_secret", "name": "token"}), json!({"try": "secret", "name": "token"}));
    for flags in [["--secret", "token=correct-horse"], ["--secret", "token"]] {
        for payload in [&tell, &give] {
            for json in [&[][..], &["--output", "json"]] {
                let mut command = desk.command(payload, &[&flags, json].concat());
                let output = command.env("token", "correct-horse").output().expect("the command runs");
                let said =
                    [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
                assert!(!said.contains("correct-horse") && said.contains("[secret]"), "{said}");
            }
        }
    }
}

#[test]
fn an_http_request_needs_a_flag_that_allows_its_host() {
    let desk = Desk::with("hostile-http");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = BufReader::new(&stream).lines().map_while(Result::ok);
            while head.next().is_some_and(|line| !line.is_empty()) {}
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello");
        }
    });
    let get = json!({"try": "get", "url": format!("http://{address}/")});
    let (code, told) = desk.told(&get, &["--allow-private-http", &address]);
    assert_eq!((code, &told["result"]), (Some(0), &json!("200 hello")), "{told}");
    for flags in [&[][..], &["--allow-http", &address]] {
        let (code, told) = desk.told(&get, flags);
        assert_eq!(code, Some(1));
        assert!(told["error"].as_str().unwrap_or_default().contains("http "), "{told}");
    }
}

fn interrupt(child: &Child) {
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
    assert!(sent.success());
}

/// Waits for a text on standard error.
fn says(child: &mut Child, word: &str) {
    let stderr = child.stderr.as_mut().expect("a pipe");
    let mut said = String::new();
    let mut byte = [0];
    while !said.contains(word) {
        assert!(stderr.read(&mut byte).expect("reads") > 0, "it ended: {said}");
        said.push(byte[0] as char);
    }
}

#[test]
fn a_run_that_is_interrupted_continues_from_its_checkpoint() {
    let desk = Desk::with("digest");
    let state = desk.path("state.json");
    let long = json!({"generate_mb": 64, "step_kb": 64, "pause_ms": 5});
    let flags = ["--state", state.to_str().expect("text"), "--output", "json"];
    let child = desk.command(&long, &flags).spawn().expect("the command runs");
    eventually("a checkpoint is in the file", || state.is_file().then_some(()));
    interrupt(&child);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&told["state"], &told["cooperative"]), (&json!("cancelled"), &json!(true)));

    let (code, told) = desk.told(&json!({"generate_mb": 64, "step_kb": 64}), &flags[..2]);
    assert_eq!(code, Some(0), "{told}");
    let attempts = told["result"]["attempts"].as_array().expect("who ran what");
    assert_eq!((attempts[0]["attempt"].as_u64(), attempts[1]["attempt"].as_u64()), (Some(1), Some(2)), "{told}");
    assert!(!state.exists(), "nothing is left to go on from");
}

#[test]
fn a_guest_that_ignores_the_request_is_stopped_by_force() {
    let desk = Desk::with("hostile");
    let mut child = desk.command(&json!({"try": "flood", "ms": 600_000}), &[]).spawn().expect("the command runs");
    says(&mut child, "a line, and not the last one");
    interrupt(&child);
    says(&mut child, "asked to stop");
    interrupt(&child);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cancelled: "));
}

#[test]
fn nothing_that_a_guest_writes_is_obeyed_by_the_terminal() {
    let desk = Desk::with("hostile");
    let said = |payload: &Value| {
        let output = desk.run(payload, &[]);
        let said = [output.stdout, output.stderr].concat();
        assert!(!said.contains(&0x1b) && !said.contains(&0x07), "{}", String::from_utf8_lossy(&said));
        String::from_utf8(said).expect("text")
    };
    let failed = said(&json!({"try": "\u{1b}[2Jgone\u{7}"}));
    assert!(failed.contains(r"error: ") && failed.contains(r"\x1b[2Jgone"), "{failed}");
    let key = "\u{1b}]0;title\u{7}";
    let noted = said(&json!({"try": "record", "key": key, "queue": "plugin", "then": "complete"}));
    assert!(noted.contains(r"\x1b]0;title"), "{noted}");
}
