//! Invalid input is refused with an explanation, and changes nothing.

use serde_json::{Value, json};
use windlass_e2e::{Answer, Data, Server, plugin};

#[track_caller]
fn refused(answer: &Answer, status: u16, code: &str, words: &[&str]) {
    assert_eq!((answer.status, &answer.body["code"]), (status, &json!(code)), "{answer:?}");
    let error = answer.body["error"].as_str().unwrap_or_default();
    for word in words {
        assert!(error.contains(word), "{word:?} should be in {error:?}");
    }
}

#[track_caller]
fn nothing_changed(server: &Server) {
    assert_eq!(server.get("/api/v1/plugins").body, json!({"plugins": []}));
    assert_eq!(server.get("/api/v1/queues").body, json!([]));
    assert_eq!(server.get("/api/v1/jobs").body, json!({"jobs": []}));
}

/// A component that exports nothing.
const EMPTY_COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";
const CORE_MODULE: &[u8] = b"\0asm\x01\0\0\0";

#[test]
fn an_upload_that_is_not_a_handler_is_refused_with_what_to_upload() {
    let server = Server::start();
    let upload = |bytes: &[u8]| server.put("/api/v1/plugins/digest", bytes);
    refused(&upload(b"#!/bin/sh\necho hello\n"), 422, "NOT_WASM", &["not WebAssembly", "component"]);
    refused(&upload(b""), 422, "NOT_WASM", &["component"]);
    refused(&upload(CORE_MODULE), 422, "CORE_MODULE", &["core WebAssembly module", "wasm32-wasip2"]);
    refused(&upload(EMPTY_COMPONENT), 422, "MISSING_EXPORT", &["windlass:job/run@0.1.0"]);
    refused(&upload(&foreign()), 422, "FOREIGN_IMPORT", &["windlass:jab/", "windlass:job"]);
    let whole = plugin("digest");
    let cut_off = upload(&whole[..whole.len() / 2]);
    assert_eq!(cut_off.status, 422, "{cut_off:?}");
    nothing_changed(&server);
}

/// The demo plugin with the name of every import but the export's changed, as if it were built for another host.
fn foreign() -> Vec<u8> {
    let mut bytes = plugin("digest");
    let from = b"windlass:job/progress";
    let to = b"windlass:jab/progress";
    let mut at = 0;
    while let Some(found) = bytes[at..].windows(from.len()).position(|window| window == from) {
        at += found;
        bytes[at..at + to.len()].copy_from_slice(to);
    }
    assert!(at > 0, "the demo plugin reports progress");
    bytes
}

#[test]
fn a_refused_upload_leaves_the_plugin_unchanged() {
    let server = Server::start();
    server.upload("digest", "digest");
    let before = server.get("/api/v1/plugins/digest").body;
    assert_eq!(server.put("/api/v1/plugins/digest", CORE_MODULE).status, 422);
    assert_eq!(server.get("/api/v1/plugins/digest").body, before);
    let id = server.enqueue(&json!({"queue": "digest", "payload": {"text": "still here"}}));
    server.wait_for(&id, "completed");
}

#[test]
fn a_queue_of_another_plugin_is_refused_by_name() {
    let server = Server::start();
    server.upload("digest", "sums");
    let answer = server.put("/api/v1/plugins/other?queues=free,sums", &plugin("digest"));
    refused(&answer, 409, "QUEUE_TAKEN", &["`sums`", "`digest`"]);
    assert_eq!(server.get("/api/v1/plugins/other").status, 404);
}

#[test]
fn invalid_json_and_unexpected_json_have_different_errors() {
    let server = Server::start();
    let raw = |body: &str| server.post_bytes("/api/v1/enqueue", body.as_bytes());
    refused(&raw("{\"queue\": \"q\","), 400, "PARSE_ERROR", &["not JSON", "line 1"]);
    refused(&raw("queue=q"), 400, "PARSE_ERROR", &["not JSON"]);
    refused(&raw(""), 400, "PARSE_ERROR", &["not JSON"]);
    refused(&raw("[1]"), 400, "VALIDATION_ERROR", &[]);
    refused(&server.post_bytes("/api/v1/enqueue", b"{\"queue\": \"\xff\"}"), 400, "PARSE_ERROR", &[]);
    nothing_changed(&server);
}

