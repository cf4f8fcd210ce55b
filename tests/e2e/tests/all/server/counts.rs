//! Metrics and counts: a gauge is the current number, a total counts what has happened.

use serde_json::{Value, json};
use windlass_e2e::{Server, eventually, windlass};

fn command(server: &Server, arguments: &[&str]) -> String {
    let mut command = windlass();
    command.env("WINDLASS_URL", server.url("")).args(arguments).stdout(std::process::Stdio::piped());
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// The line of `windlass status` with this title, without the title.
fn line(status: &str, title: &str) -> String {
    let found = status.lines().find_map(|line| line.strip_prefix(title));
    found.unwrap_or_else(|| panic!("no {title} in\n{status}")).trim().to_owned()
}

#[test]
fn a_dead_job_that_is_moved_and_retried_counts_as_one_death_and_as_dead_in_no_queue() {
    let server = Server::start();
    let id = server.enqueue(&json!({"queue": "mail", "max_attempts": 1}));
    let fetched = server.post("/api/v1/fetch", &json!({"queues": ["mail"], "worker_id": "w"}));
    assert_eq!(fetched.status, 200, "{fetched:?}");
    assert_eq!(server.post(&format!("/api/v1/fail/{id}"), &json!({"error": "no luck"})).body["status"], "dead");
    assert_eq!(line(&command(&server, &["status"]), "dead"), "1");

    assert_eq!(server.post(&format!("/api/v1/jobs/{id}/move"), &json!({"queue": "spam"})).status, 200);
    assert_eq!(server.post(&format!("/api/v1/jobs/{id}/retry"), &json!({})).status, 200);
    let stats = server.get("/api/v1/jobs/stats").body;
    assert_eq!((&stats["dead"], &stats["failed"], &stats["pending"]), (&json!(0), &json!(0), &json!(1)), "{stats:#}");
    assert_eq!((&stats["totals"]["dead"], &stats["totals"]["enqueued"]), (&json!(1), &json!(1)), "{stats:#}");
    assert_eq!(stats["success_rate"], 0.0, "of one end so far none was a success: {stats:#}");
    let totals = |queue: &str| server.get(&format!("/api/v1/queues/{queue}/stats")).body["totals"].clone();
    assert_eq!((&totals("mail")["dead"], &totals("spam")["dead"]), (&json!(1), &json!(0)));
    let status = command(&server, &["status"]);
    assert_eq!(line(&status, "dead"), "0", "{status}");
    assert!(line(&status, "totals").contains("1 dead"), "{status}");

    let fetched = server.post("/api/v1/fetch", &json!({"queues": ["spam"], "worker_id": "w"}));
    assert_eq!(fetched.body["job_id"], json!(id));
    assert_eq!(server.post(&format!("/api/v1/ack/{id}"), &json!({})).status, 200);
    let stats = server.get("/api/v1/jobs/stats").body;
    assert_eq!((&stats["completed"], &stats["success_rate"]), (&json!(1), &json!(0.5)), "{stats:#}");
    let metrics = String::from_utf8(server.download("/metrics")).expect("text");
    for expected in [
        "windlass_jobs{queue=\"mail\",state=\"dead\"} 0",
        "windlass_jobs{queue=\"spam\",state=\"dead\"} 0",
        "windlass_jobs_dead_total{queue=\"mail\"} 1",
        "windlass_jobs_dead_total{queue=\"spam\"} 0",
        "windlass_jobs_completed_total{queue=\"spam\"} 1",
    ] {
        assert!(metrics.lines().any(|line| line == expected), "{expected} is not in\n{metrics}");
    }
}

#[test]
fn an_attempt_that_is_retried_immediately_counts_as_failed_in_its_queue() {
    let server = Server::start();
    let id = server.enqueue(&json!({"queue": "mail", "retry_backoff": "none"}));
    let fetch = || server.post("/api/v1/fetch", &json!({"queues": ["mail"], "worker_id": "w"}));
    assert_eq!(fetch().status, 200);
    assert_eq!(server.post(&format!("/api/v1/fail/{id}"), &json!({"error": "no luck"})).status, 200);
    let queue = server.queue("mail");
    assert_eq!((&queue["failed"], &queue["totals"]["failed_attempts"]), (&json!(1), &json!(1)), "{queue:#}");
    let failed: Value = eventually("a rate of failures", || {
        let queue = server.queue("mail");
        queue["failed_attempts_per_second"].as_f64().filter(|rate| *rate > 0.0).map(|_| queue)
    });
    assert_eq!(failed["pending"], 1, "{failed:#}");
}
