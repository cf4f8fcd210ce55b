//! Queues that run level by level, through the real server: rounds, gates, records and sweeps, with a kill in between.

use std::collections::BTreeMap;
use std::process::Stdio;

use serde_json::{Value, json};
use windlass_e2e::{Server, eventually, windlass};

fn set(server: &Server, queue: &str, settings: &Value) {
    let answer = server.post(&format!("/api/v1/queues/{queue}/settings"), settings);
    assert_eq!(answer.status, 200, "{answer:?}");
}

fn fetch(server: &Server, queue: &str, timeout: u64) -> Option<Value> {
    let wanted = json!({"queues": [queue], "worker_id": "w", "timeout": timeout});
    let fetched = server.post("/api/v1/fetch", &wanted);
    (fetched.status == 200).then_some(fetched.body)
}

fn ack(server: &Server, job: &Value, body: &Value) {
    let id = job["job_id"].as_str().expect("an id");
    let answer = server.post(&format!("/api/v1/ack/{id}"), body);
    assert_eq!(answer.status, 200, "{answer:?}");
}

fn rounds(server: &Server, queue: &str) -> Value {
    let answer = server.get(&format!("/api/v1/queues/{queue}/rounds"));
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body
}

/// The path of a job is its payload; each has `width` below it, down to `depth`.
fn below(queue: &str, path: &str, width: usize) -> Vec<Value> {
    (0..width).map(|n| json!({"queue": queue, "payload": {"path": format!("{path}/{n}")}})).collect()
}

fn path_of(job: &Value) -> String {
    job["payload"]["path"].as_str().expect("a path").to_owned()
}

/// Runs every job that can be fetched now, and returns their rounds. Each stores its path as a record.
fn walk(server: &Server, queue: &str, depth: u64, width: usize) -> Vec<u64> {
    let mut seen = Vec::new();
    while let Some(job) = fetch(server, queue, 0) {
        let round = job["round"].as_u64().expect("a round");
        let path = path_of(&job);
        let children = if round < depth { below(queue, &path, width) } else { Vec::new() };
        ack(server, &job, &json!({"children": children, "records": [{"key": path, "value": {"round": round}}]}));
        seen.push(round);
    }
    seen
}

#[test]
fn a_tree_is_walked_level_by_level_and_a_kill_loses_and_repeats_nothing() {
    let server = Server::start();
    set(&server, "walk", &json!({"rounds": true}));
    assert_eq!(rounds(&server, "walk")["state"], "idle");
    server.enqueue(&json!({"queue": "walk", "payload": {"path": ""}}));
    let mut server = server;
    let mut order = Vec::new();
    for turn in 0.. {
        let Some(job) = fetch(&server, "walk", 5) else { break };
        let (round, path) = (job["round"].as_u64().expect("a round"), path_of(&job));
        order.push(round);
        let children = if round < 3 { below("walk", &path, 3) } else { Vec::new() };
        ack(&server, &job, &json!({"children": children, "records": [{"key": format!("p{path}"), "value": round}]}));
        if turn == 2 || turn == 11 {
            server = Server::start_on(&server.kill_9(), &[]);
        }
        if order.len() == 40 {
            break;
        }
    }
    assert_eq!(order.len(), 40, "1 + 3 + 9 + 27");
    assert!(order.is_sorted(), "no job runs before the round before it has ended: {order:?}");
    let told = rounds(&server, "walk");
    assert_eq!((&told["state"], &told["round"]), (&json!("completed"), &Value::Null));
    let totals: Vec<&Value> = told["rounds"].as_array().expect("rounds").iter().map(|row| &row["completed"]).collect();
    assert_eq!(totals, [1, 3, 9, 27]);
    assert!(told["rounds"].as_array().expect("rounds").iter().all(|row| row["percent"] == 100.0), "{told}");
    let page = server.get("/api/v1/queues/walk/records?limit=30").body;
    assert_eq!(page["records"].as_array().map(Vec::len), Some(30));
    let next = page["next"].as_str().expect("a second page");
    let rest = server.get(&format!("/api/v1/queues/walk/records?limit=30&from={}", next.replace('/', "%2F"))).body;
    assert_eq!((rest["records"].as_array().map(Vec::len), rest.get("next")), (Some(10), None));
}

