//! One conformance handler, written in every language, with the same tests for each: see tests/guests/README.md.
//!
//! Compiling them takes most of the time, so all phases share one data folder, and with it the compiled code: each
//! component is uploaded once, in two versions that differ by a custom section at the end.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use serde_json::{Value, json};
use windlass_e2e::{Data, Server, eventually, plugin};

const LANGS: [&str; 6] = ["rust", "go", "c", "python", "js", "ts"];
const UNICODE: &str = "naïve — 日本語 🪢 \u{202e}עברית\u{202c} \"quoted\\\" \u{0}end";
const SECRET: &str = "windlass-s3cret-value";

#[test]
fn every_language_does_the_same() {
    let data = Data::new();
    let server = Server::start_on(&data, &[]);
    let page = answer_hello();
    let newer: Vec<String> = LANGS.iter().map(|lang| upload(&server, lang, &page)).collect();

    each(|lang, _| results(&server, lang));
    each(|lang, _| failures(&server, lang));
    each(|lang, _| joins(&server, lang));
    each(|lang, _| records(&server, lang));
    each(|lang, _| permissions(&server, lang, &page));
    each(|lang, _| live_progress(&server, lang));
    each(|lang, _| cancels(&server, lang));
    stops_while_it_waits(&server, "go");
    each(|lang, n| swaps(&server, lang, &newer[n]));

    // All of them are in the middle of their steps when the server dies.
    let jobs: Vec<String> = LANGS.iter().map(|lang| enqueue(&server, lang, steps(40, 50))).collect();
    for job in &jobs {
        wait_for_step(&server, job, 3);
    }
    let server = Server::start_on(&server.kill_9(), &[]);
    each(|lang, n| {
        let job = server.wait_for(&jobs[n], "completed");
        let (from, ran) = (number(&job["result"]["from"]), number(&job["result"]["ran"]));
        assert!(from >= 3 && ran == 40 - from, "{lang} goes on where it was: {job:#}");
        assert_eq!((&job["result"]["attempt"], &job["crashes"]), (&json!(2), &json!(0)), "{lang}");
    });
}

fn results(server: &Server, lang: &str) {
    let empty = server.wait_for(&enqueue(server, lang, json!({"mode": "noop"})), "completed");
    assert_eq!(empty["result"], json!({}), "{lang}");
    let payload = json!({"mode": "echo", "text": UNICODE});
    let echo = server.wait_for(&enqueue(server, lang, payload.clone()), "completed");
    assert_eq!(echo["result"]["text"], UNICODE, "{lang}");

    let large = json!({"mode": "echo", "text": "é".repeat(5 << 20)});
    // Requested once, not polled, because the response is as large as the payload.
    let job = server.get(&format!("/api/v1/jobs/{}/wait?timeout=50s", enqueue(server, lang, large))).body;
    assert_eq!(job["state"], "completed", "{lang}: {}", job["errors"]);
    assert!(number(&job["result"]["bytes"]) > 10 << 20, "{lang}: {}", job["result"]["bytes"]);
    assert_eq!(job["result"]["text"].as_str().map(str::len), Some(10 << 20), "{lang}");

    let queue = format!("children-{lang}");
    let order = json!({"mode": "spawn", "queue": queue, "count": 3, "text": "child"});
    let refused = json!({"queue": self::queue(lang), "payload": order, "max_attempts": 1});
    let refused = server.wait_for(&server.enqueue(&refused), "dead");
    let error = refused["errors"][0]["error"].as_str().unwrap_or_default();
    let command = format!("windlass plugin grant test-{lang} --spawn 'children-*'");
    assert_eq!(error.matches(&command).count(), 1, "{lang}: {error}");
    allow_spawning(server, lang, &queue);
    let parent = enqueue(server, lang, json!({"mode": "spawn", "queue": queue, "count": 3, "text": "child"}));
    assert_eq!(server.wait_for(&parent, "completed")["result"], json!({"spawned": 3}), "{lang}");
    assert_eq!(server.queue(&queue)["pending"], 3, "{lang}");
    let low = server.get(&format!("/api/v1/jobs?queue={queue}&priority=low")).body;
    assert_eq!(low["jobs"].as_array().map(Vec::len), Some(3), "{lang}: {low}");
}

