//! Claiming: order, leases, late reports and repeated ones.

use windlass_core::{
    BackoffKind, Command, Complete, Holder, NewJob, PolicyChoice, Priority, Refusal, Reply, Retry, State,
};
use windlass_store::Error;

use super::house::{House, done, done_with, failed, handed_back, heartbeat, job, secs, urgent, with_policy};

#[tokio::test]
async fn the_most_urgent_comes_first_and_within_a_priority_the_first_to_come() {
    let mut house = House::new();
    let mut expected = Vec::new();
    let wanted =
        [Priority::Low, Priority::Normal, Priority::Critical, Priority::High, Priority::Normal, Priority::Critical];
    for priority in wanted {
        expected.push((priority, house.put(urgent("mail", priority)).await));
    }
    expected.sort_by_key(|(priority, _)| *priority);
    house.reopen().await;
    for (priority, id) in expected {
        assert_eq!(house.claim("mail").await.map(|got| got.job.id), Some(id), "{priority:?}");
    }
    assert!(house.claim("mail").await.is_none());
}

#[tokio::test]
async fn a_claim_over_many_queues_takes_the_best_of_all() {
    let house = House::new();
    let later = house.put(urgent("mail", Priority::Normal)).await;
    let sooner = house.put(urgent("images", Priority::High)).await;
    let last = house.put(urgent("images", Priority::Normal)).await;
    let got = house.claim_as("ann", &["mail", "images"], 5).await;
    let ids: Vec<_> = got.iter().map(|got| got.job.id).collect();
    assert_eq!(ids, [sooner, later, last]);
}

#[tokio::test]
async fn a_job_for_one_worker_waits_for_that_worker() {
    let house = House::new();
    let id = house.put(NewJob { target_worker: Some("bob".into()), ..job("mail") }).await;
    assert!(house.claim_as("ann", &["mail"], 1).await.is_empty());
    assert_eq!(house.claim_as("bob", &["mail"], 1).await[0].job.id, id);
}

#[tokio::test]
async fn a_heartbeat_extends_the_lease_and_without_one_the_job_is_pending_again() {
    let house = House::new();
    let id = house.put(with_policy("mail", PolicyChoice { lease: Some(secs(10)), ..PolicyChoice::default() })).await;
    let first = house.claim("mail").await.expect("a job");
    house.pass(secs(8)).await;
    assert!(matches!(house.ask(id, heartbeat(&first)).await, Ok(Reply::Heartbeat { stop: None, .. })));
    house.pass(secs(8)).await;
    assert_eq!(house.state(id).await, Some(State::Active), "the heartbeat came in time");
    house.pass(secs(3)).await;
    assert_eq!(house.state(id).await, Some(State::Pending));
    let second = house.claim("mail").await.expect("a job");
    assert!(second.token.fence > first.token.fence);
    assert_eq!(house.job(id).await.attempt, 2);
}

#[tokio::test]
async fn a_lease_that_lapses_at_the_last_run_leaves_the_job_dead() {
    let house = House::new();
    let policy = PolicyChoice { max_attempts: Some(1), lease: Some(secs(5)), ..PolicyChoice::default() };
    let id = house.put(with_policy("mail", policy)).await;
    house.claim("mail").await.expect("a job");
    house.pass(secs(6)).await;
    assert_eq!(house.state(id).await, Some(State::Dead));
    assert_eq!(house.store.errors(id).await.expect("errors").len(), 1);
}

#[tokio::test]
async fn a_lease_begins_again_when_the_store_was_down() {
    let mut house = House::new();
    let id = house.put(with_policy("mail", PolicyChoice { lease: Some(secs(10)), ..PolicyChoice::default() })).await;
    let claimed = house.claim("mail").await.expect("a job");
    house.store.close().await;
    house.clock.advance(secs(60));
    house.reopen().await;
    house.pass(secs(5)).await;
    assert_eq!(house.state(id).await, Some(State::Active), "no heartbeat could arrive");
    assert!(house.ask(id, done(&claimed)).await.is_ok());
    assert_eq!(house.state(id).await, Some(State::Completed));
}

#[tokio::test]
async fn a_late_report_changes_nothing_and_a_repeated_one_is_answered_again() {
    let mut house = House::new();
    let id = house.put(with_policy("mail", PolicyChoice { lease: Some(secs(5)), ..PolicyChoice::default() })).await;
    let late = house.claim("mail").await.expect("a job");
    house.pass(secs(6)).await;
    let live = house.claim("mail").await.expect("a job");
    for command in [done(&late), failed(&late, Retry::Never), handed_back(&late), heartbeat(&late)] {
        let refused = house.ask(id, command.clone()).await;
        assert!(matches!(refused, Err(Error::Refused(Refusal::NotActive { .. }))), "{command:?}: {refused:?}");
    }
    assert_eq!(house.state(id).await, Some(State::Active));
    assert!(matches!(house.ask(id, done(&live)).await, Ok(Reply::Now { state: State::Completed, .. })));
    house.reopen().await;
    assert_eq!(house.ask(id, done(&live)).await.expect("answered before"), Reply::Unchanged);
    assert!(house.ask(id, done(&late)).await.is_err());
}

