//! Guests that misbehave toward the server as a whole: its slots, its queues, its disk, and what other plugins entrust
//! to it. Beside each of them the jobs of another plugin must complete.

use serde_json::{Value, json};
use windlass_e2e::{Client, Data, Server, eventually, files_holding, plugin};

const HOSTILE: &str = "/api/v1/plugins/hostile";
const SECRET: &str = "hunter2-5up3r-s3cr3t-t0k3n";

/// A server with the hostile plugin, which has this manifest and grant, and a neighbour.
fn server(flags: &[&str], manifest: &str, grant: &Value) -> Server {
    let server = Server::start_on(&Data::new(), flags);
    server.upload("digest", "digest");
    upload(&server, "hostile", manifest, grant);
    server
}

fn upload(server: &Server, name: &str, manifest: &str, grant: &Value) {
    let path = format!("/api/v1/plugins/{name}");
    let answer = server.upload_with(&path, &plugin("hostile"), manifest);
    assert_eq!(answer.status, 201, "{answer:?}");
    let granted = server.put(&format!("{path}/grant"), grant.to_string().as_bytes());
    assert_eq!(granted.status, 200, "{granted:?}");
}

fn nothing() -> Value {
    json!({})
}

fn attempt(server: &Server, payload: &Value) -> String {
    server.enqueue(&json!({"queue": "hostile", "payload": payload, "max_attempts": 1}))
}

/// Jobs of another plugin complete.
#[track_caller]
fn neighbour_still_runs(server: &Client) {
    for n in 0..3 {
        let id = server.enqueue(&json!({"queue": "digest", "payload": {"text": format!("hello {n}")}}));
        server.wait_for(&id, "completed");
    }
}

/// Jobs of another plugin complete, and so does this one, which began before them.
#[track_caller]
fn beside(server: &Server, id: &str, state: &str) -> Value {
    eventually("it runs", || (server.job(id)["state"] != "pending").then_some(()));
    neighbour_still_runs(server);
    server.wait_for(id, state)
}

#[track_caller]
fn error(job: &Value) -> String {
    job["errors"][0]["error"].as_str().unwrap_or_else(|| panic!("no error: {job:#}")).to_owned()
}

fn running(server: &Server) -> u64 {
    server.get(HOSTILE).body["running"].as_u64().expect("a number")
}

/// A thousand jobs that never end, more urgent than any other.
fn enqueue_endless(server: &Server) {
    let endless = json!({"queue": "hostile", "payload": {"try": "sleep", "ms": 3_600_000}, "priority": "critical"});
    let answer = server.post("/api/v1/enqueue/batch", &json!({"jobs": vec![endless; 1_000]}));
    assert_eq!(answer.status, 201, "{answer:?}");
}

#[test]
fn endless_jobs_of_one_plugin_leave_slots_to_the_others() {
    let server = server(&["--slots", "8"], "", &nothing());
    enqueue_endless(&server);
    eventually("it has its share", || (running(&server) == 6).then_some(()));
    neighbour_still_runs(&server);
    assert_eq!(running(&server), 6, "three quarters of the slots, and no more");
}

#[test]
fn a_plugin_that_is_uploaded_after_endless_jobs_have_taken_the_slots_still_gets_one() {
    let server = Server::start_on(&Data::new(), &["--slots", "8"]);
    upload(&server, "hostile", "", &nothing());
    enqueue_endless(&server);
    eventually("all slots but one", || (running(&server) == 7).then_some(()));
    server.upload("digest", "digest");
    neighbour_still_runs(&server);
}

#[test]
fn the_share_of_a_plugin_can_be_set() {
    let all = server(&["--slots", "8", "--plugin-share", "100"], "", &nothing());
    enqueue_endless(&all);
    eventually("all slots", || (running(&all) == 8).then_some(()));
    let half = server(&["--slots", "8", "--plugin-share", "50"], "", &nothing());
    enqueue_endless(&half);
    eventually("half of them", || (running(&half) == 4).then_some(()));
    neighbour_still_runs(&half);
    assert_eq!(running(&half), 4);
}

#[test]
fn an_attempt_has_an_hour_unless_its_job_or_a_grant_says_otherwise() {
    let server = server(&[], "[limits]\nattempt_timeout = \"30d\"", &nothing());
    let limit = |job: Value| {
        let id = server.enqueue(&job);
        server.wait_for(&id, "completed")["result"].as_str().and_then(|ms| ms.parse::<u64>().ok()).expect("a number")
    };
    let job = json!({"queue": "hostile", "payload": {"try": "time_limit"}});
    assert!((3_000_000..=3_600_000).contains(&limit(job.clone())), "it asked for thirty days");
    let denied = server.get(HOSTILE).body["denied"].to_string();
    assert!(denied.contains("--attempt-timeout 30d"), "{denied}");
    let mut longer = job.clone();
    longer["attempt_timeout"] = json!("3h");
    assert!(limit(longer) > 9_000_000, "whoever enqueues it may give it longer");
    let grant = json!({"limits": {"attempt_timeout": "2h"}});
    assert_eq!(server.put(&format!("{HOSTILE}/grant"), grant.to_string().as_bytes()).status, 200);
    assert!((6_000_000..=7_200_000).contains(&limit(job)), "and so may the operator");
    neighbour_still_runs(&server);
}

#[test]
fn a_plugin_cannot_spawn_into_the_queue_of_another() {
    let server = server(&[], "[capabilities]\nspawn = [\"digest\"]", &nothing());
    let job = beside(&server, &attempt(&server, &json!({"try": "spawn", "queue": "digest"})), "dead");
    assert!(error(&job).contains("windlass plugin grant hostile --spawn digest"), "{}", error(&job));
    assert_eq!(server.queue("digest")["total"], 3, "those of the neighbour");
}

