//! Live streams: every event once and in order, whenever a watcher connects, and across a reconnect and a restart.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_e2e::{DEADLINE, Event, Server};

fn kinds(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.kind.as_str()).collect()
}

/// Fetches one job, reports its progress and completes it.
fn work(server: &Server, queue: &str) -> String {
    let fetched = server.post("/api/v1/fetch", &json!({"queues": [queue], "worker_id": "w", "timeout": 5})).body;
    let id = fetched["job_id"].as_str().expect("an id").to_owned();
    server.post(
        "/api/v1/heartbeat",
        &json!({"jobs": {&id: {"progress": {"current": 1, "total": 2, "message": "half"}}}}),
    );
    assert_eq!(server.post(&format!("/api/v1/ack/{id}"), &json!({"result": {"sum": 3}})).status, 200);
    id
}

#[test]
fn a_watcher_sees_every_event_of_a_job_and_its_result() {
    let server = Server::start();
    let mut events = server.events("/api/v1/events?queues=q");
    server.enqueue(&json!({"queue": "other"}));
    let id = server.enqueue(&json!({"queue": "q", "scope": "user:1"}));
    work(&server, "q");
    let seen: Vec<Event> = events.by_ref().take(4).collect();
    assert_eq!(kinds(&seen), ["enqueued", "started", "progress", "completed"]);
    for event in &seen {
        assert_eq!(event.data["seq"].as_u64(), event.id);
        assert_eq!((&event.data["job_id"], &event.data["queue"]), (&json!(id), &json!("q")));
        assert_eq!((&event.data["type"], &event.data["scope"]), (&json!(event.kind), &json!("user:1")));
        assert!(event.data["at_ns"].as_u64().is_some_and(|at| at > 1_600_000_000_000_000_000), "{event:?}");
        let at = event.data["at"].as_str().unwrap_or_default();
        assert!(at.starts_with("20") && at.ends_with('Z') && at.len() == "2030-01-31T12:00:00.000Z".len(), "{event:?}");
    }
    assert_eq!((&seen[1].data["data"]["attempt"], &seen[2].data["data"]["message"]), (&json!(1), &json!("half")));
    assert_eq!(seen[3].data["data"], json!({"attempt": 1, "result": {"sum": 3}}));
}

#[test]
fn filters_narrow_by_job_type_and_scope() {
    let server = Server::start();
    let first = server.enqueue(&json!({"queue": "q", "scope": "user:1"}));
    let second = server.enqueue(&json!({"queue": "q", "scope": "user:2"}));
    let open = |filter: &str| server.events(&format!("/api/v1/events?last_event_id=0&{filter}"));
    let (mut by_job, mut by_type, mut by_scope) =
        (open(&format!("job_ids={second}")), open("types=cancelled,dead"), open("scopes=user:1,user:9"));
    server.post(&format!("/api/v1/jobs/{second}/cancel"), &json!({}));
    server.post(&format!("/api/v1/jobs/{first}/cancel"), &json!({}));
    assert_eq!(kinds(&by_job.by_ref().take(2).collect::<Vec<_>>()), ["enqueued", "cancelled"]);
    let ended: Vec<Value> = by_type.by_ref().take(2).map(|event| event.data["job_id"].clone()).collect();
    assert_eq!(ended, [json!(second), json!(first)]);
    let scoped: Vec<Event> = by_scope.by_ref().take(2).collect();
    assert!(scoped.iter().all(|event| event.data["job_id"] == json!(first)), "{scoped:?}");
    let wrong = server.get("/api/v1/events?types=exploded");
    assert_eq!((wrong.status, &wrong.body["code"]), (400, &json!("VALIDATION_ERROR")));
    assert!(wrong.body["error"].as_str().is_some_and(|why| why.contains("completed")), "{wrong:?}");
}

