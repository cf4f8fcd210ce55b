//! The command line matches the API: the same names, the same order, and nothing missing.

use std::io::Write;
use std::process::{Output, Stdio};

use serde_json::{Value, json};
use windlass_e2e::{Server, plugin, variant, windlass};

/// Runs a command with something on its standard input.
fn piped(server: &Server, arguments: &[&str], input: &str) -> Output {
    let mut command = windlass();
    command.env("WINDLASS_URL", server.url("")).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("the command runs");
    // A command that refuses its arguments may exit before it reads.
    let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    child.wait_with_output().expect("it ends")
}

#[track_caller]
fn ok(server: &Server, arguments: &[&str]) -> String {
    let output = piped(server, arguments, "");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_filter_has_the_same_name_as_in_the_api() {
    let server = Server::start();
    let small = server.enqueue(&json!({"queue": "q", "payload": {"amount": 1}}));
    let large =
        server.enqueue(&json!({"queue": "q", "payload": {"amount": 9}, "tags": {"team": "a"}, "unique_key": "k"}));
    for filter in [
        &["--payload-jq", ".amount > 5"][..],
        &["--jq", ".amount > 5"],
        &["--tags", "team=a"],
        &["--tag", "team=a"],
        &["--unique-key", "k"],
        &["--job-id-prefix", &large],
        &["--states", "pending", "--tag", "team=a"],
    ] {
        assert_eq!(ok(&server, &[&["search"], filter].concat()), large, "{filter:?}");
    }
    let cancelled = ok(&server, &["bulk", "cancel", "--payload-jq", ".amount > 5"]);
    assert!(cancelled.contains("1 of 1"), "{cancelled}");
    assert_eq!(
        (server.job(&large)["state"].as_str(), server.job(&small)["state"].as_str()),
        (Some("cancelled"), Some("pending"))
    );
    let listed = ok(&server, &["bulk", "list"]);
    assert!(listed.contains("cancel") && listed.contains("bulk_"), "{listed}");
}

#[test]
fn every_field_of_a_job_has_a_flag_with_its_name() {
    let server = Server::start();
    let first = server.enqueue(&json!({"queue": "q"}));
    let this_year: u32 = server.job(&first)["created_at"].as_str().and_then(|at| at[..4].parse().ok()).expect("a year");
    let next_year = format!("{}-06-01T00:00:00.000Z", this_year + 1);
    let id = ok(
        &server,
        &[
            "enqueue",
            "q",
            "--retry-backoff",
            "quadratic",
            "--lease-duration",
            "2m",
            "--unique-key",
            "k",
            "--unique-scope",
            "scope",
            "--unique-until",
            "period",
            "--scope",
            "user:7",
            "--scheduled-at",
            &next_year,
            "--parent-id",
            &first,
            "--checkpoint",
            r#"{"done": 3}"#,
            "--agent",
            r#"{"max_iterations": 2}"#,
        ],
    );
    let job = server.job(&id);
    for (field, value) in [
        ("retry_backoff", json!("quadratic")),
        ("unique_scope", json!("scope")),
        ("unique_until", json!("period")),
        ("scheduled_at", json!(next_year)),
        ("parent_id", json!(first)),
        ("checkpoint", json!({"done": 3})),
    ] {
        assert_eq!(job[field], value, "{field}: {job:#}");
    }
    assert_eq!(job["agent"]["max_iterations"], 2);
    let chained = ok(&server, &["enqueue", "a", "--chain", r#"{"steps": [{"queue": "a"}, {"queue": "b"}]}"#]);
    assert_eq!(server.job(&chained)["chain_step"], 0);
    let wrong = piped(&server, &["enqueue", "q", "--retry-backoff", "cubic"], "");
    assert!(said(&wrong).contains("none, fixed, linear, quadratic, exponential"), "{}", said(&wrong));
}

#[test]
fn an_empty_pipe_is_reported_and_has_its_own_status() {
    let server = Server::start();
    for (input, arguments) in
        [("", &["bulk", "retry"][..]), ("\n", &["bulk", "delete", "--yes"]), ("[]", &["bulk", "cancel"])]
    {
        let output = piped(&server, arguments, input);
        assert_eq!(output.status.code(), Some(5), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains("standard input had no job ids"), "{arguments:?}: {}", said(&output));
    }
    let output = piped(&server, &["bulk", "retry", "--output", "json"], "");
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&answer["affected"], output.status.code()), (&json!(0), Some(5)));
    // A filter that finds nothing is different: it is a valid request.
    assert!(piped(&server, &["bulk", "retry", "--state", "dead"], "").status.success());
}

#[test]
fn a_version_that_is_only_stored_is_listed_first_and_the_table_marks_the_others() {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("room");
        path.to_str().expect("a path").to_owned()
    };
    let digest = plugin("digest");
    ok(&server, &["plugin", "push", "digest", &file("one.wasm", &digest), "--queues", "digest"]);
    let second = file("two.wasm", &variant(&digest, 2));
    let output = piped(&server, &["plugin", "push", "digest", &second, "--no-activate"], "");
    let shown = server.get("/api/v1/plugins/digest").body;
    let versions = shown["versions"].as_array().expect("versions");
    let stored = versions.iter().find(|one| one["version"] != shown["active"]).expect("a second version");
    let stored = stored["version"].as_str().expect("a digest");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(printed.starts_with(stored), "{printed}");
    assert!(said(&output).contains(&format!("windlass plugin activate digest {}", &stored[..12])), "{}", said(&output));

    ok(&server, &["plugin", "canary", "digest", &stored[..12], "--share", "25"]);
    let table = ok(&server, &["plugin", "show", "digest"]);
    let row = |version: &str| table.lines().find(|line| line.starts_with(version)).map(str::to_owned);
    let active = row(shown["active"].as_str().expect("a digest")).expect("a row");
    assert!(active.contains(" active "), "{table}");
    assert!(row(stored).expect("a row").contains("canary, 25 %"), "{table}");
}

