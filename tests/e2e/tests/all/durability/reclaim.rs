//! Disk space of removed jobs is reclaimed by a running server; a server that is killed meanwhile loses nothing.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde_json::{Value, json};
use windlass_e2e::{Data, Server, eventually};

/// As in docs/operating.md.
const BOUND: u64 = 75_000_000;
const JOBS: usize = 2_500;
const PAYLOAD: usize = 60_000;

/// What the database really takes on disk.
fn disk_use(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    let sizes = entries.flatten().map(|entry| {
        // A file may have been removed by now.
        let path = entry.path();
        if path.is_dir() { disk_use(&path) } else { fs::metadata(&path).map_or(0, |found| found.blocks() * 512) }
    });
    sizes.sum()
}

fn store(data: &Data) -> u64 {
    disk_use(&data.path().join("store"))
}

/// Text that does not compress.
fn text(mut seed: u64, size: usize) -> String {
    let mut text = String::with_capacity(size + 16);
    while text.len() < size {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(&format!("{:016x}", seed ^ (seed >> 29)));
    }
    text
}

fn enqueue_many(server: &Server, queue: &str, count: usize, payload: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for first in (0..count).step_by(100) {
        let jobs: Vec<Value> = (first..count.min(first + 100))
            .map(|n| json!({"queue": queue, "payload": {"n": n, "text": text(n as u64, payload)}}))
            .collect();
        let answer = server.post("/api/v1/enqueue/batch", &json!({ "jobs": jobs }));
        assert_eq!(answer.status, 201, "{answer:?}");
        ids.extend(answer.body["job_ids"].as_array().expect("ids").iter().filter_map(Value::as_str).map(str::to_owned));
    }
    ids
}

#[track_caller]
fn all_there(server: &Server, ids: &[String]) {
    for (n, id) in ids.iter().enumerate() {
        assert_eq!(server.job(id)["payload"]["n"], n, "{id}");
    }
}

#[test]
fn disk_space_is_reclaimed_without_a_restart_and_a_kill_in_between_loses_nothing() {
    let mut server = Server::start();
    let kept = enqueue_many(&server, "kept", 100, 6_000);
    enqueue_many(&server, "removed", JOBS, PAYLOAD);
    let answer = server.delete("/api/v1/queues/removed?confirm=true");
    assert_eq!(answer.status, 200, "{answer:?}");
    let full = store(server.data());
    assert!(full > 2 * BOUND, "there is much to give back: {full}");

    // Killed repeatedly, each time as soon as its files change.
    for _ in 0..3 {
        let before = store(server.data());
        eventually("it is at work", || (store(server.data()) != before || before < BOUND).then_some(()));
        server = Server::start_on(&server.kill_9(), &[]);
        all_there(&server, &kept);
        assert_eq!(server.get("/api/v1/jobs?queue=removed").body["jobs"], json!([]));
    }
    eventually("the space is back", || {
        // Reads and writes still work.
        server.enqueue(&json!({"queue": "kept", "payload": {}}));
        (store(server.data()) < BOUND).then_some(())
    });
    all_there(&server, &kept);
    let metrics = String::from_utf8(server.download("/metrics")).expect("text");
    assert!(metrics.contains("windlass_store_bytes{part=\"journals\"}"), "{metrics}");
}
