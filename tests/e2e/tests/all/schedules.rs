//! Schedules: jobs that the clock makes.

use serde_json::json;
use windlass_e2e::{Server, eventually};

#[test]
fn a_schedule_is_made_shown_changed_and_removed() {
    let server = Server::start();
    let sent = json!({"name": "nightly", "queue": "reports", "cron": "30 2 * * *", "timezone": "Europe/Berlin",
        "payload": {"kind": "full"}, "max_retries": 5, "tags": {"team": "a"}, "overlap": "skip", "catch_up": "all", "catch_up_most": 3});
    let made = server.post("/api/v1/schedules", &sent);
    assert_eq!(made.status, 201, "{made:?}");
    for field in
        ["name", "queue", "cron", "timezone", "payload", "max_retries", "tags", "overlap", "catch_up", "catch_up_most"]
    {
        assert_eq!(made.body[field], sent[field], "{field}");
    }
    assert_eq!(made.body["id"], "nightly");
    assert!(made.body["next_run"].is_string() && made.body["last_run"].is_null(), "{made:?}");
    assert_eq!(server.post("/api/v1/schedules", &sent).body["code"], "ALREADY_EXISTS");
    assert_eq!(server.get("/api/v1/schedules").body, json!([made.body]));

    let next = server.get("/api/v1/schedules/nightly/next?count=3").body["next"].clone();
    assert_eq!(next.as_array().map(Vec::len), Some(3));
    assert_eq!(next[0], made.body["next_run"]);

    let changed = server.put("/api/v1/schedules/nightly", br#"{"cron": "0 4 * * 1"}"#);
    assert_eq!((changed.status, &changed.body["cron"]), (200, &json!("0 4 * * 1")), "{changed:?}");
    assert_eq!((&changed.body["max_retries"], &changed.body["overlap"]), (&json!(5), &json!("skip")), "the rest stays");
    assert_eq!(server.delete("/api/v1/schedules/nightly").body, json!({"status": "deleted"}));
    assert_eq!(server.get("/api/v1/schedules/nightly").status, 404);
}

#[test]
fn what_cannot_be_a_schedule_is_refused_by_field() {
    let server = Server::start();
    let refused = |body: serde_json::Value, field: &str| {
        let answer = server.post("/api/v1/schedules", &body);
        assert_eq!((answer.status, &answer.body["code"]), (400, &json!("VALIDATION_ERROR")), "{answer:?}");
        assert!(answer.body["error"].as_str().is_some_and(|why| why.contains(field)), "{answer:?}");
    };
    refused(json!({"queue": "q", "cron": "* * * * *"}), "name");
    refused(json!({"name": "n", "cron": "* * * * *"}), "queue");
    refused(json!({"name": "n", "queue": "q"}), "cron");
    refused(json!({"name": "n", "queue": "q", "cron": "0 0 30 2 *"}), "cron");
    refused(json!({"name": "n", "queue": "q", "cron": "soon"}), "cron");
    refused(json!({"name": "n", "queue": "q", "cron": "* * * * *", "timezone": "Mars/Olympus"}), "timezone");
    refused(json!({"name": "n", "queue": "q", "cron": "* * * * *", "overlap": "maybe"}), "overlap");
}

#[test]
fn a_schedule_runs_by_itself_by_hand_and_not_while_it_is_paused() {
    let server = Server::start();
    server.post("/api/v1/schedules", &json!({"name": "tick", "queue": "ticks", "cron": "* * * * * *", "payload": 7}));
    let id =
        eventually("a tick", || server.get("/api/v1/schedules/tick").body["last_job_id"].as_str().map(str::to_owned));
    let job = server.job(&id);
    assert_eq!((&job["queue"], &job["schedule"], &job["payload"]), (&json!("ticks"), &json!("tick"), &json!(7)));

    assert_eq!(server.post("/api/v1/schedules/tick/pause", &json!({})).body, json!({"status": "paused"}));
    let paused = server.get("/api/v1/schedules/tick").body;
    assert_eq!((&paused["paused"], &paused["next_run"]), (&json!(true), &json!(null)));
    let ran = server.post("/api/v1/schedules/tick/run", &json!({})).body;
    assert_eq!(ran["status"], "enqueued");
    assert_eq!(server.job(ran["job_id"].as_str().expect("an id"))["schedule"], "tick");
    assert_eq!(server.post("/api/v1/schedules/tick/resume", &json!({})).body, json!({"status": "resumed"}));
    eventually("the next tick", || {
        (server.get("/api/v1/schedules/tick").body["last_job_id"] != ran["job_id"]).then_some(())
    });
    assert_eq!(server.post("/api/v1/schedules/none/run", &json!({})).status, 404);
}
