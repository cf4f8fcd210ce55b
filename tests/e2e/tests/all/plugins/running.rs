//! Jobs that run in plugins: to the end, until cancelled, and as soon as a plugin serves their queue.

use serde_json::{Value, json};
use windlass_e2e::{Server, eventually, plugin};

fn slow_job() -> Value {
    json!({"queue": "digest", "payload": {"generate_mb": 10_000, "pause_ms": 50}})
}

#[test]
fn a_job_runs_in_its_plugin_and_everything_about_it_can_be_read() {
    let server = Server::start();
    server.upload("digest", "digest");
    let answer = server.post("/api/v1/enqueue", &json!({"queue": "digest", "payload": {"text": "hello"}}));
    assert_eq!(answer.status, 201, "{answer:?}");
    let id = answer.body["job_id"].as_str().expect("an id").to_owned();
    assert_eq!(answer.body["status"], "pending");
    assert_eq!(answer.body["unique_existing"], false);
    assert_eq!(answer.body["job"]["id"], id.as_str());
    assert_eq!(answer.body["job_url"], format!("/api/v1/jobs/{id}"));

    let job = server.wait_for(&id, "completed");
    assert_eq!(job["result"]["sha256"], "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824");
    assert_eq!(job["payload"], json!({"text": "hello"}));
    assert_eq!(job["progress"]["message"], "step 1 of 1");
    assert_eq!((&job["progress"]["current"], &job["progress"]["total"]), (&json!(5), &json!(5)));
    assert_eq!(job["checkpoint"]["steps_done"], 1);
    assert_eq!((&job["attempt"], &job["errors"]), (&json!(1), &json!([])));
    let reasons: Vec<&Value> = job["timeline"].as_array().expect("a list").iter().map(|step| &step["reason"]).collect();
    assert_eq!(reasons, ["enqueued", "started", "completed"]);
    assert_eq!(server.queue("digest")["completed"], 1);
}

#[test]
fn a_queue_without_a_plugin_accepts_jobs_and_runs_them_once_the_plugin_is_uploaded() {
    let server = Server::start();
    let id = server.enqueue(&json!({"queue": "later", "payload": {"text": "patience"}}));
    let queue = server.queue("later");
    assert_eq!((&queue["served_by"], &queue["pending"]), (&Value::Null, &json!(1)));
    server.upload("digest", "later");
    server.wait_for(&id, "completed");
    assert_eq!(server.queue("later")["served_by"], "digest");
}

#[test]
fn a_running_job_is_cancelled_and_its_handler_stops_by_itself() {
    let server = Server::start();
    server.upload("digest", "digest");
    let id = server.enqueue(&slow_job());
    eventually("it has saved a step", || server.job(&id)["checkpoint"].is_object().then_some(()));
    let answer = server.post(&format!("/api/v1/jobs/{id}/cancel"), &json!({"reason": "no longer needed"}));
    assert_eq!((answer.status, &answer.body), (200, &json!({"status": "cancelling"})));
    let job = server.wait_for(&id, "cancelled");
    assert_eq!(job["failures"], 0);
    let last = job["timeline"].as_array().and_then(|steps| steps.last()).cloned().expect("a last step");
    assert_eq!((&last["state"], &last["reason"]), (&json!("cancelled"), &json!("no longer needed")));
    assert!(last["wall_ms"].as_u64() > Some(0) && last["plugin"] == "digest", "{last:#}");
    assert_eq!(job["attempt_usage"]["wall_ms"], last["wall_ms"]);
    let log = server.get(&format!("/api/v1/jobs/{id}/logs")).body.to_string();
    assert!(!log.contains("by force"), "{log}");

    let again = server.post(&format!("/api/v1/jobs/{id}/cancel"), &json!({}));
    assert_eq!((again.status, &again.body["code"]), (400, &json!("CANCEL_ERROR")));
}

#[test]
fn a_cancelled_job_that_is_retried_continues_from_its_checkpoint() {
    let server = Server::start();
    server.upload("digest", "digest");
    let id = server.enqueue(&json!({"queue": "digest", "payload": {"generate_mb": 30, "pause_ms": 50}}));
    eventually("it has saved a step", || server.job(&id)["checkpoint"].is_object().then_some(()));
    server.post(&format!("/api/v1/jobs/{id}/cancel"), &json!({}));
    server.wait_for(&id, "cancelled");
    let answer = server.post(&format!("/api/v1/jobs/{id}/retry"), &json!({}));
    assert_eq!((answer.status, &answer.body), (200, &json!({"status": "retried"})));
    let job = eventually("it completes", || {
        let job = server.job(&id);
        (job["state"] == "completed").then_some(job)
    });
    assert!(job["result"]["steps_run"].as_u64() < Some(30), "{:#}", job["result"]);
}

#[test]
fn a_running_job_that_is_deleted_is_removed_once_its_handler_has_stopped() {
    let server = Server::start();
    server.upload("digest", "digest");
    let id = server.enqueue(&slow_job());
    eventually("it runs", || (server.job(&id)["state"] == "active").then_some(()));
    assert_eq!(server.delete(&format!("/api/v1/jobs/{id}")).body, json!({"status": "deleted"}));
    eventually("it is gone", || (server.get(&format!("/api/v1/jobs/{id}")).status == 404).then_some(()));
}

#[test]
fn an_attempt_that_takes_too_long_is_stopped_and_counted() {
    let server = Server::start();
    server.upload("digest", "digest");
    let mut job = slow_job();
    job["attempt_timeout"] = json!("300ms");
    job["max_attempts"] = json!(1);
    let id = server.enqueue(&job);
    let job = server.wait_for(&id, "dead");
    assert_eq!((&job["attempt"], &job["failures"]), (&json!(1), &json!(1)));
    assert_eq!(job["errors"].as_array().map(Vec::len), Some(1), "{job:#}");
}

#[test]
fn a_handler_that_fails_permanently_leaves_a_dead_job_with_its_message() {
    let server = Server::start();
    server.upload("digest", "digest");
    let id = server.enqueue(&json!({"queue": "digest", "payload": {}}));
    let job = server.wait_for(&id, "dead");
    assert_eq!(job["attempt"], 1, "no second try");
    let error = job["errors"][0]["error"].as_str().expect("an error");
    assert!(error.contains("nothing to hash"), "{error}");
    assert_eq!(job["errors"][0]["plugin"], "digest");
}

#[test]
fn uploading_the_same_bytes_again_creates_no_version_and_leaves_the_queues_unchanged() {
    let server = Server::start();
    let bytes = plugin("digest");
    let first = server.put("/api/v1/plugins/digest?queues=a,b", &bytes);
    assert_eq!((first.status, &first.body["new_version"]), (201, &json!(true)));
    let again = server.put("/api/v1/plugins/digest", &bytes);
    assert_eq!((again.status, &again.body["new_version"]), (200, &json!(false)));
    assert_eq!(again.body["queues"], json!(["a", "b"]));
    assert_eq!(again.body["version"], first.body["version"]);
    let plugins = server.get("/api/v1/plugins").body;
    assert_eq!(plugins["plugins"].as_array().map(Vec::len), Some(1));
    assert_eq!(server.get("/api/v1/plugins/digest").body["versions"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_plugin_serves_the_queue_of_its_own_name_unless_told_otherwise() {
    let server = Server::start();
    assert_eq!(server.put("/api/v1/plugins/digest", &plugin("digest")).status, 201);
    assert_eq!(server.queue("digest")["served_by"], "digest");
}
