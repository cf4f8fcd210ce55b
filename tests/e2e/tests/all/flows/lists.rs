//! Lists of flows and batches: newest first, page by page, each with how far it is.

use std::process::Stdio;

use serde_json::{Value, json};
use windlass_e2e::{Client, Server, windlass};

use crate::access::{client_of, make_namespace};

fn id(value: &Value) -> String {
    value.as_str().expect("an id").to_owned()
}

fn chain(server: &Client, queue: &str) -> String {
    let steps = json!([{"queue": queue}, {"queue": "resize"}, {"queue": "publish"}]);
    server.enqueue(&json!({"queue": queue, "chain": {"steps": steps}}))
}

fn batch(server: &Client, jobs: usize) -> String {
    let jobs: Vec<Value> = (0..jobs).map(|_| json!({"queue": "members"})).collect();
    let made = server.post("/api/v1/enqueue/batch", &json!({"jobs": jobs, "batch": {"callback_queue": "done"}}));
    assert_eq!(made.status, 201, "{made:?}");
    id(&made.body["batch_id"])
}

/// A job with a child, which has a child of its own.
fn tree(server: &Client) -> String {
    let root = server.enqueue(&json!({"queue": "roots"}));
    let child = server.enqueue(&json!({"queue": "leaves", "parent_id": root}));
    server.enqueue(&json!({"queue": "leaves", "parent_id": child}));
    root
}

fn work(server: &Client, queue: &str) {
    let fetched = server.post("/api/v1/fetch", &json!({"queues": [queue], "worker_id": "w", "timeout": 30}));
    assert_eq!(fetched.status, 200, "{fetched:?}");
    let path = format!("/api/v1/ack/{}", id(&fetched.body["job_id"]));
    assert_eq!(server.post(&path, &json!({})).status, 200);
}

fn list(server: &Client, path: &str) -> Value {
    let answer = server.get(&format!("/api/v1/{path}"));
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body
}

fn ids(page: &Value, field: &str, name: &str) -> Vec<String> {
    page[field].as_array().expect("a list").iter().map(|one| id(&one[name])).collect()
}

#[test]
fn flows_are_listed_newest_first_with_how_far_each_is() {
    let server = Server::start();
    let none = list(&server, "flows");
    assert_eq!(none, json!({"flows": [], "cursor": null, "has_more": false}));
    let chain = chain(&server, "fetch");
    let tree = tree(&server);
    let batch = batch(&server, 2);
    let of_chain = chain.replacen("job_", "chain_", 1);
    work(&server, "fetch");
    work(&server, "members");

    let found = list(&server, "flows");
    assert_eq!(ids(&found, "flows", "id"), [batch.clone(), tree.clone(), of_chain.clone()]);
    let flows = &found["flows"];
    let short =
        |at: usize| ["kind", "state", "total", "open", "completed", "label"].map(|field| flows[at][field].clone());
    assert_eq!(json!(short(0)), json!(["batch", "running", 2, 1, 1, "done"]));
    assert_eq!(json!(short(1)), json!(["tree", "running", 2, 2, 0, "roots"]), "the job and its child");
    assert_eq!(json!(short(2)), json!(["chain", "running", 3, 2, 1, "fetch → resize → publish"]));
    assert_eq!((&flows[0]["percent"], &flows[0]["ended_at"]), (&json!(50.0), &Value::Null));
    assert_eq!(flows[1]["created_at"], server.job(&tree)["created_at"]);
    for (kind, of) in [("batch", &batch), ("chain", &of_chain), ("tree", &tree)] {
        let found = ids(&list(&server, &format!("flows?kind={kind}")), "flows", "id");
        assert_eq!(found, [of.as_str()], "{kind}");
        assert_eq!(server.get(&format!("/api/v1/flows/{of}")).status, 200, "what is listed can be opened");
    }

    work(&server, "members");
    work(&server, "resize");
    work(&server, "publish");
    let over = list(&server, "flows?kind=chain")["flows"][0].clone();
    assert_eq!((&over["state"], &over["percent"], &over["open"]), (&json!("finished"), &json!(100.0), &json!(0)));
    assert!(over["ended_at"].is_string(), "{over}");
    let batches = list(&server, "batches");
    assert_eq!(
        (&batches["batches"][0]["batch_id"], &batches["batches"][0]["state"]),
        (&json!(batch), &json!("finished"))
    );
}

#[test]
fn pages_of_flows_follow_each_other_without_a_gap() {
    let server = Server::start();
    let mut made: Vec<String> = Vec::new();
    for at in 0..9 {
        made.push(match at % 3 {
            0 => chain(&server, "fetch").replacen("job_", "chain_", 1),
            1 => tree(&server),
            _ => batch(&server, 1),
        });
    }
    made.reverse();
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = list(&server, &format!("flows?limit=2{cursor}"));
        found.extend(ids(&page, "flows", "id"));
        match page["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(found, made);
    assert_eq!(ids(&list(&server, "batches?limit=1"), "batches", "batch_id"), [made[0].clone()]);
    for wrong in ["flows?limit=0", "flows?limit=1001", "flows?kind=branch", "flows?cursor=no", "batches?cursor=%C3%A9"]
    {
        let answer = server.get(&format!("/api/v1/{wrong}"));
        assert_eq!((answer.status, &answer.body["code"]), (400, &json!("VALIDATION_ERROR")), "{wrong}: {answer:?}");
    }
    let run = |words: &[&str]| {
        let mut command = windlass();
        command.args(words).env("WINDLASS_URL", server.url(""));
        let output = command.stdout(Stdio::piped()).output().expect("it runs");
        assert!(output.status.success(), "{words:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let shown = run(&["flow", "list", "--kind", "chain", "--limit", "2"]);
    let lines = shown.lines().filter(|line| line.contains("fetch → resize")).count();
    assert!(lines == 2 && shown.contains(&made[2]), "{shown}");
    let shown = run(&["batch", "list"]);
    assert_eq!(shown.lines().filter(|line| line.contains("batch_")).count(), 3, "{shown}");
}

#[test]
fn the_flows_of_others_are_in_no_list() {
    let server = Server::start();
    chain(&server, "fetch");
    tree(&server);
    batch(&server, 1);
    make_namespace(&server, "acme", &json!({}));
    let acme = client_of(&server, "admin", "acme");
    assert_eq!(list(&acme, "flows"), json!({"flows": [], "cursor": null, "has_more": false}));
    let own = tree(&acme);
    assert_eq!(ids(&list(&acme, "flows"), "flows", "id"), [own]);
    assert_eq!(list(&acme, "batches")["batches"], json!([]));
    let fetchers = json!({"name": "fetchers", "role": "viewer", "queues": ["fetch"]});
    let key = server.post("/api/v1/auth/keys", &fetchers);
    let narrow = server.without_key().with_key(Some(id(&key.body["key"])));
    let kinds: Vec<Value> =
        list(&narrow, "flows")["flows"].as_array().expect("a list").iter().map(|flow| flow["kind"].clone()).collect();
    assert_eq!(kinds, ["batch", "chain"], "batches belong to the namespace, and the tree to another queue");
}
