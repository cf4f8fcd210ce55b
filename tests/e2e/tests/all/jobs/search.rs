//! Searching for jobs: every filter, every order, page by page, and malicious filters.

use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use windlass_e2e::{Client, Server, windlass};

#[track_caller]
fn search(server: &Client, request: &Value) -> Value {
    let answer = server.post("/api/v1/jobs/search", request);
    assert_eq!(answer.status, 200, "{request}: {answer:?}");
    answer.body
}

/// The `n` of the payloads of the jobs found, in order.
#[track_caller]
fn found(server: &Client, request: &Value) -> Vec<i64> {
    let answer = search(server, request);
    let jobs = answer["jobs"].as_array().expect("jobs");
    assert_eq!(answer["total"], jobs.len(), "{request}: {answer:#}");
    jobs.iter().map(|job| job["payload"]["n"].as_i64().unwrap_or_else(|| panic!("no n in {job:#}"))).collect()
}

/// Enqueues six jobs that differ in everything that can be searched for; returns their ids.
fn six_jobs(server: &Server) -> Vec<String> {
    let batch = server.post("/api/v1/batch", &json!({})).body["batch_id"].clone();
    let jobs = [
        json!({"queue": "mail", "payload": {"n": 0, "user": "ann", "amount": 5}, "tags": {"team": "a"}, "priority": "high"}),
        json!({"queue": "mail", "payload": {"n": 1, "user": "bob", "amount": 50}, "tags": {"team": "a", "tier": "x"}}),
        json!({"queue": "mail", "payload": {"n": 2, "user": "cyd", "amount": 500}, "scope": "order:7", "batch_id": batch}),
        json!({"queue": "video", "payload": {"n": 3, "text": "caf\u{e9} \"x\""}, "unique_key": "once"}),
        json!({"queue": "video", "payload": {"n": 4, "list": [{"sku": "s1"}, {"sku": "s2"}]}, "scheduled_at": "2035-01-01T00:00:00Z"}),
        json!({"queue": "video", "payload": {"n": 5}, "expire_after": "1000h", "priority": "low"}),
    ];
    jobs.iter().map(|job| server.enqueue(job)).collect()
}

/// Fetches the next job of the queue as `worker`, and returns its id.
fn fetch(server: &Server, queue: &str, worker: &str) -> String {
    let answer = server.post("/api/v1/fetch", &json!({"queues": [queue], "worker_id": worker, "timeout": 1}));
    answer.body["job_id"].as_str().unwrap_or_else(|| panic!("a job: {answer:?}")).to_owned()
}

