//! Claiming: order, leases, late reports and repeated ones.

use windlass_core::{
    BackoffKind, Command, Complete, Holder, NewJob, PolicyChoice, Priority, Refusal, Reply, Retry, State,
};
use windlass_store::Error;

use super::test_store::{TestStore, done, done_with, failed, handed_back, heartbeat, job, secs, urgent, with_policy};

#[tokio::test]
async fn the_most_urgent_comes_first_and_within_a_priority_the_first_to_come() {
    let mut test = TestStore::new();
    let mut expected = Vec::new();
    let wanted =
        [Priority::Low, Priority::Normal, Priority::Critical, Priority::High, Priority::Normal, Priority::Critical];
    for priority in wanted {
        expected.push((priority, test.put(urgent("mail", priority)).await));
    }
    expected.sort_by_key(|(priority, _)| *priority);
    test.reopen().await;
    for (priority, id) in expected {
        assert_eq!(test.claim("mail").await.map(|got| got.job.id), Some(id), "{priority:?}");
    }
    assert!(test.claim("mail").await.is_none());
}

#[tokio::test]
async fn a_claim_over_many_queues_takes_the_best_of_all() {
    let test = TestStore::new();
    let later = test.put(urgent("mail", Priority::Normal)).await;
    let sooner = test.put(urgent("images", Priority::High)).await;
    let last = test.put(urgent("images", Priority::Normal)).await;
    let got = test.claim_as("ann", &["mail", "images"], 5).await;
    let ids: Vec<_> = got.iter().map(|got| got.job.id).collect();
    assert_eq!(ids, [sooner, later, last]);
}

#[tokio::test]
async fn a_job_for_one_worker_waits_for_that_worker() {
    let test = TestStore::new();
    let id = test.put(NewJob { target_worker: Some("bob".into()), ..job("mail") }).await;
    assert!(test.claim_as("ann", &["mail"], 1).await.is_empty());
    assert_eq!(test.claim_as("bob", &["mail"], 1).await[0].job.id, id);
}

#[tokio::test]
async fn a_heartbeat_extends_the_lease_and_without_one_the_job_is_pending_again() {
    let test = TestStore::new();
    let id = test.put(with_policy("mail", PolicyChoice { lease: Some(secs(10)), ..PolicyChoice::default() })).await;
    let first = test.claim("mail").await.expect("a job");
    test.pass(secs(8)).await;
    assert!(matches!(test.ask(id, heartbeat(&first)).await, Ok(Reply::Heartbeat { stop: None, .. })));
    test.pass(secs(8)).await;
    assert_eq!(test.state(id).await, Some(State::Active), "the heartbeat came in time");
    test.pass(secs(3)).await;
    assert_eq!(test.state(id).await, Some(State::Pending));
    let second = test.claim("mail").await.expect("a job");
    assert!(second.token.fence > first.token.fence);
    assert_eq!(test.job(id).await.attempt, 2);
}

#[tokio::test]
async fn a_lease_that_lapses_at_the_last_run_leaves_the_job_dead() {
    let test = TestStore::new();
    let policy = PolicyChoice { max_attempts: Some(1), lease: Some(secs(5)), ..PolicyChoice::default() };
    let id = test.put(with_policy("mail", policy)).await;
    test.claim("mail").await.expect("a job");
    test.pass(secs(6)).await;
    assert_eq!(test.state(id).await, Some(State::Dead));
    assert_eq!(test.store.errors(id).await.expect("errors").len(), 1);
}

#[tokio::test]
async fn a_lease_begins_again_when_the_store_was_down() {
    let mut test = TestStore::new();
    let id = test.put(with_policy("mail", PolicyChoice { lease: Some(secs(10)), ..PolicyChoice::default() })).await;
    let claimed = test.claim("mail").await.expect("a job");
    test.store.close().await;
    test.clock.advance(secs(60));
    test.reopen().await;
    test.pass(secs(5)).await;
    assert_eq!(test.state(id).await, Some(State::Active), "no heartbeat could arrive");
    assert!(test.ask(id, done(&claimed)).await.is_ok());
    assert_eq!(test.state(id).await, Some(State::Completed));
}

#[tokio::test]
async fn a_late_report_changes_nothing_and_a_repeated_one_is_answered_again() {
    let mut test = TestStore::new();
    let id = test.put(with_policy("mail", PolicyChoice { lease: Some(secs(5)), ..PolicyChoice::default() })).await;
    let late = test.claim("mail").await.expect("a job");
    test.pass(secs(6)).await;
    let live = test.claim("mail").await.expect("a job");
    for command in [done(&late), failed(&late, Retry::Never), handed_back(&late), heartbeat(&late)] {
        let refused = test.ask(id, command.clone()).await;
        assert!(matches!(refused, Err(Error::Refused(Refusal::NotActive { .. }))), "{command:?}: {refused:?}");
    }
    assert_eq!(test.state(id).await, Some(State::Active));
    assert!(matches!(test.ask(id, done(&live)).await, Ok(Reply::Now { state: State::Completed, .. })));
    test.reopen().await;
    assert_eq!(test.ask(id, done(&live)).await.expect("answered before"), Reply::Unchanged);
    assert!(test.ask(id, done(&late)).await.is_err());
}

