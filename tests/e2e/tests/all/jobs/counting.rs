//! Counting jobs, what an action on many would do, and bodies that are too large for a list.

use std::process::Stdio;

use serde_json::{Value, json};
use windlass_e2e::{Server, windlass};

use crate::access::{client_of, make_namespace};

/// Two jobs of `mail` that wait, one that is cancelled, and one of `video`.
fn four_jobs(server: &Server) -> Vec<String> {
    let jobs = [
        json!({"queue": "mail", "payload": {"n": 1}, "tags": {"team": "a"}}),
        json!({"queue": "mail", "payload": {"n": 2}, "tags": {"team": "b"}}),
        json!({"queue": "mail", "payload": {"n": 3}}),
        json!({"queue": "video", "payload": {"n": 4}, "tags": {"team": "a"}}),
    ];
    let ids: Vec<String> = jobs.iter().map(|job| server.enqueue(job)).collect();
    assert_eq!(server.post(&format!("/api/v1/jobs/{}/cancel", ids[2]), &json!({})).status, 200);
    ids
}

#[test]
fn jobs_are_counted_by_what_they_have_in_common() {
    let server = Server::start();
    four_jobs(&server);
    let count = |request: &Value| {
        let answer = server.post("/api/v1/jobs/count", request);
        assert_eq!(answer.status, 200, "{request}: {answer:?}");
        let groups = answer.body["groups"].as_array().expect("groups").iter();
        let groups: Vec<_> =
            groups.map(|group| (group["key"].clone(), group["count"].as_u64().expect("a number"))).collect();
        (answer.body["total"].as_u64().expect("a number"), groups, answer.body["other"].as_u64().expect("a number"))
    };
    let of = |key: &str, count: u64| (json!(key), count);
    assert_eq!(count(&json!({})), (4, vec![], 0));
    assert_eq!(count(&json!({"group_by": "state"})), (4, vec![of("pending", 3), of("cancelled", 1)], 0));
    assert_eq!(
        count(&json!({"group_by": "queue", "filter": {"state": "pending"}})),
        (3, vec![of("mail", 2), of("video", 1)], 0)
    );
    assert_eq!(
        count(&json!({"group_by": "tag:team"})),
        (4, vec![of("a", 2), (Value::Null, 1), of("b", 1)], 0),
        "those without the tag have no key"
    );
    assert_eq!(
        count(&json!({"group_by": "queue", "filter": {"payload_jq": ".n > 1"}, "limit": 1})),
        (3, vec![of("mail", 2)], 1)
    );
    for (request, word) in [
        (json!({"group_by": "colour"}), "tag:KEY"),
        (json!({"group_by": "tag:"}), "tag:KEY"),
        (json!({"limit": 0}), "1 to 1000"),
        (json!({"filter": {"state": "lost"}}), "not a state"),
    ] {
        let answer = server.post("/api/v1/jobs/count", &request);
        let error = answer.body["error"].as_str().unwrap_or_default();
        assert!(answer.status == 400 && error.contains(word), "{request}: {answer:?}");
    }
    let mut command = windlass();
    command.args(["count", "--group-by", "state", "--queue", "mail"]).env("WINDLASS_URL", server.url(""));
    let output = command.stdout(Stdio::piped()).output().expect("it runs");
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && table.contains("pending") && table.contains("cancelled"), "{table}");
}

#[test]
fn another_namespace_counts_nothing_of_this_one() {
    let server = Server::start();
    four_jobs(&server);
    make_namespace(&server, "acme", &json!({}));
    let other = client_of(&server, "operator", "acme");
    for request in
        [json!({}), json!({"group_by": "state"}), json!({"group_by": "tag:team", "filter": {"queue": "mail"}})]
    {
        let answer = other.post("/api/v1/jobs/count", &request);
        assert_eq!((answer.status, &answer.body["total"]), (200, &json!(0)), "{answer:?}");
    }
    let would =
        other.post("/api/v1/jobs/bulk", &json!({"action": "cancel", "filter": {"queue": "mail"}, "dry_run": true}));
    assert_eq!((would.status, &would.body["total"]), (200, &json!(0)), "{would:?}");
}