#[test]
fn jobs_are_sorted_by_the_column_that_is_shown() {
    let server = Server::start();
    let ids: Vec<String> = ["low", "critical", "normal"]
        .map(|priority| server.enqueue(&json!({"queue": "q", "priority": priority})))
        .into();
    // The oldest changes its state last, but it was still created first.
    ok(&server, &["job", "hold", &ids[0]]);
    let order = |arguments: &[&str]| -> Vec<usize> {
        let table = ok(&server, &[&["job", "list"], arguments].concat());
        let place = |line: &str| ids.iter().position(|id| line.starts_with(id.as_str()));
        table.lines().filter_map(place).collect()
    };
    assert_eq!(order(&[]), [2, 1, 0]);
    assert_eq!(order(&["--order", "asc"]), [0, 1, 2]);
    assert_eq!(order(&["--sort", "priority"]), [1, 2, 0]);
    assert_eq!(order(&["--limit", "2"]), [2, 1]);
    assert_eq!(order(&["--state", "held"]), [0]);
    assert!(ok(&server, &["job", "list", "--sort", "started_at"]).contains("STARTED"));
    let listed: Value = serde_json::from_str(&ok(&server, &["job", "list", "--output", "json"])).expect("JSON");
    assert_eq!(listed["jobs"][0]["id"], ids[2].as_str());
}

#[test]
fn control_characters_of_a_job_do_not_reach_the_terminal() {
    let server = Server::start();
    let id = server.enqueue(&json!({"queue": "q", "max_attempts": 1}));
    server.post("/api/v1/fetch", &json!({"queues": ["q"], "worker_id": "w\u{1b}[1m", "timeout": 0}));
    let error = "\u{1b}]0;gotcha\u{7}\u{1b}[2J it broke \u{9b}31m\u{202e}";
    server.post(&format!("/api/v1/fail/{id}"), &json!({"error": error, "backtrace": "at \u{1b}[8mline 1"}));
    for arguments in [
        &["job", "get", &id][..],
        &["job", "list"],
        &["job", "get", &id, "--output", "json"],
        &["search", "--output", "text"],
        &["job", "list", "--output", "json"],
        &["worker", "list"],
    ] {
        let text = ok(&server, arguments);
        assert!(!text.contains(['\u{1b}', '\u{7}', '\u{9b}', '\u{202e}']), "{arguments:?}: {text:?}");
        assert!(text.contains("it broke") || arguments[0] == "worker", "{arguments:?}: {text}");
    }
    assert!(ok(&server, &["job", "get", &id]).contains(r"\x1b[2J it broke \u{9b}31m\u{202e}"));
    let json: Value = serde_json::from_str(&ok(&server, &["job", "get", &id, "--output", "json"])).expect("JSON");
    assert_eq!(json["last_error"], error, "programs get it as it is");
    let watched = piped(&server, &["job", "watch", &id], "");
    assert!(!said(&watched).contains('\u{1b}') && said(&watched).contains("it broke"), "{}", said(&watched));
}
