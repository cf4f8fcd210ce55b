//! What is read is of one moment: a commit is seen whole or not at all, however many parts it has.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use windlass_core::{BodyKind, Command, Move, Retry, State};
use windlass_store::{JobList, Store};

use super::test_store::{TestStore, done_with, failed, job, queue, secs};

/// Reads again and again, until the writer has done its part.
async fn while_reading<R, F>(store: &Store, read: R, write: impl Future<Output = ()>)
where
    R: Fn(Store) -> F + Send + 'static,
    F: Future<Output = ()> + Send,
{
    let over = Arc::new(AtomicBool::new(false));
    let (store, until) = (store.clone(), over.clone());
    let reader = tokio::spawn(async move {
        while !until.load(Ordering::Relaxed) {
            read(store.clone()).await;
        }
    });
    write.await;
    over.store(true, Ordering::Relaxed);
    reader.await.expect("every read was whole");
}

fn all(state: Option<State>) -> JobList {
    JobList { queue: None, state, limit: 10, offset: 0 }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_job_that_moves_between_queues_is_always_in_one_of_them() {
    let test = TestStore::new();
    let id = test.put(job("left")).await;
    let seen_once = |store: Store| async move {
        let jobs = store.jobs(all(None)).await.expect("lists");
        assert_eq!(jobs.len(), 1, "{:?}", jobs.iter().map(|job| &job.queue).collect::<Vec<_>>());
        let pending: u64 =
            store.queues().await.expect("lists").iter().map(|view| view.queue.counts.of(State::Pending)).sum();
        assert_eq!(pending, 1);
    };
    while_reading(&test.store, seen_once, async {
        for turn in 0..300 {
            let to = queue(if turn % 2 == 0 { "right" } else { "left" });
            let moved = Command::Move(Move { queue: to, reset_attempts: false, priority: None });
            test.ask(id, moved).await.expect("moved");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_list_of_jobs_in_a_state_holds_jobs_in_that_state() {
    let test = TestStore::new();
    let id = test.put(job("mail")).await;
    let as_it_says = |store: Store| async move {
        for state in [State::Pending, State::Held] {
            for job in store.jobs(all(Some(state))).await.expect("lists") {
                assert_eq!(job.state, state);
            }
        }
    };
    while_reading(&test.store, as_it_says, async {
        for _ in 0..200 {
            test.ask(id, Command::Hold { reason: "look first".into() }).await.expect("held");
            test.ask(id, Command::Approve).await.expect("approved");
        }
    })
    .await;
}

#[tokio::test]
async fn a_frozen_store_shows_a_job_as_it_was() {
    let test = TestStore::new();
    let id = test.put(job("mail")).await;
    let claimed = test.claim("mail").await.expect("it waits");
    let before = test.store.frozen();
    test.ask(id, failed(&claimed, Retry::After(secs(0)))).await.expect("failed");
    test.pass(secs(1)).await;
    let claimed = test.claim("mail").await.expect("it waits again");
    test.ask(id, done_with(&claimed, "\"ok\"")).await.expect("completed");

    let then = before.job(id).await.expect("reads").expect("it was there");
    assert_eq!((then.state, then.attempt), (State::Active, 1));
    assert_eq!(before.errors(id).await.expect("reads"), Vec::new());
    assert_eq!(before.jobs(all(Some(State::Completed))).await.expect("lists"), Vec::new());
    let now = test.job(id).await;
    assert_eq!((now.state, now.attempt), (State::Completed, 2));
    assert_eq!(test.store.errors(id).await.expect("reads").len(), 1);
    // A record of now and the bodies of then: what is not there yet is no damage.
    assert_eq!(test.store.body(&now, BodyKind::Result).await.expect("reads").as_deref(), Some(&b"\"ok\""[..]));
    test.ask(id, Command::Delete).await.expect("deleted");
    assert_eq!(test.store.body(&now, BodyKind::Result).await.expect("gone, not lost"), None);
    assert!(before.job(id).await.expect("reads").is_some());
}
