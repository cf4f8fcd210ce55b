//! Figures over time.

use std::process::Stdio;

use serde_json::{Value, json};
use windlass_e2e::{Server, eventually, windlass};

use crate::access::{client_of, make_namespace};

fn sum(series: &Value, name: &str) -> u64 {
    series[name].as_array().into_iter().flatten().filter_map(Value::as_u64).sum()
}

/// Enqueues and completes one job of `mail`, and lets one of `other` die.
fn two_jobs(server: &Server) {
    for (queue, end) in [("mail", "ack"), ("other", "fail")] {
        server.enqueue(&json!({"queue": queue, "max_attempts": 1}));
        let job = server.post("/api/v1/fetch", &json!({"queues": [queue], "worker_id": "w", "timeout": 5})).body;
        let id = job["job_id"].as_str().expect("a job");
        assert_eq!(server.post(&format!("/api/v1/{end}/{id}"), &json!({"error": "no"})).status, 200);
    }
}

#[test]
fn figures_over_time_count_what_happened_since_the_start() {
    let server = Server::start();
    two_jobs(&server);
    server.enqueue(&json!({"queue": "mail"}));
    let series = |query: &str| {
        let answer = server.get(&format!("/api/v1/stats/series{query}"));
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body
    };
    let all = eventually("the steps end", || Some(series("")).filter(|series| sum(series, "enqueued") == 3));
    assert_eq!((sum(&all, "completed"), sum(&all, "dead"), sum(&all, "failed_attempts")), (1, 1, 0), "{all}");
    assert_eq!((&all["window_ms"], &all["step_ms"], &all["tracked"]), (&json!(3_600_000), &json!(5_000), &json!(true)));
    let steps = all["at"].as_array().expect("a list").len();
    let lists = ["enqueued", "completed", "failed_attempts", "dead", "pending", "active"];
    assert!(lists.iter().all(|name| all[name].as_array().is_some_and(|list| list.len() == steps)), "{all}");
    assert!(all["run_ms"]["p95"].as_array().is_some_and(|list| list.iter().any(Value::is_number)), "{all}");
    let mail = series("?queue=mail&window=10m&step=5s");
    assert_eq!((sum(&mail, "enqueued"), sum(&mail, "completed"), sum(&mail, "dead")), (2, 1, 0), "{mail}");
    assert_eq!(mail["pending"].as_array().and_then(|list| list.last()), Some(&json!(1)), "{mail}");
    let each = server.get("/api/v1/stats/queues?window=10m&step=5s").body;
    let of = |queue: &str, what: &str| sum(&each["queues"][queue], what);
    assert_eq!(
        (of("mail", "completed"), of("mail", "failed_attempts"), of("other", "failed_attempts")),
        (1, 0, 1),
        "{each}"
    );
    assert_eq!(each["at"].as_array().map(Vec::len), each["queues"]["mail"]["pending"].as_array().map(Vec::len));
    assert_eq!(server.get("/api/v1/stats/series?queue=none").status, 404);
    assert_eq!(server.get("/api/v1/stats/series?window=2h&step=5s").status, 400);

    let mut command = windlass();
    let output =
        server.tell(&mut command).args(["stats", "--step", "5s"]).stdout(Stdio::piped()).output().expect("it runs");
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && table.contains("ENQUEUED") && table.contains(" ms"), "{table}");

    make_namespace(&server, "acme", &json!({}));
    let other = client_of(&server, "viewer", "acme");
    assert_eq!(sum(&other.get("/api/v1/stats/series").body, "enqueued"), 0, "another namespace");
    assert_eq!(other.get("/api/v1/stats/series?queue=mail").status, 404);
    assert_eq!(other.get("/api/v1/stats/queues").body["queues"], json!({}), "another namespace");
}
