//! Work that is more than one job, through the real server: dependencies and batches.

use serde_json::{Value, json};
use windlass_e2e::{Server, eventually};

/// Fetches one job of a queue and completes it.
fn work(server: &Server, queue: &str) -> String {
    let fetched = server.post("/api/v1/fetch", &json!({"queues": [queue], "worker_id": "w", "timeout": 30}));
    assert_eq!(fetched.status, 200, "{fetched:?}");
    let id = fetched.body["job_id"].as_str().expect("an id").to_owned();
    assert_eq!(server.post(&format!("/api/v1/ack/{id}"), &json!({"result": id})).status, 200);
    id
}

/// Fetches one job of a queue and lets it die.
fn die(server: &Server, queue: &str) -> String {
    let fetched = server.post("/api/v1/fetch", &json!({"queues": [queue], "worker_id": "w", "timeout": 30}));
    assert_eq!(fetched.status, 200, "{fetched:?}");
    let id = fetched.body["job_id"].as_str().expect("an id").to_owned();
    let failed = server.post(&format!("/api/v1/fail/{id}"), &json!({"error": "no"}));
    assert_eq!(failed.body["status"], "dead", "{failed:?}");
    id
}

fn state(server: &Server, id: &Value) -> Value {
    server.job(id.as_str().expect("an id"))["state"].clone()
}

fn becomes(server: &Server, id: &Value, wanted: &str) {
    eventually(&format!("{id} becomes {wanted}"), || (state(server, id) == wanted).then_some(()));
}

#[test]
fn a_graph_of_one_request_runs_in_its_order() {
    let server = Server::start();
    let graph = json!({"jobs": [
        {"name": "last", "queue": "c", "depends_on": ["left", "right"]},
        {"name": "first", "queue": "a"},
        {"name": "left", "queue": "b", "depends_on": ["first"]},
        {"name": "right", "queue": "b", "depends_on": ["first"]},
    ]});
    let answer = server.post("/api/v1/enqueue/batch", &graph);
    assert_eq!(answer.status, 201, "{answer:?}");
    let ids = answer.body["job_ids"].as_array().expect("ids").clone();
    let states: Vec<&Value> = answer.body["jobs"].as_array().expect("jobs").iter().map(|job| &job["state"]).collect();
    assert_eq!(states, ["blocked", "pending", "blocked", "blocked"]);
    let last = server.job(ids[0].as_str().expect("an id"));
    let mut both = [&ids[2], &ids[3]];
    both.sort_by_key(|id| id.to_string());
    assert_eq!((&last["depends_on"], &last["waits_for"]["count"]), (&json!(both), &json!(2)), "{last}");
    assert_eq!(last["waits_for"]["jobs"], json!(both));

    work(&server, "a");
    work(&server, "b");
    assert_eq!(state(&server, &ids[0]), "blocked");
    work(&server, "b");
    work(&server, "c");
    let last = server.job(ids[0].as_str().expect("an id"));
    assert_eq!((&last["state"], last.get("waits_for")), (&json!("completed"), None));
    // A dependency that has completed holds nobody up.
    let later = server.enqueue(&json!({"queue": "d", "depends_on": [ids[0]]}));
    assert_eq!(server.job(&later)["state"], "pending");
}

#[test]
fn what_a_failed_dependency_does_is_the_dependants_choice() {
    let server = Server::start();
    let on = server.enqueue(&json!({"queue": "a", "max_retries": 1}));
    let with = |policy: &str| json!({"queue": "b", "depends_on": [on], "on_dependency_failure": policy});
    let mut jobs = vec![json!({"queue": "b", "depends_on": [on]})];
    jobs.extend(["fail", "cancel", "continue"].map(with));
    let ids = server.post("/api/v1/enqueue/batch", &json!({"jobs": jobs})).body["job_ids"].clone();
    let next = server.enqueue(&json!({"queue": "b", "depends_on": [ids[2]]}));
    assert_eq!(die(&server, "a"), on);
    for (index, wanted) in ["cancelled", "dead", "cancelled", "pending"].into_iter().enumerate() {
        becomes(&server, &ids[index], wanted);
    }
    becomes(&server, &json!(next), "cancelled");
    let dead = server.job(ids[1].as_str().expect("an id"));
    let reason = dead["timeline"].as_array().and_then(|steps| steps.last()).expect("a history")["reason"].clone();
    assert_eq!(reason, format!("dependency {on} is dead"));
}