#[test]
fn every_filter_finds_exactly_the_matching_jobs() {
    let server = Server::start();
    let ids = six_jobs(&server);
    // 0 completes (it is the most urgent), 1 fails permanently, 3 is active.
    assert_eq!(fetch(&server, "mail", "w-1"), ids[0]);
    server.post(&format!("/api/v1/ack/{}", ids[0]), &json!({"result": 1}));
    assert_eq!(fetch(&server, "mail", "w-2"), ids[1]);
    server.post(&format!("/api/v1/fail/{}", ids[1]), &json!({"error": "no such host example.org"}));
    assert_eq!(fetch(&server, "video", "w-1"), ids[3]);

    let now = "2030-01-01T00:00:00Z";
    let past = "2020-01-01T00:00:00Z";
    for (filter, expected) in [
        (json!({}), vec![5, 4, 3, 2, 1, 0]),
        (json!({"queue": "mail"}), vec![2, 1, 0]),
        (json!({"queue": "nosuch"}), vec![]),
        (json!({"state": "completed"}), vec![0]),
        (json!({"state": ["completed", "active"]}), vec![3, 0]),
        (json!({"states": ["retrying"]}), vec![1]),
        (json!({"priority": "high"}), vec![0]),
        (json!({"tags": {"team": "a"}}), vec![1, 0]),
        (json!({"tags": {"team": "a", "tier": "x"}}), vec![1]),
        (json!({"tags": {"team": "b"}}), vec![]),
        (json!({"scope": "order:7"}), vec![2]),
        (json!({"payload_contains": "bob"}), vec![1]),
        (json!({"payload_contains": "\"amount\""}), vec![2, 1, 0]),
        (json!({"payload_contains": "caf\u{e9}"}), vec![3]),
        (json!({"payload_jq": ".amount > 5"}), vec![2, 1]),
        (json!({"payload_jq": ".user == \"ann\""}), vec![0]),
        (json!({"payload_jq": "select(.user == \"ann\" or .n == 5)"}), vec![5, 0]),
        (json!({"payload_jq": ".list[]?.sku == \"s2\""}), vec![4]),
        (json!({"payload_jq": ".text == \"caf\\u00e9 \\\"x\\\"\""}), vec![3]),
        (json!({"payload_jq": ".amount", "queue": "mail", "payload_contains": "cyd"}), vec![2]),
        (json!({"created_after": past}), vec![5, 4, 3, 2, 1, 0]),
        (json!({"created_before": past}), vec![]),
        (json!({"created_after": past, "created_before": now, "queue": "video"}), vec![5, 4, 3]),
        (json!({"scheduled_after": "2034-12-31T00:00:00Z"}), vec![4]),
        (json!({"scheduled_before": now}), vec![1]),
        (json!({"started_after": past}), vec![3, 1, 0]),
        (json!({"started_after": past, "state": "active"}), vec![3]),
        (json!({"completed_after": past}), vec![0]),
        (json!({"completed_before": past}), vec![]),
        (json!({"expire_after": past}), vec![5]),
        (json!({"expire_before": past}), vec![]),
        (json!({"worker_id": "w-1"}), vec![3, 0]),
        (json!({"plugin": "digest"}), vec![]),
        (json!({"has_errors": true}), vec![1]),
        (json!({"has_errors": false, "queue": "mail"}), vec![2, 0]),
        (json!({"error_contains": "such host"}), vec![1]),
        (json!({"error_contains": "other"}), vec![]),
        (json!({"batch_id": server.job(&ids[2])["batch_id"]}), vec![2]),
        (json!({"unique_key": "once"}), vec![3]),
        (json!({"attempt_min": 1}), vec![3, 1, 0]),
        (json!({"attempt_max": 0}), vec![5, 4, 2]),
        (json!({"job_id_prefix": ids[2]}), vec![2]),
        (json!({"job_id_prefix": &ids[2][..8]}), vec![5, 4, 3, 2, 1, 0]),
        (json!({"queue": "mail", "state": ["pending"], "tags": {"team": "a"}}), vec![]),
    ] {
        assert_eq!(found(&server, &filter), expected, "{filter}");
    }
    assert_eq!(server.get("/api/v1/dead").body["total"], 0);

    let chain = json!({"steps": [{"queue": "chained"}, {"queue": "chained"}]});
    let first = server.enqueue(&json!({"queue": "chained", "payload": {"n": 6}, "chain": chain}));
    assert_eq!(found(&server, &json!({"chain_id": server.job(&first)["chain_id"]})), [6]);
}

#[test]
fn results_are_sorted_and_pages_are_complete() {
    let server = Server::start();
    six_jobs(&server);
    let by = |sort: &str, order: &str| found(&server, &json!({"sort": sort, "order": order}));
    assert_eq!(by("created_at", "asc"), [0, 1, 2, 3, 4, 5]);
    assert_eq!(by("priority", "desc"), [0, 4, 3, 2, 1, 5]);
    assert_eq!(by("priority", "asc"), [5, 1, 2, 3, 4, 0]);
    assert_eq!(by("attempt", "desc"), [5, 4, 3, 2, 1, 0]);
    fetch(&server, "video", "w");
    assert_eq!(by("started_at", "asc")[0], 3, "those that never started come last");
    assert_eq!(by("started_at", "desc")[0], 3);

    for sort in ["created_at", "priority"] {
        let mut request = json!({"limit": 4, "sort": sort});
        let first = search(&server, &request);
        assert_eq!((&first["total"], &first["has_more"]), (&json!(6), &json!(true)));
        assert!(first["duration_ms"].is_u64());
        request["cursor"] = first["cursor"].clone();
        let second = search(&server, &request);
        assert_eq!(
            (&second["total"], &second["has_more"], &second["cursor"]),
            (&json!(6), &json!(false), &Value::Null)
        );
        let both = [&first, &second].map(|page| page["jobs"].as_array().expect("jobs").clone()).concat();
        let ns: Vec<i64> = both.iter().filter_map(|job| job["payload"]["n"].as_i64()).collect();
        assert_eq!(ns, by(sort, "desc"));
        request["order"] = json!("asc");
        let refused = server.post("/api/v1/jobs/search", &request);
        assert_eq!((refused.status, &refused.body["code"]), (400, &json!("VALIDATION_ERROR")), "another order");
    }
}

