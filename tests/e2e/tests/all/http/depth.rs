//! JSON that is nested too deep is refused in requests; when a handler produces it, it breaks nothing.

use serde_json::{Value, json};
use windlass_e2e::{Server, windlass};

fn nested(levels: usize) -> String {
    format!("{}1{}", "[".repeat(levels), "]".repeat(levels))
}

#[test]
fn a_body_that_is_nested_too_deep_is_refused_with_the_limit() {
    let server = Server::start();
    let deep = nested(200_000);
    for (path, body) in [
        ("/api/v1/enqueue", format!(r#"{{"queue": "q", "payload": {deep}}}"#)),
        ("/api/v1/enqueue", format!(r#"{{"queue": "q", "checkpoint": {deep}}}"#)),
        ("/api/v1/enqueue", format!(r#"{{"queue": "q", "unknown": {deep}}}"#)),
        ("/api/v1/enqueue/batch", format!(r#"{{"jobs": [{{"queue": "q", "payload": {deep}}}]}}"#)),
        ("/api/v1/webhooks/q", deep.clone()),
        ("/api/v1/jobs/search", deep.clone()),
        ("/api/v1/heartbeat", format!(r#"{{"jobs": {{"x": {{"checkpoint": {deep}}}}}}}"#)),
    ] {
        let answer = server.post_bytes(path, body.as_bytes());
        assert_eq!((answer.status, &answer.body["code"]), (400, &json!("VALIDATION_ERROR")), "{path}: {answer:?}");
        assert!(answer.body["error"].as_str().is_some_and(|why| why.contains("100 levels")), "{path}: {answer:?}");
    }
    assert_eq!(server.get("/api/v1/queues").body, json!([]), "nothing was stored");
    let fits = format!(r#"{{"queue": "q", "payload": {}}}"#, nested(99));
    assert_eq!(server.post_bytes("/api/v1/enqueue", fits.as_bytes()).status, 201);
}

#[test]
fn results_that_are_nested_too_deep_are_stored_and_break_no_search_and_no_response() {
    let server = Server::start();
    server.upload("hostile", "hostile");
    for levels in [150, 20_000] {
        let id = server
            .enqueue(&json!({"queue": "hostile", "payload": {"try": "deep", "levels": levels, "queue": "hostile"}}));
        let job = server.wait_for(&id, "completed");
        assert!(job["checkpoint"]["$base64"].is_string(), "bytes, as they are: {job:#}");
    }
    let plain = server.enqueue(&json!({"queue": "plain", "payload": {"n": 7}}));
    let search = |filter: Value| {
        let answer = server.post("/api/v1/jobs/search", &filter);
        assert_eq!(answer.status, 200, "{filter}: {answer:?}");
        answer.body
    };
    let found = search(json!({"payload_jq": ".n? == 7"}));
    assert_eq!((&found["total"], &found["jobs"][0]["id"]), (&json!(1), &json!(plain)), "{found:#}");
    let all = search(json!({"payload_jq": "true"}));
    assert_eq!(all["total"], 4, "the one of 20,000 levels is read by no filter, the others are: {all:#}");
    assert_eq!(search(json!({"state": "scheduled"}))["total"], 2, "both are there");
    let mut command = windlass();
    command.env("WINDLASS_URL", server.url("")).args(["search", "--state", "scheduled", "--output", "json"]);
    let output = command.stdout(std::process::Stdio::piped()).output().expect("it runs");
    let shown: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(shown["total"], 2, "the command reads it, too");
}