fn failures(server: &Server, lang: &str) {
    let run = |payload: Value| {
        let job = json!({"queue": queue(lang), "payload": payload, "max_attempts": 2, "retry_backoff": "none"});
        server.wait_for(&server.enqueue(&job), "dead")
    };
    for (mode, runs) in [("fail", 2), ("retry_after", 2), ("panic", 2), ("fatal", 1)] {
        let job = run(json!({"mode": mode, "text": "the sky fell", "ms": 10}));
        let errors = job["errors"].as_array().expect("a list");
        assert_eq!(errors.len(), runs, "{lang} {mode}: {errors:#?}");
        let error = errors[0]["error"].as_str().unwrap_or_default();
        assert!(error.contains("the sky fell"), "{lang} {mode}: {error}");
        if mode == "panic" {
            assert!(errors[0]["backtrace"].as_str().is_some_and(|trace| !trace.is_empty()), "{lang}: {errors:#?}");
        }
    }
    let job = run(json!({"mode": "no-such-mode"}));
    assert_eq!(job["errors"].as_array().map(Vec::len), Some(1), "{lang}: an unknown mode is final: {job:#}");
}

/// Spawns children, waits for them without holding a slot, and reads their results.
fn joins(server: &Server, lang: &str) {
    let join = |bad: u64, on_failure: &str| {
        let order = json!({
            "mode": "join", "queue": queue(lang), "count": 3, "bad": bad, "text": UNICODE, "on_failure": on_failure,
        });
        enqueue(server, lang, order)
    };
    let job = server.wait_for(&join(0, "fail"), "completed");
    let texts = json!({"total": 3, "completed": 3, "dead": 0, "texts": [UNICODE, UNICODE, UNICODE]});
    assert_eq!(job["result"], texts, "{lang}");
    assert_eq!((&job["attempt"], &job["errors"]), (&json!(2), &json!([])), "{lang}: a wait is charged to nobody");

    let job = server.wait_for(&join(1, "continue"), "completed");
    assert_eq!(job["result"], json!({"total": 3, "completed": 2, "dead": 1, "texts": [UNICODE, UNICODE]}), "{lang}");
    let job = server.wait_for(&join(1, "fail"), "dead");
    assert_eq!(job["attempt"], 1, "{lang}: it is not run again: {job:#}");
}

/// Stores a record, reads it in a later job, and is denied the records of a foreign queue.
fn records(server: &Server, lang: &str) {
    let order = |queue: &str| json!({"mode": "record", "queue": queue, "name": "a/ü", "text": UNICODE});
    let run = |expected: Value| {
        let job = server.wait_for(&enqueue(server, lang, order(&queue(lang))), "completed");
        assert_eq!(job["result"], expected, "{lang}");
    };
    run(json!({"found": null, "mark": null, "round": null}));
    run(json!({"found": UNICODE, "mark": "seen", "round": null}));
    let set = server.post(&format!("/api/v1/queues/rounds-{lang}/settings"), &json!({"rounds": true}));
    assert_eq!(set.status, 200, "{lang}: {set:?}");
    let first = json!({"queue": format!("rounds-{lang}"), "payload": order(&format!("rounds-{lang}"))});
    let job = server.wait_for(&server.enqueue(&first), "completed");
    assert_eq!(job["result"], json!({"found": null, "mark": null, "round": 0}), "{lang}: a job knows its round");
    let job = server.wait_for(&enqueue(server, lang, order("elsewhere")), "dead");
    let error = job["errors"][0]["error"].as_str().unwrap_or_default();
    assert!(error.contains("may not read or mark records of the queue `elsewhere`"), "{lang}: {error}");
}

