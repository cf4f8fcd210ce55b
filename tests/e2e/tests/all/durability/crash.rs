//! The server dies without warning, and no work is lost.

use serde_json::{Value, json};
use windlass_e2e::{Server, eventually};

const STEPS: u64 = 20;

/// Twenty steps, each followed by a checkpoint and a pause.
fn slow_job() -> Value {
    json!({"queue": "digest", "payload": {"generate_mb": STEPS, "seed": 7, "pause_ms": 100}})
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("a number, not {value}"))
}

/// Waits until the job has saved this many steps, and returns how many it really has.
fn wait_for_steps(server: &Server, id: &str, steps: u64) -> u64 {
    eventually(&format!("{steps} steps are saved"), || {
        let done = server.job(id)["checkpoint"]["steps_done"].as_u64();
        done.filter(|done| *done >= steps)
    })
}

#[test]
fn a_job_interrupted_by_kill_9_continues_from_its_last_checkpoint_and_completes_once() {
    let server = Server::start();
    server.upload("digest", "digest");
    let id = server.enqueue(&slow_job());
    let saved = wait_for_steps(&server, &id, 5);
    assert!(saved < STEPS, "the kill comes in the middle");
    let data = server.kill_9();

    let server = Server::start_on(&data, &[]);
    let job = server.wait_for(&id, "completed");

    // According to the guest, the first attempt ran the first steps, the second all others, and none was run by both.
    let result = &job["result"];
    let shares = result["attempts"].as_array().expect("the record of attempts");
    assert_eq!(shares.len(), 2, "{result:#}");
    let last_saved = number(&shares[0]["last_step"]);
    assert!(last_saved >= saved, "nothing that was saved is run again: {result:#}");
    assert_eq!(shares[0], json!({"attempt": 1, "first_step": 1, "last_step": last_saved}));
    assert_eq!(shares[1], json!({"attempt": 2, "first_step": last_saved + 1, "last_step": STEPS}));
    assert_eq!(number(&result["steps_run"]), STEPS - last_saved);

    // According to the job, there were two attempts, one interrupted, none failed, one completed. It has made progress
    // since the crash, so the count of crashes is back at zero.
    assert_eq!((&job["attempt"], &job["crashes"], &job["failures"]), (&json!(2), &json!(0), &json!(0)));
    let errors = job["errors"].as_array().expect("a list");
    assert_eq!(errors.len(), 1, "{errors:#?}");
    assert_eq!(errors[0]["attempt"], 1);
    assert!(errors[0]["error"].as_str().is_some_and(|error| error.contains("the server stopped")), "{errors:#?}");
    let states: Vec<&Value> = job["timeline"].as_array().expect("a list").iter().map(|step| &step["state"]).collect();
    assert_eq!(states, ["pending", "active", "pending", "active", "completed"]);

    // And the result is the same as without a crash.
    let whole = json!({"queue": "digest", "payload": {"generate_mb": STEPS, "seed": 7, "checkpoint_ms": 1000}});
    let undisturbed = server.wait_for(&server.enqueue(&whole), "completed");
    assert_eq!(undisturbed["attempt"], 1);
    for field in ["sha256", "bytes", "lines", "words", "steps"] {
        assert_eq!(result[field], undisturbed["result"][field], "{field}");
    }

    let log = server.get(&format!("/api/v1/jobs/{id}/logs")).body;
    let resumed = format!("going on after step {last_saved} of {STEPS}");
    let line = log["lines"].as_array().and_then(|lines| lines.iter().find(|line| line["text"] == resumed.as_str()));
    assert_eq!(line.map(|line| &line["attempt"]), Some(&json!(2)), "{log:#}");
}

#[test]
fn a_job_interrupted_twice_continues_both_times_and_completes() {
    let server = Server::start();
    server.upload("digest", "digest");
    let id = server.enqueue(&slow_job());
    wait_for_steps(&server, &id, 3);
    let server = Server::start_on(&server.kill_9(), &[]);
    wait_for_steps(&server, &id, 8);
    let server = Server::start_on(&server.kill_9(), &[]);
    let job = server.wait_for(&id, "completed");
    assert_eq!((&job["attempt"], &job["crashes"]), (&json!(3), &json!(0)));
    let first_steps: Vec<u64> = job["result"]["attempts"]
        .as_array()
        .expect("a record")
        .iter()
        .map(|share| number(&share["first_step"]))
        .collect();
    assert_eq!(first_steps.len(), 3);
    assert!(first_steps[1] > 3 && first_steps[2] > 8, "{first_steps:?}");
}

#[test]
fn every_acknowledged_job_survives_kill_9() {
    let server = Server::start();
    let ids: Vec<String> = (0..50).map(|n| server.enqueue(&json!({"queue": "waiting", "payload": {"n": n}}))).collect();
    let server = Server::start_on(&server.kill_9(), &[]);
    for (n, id) in ids.iter().enumerate() {
        let job = server.job(id);
        assert_eq!((&job["state"], &job["payload"]), (&json!("pending"), &json!({"n": n})));
    }
    assert_eq!(server.queue("waiting")["pending"], 50);
}
