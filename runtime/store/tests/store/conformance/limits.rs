//! Concurrency and rates, of a queue and of each key in it; and fair turns between keys.

use std::collections::BTreeMap;

use windlass_core::limits::Rate;
use windlass_core::{NewJob, Priority, State};

use super::test_store::{TestStore, done, job, secs, urgent};

fn keyed(name: &str, key: &str) -> NewJob {
    NewJob { limit_key: Some(key.into()), ..job(name) }
}

#[tokio::test]
async fn a_queue_runs_no_more_than_its_concurrency_also_after_a_restart() {
    let mut test = TestStore::new();
    test.set("mail", |settings| settings.max_concurrency = Some(2)).await;
    for _ in 0..4 {
        test.put(job("mail")).await;
    }
    let got = test.claim_as("ann", &["mail"], 10).await;
    assert_eq!(got.len(), 2);
    test.reopen().await;
    assert!(test.claim("mail").await.is_none());
    test.ask(got[0].job.id, done(&got[0])).await.expect("taken");
    assert_eq!(test.claim_as("ann", &["mail"], 10).await.len(), 1);
}

#[tokio::test]
async fn a_rate_is_a_sliding_window_also_after_a_restart() {
    let mut test = TestStore::new();
    test.set("mail", |settings| settings.rate = Some(Rate { count: 2, per: secs(10) })).await;
    for _ in 0..6 {
        test.put(job("mail")).await;
    }
    assert!(test.claim("mail").await.is_some());
    test.pass(secs(6)).await;
    assert!(test.claim("mail").await.is_some());
    assert!(test.claim("mail").await.is_none());
    test.reopen().await;
    assert!(test.claim("mail").await.is_none(), "the starts are remembered");
    test.pass(secs(4)).await;
    assert_eq!(
        test.claim_as("ann", &["mail"], 5).await.len(),
        1,
        "the first start has left the window, the second has not"
    );
    test.pass(secs(6)).await;
    assert_eq!(test.claim_as("ann", &["mail"], 5).await.len(), 1);
}

#[tokio::test]
async fn each_key_has_limits_of_its_own() {
    let mut test = TestStore::new();
    test.set("mail", |settings| settings.key_concurrency = Some(1)).await;
    for key in ["a", "a", "a", "b"] {
        test.put(keyed("mail", key)).await;
    }
    test.put(job("mail")).await;
    let got = test.claim_as("ann", &["mail"], 10).await;
    assert_eq!(got.len(), 3, "one of each key, and the one without");
    test.reopen().await;
    assert!(test.claim("mail").await.is_none());
    let of_a = got.iter().find(|got| got.job.limit_key.as_deref() == Some("a")).expect("one of a");
    test.ask(of_a.job.id, done(of_a)).await.expect("taken");
    assert_eq!(test.claim("mail").await.expect("the next of a").job.limit_key.as_deref(), Some("a"));
}

#[tokio::test]
async fn each_key_has_a_rate_of_its_own_also_after_a_restart() {
    let mut test = TestStore::new();
    test.set("mail", |settings| settings.key_rate = Some(Rate { count: 1, per: secs(10) })).await;
    for key in ["a", "a", "b"] {
        test.put(keyed("mail", key)).await;
    }
    let got = test.claim_as("ann", &["mail"], 10).await;
    assert_eq!(got.len(), 2);
    for got in &got {
        test.ask(got.job.id, done(got)).await.expect("taken");
    }
    test.reopen().await;
    assert!(test.claim("mail").await.is_none(), "the starts are remembered");
    test.pass(secs(10)).await;
    assert!(test.claim("mail").await.is_some());
}

#[tokio::test]
async fn keys_take_turns_so_that_many_jobs_of_one_do_not_starve_few_of_another() {
    let mut test = TestStore::new();
    let many: Vec<NewJob> = (0..300).map(|_| keyed("mail", "crowd")).collect();
    test.store.enqueue(many).await.expect("good jobs");
    for _ in 0..3 {
        test.put(keyed("mail", "few")).await;
    }
    test.reopen().await;
    let got = test.claim_as("ann", &["mail"], 8).await;
    let mut turns: BTreeMap<&str, usize> = BTreeMap::new();
    for got in &got {
        *turns.entry(got.job.limit_key.as_deref().expect("a key")).or_default() += 1;
    }
    assert_eq!(turns["few"], 3, "{turns:?}");
}

#[tokio::test]
async fn with_ageing_a_job_that_has_waited_long_goes_before_a_more_urgent_new_one() {
    let test = TestStore::new();
    test.set("mail", |settings| settings.ageing = Some(secs(10))).await;
    let old = test.put(urgent("mail", Priority::Normal)).await;
    test.pass(secs(25)).await;
    let new = test.put(urgent("mail", Priority::High)).await;
    let got = test.claim_as("ann", &["mail"], 2).await;
    assert_eq!(got.iter().map(|got| got.job.id).collect::<Vec<_>>(), [old, new]);
}

#[tokio::test]
async fn a_limit_that_is_lifted_lets_the_waiting_ones_start() {
    let test = TestStore::new();
    test.set("mail", |settings| settings.max_concurrency = Some(0)).await;
    test.put(job("mail")).await;
    assert!(test.claim("mail").await.is_none());
    test.set("mail", |settings| settings.max_concurrency = None).await;
    assert!(test.claim("mail").await.is_some());
    assert_eq!(test.count("mail", State::Active).await, 1);
}
