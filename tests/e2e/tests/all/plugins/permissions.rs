//! What a plugin asks for and what it is granted: manifests, grants, limits, versions.

use serde_json::{Value, json};
use windlass_e2e::{Data, Server, eventually, plugin, variant, windlass};

const HOSTILE: &str = "/api/v1/plugins/hostile";

/// Uploads the plugin `hostile`, whose payload selects what it tries, with a manifest.
#[track_caller]
fn upload(server: &Server, manifest: &str) {
    let answer = server.upload_with(HOSTILE, &plugin("hostile"), manifest);
    assert!(answer.status == 201 || answer.status == 200, "{answer:?}");
}

#[track_caller]
fn attempt(server: &Server, payload: &Value) -> String {
    server.enqueue(&json!({"queue": "hostile", "payload": payload, "max_attempts": 1}))
}

#[track_caller]
fn tried(server: &Server, payload: &Value, state: &str) -> Value {
    let id = attempt(server, payload);
    server.wait_for(&id, state)
}

#[test]
fn the_error_names_a_denied_capability_and_the_command_that_grants_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().display().to_string();
    let server = Server::start_on(&Data::new(), &["--grant-root", &root]);
    std::fs::write(folder.path().join("greeting"), "hello").expect("a file");
    upload(
        &server,
        "[config]\nregion = \"eu\"\n[capabilities]\nread = [\"/data\"]\nenvironment = [\"TZ\"]\nsecrets = [\"token\"]",
    );
    let read = json!({"try": "read", "path": "/data/greeting"});
    let job = tried(&server, &read, "dead");
    let error = job["errors"][0]["error"].as_str().expect("an error").to_owned();
    let command = "windlass plugin grant hostile --read /data=/a/folder/of/the/server";
    assert!(error.contains(command), "{error}");
    assert!(error.contains("windlass plugin grant hostile --secret token"), "{error}");
    assert_eq!(server.get(HOSTILE).body["denied"].as_array().map(Vec::len), Some(3));

    // The operator runs that command.
    let words = command.replace("/a/folder/of/the/server", &folder.path().display().to_string());
    for line in [words.as_str(), "windlass plugin grant hostile --env TZ=UTC"] {
        let status = windlass().args(line.split(' ').skip(1)).env("WINDLASS_URL", server.url("")).status();
        assert!(status.expect("it runs").success(), "{line}");
    }
    assert_eq!(tried(&server, &read, "completed")["result"], "hello");
    assert_eq!(tried(&server, &json!({"try": "environment", "name": "TZ"}), "completed")["result"], "UTC");
    assert_eq!(tried(&server, &json!({"try": "config", "name": "region"}), "completed")["result"], "eu");
    let write = json!({"try": "write", "path": "/data/greeting", "text": "spoilt"});
    tried(&server, &write, "dead");
    assert_eq!(std::fs::read_to_string(folder.path().join("greeting")).expect("it is there"), "hello");

    // And revokes it.
    let status = windlass().args(["plugin", "revoke", "hostile"]).env("WINDLASS_URL", server.url("")).status();
    assert!(status.expect("it runs").success());
    tried(&server, &read, "dead");
}

#[test]
fn a_grant_can_be_set_first_and_is_removed_with_its_plugin() {
    let server = Server::start();
    let grant = json!({"environment": {"TZ": "UTC"}}).to_string();
    assert_eq!(server.put(&format!("{HOSTILE}/grant"), grant.as_bytes()).status, 200);
    upload(&server, "[capabilities]\nenvironment = [\"TZ\"]");
    assert_eq!(tried(&server, &json!({"try": "environment", "name": "TZ"}), "completed")["result"], "UTC");
    assert_eq!(server.delete(HOSTILE).status, 200);
    assert_eq!(server.get(&format!("{HOSTILE}/grant")).body["environment"], json!({}));
}

