//! Places in the pool: fair between plugins.

use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use windlass_executor::{CancelReason, Config, Executor, Outcome};

use crate::support::{built, hostile, root, start_on};

/// Set `WINDLASS_BLESS` to write the file again.
#[test]
fn the_benchmarks_sleeper_is_the_one_in_plugins_hostile() {
    let path = root().join("runtime/bench/src/sandbox/sleeper.wasm");
    let expected = hostile("sleep-forever");
    if std::env::var_os("WINDLASS_BLESS").is_some() {
        std::fs::write(&path, &expected).expect("a file");
    }
    assert!(std::fs::read(&path).expect("a file") == expected, "run this test again with WINDLASS_BLESS=1");
}

#[tokio::test]
async fn a_plugin_whose_attempts_all_sleep_leaves_places_for_others() {
    let executor = Executor::new(Config { instances: 16, ..Config::default() }).expect("an executor");
    let sleeper = executor.compile(hostile("sleep-forever")).await.expect("a good component");
    let noop = executor.compile(hostile("noop")).await.expect("a good component");
    let asleep: Vec<_> = (0..40).map(|_| start_on(&executor, &sleeper, "{}", Default::default(), |_| {})).collect();
    for _ in 0..20 {
        let ended = start_on(&executor, &noop, "{}", Default::default(), |_| {}).ended().await;
        assert_eq!(ended.outcome, Outcome::Completed { result: Bytes::from_static(b"null") });
    }
    for running in asleep {
        running.stop(CancelReason::Shutdown, Duration::ZERO);
        let ended = running.ended().await;
        assert!(matches!(ended.outcome, Outcome::Stopped { reason: CancelReason::Shutdown, .. }));
    }
}

#[tokio::test]
async fn two_tenants_with_the_same_component_each_have_a_part_of_the_pool() {
    let executor = Executor::new(Config { instances: 16, ..Config::default() }).expect("an executor");
    let component = executor.compile(built("hostile")).await.expect("a good component");
    let start_for = |owner: &str, payload: &str| {
        start_on(&executor, &component, payload, Default::default(), |attempt| attempt.owner = owner.into())
    };
    let sleep = json!({"try": "sleep", "ms": 600_000}).to_string();
    let asleep: Vec<_> = (0..40).map(|_| start_for("acme|tests", &sleep)).collect();
    for _ in 0..20 {
        let ended = start_for("globex|tests", &json!({"try": "nothing"}).to_string()).ended().await;
        assert!(matches!(ended.outcome, Outcome::Completed { .. }), "{ended:?}");
    }
    for running in asleep {
        running.stop(CancelReason::Shutdown, Duration::ZERO);
        running.ended().await;
    }
}