#[test]
fn a_field_that_does_not_fit_is_named_with_what_would() {
    let server = Server::start();
    let check = |field: &str, value: Value, words: &[&str]| {
        let mut job = json!({"queue": "q"});
        job[field] = value;
        let answer = server.post("/api/v1/enqueue", &job);
        refused(&answer, 400, "VALIDATION_ERROR", &[&[field], words].concat());
    };
    check("queue", json!("no spaces please"), &["A-Z"]);
    check("queue", json!(""), &["1 to 128"]);
    check("queue", json!(7), &["string"]);
    check("priority", json!("urgent"), &["critical", "normal"]);
    check("max_attempts", json!(-1), &["-1"]);
    check("max_attempts", json!("many"), &[]);
    check("retry_backoff", json!("wild"), &["exponential"]);
    check("expire_after", json!("-5s"), &["negative"]);
    check("expire_after", json!(-5), &["zero or more"]);
    check("expire_after", json!(0), &["more than zero"]);
    check("retry_base_delay", json!("5 bananas"), &["1h30m"]);
    check("attempt_timeout", json!(true), &["1h30m"]);
    check("ttl", json!("99999w"), &["ten years"]);
    check("unique_period", json!("soon"), &["90s"]);
    check("scheduled_at", json!("tomorrow"), &["2030-01-31T12:00:00Z"]);
    check("tags", json!({"n": 1}), &["string"]);
    check("parent_id", json!("job_?"), &["26 characters"]);
    check("chain", json!({"steps": []}), &["2 to 100 steps"]);
    check("chain", json!({"steps": [{"queue": "other"}, {"queue": "q"}]}), &["first step is the job itself"]);
    check("chain", json!({"steps": [{"queue": "q"}, {"queue": "q"}], "on_exit": 7}), &["a step"]);
    check("depends_on", json!(["job_1"]), &["neither a job id nor"]);
    refused(&server.post("/api/v1/enqueue", &json!({"payload": 1})), 400, "VALIDATION_ERROR", &["`queue`", "missing"]);
    nothing_changed(&server);
}

#[test]
fn a_batch_with_one_bad_job_stores_none_and_says_which() {
    let server = Server::start();
    let jobs = json!({"jobs": [{"queue": "q"}, {"queue": "q", "expire_after": "later"}]});
    let answer = server.post("/api/v1/enqueue/batch", &jobs);
    refused(&answer, 400, "VALIDATION_ERROR", &["jobs[1].expire_after"]);
    let answer = server.post("/api/v1/enqueue/batch", &json!({"jobs": [{"queue": "q"}, {}]}));
    refused(&answer, 400, "VALIDATION_ERROR", &["jobs[1].queue"]);
    let answer = server.post("/api/v1/enqueue/batch", &json!({}));
    refused(&answer, 400, "VALIDATION_ERROR", &["jobs"]);
    nothing_changed(&server);
}

#[test]
fn a_body_over_the_limit_is_refused_whatever_its_size() {
    let server = Server::start_on(&Data::new(), &["--max-body", "64KiB"]);
    for size in [65 * 1024, 8 * 1024 * 1024] {
        let answer = server.post("/api/v1/enqueue", &json!({"queue": "q", "payload": "x".repeat(size)}));
        refused(&answer, 413, "PAYLOAD_TOO_LARGE", &["65536", "--max-body"]);
    }
    nothing_changed(&server);
    let fits = server.post("/api/v1/enqueue", &json!({"queue": "q", "payload": "x".repeat(60 * 1024)}));
    assert_eq!(fits.status, 201, "{fits:?}");
}

#[test]
fn what_does_not_exist_is_a_404_in_json() {
    let server = Server::start();
    let unknown = "job_01JQ8ZK3V7N3W5X9Y1A2B3C4D5";
    for path in [format!("/api/v1/jobs/{unknown}"), format!("/api/v1/jobs/{unknown}/logs")] {
        refused(&server.get(&path), 404, "NOT_FOUND", &[unknown]);
    }
    for action in ["cancel", "retry", "requeue", "hold", "approve", "reject"] {
        let answer = server.post(&format!("/api/v1/jobs/{unknown}/{action}"), &json!({}));
        refused(&answer, 404, "NOT_FOUND", &[unknown]);
    }
    refused(
        &server.post(&format!("/api/v1/jobs/{unknown}/move"), &json!({"queue": "q"})),
        404,
        "NOT_FOUND",
        &[unknown],
    );
    refused(&server.delete(&format!("/api/v1/jobs/{unknown}")), 404, "NOT_FOUND", &[unknown]);
    refused(&server.get("/api/v1/jobs/17"), 404, "NOT_FOUND", &["`17`", "26 characters"]);
    refused(&server.get("/api/v1/plugins/none"), 404, "NOT_FOUND", &["plugin `none`"]);
    refused(&server.get("/api/v1/nothing"), 404, "NOT_FOUND", &["/api/v1/nothing"]);
    refused(&server.get("/nothing"), 404, "NOT_FOUND", &["/api/v1"]);
    nothing_changed(&server);
}

#[test]
fn a_wrong_method_is_a_405_in_json_that_lists_the_allowed_ones() {
    let server = Server::start();
    let answer = server.delete("/api/v1/enqueue");
    refused(&answer, 405, "METHOD_NOT_ALLOWED", &["/api/v1/enqueue"]);
    assert!(answer.allow.as_deref().is_some_and(|allow| allow.contains("POST")), "{answer:?}");
}

#[test]
fn a_list_with_unknown_values_is_refused() {
    let server = Server::start();
    refused(&server.get("/api/v1/jobs?state=lost"), 400, "VALIDATION_ERROR", &["lost", "pending"]);
    refused(&server.get("/api/v1/jobs?limit=few"), 400, "VALIDATION_ERROR", &[]);
    refused(&server.get("/api/v1/jobs?queue=a%20b"), 400, "VALIDATION_ERROR", &["queue"]);
}
