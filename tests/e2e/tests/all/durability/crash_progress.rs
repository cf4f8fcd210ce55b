//! Jobs that happen to run when the server dies are not its cause: as long as they make progress, they survive any
//! number of crashes. A job that makes none is dead after five.

use serde_json::{Value, json};
use windlass_e2e::{Server, eventually};

const STEPS: u64 = 40;

/// Kills the server once the job runs for the `attempt`th time and has saved more than `saved` steps, if given;
/// restarts it, and returns how many steps were saved.
fn crash(server: Server, id: &str, attempt: u64, saved: Option<u64>) -> (Server, u64) {
    let job = eventually(&format!("attempt {attempt} has come far enough"), || {
        let job = server.job(id);
        let steps = job["checkpoint"]["steps_done"].as_u64();
        let enough = saved.is_none_or(|before| steps > Some(before));
        (job["state"] == "active" && job["attempt"] == attempt && enough).then_some(job)
    });
    let steps = job["checkpoint"]["steps_done"].as_u64().unwrap_or_default();
    (Server::start_on(&server.kill_9(), &[]), steps)
}

fn errors(job: &Value) -> usize {
    job["errors"].as_array().expect("a list").len()
}

#[test]
fn a_job_that_saves_something_between_crashes_survives_more_than_five_of_them() {
    let mut server = Server::start();
    server.upload("digest", "digest");
    let id = server.enqueue(&json!({"queue": "digest", "payload": {"generate_mb": STEPS, "seed": 7, "pause_ms": 100}}));
    let mut saved = 0;
    for attempt in 1..=6 {
        (server, saved) = crash(server, &id, attempt, Some(saved));
        assert!(saved < STEPS, "the kill comes in the middle");
        let job = server.job(&id);
        assert!(job["crashes"].as_u64() <= Some(1), "only the last one is charged: {job:#}");
    }
    let job = server.wait_for(&id, "completed");
    assert_eq!((&job["attempt"], &job["crashes"], &job["failures"]), (&json!(7), &json!(0), &json!(0)));
    assert_eq!(job["result"]["steps"], STEPS);
    // The history is still shown.
    assert_eq!(errors(&job), 6, "{:#}", job["errors"]);
}

#[test]
fn a_job_that_makes_no_progress_is_dead_after_five_crashes() {
    let mut server = Server::start();
    server.upload("digest", "digest");
    let never_saves = json!({"generate_mb": STEPS, "pause_ms": 1_000, "checkpoint_ms": 3_600_000});
    let id = server.enqueue(&json!({"queue": "digest", "payload": never_saves}));
    for attempt in 1..=5 {
        (server, _) = crash(server, &id, attempt, None);
        let job = server.job(&id);
        assert_eq!((&job["crashes"], &job["checkpoint"]), (&json!(attempt), &Value::Null));
        assert_eq!(job["state"] == "dead", attempt == 5, "after crash {attempt}: {job:#}");
    }
    let job = server.job(&id);
    let last = job["timeline"].as_array().and_then(|steps| steps.last()).expect("a timeline");
    assert_eq!(last["reason"], "the server stopped too often while it ran");
    assert_eq!((errors(&job), &job["failures"]), (5, &json!(0)));
}