#[test]
fn an_invalid_search_is_refused_with_what_is_valid() {
    let server = Server::start();
    six_jobs(&server);
    for (request, word) in [
        (json!({"state": "lost"}), "is not a state"),
        (json!({"state": 5}), "state"),
        (json!({"sort": "name"}), "sort"),
        (json!({"limit": 0}), "1 to 1000"),
        (json!({"limit": 1001}), "1 to 1000"),
        (json!({"cursor": "nonsense"}), "cursor"),
        (json!({"created_after": "yesterday"}), "2030-01-31T12:00:00Z"),
        (json!({"job_id_prefix": "01J"}), "job_id_prefix"),
        (json!({"parent_id": "me"}), "parent_id"),
        (json!({"queue": "a b"}), "queue"),
        (json!({"payload_contains": ""}), "payload_contains"),
        (json!({"payload_jq": ".a =="}), "at its end"),
        (json!({"payload_jq": ".a | nosuch"}), "at character 6"),
        (json!({"payload_jq": "(".repeat(4000)}), "payload_jq"),
        (json!({"payload_jq": "x".repeat(5000)}), "4096"),
    ] {
        let answer = server.post("/api/v1/jobs/search", &request);
        let error = answer.body["error"].as_str().unwrap_or_default();
        assert!(answer.status == 400 && error.contains(word), "{request}: {answer:?}");
    }
}

#[test]
fn a_malicious_filter_is_stopped_and_the_server_is_not_affected() {
    let server = Server::start();
    six_jobs(&server);
    for code in ["last(repeat(1))", "[range(1e12)] | length", "def f: 1 + f; f", "until(false; .)"] {
        let answer = server.post("/api/v1/jobs/search", &json!({"payload_jq": code}));
        assert_eq!(answer.status, 400, "{code}: {answer:?}");
        assert!(answer.body["error"].as_str().is_some_and(|error| error.contains("payload_jq")), "{code}: {answer:?}");
    }
    // A filter cannot read the server's environment.
    assert_eq!(found(&server, &json!({"payload_jq": "env | length > 0"})), [0; 0]);
    assert_eq!(found(&server, &json!({"payload_jq": "halt"})).len(), 0);
    assert_eq!(found(&server, &json!({"payload_jq": ".n == 5"})), [5]);
}

fn run(server: &Server, arguments: &[&str]) -> Output {
    let mut command = windlass();
    command.env("WINDLASS_URL", server.url("")).args(arguments).stdout(Stdio::piped());
    command.output().expect("the command runs")
}

#[test]
fn the_search_command_prints_ids_into_a_pipe_a_table_when_asked_and_json_for_programs() {
    let server = Server::start();
    let ids = six_jobs(&server);
    let out = |arguments: &[&str]| {
        let output = run(&server, arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    let mail = out(&["search", "--queue", "mail"]);
    assert_eq!(mail.lines().collect::<Vec<_>>(), [&ids[2], &ids[1], &ids[0]]);
    assert_eq!(out(&["search", "--tag", "team=a", "--order", "asc", "--limit", "1"]).trim(), ids[0]);
    let table = out(&["search", "--jq", ".amount > 5", "--output", "text"]);
    assert!(table.starts_with("ID") && table.contains(&ids[1]) && !table.contains(&ids[0]), "{table}");
    let json: Value =
        serde_json::from_str(&out(&["search", "--state", "pending,scheduled", "--output", "json"])).expect("JSON");
    assert_eq!(json["total"], 6);
    let wrong = run(&server, &["search", "--state", "lost"]);
    assert_eq!(wrong.status.code(), Some(2), "a mistake in the command line");
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("possible values: scheduled, pending"));
}

#[test]
fn a_shortage_of_descriptors_for_jq_is_reported_as_such_and_not_as_an_error_of_the_filter() {
    let server = Server::start();
    server.enqueue(&json!({"queue": "q", "payload": {"n": 7}}));
    let ask = || server.post("/api/v1/jobs/search", &json!({"payload_jq": ".n == 7"}));
    assert_eq!(ask().body["total"], 1);
    // Open files stay open, including the connection of this client; nothing more can be opened.
    let limit = |files: &str| {
        let set =
            Command::new("prlimit").args(["--pid", &server.id().to_string(), &format!("--nofile={files}:")]).status();
        assert!(set.expect("there is a prlimit").success());
    };
    limit("3");
    let refused = ask();
    limit("1024");
    assert_eq!((refused.status, &refused.body["code"]), (503, &json!("SEARCH_UNAVAILABLE")), "{refused:?}");
    let why = refused.body["error"].as_str().unwrap_or_default();
    assert!(why.contains("files") && !why.contains("payload_jq"), "{why}");
    assert_eq!(ask().body["total"], 1, "and it works again");
}
