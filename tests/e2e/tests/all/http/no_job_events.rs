//! Events about queues, schedules, bulk operations and workers, on the stream that tells of jobs.

use serde_json::{Value, json};
use windlass_e2e::{Client, Server};

use crate::access::client_of;

/// All events of these types so far.
fn told(client: &Client, types: &[&str]) -> Vec<Value> {
    let last = client.enqueue(&json!({"queue": "marks"}));
    let events = client.events("/api/v1/events?last_event_id=0");
    let until = events.take_while(|event| event.data["job_id"] != json!(last));
    until.map(|event| event.data).filter(|data| types.iter().any(|kind| data["type"] == *kind)).collect()
}

fn post(server: &Client, path: &str, body: &Value) -> Value {
    let answer = server.post(&format!("/api/v1{path}"), body);
    assert!((200..300).contains(&answer.status), "{path}: {answer:?}");
    answer.body
}

/// What an event says besides when it happened.
fn said(event: &Value) -> Value {
    let mut said = event.clone();
    for field in ["seq", "at", "at_ns"] {
        assert!(said.as_object_mut().and_then(|fields| fields.remove(field)).is_some(), "{field}: {event}");
    }
    said
}

#[test]
fn queues_and_schedules_tell_of_changes_and_of_nothing_else() {
    let server = Server::start();
    post(&server, "/queues/mail/settings", &json!({"max_concurrency": 4}));
    for action in ["pause", "pause", "resume", "drain"] {
        post(&server, &format!("/queues/mail/{action}"), &json!({}));
    }
    post(&server, "/queues/mail/concurrency", &json!({"max": 4}));
    let told_of_queues = told(&server, &["queue.paused", "queue.resumed", "queue.changed", "queue.removed"]);
    let expected = json!([
        {"type": "queue.changed", "queue": "mail", "data": {"fields": "max_concurrency"}},
        {"type": "queue.paused", "queue": "mail", "data": {"draining": false}},
        {"type": "queue.resumed", "queue": "mail", "data": {}},
        {"type": "queue.paused", "queue": "mail", "data": {"draining": true}},
    ]);
    assert_eq!(Value::Array(told_of_queues.iter().map(said).collect()), expected);
    assert_eq!(server.delete("/api/v1/queues/mail?confirm=true").status, 200);
    assert_eq!(told(&server, &["queue.removed"]).len(), 1);

    let schedule = json!({"name": "nightly", "queue": "reports", "cron": "30 2 * * *", "overlap": "skip"});
    post(&server, "/schedules", &schedule);
    assert_eq!(server.put("/api/v1/schedules/nightly", schedule.to_string().as_bytes()).status, 200);
    post(&server, "/schedules/nightly/run", &json!({}));
    post(&server, "/schedules/nightly/run", &json!({}));
    post(&server, "/schedules/nightly/pause", &json!({}));
    assert_eq!(server.delete("/api/v1/schedules/nightly").status, 200);
    let kinds = ["created", "changed", "ran", "skipped", "paused", "removed"].map(|kind| format!("schedule.{kind}"));
    let all = told(&server, &kinds.each_ref().map(String::as_str));
    let names: Vec<&Value> = all.iter().map(|event| &event["type"]).collect();
    let wanted = ["schedule.created", "schedule.ran", "schedule.skipped", "schedule.paused", "schedule.removed"];
    assert_eq!(names, wanted, "{all:?}");
    assert!(all.iter().all(|event| event["schedule"] == "nightly" && event["queue"] == "reports"), "{all:?}");
    let job = all[1]["data"]["job_id"].as_str().expect("the job of the run");
    assert_eq!(server.job(job)["queue"], "reports");
    assert!(all[2]["data"]["reason"].as_str().is_some_and(|why| why.contains(job)), "{}", all[2]);
}

#[test]
fn bulk_operations_and_workers_tell_what_they_do_to_those_of_their_namespace() {
    let server = Server::start();
    let ids = [(); 3].map(|()| server.enqueue(&json!({"queue": "mail"})));
    post(&server, "/jobs/bulk", &json!({"action": "cancel", "job_ids": ids}));
    let all = told(&server, &["bulk.started", "bulk.completed"]);
    let numbers = |event: &Value| {
        assert!(event["bulk_id"].as_str().is_some_and(|id| id.starts_with("bulk_")), "{event}");
        let data = &event["data"];
        ["action", "total", "processed", "affected", "errors"].map(|field| data[field].clone())
    };
    let expected = [json!(["cancel", 3, 0, 0, 0]), json!(["cancel", 3, 3, 3, 0])];
    assert_eq!(all.iter().map(|event| json!(numbers(event))).collect::<Vec<_>>(), expected, "{all:?}");

    let fetch = json!({"queues": ["mail"], "worker_id": "w1", "hostname": "build-3", "timeout": 0});
    for _ in 0..2 {
        assert_eq!(server.post("/api/v1/fetch", &fetch).status, 204);
    }
    for action in ["drain", "drain", "resume"] {
        post(&server, &format!("/workers/w1/{action}"), &json!({}));
    }
    let all = told(&server, &["worker.connected", "worker.drained", "worker.resumed"]);
    let of_w1 = |kind: &str| json!({"type": kind, "worker_id": "w1", "queue": "mail", "data": {"hostname": "build-3"}});
    let expected = ["worker.connected", "worker.drained", "worker.resumed"].map(of_w1);
    assert_eq!(all.iter().map(said).collect::<Vec<_>>(), expected);

    crate::access::make_namespace(&server, "acme", &json!({}));
    let acme = client_of(&server, "admin", "acme");
    assert_eq!(told(&acme, &["bulk.started", "worker.connected"]), Vec::<Value>::new());
}
