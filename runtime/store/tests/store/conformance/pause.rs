//! A pause of everything: nothing starts and nothing happens by itself until somebody resumes, and what is asked for is
//! done.

use std::time::Duration;

use windlass_core::{Action, Bulk, BulkId, Guard, NewJob, PolicyChoice, RetentionLimit, State};
use windlass_store::{By, Claim, Opening};

use super::test_store::{TestStore, cancel, done, job, queue, secs, with_policy};

fn delayed(name: &str) -> NewJob {
    NewJob { delay: Some(secs(10)), ..job(name) }
}

#[tokio::test]
async fn nothing_starts_until_it_is_resumed_also_when_the_store_is_opened_again() {
    let mut test = TestStore::new();
    let waiting = test.put(job("mail")).await;
    test.reopen_with(Opening { paused: true, ..Opening::default() }).await;
    let since = test.store.paused().expect("it says so");
    for _ in 0..2 {
        assert!(test.claim("mail").await.is_none());
        let new = test.put(job("mail")).await;
        assert_eq!(test.state(new).await, Some(State::Pending), "jobs are taken");
        test.pass(secs(60)).await;
        // Without the flag.
        test.reopen().await;
        assert_eq!(test.store.paused(), Some(since), "it goes on as it began");
    }
    test.store.resume().await.expect("resumed");
    assert_eq!(test.store.paused(), None);
    assert_eq!(test.claim("mail").await.map(|got| got.job.id), Some(waiting));
    test.reopen().await;
    assert_eq!(test.store.paused(), None, "and that lasts, too");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_waits_gets_its_job_when_all_is_resumed() {
    let test = TestStore::new();
    test.store.pause().await.expect("paused");
    let id = test.put(job("mail")).await;
    let store = test.store.clone();
    let by = By::Worker { worker_id: "ann".into(), hostname: "host".into() };
    let claim = Claim { by, queues: vec![queue("mail")], count: 1, wait: Duration::from_secs(600) };
    let waiting = tokio::spawn(async move { store.claim(claim).await });
    test.pass(secs(1)).await;
    test.store.resume().await.expect("resumed");
    let got = waiting.await.expect("it ends").expect("a claim");
    assert_eq!(got[0].job.id, id);
}

#[tokio::test]
async fn what_comes_due_in_a_pause_happens_at_its_end() {
    let test = TestStore::new();
    test.set("mail", |settings| settings.retention.completed = RetentionLimit { age: secs(60), count: None }).await;
    let ended = test.put(job("mail")).await;
    let got = test.claim("mail").await.expect("a job");
    test.ask(ended, done(&got)).await.expect("completed");
    let later = test.put(delayed("mail")).await;
    let expires = PolicyChoice { expire_after: Some(secs(20)), ..PolicyChoice::default() };
    let expires = test.put(with_policy("other", expires)).await;
    test.store.pause().await.expect("paused");

    test.pass(secs(3_600)).await;
    let states = [test.state(ended).await, test.state(later).await, test.state(expires).await];
    assert_eq!(states, [Some(State::Completed), Some(State::Scheduled), Some(State::Pending)]);

    test.store.resume().await.expect("resumed");
    test.pass(secs(0)).await;
    let states = [test.state(ended).await, test.state(later).await, test.state(expires).await];
    assert_eq!(states, [None, Some(State::Pending), Some(State::Dead)]);
}

#[tokio::test]
async fn a_lease_does_not_lapse_in_a_pause_and_begins_again_at_its_end() {
    let test = TestStore::new();
    let lease = PolicyChoice { lease: Some(secs(30)), ..PolicyChoice::default() };
    let id = test.put(with_policy("mail", lease)).await;
    test.claim("mail").await.expect("a job");
    test.store.pause().await.expect("paused");
    test.pass(secs(3_600)).await;
    assert_eq!(test.state(id).await, Some(State::Active));
    test.store.resume().await.expect("resumed");
    test.pass(secs(20)).await;
    assert_eq!(test.state(id).await, Some(State::Active), "it has a whole lease from the resume on");
    test.pass(secs(11)).await;
    assert_eq!((test.state(id).await, test.job(id).await.failures), (Some(State::Pending), 1));
}

async fn over(test: &TestStore, id: BulkId) -> Bulk {
    let mut news = test.store.watch_bulks();
    loop {
        let bulk = test.store.bulk(id).await.expect("reads").expect("it is known");
        if bulk.status.is_over() {
            return bulk;
        }
        let _ = tokio::time::timeout(secs(10), news.recv()).await.expect("it goes on");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_for_in_a_pause_is_done_and_what_was_begun_before_it_waits() {
    let test = TestStore::new();
    let stored = test.store.enqueue((0..5_000).map(|_| job("mail")).collect()).await.expect("stored");
    let ids: Vec<_> = stored.into_iter().map(|stored| stored.id).collect();
    let hold = Action::Hold { reason: "wait".into() };
    test.store.start_bulk(hold, Guard::default(), ids.clone()).await.expect("taken on");
    // It waits for the first.
    let second = test.store.start_bulk(Action::Delete, Guard::default(), ids).await.expect("taken on");
    test.clock.advance(secs(1));
    test.store.pause().await.expect("paused");

    let single = test.put(job("other")).await;
    test.ask(single, cancel()).await.expect("cancelled");
    assert_eq!(test.state(single).await, Some(State::Cancelled));
    let third = test.store.start_bulk(Action::Delete, Guard::default(), vec![single]).await.expect("taken on");
    assert_eq!(over(&test, third.id).await.affected, 1);
    let waits = test.store.bulk(second.id).await.expect("reads").expect("it is known");
    assert_eq!((waits.status.is_over(), waits.processed), (false, 0), "it was begun before the pause");

    test.store.resume().await.expect("resumed");
    assert_eq!(over(&test, second.id).await.affected, 5_000);
}
