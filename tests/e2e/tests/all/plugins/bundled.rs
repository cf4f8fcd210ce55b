//! The bundled plugins on a real server: real work, watched live, interrupted and resumed, cancelled.
//!
//! `digest` has its own tests (crash, running, swaps); here are those in the other languages, and the Rust one that
//! uses HTTP.

use std::io::Write;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use windlass_e2e::{Data, Gate, Origin, Request, Server, answer, eventually, plugin};

/// A server with the plugin, uploaded with the test's own manifest.
fn server_with(name: &str, manifest: &Value) -> Server {
    let server = Server::start_on(&Data::new(), &[]);
    let answer = server.upload_with(&format!("/api/v1/plugins/{name}"), &plugin(name), &manifest.to_string());
    assert_eq!(answer.status, 201, "{answer:?}");
    server
}

fn grant(server: &Server, name: &str, grant: &Value) {
    let answer = server.put(&format!("/api/v1/plugins/{name}/grant"), grant.to_string().as_bytes());
    assert_eq!(answer.status, 200, "{answer:?}");
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("a number, not {value}"))
}

/// Enqueues the job, waits until `saved` accepts its checkpoint, kills the server, calls `meanwhile`, and returns the
/// next server with the job as it ended there.
fn cut_off(server: Server, job: &Value, saved: impl Fn(&Value) -> bool, meanwhile: impl FnOnce()) -> (Server, Value) {
    let id = server.enqueue(job);
    eventually("its checkpoint is saved", || saved(&server.job(&id)["checkpoint"]).then_some(()));
    let data = server.kill_9();
    meanwhile();
    let server = Server::start_on(&data, &[]);
    server.wait_for(&id, "completed");
    let job = server.job(&id);
    assert_eq!((&job["attempt"], &job["crashes"]), (&json!(2), &json!(0)), "{:#}", job["timeline"]);
    went_on(&server, &id);
    (server, job)
}

/// The events contain the progress of both attempts, and the second one did not start from the beginning.
fn went_on(server: &Server, id: &str) {
    let mut first = Vec::new();
    for event in server.events_after(&format!("/api/v1/jobs/{id}/events"), Some(0)) {
        match event.kind.as_str() {
            "started" => first.push(None),
            "progress" => {
                let current = event.data["data"]["current"].as_u64();
                first.last_mut().expect("it has started").get_or_insert(current);
            }
            "completed" => break,
            _ => {}
        }
    }
    assert!(first.len() == 2 && first[1] > first[0] && first[0] > Some(Some(0)), "{first:?}");
}

/// Enqueues the job, waits for its first progress event, cancels it, and asserts that it stopped by itself.
fn cancelled(server: &Server, job: &Value) -> Value {
    let queue = job["queue"].as_str().expect("a queue");
    let mut events = server.events(&format!("/api/v1/events?queues={queue}&types=progress"));
    let id = server.enqueue(job);
    let seen = events.find(|event| event.data["job_id"] == id.as_str()).expect("its progress");
    assert!(seen.data["data"]["message"].is_string(), "{seen:?}");
    let answer = server.post(&format!("/api/v1/jobs/{id}/cancel"), &json!({}));
    assert_eq!(answer.body["status"], "cancelling", "{answer:?}");
    let job = server.wait_for(&id, "cancelled");
    let log = server.get(&format!("/api/v1/jobs/{id}/logs")).body.to_string();
    assert!(!log.contains("by force"), "{log}");
    job
}

#[test]
fn log_digest_reads_a_log_in_go() {
    let server = server_with("log-digest", &json!({"queues": ["logs"], "config": {"pause_ms": "10"}}));
    let line =
        |n: usize| format!("10.0.0.{} - - [17/Nov/2026:02:03:04 +0000] \"GET /{} HTTP/1.1\" 200 7\n", n % 4, n % 3);
    let text: String = (0..300).map(line).collect();
    let job = json!({"queue": "logs", "payload": {"text": format!("{text}nonsense\n"), "block": 1, "top": 2}});
    let (server, job) = cut_off(server, &job, |saved| saved["lines"].as_u64() > Some(0), || {});
    let result = &job["result"];
    assert_eq!((&result["lines"], &result["unread"], &result["bytes"]), (&json!(301), &json!(1), &json!(2_100)));
    assert_eq!(result["statuses"], json!({"200": 300}), "no line is read twice");
    assert_eq!(result["pages"], json!([{"name": "/0", "count": 100}, {"name": "/1", "count": 100}]));
    assert_eq!(result["hours"], json!({"2026-11-17T02": 300}));

    let long: String = (0..50_000).map(line).collect();
    let job = cancelled(&server, &json!({"queue": "logs", "payload": {"text": long, "block": 1}}));
    assert!(number(&job["checkpoint"]["lines"]) > 0, "what it had read is kept");
}

