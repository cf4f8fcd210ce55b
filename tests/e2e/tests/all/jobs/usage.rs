//! What the jobs of a period used, added up in all and by group.

use std::process::Stdio;

use serde_json::{Value, json};
use windlass_e2e::{Client, Server, windlass};

use crate::access::{client_of, make_namespace};

fn summary(server: &Client, query: &str) -> Value {
    let answer = server.get(&format!("/api/v1/usage/summary{query}"));
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body
}

/// A job of a customer that costs so much.
fn spend(server: &Client, queue: &str, customer: &str, cost: f64) {
    server.enqueue(&json!({"queue": queue, "tags": {"customer": customer}}));
    let fetched = server.post("/api/v1/fetch", &json!({"queues": [queue], "worker_id": "w", "timeout": 5}));
    let usage = json!({"input_tokens": 100, "output_tokens": 10, "model": format!("m-{queue}"), "cost_usd": cost});
    let id = fetched.body["job_id"].as_str().expect("an id").to_owned();
    let acked = server.post(&format!("/api/v1/ack/{id}"), &json!({"result": {}, "usage": usage}));
    assert_eq!(acked.status, 200, "{acked:?}");
}

fn groups(found: &Value) -> Vec<(Value, Value)> {
    let groups = found["groups"].as_array().expect("groups");
    groups.iter().map(|group| (group["key"].clone(), group["jobs"].clone())).collect()
}

#[test]
fn what_jobs_reported_and_were_metered_adds_up_by_group_and_in_all() {
    let server = Server::start();
    let none = summary(&server, "");
    assert_eq!((&none["totals"]["jobs"], &none["groups"], &none["complete"]), (&json!(0), &json!([]), &json!(true)));
    assert_eq!((&none["period_ms"], none.get("other")), (&json!(604_800_000), None));

    spend(&server, "chat", "ann", 0.5);
    spend(&server, "chat", "bob", 0.25);
    spend(&server, "mail", "ann", 2.0);
    server.upload("digest", "hash");
    let metered = server.enqueue(&json!({"queue": "hash", "payload": {"generate_mb": 4, "seed": 7}}));
    server.wait_for(&metered, "completed");

    let by_queue = summary(&server, "?period=1h");
    assert_eq!(groups(&by_queue)[..2], [(json!("mail"), json!(1)), (json!("chat"), json!(2))], "the dearest first");
    let totals = &by_queue["totals"];
    assert_eq!((&totals["jobs"], &totals["completed"], &totals["reported"]), (&json!(4), &json!(4), &json!(3)));
    assert_eq!((&totals["input_tokens"], &totals["output_tokens"]), (&json!(300), &json!(30)));
    assert_eq!(totals["cost_usd"], 2.75);
    let used = server.job(&metered)["attempt_usage"].clone();
    assert!(used["cpu_ms"].as_u64() > Some(0), "{used}");
    for field in ["cpu_ms", "wall_ms", "peak_memory"] {
        assert_eq!(totals[field], used[field], "{field}");
    }
    let customers = summary(&server, "?group_by=tag:customer");
    assert_eq!(groups(&customers), [(json!("ann"), json!(2)), (json!("bob"), json!(1)), (Value::Null, json!(1))]);
    assert_eq!(groups(&summary(&server, "?group_by=plugin"))[1], (json!("digest"), json!(1)));
    assert_eq!(groups(&summary(&server, "?group_by=model"))[0], (json!("m-mail"), json!(1)));
    assert_eq!(groups(&summary(&server, "?group_by=version")).len(), 2);
    assert_eq!(groups(&summary(&server, "?group_by=namespace")), [(json!("default"), json!(4))]);
    let cut = summary(&server, "?limit=1");
    assert_eq!((groups(&cut).len(), &cut["other"]["jobs"]), (1, &json!(3)));

    for wrong in ["?period=0s", "?period=500d", "?period=x", "?group_by=colour", "?group_by=tag:", "?limit=0"] {
        let answer = server.get(&format!("/api/v1/usage/summary{wrong}"));
        assert_eq!((answer.status, &answer.body["code"]), (400, &json!("VALIDATION_ERROR")), "{wrong}: {answer:?}");
    }
    let mut command = windlass();
    command.args(["usage", "--group-by", "tag:customer"]).env("WINDLASS_URL", server.url(""));
    let output = command.stdout(Stdio::piped()).output().expect("it runs");
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = |word: &str| table.lines().find(|line| line.starts_with(word)).unwrap_or_default().to_owned();
    assert!(line("ann").contains("2.5000") && line("(all)").contains("2.7500"), "{table}");
}

#[test]
fn what_another_namespace_used_is_not_added() {
    let server = Server::start();
    spend(&server, "chat", "ann", 1.0);
    make_namespace(&server, "acme", &json!({}));
    let acme = client_of(&server, "admin", "acme");
    spend(&acme, "chat", "ann", 0.5);
    let found = summary(&acme, "?group_by=namespace");
    assert_eq!((&found["totals"]["cost_usd"], groups(&found)), (&json!(0.5), vec![(json!("acme"), json!(1))]));
}
