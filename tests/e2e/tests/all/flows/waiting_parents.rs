//! A handler in a plugin that waits for its children.

use serde_json::{Value, json};
use windlass_e2e::{Server, eventually, plugin};

/// A new server with the plugin `hostile` and a parent that waits.
fn parent(children: u32, then: &str) -> (Server, String) {
    let server = Server::start();
    let manifest = json!({"queues": ["parents"], "capabilities": {"spawn": ["more"]}}).to_string();
    let answer = server.upload_with("/api/v1/plugins/hostile", &plugin("hostile"), &manifest);
    assert_eq!(answer.status, 201, "{answer:?}");
    let grant = json!({"spawn": ["more"]}).to_string();
    assert_eq!(server.put("/api/v1/plugins/hostile/grant", grant.as_bytes()).status, 200);
    let payload = json!({"try": "wait", "children": children, "then": then});
    let id = server.enqueue(&json!({"queue": "parents", "payload": payload, "max_attempts": 1}));
    (server, id)
}

/// Ends one child, as an external worker.
fn end_child(server: &Server, ack: &Value) {
    let fetched = server.post("/api/v1/fetch", &json!({"queues": ["more"], "timeout": "10s"}));
    assert_eq!(fetched.status, 200, "{fetched:?}");
    let id = fetched.body["job_id"].as_str().expect("an id").to_owned();
    assert_eq!(server.post(&format!("/api/v1/ack/{id}"), ack).status, 200);
}

#[test]
fn a_handler_waits_through_a_crash_and_reads_the_results_of_its_children() {
    let (server, id) = parent(3, "complete");
    let job = server.wait_for(&id, "blocked");
    assert_eq!((&job["waits_for"]["count"], &job["checkpoint"]), (&json!(3), &json!("begun")), "{job}");
    assert_eq!((&job["failures"], job["result"].is_null()), (&json!(0), true), "what such a run gives back is ignored");
    end_child(&server, &json!({"result": 5}));
    let server = Server::start_on(&server.kill_9(), &[]);
    assert_eq!(server.job(&id)["state"], "blocked");
    for result in [6, 7] {
        end_child(&server, &json!({"result": result}));
    }
    let job = server.wait_for(&id, "completed");
    assert_eq!((&job["result"], &job["attempt"]), (&json!("3 joined, 18 in all, "), &json!(2)), "{job}");
    assert_eq!((&job["crashes"], &job["failures"]), (&json!(0), &json!(0)), "it waited in no process");
}

#[test]
fn a_handler_without_children_continues_immediately() {
    let (server, id) = parent(0, "wait");
    let job = server.wait_for(&id, "completed");
    assert_eq!((&job["result"], &job["attempt"]), (&json!("0 joined, 0 in all, "), &json!(2)), "{job}");
}

#[test]
fn a_handler_that_fails_after_a_wait_is_dead_and_has_no_children() {
    for then in ["fail", "trap"] {
        let (server, id) = parent(2, then);
        let job = server.wait_for(&id, "dead");
        assert!(job["errors"][0]["error"].as_str().is_some_and(|error| error.contains("after all")), "{job}");
        assert_eq!(job.get("children"), None, "{then}: {job}");
    }
}

#[test]
fn cancelling_a_handler_that_waits_cancels_its_children() {
    let (server, id) = parent(3, "wait");
    server.wait_for(&id, "blocked");
    assert_eq!(server.post(&format!("/api/v1/jobs/{id}/cancel"), &json!({})).status, 200);
    server.wait_for(&id, "cancelled");
    eventually("its children are cancelled", || {
        let page = server.get(&format!("/api/v1/jobs/{id}/children")).body;
        (page["cancelled"] == 3).then_some(())
    });
}

/// Fetches a job as an external worker.
fn fetch(server: &Server, queue: &str) -> String {
    let fetched = server.post("/api/v1/fetch", &json!({"queues": [queue], "timeout": "10s"}));
    assert_eq!(fetched.status, 200, "{fetched:?}");
    fetched.body["job_id"].as_str().expect("an id").to_owned()
}

/// A child that dies with this error.
fn dead_child(server: &Server, error: &str) -> String {
    let child = fetch(server, "resize");
    assert_eq!(server.post(&format!("/api/v1/fail/{child}"), &json!({"error": error})).status, 200);
    server.wait_for(&child, "dead");
    child
}

/// A parent in an external worker, with three children that have one attempt each.
fn parent_of_three(server: &Server) -> String {
    let parent = server.enqueue(&json!({"queue": "parents"}));
    assert_eq!(fetch(server, "parents"), parent);
    for n in 0..3 {
        server.enqueue(&json!({"queue": "resize", "parent_id": parent, "max_attempts": 1, "payload": {"n": n}}));
    }
    parent
}

fn assert_error(server: &Server, parent: &str, expected: &str) {
    let job = server.wait_for(parent, "dead");
    assert_eq!(job["last_error"], expected, "{job:#}");
    let last = job["timeline"].as_array().and_then(|steps| steps.last()).expect("a timeline");
    assert_eq!(last["reason"], expected);
}

#[test]
fn a_parent_that_fails_with_its_children_names_one_its_error_and_how_many_more() {
    let server = Server::start();
    let wait = json!({"wait": "children"});
    let parent = parent_of_three(&server);
    assert_eq!(server.post(&format!("/api/v1/ack/{parent}"), &wait).status, 200);
    server.wait_for(&parent, "blocked");
    let child = dead_child(&server, "connection refused");
    assert_error(&server, &parent, &format!("child {child} (queue resize) failed: connection refused"));
    eventually("the others are cancelled", || (server.queue("resize")["pending"] == 0).then_some(()));

    // Two have failed before it starts to wait.
    let parent = parent_of_three(&server);
    dead_child(&server, "no route to host");
    let child = dead_child(&server, "disk full");
    assert_eq!(server.post(&format!("/api/v1/ack/{parent}"), &wait).status, 200);
    let expected = format!("child {child} (queue resize) failed: disk full; 1 more child failed");
    assert_error(&server, &parent, &expected);
}