#[test]
fn checksum_hashes_bytes_in_c() {
    let server = server_with("checksum", &json!({"queues": ["sums"], "config": {"pause_ms": "60"}}));
    let payload = "x".repeat(6 << 20);
    let bytes = json!(payload).to_string();
    let job = json!({"queue": "sums", "payload": payload});
    // Its state is a C struct that begins with the number of bytes, in eight bytes.
    let done = |saved: &Value| {
        let state = saved["$base64"].as_str().and_then(|text| STANDARD.decode(text).ok()).unwrap_or_default();
        state.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
    };
    let (server, job) = cut_off(server, &job, |saved| done(saved) > 1 << 20, || {});
    let sha256: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!((&job["result"]["sha256"], &job["result"]["bytes"]), (&json!(sha256), &json!(bytes.len())));
    let log = server.get(&format!("/api/v1/jobs/{}/logs", job["id"].as_str().expect("an id"))).body.to_string();
    assert!(log.contains("going on after"), "{log}");

    let job = cancelled(&server, &json!({"queue": "sums", "payload": payload}));
    assert!(done(&job["checkpoint"]) > 0, "what it had summed up is kept");
}

#[test]
fn report_sums_up_a_table_in_python() {
    let server = server_with("report", &json!({"queues": ["reports"]}));
    let rows = |count: usize| (0..count).map(|n| format!("{},{n}\n", ["Oslo", "Bern"][n % 2])).collect::<String>();
    let order = |count: usize| {
        let csv = format!("city,amount\n{}", rows(count));
        json!({"csv": csv, "group_by": "city", "sum": "amount", "title": "Sales", "checkpoint_ms": 1})
    };
    let job = json!({"queue": "reports", "payload": order(80_000)});
    let (server, job) = cut_off(server, &job, |saved| saved["rows"].as_u64() >= Some(2_000), || {});
    let result = &job["result"];
    assert_eq!((&result["rows"], &result["bad_rows"]), (&json!(80_000), &json!(0)), "no row is read twice");
    assert_eq!(result["columns"][1]["sum"], json!((0..80_000u64).sum::<u64>() as f64));
    assert_eq!(result["groups"][0]["name"], "Bern");
    assert!(result["svg"].as_str().is_some_and(|svg| svg.starts_with("<svg") && svg.contains("Oslo")), "{result:#}");

    let job = cancelled(&server, &json!({"queue": "reports", "payload": order(400_000)}));
    assert!(number(&job["checkpoint"]["rows"]) >= 2_000, "what it had read is kept");
}

const FILE: usize = 512 * 1024;

/// `/file` sends its first half and waits for the gate before the rest; `/drip` never ends and sends a little at a
/// time.
fn files(gate: &Gate) -> Origin {
    let gate = gate.clone();
    Origin::start(move |request, stream| match request.path.as_str() {
        "/hello" => answer(stream, 200, "hello"),
        "/file" => file(request, stream, &gate),
        "/drip" => drip(stream),
        _ => answer(stream, 404, ""),
    })
}

fn file(request: &Request, stream: &mut TcpStream, gate: &Gate) -> std::io::Result<()> {
    let range = request.header("range").and_then(|text| text.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok());
    let from: usize = range.unwrap_or(0);
    let status = if from > 0 { "206 Partial Content" } else { "200 OK" };
    let left = FILE - from;
    write!(stream, "HTTP/1.1 {status}\r\netag: \"v1\"\r\ncontent-length: {left}\r\nconnection: close\r\n\r\n")?;
    let first = (FILE / 2).saturating_sub(from);
    stream.write_all(&vec![b'x'; first])?;
    gate.wait();
    stream.write_all(&vec![b'x'; left - first])
}