#[tokio::test]
async fn a_report_without_a_token_counts_for_an_external_lease_only() {
    let test = TestStore::new();
    let unsigned = || Command::Complete(Complete::by(Holder::Unsigned));
    let outside = test.put(job("mail")).await;
    test.claim("mail").await.expect("a job");
    assert!(test.ask(outside, unsigned()).await.is_ok());
    test.serve("images").await;
    let inside = test.put(job("images")).await;
    test.claim_here().await.expect("a job");
    assert!(matches!(test.ask(inside, unsigned()).await, Err(Error::Refused(Refusal::NotActive { .. }))));
}

#[tokio::test]
async fn a_hand_back_returns_the_job_at_once_and_charges_nothing() {
    let test = TestStore::new();
    let id = test.put(with_policy("mail", PolicyChoice { max_attempts: Some(1), ..PolicyChoice::default() })).await;
    for _ in 0..5 {
        let got = test.claim("mail").await.expect("it is back at once");
        test.ask(id, handed_back(&got)).await.expect("taken");
    }
    let job = test.job(id).await;
    assert_eq!((job.state, job.failures, job.crashes), (State::Pending, 0, 0));
}

#[tokio::test]
async fn a_failure_waits_out_its_backoff_and_the_last_one_is_final() {
    let mut test = TestStore::new();
    let policy = PolicyChoice {
        max_attempts: Some(2),
        backoff: Some(BackoffKind::Fixed),
        base_delay: Some(secs(60)),
        ..PolicyChoice::default()
    };
    let id = test.put(with_policy("mail", policy)).await;
    let got = test.claim("mail").await.expect("a job");
    test.ask(id, failed(&got, Retry::Backoff)).await.expect("taken");
    assert_eq!(test.state(id).await, Some(State::Retrying));
    test.reopen().await;
    test.pass(secs(50)).await;
    assert_eq!(test.state(id).await, Some(State::Retrying), "a minute, less at most a tenth");
    test.pass(secs(20)).await;
    let got = test.claim("mail").await.expect("a job");
    test.ask(id, failed(&got, Retry::Backoff)).await.expect("taken");
    assert_eq!(test.state(id).await, Some(State::Dead));
    assert_eq!(test.store.errors(id).await.expect("errors").len(), 2);
}

#[tokio::test]
async fn a_failure_may_say_when_to_try_again_or_never() {
    let test = TestStore::new();
    let soon = test.put(job("mail")).await;
    let got = test.claim("mail").await.expect("a job");
    test.ask(soon, failed(&got, Retry::After(secs(7)))).await.expect("taken");
    test.pass(secs(7)).await;
    assert_eq!(test.state(soon).await, Some(State::Pending));
    let got = test.claim("mail").await.expect("a job");
    test.ask(soon, failed(&got, Retry::Never)).await.expect("taken");
    assert_eq!(test.state(soon).await, Some(State::Dead));
}

#[tokio::test]
async fn a_result_is_stored_with_the_job() {
    let mut test = TestStore::new();
    let id = test.put(job("mail")).await;
    let got = test.claim("mail").await.expect("a job");
    test.ask(id, done_with(&got, "42")).await.expect("taken");
    test.reopen().await;
    let job = test.job(id).await;
    let result = test.store.body(&job, windlass_core::BodyKind::Result).await.expect("reads");
    assert_eq!(result.as_deref(), Some(&b"42"[..]));
}

#[tokio::test]
async fn a_process_that_dies_under_a_job_is_counted_apart_from_failures() {
    let mut test = TestStore::new();
    test.serve("mail").await;
    let id = test.put(with_policy("mail", PolicyChoice { max_attempts: Some(1), ..PolicyChoice::default() })).await;
    for crash in 1..=windlass_core::bounds::MAX_CRASHES {
        test.claim_here().await.expect("a job");
        test.reopen().await;
        let job = test.job(id).await;
        assert_eq!((job.crashes, job.failures), (crash, 0));
        test.pass(secs(120)).await;
    }
    assert_eq!(test.state(id).await, Some(State::Dead), "it stops at its own cap");
}

#[tokio::test]
async fn a_claim_that_waits_gets_the_next_job_and_one_whose_caller_has_left_returns_it() {
    let test = TestStore::new();
    let by = windlass_store::By::Worker { worker_id: "ann".into(), hostname: "host".into() };
    let claim = windlass_store::Claim { by, queues: vec![super::test_store::queue("mail")], count: 1, wait: secs(30) };
    let store = test.store.clone();
    let waiting = tokio::spawn({
        let claim = claim.clone();
        async move { store.claim(claim).await }
    });
    // Whether the claim or the job comes first, the claim gets it.
    let id = test.put(job("mail")).await;
    assert_eq!(waiting.await.expect("runs").expect("a claim")[0].job.id, id);
    let abandoned = tokio::spawn({
        let store = test.store.clone();
        async move { store.claim(claim).await }
    });
    abandoned.abort();
    let _ = abandoned.await;
    let second = test.put(job("mail")).await;
    let got = loop {
        if let Some(got) = test.claim("mail").await {
            break got;
        }
    };
    assert_eq!(got.job.id, second);
}
