//! A damaged file of the store: a request for the affected job gets an error that says what is damaged and what to do,
//! all others work as before, and a start that it prevents names it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use windlass_e2e::{Data, Server, windlass};

/// Payloads in the database: enough of them for it to write tables.
const JOBS: usize = 400;
const PAYLOAD: usize = 60_000;

fn largest_table(data: &Data) -> PathBuf {
    fn walk(dir: &Path, out: &mut Vec<PathBuf>) {
        for path in fs::read_dir(dir).expect("lists").flatten().map(|entry| entry.path()) {
            if path.is_dir() { walk(&path, out) } else { out.push(path) }
        }
    }
    let mut files = Vec::new();
    walk(&data.path().join("store/keyspaces"), &mut files);
    files.retain(|file| file.parent().is_some_and(|folder| folder.ends_with("tables")));
    files.into_iter().max_by_key(|file| file.metadata().map_or(0, |found| found.len())).expect("a table")
}

fn flip(file: &Path, at: impl Fn(usize) -> usize) {
    let mut bytes = fs::read(file).expect("reads");
    let at = at(bytes.len());
    bytes[at] ^= 0xff;
    fs::write(file, bytes).expect("writes");
}

/// A stopped server's folder with jobs whose payloads are in tables, and the jobs' ids.
fn filled() -> (Data, Vec<String>) {
    let server = Server::start();
    let mut ids = Vec::new();
    for first in (0..JOBS).step_by(50) {
        let jobs: Vec<Value> = (first..first + 50)
            .map(|n| json!({"queue": "q", "payload": {"n": n, "text": format!("{n:06}").repeat(PAYLOAD / 6)}}))
            .collect();
        let answer = server.post("/api/v1/enqueue/batch", &json!({ "jobs": jobs }));
        assert_eq!(answer.status, 201, "{answer:?}");
        ids.extend(answer.body["job_ids"].as_array().expect("ids").iter().filter_map(Value::as_str).map(str::to_owned));
    }
    let (_, _, data) = server.stop();
    (data, ids)
}

fn strings(list: &Value) -> BTreeSet<String> {
    list.as_array().expect("a list").iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn ids_of(jobs: &Value) -> BTreeSet<String> {
    jobs.as_array().expect("a list").iter().filter_map(|job| job["id"].as_str()).map(str::to_owned).collect()
}

#[track_caller]
fn says_what_is_damaged(message: &Value, file: &Path) {
    let words = message.as_str().expect("words");
    assert!(words.contains(&file.display().to_string()), "{words}");
    assert!(words.contains("payloads") && words.contains("backup") && !words.contains("write"), "{words}");
}

#[test]
fn a_damaged_block_is_reported_with_what_to_do_and_everything_else_works() {
    let (data, ids) = filled();
    let file = largest_table(&data);
    flip(&file, |size| size / 2);
    let server = Server::start_on(&data, &[]);
    let mut lost = BTreeSet::new();
    for id in &ids {
        let answer = server.get(&format!("/api/v1/jobs/{id}"));
        if answer.status != 200 {
            assert_eq!((answer.status, &answer.body["code"]), (500, &json!("STORE_DAMAGED")), "{answer:?}");
            says_what_is_damaged(&answer.body["error"], &file);
            lost.insert(id.clone());
        }
    }
    assert_eq!(lost.len(), 1, "one payload fills a block");
    let whole: BTreeSet<String> = ids.iter().filter(|id| !lost.contains(*id)).cloned().collect();

    let got = server.post("/api/v1/jobs/bulk-get", &json!({ "job_ids": ids }));
    assert_eq!(got.status, 200, "{:?}", got.body["error"]);
    assert_eq!(ids_of(&got.body["jobs"]), whole);
    assert_eq!((strings(&got.body["unreadable"]["ids"]), &got.body["unreadable"]["count"]), (lost.clone(), &json!(1)));
    says_what_is_damaged(&got.body["unreadable"]["error"], &file);

    let found = server.post("/api/v1/jobs/search", &json!({"queue": "q", "payload_contains": "0", "limit": 1000}));
    assert_eq!(found.status, 200, "{:?}", found.body["error"]);
    assert_eq!((ids_of(&found.body["jobs"]), strings(&found.body["unreadable"]["ids"])), (whole, lost.clone()));
    // A list has no payloads, so it is complete.
    let list = server.get("/api/v1/jobs?queue=q&limit=1000").body;
    assert_eq!((ids_of(&list["jobs"]).len(), &list["unreadable"]), (JOBS, &Value::Null));

    let lost = lost.first().expect("one");
    for words in [vec!["job", "get", lost], vec!["search", "--payload-contains", "nothing", "--output", "ids"]] {
        let mut run = windlass();
        run.args(&words).env("WINDLASS_URL", server.url("")).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = run.output().expect("it runs");
        let said = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.success(), words[0] == "search", "{said}");
        assert!(said.contains(&file.display().to_string()) && said.contains("backup"), "{words:?}: {said}");
    }
    // The store accepts writes, and jobs can be fetched.
    server.enqueue(&json!({"queue": "other", "payload": {}}));
    assert_eq!(server.get("/readyz").status, 200);
    let fetched = server.post("/api/v1/fetch/batch", &json!({"queues": ["q"], "worker_id": "w", "count": 512}));
    assert_eq!(fetched.status, 200, "{:?}", fetched.body["error"]);
    assert_eq!(
        fetched.body["jobs"].as_array().map(Vec::len),
        Some(JOBS - 1),
        "the damaged one does not block the queue"
    );
    let list = server.get("/api/v1/jobs?queue=q&state=retrying").body;
    assert_eq!(ids_of(&list["jobs"]), [lost.clone()].into());
    says_what_is_damaged(&list["jobs"][0]["last_error"], &file);
}

#[test]
fn a_start_that_a_damaged_table_prevents_names_the_table() {
    let (data, _) = filled();
    let file = largest_table(&data);
    flip(&file, |size| size - 20);
    let refused = Server::try_start(&data, &[]).expect_err("it is damaged");
    let said = refused.said;
    assert!(said.contains(&file.display().to_string()) && said.contains("backup"), "{said}");
    assert!(!said.contains(".jnl"), "{said}");
}
