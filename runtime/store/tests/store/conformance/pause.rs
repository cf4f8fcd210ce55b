//! A pause of everything: nothing starts and nothing happens by itself until somebody resumes, and what is asked for is done.

use std::time::Duration;

use windlass_core::{Action, Bulk, BulkId, Guard, NewJob, PolicyChoice, RetentionLimit, State};
use windlass_store::{By, Claim, Opening};

use super::house::{House, cancel, done, job, queue, secs, with_policy};

fn delayed(name: &str) -> NewJob {
    NewJob { delay: Some(secs(10)), ..job(name) }
}

#[tokio::test]
async fn nothing_starts_until_it_is_resumed_also_when_the_store_is_opened_again() {
    let mut house = House::new();
    let waiting = house.put(job("mail")).await;
    house.reopen_with(Opening { paused: true, ..Opening::default() }).await;
    let since = house.store.paused().expect("it says so");
    for _ in 0..2 {
        assert!(house.claim("mail").await.is_none());
        let new = house.put(job("mail")).await;
        assert_eq!(house.state(new).await, Some(State::Pending), "jobs are taken");
        house.pass(secs(60)).await;
        // Without the flag.
        house.reopen().await;
        assert_eq!(house.store.paused(), Some(since), "it goes on as it began");
    }
    house.store.resume().await.expect("resumed");
    assert_eq!(house.store.paused(), None);
    assert_eq!(house.claim("mail").await.map(|got| got.job.id), Some(waiting));
    house.reopen().await;
    assert_eq!(house.store.paused(), None, "and that lasts, too");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_waits_gets_its_job_when_all_is_resumed() {
    let house = House::new();
    house.store.pause().await.expect("paused");
    let id = house.put(job("mail")).await;
    let store = house.store.clone();
    let by = By::Worker { worker_id: "ann".into(), hostname: "host".into() };
    let claim = Claim { by, queues: vec![queue("mail")], count: 1, wait: Duration::from_secs(600) };
    let waiting = tokio::spawn(async move { store.claim(claim).await });
    house.pass(secs(1)).await;
    house.store.resume().await.expect("resumed");
    let got = waiting.await.expect("it ends").expect("a claim");
    assert_eq!(got[0].job.id, id);
}

#[tokio::test]
async fn what_comes_due_in_a_pause_happens_at_its_end() {
    let house = House::new();
    house.set("mail", |settings| settings.retention.completed = RetentionLimit { age: secs(60), count: None }).await;
    let ended = house.put(job("mail")).await;
    let got = house.claim("mail").await.expect("a job");
    house.ask(ended, done(&got)).await.expect("completed");
    let later = house.put(delayed("mail")).await;
    let expires = PolicyChoice { expire_after: Some(secs(20)), ..PolicyChoice::default() };
    let expires = house.put(with_policy("other", expires)).await;
    house.store.pause().await.expect("paused");

    house.pass(secs(3_600)).await;
    let states = [house.state(ended).await, house.state(later).await, house.state(expires).await];
    assert_eq!(states, [Some(State::Completed), Some(State::Scheduled), Some(State::Pending)]);

    house.store.resume().await.expect("resumed");
    house.pass(secs(0)).await;
    let states = [house.state(ended).await, house.state(later).await, house.state(expires).await];
    assert_eq!(states, [None, Some(State::Pending), Some(State::Dead)]);
}

#[tokio::test]
async fn a_lease_does_not_lapse_in_a_pause_and_begins_again_at_its_end() {
    let house = House::new();
    let lease = PolicyChoice { lease: Some(secs(30)), ..PolicyChoice::default() };
    let id = house.put(with_policy("mail", lease)).await;
    house.claim("mail").await.expect("a job");
    house.store.pause().await.expect("paused");
    house.pass(secs(3_600)).await;
    assert_eq!(house.state(id).await, Some(State::Active));
    house.store.resume().await.expect("resumed");
    house.pass(secs(20)).await;
    assert_eq!(house.state(id).await, Some(State::Active), "it has a whole lease from the resume on");
    house.pass(secs(11)).await;
    assert_eq!((house.state(id).await, house.job(id).await.failures), (Some(State::Pending), 1));
}

async fn over(house: &House, id: BulkId) -> Bulk {
    let mut news = house.store.watch_bulks();
    loop {
        let bulk = house.store.bulk(id).await.expect("reads").expect("it is known");
        if bulk.status.is_over() {
            return bulk;
        }
        let _ = tokio::time::timeout(secs(10), news.recv()).await.expect("it goes on");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_for_in_a_pause_is_done_and_what_was_begun_before_it_waits() {
    let house = House::new();
    let stored = house.store.enqueue((0..5_000).map(|_| job("mail")).collect()).await.expect("stored");
    let ids: Vec<_> = stored.into_iter().map(|stored| stored.id).collect();
    let hold = Action::Hold { reason: "wait".into() };
    house.store.start_bulk(hold, Guard::default(), ids.clone()).await.expect("taken on");
    // It waits for the first.
    let second = house.store.start_bulk(Action::Delete, Guard::default(), ids).await.expect("taken on");
    house.clock.advance(secs(1));
    house.store.pause().await.expect("paused");

    let single = house.put(job("other")).await;
    house.ask(single, cancel()).await.expect("cancelled");
    assert_eq!(house.state(single).await, Some(State::Cancelled));
    let third = house.store.start_bulk(Action::Delete, Guard::default(), vec![single]).await.expect("taken on");
    assert_eq!(over(&house, third.id).await.affected, 1);
    let waits = house.store.bulk(second.id).await.expect("reads").expect("it is known");
    assert_eq!((waits.status.is_over(), waits.processed), (false, 0), "it was begun before the pause");

    house.store.resume().await.expect("resumed");
    assert_eq!(over(&house, second.id).await.affected, 5_000);
}
