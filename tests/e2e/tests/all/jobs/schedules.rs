//! Schedules: jobs that are enqueued at set times.

use std::process::Stdio;

use serde_json::json;
use windlass_e2e::{Server, eventually, windlass};

#[test]
fn a_schedule_is_created_shown_changed_and_removed() {
    let server = Server::start();
    let sent = json!({"name": "nightly", "queue": "reports", "cron": "30 2 * * *", "timezone": "Europe/Berlin",
        "payload": {"kind": "full"}, "max_attempts": 5, "tags": {"team": "a"}, "overlap": "skip", "catch_up": "all", "catch_up_most": 3});
    let made = server.post("/api/v1/schedules", &sent);
    assert_eq!(made.status, 201, "{made:?}");
    for field in
        ["name", "queue", "cron", "timezone", "payload", "max_attempts", "tags", "overlap", "catch_up", "catch_up_most"]
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
    assert_eq!(
        (&changed.body["max_attempts"], &changed.body["overlap"]),
        (&json!(5), &json!("skip")),
        "the rest stays"
    );
    assert_eq!(server.delete("/api/v1/schedules/nightly").body, json!({"status": "deleted"}));
    assert_eq!(server.get("/api/v1/schedules/nightly").status, 404);
}

#[test]
fn an_invalid_schedule_is_refused_with_the_field() {
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
fn an_expression_is_previewed_without_saving_it_and_refused_as_when_saving() {
    let server = Server::start();
    let preview = |body: serde_json::Value| server.post("/api/v1/schedules/preview", &body);
    let found = preview(json!({"cron": "30 2 * * 1-5", "timezone": "Europe/Berlin", "count": 3}));
    assert_eq!((found.status, &found.body["words"]), (200, &json!("at 02:30, Monday to Friday")), "{found:?}");
    assert_eq!(server.get("/api/v1/schedules").body, json!([]), "nothing is saved");
    let saved = json!({"name": "n", "queue": "q", "cron": "30 2 * * 1-5", "timezone": "Europe/Berlin"});
    assert_eq!(server.post("/api/v1/schedules", &saved).body["words"], found.body["words"]);
    assert_eq!(server.get("/api/v1/schedules/n/next?count=3").body["next"], found.body["next"]);
    assert_eq!(preview(json!({"cron": "@hourly"})).body["next"].as_array().map(Vec::len), Some(5));

    for (cron, timezone) in [("75 * * * *", "UTC"), ("0 0 30 2 *", "UTC"), ("* * * * *", "Mars/Olympus")] {
        let body = json!({"name": "wrong", "queue": "q", "cron": cron, "timezone": timezone});
        let (previewed, saved) = (preview(body.clone()), server.post("/api/v1/schedules", &body));
        assert_eq!(previewed.status, 400, "{previewed:?}");
        assert_eq!(previewed.body["error"], saved.body["error"]);
    }
    let named = server.post("/api/v1/schedules", &json!({"name": "preview", "queue": "q", "cron": "* * * * *"}));
    assert_eq!(named.status, 400, "its address is taken: {named:?}");
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

#[test]
fn a_skipped_run_is_shown_with_its_reason_and_survives_a_crash() {
    let server = Server::start();
    let sent =
        json!({"name": "tick", "queue": "ticks", "cron": "* * * * * *", "overlap": "skip", "timezone": "Asia/Tokyo"});
    server.post("/api/v1/schedules", &sent);
    // The queue is not served, so the first job never ends and every later run is skipped.
    let skipped = |server: &Server| server.get("/api/v1/schedules/tick").body["skipped_runs"][0].clone();
    eventually("a skipped run", || (skipped(&server)["reason"] == "overlap").then_some(()));
    let tick = server.get("/api/v1/schedules/tick").body;
    let (one, job) = (&tick["skipped_runs"][0], &tick["last_job_id"]);
    assert_eq!(one["job_id"], *job, "{tick}");
    assert!(one["message"].as_str().is_some_and(|why| why.contains("had not ended")), "{tick}");
    let ran = server.post("/api/v1/schedules/tick/run", &json!({})).body;
    assert_eq!((&ran["status"], &ran["skipped"]["reason"]), (&json!("skipped"), &json!("overlap")), "{ran}");
    server.post("/api/v1/schedules/tick/pause", &json!({}));
    eventually("a run while it is paused", || (skipped(&server)["reason"] == "paused").then_some(()));
    let server = Server::start_on(&server.kill_9(), &[]);
    assert_eq!(skipped(&server)["reason"], "paused");
    let run = |arguments: &[&str]| {
        let mut command = windlass();
        command.env("WINDLASS_URL", server.url("")).args(arguments).stdout(Stdio::piped());
        let output = command.output().expect("it runs");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let page = run(&["schedule", "get", "tick"]);
    for words in ["Asia/Tokyo", " JST  overlap: the job of an earlier run", "paused: the schedule was paused"] {
        assert!(page.contains(words), "{words:?} is missing:\n{page}");
    }
    let list = run(&["schedule", "list"]);
    assert!(list.contains("OVERLAP") && list.contains("skip") && list.contains(" JST (paused)"), "{list}");
}

#[test]
fn every_field_of_a_schedule_has_a_flag_and_a_wrong_cron_names_its_field() {
    let server = Server::start();
    let run = |arguments: &[&str]| {
        let mut command = windlass();
        command.env("WINDLASS_URL", server.url("")).args(arguments).stdout(Stdio::piped());
        let output = command.output().expect("it runs");
        (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let flags = "--timezone Europe/Berlin --overlap cancel --catch-up all --catch-up-most 7 --paused --priority high --unique-key k \
        --unique-period 2h --tag team=blue --max-attempts 4 --retry-backoff fixed --retry-base-delay 3s --retry-max-delay 9s \
        --expire-after 1d --attempt-timeout 5m --stall-timeout 1m --max-duration 1h --lease-duration 30s --ttl 2d";
    let flags: Vec<&str> = flags.split_whitespace().collect();
    let (made, said) =
        run(&[&["schedule", "add", "nightly", "30 2 * * *", "reports", "{\"a\": 1}"][..], &flags].concat());
    assert!(made && said.contains("schedule resume nightly"), "{said}");
    let stored = server.get("/api/v1/schedules/nightly").body;
    for (field, value) in [
        ("timezone", json!("Europe/Berlin")),
        ("overlap", json!("cancel")),
        ("catch_up", json!("all")),
        ("catch_up_most", json!(7)),
        ("paused", json!(true)),
        ("priority", json!("high")),
        ("unique_key", json!("k")),
        ("unique_period", json!(7200)),
        ("tags", json!({"team": "blue"})),
        ("max_attempts", json!(4)),
        ("retry_backoff", json!("fixed")),
        ("payload", json!({"a": 1})),
    ] {
        assert_eq!(stored[field], value, "{field}: {stored}");
    }
    for field in [
        "retry_base_delay",
        "retry_max_delay",
        "expire_after",
        "attempt_timeout",
        "stall_timeout",
        "max_duration",
        "lease_duration",
        "ttl",
    ] {
        assert!(!stored[field].is_null(), "{field}: {stored}");
    }
    for (cron, zone, expected) in [
        ("75 * * * *", "UTC", "minute: \"75\" is not between 0 and 59"),
        ("0 0 * * funday", "UTC", "SUN MON TUE WED THU FRI SAT"),
        ("0 0 *", "UTC", "has 3 fields; it takes five fields: minute hour day month weekday"),
        ("0 0 * * *", "Berlin", "did you mean Europe/Berlin?"),
    ] {
        let (made, said) = run(&["schedule", "add", "bad", cron, "q", "--timezone", zone]);
        assert!(!made && said.contains(expected), "{cron}: {said}");
    }
}