#[test]
fn a_graph_that_cannot_be_is_refused_whole() {
    let server = Server::start();
    let circle = json!({"jobs": [
        {"name": "a", "queue": "q", "depends_on": ["b"]}, {"name": "b", "queue": "q", "depends_on": ["a"]}, {"queue": "q"},
    ]});
    let cases = [
        (circle, "circle"),
        (json!({"jobs": [{"queue": "q", "depends_on": ["x"]}]}), "neither a job id nor the `name`"),
        (json!({"jobs": [{"name": "a", "queue": "q"}, {"name": "a", "queue": "q"}]}), "already"),
        (
            json!({"jobs": [{"queue": "q"}, {"queue": "q", "depends_on": ["job_01JQ8ZK3V7N3W5X9Y1A2B3C4D5"]}]}),
            "there is no job",
        ),
        (json!({"queue": "q", "batch_id": "b1"}), "POST /batch"),
    ];
    for (body, says) in cases {
        let answer = server.post("/api/v1/enqueue", &body);
        let error = answer.body["error"].as_str().unwrap_or_default();
        assert_eq!((answer.status, error.contains(says)), (400, true), "{body} gives {answer:?}");
    }
    assert_eq!(server.get("/api/v1/jobs").body["jobs"], json!([]));
}

#[test]
fn a_batch_calls_back_once_with_its_numbers_even_when_the_server_is_killed() {
    let server = Server::start();
    let batch = json!({
        "jobs": [{"queue": "m", "max_retries": 1}, {"queue": "m", "max_retries": 1}, {"queue": "m"}],
        "batch": {"callback_queue": "done", "callback_payload": {"report": 7}},
    });
    let made = server.post("/api/v1/enqueue/batch", &batch);
    assert_eq!(made.status, 201, "{made:?}");
    let id = made.body["batch_id"].as_str().expect("an id").to_owned();
    work(&server, "m");
    let server = Server::start_on(&server.kill_9(), &[]);
    die(&server, "m");
    let now = server.get(&format!("/api/v1/batch/{id}")).body;
    assert_eq!(
        (&now["state"], &now["pending"], &now["succeeded"], &now["failed"]),
        (&json!("running"), &json!(1), &json!(1), &json!(1)),
        "{now}"
    );
    let last = work(&server, "m");
    let server = Server::start_on(&server.kill_9(), &[]);
    let now = server.get(&format!("/api/v1/batch/{id}")).body;
    assert_eq!((&now["state"], &now["percent"]), (&json!("finished"), &json!(100.0)), "{now}");
    let callback = server.job(now["callback_job"].as_str().expect("a callback"));
    assert_eq!((&callback["queue"], &callback["callback_of"]), (&json!("done"), &json!(id)));
    let told = json!({"batch_id": id, "total": 3, "succeeded": 2, "failed": 1, "cancelled": 0, "report": 7});
    assert_eq!(callback["payload"], told);

    // A member that is retried calls nobody back.
    assert_eq!(server.post(&format!("/api/v1/jobs/{last}/retry"), &json!({})).status, 200);
    assert_eq!(server.get(&format!("/api/v1/batch/{id}")).body["pending"], 1);
    work(&server, "m");
    let all = server.get("/api/v1/jobs?queue=done").body["jobs"].as_array().expect("jobs").len();
    assert_eq!(all, 1);
}

#[test]
fn an_open_batch_takes_jobs_until_it_is_sealed() {
    let server = Server::start();
    let made = server.post("/api/v1/batch", &json!({"callback_queue": "done"}));
    assert_eq!(made.status, 201, "{made:?}");
    let id = made.body["batch_id"].as_str().expect("an id").to_owned();
    let member = server.enqueue(&json!({"queue": "m", "batch_id": id}));
    assert_eq!(server.job(&member)["batch_id"], json!(id));
    work(&server, "m");
    let open = server.get(&format!("/api/v1/batch/{id}")).body;
    assert_eq!((&open["state"], &open["succeeded"], open.get("callback_job")), (&json!("open"), &json!(1), None));
    for _ in 0..2 {
        let sealed = server.post(&format!("/api/v1/batch/{id}/seal"), &json!({}));
        assert_eq!((sealed.status, &sealed.body["state"]), (200, &json!("finished")), "{sealed:?}");
        assert!(sealed.body["callback_job"].is_string(), "{sealed:?}");
    }
    let late = server.post("/api/v1/enqueue", &json!({"queue": "m", "batch_id": id}));
    assert!(late.status == 400 && late.body["error"].as_str().is_some_and(|why| why.contains("sealed")), "{late:?}");
    assert_eq!(server.post("/api/v1/batch/batch_x/seal", &json!({})).status, 404);
    assert_eq!(server.get("/api/v1/batch/batch_x").status, 404);
    let wrong = server.post("/api/v1/batch", &json!({"callback_payload": 1}));
    assert_eq!((wrong.status, &wrong.body["code"]), (400, &json!("VALIDATION_ERROR")));
}