#[test]
fn a_waiting_job_shows_what_it_waits_for_and_rounds_have_events() {
    let server = Server::start();
    set(&server, "walk", &json!({"rounds": true}));
    server.enqueue(&json!({"queue": "walk", "payload": {"path": ""}}));
    server.enqueue(&json!({"queue": "walk", "payload": {"path": "other"}}));
    let first = fetch(&server, "walk", 5).expect("a root");
    ack(&server, &first, &json!({"children": below("walk", "", 1)}));
    let other = fetch(&server, "walk", 5).expect("the other root");
    let blocked = server.get("/api/v1/jobs?queue=walk&state=blocked").body["jobs"][0]["id"].clone();
    let job = server.job(blocked.as_str().expect("an id"));
    assert_eq!((&job["round"], &job["waits_for"]["round"]), (&json!(1), &json!(1)), "{job}");
    assert_eq!(job["waits_for"]["reason"], "waits for round 1");
    let refused = server.post(
        &format!("/api/v1/ack/{}", other["job_id"].as_str().expect("an id")),
        &json!({"wait": "children", "children": below("walk", "x", 1)}),
    );
    assert_eq!(refused.status, 400, "{refused:?}");
    assert!(refused.body["error"].as_str().is_some_and(|error| error.contains("next round")), "{refused:?}");
    ack(&server, &other, &json!({}));
    ack(&server, &fetch(&server, "walk", 5).expect("round 1"), &json!({}));
    eventually("it has completed", || (rounds(&server, "walk")["state"] == "completed").then_some(()));
    let listed = server.get("/api/v1/queues/walk").body;
    assert_eq!((&listed["rounds"]["state"], &listed["settings"]["rounds"]), (&json!("completed"), &json!(true)));
}

#[test]
fn two_queues_stay_within_the_distance_of_their_gate() {
    let server = Server::start();
    set(&server, "src", &json!({"rounds": true}));
    set(&server, "dst", &json!({"rounds": true, "gate": {"queue": "src", "lead": 2, "max_lead": 3}}));
    for queue in ["src", "dst"] {
        server.enqueue(&json!({"queue": queue, "payload": {"path": ""}}));
    }
    assert!(fetch(&server, "dst", 0).is_none());
    let waits = rounds(&server, "dst");
    assert_eq!(waits["state"], "waiting");
    assert_eq!(waits["waits_for"], "round 0 waits until queue `src` is at round 2; it is at 0");
    // How far each is when the other cannot continue.
    let mut done: BTreeMap<&str, u64> = BTreeMap::new();
    let mut server = server;
    for _ in 0..40 {
        for queue in ["src", "dst"] {
            let Some(job) = fetch(&server, queue, 1) else { continue };
            let round = job["round"].as_u64().expect("a round");
            let children = if round < 6 { below(queue, &path_of(&job), 1) } else { Vec::new() };
            ack(&server, &job, &json!({"children": children}));
            done.insert(queue, round + 1);
        }
        let [src, dst] = ["src", "dst"].map(|queue| done.get(queue).copied().unwrap_or(0));
        assert!(src == 7 || (src > dst && src <= dst + 4), "src has done {src} rounds, dst {dst}");
        if dst == 3 {
            server = Server::start_on(&server.kill_9(), &[]);
        }
        if dst == 7 {
            break;
        }
    }
    assert_eq!(done, BTreeMap::from([("src", 7), ("dst", 7)]));
    let circle = json!({"gate": {"queue": "dst", "lead": 1}});
    let refused = server.post("/api/v1/queues/src/settings", &circle);
    let error = refused.body["error"].as_str().unwrap_or_default().to_owned();
    assert_eq!((refused.status, error.contains("src → dst → src")), (400, true), "{refused:?}");
    let named = server.delete("/api/v1/queues/src?confirm=true");
    assert_eq!(named.status, 409, "{named:?}");
    assert!(named.body["error"].as_str().is_some_and(|error| error.contains("gate of queue `dst`")), "{named:?}");
}

