//! Jobs that are changed while they wait, run before their time, run again with another payload, and stopped with a
//! grace of one's own.

use std::process::Stdio;

use serde_json::{Value, json};
use windlass_e2e::{Server, windlass};

use crate::access::{client_of, make_namespace};

fn last_reason(job: &Value) -> String {
    let steps = job["timeline"].as_array().expect("a timeline");
    steps.last().and_then(|step| step["reason"].as_str()).unwrap_or_default().to_owned()
}

#[test]
fn a_job_that_waits_is_changed_and_says_by_whom() {
    let server = Server::start();
    let id =
        server.enqueue(&json!({"queue": "mail", "payload": {"to": 1}, "tags": {"team": "a"}, "stall_timeout": "5s"}));
    let path = format!("/api/v1/jobs/{id}");
    let change = json!({"payload": {"big": 12345678901234567890u64}, "priority": "high", "tags": {"team": "b"},
        "max_attempts": 7, "attempt_timeout": "2m", "stall_timeout": null});
    let answer = server.patch(&path, &change);
    assert_eq!((answer.status, &answer.body["status"]), (200, &json!("edited")), "{answer:?}");
    let job = server.job(&id);
    for field in ["payload", "priority", "tags", "max_attempts"] {
        assert_eq!(job[field], change[field], "{field}");
    }
    assert!(job["attempt_timeout"].is_string() && job["stall_timeout"].is_null(), "{job}");
    let reason = last_reason(&job);
    assert!(reason.starts_with("payload, priority, tags, max_attempts") && reason.contains(" by "), "{reason}");
    let found = |team: &str| server.post("/api/v1/jobs/search", &json!({"tags": {"team": team}})).body["total"].clone();
    assert_eq!((found("a"), found("b")), (json!(0), json!(1)), "it is found by what it is now");

    let later = "2034-01-01T00:00:00.000Z";
    assert_eq!(server.patch(&path, &json!({"scheduled_at": later})).status, 200);
    let job = server.job(&id);
    assert_eq!((&job["state"], &job["scheduled_at"]), (&json!("scheduled"), &json!(later)));
    assert_eq!(server.post(&format!("{path}/run-now"), &json!({})).body, json!({"status": "pending"}));
    assert_eq!(server.job(&id)["state"], "pending");
    assert_eq!(server.post(&format!("{path}/run-now"), &json!({})).body["code"], "WRONG_STATE");

    for (wrong, word) in [
        (json!({}), "nothing to change"),
        (json!({"max_attempts": 1_000_000}), "max_attempts"),
        (json!({"stall_timeout": "0s"}), "stall_timeout"),
        (json!({"priority": "asap"}), "priority"),
    ] {
        let answer = server.patch(&path, &wrong);
        let error = answer.body["error"].as_str().unwrap_or_default();
        assert!(answer.status == 400 && error.contains(word), "{wrong}: {answer:?}");
    }
    make_namespace(&server, "acme", &json!({}));
    let other = client_of(&server, "operator", "acme");
    assert_eq!(other.patch(&path, &json!({"priority": "low"})).status, 404);
    assert_eq!(other.post(&format!("{path}/run-now"), &json!({})).status, 404);
}

#[test]
fn an_ended_job_is_not_edited_but_runs_again_with_another_payload() {
    let server = Server::start();
    let id = server.enqueue(&json!({"queue": "mail", "payload": {"to": 1}}));
    let path = format!("/api/v1/jobs/{id}");
    assert_eq!(server.post(&format!("{path}/cancel"), &json!({})).status, 200);
    assert_eq!(server.patch(&path, &json!({"payload": 1})).body["code"], "WRONG_STATE");
    let mut command = windlass();
    command.args(["job", "retry", &id, "--payload", "{\"to\": 2}"]).env("WINDLASS_URL", server.url(""));
    let output = command.stdout(Stdio::piped()).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    let job = server.job(&id);
    assert_eq!((&job["state"], &job["payload"]), (&json!("pending"), &json!({"to": 2})));
    assert_eq!(last_reason(&job), "retried by hand with another payload");

    let mut command = windlass();
    command.args(["job", "edit", &id, "--at", "2034-01-01T00:00:00Z", "--max-duration", "none"]);
    let output = command.env("WINDLASS_URL", server.url("")).stdout(Stdio::piped()).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(server.job(&id)["state"], "scheduled");
    let all = server.post("/api/v1/jobs/bulk", &json!({"action": "run_now", "filter": {"queue": "mail"}}));
    assert_eq!((all.status, &all.body["affected"]), (200, &json!(1)), "{all:?}");
    assert_eq!(server.job(&id)["state"], "pending");
}

#[test]
fn a_handler_that_does_not_listen_is_stopped_by_force_when_its_grace_is_over() {
    let server = Server::start();
    server.upload("hostile", "hostile");
    let id =
        server.enqueue(&json!({"queue": "hostile", "payload": {"try": "sleep", "ms": 3_600_000}, "max_attempts": 1}));
    server.wait_for(&id, "active");
    let path = format!("/api/v1/jobs/{id}/cancel");
    assert_eq!(server.post(&path, &json!({"grace": "2h"})).status, 400);
    let asked = server.post(&path, &json!({"grace": "10m", "reason": "too long"}));
    assert_eq!(asked.body, json!({"status": "cancelling"}));
    assert_eq!(server.job(&id)["state"], "active", "it has ten minutes");
    assert_eq!(server.post(&path, &json!({"grace": "0s"})).body, json!({"status": "cancelling"}));
    assert_eq!(server.wait_for(&id, "cancelled")["cancel_reason"], "too long");
}
