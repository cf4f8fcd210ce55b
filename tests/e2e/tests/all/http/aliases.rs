//! Names of the older wire format: accepted and shown beside the current ones, and refused where the two contradict
//! each other.

use serde_json::{Value, json};
use windlass_e2e::Server;

fn conflict(answer: &windlass_e2e::Answer, field: &str) {
    assert_eq!((answer.status, &answer.body["code"]), (400, &json!("VALIDATION_ERROR")), "{answer:?}");
    let why = answer.body["error"].as_str().unwrap_or_default();
    assert!(why.contains(&format!("`{field}`")) && why.contains("alias `max_retries`"), "{why}");
}

#[test]
fn the_number_of_attempts_is_read_and_shown_under_its_older_name_too() {
    let server = Server::start();
    for body in [
        json!({"queue": "q", "max_attempts": 7}),
        json!({"queue": "q", "max_retries": 7}),
        json!({"queue": "q", "max_attempts": 7, "max_retries": 7}),
    ] {
        let job = server.job(&server.enqueue(&body));
        assert_eq!((&job["max_attempts"], &job["max_retries"]), (&json!(7), &json!(7)), "{body}");
        let fetched = server.post("/api/v1/fetch", &json!({"queues": ["q"], "timeout": 0})).body;
        assert_eq!((&fetched["max_attempts"], &fetched["max_retries"]), (&json!(7), &json!(7)), "{body}");
    }
    for query in ["max_attempts=7", "max_retries=7"] {
        let hook = server.post_bytes(&format!("/api/v1/webhooks/q?strict=true&{query}"), b"{}");
        assert_eq!(server.job(hook.body["job_id"].as_str().expect("an id"))["max_attempts"], 7, "{query}");
    }
    let found = server.post("/api/v1/jobs/search", &json!({"queue": "q", "limit": 1})).body["jobs"][0].clone();
    assert_eq!((&found["max_attempts"], &found["max_retries"]), (&json!(7), &json!(7)));
    let settings = server.post("/api/v1/queues/q/settings", &json!({"defaults": {"max_retries": 6}})).body;
    assert_eq!(settings["defaults"]["max_attempts"], 6, "{settings}");
    let nightly = json!({"name": "nightly", "queue": "q", "cron": "0 1 * * *", "max_retries": 5});
    let made = server.post("/api/v1/schedules?strict=true", &nightly).body;
    assert_eq!((&made["max_attempts"], &made["max_retries"]), (&json!(5), &json!(5)), "{made}");
}

#[test]
fn two_different_numbers_of_attempts_are_refused() {
    let server = Server::start();
    let job = json!({"queue": "q", "max_attempts": 7, "max_retries": 8});
    conflict(&server.post("/api/v1/enqueue", &job), "max_attempts");
    conflict(&server.post("/api/v1/enqueue/batch", &json!({"jobs": [{"queue": "q"}, job]})), "jobs[1].max_attempts");
    conflict(&server.post_bytes("/api/v1/webhooks/q?max_attempts=7&max_retries=8", b"{}"), "max_attempts");
    let defaults = json!({"defaults": {"max_attempts": 1, "max_retries": 0}});
    conflict(&server.post("/api/v1/queues/q/settings", &defaults), "defaults.max_attempts");
    let nightly = json!({"name": "n", "queue": "q", "cron": "0 1 * * *", "max_attempts": 5, "max_retries": 4});
    conflict(&server.post("/api/v1/schedules", &nightly), "max_attempts");
    assert_eq!(server.get("/api/v1/schedules").body, json!([]));
    assert_eq!(server.post("/api/v1/jobs/search", &json!({})).body["total"], 0, "nothing was done");
}

#[test]
fn a_rate_is_read_and_shown_under_its_older_names_too() {
    let server = Server::start();
    let throttle = |body: Value| server.post("/api/v1/queues/q/throttle", &body);
    for body in [json!({"rate": 5, "period": "1m"}), json!({"rate": 5, "window_ms": 60_000})] {
        assert_eq!(throttle(body.clone()).status, 200, "{body}");
        let queue = server.queue("q");
        assert_eq!(queue["rate"], json!({"count": 5, "per": "1m"}), "{queue:#}");
        assert_eq!((&queue["rate_limit"], &queue["rate_window_ms"]), (&json!(5), &json!(60_000)), "{queue:#}");
    }
    let refused = throttle(json!({"rate": 9, "period": "1m", "window_ms": 1}));
    assert_eq!(refused.status, 400, "{refused:?}");
    assert!(refused.body["error"].as_str().is_some_and(|why| why.contains("alias `window_ms`")), "{refused:?}");
    assert_eq!(server.queue("q")["rate_limit"], 5);
}

#[test]
fn jobs_are_counted_under_the_names_of_their_states_and_older_readers_find_theirs() {
    let server = Server::start();
    for _ in 0..3 {
        server.enqueue(&json!({"queue": "q", "max_attempts": 1}));
    }
    let fetch = || server.post("/api/v1/fetch", &json!({"queues": ["q"], "timeout": 0})).body["job_id"].clone();
    let dead = fetch();
    server.post(&format!("/api/v1/fail/{}", dead.as_str().expect("an id")), &json!({"error": "no luck"}));
    fetch();
    let stats = server.get("/api/v1/jobs/stats").body;
    let expected = [("total", 3), ("open", 2), ("pending", 1), ("active", 1), ("dead", 1), ("completed", 0)];
    for counts in [&stats, &server.queue("q"), &server.get("/api/v1/queues/q/stats").body] {
        for (name, number) in expected {
            assert_eq!(counts[name], number, "{name}: {counts:#}");
        }
    }
    assert_eq!((&stats["processing"], &stats["failed"]), (&json!(1), &json!(1)), "{stats:#}");
    let queue = server.queue("q");
    assert_eq!((&queue["enqueued"], &queue["totals"]["enqueued"]), (&json!(3), &json!(3)), "{queue:#}");
}

#[test]
fn the_description_of_the_api_marks_every_alias() {
    let server = Server::start();
    let document = server.get("/openapi.json").body;
    let schemas = &document["components"]["schemas"];
    let marked = |schema: &str, field: &str| {
        let own = std::slice::from_ref(&schemas[schema]);
        let parts = schemas[schema]["allOf"].as_array().map_or(own, Vec::as_slice);
        let found = parts.iter().map(|part| &part["properties"][field]).find(|field| field.is_object());
        let found = found.unwrap_or_else(|| panic!("{schema} has no {field}"));
        assert_eq!(found["deprecated"], true, "{schema}.{field}: {found}");
        assert!(found["description"].as_str().is_some_and(|text| text.contains("Alias of `")), "{found}");
    };
    for (schema, field) in [("JobBody", "max_retries"), ("JobView", "max_retries"), ("Fetched", "max_retries")] {
        marked(schema, field);
    }
    for (schema, field) in
        [("JobView", "retry_base_delay_ms"), ("RunnerView", "worker_id"), ("ErrorView", "created_at")]
    {
        marked(schema, field);
    }
    for (schema, field) in [("Stats", "processing"), ("QueueAnswer", "failed"), ("EventData", "at_ns")] {
        marked(schema, field);
    }
    let parameters = document["paths"]["/api/v1/webhooks/{name}"]["post"]["parameters"].as_array().cloned();
    let deprecated = |name: &str| {
        let found = parameters.iter().flatten().find(|one| one["name"] == name);
        found.map(|one| one["deprecated"] == Value::Bool(true))
    };
    assert_eq!((deprecated("max_retries"), deprecated("max_attempts")), (Some(true), Some(false)));
}
