//! Ended jobs are kept for a while, and then go with all that is theirs.

use std::time::Duration;

use windlass_core::{NewJob, PolicyChoice, RetentionLimit, State};

use super::test_store::{TestStore, cancel, done, job, secs, with_policy};

const DAY: u64 = 24 * 3600;

#[tokio::test]
async fn ended_jobs_are_kept_for_a_week_unless_somebody_says_otherwise() {
    let mut test = TestStore::new();
    let id = test.put(job("mail")).await;
    let got = test.claim("mail").await.expect("a job");
    test.ask(id, done(&got)).await.expect("taken");
    test.pass(secs(6 * DAY)).await;
    test.reopen().await;
    assert_eq!(test.state(id).await, Some(State::Completed));
    test.pass(secs(DAY)).await;
    assert_eq!(test.state(id).await, None);
    assert_eq!(test.count("mail", State::Completed).await, 0);
}

#[tokio::test]
async fn a_queue_says_how_long_and_how_many_of_each_state() {
    let test = TestStore::new();
    test.set("mail", |settings| {
        settings.retention.cancelled = RetentionLimit { age: secs(60), count: None };
        settings.retention.completed = RetentionLimit { age: secs(DAY), count: Some(3) };
    })
    .await;
    let cancelled = test.put(job("mail")).await;
    test.ask(cancelled, cancel()).await.expect("taken");
    let mut completed = Vec::new();
    for _ in 0..8 {
        let id = test.put(job("mail")).await;
        let got = test.claim("mail").await.expect("a job");
        test.ask(id, done(&got)).await.expect("taken");
        completed.push(id);
        // Those that end within one millisecond have no order among them.
        test.pass(Duration::from_millis(1)).await;
    }
    test.pass(secs(61)).await;
    assert_eq!(test.state(cancelled).await, None);
    assert_eq!(test.count("mail", State::Completed).await, 3);
    let (old, new) = completed.split_at(5);
    for id in old {
        assert_eq!(test.state(*id).await, None, "the oldest go first");
    }
    for id in new {
        assert_eq!(test.state(*id).await, Some(State::Completed));
    }
}

#[tokio::test]
async fn a_job_may_say_its_own_time_shorter_or_longer_than_its_queue() {
    let mut test = TestStore::new();
    let short = test.put(with_policy("mail", PolicyChoice { ttl: Some(secs(5)), ..PolicyChoice::default() })).await;
    let long =
        test.put(with_policy("mail", PolicyChoice { ttl: Some(secs(30 * DAY)), ..PolicyChoice::default() })).await;
    for id in [short, long] {
        test.ask(id, cancel()).await.expect("taken");
    }
    test.reopen().await;
    test.pass(secs(6)).await;
    assert_eq!(test.state(short).await, None);
    test.pass(secs(29 * DAY)).await;
    assert_eq!(test.state(long).await, Some(State::Cancelled));
    test.pass(secs(DAY)).await;
    assert_eq!(test.state(long).await, None);
}

#[tokio::test]
async fn retention_never_touches_what_has_not_ended() {
    let test = TestStore::new();
    test.set("mail", |settings| settings.retention.dead = RetentionLimit { age: secs(1), count: Some(0) }).await;
    let waiting = test.put(NewJob { delay: Some(secs(100 * DAY)), ..job("mail") }).await;
    let held = test.put(NewJob { hold_reason: Some("look".into()), ..job("mail") }).await;
    test.pass(secs(50 * DAY)).await;
    assert_eq!((test.state(waiting).await, test.state(held).await), (Some(State::Scheduled), Some(State::Held)));
}
