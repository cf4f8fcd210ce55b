//! The pulse, the attempts that run now, and the server itself.

use std::process::Stdio;

use serde_json::{Value, json};
use windlass_e2e::{Client, Events, Server, windlass};

use crate::access::{client_of, make_namespace};

/// The data of the next pulse for which this has a value.
#[track_caller]
fn told<T>(events: &mut Events, mut seen: impl FnMut(&Value) -> Option<T>) -> T {
    loop {
        let event = events.next().expect("the stream goes on");
        assert_eq!(event.kind, "pulse");
        assert!(event.data["at"].is_string(), "{event:?}");
        if let Some(value) = seen(&event.data) {
            return value;
        }
    }
}

fn hostile(server: &Server, payload: &Value) -> String {
    server.enqueue(&json!({"queue": "hostile", "payload": payload}))
}

fn table(server: &Client, command: &[&str]) -> String {
    let mut windlass = windlass();
    windlass.env("WINDLASS_URL", server.url("")).env("WINDLASS_API_KEY", server.key().unwrap_or_default());
    let output = windlass.args(command).stdout(Stdio::piped()).output().expect("it runs");
    assert!(output.status.success(), "{command:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_watcher_is_told_everything_first_and_then_the_queues_that_change() {
    let server = Server::start();
    server.enqueue(&json!({"queue": "quiet"}));
    let mut pulse = server.events("/api/v1/pulse");
    let first = told(&mut pulse, |data| Some(data.clone()));
    assert_eq!((&first["full"], &first["queues"]["quiet"]["pending"]), (&json!(true), &json!(1)), "{first}");
    assert_eq!((&first["slots"]["busy"], &first["paused_since"]), (&json!(0), &Value::Null), "{first}");
    assert!(first["workers"].is_array() && first["canaries"].is_object() && first["bulk"].is_array(), "{first}");
    server.enqueue(&json!({"queue": "busy"}));
    let second = told(&mut pulse, |data| data["queues"].get("busy").is_some().then(|| data.clone()));
    assert_eq!((&second["full"], &second["queues"]["busy"]["enqueued"]), (&Value::Null, &json!(1)), "{second}");
    assert_eq!(second["totals"]["pending"], json!(2), "{second}");
    assert_eq!(server.post("/api/v1/queues/busy/pause", &json!({})).status, 200);
    told(&mut pulse, |data| (data["queues"]["busy"]["paused"] == json!(true)).then_some(()));
    assert_eq!(server.delete("/api/v1/queues/busy?confirm=true").status, 200);
    let last = told(&mut pulse, |data| {
        let gone = data["queues"].as_object().is_some_and(|queues| queues.get("busy") == Some(&Value::Null));
        gone.then(|| data.clone())
    });
    assert_eq!(last["totals"]["pending"], json!(1), "{last}");
    assert_eq!(server.get("/api/v1/pulse?jobs=job_x").status, 400);
}

#[test]
fn a_watched_job_is_told_with_its_progress_and_what_it_uses() {
    let server = Server::start();
    server.upload("hostile", "hostile");
    let id = hostile(&server, &json!({"try": "memory", "mb": 8, "ms": 600_000}));
    let mut pulse = server.events(&format!("/api/v1/pulse?jobs={id}"));
    let live = told(&mut pulse, |data| {
        let live = &data["jobs"][&id]["live"];
        (live["memory_bytes"].as_u64() >= Some(8 << 20)).then(|| live.clone())
    });
    assert_eq!((&live["memory_limit_bytes"], &live["hits"]), (&json!(256 << 20), &json!([])), "{live}");
    assert!(live["deadline"].is_string() && live["stopping_since"].is_null(), "{live}");

    let running = server.get("/api/v1/attempts?plugin=hostile").body;
    let attempt = &running["attempts"][0];
    assert_eq!(
        (&running["total"], &attempt["job_id"], &attempt["runs_in"]),
        (&json!(1), &json!(id), &json!("sandbox"))
    );
    assert_eq!(
        (&attempt["plugin"], &attempt["attempt"], &attempt["canary"]),
        (&json!("hostile"), &json!(1), &json!(false))
    );
    assert!(attempt["live"]["cpu_ms"].is_u64() && attempt["plugin_version"].is_string(), "{attempt}");
    let listed = table(&server, &["attempt", "list", "--queue", "hostile"]);
    assert!(listed.contains(&id) && listed.contains("of 256.0 MiB"), "{listed}");
    assert_eq!(server.get("/api/v1/attempts?limit=0").status, 400);
    assert_eq!(server.get("/api/v1/attempts?queue=other").body["total"], json!(0));
    let system = server.get("/api/v1/system").body;
    assert_eq!(system["slots"], json!({"total": 64, "busy": 1, "by_plugin": {"hostile": 1}}));

    assert_eq!(server.post(&format!("/api/v1/jobs/{id}/cancel"), &json!({})).status, 200);
    told(&mut pulse, |data| data["jobs"][&id]["live"]["stopped_by"].is_string().then_some(()));
    let ended = told(&mut pulse, |data| (data["jobs"][&id]["state"] == "cancelled").then(|| data["jobs"][&id].clone()));
    assert_eq!(ended["live"], Value::Null, "{ended}");
}

#[test]
fn another_namespace_sees_nothing_of_this_one() {
    let server = Server::start();
    make_namespace(&server, "acme", &json!({}));
    let id = server.enqueue(&json!({"queue": "mail"}));
    server.post("/api/v1/fetch", &json!({"queues": ["mail"], "worker_id": "w", "timeout": 5}));
    let other = client_of(&server, "viewer", "acme");
    let first = told(&mut other.events(&format!("/api/v1/pulse?jobs={id}")), |data| Some(data.clone()));
    assert_eq!((first.get("queues"), first.get("jobs")), (None, None), "{first}");
    assert_eq!((&first["totals"]["active"], &first["workers"]), (&json!(0), &json!([])), "{first}");
    assert_eq!(other.get("/api/v1/attempts").body, json!({"attempts": [], "total": 0}));
    let own = server.get("/api/v1/attempts").body;
    assert_eq!(
        (&own["attempts"][0]["worker"]["id"], &own["attempts"][0]["live"]),
        (&json!("w"), &Value::Null),
        "{own}"
    );
}

#[test]
fn the_stream_ends_when_the_key_is_revoked() {
    let server = Server::start();
    let wanted = json!({"name": "short", "role": "viewer"});
    let made = server.post("/api/v1/auth/keys", &wanted).body;
    let text = |field: &str| made[field].as_str().expect("text").to_owned();
    let mut pulse = server.without_key().with_key(Some(text("key"))).events("/api/v1/pulse");
    told(&mut pulse, |data| (data["full"] == json!(true)).then_some(()));
    assert_eq!(server.delete(&format!("/api/v1/auth/keys/{}", text("id"))).status, 200);
    let end = pulse.find(|event| event.kind == "ended").expect("the end is told");
    assert_eq!(end.data["code"], "SIGNED_OUT");
    assert!(pulse.next().is_none());
}

#[test]
fn the_server_shows_its_state_and_the_machine_only_to_those_who_administer_it() {
    let server = Server::start();
    server.enqueue(&json!({"queue": "mail"}));
    let system = server.get("/api/v1/system").body;
    assert_eq!(
        (&system["durability"], &system["mode"], &system["tls"]),
        (&json!("fsync"), &json!("single"), &json!(false))
    );
    assert!(system["data"]["size_bytes"].as_u64() >= system["data"]["free_bytes"].as_u64(), "{system}");
    assert!(system["commits"]["count"].as_u64() >= Some(1) && system["commits"]["p99_ms"].is_f64(), "{system}");
    assert!(system["memory"]["resident_bytes"].as_u64() > Some(1 << 20), "{system}");
    assert!(system["connections"]["open"].as_u64() >= Some(1) && system["open_files"]["open"].as_u64() > Some(3));
    assert_eq!(system["limits"]["max_body_bytes"], json!(16 << 20));
    assert!(system["confinement"]["seccomp"]["in_force"].is_boolean(), "{system}");
    let text = system.to_string();
    assert!(!text.contains(&server.key()) && !text.contains("key_file"), "{text}");
    make_namespace(&server, "acme", &json!({}));
    for client in [client_of(&server, "viewer", "default"), client_of(&server, "admin", "acme")] {
        let system = client.get("/api/v1/system").body;
        for hidden in ["data", "memory", "open_files", "connections"] {
            assert_eq!(system[hidden], Value::Null, "{system}");
        }
        assert!(system["version"].is_string() && system["commits"]["count"].is_u64(), "{system}");
    }
    let shown = table(&server, &["status", "--system"]);
    assert!(shown.contains("disk free") && shown.contains("limit max_body_bytes"), "{shown}");
}
