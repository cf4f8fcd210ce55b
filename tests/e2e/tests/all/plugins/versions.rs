//! Swaps while jobs run, and canaries.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use windlass_e2e::{Server, eventually, plugin, variant};

const DIGEST: &str = "/api/v1/plugins/digest";

/// A job that saves this many steps, one every 20 ms.
fn stepping(steps: u32) -> Value {
    json!({"queue": "digest", "payload": {"generate_mb": steps, "step_kb": 1024, "pause_ms": 20}})
}

#[track_caller]
fn put(server: &Server, query: &str, version: u8) -> String {
    let answer = server.put(&format!("{DIGEST}?{query}"), &variant(&plugin("digest"), version));
    assert!(answer.status == 201 || answer.status == 200, "{answer:?}");
    answer.body["version"].as_str().expect("a version").to_owned()
}

#[track_caller]
fn stepping_job(server: &Server, steps: u32) -> String {
    let id = server.enqueue(&stepping(steps));
    eventually("it has saved a step", || server.job(&id)["checkpoint"].is_object().then_some(()));
    id
}

fn reasons(job: &Value) -> Vec<String> {
    let steps = job["timeline"].as_array().expect("a timeline").iter();
    steps.map(|step| step["reason"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn with_drain_a_running_job_finishes_on_its_version() {
    let server = Server::start();
    let old = put(&server, "", 1);
    let id = stepping_job(&server, 30);
    let new = put(&server, "swap=drain", 2);
    let job = server.wait_for(&id, "completed");
    assert_eq!((&job["plugin_version"], &job["attempt"]), (&json!(old), &json!(1)));
    let next = server.enqueue(&json!({"queue": "digest", "payload": {"text": "x"}}));
    assert_eq!(server.wait_for(&next, "completed")["plugin_version"], new);
}

#[test]
fn with_checkpoint_a_running_job_moves_at_its_next_checkpoint_and_does_nothing_twice() {
    let server = Server::start();
    let old = put(&server, "", 1);
    let id = stepping_job(&server, 60);
    let new = put(&server, "swap=checkpoint", 2);
    let job = server.wait_for(&id, "completed");
    assert_eq!((&job["plugin_version"], &job["attempt"], &job["failures"]), (&json!(new), &json!(2), &json!(0)));
    assert!(reasons(&job).contains(&"a new version of the plugin takes over".to_owned()), "{job:#}");
    let attempts = job["result"]["attempts"].as_array().expect("who did what");
    assert_eq!(attempts.len(), 2, "{attempts:?}");
    let last = attempts[0]["last_step"].as_u64().expect("a step");
    assert_eq!(attempts[1]["first_step"].as_u64(), Some(last + 1), "{attempts:?}");
    let versions = server.get(DIGEST).body["versions"].clone();
    assert!(versions.as_array().is_some_and(|list| list.iter().any(|version| version["version"] == *old)));
}

#[test]
fn with_now_a_running_job_is_stopped_and_starts_again_uncharged() {
    let server = Server::start();
    put(&server, "", 1);
    let id = stepping_job(&server, 60);
    let new = put(&server, "swap=now", 2);
    let job = server.wait_for(&id, "completed");
    assert_eq!((&job["plugin_version"], &job["failures"], &job["errors"]), (&json!(new), &json!(0), &json!([])));
    assert!(job["cancel_requested_at"].is_null());
}

#[test]
fn a_handler_that_saves_nothing_is_stopped_when_the_swap_has_waited_long_enough() {
    let server = Server::start();
    server.upload_with("/api/v1/plugins/hostile", &plugin("hostile"), "");
    let id =
        server.enqueue(&json!({"queue": "hostile", "payload": {"try": "sleep", "ms": 600_000}, "max_attempts": 1}));
    eventually("it runs", || (server.job(&id)["state"] == "active").then_some(()));
    let path = "/api/v1/plugins/hostile?swap=checkpoint&deadline=200ms";
    assert_eq!(server.put(path, &variant(&plugin("hostile"), 2)).status, 201);
    let job = eventually("it runs again", || {
        let job = server.job(&id);
        (job["attempt"] == 2 && job["state"] == "active").then_some(job)
    });
    assert_eq!((&job["failures"], &job["errors"]), (&json!(0), &json!([])));
    assert_eq!(job["plugin_version"], server.get("/api/v1/plugins/hostile").body["active"]);
}

#[test]
fn a_job_whose_checkpoint_the_new_version_cannot_read_stays_on_the_old_one_and_reports_it() {
    let server = Server::start();
    let old = put(&server, "", 1);
    let id = stepping_job(&server, 60);
    let new = variant(&plugin("digest"), 2);
    let answer = server.upload_with(&format!("{DIGEST}?swap=checkpoint"), &new, "schemas = [77]");
    assert_eq!(answer.status, 201, "{answer:?}");
    let job = server.wait_for(&id, "completed");
    assert_eq!((&job["plugin_version"], &job["pinned_version"]), (&json!(old), &json!(old)));
    let said = reasons(&job).iter().any(|reason| reason.contains("does not read its checkpoint"));
    assert!(said && job["attempt"] == 1, "{job:#}");

    // Stopped and started again, it runs on the version that can read its checkpoint.
    let newest = server.get(DIGEST).body["active"].as_str().expect("a version").to_owned();
    assert_eq!(server.post(&format!("{DIGEST}/rollback"), &json!({})).body["active"], old);
    let id = stepping_job(&server, 40);
    server.post(&format!("/api/v1/jobs/{id}/cancel"), &json!({}));
    server.wait_for(&id, "cancelled");
    assert_eq!(server.post(&format!("{DIGEST}/activate"), &json!({"version": newest})).body["active"], newest);
    server.post(&format!("/api/v1/jobs/{id}/retry"), &json!({}));
    let job = eventually("it completes", || {
        let job = server.job(&id);
        (job["state"] == "completed").then_some(job)
    });
    assert_eq!((&job["plugin_version"], &job["pinned_version"]), (&json!(old), &json!(old)));
    assert!(reasons(&job).iter().any(|reason| reason.contains("does not read its checkpoint")), "{job:#}");
}

#[test]
fn no_job_fails_or_is_lost_through_many_swaps_of_each_kind() {
    let server = Server::start();
    put(&server, "", 1);
    let mut ids = BTreeSet::new();
    for round in 0..9u8 {
        for n in 0..30 {
            let steps = if n % 6 == 0 { 8 } else { 1 };
            let payload = json!({"generate_mb": steps, "step_kb": 256, "pause_ms": if n % 3 == 0 { 5 } else { 0 }});
            ids.insert(server.enqueue(&json!({"queue": "digest", "payload": payload, "max_attempts": 1})));
        }
        let swap = ["swap=drain", "swap=checkpoint&deadline=5s", "swap=now"][usize::from(round % 3)];
        put(&server, swap, 2 + round);
    }
    for id in &ids {
        let job = server.wait_for(id, "completed");
        assert_eq!((&job["failures"], &job["errors"]), (&json!(0), &json!([])), "{job:#}");
    }
    let queue = server.queue("digest");
    assert_eq!((&queue["completed"], &queue["dead"]), (&json!(ids.len()), &json!(0)));
    let shown = server.get(DIGEST).body;
    assert_eq!((shown["versions"].as_array().map(Vec::len), &shown["running"]), (Some(10), &json!(0)));
}

/// A plugin whose second version fails every job that the first one completes.
fn with_bad_second_version() -> (Server, String, String) {
    let server = Server::start();
    let good = put(&server, "", 1);
    let answer = server.put(&format!("{DIGEST}?activate=false"), &plugin("hostile"));
    assert_eq!((answer.status, &answer.body["active"]), (201, &json!(good)), "{answer:?}");
    let bad = answer.body["version"].as_str().expect("a version").to_owned();
    (server, good, bad)
}

#[test]
fn a_canary_that_fails_is_rolled_back_and_no_job_fails_because_of_it() {
    let (server, good, bad) = with_bad_second_version();
    let mut events = server.events("/api/v1/events?types=plugin.canary_started,plugin.rolled_back");
    let request = json!({"version": bad, "share": 50, "max_failure_rate": 0.2, "min_attempts": 5});
    let answer = server.post(&format!("{DIGEST}/canary"), &request);
    assert_eq!((answer.status, &answer.body["canary"]["version"]), (200, &json!(bad)), "{answer:?}");
    let ids: Vec<String> = (0..20)
        .map(|n| server.enqueue(&json!({"queue": "digest", "payload": {"text": n.to_string()}, "max_attempts": 1})))
        .collect();
    let mut tried = 0;
    for id in &ids {
        let job = server.wait_for(id, "completed");
        assert_eq!((&job["plugin_version"], &job["failures"]), (&json!(good), &json!(0)), "{job:#}");
        tried += job["errors"].as_array().map_or(0, Vec::len);
    }
    assert!(tried >= 2, "the canary has had its share, and what failed on it is on record");
    let shown = server.get(DIGEST).body;
    assert_eq!((&shown["canary"], &shown["active"]), (&Value::Null, &json!(good)));
    let last = shown["history"].as_array().and_then(|list| list.last()).cloned().expect("a history");
    assert_eq!((&last["type"], &last["version"]), (&json!("plugin.rolled_back"), &json!(bad)));
    let told: Vec<Value> = events.by_ref().take(2).map(|event| event.data).collect();
    assert_eq!((&told[0]["type"], &told[1]["type"]), (&json!("plugin.canary_started"), &json!("plugin.rolled_back")));
    assert_eq!(told[1]["plugin"], "digest");
}

#[test]
fn a_canary_that_does_well_is_promoted_when_that_was_asked_for() {
    let server = Server::start();
    put(&server, "", 1);
    let second = put(&server, "activate=false", 2);
    let request = json!({"version": &second[..8], "share": 100, "min_attempts": 3, "promote_after": 5});
    assert_eq!(server.post(&format!("{DIGEST}/canary"), &request).status, 200);
    for n in 0..6 {
        let id = server.enqueue(&json!({"queue": "digest", "payload": {"text": n.to_string()}}));
        server.wait_for(&id, "completed");
    }
    let shown = server.get(DIGEST).body;
    assert_eq!((&shown["canary"], &shown["active"]), (&Value::Null, &json!(second)));
    let history = shown["history"].to_string();
    assert!(history.contains("plugin.promoted"), "{history}");
    // By hand as well: a third version.
    let third = put(&server, "activate=false", 3);
    assert_eq!(server.post(&format!("{DIGEST}/canary"), &json!({"version": third})).status, 200);
    assert_eq!(server.post(&format!("{DIGEST}/canary/promote"), &json!({})).body["active"], third);
    assert_eq!(server.post(&format!("{DIGEST}/canary/promote"), &json!({})).status, 404);
}

#[test]
fn a_swap_survives_a_restart_and_the_code_is_not_compiled_again() {
    let server = Server::start();
    put(&server, "", 1);
    let id = stepping_job(&server, 60);
    let new = put(&server, "swap=checkpoint", 2);
    let compiled = |server: &Server| {
        let folder = std::fs::read_dir(server.data().path().join("compiled")).expect("the cache is there");
        let mut files: Vec<_> =
            folder.flatten().map(|file| (file.file_name(), file.metadata().and_then(|m| m.modified()).ok())).collect();
        files.sort();
        files
    };
    let before = compiled(&server);
    let data = server.kill_9();
    let server = Server::start_on(&data, &[]);
    let job = server.wait_for(&id, "completed");
    assert_eq!(job["plugin_version"], new);
    assert_eq!(compiled(&server), before, "found compiled, and left alone");
}

#[test]
fn invalid_changes_are_refused_with_the_field() {
    let server = Server::start();
    let only = put(&server, "", 1);
    let cases = [
        ("activate", json!({"version": "abc"}), "version"),
        ("activate", json!({"version": only, "swap": "soon"}), "swap"),
        ("activate", json!({"version": only, "swap": "now", "deadline": "5s"}), "deadline"),
        ("rollback", json!({}), "version"),
        ("canary", json!({"version": only}), "version"),
        ("canary", json!({"version": only, "max_failure_rate": 2}), "max_failure_rate"),
    ];
    for (action, body, field) in cases {
        let answer = server.post(&format!("{DIGEST}/{action}"), &body);
        assert_eq!(answer.status, 400, "{action} {body}: {answer:?}");
        assert!(
            answer.body["error"].as_str().is_some_and(|error| error.contains(field)),
            "{action} {body}: {answer:?}"
        );
    }
}