#[test]
fn jobs_that_spawn_themselves_come_to_an_end() {
    let server = server(&["--spawn-depth", "3"], "", &nothing());
    let id = attempt(&server, &json!({"try": "descend", "queue": "hostile", "width": 2}));
    beside(&server, &id, "completed");
    // One job, its two children, their four, and their eight, which may have none.
    let queue = eventually("the deepest have failed", || {
        let queue = server.queue("hostile");
        (queue["dead"] == 8).then_some(queue)
    });
    assert_eq!((&queue["completed"], &queue["total"]), (&json!(7), &json!(15)));
    let deepest = server.get("/api/v1/jobs?queue=hostile&state=dead&limit=1").body;
    let deepest = server.job(deepest["jobs"][0]["id"].as_str().expect("an id"));
    assert_eq!(deepest["depth"], 3);
    assert!(error(&deepest).contains("at most 3 generations"), "{}", error(&deepest));
}

/// Writes to the disk for two seconds, beside a neighbour.
fn fills(with: &str, state: &str) -> (Server, Value) {
    let server = server(&[], "", &nothing());
    let id = attempt(&server, &json!({"try": "fill", "with": with, "ms": 2_000}));
    let job = beside(&server, &id, state);
    (server, job)
}

#[test]
fn a_guest_that_fills_the_disk_with_checkpoints_does_not_stop_its_neighbour() {
    let (_, job) = fills("checkpoints", "completed");
    assert_eq!(job["attempt"], 1);
}

#[test]
fn a_guest_that_fills_the_disk_with_children_does_not_stop_its_neighbour() {
    let (server, job) = fills("children", "completed");
    let children = job["children"]["total"].as_u64().expect("a number");
    assert_eq!(server.queue("hostile")["scheduled"], children);
}

#[test]
fn a_guest_that_fills_the_disk_with_records_does_not_stop_its_neighbour() {
    let server = server(&[], "", &nothing());
    let id = attempt(&server, &json!({"try": "fill", "with": "records", "ms": 60_000}));
    let job = beside(&server, &id, "dead");
    assert!(error(&job).contains("one job writes at most 10000"), "{}", error(&job));
}

#[test]
fn a_guest_that_fills_the_disk_with_its_log_does_not_stop_its_neighbour() {
    let (_, job) = fills("log", "completed");
    let logged = job["attempt_usage"]["log_bytes"].as_u64().expect("a number");
    assert!(logged <= 1 << 20, "{logged}");
}

/// The same server with a secret that the hostile plugin is granted.
fn with_secret() -> Server {
    let spawn = json!(["*"]);
    let manifest = "[capabilities]\nsecrets = [\"token\"]\nspawn = [\"*\"]";
    let server = server(&[], manifest, &json!({"secrets": ["token"], "spawn": spawn}));
    assert_eq!(server.put("/api/v1/secrets/token", SECRET.as_bytes()).status, 200);
    server
}

#[test]
fn a_job_that_is_moved_does_not_bring_the_secret_of_one_plugin_to_another() {
    let server = with_secret();
    upload(&server, "spy", "queues = [\"spy\"]\n[capabilities]\nsecrets = [\"token\"]", &nothing());
    let keep = json!({"queue": "hostile", "payload": {"try": "keep_secret", "name": "token"},
        "retry_base_delay": "1h", "max_attempts": 5});
    let id = server.enqueue(&keep);
    eventually("it has saved its secret", || (server.job(&id)["state"] == "retrying").then_some(()));
    assert!(server.job(&id)["checkpoint"]["$encrypted"].is_u64());
    let move_to = |queue: &str| {
        let moved = server.post(&format!("/api/v1/jobs/{id}/move"), &json!({"queue": queue}));
        assert_eq!(moved.status, 200, "{moved:?}");
    };
    move_to("spy");
    let act = |act: &str| assert_eq!(server.post(&format!("/api/v1/jobs/{id}/{act}"), &json!({})).status, 200, "{act}");
    // A hold ends the wait for the next attempt.
    act("hold");
    act("approve");
    // It has no secret of its own, and trying again would not help.
    let spied = server.wait_for(&id, "dead");
    assert!(spied["errors"].to_string().contains("windlass plugin grant spy --secret token"), "{:#}", spied["errors"]);
    let log = eventually("the log is stored", || {
        let log = server.get(&format!("/api/v1/jobs/{id}/logs")).body.to_string();
        log.contains("starts without the job's checkpoint").then_some(log)
    });
    assert!(log.contains("a secret of the plugin `hostile`") && !log.contains(SECRET), "{log}");
    neighbour_still_runs(&server);

    // It is still there for the plugin that saved it.
    move_to("hostile");
    act("retry");
    assert_eq!(server.wait_for(&id, "completed")["result"], "as it was: true; kept: [secret]");
    let (_, said, data) = server.stop();
    assert!(!said.contains(SECRET));
    assert_eq!(files_holding(data.path(), SECRET.as_bytes()), Vec::<String>::new());
}

#[test]
fn a_secret_reaches_the_disk_in_no_key_mark_tag_scope_or_name_of_a_queue() {
    let server = with_secret();
    for place in ["record_key", "marked_key", "mark", "queue", "tag", "scope", "unique_key"] {
        let tell = json!({"try": "tell_secret_in", "name": "token", "place": place});
        let job = beside(&server, &attempt(&server, &tell), "dead");
        let told = error(&job);
        assert!(told.contains("contains a secret") && !told.contains(SECRET), "{place}: {told}");
    }
    let (_, said, data) = server.stop();
    assert!(!said.contains(SECRET));
    assert_eq!(files_holding(data.path(), SECRET.as_bytes()), Vec::<String>::new());
}