#[test]
fn reconnecting_with_the_last_id_misses_and_repeats_nothing_even_after_a_restart() {
    let server = Server::start();
    let jobs: Vec<Value> = (0..1_500).map(|n| json!({"queue": "q", "payload": n})).collect();
    server.post("/api/v1/enqueue/batch", &json!({"jobs": jobs}));
    let all: Vec<Event> = server.events_after("/api/v1/events", Some(0)).take(1_500).collect();
    let ids: Vec<u64> = all.iter().filter_map(|event| event.id).collect();
    assert!(ids.windows(2).all(|pair| pair[1] == pair[0] + 1), "each once, in order");
    let rest: Vec<Event> = server.events_after("/api/v1/events", Some(ids[699])).take(800).collect();
    assert_eq!(rest, all[700..]);

    let server = Server::start_on(&server.kill_9(), &[]);
    let id = server.enqueue(&json!({"queue": "q"}));
    let again: Vec<Event> = server.events_after("/api/v1/events", Some(ids[1_000])).take(500).collect();
    assert_eq!(again[..499], all[1_001..]);
    assert_eq!(again[499].data["job_id"], json!(id), "a gap in the numbers after a restart is no gap in the events");
}

#[test]
fn an_unknown_last_id_is_reported_and_the_stream_continues() {
    let server = Server::start();
    server.enqueue(&json!({"queue": "q"}));
    let mut events = server.events_after("/api/v1/events", Some(999_999_999));
    let word = events.next().expect("a word");
    assert_eq!((word.kind.as_str(), &word.data["code"], word.id), ("gone", &json!("UNKNOWN_EVENT"), None));
    let id = server.enqueue(&json!({"queue": "q"}));
    assert_eq!(events.next().expect("an event").data["job_id"], json!(id));
    assert_eq!(server.get("/api/v1/events?last_event_id=soon").status, 400);
}

#[test]
fn a_late_watcher_of_a_job_gets_what_is_stored_and_the_stream_ends_with_the_job() {
    let server = Server::start();
    let id = server.enqueue(&json!({"queue": "q"}));
    let path = format!("/api/v1/jobs/{id}/events");
    let early = server.events(&path);
    assert_eq!(work(&server, "q"), id);
    let early: Vec<Event> = early.collect();
    assert_eq!(kinds(&early), ["enqueued", "started", "progress", "completed"]);
    let late: Vec<Event> = server.events(&path).collect();
    assert_eq!(late, early);
    let rest: Vec<Event> = server.events_after(&path, early[1].id).collect();
    assert_eq!(rest, early[2..]);
    let last = early[3].id.expect("an id").to_string();
    assert_eq!(server.get_with(&path, &[("Last-Event-ID", &last)]).status, 204, "there is no more to come");

    // The events in memory ended with the process; they are on disk.
    let server = Server::start_on(&server.kill_9(), &[]);
    assert_eq!(server.events(&path).collect::<Vec<_>>(), early);
    assert_eq!(server.get("/api/v1/jobs/job_01JQ8ZK3V7N3W5X9Y1A2B3C4D5/events").status, 404);
}

#[test]
fn a_watcher_of_a_retried_job_sees_only_the_events_since_the_retry() {
    let server = Server::start();
    let id = server.enqueue(&json!({"queue": "q"}));
    let path = format!("/api/v1/jobs/{id}/events");
    work(&server, "q");
    assert_eq!(server.post(&format!("/api/v1/jobs/{id}/retry"), &json!({})).status, 200);
    let watching = server.events(&path);
    work(&server, "q");
    let second = ["pending", "started", "progress", "completed"];
    assert_eq!(kinds(&watching.collect::<Vec<_>>()), second);
    assert_eq!(kinds(&server.events(&path).collect::<Vec<_>>()), second);
}

#[test]
fn the_log_of_a_job_can_be_part_of_its_stream() {
    let server = Server::start();
    server.upload("digest", "digest");
    let id = server.enqueue(&json!({"queue": "digest", "payload": {"text": "hello"}}));
    let seen: Vec<Event> = server.events(&format!("/api/v1/jobs/{id}/events?logs=true")).collect();
    let logged = server.get(&format!("/api/v1/jobs/{id}/logs")).body["lines"].clone();
    let streamed: Vec<&Value> =
        seen.iter().filter(|event| event.kind == "log").map(|event| &event.data["data"]["text"]).collect();
    let stored: Vec<&Value> = logged.as_array().expect("lines").iter().map(|line| &line["text"]).collect();
    assert_eq!(streamed, stored);
    assert_eq!(seen.last().map(|event| event.kind.as_str()), Some("completed"));
}

