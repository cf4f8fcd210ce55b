//! The audit log: what is in it, what never is, and that it holds together.

use std::process::Stdio;

use serde_json::{Value, json};
use windlass_e2e::{Server, windlass};

use super::client_of;

fn entries(server: &Server, query: &str) -> Vec<Value> {
    let page = server.get(&format!("/api/v1/audit-logs?limit=1000{query}"));
    assert_eq!(page.status, 200, "{page:?}");
    page.body["entries"].as_array().expect("a list").clone()
}

#[test]
fn every_change_is_noted_with_who_and_where_from_and_never_with_a_value() {
    let server = Server::start();
    let id = server.enqueue(&json!({"queue": "q", "payload": "payload-not-to-be-noted"}));
    assert_eq!(server.post(&format!("/api/v1/jobs/{id}/cancel"), &json!({})).status, 200);
    assert_eq!(server.post("/api/v1/queues/q/pause", &json!({})).status, 200);
    assert_eq!(server.put("/api/v1/secrets/token", b"secret-not-to-be-noted").status, 200);
    assert_eq!(server.post(&format!("/api/v1/jobs/{id}/cancel"), &json!({})).status, 400, "it is cancelled");
    let viewer = client_of(&server, "viewer", "default");
    assert_eq!(viewer.post("/api/v1/queues/q/resume", &json!({})).status, 403);
    let all = windlass_e2e::eventually("the refusal is noted", || {
        let all = entries(&server, "");
        all.iter().any(|entry| entry["outcome"] == "denied").then_some(all)
    });
    let short: Vec<_> = all
        .iter()
        .map(|entry| [&entry["action"], &entry["outcome"]].map(|value| value.as_str().unwrap_or_default()))
        .collect();
    for expected in [
        ["job.cancel", "done"],
        ["queue.configure", "done"],
        ["secret.set", "done"],
        ["job.cancel", "refused"],
        ["key.create", "done"],
        ["request", "denied"],
    ] {
        assert!(short.contains(&expected), "{expected:?} in {short:?}");
    }
    let cancel = all.iter().find(|entry| entry["action"] == "job.cancel").expect("it is there");
    assert_eq!((&cancel["target"], &cancel["role"]), (&json!(id), &json!("admin")), "{cancel}");
    assert_eq!(cancel["address"], "127.0.0.1", "{cancel}");
    let text = serde_json::to_string(&all).expect("JSON");
    assert!(!text.contains("not-to-be-noted") && !text.contains(&server.key()), "{text}");
    let of_secrets = entries(&server, "&action=secret");
    assert_eq!(of_secrets.len(), 1, "{of_secrets:?}");
}

#[test]
fn the_log_holds_together_over_a_crash_and_the_command_verifies_it() {
    let server = Server::start();
    for n in 0..20 {
        assert_eq!(server.post(&format!("/api/v1/queues/q{n}/pause"), &json!({})).status, 200);
    }
    let before = entries(&server, "");
    let server = Server::start_on(&server.kill_9(), &[]);
    assert_eq!(server.post("/api/v1/queues/q0/resume", &json!({})).status, 200);
    let after = entries(&server, "");
    assert_eq!(after[..before.len()], before[..], "what was acknowledged is there");
    assert_eq!(after.len(), before.len() + 1);
    let mut command = windlass();
    command.env("WINDLASS_URL", server.url("")).args(["audit", "--verify"]).stdout(Stdio::piped());
    let output = command.output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("none changed or missing"), "{said}");
    let first = server.get("/api/v1/audit-logs?limit=5").body;
    assert_eq!(first["entries"].as_array().map(Vec::len), Some(5));
    let next = server.get(&format!("/api/v1/audit-logs?limit=1&after={}", first["cursor"])).body;
    assert_eq!(next["entries"][0]["seq"], 6, "{next}");
}