#[test]
fn a_sweep_rebuilds_failed_and_marked_jobs_once() {
    let server = Server::start();
    set(&server, "src", &json!({"rounds": true, "defaults": {"max_attempts": 1}}));
    server.enqueue(&json!({"queue": "src", "payload": {"path": "r"}}));
    let root = fetch(&server, "src", 5).expect("the root");
    let noted = json!([{"key": "r", "value": {"round": 0}}]);
    ack(&server, &root, &json!({"children": below("src", "r", 2), "records": noted}));
    assert_eq!(rounds(&server, "src")["round"], 1);
    let bad = fetch(&server, "src", 5).expect("round 1");
    let bad_id = bad["job_id"].as_str().expect("an id").to_owned();
    let failed = server.post(&format!("/api/v1/fail/{bad_id}"), &json!({"error": "unreadable"}));
    assert_eq!(failed.body["status"], "dead", "{failed:?}");
    while rounds(&server, "src")["state"] != "completed" {
        walk(&server, "src", 2, 2);
    }
    let totals = |server: &Server| -> Vec<(u64, u64)> {
        let told = rounds(server, "src");
        let row = |row: &Value| (row["completed"].as_u64().expect("a number"), row["dead"].as_u64().expect("a number"));
        told["rounds"].as_array().expect("rounds").iter().map(row).collect()
    };
    assert_eq!(totals(&server), [(1, 0), (1, 1), (2, 0)]);

    let swept = server.post("/api/v1/queues/src/sweep", &json!({"marked": false}));
    assert_eq!((swept.status, &swept.body["affected"]), (200, &json!(1)), "{swept:?}");
    let server = Server::start_on(&server.kill_9(), &[]);
    while rounds(&server, "src")["state"] != "completed" {
        walk(&server, "src", 2, 2);
    }
    assert_eq!(totals(&server), [(1, 0), (2, 0), (4, 0)]);
    assert_eq!(server.job(&bad_id)["attempt"], 1, "attempts are counted anew");

    // Another queue marks a record of this one, with its own result.
    server.enqueue(&json!({"queue": "judge"}));
    let judge = fetch(&server, "judge", 5).expect("a judge");
    let key = path_of(&bad);
    ack(
        &server,
        &judge,
        &json!({"marks": [{"queue": "src", "key": key, "mark": "newer"}, {"queue": "src", "key": "no", "mark": "x"}]}),
    );
    let marked = server.get("/api/v1/queues/src/records?marked=true").body;
    assert_eq!(marked["records"].as_array().map(Vec::len), Some(1), "{marked}");
    assert_eq!(marked["records"][0]["mark"], "newer");
    let one = server.get(&format!("/api/v1/queues/src/records?key={}", key.replace('/', "%2F")));
    assert_eq!((one.status, &one.body["value"], &one.body["job_id"]), (200, &json!({"round": 1}), &json!(bad_id)));
    assert_eq!(server.get("/api/v1/queues/src/records?key=no").status, 404);

    let mut command = windlass();
    command.args(["queue", "sweep", "src"]).env("WINDLASS_URL", server.url("")).stdout(Stdio::piped());
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.contains("1 jobs are rebuilt"), "{said}{output:?}");
    while rounds(&server, "src")["state"] != "completed" {
        walk(&server, "src", 2, 2);
    }
    assert_eq!(totals(&server), [(1, 0), (2, 0), (4, 0)], "the subtree came out the same");
    let marked = server.get("/api/v1/queues/src/records?marked=true").body;
    assert_eq!(marked["records"], json!([]), "what it had noted went, and so did the mark");
    let paths = server.get("/api/v1/queues/src/records?limit=100").body;
    assert_eq!(paths["records"].as_array().map(Vec::len), Some(7));
}

#[test]
fn the_command_line_sets_rounds_and_shows_them() {
    let server = Server::start();
    let run = |args: &[&str]| {
        let mut command = windlass();
        command.args(args).env("WINDLASS_URL", server.url("")).stdout(Stdio::piped());
        let output = command.output().expect("it runs");
        (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    assert!(run(&["queue", "set", "src", "--rounds", "on"]).0);
    let (set, said) = run(&["queue", "set", "dst", "--rounds", "on", "--gate", "src:2", "--max-lead", "4"]);
    assert!(set && said.contains("src") && said.contains('4'), "{said}");
    server.enqueue(&json!({"queue": "dst"}));
    let (shown, said) = run(&["queue", "rounds", "dst"]);
    assert!(shown && said.contains("dst: waiting, round 0: round 0 waits until queue `src`"), "{said}");
    let (refused, said) = run(&["queue", "set", "dst", "--rounds", "off", "--no-gate"]);
    assert!(!refused && said.contains("1 of its jobs"), "{said}");
    assert!(run(&["queue", "set", "dst", "--no-gate"]).0);
    let job = fetch(&server, "dst", 5).expect("nothing holds it back");
    ack(&server, &job, &json!({"records": [{"key": "a b", "value": [1]}]}));
    let (watched, said) = run(&["queue", "rounds", "dst", "--watch"]);
    assert!(watched && said.contains("completed"), "{said}");
    let (listed, said) = run(&["queue", "records", "dst"]);
    assert!(listed && said.contains("a b"), "{said}");
    let (one, said) = run(&["queue", "records", "dst", "--key", "a b"]);
    assert!(one && said.contains("\"value\""), "{said}");
}
