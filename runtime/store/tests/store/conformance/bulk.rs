//! One action on many jobs: fixed when it is asked for, carried out once, and continued after a restart.

use windlass_core::{Action, Bulk, BulkId, BulkStatus, Command, Guard, JobId, State};
use windlass_store::search::{Filter, Search};

use super::test_store::{TestStore, cancel, job, queue, secs};

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

async fn put_many(test: &TestStore, count: usize) -> Vec<JobId> {
    let stored = test.store.enqueue((0..count).map(|_| job("mail")).collect()).await.expect("stored");
    stored.into_iter().map(|stored| stored.id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_action_is_carried_out_on_each_job_that_is_in_a_state_for_it() {
    let test = TestStore::new();
    let ids = put_many(&test, 700).await;
    for id in &ids[..10] {
        test.ask(*id, cancel()).await.expect("cancelled");
    }
    let unknown = JobId::new(test.now(), 5);
    let list: Vec<JobId> = ids.iter().copied().chain([unknown]).collect();
    let hold = Action::Hold { reason: "wait".into() };
    let bulk = test.store.start_bulk(hold, Guard::default(), list).await.expect("taken on");
    let bulk = over(&test, bulk.id).await;
    assert_eq!((bulk.status, bulk.total, bulk.processed), (BulkStatus::Completed, 701, 701));
    assert_eq!((bulk.affected, bulk.errors), (690, 0));
    assert_eq!(test.count("mail", State::Held).await, 690);
    let moved = Action::Move { queue: queue("other") };
    let bulk = test.store.start_bulk(moved, Guard::default(), ids).await.expect("taken on");
    assert_eq!(over(&test, bulk.id).await.affected, 700);
    assert_eq!(test.count("other", State::Held).await, 690);
    let none = test.store.start_bulk(Action::Delete, Guard::default(), Vec::new()).await.expect("taken on");
    assert_eq!(none.status, BulkStatus::Completed, "nothing to do is soon done");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_no_longer_what_the_filter_chose_is_left_alone() {
    let test = TestStore::new();
    let ids = put_many(&test, 20).await;
    for id in &ids {
        test.ask(*id, cancel()).await.expect("cancelled");
    }
    test.ask(ids[3], Command::Retry).await.expect("retried");
    let guard = Guard { queue: Some(queue("mail")), states: vec![State::Cancelled] };
    let bulk = test.store.start_bulk(Action::Delete, guard, ids.clone()).await.expect("taken on");
    assert_eq!(over(&test, bulk.id).await.affected, 19);
    assert_eq!(test.state(ids[3]).await, Some(State::Pending));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_continues_after_a_restart_and_does_nothing_twice() {
    let mut test = TestStore::new();
    let ids = put_many(&test, 3_000).await;
    let bulk = test.store.start_bulk(Action::Move { queue: queue("other") }, Guard::default(), ids.clone()).await;
    let id = bulk.expect("taken on").id;
    test.reopen().await;
    let bulk = over(&test, id).await;
    assert_eq!((bulk.processed, bulk.affected), (3_000, 3_000));
    let search = Search::of(Filter { queue: Some(queue("other")), ..Filter::default() }, 1_000);
    assert_eq!(test.store.search(search).await.expect("finds").total, 3_000);
    for id in ids.iter().step_by(97) {
        let job = test.job(*id).await;
        let moves = job.timeline.steps.iter().filter(|step| step.reason.starts_with("moved")).count();
        assert_eq!(moves, 1, "{:?}", job.timeline);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_operation_stops_and_says_how_far_it_came() {
    let test = TestStore::new();
    let ids = put_many(&test, 5_000).await;
    let first = test.store.start_bulk(Action::Hold { reason: "a".into() }, Guard::default(), ids.clone()).await;
    let second = test.store.start_bulk(Action::Delete, Guard::default(), ids).await.expect("taken on");
    // The second waits for the first.
    let cancelled = test.store.cancel_bulk(second.id).await.expect("cancelled");
    assert!(cancelled.status == BulkStatus::Cancelled && cancelled.processed < 5_000, "{cancelled:?}");
    let first = over(&test, first.expect("taken on").id).await;
    assert_eq!(first.affected, 5_000);
    let again = test.store.cancel_bulk(second.id).await.expect("answers");
    assert_eq!(again, cancelled, "once it is over it stays as it is");
    assert!(test.store.cancel_bulk(BulkId(7)).await.is_err());
    let left = 5_000 - cancelled.affected;
    assert_eq!(test.count("mail", State::Held).await, left, "what was deleted before the cancel, and no more");
}
