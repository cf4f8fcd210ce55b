//! Unique keys: one job per key, until it ends or for a period.

use std::time::Duration;

use windlass_core::{Command, Move, NewJob, PolicyChoice, Refusal, Retry, State, Unique, UniqueScope, Until};
use windlass_store::Error;

use super::test_store::{TestStore, cancel, done_with, failed, job, queue, secs, with_policy};

fn unique(name: &str, until: Until, period: Duration) -> NewJob {
    let unique = Unique { key: "invoice-7".into(), within: UniqueScope::Queue, until, period };
    NewJob { unique: Some(unique), ..job(name) }
}

fn until_end(name: &str) -> NewJob {
    unique(name, Until::End, secs(3600))
}

#[tokio::test]
async fn a_second_job_of_the_same_key_is_the_first_one_and_another_queue_has_keys_of_its_own() {
    let mut test = TestStore::new();
    let first = test.put(until_end("mail")).await;
    test.reopen().await;
    let again = test.try_put(until_end("mail")).await.expect("answered");
    assert_eq!((again.id, again.duplicate, again.state), (first, true, State::Pending));
    test.put(until_end("images")).await;
    assert_eq!(test.count("mail", State::Pending).await, 1);
}

#[tokio::test]
async fn within_a_scope_the_key_counts_over_all_queues() {
    let test = TestStore::new();
    let scoped = |name: &str, scope: &str| {
        let unique = Unique { key: "k".into(), within: UniqueScope::Scope, until: Until::End, period: secs(60) };
        NewJob { unique: Some(unique), scope: Some(scope.into()), ..job(name) }
    };
    let first = test.put(scoped("mail", "user:1")).await;
    assert_eq!(test.try_put(scoped("images", "user:1")).await.expect("answered").id, first);
    test.put(scoped("mail", "user:2")).await;
}

#[tokio::test]
async fn the_key_is_free_again_however_the_job_ends() {
    let mut test = TestStore::new();
    for way in 0..6 {
        let runs = PolicyChoice { max_attempts: Some(1), expire_after: Some(secs(50)), ..PolicyChoice::default() };
        let id = test.put(NewJob { policy: runs, ..until_end("mail") }).await;
        match way {
            0 => {
                let got = test.claim("mail").await.expect("a job");
                test.ask(id, done_with(&got, "1")).await.expect("taken");
            }
            1 => {
                let got = test.claim("mail").await.expect("a job");
                test.ask(id, failed(&got, Retry::Backoff)).await.expect("taken");
            }
            2 => drop(test.ask(id, cancel()).await.expect("taken")),
            3 => drop(test.ask(id, Command::Delete).await.expect("taken")),
            4 => test.pass(secs(51)).await,
            _ => {
                test.ask(id, Command::Hold { reason: "look".into() }).await.expect("taken");
                test.ask(id, Command::Reject { reason: "no".into() }).await.expect("taken");
            }
        }
        test.reopen().await;
    }
    test.put(until_end("mail")).await;
}

#[tokio::test]
async fn a_lock_until_the_end_is_bounded_by_its_period() {
    let test = TestStore::new();
    let first = test.put(unique("mail", Until::End, secs(10))).await;
    test.pass(secs(11)).await;
    let second = test.put(unique("mail", Until::End, secs(10))).await;
    test.ask(first, cancel()).await.expect("taken");
    let third = test.try_put(unique("mail", Until::End, secs(10))).await.expect("answered");
    assert_eq!((third.id, third.duplicate), (second, true), "the first one's end frees nothing: it had lost the key");
}

#[tokio::test]
async fn a_lock_for_a_period_outlives_its_job_and_keeps_the_result() {
    let mut test = TestStore::new();
    let short = PolicyChoice { ttl: Some(secs(1)), ..PolicyChoice::default() };
    let id = test.put(NewJob { policy: short, ..unique("mail", Until::Period, secs(60)) }).await;
    let got = test.claim("mail").await.expect("a job");
    test.ask(id, done_with(&got, "cached")).await.expect("taken");
    test.reopen().await;
    test.pass(secs(30)).await;
    let again = test.try_put(unique("mail", Until::Period, secs(60))).await.expect("answered");
    assert_eq!((again.id, again.duplicate, again.state), (id, true, State::Completed));
    let job = test.job(id).await;
    let result = test.store.body(&job, windlass_core::BodyKind::Result).await.expect("reads");
    assert_eq!(result.as_deref(), Some(&b"cached"[..]));
    test.pass(secs(31)).await;
    assert_eq!(test.state(id).await, None, "its time and its lock's are over");
    test.put(unique("mail", Until::Period, secs(60))).await;
}

#[tokio::test]
async fn an_ended_job_comes_back_only_with_its_key() {
    let test = TestStore::new();
    let first = test.put(until_end("mail")).await;
    test.ask(first, cancel()).await.expect("taken");
    let second = test.put(until_end("mail")).await;
    let refused = test.ask(first, Command::Retry).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::Locked { holder, .. })) if holder == second), "{refused:?}");
    test.ask(second, cancel()).await.expect("taken");
    test.ask(first, Command::Retry).await.expect("the key is free");
    assert!(test.try_put(until_end("mail")).await.expect("answered").duplicate);
}

#[tokio::test]
async fn a_move_takes_the_lock_along_and_never_onto_another_ones() {
    let test = TestStore::new();
    let there = test.put(until_end("images")).await;
    let here = test.put(until_end("mail")).await;
    let to = |name: &str| Command::Move(Move { queue: queue(name), reset_attempts: false, priority: None });
    assert!(matches!(test.ask(here, to("images")).await, Err(Error::Refused(Refusal::Locked { .. }))));
    test.ask(here, to("reports")).await.expect("nobody holds it there");
    assert!(test.try_put(until_end("reports")).await.expect("answered").duplicate);
    test.put(until_end("mail")).await;
    assert_eq!(test.state(there).await, Some(State::Pending));
}

#[tokio::test]
async fn a_duplicate_among_many_jobs_is_marked_as_one() {
    let test = TestStore::new();
    let stored =
        test.store.enqueue(vec![until_end("mail"), with_policy("mail", PolicyChoice::default()), until_end("mail")]);
    let stored = stored.await.expect("answered");
    assert_eq!(stored.iter().map(|one| one.duplicate).collect::<Vec<_>>(), [false, false, true]);
    assert_eq!(stored[0].id, stored[2].id);
}
