//! The `windlass` command, as somebody at a terminal uses it.

use std::process::{Output, Stdio};

use serde_json::{Value, json};
use windlass_e2e::{Data, Server, address_of_its_own, eventually, windlass};

fn run(server: &Server, arguments: &[&str]) -> Output {
    let mut command = windlass();
    command.env("WINDLASS_URL", server.url("")).args(arguments).stdout(Stdio::piped());
    command.output().expect("the command runs")
}

/// What a command that should go well prints.
#[track_caller]
fn ok(server: &Server, arguments: &[&str]) -> String {
    let output = run(server, arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {} {said}", output.status);
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

#[track_caller]
fn ok_json(server: &Server, arguments: &[&str]) -> Value {
    let text = ok(server, &[arguments, &["--output", "json"]].concat());
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{arguments:?}: {text}: {error}"))
}

/// The status and the error of a command that should not.
#[track_caller]
fn fails(server: &Server, arguments: &[&str]) -> (Option<i32>, String) {
    let output = run(server, arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{arguments:?}");
    assert!(!said.contains("panicked") && !said.contains("backtrace"), "{said}");
    (output.status.code(), said)
}

#[test]
fn a_job_goes_through_its_life_from_the_command_line() {
    let server = Server::start();
    let plugin = std::env::var("WINDLASS_PLUGINS").unwrap_or_else(|_| "../../target/plugins".to_owned());
    let pushed = ok(&server, &["plugin", "push", "digest", &format!("{plugin}/digest.wasm"), "--queues", "digest"]);
    assert!(pushed.contains("serves digest"), "{pushed}");
    assert!(ok(&server, &["plugin", "list"]).contains("digest"));
    let version = ok_json(&server, &["plugin", "show", "digest"])["active"].as_str().expect("a digest").to_owned();
    assert!(ok(&server, &["plugin", "activate", "digest", &version[..8]]).contains(&version));
    assert!(fails(&server, &["plugin", "rollback", "digest"]).1.contains("no version from before"));

    let flags =
        ["enqueue", "digest", r#"{"text": "hello"}"#, "--priority", "high", "--tag", "team=a", "--scope", "user:1"];
    let id = ok(&server, &flags);
    let waited = ok_json(&server, &["job", "wait", &id]);
    assert_eq!(
        (&waited["state"], &waited["priority"], &waited["tags"]),
        (&json!("completed"), &json!("high"), &json!({"team": "a"}))
    );
    assert!(ok(&server, &["job", "get", &id]).contains("completed"));
    assert!(ok(&server, &["job", "list", "--queue", "digest"]).contains(&id));
    assert_eq!(ok(&server, &["job", "retry", &id]), "retried");
    assert!(ok(&server, &["job", "watch", &id]).contains("2cf24dba"), "the result is printed");
    assert_eq!(ok(&server, &["job", "delete", &id]), "deleted");
    assert_eq!(ok(&server, &["plugin", "delete", "digest"]), "deleted");
    let (status, said) = fails(&server, &["job", "get", &id]);
    assert!(status == Some(1) && said.contains("there is no job"), "{said}");
}

#[test]
fn watching_ends_as_the_job_does() {
    let server = Server::start();
    server.upload("digest", "digest");
    let watched = run(&server, &["enqueue", "digest", r#"{"text": "hello"}"#, "--watch"]);
    assert_eq!(watched.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&watched.stderr).contains("step 1 of 1"), "{watched:?}");
    let (status, said) = fails(&server, &["enqueue", "digest", "\"not an object\"", "--max-attempts", "1", "--watch"]);
    assert!(status == Some(1) && said.contains("dead"), "{said}");

    let held = ok(&server, &["enqueue", "digest", "{}", "--hold", "look first"]);
    assert_eq!(fails(&server, &["job", "wait", &held, "--timeout", "0"]).0, Some(4), "it has not ended");
    assert_eq!(ok(&server, &["job", "cancel", &held, "--reason", "no"]), "cancelled");
    assert_eq!(fails(&server, &["job", "watch", &held]).0, Some(3));
    let lines = run(&server, &["job", "watch", &held, "--output", "json"]).stdout;
    let first = String::from_utf8_lossy(&lines).lines().next().map(str::to_owned).expect("a line");
    assert_eq!(serde_json::from_str::<Value>(&first).expect("JSON")["type"], "enqueued");
}

#[test]
fn a_log_is_printed_and_followed_to_the_end() {
    let server = Server::start();
    server.upload("digest", "digest");
    let id = ok(&server, &["enqueue", "digest", r#"{"generate_mb": 3, "pause_ms": 50}"#]);
    let followed = ok(&server, &["job", "logs", "-f", &id]);
    assert_eq!(server.job(&id)["state"], "completed");
    assert_eq!(ok(&server, &["job", "logs", &id]), followed);
}

#[test]
fn people_can_steer_a_job() {
    let server = Server::start();
    let id = ok(&server, &["enqueue", "q", "[1]"]);
    assert_eq!(ok(&server, &["job", "hold", &id, "--reason", "wait"]), "held");
    assert_eq!(ok(&server, &["job", "approve", &id]), "pending");
    assert_eq!(ok(&server, &["job", "move", &id, "other/queue"]), "moved");
    assert_eq!(ok(&server, &["job", "hold", &id]), "held");
    assert_eq!(ok(&server, &["job", "reject", &id]), "dead");
    assert_eq!(ok(&server, &["job", "requeue", &id]), "requeued");
    let (_, said) = fails(&server, &["job", "approve", &id]);
    assert!(said.contains("only held jobs"), "{said}");
    assert!(ok(&server, &["queue", "list"]).contains("other/queue"));
    let (_, said) = fails(&server, &["queue", "clear", "other/queue"]);
    assert!(said.contains("--confirm"), "{said}");
    assert_eq!(server.get(&format!("/api/v1/jobs/{id}")).body["state"], "pending", "it is still there");
    assert_eq!(ok(&server, &["queue", "clear", "other/queue", "--confirm"]), "cleared");
}

#[test]
fn queues_and_schedules_are_operated() {
    let server = Server::start();
    let set = ok_json(
        &server,
        &["queue", "set", "q", "--concurrency", "3", "--rate", "100/1m", "--retention", r#"{"dead": {"age": "1d"}}"#],
    );
    assert_eq!(
        (&set["max_concurrency"], &set["rate"], &set["retention"]["dead"]["age"]),
        (&json!(3), &json!({"count": 100, "per": "1m"}), &json!("1d"))
    );
    assert_eq!(ok_json(&server, &["queue", "set", "q", "--concurrency", "none"])["max_concurrency"], Value::Null);
    assert_eq!(ok(&server, &["queue", "pause", "q"]), "paused");
    assert_eq!(ok_json(&server, &["queue", "show", "q"])["paused"], true);
    assert_eq!(ok(&server, &["queue", "resume", "q"]), "resumed");
    assert!(fails(&server, &["queue", "destroy", "q"]).1.contains("--confirm"));
    assert_eq!(ok(&server, &["queue", "destroy", "q", "--confirm"]), "deleted");

    assert!(
        ok(&server, &["schedule", "add", "nightly", "30 2 * * *", "reports", "{}", "--timezone", "Europe/Berlin"])
            .contains("next run")
    );
    assert!(ok(&server, &["schedule", "list"]).contains("Europe/Berlin"));
    assert_eq!(ok(&server, &["schedule", "next", "nightly", "--count", "3"]).lines().count(), 3);
    assert_eq!(ok(&server, &["schedule", "pause", "nightly"]), "paused");
    let job = ok(&server, &["schedule", "run", "nightly"]);
    assert_eq!(server.job(&job)["schedule"], "nightly");
    assert_eq!(ok(&server, &["schedule", "resume", "nightly"]), "resumed");
    assert_eq!(ok(&server, &["schedule", "remove", "nightly"]), "deleted");
    assert!(fails(&server, &["schedule", "add", "bad", "soon", "q"]).1.contains("five fields"));
    ok(&server, &["schedule", "add", "hourly", "0 * * * *", "q", "--max-attempts", "2", "--unique-key", "k"]);
    let (_, said) = fails(&server, &["schedule", "add", "hourly", "30 * * * *", "q"]);
    assert!(said.contains("--replace"), "{said}");
    let changed = ok_json(&server, &["schedule", "add", "hourly", "30 * * * *", "q", "--replace"]);
    assert_eq!(
        (&changed["cron"], &changed["max_attempts"], &changed["unique_key"]),
        (&json!("30 * * * *"), &json!(2), &json!("k"))
    );
    let shown = ok(&server, &["queue", "show", "reports"]);
    assert!(shown.starts_with("queue") && shown.contains("\npending "), "{shown}");
}

#[test]
fn every_command_is_there_explains_itself_and_speaks_json() {
    let verbs = [
        ("plugin", "new build push list show activate rollback canary manifest grant revoke delete"),
        ("job", "get list watch wait cancel retry requeue move hold approve reject logs delete"),
        ("queue", "list show pause resume drain clear set destroy"),
        ("schedule", "add list get pause resume run remove next"),
        ("worker", "list drain resume"),
        ("webhook", "add list edit rotate deliveries test redeliver remove inbound"),
        ("webhook inbound", "set list remove"),
        ("secret", "set list remove"),
        ("batch", "create seal show"),
        ("flow", "show"),
        ("", "run enqueue search bulk status top doctor dev"),
    ];
    for (command, words) in verbs {
        for verb in words.split(' ') {
            let arguments: Vec<&str> = command.split(' ').chain([verb]).filter(|word| !word.is_empty()).collect();
            let output = windlass().args(&arguments).arg("--help").stdout(Stdio::piped()).output().expect("it runs");
            let help = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && help.contains("--output"), "{arguments:?}: {help}");
            assert!(!help.starts_with("Usage"), "{arguments:?} does not say what it does: {help}");
        }
    }
    for words in ["serve", "completion"] {
        assert!(windlass().args([words, "--help"]).status().expect("it runs").success(), "{words}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let new = ["plugin", "new", "count", "--lang", "c", "--output", "json"];
    let made = windlass().args(new).current_dir(folder.path()).stdout(Stdio::piped()).output().expect("it runs");
    let made: Value = serde_json::from_slice(&made.stdout).expect("JSON");
    assert_eq!((&made["name"], &made["folder"]), (&json!("count"), &json!("count")));
}

#[test]
fn everything_that_a_producer_can_say_can_be_said_on_the_command_line() {
    let server = Server::start();
    let flags = [
        "enqueue",
        "q",
        "--retry-backoff",
        "linear",
        "--retry-base-delay",
        "2s",
        "--retry-max-delay",
        "1m",
        "--unique-key",
        "k",
        "--unique-period",
        "1h",
        "--expire-after",
        "2h",
        "--attempt-timeout",
        "30s",
        "--stall-timeout",
        "10s",
        "--max-duration",
        "1d",
        "--ttl",
        "3d",
        "--target-worker",
        "ann",
        "--with",
        r#"{"agent": {"max_iterations": 3}}"#,
    ];
    let job = server.job(&ok(&server, &flags));
    for (field, value) in [
        ("retry_backoff", json!("linear")),
        ("retry_base_delay", json!("2s")),
        ("retry_max_delay", json!("1m")),
        ("unique_period", json!(3600)),
        ("expire_after", json!("2h")),
        ("attempt_timeout", json!("30s")),
        ("stall_timeout", json!("10s")),
        ("max_duration", json!("1d")),
        ("ttl", json!("3d")),
        ("target_worker", json!("ann")),
    ] {
        assert_eq!(job[field], value, "{field}: {job:#}");
    }
    assert_eq!(job["agent"]["max_iterations"], 3);
    let once = ok(&server, &["enqueue", "q", "--idempotency-key", "abc"]);
    assert_eq!(ok(&server, &["enqueue", "q", "--idempotency-key", "abc"]), once);
    assert!(fails(&server, &["enqueue", "q", "--with", "[1]"]).1.contains("JSON object"));
}

#[test]
fn the_server_is_looked_at_as_a_whole() {
    let server = Server::start();
    server.enqueue(&json!({"queue": "q"}));
    server.post("/api/v1/fetch", &json!({"queues": ["q"], "worker_id": "w1", "timeout": 0}));
    let status = ok_json(&server, &["status"]);
    assert_eq!((&status["queues"], &status["workers"], &status["jobs"]["active"]), (&json!(1), &json!(1), &json!(1)));
    assert!(ok(&server, &["worker", "list"]).contains("w1"));
    let checks = ok_json(&server, &["doctor", "--data", server.data().path().to_str().expect("a path")]);
    assert_eq!((&checks["checks"][0]["check"], &checks["checks"][0]["ok"]), (&json!("server"), &json!(true)));
    for language in ["rust", "python", "js and ts", "go", "c"] {
        let name = format!("handlers in {language}");
        let check = checks["checks"].as_array().and_then(|all| all.iter().find(|one| one["check"] == name.as_str()));
        assert!(check.is_some_and(|check| !check["message"].as_str().unwrap_or_default().is_empty()), "{name}");
    }
    for shell in ["bash", "zsh", "fish"] {
        assert!(ok(&server, &["completion", shell]).contains("windlass"));
    }
}

#[test]
fn errors_say_what_to_do_next() {
    let server = Server::start_on(&Data::new(), &["--api-key", "a-key-that-is-only-for-the-tests"]);
    assert!(fails(&server, &["queue", "list"]).1.contains("WINDLASS_API_KEY"));
    assert!(ok(&server, &["queue", "list", "--api-key", "a-key-that-is-only-for-the-tests"]).starts_with("QUEUE"));
    let (status, said) =
        fails(&server, &["enqueue", "q", "{not json", "--api-key", "a-key-that-is-only-for-the-tests"]);
    assert!(status == Some(1) && said.contains("not JSON"), "{said}");
    for (arguments, next) in [
        (["queue", "show", "nosuch"], "windlass queue list"),
        (["job", "get", "nosuch"], "windlass search"),
        (["schedule", "next", "nosuch"], "windlass schedule list"),
        (["plugin", "show", "nosuch"], "windlass plugin list"),
        (["webhook", "remove", "nosuch"], "windlass webhook list"),
        (["webhook", "test", "nosuch"], "windlass webhook list"),
    ] {
        let (_, said) = fails(&server, &[&arguments[..], &["--api-key", "a-key-that-is-only-for-the-tests"]].concat());
        assert!(said.contains(next), "{arguments:?}: {said}");
    }
    let (_, said) = fails(&server, &["queue", "list", "--url", "http://127.0.0.1:9"]);
    assert!(said.contains("windlass serve") && said.contains("WINDLASS_URL"), "{said}");
}

#[test]
fn a_watch_goes_on_when_the_server_is_restarted() {
    let data = Data::new();
    // Both servers need the same port, and the first gives it back by dying.
    let address = address_of_its_own();
    let start = || {
        let mut command = windlass();
        command.args(["serve", "--listen", &address, "--data"]).arg(data.path());
        Server::spawn(command, &data).expect("it starts")
    };
    let server = start();
    server.upload("digest", "digest");
    let id = server.enqueue(&json!({"queue": "digest", "payload": {"generate_mb": 20, "pause_ms": 50}}));
    let mut watch = windlass();
    watch.env("WINDLASS_URL", server.url("")).args(["job", "watch", &id]).stdout(Stdio::piped());
    let watch = watch.spawn().expect("it runs");
    let metrics = || String::from_utf8(server.download("/metrics")).expect("text");
    eventually("it watches", || metrics().contains("\nwindlass_watchers 1\n").then_some(()));
    eventually("a step is saved", || server.job(&id)["checkpoint"].is_object().then_some(()));
    server.kill_9();
    let server = start();
    let output = watch.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let job = server.job(&id);
    assert_eq!((&job["attempt"], &job["failures"]), (&json!(2), &json!(0)));
}

#[test]
fn webhooks_workers_and_the_dashboard_are_at_hand() {
    let server = Server::start();
    let hook = ok_json(&server, &["webhook", "add", "https://example.com/hooks", "--events", "completed,dead"]);
    assert_eq!((&hook["events"], &hook["has_secret"]), (&json!(["completed", "dead"]), &json!(true)));
    let id = hook["id"].as_str().expect("an id");
    assert!(ok(&server, &["webhook", "list"]).contains("https://example.com/hooks"));
    ok(&server, &["webhook", "remove", id]);
    assert_eq!(ok_json(&server, &["webhook", "list"]), json!([]));
    let (_, said) = fails(&server, &["webhook", "add", "http://127.0.0.1/"]);
    assert!(said.contains("--webhooks-private"), "{said}");

    let (_, said) = fails(&server, &["worker", "drain", "ann"]);
    assert!(said.contains("ann"), "{said}");
    server.post("/api/v1/fetch", &json!({"queues": ["q"], "worker_id": "ann", "timeout": 0}));
    ok(&server, &["worker", "drain", "ann"]);
    assert_eq!(ok_json(&server, &["worker", "list"])[0]["draining"], true);
    ok(&server, &["worker", "resume", "ann"]);

    server.enqueue(&json!({"queue": "q"}));
    let top = ok_json(&server, &["top"]);
    assert_eq!((&top["queues"][0]["name"], &top["workers"][0]["id"]), (&json!("q"), &json!("ann")), "{top:#}");
    let (_, said) = fails(&server, &["top"]);
    assert!(said.contains("--output json"), "no terminal, and it says what to do: {said}");
}

#[test]
fn on_a_terminal_a_watched_job_shows_a_bar_once_it_reports_progress() {
    let server = Server::start();
    server.upload("digest", "digest");
    let payload = r#"{"generate_mb": 3, "pause_ms": 200}"#;
    let line = format!("{:?} enqueue digest '{payload}' --watch", windlass().get_program());
    let mut command = std::process::Command::new("script");
    command.args(["--quiet", "--flush", "--return", "--command", &line, "/dev/null"]);
    server.tell(&mut command).stdin(Stdio::null());
    let output = command.output().expect("the program `script`");
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{shown}");
    assert!(shown.contains("[=") && shown.contains("% hash: step 2 of 3"), "{shown}");
    assert!(!shown.contains("0/0"), "a bar of nothing: {shown}");
}
