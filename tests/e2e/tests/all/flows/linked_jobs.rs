//! Flows through the real server: dependencies, batches, children and chains.

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
    // A completed dependency does not block.
    let later = server.enqueue(&json!({"queue": "d", "depends_on": [ids[0]]}));
    assert_eq!(server.job(&later)["state"], "pending");
}

#[test]
fn the_dependant_chooses_what_a_failed_dependency_does() {
    let server = Server::start();
    let on = server.enqueue(&json!({"queue": "a", "max_attempts": 1}));
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
fn an_impossible_graph_is_refused_as_a_whole() {
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
        (json!({"queue": "q", "batch_id": "b1"}), "there is no batch `b1`"),
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
        "jobs": [{"queue": "m", "max_attempts": 1}, {"queue": "m", "max_attempts": 1}, {"queue": "m"}],
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
        (&now["state"], &now["open"], &now["completed"], &now["dead"]),
        (&json!("running"), &json!(1), &json!(1), &json!(1)),
        "{now}"
    );
    let last = work(&server, "m");
    let server = Server::start_on(&server.kill_9(), &[]);
    let now = server.get(&format!("/api/v1/batch/{id}")).body;
    assert_eq!((&now["state"], &now["percent"]), (&json!("finished"), &json!(100.0)), "{now}");
    let callback = server.job(now["callback_job"].as_str().expect("a callback"));
    assert_eq!((&callback["queue"], &callback["callback_of"]), (&json!("done"), &json!(id)));
    let told = json!({"batch_id": id, "total": 3, "completed": 2, "dead": 1, "cancelled": 0, "report": 7,
        "succeeded": 2, "failed": 1});
    assert_eq!(callback["payload"], told);

    // Retrying a member does not trigger the callback again.
    assert_eq!(server.post(&format!("/api/v1/jobs/{last}/retry"), &json!({})).status, 200);
    assert_eq!(server.get(&format!("/api/v1/batch/{id}")).body["open"], 1);
    work(&server, "m");
    let all = server.get("/api/v1/jobs?queue=done").body["jobs"].as_array().expect("jobs").len();
    assert_eq!(all, 1);
}