#[test]
fn a_manifest_is_read_as_toml_and_as_json_and_its_errors_are_named() {
    let server = Server::start();
    upload(&server, "queues = [\"a\", \"b\"]\nreuse = 2\n[retry]\nmax_attempts = 7\n[limits]\nmemory = \"64MiB\"");
    let shown = server.get(HOSTILE).body;
    assert_eq!(shown["queues"], json!(["a", "b"]));
    assert_eq!(shown["versions"][0]["manifest"]["limits"]["memory"], "64MiB");
    let id = server.enqueue(&json!({"queue": "a", "payload": {"try": "nothing"}}));
    assert_eq!(server.wait_for(&id, "completed")["max_attempts"], 7);

    let set = |text: &str| server.put(&format!("{HOSTILE}/manifest"), text.as_bytes());
    assert_eq!(set(r#"{"queues": ["c"], "limits": {"concurrency": 2}}"#).body["queues"], json!(["c"]));
    let shown = server.get(&format!("{HOSTILE}/manifest")).body;
    assert_eq!((&shown["revision"], &shown["manifest"]["limits"]["concurrency"]), (&json!(1), &json!(2)));
    for (wrong, named) in [
        ("[limits]\nmemory = \"lots\"", "256MiB"),
        ("[limits]\nconcurrency = 0", "concurrency"),
        (r#"{"capabilities": {"http": ["http://example.com/"]}}"#, "api.example.com"),
        (r#"{"capabilities": {"read": ["data"]}}"#, "read"),
        ("\u{1}", "manifest"),
    ] {
        let answer = set(wrong);
        assert_eq!(answer.status, 400, "{wrong}: {answer:?}");
        assert!(answer.body["error"].as_str().is_some_and(|error| error.contains(named)), "{wrong}: {answer:?}");
    }
    assert_eq!(server.get(HOSTILE).body["queues"], json!(["c"]), "nothing changed");
}

#[test]
fn a_queue_has_one_plugin_and_the_refusal_names_it() {
    let server = Server::start();
    server.upload("digest", "shared");
    let answer = server.upload_with(HOSTILE, &plugin("hostile"), "queues = [\"own\", \"shared\"]");
    assert_eq!((answer.status, &answer.body["code"]), (409, &json!("QUEUE_TAKEN")));
    assert!(answer.body["error"].as_str().is_some_and(|error| error.contains("`digest`")), "{answer:?}");
    assert_eq!(server.get(HOSTILE).status, 404, "nothing was stored");
}

#[test]
fn the_limits_of_the_manifest_apply_and_a_grant_can_only_lower_them() {
    let server = Server::start();
    upload(&server, "[limits]\nattempt_timeout = \"200ms\"");
    let slept = tried(&server, &json!({"try": "sleep", "ms": 60_000}), "dead");
    assert!(slept["errors"][0]["error"].as_str().is_some_and(|error| error.contains("200ms")), "{slept:#}");
    upload(&server, "[limits]\nattempt_timeout = \"1h\"\nmemory = \"1GiB\"");
    let grant = json!({"limits": {"attempt_timeout": "100ms"}}).to_string();
    assert_eq!(server.put(&format!("{HOSTILE}/grant"), grant.as_bytes()).status, 200);
    let slept = tried(&server, &json!({"try": "sleep", "ms": 60_000}), "dead");
    let error = slept["errors"][0]["error"].as_str().expect("an error");
    assert!(error.contains("100ms"), "{error}");
    let denied = server.get(HOSTILE).body["denied"].to_string();
    assert!(denied.contains("--attempt-timeout 1h") && denied.contains("--memory 1GiB"), "{denied}");
}

#[test]
fn a_plugin_runs_no_more_attempts_at_once_than_its_limit_and_others_continue() {
    let server = Server::start();
    upload(&server, "queues = [\"x\", \"y\"]\n[limits]\nconcurrency = 2");
    server.upload("digest", "digest");
    let sleepers: Vec<String> = (0..8)
        .map(|n| {
            let queue = if n % 2 == 0 { "x" } else { "y" };
            server.enqueue(&json!({"queue": queue, "payload": {"try": "sleep", "ms": 300}}))
        })
        .collect();
    let neighbour = server.enqueue(&json!({"queue": "digest", "payload": {"text": "hello"}}));
    server.wait_for(&neighbour, "completed");
    let mut most = 0;
    eventually("all have slept", || {
        let running = server.get(HOSTILE).body["running"].as_u64().expect("a number");
        most = most.max(running);
        sleepers.iter().all(|id| server.job(id)["state"] == "completed").then_some(())
    });
    assert_eq!(most, 2, "as many as it may, and no more");
}

#[test]
fn an_instance_is_reused_when_the_manifest_asks_for_it() {
    let server = Server::start();
    upload(&server, "reuse = 5");
    let served = |server: &Server| tried(server, &json!({"try": "served"}), "completed")["result"].clone();
    assert_eq!(served(&server), "1");
    assert_eq!(served(&server), "2");
    upload(&server, "reuse = 0");
    assert_eq!(served(&server), "1");
}

#[test]
fn versions_are_shown_downloaded_and_removed_but_not_while_in_use() {
    let server = Server::start();
    let (first, second) = (plugin("hostile"), variant(&plugin("hostile"), 2));
    server.upload_with(HOSTILE, &first, "");
    let old = server.get(HOSTILE).body["active"].as_str().expect("a version").to_owned();
    let id = attempt(&server, &json!({"try": "sleep", "ms": 60_000}));
    eventually("it runs", || (server.job(&id)["state"] == "active").then_some(()));
    let answer = server.put_with(HOSTILE, &[("Windlass-By", "ann@here")], &second);
    let new = answer.body["version"].as_str().expect("a version").to_owned();
    assert_ne!(old, new);

    let shown = server.get(HOSTILE).body;
    let versions = shown["versions"].as_array().expect("a list");
    assert_eq!((&versions[0]["running"], &versions[1]["running"]), (&json!(1), &json!(0)));
    assert_eq!((&versions[1]["uploaded_by"], &versions[1]["size"]), (&json!("ann@here"), &json!(second.len())));
    assert!(versions[0]["imports"].as_array().is_some_and(|imports| !imports.is_empty()));
    assert_eq!(server.download(&format!("{HOSTILE}/component?version={}", &old[..8])), first);

    for path in [format!("{HOSTILE}/versions/{old}"), format!("{HOSTILE}/versions/{new}"), HOSTILE.to_owned()] {
        let answer = server.delete(&path);
        assert_eq!((answer.status, &answer.body["code"]), (409, &json!("IN_USE")), "{path}: {answer:?}");
        assert!(answer.body["error"].as_str().is_some_and(|error| error.contains("force=true")), "{answer:?}");
    }
    // With force, running jobs are stopped, return to their queue without a failure, and start on another version.
    assert_eq!(server.delete(&format!("{HOSTILE}/versions/{old}?force=true")).status, 200);
    let job = eventually("it runs again", || {
        let job = server.job(&id);
        (job["attempt"] == 2 && job["state"] == "active").then_some(job)
    });
    assert_eq!((&job["plugin_version"], &job["failures"]), (&json!(new), &json!(0)));
    assert_eq!(server.delete(&format!("{HOSTILE}?force=true")).status, 200);
    eventually("it waits", || (server.job(&id)["state"] == "pending").then_some(()));
    assert_eq!(server.get(HOSTILE).status, 404);
}

#[test]
fn every_attempt_has_its_usage_and_its_version() {
    let server = Server::start();
    upload(&server, "");
    let version = server.get(HOSTILE).body["active"].clone();
    let done = tried(&server, &json!({"try": "nothing"}), "completed");
    let failed = tried(&server, &json!({"try": "panic"}), "dead");
    assert_eq!(done["plugin_version"], version);
    for usage in [&done["attempt_usage"], &failed["errors"][0]] {
        for field in ["cpu_ms", "wall_ms", "peak_memory", "host_calls", "log_bytes"] {
            assert!(usage[field].is_u64(), "{field}: {usage:#}");
        }
    }
    assert_eq!(failed["errors"][0]["plugin_version"], version);
    assert!(failed["errors"][0]["log_bytes"].as_u64() > Some(0), "a panic writes to standard error");
}

#[test]
fn a_plugin_without_a_grant_spawns_only_into_its_own_queues() {
    let server = Server::start();
    upload(&server, "queues = [\"hostile\"]\n[capabilities]\nspawn = [\"more*\"]");
    // A plugin cannot use what another plugin is granted.
    server.upload("digest", "more");
    let spawn = json!({"try": "wait", "children": 1, "then": "wait"});
    let job = tried(&server, &spawn, "dead");
    let error = job["errors"][0]["error"].as_str().expect("an error");
    let command = "windlass plugin grant hostile --spawn 'more*'";
    assert_eq!(error.matches(command).count(), 1, "what it asks for, and once: {error}");
    assert_eq!(server.queue("more")["pending"], 0);
    assert_eq!(server.get(HOSTILE).body["denied"].as_array().map(Vec::len), Some(1));

    // It waits for its child, or has already waited.
    let has_spawned = |id: &str| {
        let state = || server.job(id)["state"].as_str().map(str::to_owned);
        eventually("it waits for its child", || state().filter(|state| state == "blocked" || state == "completed"));
    };
    let line = "plugin grant hostile --spawn more";
    let status = windlass().args(line.split(' ')).env("WINDLASS_URL", server.url("")).status();
    assert!(status.expect("it runs").success());
    let id = attempt(&server, &spawn);
    has_spawned(&id);
    // Once revoked, it is denied again; serving the queue itself needs no grant.
    let words = ["plugin", "revoke", "hostile", "--spawn", "more"];
    let status = windlass().args(words).env("WINDLASS_URL", server.url("")).status();
    assert!(status.expect("it runs").success());
    tried(&server, &spawn, "dead");
    assert_eq!(server.delete("/api/v1/plugins/digest?force=true").status, 200);
    upload(&server, "queues = [\"hostile\", \"more\"]");
    let id = attempt(&server, &spawn);
    has_spawned(&id);
}