#[tokio::test]
async fn a_report_without_a_token_counts_for_an_external_lease_only() {
    let house = House::new();
    let unsigned = || Command::Complete(Complete::by(Holder::Unsigned));
    let outside = house.put(job("mail")).await;
    house.claim("mail").await.expect("a job");
    assert!(house.ask(outside, unsigned()).await.is_ok());
    house.serve("images").await;
    let inside = house.put(job("images")).await;
    house.claim_here().await.expect("a job");
    assert!(matches!(house.ask(inside, unsigned()).await, Err(Error::Refused(Refusal::NotActive { .. }))));
}

#[tokio::test]
async fn a_hand_back_returns_the_job_at_once_and_charges_nothing() {
    let house = House::new();
    let id = house.put(with_policy("mail", PolicyChoice { max_attempts: Some(1), ..PolicyChoice::default() })).await;
    for _ in 0..5 {
        let got = house.claim("mail").await.expect("it is back at once");
        house.ask(id, handed_back(&got)).await.expect("taken");
    }
    let job = house.job(id).await;
    assert_eq!((job.state, job.failures, job.crashes), (State::Pending, 0, 0));
}

#[tokio::test]
async fn a_failure_waits_out_its_backoff_and_the_last_one_is_final() {
    let mut house = House::new();
    let policy = PolicyChoice {
        max_attempts: Some(2),
        backoff: Some(BackoffKind::Fixed),
        base_delay: Some(secs(60)),
        ..PolicyChoice::default()
    };
    let id = house.put(with_policy("mail", policy)).await;
    let got = house.claim("mail").await.expect("a job");
    house.ask(id, failed(&got, Retry::Backoff)).await.expect("taken");
    assert_eq!(house.state(id).await, Some(State::Retrying));
    house.reopen().await;
    house.pass(secs(50)).await;
    assert_eq!(house.state(id).await, Some(State::Retrying), "a minute, less at most a tenth");
    house.pass(secs(20)).await;
    let got = house.claim("mail").await.expect("a job");
    house.ask(id, failed(&got, Retry::Backoff)).await.expect("taken");
    assert_eq!(house.state(id).await, Some(State::Dead));
    assert_eq!(house.store.errors(id).await.expect("errors").len(), 2);
}

#[tokio::test]
async fn a_failure_may_say_when_to_try_again_or_never() {
    let house = House::new();
    let soon = house.put(job("mail")).await;
    let got = house.claim("mail").await.expect("a job");
    house.ask(soon, failed(&got, Retry::After(secs(7)))).await.expect("taken");
    house.pass(secs(7)).await;
    assert_eq!(house.state(soon).await, Some(State::Pending));
    let got = house.claim("mail").await.expect("a job");
    house.ask(soon, failed(&got, Retry::Never)).await.expect("taken");
    assert_eq!(house.state(soon).await, Some(State::Dead));
}

#[tokio::test]
async fn a_result_is_stored_with_the_job() {
    let mut house = House::new();
    let id = house.put(job("mail")).await;
    let got = house.claim("mail").await.expect("a job");
    house.ask(id, done_with(&got, "42")).await.expect("taken");
    house.reopen().await;
    let job = house.job(id).await;
    let result = house.store.body(&job, windlass_core::BodyKind::Result).await.expect("reads");
    assert_eq!(result.as_deref(), Some(&b"42"[..]));
}

#[tokio::test]
async fn a_process_that_dies_under_a_job_is_counted_apart_from_failures() {
    let mut house = House::new();
    house.serve("mail").await;
    let id = house.put(with_policy("mail", PolicyChoice { max_attempts: Some(1), ..PolicyChoice::default() })).await;
    for crash in 1..=windlass_core::bounds::MAX_CRASHES {
        house.claim_here().await.expect("a job");
        house.reopen().await;
        let job = house.job(id).await;
        assert_eq!((job.crashes, job.failures), (crash, 0));
        house.pass(secs(120)).await;
    }
    assert_eq!(house.state(id).await, Some(State::Dead), "it stops at its own cap");
}

#[tokio::test]
async fn a_claim_that_waits_gets_the_next_job_and_one_whose_caller_has_left_returns_it() {
    let house = House::new();
    let by = windlass_store::By::Worker { worker_id: "ann".into(), hostname: "host".into() };
    let claim = windlass_store::Claim { by, queues: vec![super::house::queue("mail")], count: 1, wait: secs(30) };
    let store = house.store.clone();
    let waiting = tokio::spawn({
        let claim = claim.clone();
        async move { store.claim(claim).await }
    });
    // Whether the claim or the job comes first, the claim gets it.
    let id = house.put(job("mail")).await;
    assert_eq!(waiting.await.expect("runs").expect("a claim")[0].job.id, id);
    let abandoned = tokio::spawn({
        let store = house.store.clone();
        async move { store.claim(claim).await }
    });
    abandoned.abort();
    let _ = abandoned.await;
    let second = house.put(job("mail")).await;
    let got = loop {
        if let Some(got) = house.claim("mail").await {
            break got;
        }
    };
    assert_eq!(got.job.id, second);
}