#[test]
fn waiting_for_a_job_answers_as_soon_as_it_ends_or_when_time_is_up() {
    let server = Server::start();
    let id = server.enqueue(&json!({"queue": "q"}));
    let waited = server.get(&format!("/api/v1/jobs/{id}/wait?timeout=50ms"));
    assert_eq!(
        (waited.status, &waited.body["timed_out"], &waited.body["state"]),
        (200, &json!(true), &json!("pending"))
    );
    let client = (*server).clone();
    let path = format!("/api/v1/jobs/{id}/wait?timeout=10m");
    let (send, answer) = std::sync::mpsc::channel();
    std::thread::spawn(move || drop(send.send(client.get(&path))));
    work(&server, "q");
    let waited = answer.recv_timeout(DEADLINE).expect("an answer long before the time-out").body;
    assert_eq!(
        (&waited["timed_out"], &waited["state"], &waited["result"]),
        (&json!(false), &json!("completed"), &json!({"sum": 3}))
    );
    assert_eq!(server.get(&format!("/api/v1/jobs/{id}/wait")).body["state"], "completed");
    assert_eq!(server.get(&format!("/api/v1/jobs/{id}/wait?timeout=soon")).status, 400);
}

#[test]
fn a_watcher_that_does_not_read_is_disconnected_with_a_message_and_others_continue() {
    let server = Server::start();
    let address = server.url("").trim_start_matches("http://").to_owned();
    let mut slow = TcpStream::connect(&address).expect("a connection");
    write!(slow, "GET /api/v1/events HTTP/1.1\r\nhost: {address}\r\nx-api-key: {}\r\n\r\n", server.key())
        .expect("a request");
    let mut quick = server.events("/api/v1/events?types=cancelled");
    // Enough to fill every buffer on the way, and then the channel.
    let tags: Value = json!({"queue": "q".repeat(128)});
    for _ in 0..8 {
        server.post("/api/v1/enqueue/batch", &json!({"jobs": vec![tags.clone(); 10_000]}));
    }
    let id = server.enqueue(&json!({"queue": "q"}));
    server.post(&format!("/api/v1/jobs/{id}/cancel"), &json!({}));
    assert_eq!(quick.next().map(|event| event.data["job_id"].clone()), Some(json!(id)));
    slow.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    let mut all = Vec::new();
    slow.read_to_end(&mut all).expect("the server ends the stream");
    let text = String::from_utf8_lossy(&all);
    assert!(
        text.contains("event: dropped\n") && text.contains("TOO_SLOW"),
        "{}",
        &text[text.len().saturating_sub(400)..]
    );
}

#[test]
fn open_streams_end_when_the_server_stops() {
    let server = Server::start();
    let events = server.events("/api/v1/events");
    let reader = std::thread::spawn(move || events.count());
    let (status, said, _) = server.stop();
    assert!(status.success(), "{said}");
    assert!(!said.contains("still open"), "{said}");
    assert_eq!(reader.join().expect("no panic"), 0);
}

#[test]
fn a_watcher_of_one_job_is_not_affected_by_many_events_of_others() {
    let server = Server::start();
    let id = server.enqueue(&json!({"queue": "calm", "delay": "1h"}));
    let mut watching = server.events(&format!("/api/v1/jobs/{id}/events"));
    assert_eq!(watching.next().map(|event| event.kind), Some("enqueued".to_owned()));
    for _ in 0..2 {
        server.post("/api/v1/enqueue/batch", &json!({"jobs": vec![json!({"queue": "storm"}); 10_000]}));
    }
    server.post(&format!("/api/v1/jobs/{id}/cancel"), &json!({}));
    let rest: Vec<Event> = watching.collect();
    assert_eq!(kinds(&rest), ["cancelled"]);
}

/// A watcher that subscribes while the job runs must not lose the events between its subscription and the end.
#[test]
fn a_watcher_that_connects_while_the_job_ends_sees_every_event() {
    let server = Server::start();
    server.upload("digest", "digest");
    let watch_many = || {
        for _ in 0..100 {
            let id = server.enqueue(&json!({"queue": "digest", "payload": {"text": "hello"}}));
            let seen: Vec<Event> = server.events(&format!("/api/v1/jobs/{id}/events")).collect();
            assert_eq!(kinds(&seen), ["enqueued", "started", "progress", "checkpoint", "completed"]);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(watch_many);
        }
    });
}