fn permissions(server: &Server, lang: &str, page: &str) {
    let once = |payload: Value| server.enqueue(&json!({"queue": queue(lang), "payload": payload, "max_attempts": 1}));
    let set = server.wait_for(&once(json!({"mode": "config", "name": "greeting"})), "completed");
    assert_eq!(set["result"], json!({"value": "grüezi"}), "{lang}");
    let unset = server.wait_for(&once(json!({"mode": "config", "name": "nothing"})), "completed");
    assert_eq!(unset["result"], json!({"value": null}), "{lang}");

    // Asked for and not granted, then granted.
    for payload in [json!({"mode": "fetch", "url": page}), json!({"mode": "secret", "name": "token"})] {
        let error = server.wait_for(&once(payload), "dead")["errors"][0]["error"].to_string();
        assert!(error.contains("grant"), "{lang}: {error}");
    }
    let host = host(page);
    let grant = json!({"http": [host], "private_http": [host], "secrets": ["token"]}).to_string();
    let granted = server.put(&format!("/api/v1/plugins/test-{lang}/grant"), grant.as_bytes());
    assert_eq!(granted.status, 200, "{granted:?}");
    let fetched = server.wait_for(&once(json!({"mode": "fetch", "url": page})), "completed");
    assert_eq!(fetched["result"], json!({"status": 200, "body": "hello 🌍"}), "{lang}");
    let secret = server.wait_for(&once(json!({"mode": "secret", "name": "token"})), "completed");
    assert_eq!(secret["result"], json!({"value": "[secret]"}), "{lang}: it has read it, and nobody is shown it");
}

fn live_progress(server: &Server, lang: &str) {
    let mut events = server.events(&format!("/api/v1/events?queues={}&types=progress,completed", queue(lang)));
    let job = enqueue(server, lang, steps(3, 50));
    let mut seen = Vec::new();
    for event in events.by_ref().filter(|event| event.data["job_id"] == job.as_str()) {
        if event.kind == "completed" {
            break;
        }
        let data = &event.data["data"];
        seen.push((number(&data["current"]), number(&data["total"]), data["message"].clone()));
    }
    assert_eq!(seen, [(1, 3, json!("step 1")), (2, 3, json!("step 2")), (3, 3, json!("step 3"))], "{lang}");
    let log = server.get(&format!("/api/v1/jobs/{job}/logs")).body.to_string();
    assert!(log.contains("step 1") && log.contains("step 3"), "{lang}: {log}");
}

fn cancels(server: &Server, lang: &str) {
    let listens = enqueue(server, lang, steps(10_000, 20));
    let deaf = enqueue(server, lang, json!({"mode": "spin"}));
    wait_for_step(server, &listens, 1);
    eventually("the deaf one runs", || (server.job(&deaf)["state"] == "active").then_some(()));
    for job in [&listens, &deaf] {
        let answer = server.post(&format!("/api/v1/jobs/{job}/cancel"), &json!({}));
        assert_eq!(answer.body["status"], "cancelling", "{lang}: {answer:?}");
    }
    for (job, forced) in [(listens, false), (deaf, true)] {
        server.wait_for(&job, "cancelled");
        let log = server.get(&format!("/api/v1/jobs/{job}/logs")).body.to_string();
        assert_eq!(log.contains("by force"), forced, "{lang}: {log}");
    }
}

/// A handler that waits for its context learns of a request to stop, although its one thread waits.
fn stops_while_it_waits(server: &Server, lang: &str) {
    let job = enqueue(server, lang, steps(1, 3_600_000));
    let log = || server.get(&format!("/api/v1/jobs/{job}/logs")).body.to_string();
    eventually("it is about to wait", || log().contains("step 1").then_some(()));
    server.post(&format!("/api/v1/jobs/{job}/cancel"), &json!({}));
    server.wait_for(&job, "cancelled");
    assert!(!log().contains("by force"), "{lang}: {}", log());
}