#[test]
fn an_open_batch_accepts_jobs_until_it_is_sealed() {
    let server = Server::start();
    let made = server.post("/api/v1/batch", &json!({"callback_queue": "done"}));
    assert_eq!(made.status, 201, "{made:?}");
    let id = made.body["batch_id"].as_str().expect("an id").to_owned();
    let member = server.enqueue(&json!({"queue": "m", "batch_id": id}));
    assert_eq!(server.job(&member)["batch_id"], json!(id));
    work(&server, "m");
    let open = server.get(&format!("/api/v1/batch/{id}")).body;
    assert_eq!((&open["state"], &open["completed"], open.get("callback_job")), (&json!("open"), &json!(1), None));
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

fn fetch(server: &Server, queue: &str) -> Value {
    let fetched = server.post("/api/v1/fetch", &json!({"queues": [queue], "worker_id": "w", "timeout": 30}));
    assert_eq!(fetched.status, 200, "{fetched:?}");
    fetched.body
}

#[test]
fn a_parent_waits_for_its_children_and_reads_their_results() {
    let server = Server::start();
    let id = server.enqueue(&json!({"queue": "p"}));
    let first = fetch(&server, "p");
    assert_eq!(first.get("children"), None);
    let children: Vec<Value> = (0..3).map(|n| json!({"queue": "c", "payload": n})).collect();
    let wait = json!({"wait": "children", "children": children, "checkpoint": {"at": "join"}, "lease_token": first["lease_token"]});
    for _ in 0..2 {
        let answer = server.post(&format!("/api/v1/ack/{id}"), &wait);
        assert_eq!(
            (answer.status, &answer.body["status"]),
            (200, &json!("waiting")),
            "it may be said again: {answer:?}"
        );
    }
    let job = server.job(&id);
    assert_eq!((&job["state"], &job["waits_for"]["count"]), (&json!("blocked"), &json!(3)), "{job}");
    assert_eq!((&job["children"]["total"], &job["failures"]), (&json!(3), &json!(0)));
    work(&server, "c");
    let tree = server.get(&format!("/api/v1/jobs/{id}/tree")).body;
    assert_eq!(tree["jobs"].as_array().map(Vec::len), Some(3), "{tree}");
    assert!(tree["percent"].as_f64().is_some_and(|percent| (percent - 100.0 / 3.0).abs() < 0.1), "{tree}");
    // A waiting job is on disk; nothing is held in memory for it.
    let server = Server::start_on(&server.kill_9(), &[]);
    work(&server, "c");
    assert_eq!(server.job(&id)["state"], "blocked");
    let last = work(&server, "c");
    let second = fetch(&server, "p");
    assert_eq!((&second["attempt"], &second["checkpoint"]), (&json!(2), &json!({"at": "join"})));
    assert_eq!((&second["children"]["completed"], &second["children"]["open"]), (&json!(3), &json!(0)));
    let page = server.get(&format!("/api/v1/jobs/{id}/children?limit=2")).body;
    assert_eq!((page["children"].as_array().map(Vec::len), &page["next"]), (Some(2), &json!(2)), "{page}");
    let rest = server.get(&format!("/api/v1/jobs/{id}/children?from=2")).body;
    assert_eq!((&rest["children"][0]["state"], rest.get("next")), (&json!("completed"), None));
    let results =
        [&page["children"][0], &page["children"][1], &rest["children"][0]].map(|child| child["result"].clone());
    assert!(results.contains(&json!(last)), "{results:?}");
    assert_eq!(server.post(&format!("/api/v1/ack/{id}"), &json!({"result": "all"})).status, 200);
    assert_eq!(server.job(&id)["state"], "completed");
}

#[test]
fn the_parent_chooses_what_a_dead_child_does() {
    for (policy, parent, others) in
        [("fail", "dead", "cancelled"), ("cancel", "pending", "cancelled"), ("continue", "blocked", "pending")]
    {
        let server = Server::start();
        let id = server.enqueue(&json!({"queue": "p"}));
        fetch(&server, "p");
        let children = json!([{"queue": "c", "max_attempts": 1}, {"queue": "later"}, {"queue": "later"}]);
        let wait = json!({"wait": "children", "on_child_failure": policy, "children": children});
        assert_eq!(server.post(&format!("/api/v1/ack/{id}"), &wait).status, 200);
        die(&server, "c");
        becomes(&server, &json!(id), parent);
        let all = server.get(&format!("/api/v1/jobs/{id}/children")).body;
        for child in [&all["children"][1], &all["children"][2]] {
            becomes(&server, &child["id"], others);
        }
    }
}

#[test]
fn cancelling_a_parent_cancels_its_tree() {
    let server = Server::start();
    let root = server.enqueue(&json!({"queue": "p"}));
    fetch(&server, "p");
    let wait = json!({"wait": "children", "children": [{"queue": "p"}, {"queue": "c"}]});
    assert_eq!(server.post(&format!("/api/v1/ack/{root}"), &wait).status, 200);
    let middle = fetch(&server, "p")["job_id"].as_str().expect("an id").to_owned();
    let wait = json!({"wait": "children", "children": [{"queue": "c"}]});
    assert_eq!(server.post(&format!("/api/v1/ack/{middle}"), &wait).status, 200);
    // A child that another client adds belongs to the tree as well.
    let put = server.enqueue(&json!({"queue": "c", "parent_id": middle}));
    assert_eq!(server.post(&format!("/api/v1/jobs/{root}/cancel"), &json!({})).body["status"], "cancelled");
    becomes(&server, &json!(put), "cancelled");
    becomes(&server, &json!(middle), "cancelled");
    for id in [&root, &middle] {
        let children = server.get(&format!("/api/v1/jobs/{id}/children")).body["children"].clone();
        for child in children.as_array().expect("children") {
            becomes(&server, &child["id"], "cancelled");
        }
    }
    let reason = server.job(&put)["timeline"].as_array().and_then(|steps| steps.last().cloned()).expect("a history");
    assert_eq!(reason["reason"], "its parent was cancelled");
}

#[test]
fn a_chain_passes_each_result_to_the_next_step() {
    let server = Server::start();
    let chain = json!({
        "steps": [{"queue": "a", "payload": {"n": 1}}, {"queue": "b", "payload": {"n": 2}}, {"queue": "c"}],
        "on_exit": {"queue": "end", "payload": {"note": "x"}}, "on_failure": "broken",
    });
    let first = server.enqueue(&json!({"queue": "a", "chain": chain, "tags": {"team": "t"}}));
    let job = server.job(&first);
    assert_eq!((&job["chain_step"], &job["payload"]), (&json!(0), &json!({"n": 1})), "{job}");
    assert_eq!(job["chain_config"]["steps"][1], json!({"queue": "b", "payload": {"n": 2}}));
    let chain_id = job["chain_id"].clone();
    assert_eq!(work(&server, "a"), first);
    let server = Server::start_on(&server.kill_9(), &[]);
    let second = fetch(&server, "b");
    assert_eq!(second["payload"], json!({"n": 2, "previous_job_id": first, "previous_result": first}));
    assert_eq!(second["tags"], json!({"team": "t"}));
    let second = second["job_id"].as_str().expect("an id");
    let exit = json!({"result": [1], "step_status": "exit"});
    assert_eq!(server.post(&format!("/api/v1/ack/{second}"), &exit).status, 200);
    let end = fetch(&server, "end");
    assert_eq!(end["payload"], json!({"note": "x", "previous_job_id": second, "previous_result": [1]}));
    assert_eq!(server.job(end["job_id"].as_str().expect("an id"))["chain_id"], chain_id);
    assert_eq!(server.post("/api/v1/fetch", &json!({"queues": ["c", "broken"], "timeout": 0})).status, 204);

    let flow = server.get(&format!("/api/v1/flows/{}", chain_id.as_str().expect("an id"))).body;
    assert_eq!(
        (flow["nodes"].as_array().map(Vec::len), flow["edges"].as_array().map(Vec::len)),
        (Some(3), Some(2)),
        "{flow}"
    );
}

#[test]
fn a_chain_that_breaks_runs_its_on_failure() {
    let server = Server::start();
    let chain = json!({"steps": [{"queue": "a"}, {"queue": "b"}], "on_failure": {"queue": "broken"}});
    let first = server.enqueue(&json!({"queue": "a", "max_attempts": 1, "chain": chain}));
    die(&server, "a");
    let broken = fetch(&server, "broken");
    assert_eq!(broken["payload"], json!({"failed_job_id": first, "failed_step": 0, "error": "no"}));
    // After a retry the chain continues, and the failure is not reported twice.
    assert_eq!(server.post(&format!("/api/v1/jobs/{first}/retry"), &json!({})).status, 200);
    work(&server, "a");
    work(&server, "b");
    assert_eq!(server.post("/api/v1/fetch", &json!({"queues": ["a", "broken"], "timeout": 0})).status, 204);
}

#[test]
fn a_flow_can_be_seen_as_data_and_as_a_picture() {
    let server = Server::start();
    let graph = json!({
        "jobs": [{"name": "one", "queue": "a<b"}, {"name": "two", "queue": "b", "depends_on": ["one"]}],
    });
    assert_eq!(server.post("/api/v1/enqueue/batch", &graph).status, 400, "no such name");
    let graph = json!({
        "jobs": [{"name": "one", "queue": "a"}, {"name": "two", "queue": "b", "depends_on": ["one"]}],
        "batch": {"callback_queue": "done"},
    });
    let made = server.post("/api/v1/enqueue/batch", &graph).body;
    let id = made["job_ids"][1].as_str().expect("an id");
    let flow = server.get(&format!("/api/v1/flows/{id}")).body;
    let edges = flow["edges"].as_array().expect("edges");
    assert!(edges.contains(&json!({"from": made["job_ids"][0], "to": id, "kind": "needs"})), "{flow}");
    assert!(edges.contains(&json!({"from": id, "to": made["batch_id"], "kind": "member"})), "{flow}");
    assert_eq!(server.get("/api/v1/flows/job_01JQ8ZK3V7N3W5X9Y1A2B3C4D5").status, 404);
    assert_eq!(server.get(&format!("/api/v1/flows/{id}?format=gif")).status, 400);
    let shown = windlass_e2e::windlass()
        .args(["flow", "show", id, "--url", &server.url("")])
        .stdout(std::process::Stdio::piped())
        .output()
        .expect("the command runs");
    let shown = String::from_utf8(shown.stdout).expect("text");
    assert!(shown.contains("‖ b  blocked") && shown.contains("← needs a"), "{shown}");
}

#[test]
fn each_node_of_a_flow_has_a_place_and_its_times() {
    let server = Server::start();
    let graph = json!({
        "jobs": [{"name": "one", "queue": "a"}, {"queue": "b", "depends_on": ["one"]}, {"queue": "b", "depends_on": ["one"]}],
    });
    let made = server.post("/api/v1/enqueue/batch", &graph).body;
    work(&server, "a");
    let flow = server.get(&format!("/api/v1/flows/{}", made["job_ids"][0].as_str().expect("an id"))).body;
    let nodes = flow["nodes"].as_array().expect("nodes");
    let node = |at: usize| nodes.iter().find(|node| node["id"] == made["job_ids"][at]).expect("a node");
    let number = |value: &Value| value.as_f64().expect("a number");
    let place = |at: usize| (number(&node(at)["x"]), number(&node(at)["y"]));
    let (width, height) = (number(&flow["node_width"]), number(&flow["node_height"]));
    let (from, to, other) = (place(0), place(1), place(2));
    assert!(to.0 >= from.0 + width && other.0 == to.0, "what follows is on the right: {flow}");
    assert!((to.1 - other.1).abs() >= height, "no two overlap: {flow}");
    for (x, y) in [from, to, other] {
        assert!(x + width <= number(&flow["width"]) && y + height <= number(&flow["height"]), "{flow}");
    }
    let job = server.job(made["job_ids"][0].as_str().expect("an id"));
    for (field, of_job) in [("created_at", "created_at"), ("started_at", "started_at"), ("ended_at", "completed_at")] {
        assert!(job[of_job].is_string() && node(0)[field] == job[of_job], "{field}: {flow}");
    }
    assert!(node(1).get("started_at").is_none() && node(1).get("ended_at").is_none(), "{flow}");
}
