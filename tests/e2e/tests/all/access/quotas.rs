//! Quotas: no request gets around them, and what a namespace has is counted for all its keys together.

use serde_json::json;
use windlass_e2e::{Client, Server, eventually};

use super::{client_of, make_namespace};

#[track_caller]
fn refused(answer: &windlass_e2e::Answer) {
    assert_eq!((answer.status, &answer.body["code"]), (429, &json!("QUOTA_EXCEEDED")), "{answer:?}");
}

#[test]
fn no_request_makes_more_queues_than_the_quota_allows() {
    let server = Server::start();
    make_namespace(&server, "small", &json!({"queues": 1}));
    let small = client_of(&server, "admin", "small");
    let id = small.enqueue(&json!({"queue": "mail"}));
    refused(&small.post(&format!("/api/v1/jobs/{id}/move"), &json!({"queue": "other"})));
    refused(&small.post("/api/v1/queues/other/concurrency", &json!({"max": 1})));
    refused(&small.post("/api/v1/queues/other/pause", &json!({})));
    refused(&small.post("/api/v1/schedules", &json!({"name": "n", "queue": "other", "cron": "@daily"})));
    refused(&small.put("/api/v1/plugins/digest?queues=other", &windlass_e2e::plugin("digest")));
    let bulk = json!({"action": "move", "move_to_queue": "other", "job_ids": [id]});
    assert_eq!(small.post("/api/v1/jobs/bulk", &bulk).body["affected"], 0);
    let queues = small.get("/api/v1/queues").body;
    assert_eq!(queues.as_array().map(Vec::len), Some(1), "{queues}");
    assert_eq!(small.post("/api/v1/queues/mail/concurrency", &json!({"max": 1})).status, 200, "its own queue");
    assert_eq!(small.post("/api/v1/schedules", &json!({"name": "n", "queue": "mail", "cron": "@daily"})).status, 201);
}

#[test]
fn ended_jobs_are_not_taken_up_again_and_payloads_do_not_grow_beyond_the_quotas() {
    let server = Server::start();
    make_namespace(&server, "small", &json!({"open_jobs": 1, "stored_bytes": 1_000}));
    let small = client_of(&server, "admin", "small");
    let first = small.enqueue(&json!({"queue": "mail"}));
    assert_eq!(small.post(&format!("/api/v1/jobs/{first}/cancel"), &json!({})).status, 200);
    let second = small.enqueue(&json!({"queue": "mail"}));
    refused(&small.post(&format!("/api/v1/jobs/{first}/retry"), &json!({})));
    refused(&small.patch(&format!("/api/v1/jobs/{second}"), &json!({"payload": "x".repeat(2_000)})));
    assert_eq!(small.patch(&format!("/api/v1/jobs/{second}"), &json!({"payload": "small"})).status, 200);
    let schedule = json!({"name": "n", "queue": "mail", "cron": "@daily"});
    assert_eq!(small.post("/api/v1/schedules", &schedule).status, 201);
    let ran = small.post("/api/v1/schedules/n/run", &json!({}));
    assert_eq!((&ran.body["status"], &ran.body["job_id"]), (&json!("skipped"), &json!(null)), "{ran:?}");
    assert!(ran.body["skipped"]["message"].as_str().is_some_and(|why| why.contains("quota")), "{ran:?}");
    assert_eq!(small.post(&format!("/api/v1/jobs/{second}/cancel"), &json!({})).status, 200);
    assert_eq!(small.post(&format!("/api/v1/jobs/{first}/retry"), &json!({})).status, 200);
}

#[test]
fn requests_of_all_keys_of_a_namespace_count_together() {
    let server = Server::start();
    make_namespace(&server, "small", &json!({"requests": {"rate": 4, "period": "1h"}}));
    let keys = [client_of(&server, "viewer", "small"), client_of(&server, "operator", "small")];
    for client in keys.iter().cycle().take(4) {
        assert_eq!(client.get("/api/v1/queues").status, 200);
    }
    for client in &keys {
        let refused = client.get("/api/v1/queues");
        assert_eq!((refused.status, &refused.body["code"]), (429, &json!("RATE_LIMITED")), "{refused:?}");
    }
    assert_eq!(server.get("/api/v1/queues").status, 200, "others are not limited");
}

#[test]
fn a_namespace_runs_no_more_attempts_at_once_than_its_slots() {
    let server = Server::start();
    make_namespace(&server, "small", &json!({"slots": 1}));
    let small = client_of(&server, "admin", "small");
    let upload = |client: &Client| {
        let uploaded = client.put("/api/v1/plugins/hostile?queues=hostile", &windlass_e2e::plugin("hostile"));
        assert_eq!(uploaded.status, 201, "{uploaded:?}");
    };
    upload(&small);
    upload(&server);
    let sleeper = json!({"queue": "hostile", "payload": {"try": "sleep", "ms": 600_000}});
    let ids = [small.enqueue(&sleeper), small.enqueue(&sleeper)];
    small.wait_for(&ids[0], "active");
    // Somebody else's job starts and ends meanwhile.
    let other = server.enqueue(&json!({"queue": "hostile", "payload": {"try": "nothing"}}));
    server.wait_for(&other, "completed");
    assert_eq!(small.job(&ids[1])["state"], "pending");
    assert_eq!(small.post(&format!("/api/v1/jobs/{}/cancel", ids[0]), &json!({"grace": "0s"})).status, 200);
    eventually("the other one starts", || (small.job(&ids[1])["state"] == "active").then_some(()));
}
