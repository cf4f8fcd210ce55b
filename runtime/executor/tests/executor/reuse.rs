//! Instances that serve several attempts: only where the plugin asks for it, and never across tenants.

use serde_json::json;
use windlass_executor::{Attempt, Config, Executor, Limits, Outcome, Permissions, Plugin, Reuse};

use crate::support::{built, start_on};

/// A separate executor: on the shared one, idle instances are dropped when other tests need room in the pool.
async fn setup() -> (Executor, Plugin) {
    let executor = Executor::new(Config { instances: 4, ..Config::default() }).expect("an executor");
    let plugin = executor.compile(built("hostile")).await.expect("a good component");
    (executor, plugin)
}

fn reuse(times: u32, limit_key: &str) -> impl Fn(&mut Attempt) {
    let reuse = Reuse { times, limit_key: limit_key.to_owned() };
    move |attempt| attempt.reuse = Some(reuse.clone())
}

/// How many jobs the instance has served, this one included.
async fn served((executor, plugin): &(Executor, Plugin), change: impl FnOnce(&mut Attempt)) -> String {
    let order = json!({"try": "served"}).to_string();
    match start_on(executor, plugin, &order, Default::default(), change).ended().await.outcome {
        Outcome::Completed { result } => serde_json::from_slice(&result).expect("a text"),
        other => panic!("it did not complete: {other:?}"),
    }
}

#[tokio::test]
async fn an_instance_is_new_unless_reuse_was_asked_for() {
    let setup = setup().await;
    assert_eq!(served(&setup, |_| {}).await, "1");
    assert_eq!(served(&setup, |_| {}).await, "1");
    assert_eq!(served(&setup, reuse(0, "a")).await, "1");
    assert_eq!(served(&setup, reuse(0, "a")).await, "1");
}

#[tokio::test]
async fn an_instance_is_reused_the_configured_number_of_times() {
    let setup = setup().await;
    let mut counts = Vec::new();
    for _ in 0..5 {
        counts.push(served(&setup, reuse(2, "a")).await);
    }
    assert_eq!(counts, ["1", "2", "3", "1", "2"]);
}

#[tokio::test]
async fn an_instance_is_shared_only_by_one_plugin_with_the_same_key_and_the_same_permissions() {
    let setup = setup().await;
    assert_eq!(served(&setup, reuse(9, "a")).await, "1");
    assert_eq!(served(&setup, reuse(9, "b")).await, "1");
    let other = |attempt: &mut Attempt| {
        reuse(9, "a")(attempt);
        attempt.permissions =
            Permissions { config: [("k".to_owned(), "v".to_owned())].into(), ..Permissions::default() };
    };
    assert_eq!(served(&setup, other).await, "1");
    let of_another_tenant = |attempt: &mut Attempt| {
        reuse(9, "a")(attempt);
        attempt.owner = "globex|mail".into();
    };
    assert_eq!(served(&setup, of_another_tenant).await, "1", "with the same component and permissions");
    assert_eq!(served(&setup, reuse(9, "a")).await, "2");
}

#[tokio::test]
async fn an_instance_that_trapped_is_not_reused() {
    let setup = setup().await;
    assert_eq!(served(&setup, reuse(9, "a")).await, "1");
    let order = json!({"try": "panic"}).to_string();
    let ended = start_on(&setup.0, &setup.1, &order, Default::default(), reuse(9, "a")).ended().await;
    assert!(matches!(&ended.outcome, Outcome::Failed { error, .. } if error.contains("served 2 jobs")), "{ended:?}");
    assert_eq!(served(&setup, reuse(9, "a")).await, "1");
}

#[tokio::test]
async fn each_attempt_on_a_shared_instance_has_its_own_log_and_limits() {
    let setup = setup().await;
    let order = json!({"try": "panic"}).to_string();
    assert_eq!(served(&setup, reuse(9, "a")).await, "1");
    let running = start_on(&setup.0, &setup.1, &order, Default::default(), |attempt| {
        reuse(9, "a")(attempt);
        attempt.limits = Limits { log_bytes: 10, ..Limits::default() };
    });
    let host = std::sync::Arc::clone(&running.host);
    running.ended().await;
    assert_eq!(host.texts(), ["the log is cut here: an attempt may write 10 bytes"]);
}

#[tokio::test]
async fn idle_instances_are_dropped_when_others_need_their_places() {
    let setup = setup().await;
    for key in ["a", "b", "c", "d"] {
        assert_eq!(served(&setup, reuse(9, key)).await, "1");
    }
    assert_eq!(served(&setup, |_| {}).await, "1", "the pool was full of idle instances");
}