/// The running attempt finishes on its version, the next one takes the new.
fn swaps(server: &Server, lang: &str, newer: &str) {
    let name = format!("/api/v1/plugins/test-{lang}");
    let older = server.get(&name).body["active"].clone();
    assert_ne!(older, newer, "{lang}");
    let running = enqueue(server, lang, steps(20, 50));
    wait_for_step(server, &running, 1);
    let answer = server.post(&format!("{name}/activate"), &json!({"version": newer}));
    assert_eq!((answer.status, &answer.body["active"]), (200, &json!(newer)), "{lang}: {answer:?}");
    let next = enqueue(server, lang, json!({"mode": "noop"}));
    server.wait_for(&next, "completed");
    let job = server.wait_for(&running, "completed");
    assert_eq!((&job["result"]["ran"], &job["attempt"]), (&json!(20), &json!(1)), "{lang}: {job:#}");
}

/// Uploads two versions, activates the first, and returns the digest of the second.
fn upload(server: &Server, lang: &str, page: &str) -> String {
    let name = format!("test-{lang}");
    let manifest = json!({
        "queues": [queue(lang), format!("rounds-{lang}")],
        "config": {"greeting": "grüezi"},
        "capabilities": {"http": [host(page)], "secrets": ["token"], "spawn": ["children-*"]},
    });
    let component = plugin(&name);
    let mut newer = component.clone();
    // An empty custom section with the name `v`.
    newer.extend([0, 2, 1, b'v']);
    for (bytes, activate) in [(&component, true), (&newer, false)] {
        let path = format!("/api/v1/plugins/{name}?activate={activate}");
        let answer = server.upload_with(&path, bytes, &manifest.to_string());
        assert_eq!(answer.status, 201, "{lang}: {answer:?}");
    }
    let set = server.put("/api/v1/secrets/token", SECRET.as_bytes());
    assert!(set.status < 300, "{set:?}");
    let versions = server.get(&format!("/api/v1/plugins/{name}")).body["versions"].clone();
    let newest = versions.as_array().and_then(|list| list.last()).map(|version| version["version"].clone());
    newest.and_then(|version| version.as_str().map(str::to_owned)).expect("a second version")
}

/// Adds it to what is granted.
fn allow_spawning(server: &Server, lang: &str, queue: &str) {
    let path = format!("/api/v1/plugins/test-{lang}/grant");
    let mut grant = server.get(&path).body;
    grant["spawn"] = json!([queue]);
    assert_eq!(server.put(&path, grant.to_string().as_bytes()).status, 200, "{lang}");
}

/// The same for all languages concurrently. Each thread has its language's name, so that a failure shows it.
fn each(work: impl Fn(&str, usize) + Sync) {
    thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = LANGS
            .iter()
            .enumerate()
            .map(|(n, lang)| {
                let thread = thread::Builder::new().name((*lang).to_owned());
                thread.spawn_scoped(scope, move || work(lang, n)).expect("a thread")
            })
            .collect();
        let failed: Vec<&str> = threads
            .into_iter()
            .zip(LANGS)
            .filter_map(|(thread, lang)| thread.join().is_err().then_some(lang))
            .collect();
        assert!(failed.is_empty(), "failed in {}", failed.join(", "));
    });
}

fn queue(lang: &str) -> String {
    format!("q-{lang}")
}

fn enqueue(server: &Server, lang: &str, payload: Value) -> String {
    server.enqueue(&json!({"queue": queue(lang), "payload": payload}))
}

fn steps(steps: u64, pause_ms: u64) -> Value {
    json!({"mode": "steps", "steps": steps, "pause_ms": pause_ms})
}

fn wait_for_step(server: &Server, job: &str, step: u64) {
    eventually(&format!("step {step} is saved"), || {
        server.job(job)["checkpoint"].as_u64().filter(|done| *done >= step)
    });
}

#[track_caller]
fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("a number, not {value}"))
}

/// Starts a web server that answers every request with a greeting, and returns its address.
fn answer_hello() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut stream = stream;
                let _ = stream.read(&mut [0; 4096]);
                let body = "hello 🌍";
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
                let _ = stream.write_all([head.as_bytes(), body.as_bytes()].concat().as_slice());
            });
        }
    });
    format!("http://{address}/hello?n=1")
}

/// The host and port of an address.
fn host(page: &str) -> &str {
    page.trim_start_matches("http://").split('/').next().expect("a host")
}
