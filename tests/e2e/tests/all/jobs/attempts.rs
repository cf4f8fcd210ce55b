//! The attempts of a job: one record for each, with what it used, which limits it hit and what it was denied.

use std::process::Stdio;

use serde_json::{Value, json};
use windlass_e2e::{Server, windlass};

use crate::access::{client_of, make_namespace};

fn attempts(server: &Server, id: &str) -> Vec<Value> {
    let answer = server.get(&format!("/api/v1/jobs/{id}/attempts"));
    assert_eq!(answer.status, 200, "{answer:?}");
    let list = answer.body["attempts"].as_array().cloned().expect("a list");
    assert_eq!((&answer.body["total"], &answer.body["before"]), (&json!(list.len()), &json!(0)), "{answer:?}");
    list
}

fn outcomes(attempts: &[Value]) -> Vec<&str> {
    attempts.iter().map(|one| one["outcome"].as_str().expect("an outcome")).collect()
}

/// Fetches the job of a queue and answers for it.
fn answer(server: &Server, queue: &str, how: &str, body: &Value) {
    let job = server.post("/api/v1/fetch", &json!({"queues": [queue], "worker_id": "w1", "timeout": 30})).body;
    let id = job["job_id"].as_str().expect("a job");
    assert_eq!(server.post(&format!("/api/v1/{how}/{id}"), body).status, 200);
}

#[test]
fn each_attempt_of_a_worker_has_a_record_also_after_the_job_is_retried_by_hand() {
    let server = Server::start();
    let id = server.enqueue(&json!({"queue": "q", "max_attempts": 2, "retry_base_delay": "10ms"}));
    assert_eq!(attempts(&server, &id), Vec::<Value>::new());
    answer(&server, "q", "fail", &json!({"error": "no", "backtrace": "here"}));
    answer(&server, "q", "ack", &json!({"result": 1}));
    assert_eq!(server.post(&format!("/api/v1/jobs/{id}/retry"), &json!({})).status, 200);
    server.post("/api/v1/fetch", &json!({"queues": ["q"], "worker_id": "w2", "timeout": 30}));
    let list = attempts(&server, &id);
    assert_eq!(outcomes(&list), ["failed", "completed", "running"]);
    let [failed, completed, running] = &list[..] else { panic!("{list:?}") };
    assert_eq!(
        (&failed["error"], &failed["backtrace"], &failed["worker"]["id"]),
        (&json!("no"), &json!("here"), &json!("w1"))
    );
    assert!(failed["backoff_ms"].is_u64() && failed["next_at"].is_string() && failed["waited_ms"].is_u64(), "{failed}");
    assert!(failed["started_at"].as_str() <= failed["ended_at"].as_str(), "{failed}");
    assert_eq!((&completed["number"], &completed["attempt"], &running["attempt"]), (&json!(2), &json!(2), &json!(1)));
    assert_eq!(
        (&running["number"], &running["ended_at"], &running["worker"]["id"]),
        (&json!(3), &Value::Null, &json!("w2"))
    );
    let mut command = windlass();
    let output =
        server.tell(&mut command).args(["job", "attempts", &id]).stdout(Stdio::piped()).output().expect("it runs");
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && table.contains("failed") && table.contains("no"), "{table}");

    let server = Server::start_on(&server.kill_9(), &[]);
    assert_eq!(outcomes(&attempts(&server, &id)), ["failed", "completed", "running"], "it is stored");
    assert_eq!(server.delete(&format!("/api/v1/jobs/{id}")).status, 200);
    make_namespace(&server, "acme", &json!({}));
    let hidden = server.enqueue(&json!({"queue": "q"}));
    let other = client_of(&server, "admin", "acme");
    assert_eq!(other.get(&format!("/api/v1/jobs/{hidden}/attempts")).status, 404);
}

#[test]
fn an_attempt_in_the_sandbox_says_which_limits_it_hit_and_what_it_was_denied() {
    let server = Server::start();
    server.upload("hostile", "hostile");
    let run = |payload: Value, state: &str| {
        let id = server.enqueue(&json!({"queue": "hostile", "payload": payload, "max_attempts": 1}));
        server.wait_for(&id, state);
        attempts(&server, &id).pop().expect("an attempt")
    };
    let plain = run(json!({"try": "clock"}), "completed");
    assert_eq!((&plain["outcome"], &plain["hits"], &plain["denials"]), (&json!("completed"), &json!([]), &json!([])));
    assert!(plain["cpu_ms"].is_u64() && plain["peak_memory"].as_u64() > Some(0), "{plain}");
    let large = run(json!({"try": "memory", "mb": 600, "ms": 100}), "dead");
    assert_eq!((&large["outcome"], &large["hits"]), (&json!("failed"), &json!(["memory"])), "{large}");
    let denied = run(json!({"try": "secret", "name": "token"}), "dead");
    let denial = &denied["denials"][0];
    assert_eq!((&denial["capability"], &denial["wanted"]), (&json!("secrets"), &json!("token")), "{denied}");
    assert_eq!(denial["grant"], json!({"secrets": ["token"]}));
    assert_eq!(denial["command"], "windlass plugin grant hostile --secret token");
    let spawned = run(json!({"try": "spawn", "queue": "elsewhere"}), "dead");
    assert_eq!(spawned["denials"][0]["grant"], json!({"spawn": ["elsewhere"]}), "{spawned}");

    let plugin = server.get("/api/v1/plugins/hostile").body;
    let told: Vec<&str> =
        plugin["denials"].as_array().into_iter().flatten().filter_map(|one| one["wanted"].as_str()).collect();
    assert_eq!(told, ["token", "elsewhere"], "{plugin}");
    let figures = &plugin["versions"][0]["figures"];
    assert_eq!(
        (&figures["attempts"], &figures["completed"], &figures["failed_attempts"]),
        (&json!(4), &json!(1), &json!(3))
    );
    assert_eq!((&figures["memory_bytes"]["count"], figures["cpu_ms"]["p95"].is_u64()), (&json!(4), true), "{figures}");
    assert_eq!(server.put("/api/v1/plugins/hostile/grant", br#"{"secrets": ["token"]}"#).status, 200);
    let plugin = server.get("/api/v1/plugins/hostile").body;
    assert_eq!(plugin["denials"].as_array().map(Vec::len), Some(1), "what is granted is denied no more: {plugin}");
}

#[test]
fn a_large_list_is_compressed_for_those_who_accept_it() {
    let server = Server::start();
    let jobs: Vec<Value> = (0..100).map(|n| json!({"queue": "q", "payload": n})).collect();
    server.post("/api/v1/enqueue/batch", &json!({"jobs": jobs}));
    let agent = |encoding: &str| {
        let url = server.url("/api/v1/jobs?limit=100");
        let mut curl = std::process::Command::new("curl");
        let key = format!("X-API-Key: {}", server.key());
        curl.args([
            "-s",
            "-D",
            "-",
            "-o",
            "/dev/null",
            "-H",
            &key,
            "-H",
            &format!("Accept-Encoding: {encoding}"),
            &url,
        ]);
        String::from_utf8_lossy(&curl.output().expect("curl runs").stdout).to_lowercase()
    };
    let packed = agent("gzip");
    assert!(packed.contains("content-encoding: gzip") && packed.contains("vary: accept-encoding"), "{packed}");
    assert!(!agent("identity").contains("content-encoding"), "nobody asked");
}