fn drip(stream: &mut TcpStream) -> std::io::Result<()> {
    write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: 100000000\r\nconnection: close\r\n\r\n")?;
    loop {
        stream.write_all(&[b'x'; 1_000])?;
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn fetch_downloads_and_resumes_in_rust() {
    let gate = Gate::default();
    let origin = files(&gate);
    let manifest =
        |most: &str| json!({"capabilities": {"http": [origin.host()]}, "limits": {"http": {"response": most}}});
    let server = server_with("fetch", &manifest("1MiB"));
    let job = |path: &str| json!({"queue": "fetch", "payload": {"urls": [origin.url("/hello"), origin.url(path)], "checkpoint_ms": 0}});

    let once = json!({"queue": "fetch", "payload": {"urls": [origin.url("/hello")]}, "max_attempts": 1});
    let denied = server.wait_for(&server.enqueue(&once), "dead");
    let error = denied["errors"][0]["error"].as_str().expect("an error");
    let command = format!("windlass plugin grant fetch --private-http {}", origin.host());
    assert_eq!(error.matches(&command).count(), 1, "the grant that works, and once: {error}");
    assert!(origin.asked("/hello").is_empty(), "nobody has connected");

    grant(&server, "fetch", &json!({"private_http": [origin.host()]}));
    let half = |saved: &Value| saved["part"]["hash"]["bytes"].as_u64() == Some(FILE as u64 / 2);
    let (server, done) = cut_off(server, &job("/file"), half, || gate.open());
    let sha256: String = Sha256::digest(vec![b'x'; FILE]).iter().map(|byte| format!("{byte:02x}")).collect();
    let file = &done["result"]["files"][1];
    assert_eq!((&file["bytes"], &file["status"], &file["resumed"]), (&json!(FILE), &json!(200), &json!(1)));
    assert_eq!(file["sha256"], sha256);
    let ranges: Vec<_> =
        origin.asked("/file").iter().map(|request| request.header("range").map(str::to_owned)).collect();
    assert_eq!(ranges, [None, Some(format!("bytes={}-", FILE / 2))]);
    assert_eq!(origin.asked("/hello").len(), 1, "what was done before is not done again");

    // The manifest's own limit on responses applies to the same file.
    let answer = server.put("/api/v1/plugins/fetch/manifest", manifest("100KiB").to_string().as_bytes());
    assert_eq!(answer.status, 200, "{answer:?}");
    let mut large = job("/file");
    large["max_attempts"] = json!(1);
    let dead = server.wait_for(&server.enqueue(&large), "dead");
    let error = dead["errors"][0]["error"].as_str().expect("an error");
    assert!(error.contains(&origin.url("/file")), "{error}");
    // The first file has five bytes.
    let part = dead["checkpoint"]["part"]["hash"]["bytes"].as_u64();
    assert!(part <= Some(5), "nothing of the second has come: {dead:#}");

    let answer = server.put("/api/v1/plugins/fetch/manifest", manifest("256MiB").to_string().as_bytes());
    assert_eq!(answer.status, 200, "{answer:?}");
    let drip = json!({"queue": "fetch", "payload": {"urls": [origin.url("/drip")], "checkpoint_ms": 0}});
    let job = cancelled(&server, &drip);
    assert!(number(&job["checkpoint"]["part"]["hash"]["bytes"]) > 0, "what had come is kept");
}

const KEY: &str = "a-key-for-signatures";

#[test]
fn fanout_delivers_signed_events_in_typescript() {
    let gate = Gate::default();
    let held = gate.clone();
    let origin = Origin::start(move |request, stream| {
        if request.path == "/hook/3" {
            held.wait();
        }
        if request.path.starts_with("/slow/") {
            thread::sleep(Duration::from_millis(20));
        }
        answer(stream, if request.path == "/hook/1" { 410 } else { 204 }, "")
    });
    let server = server_with("fanout", &json!({"capabilities": {"http": [origin.host()], "secrets": ["webhook-key"]}}));
    assert!(server.put("/api/v1/secrets/webhook-key", KEY.as_bytes()).status < 300);
    let host = origin.host();
    grant(&server, "fanout", &json!({"http": [host], "private_http": [host], "secrets": ["webhook-key"]}));
    let targets =
        |path: &str, count: usize| (0..count).map(|n| origin.url(&format!("/{path}/{n}"))).collect::<Vec<_>>();
    let event = json!({"kind": "paid", "to": "Zoë"});
    let order = json!({"event": event, "targets": targets("hook", 5), "secret": "webhook-key", "concurrency": 1});
    let third = |saved: &Value| saved["outcomes"][2] == 204;
    let (server, job) = cut_off(server, &json!({"queue": "fanout", "payload": order}), third, || gate.open());
    let refused = json!([{"url": origin.url("/hook/1"), "status": 410}]);
    assert_eq!((&job["result"]["delivered"], &job["result"]["refused"]), (&json!(4), &refused));
    for n in [0, 1, 2, 4] {
        assert_eq!(origin.asked(&format!("/hook/{n}")).len(), 1, "{n} has it already");
    }
    for request in origin.asked("/hook/3") {
        assert_eq!(serde_json::from_slice::<Value>(&request.body).ok(), Some(event.clone()));
        assert_eq!(request.header("webhook-signature"), Some(signature(&request).as_str()));
    }

    let order = json!({"event": event, "targets": targets("slow", 2_000), "concurrency": 1});
    let job = cancelled(&server, &json!({"queue": "fanout", "payload": order}));
    assert_eq!(job["checkpoint"]["outcomes"][0], 204, "who has it stays noted");
}

/// As the Standard Webhooks specification defines it.
fn signature(request: &Request) -> String {
    let part = |name: &str| request.header(name).unwrap_or_else(|| panic!("no {name}: {request:?}"));
    let mut mac = Hmac::<Sha256>::new_from_slice(KEY.as_bytes()).expect("any key will do");
    mac.update(format!("{}.{}.", part("webhook-id"), part("webhook-timestamp")).as_bytes());
    mac.update(&request.body);
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}