#[test]
fn a_dry_run_says_what_would_be_done_and_does_nothing() {
    let server = Server::start();
    let ids = four_jobs(&server);
    let before = server.get("/api/v1/audit-logs").body["entries"].as_array().map(Vec::len);
    let would = |request: Value| {
        let answer = server.post("/api/v1/jobs/bulk", &request);
        assert_eq!((answer.status, &answer.body["dry_run"]), (200, &json!(true)), "{answer:?}");
        answer.body
    };
    let by_filter = would(json!({"action": "cancel", "filter": {"queue": "mail"}, "dry_run": true}));
    assert_eq!(
        (&by_filter["total"], &by_filter["affected"], &by_filter["passed_over"]),
        (&json!(3), &json!(2), &json!(1))
    );
    assert_eq!(by_filter["sample"], json!([ids[1], ids[0]]));
    let reason = &by_filter["reasons"][0];
    assert_eq!((&reason["state"], &reason["count"]), (&json!("cancelled"), &json!(1)), "{by_filter:#}");
    let unknown = ids[0].replace("job_01", "job_02");
    let by_ids = would(json!({"action": "retry", "job_ids": [ids[2], ids[0], unknown], "dry_run": true}));
    assert_eq!((&by_ids["affected"], &by_ids["passed_over"]), (&json!(1), &json!(2)), "{by_ids:#}");
    assert_eq!(by_ids["by_state"][0]["state"], "pending");
    let refused = server.post("/api/v1/jobs/bulk", &json!({"action": "cancel", "filter": {}, "dry_run": true}));
    assert_eq!(refused.status, 400, "{refused:?}");
    assert_eq!((&server.queue("mail")["pending"], &server.queue("mail")["cancelled"]), (&json!(2), &json!(1)));
    assert_eq!(
        server.get("/api/v1/audit-logs").body["entries"].as_array().map(Vec::len),
        before,
        "nothing to answer for"
    );
    // And what it says is what comes.
    let done = server.post("/api/v1/jobs/bulk", &json!({"action": "cancel", "filter": {"queue": "mail"}}));
    assert_eq!((&done.body["total"], &done.body["affected"]), (&json!(3), &json!(2)), "{done:?}");
}

#[test]
fn a_large_payload_is_shown_by_its_first_characters() {
    let server = Server::start();
    let text = format!("\u{e9}{}", "x".repeat(300_000));
    let large = server.enqueue(&json!({"queue": "mail", "payload": text}));
    let small = br#"{"queue": "mail", "payload": {"n":12345678901234567890}}"#;
    let small = server.post_bytes("/api/v1/enqueue", small).body["job_id"].as_str().expect("an id").to_owned();
    let page = |payload: &str| {
        let request = json!({"queue": "mail", "payload": payload, "preview_chars": 5, "order": "asc"});
        let answer = server.post("/api/v1/jobs/search", &request);
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body["jobs"].clone()
    };
    let preview = page("preview");
    let expected = json!({"text": "\"\u{e9}xxx", "encoding": "text", "size_bytes": 300_004, "truncated": true});
    assert_eq!((&preview[0]["payload_preview"], &preview[0]["payload_size"]), (&expected, &json!(300_004)));
    assert_eq!(preview[0].get("payload"), None);
    let none = page("none");
    assert_eq!((none[0].get("payload"), none[0].get("payload_preview")), (None, None));
    assert_eq!(none[0]["payload_size"], 300_004);
    assert_eq!(page("full")[0]["payload"], Value::Null, "it is a file");

    let job = server.get(&format!("/api/v1/jobs/{large}?payload=preview&preview_chars=3")).body;
    assert_eq!((&job["payload_preview"]["text"], job.get("payload")), (&json!("\"\u{e9}x"), None));
    assert_eq!((&job["result_preview"], &job["checkpoint_preview"]), (&Value::Null, &Value::Null));
    let job = server.get(&format!("/api/v1/jobs/{small}?payload=preview")).body;
    assert_eq!(job["payload_preview"]["text"], "{\"n\":12345678901234567890}");
    assert_eq!(job["payload_preview"]["truncated"], false);
    let job = server.get(&format!("/api/v1/jobs/{large}?payload=none")).body;
    assert!(job.get("payload").is_none() && job.get("payload_preview").is_none(), "{job}");
    assert_eq!(server.job(&large)["payload"], json!(text));
    for wrong in ["payload=half", "payload=preview&preview_chars=0", "payload=preview&preview_chars=65537"] {
        assert_eq!(server.get(&format!("/api/v1/jobs/{large}?{wrong}")).status, 400, "{wrong}");
    }
}

#[test]
fn jobs_are_found_and_sorted_by_when_they_are_due_and_when_they_failed() {
    let server = Server::start();
    let later = server.enqueue(&json!({"queue": "q", "scheduled_at": "2036-01-01T00:00:00Z", "limit_key": "t1"}));
    let sooner = server.enqueue(&json!({"queue": "q", "scheduled_at": "2035-01-01T00:00:00Z"}));
    let gone = server.enqueue(&json!({"queue": "q"}));
    server.post(&format!("/api/v1/jobs/{gone}/cancel"), &json!({}));
    let find = |request: Value| {
        let answer = server.post("/api/v1/jobs/search", &request);
        assert_eq!(answer.status, 200, "{answer:?}");
        let jobs = answer.body["jobs"].as_array().expect("jobs").iter();
        jobs.map(|job| job["id"].as_str().expect("an id").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(find(json!({"sort": "scheduled_at", "order": "asc"})), [&*sooner, &*later, &*gone]);
    assert_eq!(find(json!({"sort": "failed_at"}))[0], gone);
    assert_eq!(find(json!({"sort": "since", "limit": 1})), [&*gone]);
    assert_eq!(find(json!({"failed_after": "2020-01-01T00:00:00Z"})), [&*gone]);
    assert_eq!(find(json!({"failed_before": "2020-01-01T00:00:00Z"})), [""; 0]);
    assert_eq!(find(json!({"limit_key": "t1"})), [&*later]);
    assert_eq!(find(json!({"round": 1})), [""; 0]);
    assert_eq!(find(json!({"schedule": "nightly"})), [""; 0]);
}