#[test]
fn the_newest_entries_come_first_on_request_page_by_page() {
    let server = Server::start();
    for queue in ["a", "b", "c", "d"] {
        assert_eq!(server.post(&format!("/api/v1/queues/{queue}/pause"), &json!({})).status, 200);
    }
    let oldest_first = entries(&server, "&action=queue");
    let mut newest_first = Vec::new();
    let mut before = String::new();
    loop {
        let page = server.get(&format!("/api/v1/audit-logs?order=desc&limit=3&action=queue{before}"));
        assert_eq!(page.status, 200, "{page:?}");
        newest_first.extend(page.body["entries"].as_array().expect("a list").clone());
        match page.body["cursor"].as_u64() {
            Some(cursor) => before = format!("&before={cursor}"),
            None => break,
        }
    }
    newest_first.reverse();
    assert_eq!(newest_first.len(), 4, "{newest_first:?}");
    assert_eq!(newest_first, oldest_first);
    let mut command = windlass();
    command
        .env("WINDLASS_URL", server.url(""))
        .args(["audit", "--order", "desc", "--limit", "1"])
        .stdout(Stdio::piped());
    let output = command.output().expect("it starts");
    let [said, noted] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert!(said.contains("queue.configure") && noted.contains("--order desc --before"), "{said}{noted}");
}

#[test]
fn refusals_are_noted_wherever_they_are_decided_and_so_is_what_changes_no_row() {
    let server = Server::start();
    let limited = super::client_with(&server, &json!({"name": "l", "role": "operator", "queues": ["mail"]})).0;
    assert_eq!(limited.post("/api/v1/queues/pay/pause", &json!({})).status, 403);
    let wrong = server.get_with("/api/v1/queues", &[("X-API-Key", "wl_000000000000_wrong")]);
    assert_eq!(wrong.status, 401);
    assert_eq!(server.put("/api/v1/plugins/broken", b"no component").status, 422);
    let folder = br#"{"folders": {"/data": {"path": "/"}}}"#;
    assert_eq!(server.put("/api/v1/plugins/broken/grant", folder).status, 400);
    server.enqueue(&json!({"queue": "mail"}));
    let fetched = server.post("/api/v1/fetch", &json!({"queues": ["mail"], "worker_id": "w1"}));
    assert_eq!(fetched.status, 200, "{fetched:?}");
    assert_eq!(server.post("/api/v1/workers/w1/drain", &json!({})).status, 200);
    assert_eq!(server.post("/api/v1/workers/w1/resume", &json!({})).status, 200);
    for (action, target, outcome) in [
        ("request", "POST /api/v1/queues/pay/pause", "denied"),
        ("sign-in", "a wrong key", "denied"),
        ("plugin.upload", "broken", "refused"),
        ("plugin.grant", "broken", "refused"),
        ("worker.drain", "w1", "done"),
        ("worker.resume", "w1", "done"),
    ] {
        windlass_e2e::eventually(&format!("{action} of {target} is noted as {outcome}"), || {
            let all = entries(&server, &format!("&action={action}"));
            all.iter().any(|entry| entry["target"] == target && entry["outcome"] == outcome).then_some(())
        });
    }
}

#[test]
fn the_log_is_exported_as_lines_from_where_the_last_export_ended_and_kept_as_long_as_was_chosen() {
    let server = Server::start_on(&windlass_e2e::Data::new(), &["--audit-entries", "1000"]);
    let export = |after: u64| {
        let mut command = windlass();
        let after = after.to_string();
        command
            .env("WINDLASS_URL", server.url(""))
            .args(["audit", "--export", "--after", &after])
            .stdout(Stdio::piped());
        let output = command.output().expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).expect("text");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect::<Vec<Value>>()
    };
    for n in 0..3 {
        assert_eq!(server.post(&format!("/api/v1/queues/q{n}/pause"), &json!({})).status, 200);
    }
    let first = export(0);
    let last = first.last().and_then(|entry| entry["seq"].as_u64()).expect("a number");
    assert_eq!(server.post("/api/v1/queues/q0/resume", &json!({})).status, 200);
    let next = export(last);
    assert_eq!(next.len(), 1, "{next:?}");
    assert_eq!(next[0]["target"], "q0");
    for _ in 0..1_010 {
        assert_eq!(server.post("/api/v1/queues/q0/pause", &json!({})).status, 200);
    }
    let kept = export(0);
    assert_eq!(kept.len(), 1_000, "and what is left verifies");
}
