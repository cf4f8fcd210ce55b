//! One action on many jobs: fixed when it is asked for, carried out once, and continued after a restart.

use windlass_core::{Action, Bulk, BulkId, BulkStatus, Command, Guard, JobId, State};
use windlass_store::search::{Filter, Search};

use super::house::{House, cancel, job, queue, secs};

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

async fn put_many(house: &House, count: usize) -> Vec<JobId> {
    let stored = house.store.enqueue((0..count).map(|_| job("mail")).collect()).await.expect("stored");
    stored.into_iter().map(|stored| stored.id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_action_is_carried_out_on_each_job_that_is_in_a_state_for_it() {
    let house = House::new();
    let ids = put_many(&house, 700).await;
    for id in &ids[..10] {
        house.ask(*id, cancel()).await.expect("cancelled");
    }
    let unknown = JobId::new(house.now(), 5);
    let list: Vec<JobId> = ids.iter().copied().chain([unknown]).collect();
    let hold = Action::Hold { reason: "wait".into() };
    let bulk = house.store.start_bulk(hold, Guard::default(), list).await.expect("taken on");
    let bulk = over(&house, bulk.id).await;
    assert_eq!((bulk.status, bulk.total, bulk.processed), (BulkStatus::Completed, 701, 701));
    assert_eq!((bulk.affected, bulk.errors), (690, 0));
    assert_eq!(house.count("mail", State::Held).await, 690);
    let moved = Action::Move { queue: queue("other") };
    let bulk = house.store.start_bulk(moved, Guard::default(), ids).await.expect("taken on");
    assert_eq!(over(&house, bulk.id).await.affected, 700);
    assert_eq!(house.count("other", State::Held).await, 690);
    let none = house.store.start_bulk(Action::Delete, Guard::default(), Vec::new()).await.expect("taken on");
    assert_eq!(none.status, BulkStatus::Completed, "nothing to do is soon done");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_no_longer_what_the_filter_chose_is_left_alone() {
    let house = House::new();
    let ids = put_many(&house, 20).await;
    for id in &ids {
        house.ask(*id, cancel()).await.expect("cancelled");
    }
    house.ask(ids[3], Command::Retry).await.expect("retried");
    let guard = Guard { queue: Some(queue("mail")), states: vec![State::Cancelled] };
    let bulk = house.store.start_bulk(Action::Delete, guard, ids.clone()).await.expect("taken on");
    assert_eq!(over(&house, bulk.id).await.affected, 19);
    assert_eq!(house.state(ids[3]).await, Some(State::Pending));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_continues_after_a_restart_and_does_nothing_twice() {
    let mut house = House::new();
    let ids = put_many(&house, 3_000).await;
    let bulk = house.store.start_bulk(Action::Move { queue: queue("other") }, Guard::default(), ids.clone()).await;
    let id = bulk.expect("taken on").id;
    house.reopen().await;
    let bulk = over(&house, id).await;
    assert_eq!((bulk.processed, bulk.affected), (3_000, 3_000));
    let search = Search::of(Filter { queue: Some(queue("other")), ..Filter::default() }, 1_000);
    assert_eq!(house.store.search(search).await.expect("finds").total, 3_000);
    for id in ids.iter().step_by(97) {
        let job = house.job(*id).await;
        let moves = job.timeline.steps.iter().filter(|step| step.reason.starts_with("moved")).count();
        assert_eq!(moves, 1, "{:?}", job.timeline);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_operation_stops_and_says_how_far_it_came() {
    let house = House::new();
    let ids = put_many(&house, 5_000).await;
    let first = house.store.start_bulk(Action::Hold { reason: "a".into() }, Guard::default(), ids.clone()).await;
    let second = house.store.start_bulk(Action::Delete, Guard::default(), ids).await.expect("taken on");
    // The second waits for the first.
    let cancelled = house.store.cancel_bulk(second.id).await.expect("cancelled");
    assert!(cancelled.status == BulkStatus::Cancelled && cancelled.processed < 5_000, "{cancelled:?}");
    let first = over(&house, first.expect("taken on").id).await;
    assert_eq!(first.affected, 5_000);
    let again = house.store.cancel_bulk(second.id).await.expect("answers");
    assert_eq!(again, cancelled, "once it is over it stays as it is");
    assert!(house.store.cancel_bulk(BulkId(7)).await.is_err());
    let left = 5_000 - cancelled.affected;
    assert_eq!(house.count("mail", State::Held).await, left, "what was deleted before the cancel, and no more");
}
