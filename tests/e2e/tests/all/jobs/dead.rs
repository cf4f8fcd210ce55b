//! Dead jobs by what they died of, and bringing one kind of them back.

use std::process::Stdio;

use serde_json::{Value, json};
use windlass_e2e::{Server, windlass};

use crate::access::{client_of, make_namespace};

/// Jobs that each fail once, and for good, with these errors.
fn dead_jobs(server: &Server, queue: &str, errors: &[&str]) -> Vec<String> {
    let fail = |error: &&str| {
        let id = server.enqueue(&json!({"queue": queue, "max_attempts": 1, "payload": {"order": 17}}));
        let fetched = server.post("/api/v1/fetch", &json!({"queues": [queue], "worker_id": "w", "timeout": 5}));
        assert_eq!(fetched.body["job_id"], json!(id), "{fetched:?}");
        let failed = json!({"error": error, "backtrace": "at shop::stock", "lease_token": fetched.body["lease_token"]});
        assert_eq!(server.post(&format!("/api/v1/fail/{id}"), &failed).body["status"], "dead");
        id
    };
    errors.iter().map(fail).collect()
}

fn groups(server: &Server, query: &str) -> Value {
    let answer = server.get(&format!("/api/v1/dead/groups{query}"));
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body
}

#[test]
fn dead_jobs_are_grouped_by_their_error_and_a_group_is_retried_at_once() {
    let server = Server::start();
    let none = groups(&server, "");
    assert_eq!((&none["total"], &none["groups"], &none["complete"]), (&json!(0), &json!([]), &json!(true)));

    let stock =
        dead_jobs(&server, "orders", &["no stock for order 17 of \"ann\"", "no stock for order 9,018 of \"bob\""]);
    let other = dead_jobs(&server, "returns", &["no stock for order 3 of \"x\"", "cannot open /data/17.csv"]);
    let found = groups(&server, "");
    assert_eq!((&found["total"], &found["looked_at"], &found["groups_total"]), (&json!(4), &json!(4), &json!(2)));
    let group = &found["groups"][0];
    assert_eq!((&group["count"], &group["pattern"]), (&json!(3), &json!("no stock for order <n> of <value>")));
    assert_eq!(group["queues"], json!([{"queue": "orders", "count": 2}, {"queue": "returns", "count": 1}]));
    assert_eq!(group["versions"], json!([{"worker": true, "count": 3}]));
    assert_eq!(group["sample_job_id"], json!(other[0]), "the latest");
    assert_eq!(group["sample_error"], "no stock for order 3 of \"x\"");
    let (first, last) = (group["first_at"].as_str(), group["last_at"].as_str());
    assert_eq!(first, server.job(&stock[0])["failed_at"].as_str());
    assert_eq!(last, server.job(&other[0])["failed_at"].as_str());
    let fingerprint = group["fingerprint"].clone();
    assert_eq!(server.job(&stock[0])["error_fingerprint"], fingerprint);

    assert_eq!(groups(&server, "?queue=returns")["total"], 2);
    assert_eq!(groups(&server, "?limit=1")["groups"].as_array().map(Vec::len), Some(1));
    assert_eq!(server.get("/api/v1/dead/groups?limit=0").status, 400);

    let mut command = windlass();
    command.arg("dead").env("WINDLASS_URL", server.url(""));
    let output = command.stdout(Stdio::piped()).output().expect("it runs");
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(table.contains(fingerprint.as_str().expect("text")) && table.contains("orders, returns"), "{table}");

    let filter = json!({"error_fingerprint": fingerprint});
    let searched = server.post("/api/v1/jobs/search", &filter).body;
    assert_eq!(searched["total"], 3);
    let retried = server.post("/api/v1/jobs/bulk", &json!({"action": "retry", "filter": filter}));
    assert_eq!((retried.status, &retried.body["affected"]), (200, &json!(3)), "{retried:?}");
    let left = groups(&server, "");
    assert_eq!((&left["total"], &left["groups"][0]["sample_job_id"]), (&json!(1), &json!(other[1])));
    let wrong = server.post("/api/v1/jobs/search", &json!({"error_fingerprint": "no"}));
    assert!(wrong.status == 400 && wrong.body["error"].as_str().is_some_and(|why| why.contains("fingerprint")));
}

#[test]
fn the_dead_of_another_namespace_are_in_no_group_of_this_one() {
    let server = Server::start();
    dead_jobs(&server, "orders", &["broken"]);
    make_namespace(&server, "acme", &json!({}));
    let acme = client_of(&server, "viewer", "acme");
    assert_eq!(acme.get("/api/v1/dead/groups").body["total"], 0);
    assert_eq!(acme.get("/api/v1/dead/groups?queue=orders").body["groups"], json!([]));
    assert_eq!(groups(&server, "")["total"], 1);
}
