//! Unique keys: one job per key, until it ends or for a period.

use std::time::Duration;

use windlass_core::{Command, Move, NewJob, PolicyChoice, Refusal, Retry, State, Unique, UniqueScope, Until};
use windlass_store::Error;

use super::house::{House, cancel, done_with, failed, job, queue, secs, with_policy};

fn unique(name: &str, until: Until, period: Duration) -> NewJob {
    let unique = Unique { key: "invoice-7".into(), within: UniqueScope::Queue, until, period };
    NewJob { unique: Some(unique), ..job(name) }
}

fn until_end(name: &str) -> NewJob {
    unique(name, Until::End, secs(3600))
}

#[tokio::test]
async fn a_second_job_of_the_same_key_is_the_first_one_and_another_queue_has_keys_of_its_own() {
    let mut house = House::new();
    let first = house.put(until_end("mail")).await;
    house.reopen().await;
    let again = house.try_put(until_end("mail")).await.expect("answered");
    assert_eq!((again.id, again.duplicate, again.state), (first, true, State::Pending));
    house.put(until_end("images")).await;
    assert_eq!(house.count("mail", State::Pending).await, 1);
}

#[tokio::test]
async fn within_a_scope_the_key_counts_over_all_queues() {
    let house = House::new();
    let scoped = |name: &str, scope: &str| {
        let unique = Unique { key: "k".into(), within: UniqueScope::Scope, until: Until::End, period: secs(60) };
        NewJob { unique: Some(unique), scope: Some(scope.into()), ..job(name) }
    };
    let first = house.put(scoped("mail", "user:1")).await;
    assert_eq!(house.try_put(scoped("images", "user:1")).await.expect("answered").id, first);
    house.put(scoped("mail", "user:2")).await;
}

#[tokio::test]
async fn the_key_is_free_again_however_the_job_ends() {
    let mut house = House::new();
    for way in 0..6 {
        let runs = PolicyChoice { max_attempts: Some(1), expire_after: Some(secs(50)), ..PolicyChoice::default() };
        let id = house.put(NewJob { policy: runs, ..until_end("mail") }).await;
        match way {
            0 => {
                let got = house.claim("mail").await.expect("a job");
                house.ask(id, done_with(&got, "1")).await.expect("taken");
            }
            1 => {
                let got = house.claim("mail").await.expect("a job");
                house.ask(id, failed(&got, Retry::Backoff)).await.expect("taken");
            }
            2 => drop(house.ask(id, cancel()).await.expect("taken")),
            3 => drop(house.ask(id, Command::Delete).await.expect("taken")),
            4 => house.pass(secs(51)).await,
            _ => {
                house.ask(id, Command::Hold { reason: "look".into() }).await.expect("taken");
                house.ask(id, Command::Reject { reason: "no".into() }).await.expect("taken");
            }
        }
        house.reopen().await;
    }
    house.put(until_end("mail")).await;
}

#[tokio::test]
async fn a_lock_until_the_end_is_bounded_by_its_period() {
    let house = House::new();
    let first = house.put(unique("mail", Until::End, secs(10))).await;
    house.pass(secs(11)).await;
    let second = house.put(unique("mail", Until::End, secs(10))).await;
    house.ask(first, cancel()).await.expect("taken");
    let third = house.try_put(unique("mail", Until::End, secs(10))).await.expect("answered");
    assert_eq!((third.id, third.duplicate), (second, true), "the first one's end frees nothing: it had lost the key");
}

#[tokio::test]
async fn a_lock_for_a_period_outlives_its_job_and_keeps_the_result() {
    let mut house = House::new();
    let short = PolicyChoice { ttl: Some(secs(1)), ..PolicyChoice::default() };
    let id = house.put(NewJob { policy: short, ..unique("mail", Until::Period, secs(60)) }).await;
    let got = house.claim("mail").await.expect("a job");
    house.ask(id, done_with(&got, "cached")).await.expect("taken");
    house.reopen().await;
    house.pass(secs(30)).await;
    let again = house.try_put(unique("mail", Until::Period, secs(60))).await.expect("answered");
    assert_eq!((again.id, again.duplicate, again.state), (id, true, State::Completed));
    let job = house.job(id).await;
    let result = house.store.body(&job, windlass_core::BodyKind::Result).await.expect("reads");
    assert_eq!(result.as_deref(), Some(&b"cached"[..]));
    house.pass(secs(31)).await;
    assert_eq!(house.state(id).await, None, "its time and its lock's are over");
    house.put(unique("mail", Until::Period, secs(60))).await;
}

#[tokio::test]
async fn an_ended_job_comes_back_only_with_its_key() {
    let house = House::new();
    let first = house.put(until_end("mail")).await;
    house.ask(first, cancel()).await.expect("taken");
    let second = house.put(until_end("mail")).await;
    let refused = house.ask(first, Command::Retry).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::Locked { holder, .. })) if holder == second), "{refused:?}");
    house.ask(second, cancel()).await.expect("taken");
    house.ask(first, Command::Retry).await.expect("the key is free");
    assert!(house.try_put(until_end("mail")).await.expect("answered").duplicate);
}

#[tokio::test]
async fn a_move_takes_the_lock_along_and_never_onto_another_ones() {
    let house = House::new();
    let there = house.put(until_end("images")).await;
    let here = house.put(until_end("mail")).await;
    let to = |name: &str| Command::Move(Move { queue: queue(name), reset_attempts: false, priority: None });
    assert!(matches!(house.ask(here, to("images")).await, Err(Error::Refused(Refusal::Locked { .. }))));
    house.ask(here, to("reports")).await.expect("nobody holds it there");
    assert!(house.try_put(until_end("reports")).await.expect("answered").duplicate);
    house.put(until_end("mail")).await;
    assert_eq!(house.state(there).await, Some(State::Pending));
}

#[tokio::test]
async fn a_duplicate_among_many_jobs_is_marked_as_one() {
    let house = House::new();
    let stored =
        house.store.enqueue(vec![until_end("mail"), with_policy("mail", PolicyChoice::default()), until_end("mail")]);
    let stored = stored.await.expect("answered");
    assert_eq!(stored.iter().map(|one| one.duplicate).collect::<Vec<_>>(), [false, false, true]);
    assert_eq!(stored[0].id, stored[2].id);
}
