//! What people ask of jobs: cancel, retry, requeue, move, reprioritise, hold, delete; and of whole queues.

use bytes::Bytes;
use windlass_core::flow::OnFailure;
use windlass_core::{
    Body, BodyKind, Checkpoint, Command, Heartbeat, Holder, JobId, Move, NewJob, PolicyChoice, Priority, Reply, Retry,
    State, Usage, Wait,
};
use windlass_store::{Error, FairUse, Opening};

use super::test_store::{
    TestStore, cancel, done, done_with, failed, handed_back, heartbeat, job, queue, secs, urgent, with_policy,
};

#[tokio::test]
async fn many_jobs_are_stored_together_or_not_at_all() {
    let mut test = TestStore::new();
    let nameless = NewJob::default();
    let refused = test.store.enqueue(vec![job("mail"), nameless]).await;
    assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    let too_long = NewJob { scope: Some("x".repeat(10_000)), ..job("mail") };
    assert!(test.store.enqueue(vec![job("mail"), too_long]).await.is_err());
    assert_eq!(test.count("mail", State::Pending).await, 0);
    test.store.enqueue(vec![job("mail"), job("mail"), job("mail")]).await.expect("good jobs");
    test.reopen().await;
    assert_eq!(test.count("mail", State::Pending).await, 3);
}

/// The clock stands still here: all of them are of one millisecond.
#[tokio::test]
async fn ids_follow_the_order_of_enqueueing() {
    let test = TestStore::new();
    let mut ids = vec![test.put(job("mail")).await];
    let together = test.store.enqueue((0..50).map(|_| job("mail")).collect()).await.expect("good jobs");
    ids.extend(together.iter().map(|stored| stored.id));
    ids.push(test.put(job("other")).await);
    assert!(ids.is_sorted() && ids.iter().all(|id| id.time() == test.now()), "{ids:?}");
    ids.dedup();
    assert_eq!(ids.len(), 52);
}

#[tokio::test]
async fn a_delayed_job_waits_for_its_time() {
    let mut test = TestStore::new();
    let id = test.put(NewJob { delay: Some(secs(30)), ..job("mail") }).await;
    let at = test.put(NewJob { scheduled_at: Some(test.now() + secs(60)), ..job("mail") }).await;
    assert!(test.claim("mail").await.is_none());
    test.reopen().await;
    test.pass(secs(30)).await;
    assert_eq!((test.state(id).await, test.state(at).await), (Some(State::Pending), Some(State::Scheduled)));
    test.pass(secs(30)).await;
    assert_eq!(test.state(at).await, Some(State::Pending));
}

#[tokio::test]
async fn what_is_not_done_in_time_expires_and_a_running_attempt_is_stopped_first() {
    let test = TestStore::new();
    let policy = PolicyChoice { expire_after: Some(secs(20)), ..PolicyChoice::default() };
    let running = test.put(with_policy("mail", policy.clone())).await;
    let got = test.claim("mail").await.expect("a job");
    let waiting = test.put(with_policy("mail", policy)).await;
    test.pass(secs(21)).await;
    assert_eq!(test.state(waiting).await, Some(State::Dead));
    assert_eq!(test.state(running).await, Some(State::Active));
    let Ok(Reply::Heartbeat { stop: Some(_), .. }) = test.ask(running, heartbeat(&got)).await else {
        panic!("it should stop")
    };
    test.ask(running, handed_back(&got)).await.expect("taken");
    assert_eq!(test.state(running).await, Some(State::Dead));
}

#[tokio::test]
async fn every_waiting_state_can_be_cancelled_and_an_ended_one_cannot() {
    let mut test = TestStore::new();
    let pending = test.put(job("mail")).await;
    let scheduled = test.put(NewJob { delay: Some(secs(60)), ..job("mail") }).await;
    let held = test.put(NewJob { hold_reason: Some("look".into()), ..job("mail") }).await;
    for id in [pending, scheduled, held] {
        assert!(matches!(test.ask(id, cancel()).await, Ok(Reply::Now { state: State::Cancelled, .. })));
        assert!(test.ask(id, cancel()).await.is_err());
    }
    test.reopen().await;
    test.pass(secs(61)).await;
    assert_eq!(test.count("mail", State::Cancelled).await, 3);
    assert!(test.claim("mail").await.is_none());
}

#[tokio::test]
async fn a_cancelled_job_stays_active_until_its_attempt_ends_and_an_ack_that_comes_then_keeps_its_result() {
    let test = TestStore::new();
    let id = test.put(job("mail")).await;
    let got = test.claim("mail").await.expect("a job");
    assert_eq!(test.ask(id, cancel()).await.expect("taken"), Reply::Stopping);
    assert_eq!(test.state(id).await, Some(State::Active));
    assert!(test.ask(id, done_with(&got, "late but there")).await.is_ok());
    let job = test.job(id).await;
    assert_eq!(job.state, State::Cancelled);
    let result = test.store.body(&job, BodyKind::Result).await.expect("reads");
    assert_eq!(result.as_deref(), Some(&b"late but there"[..]));
    assert!(test.ask(id, done_with(&got, "again")).await.is_ok(), "a repeated ack is answered again");
}

#[tokio::test]
async fn retry_starts_counting_again_and_keeps_the_checkpoint_except_after_completion() {
    let test = TestStore::new();
    let id = test.put(with_policy("mail", PolicyChoice { max_attempts: Some(1), ..PolicyChoice::default() })).await;
    let got = test.claim("mail").await.expect("a job");
    let body = Body::Inline(Bytes::from_static(b"half way"));
    let checkpoint = Some(Checkpoint { body, schema: 1, usage: Usage::default() });
    test.ask(id, Command::Heartbeat(Heartbeat { checkpoint, ..Heartbeat::by(Holder::Token(got.token)) }))
        .await
        .expect("taken");
    test.ask(id, failed(&got, Retry::Backoff)).await.expect("taken");
    assert_eq!(test.state(id).await, Some(State::Dead));
    test.ask(id, Command::Retry).await.expect("dead jobs can be");
    let job = test.job(id).await;
    assert_eq!((job.state, job.attempt, job.failures), (State::Pending, 0, 0));
    let kept = test.store.body(&job, BodyKind::Checkpoint).await.expect("reads");
    assert_eq!(kept.as_deref(), Some(&b"half way"[..]));
    let got = test.claim("mail").await.expect("a job");
    assert!(test.ask(id, Command::Retry).await.is_err(), "it runs");
    test.ask(id, done(&got)).await.expect("taken");
    test.ask(id, Command::Retry).await.expect("completed jobs can be");
    let job = test.job(id).await;
    assert!(job.checkpoint.is_none() && job.result.is_none());
}

#[tokio::test]
async fn requeue_keeps_the_count_and_grants_one_run() {
    let test = TestStore::new();
    let id = test.put(with_policy("mail", PolicyChoice { max_attempts: Some(1), ..PolicyChoice::default() })).await;
    for _ in 0..2 {
        let got = test.claim("mail").await.expect("a job");
        test.ask(id, failed(&got, Retry::Backoff)).await.expect("taken");
        assert_eq!(test.state(id).await, Some(State::Dead), "one run, no more");
        test.ask(id, Command::Requeue).await.expect("dead jobs can be");
    }
    assert_eq!(test.job(id).await.attempt, 2);
}

#[tokio::test]
async fn a_moved_job_waits_in_its_new_queue_and_an_active_one_is_not_moved() {
    let mut test = TestStore::new();
    let id = test.put(job("mail")).await;
    let to =
        |name: &str| Command::Move(Move { queue: queue(name), reset_attempts: true, priority: Some(Priority::High) });
    test.ask(id, to("images")).await.expect("waiting jobs can be");
    test.reopen().await;
    assert!(test.claim("mail").await.is_none());
    let got = test.claim("images").await.expect("it is here now");
    assert_eq!((got.job.id, got.job.priority), (id, Priority::High));
    assert!(test.ask(id, to("mail")).await.is_err());
    assert_eq!((test.count("mail", State::Pending).await, test.count("images", State::Active).await), (0, 1));
}

#[tokio::test]
async fn a_new_priority_puts_a_job_at_the_end_of_its_new_lane() {
    let test = TestStore::new();
    let low = test.put(urgent("mail", Priority::Low)).await;
    let first = test.put(urgent("mail", Priority::High)).await;
    test.ask(low, Command::Reprioritise { priority: Priority::High }).await.expect("it waits");
    let got = test.claim_as("ann", &["mail"], 2).await;
    assert_eq!(got.iter().map(|got| got.job.id).collect::<Vec<_>>(), [first, low]);
}

#[tokio::test]
async fn a_held_job_waits_for_approval_and_a_rejected_one_is_dead() {
    let mut test = TestStore::new();
    let good = test.put(job("mail")).await;
    let bad = test.put(job("mail")).await;
    for id in [good, bad] {
        test.ask(id, Command::Hold { reason: "look".into() }).await.expect("it waits");
    }
    test.reopen().await;
    assert!(test.claim("mail").await.is_none());
    test.ask(good, Command::Approve).await.expect("it is held");
    test.ask(bad, Command::Reject { reason: "no".into() }).await.expect("it is held");
    assert_eq!((test.state(good).await, test.state(bad).await), (Some(State::Pending), Some(State::Dead)));
    assert!(test.ask(good, Command::Approve).await.is_err());
}

#[tokio::test]
async fn a_held_running_job_is_stopped_first_unless_it_was_done_already() {
    let test = TestStore::new();
    let id = test.put(job("mail")).await;
    let got = test.claim("mail").await.expect("a job");
    assert_eq!(test.ask(id, Command::Hold { reason: "wait".into() }).await.expect("taken"), Reply::Stopping);
    test.ask(id, handed_back(&got)).await.expect("taken");
    assert_eq!(test.state(id).await, Some(State::Held));
    test.ask(id, Command::Approve).await.expect("it is held");
    let got = test.claim("mail").await.expect("a job");
    test.ask(id, Command::Hold { reason: "wait".into() }).await.expect("taken");
    test.ask(id, done(&got)).await.expect("taken");
    assert_eq!(test.state(id).await, Some(State::Completed));
}

#[tokio::test]
async fn a_deleted_job_is_removed_with_everything_it_had_and_a_running_one_is_stopped_first() {
    let mut test = TestStore::new();
    let payload = Some(Body::Inline(Bytes::from_static(b"{}")));
    let id = test.put(NewJob { payload, ..job("mail") }).await;
    let got = test.claim("mail").await.expect("a job");
    test.store
        .log(id, vec![windlass_store::LogLine { at: test.now(), attempt: 1, level: "info".into(), text: "hi".into() }]);
    assert_eq!(test.ask(id, Command::Delete).await.expect("taken"), Reply::Stopping);
    assert_eq!(test.ask(id, failed(&got, Retry::Backoff)).await.expect("taken"), Reply::Removed);
    test.reopen().await;
    assert_eq!(test.state(id).await, None);
    assert!(test.store.logs(id, 0, 10).await.expect("reads").is_empty());
    assert!(test.store.errors(id).await.expect("reads").is_empty());
    let states = State::ALL;
    for state in states {
        assert_eq!(test.count("mail", state).await, 0, "{state:?}");
    }
}

#[tokio::test]
async fn children_come_with_what_they_were_spawned_by_and_never_twice() {
    let mut test = TestStore::new();
    let parent = test.put(job("mail")).await;
    let child = |ordinal| NewJob { id: Some(JobId::child(parent, ordinal)), parent: Some(parent), ..job("images") };
    let got = test.claim("mail").await.expect("a job");
    let point = |text: &'static str| {
        Command::Heartbeat(Heartbeat {
            holder: Holder::Token(got.token),
            progress: None,
            checkpoint: Some(Checkpoint {
                body: Body::Inline(Bytes::from_static(text.as_bytes())),
                schema: 1,
                usage: Usage::default(),
            }),
            spent: None,
            notes: None,
        })
    };
    test.store.ask(parent, point("one"), vec![child(0), child(1)]).await.expect("taken");
    test.reopen().await;
    assert_eq!(test.job(parent).await.children, 2, "the next attempt counts on from here");
    test.store.ask(parent, point("two"), vec![child(1), child(2)]).await.expect("taken");
    assert_eq!(test.count("images", State::Pending).await, 3, "a child sent twice is one");
    let nameless = NewJob { id: Some(JobId::child(parent, 9)), ..NewJob::default() };
    assert!(test.store.ask(parent, done(&got), vec![nameless]).await.is_err());
    assert_eq!(test.state(parent).await, Some(State::Active), "together or not at all");
}

#[tokio::test]
async fn children_have_children_down_to_the_deepest_generation_and_the_refusal_names_it() {
    let mut test = TestStore::new();
    let fair_use = FairUse { spawn_depth: 2, ..FairUse::default() };
    test.reopen_with(Opening { fair_use, ..Opening::default() }).await;
    let mut parent = test.put(job("images")).await;
    for depth in 1..=2 {
        let claimed = test.claim("images").await.expect("the parent");
        let child = NewJob { id: Some(JobId::child(parent, 0)), parent: Some(parent), ..job("images") };
        test.store.ask(parent, done(&claimed), vec![child]).await.expect("completed");
        parent = JobId::child(parent, 0);
        assert_eq!(test.job(parent).await.depth, depth);
    }
    let claimed = test.claim("images").await.expect("the grandchild");
    let child = NewJob { id: Some(JobId::child(parent, 0)), parent: Some(parent), ..job("images") };
    let refused = test.store.ask(parent, done(&claimed), vec![child]).await.expect_err("it is too deep");
    assert!(refused.to_string().contains("at most 2 generations"), "{refused}");
    assert_eq!(test.state(parent).await, Some(State::Active), "nothing of it is stored");
    let adopted = test.try_put(NewJob { parent: Some(parent), ..job("images") }).await;
    assert!(adopted.is_err(), "nor may others put a job under it");
    assert_eq!(test.job(test.put(job("images")).await).await.depth, 0);
}

#[tokio::test]
async fn the_error_of_a_parent_names_the_child_that_failed_and_not_one_that_was_removed_meanwhile() {
    for (first_died, expected) in [(false, "was cancelled: "), (true, "failed: it broke")] {
        let test = TestStore::new();
        let parent = test.put(job("mail")).await;
        let child = |ordinal| NewJob { id: Some(JobId::child(parent, ordinal)), parent: Some(parent), ..job("images") };
        let got = test.claim("mail").await.expect("a job");
        let wait = Command::Wait(Wait {
            holder: Holder::Token(got.token),
            on_child_failure: OnFailure::Fail,
            checkpoint: None,
            usage: Usage::default(),
            notes: None,
        });
        if first_died {
            // It failed and is removed before its parent begins to wait: all in one commit, so that its row is gone.
            let point = Checkpoint { body: Body::Inline(Bytes::new()), schema: 1, usage: Usage::default() };
            let spawn = Heartbeat { checkpoint: Some(point), ..Heartbeat::by(Holder::Token(got.token)) };
            test.store.ask(parent, Command::Heartbeat(spawn), vec![child(0), child(1)]).await.expect("accepted");
            let first = test.claim("images").await.expect("a child");
            test.ask(first.job.id, failed(&first, Retry::Never)).await.expect("accepted");
            let asks = vec![(first.job.id, Command::Delete), (parent, wait)];
            test.store.ask_each(asks).await.expect("accepted");
        } else {
            test.store.ask(parent, wait, vec![child(0), child(1)]).await.expect("accepted");
            let first = test.claim("images").await.expect("a child");
            test.ask(first.job.id, done(&first)).await.expect("accepted");
            let second = JobId::child(parent, 1);
            let asks = vec![(first.job.id, Command::Delete), (second, cancel())];
            test.store.ask_each(asks).await.expect("accepted");
        }
        let named = JobId::child(parent, if first_died { 0 } else { 1 });
        let job = test.job(parent).await;
        let error = job.last_error.expect("it has failed");
        assert_eq!(job.state, State::Dead);
        assert!(error.starts_with(&format!("child {named} (queue images) {expected}")), "{error}");
    }
}

#[tokio::test]
async fn a_child_that_was_removed_before_its_parent_waited_is_said_to_be_removed() {
    let test = TestStore::new();
    let parent = test.put(job("mail")).await;
    let child = NewJob { id: Some(JobId::child(parent, 0)), parent: Some(parent), ..job("images") };
    let got = test.claim("mail").await.expect("a job");
    let holder = Holder::Token(got.token);
    let point = Checkpoint { body: Body::Inline(Bytes::new()), schema: 1, usage: Usage::default() };
    let spawn = Heartbeat { checkpoint: Some(point), ..Heartbeat::by(holder) };
    test.store.ask(parent, Command::Heartbeat(spawn), vec![child]).await.expect("accepted");
    test.ask(JobId::child(parent, 0), Command::Delete).await.expect("accepted");
    let (on_child_failure, usage) = (OnFailure::Fail, Usage::default());
    let wait = Wait { holder, on_child_failure, checkpoint: None, usage, notes: None };
    test.ask(parent, Command::Wait(wait)).await.expect("accepted");
    let error = test.job(parent).await.last_error.expect("it has failed");
    assert_eq!(error, "a child failed or was removed, and is not among the latest children");
}

#[tokio::test]
async fn a_paused_queue_takes_jobs_and_starts_none() {
    let mut test = TestStore::new();
    test.set("mail", |settings| settings.paused = true).await;
    let id = test.put(job("mail")).await;
    test.reopen().await;
    assert!(test.claim("mail").await.is_none());
    test.set("mail", |settings| settings.paused = false).await;
    assert_eq!(test.claim("mail").await.expect("a job").job.id, id);
}

#[tokio::test]
async fn clearing_a_queue_removes_what_is_pending_and_scheduled_and_nothing_else() {
    let mut test = TestStore::new();
    let active = test.put(job("mail")).await;
    test.claim("mail").await.expect("a job");
    let held = test.put(NewJob { hold_reason: Some("look".into()), ..job("mail") }).await;
    for _ in 0..700 {
        test.put(job("mail")).await;
    }
    test.put(NewJob { delay: Some(secs(60)), ..job("mail") }).await;
    assert_eq!(test.store.clear(queue("mail")).await.expect("clears"), 701);
    test.reopen().await;
    assert_eq!((test.count("mail", State::Pending).await, test.count("mail", State::Scheduled).await), (0, 0));
    assert_eq!((test.state(active).await, test.state(held).await), (Some(State::Active), Some(State::Held)));
    assert!(test.claim("mail").await.is_none());
}

#[tokio::test]
async fn a_queue_is_removed_with_its_jobs_but_not_under_running_ones() {
    let mut test = TestStore::new();
    let id = test.put(job("mail")).await;
    let got = test.claim("mail").await.expect("a job");
    assert!(test.store.remove_queue(queue("mail")).await.is_err());
    test.ask(id, done(&got)).await.expect("taken");
    test.put(job("mail")).await;
    assert_eq!(test.store.remove_queue(queue("mail")).await.expect("removes"), 2);
    test.reopen().await;
    assert!(test.store.queues().await.expect("reads").iter().all(|view| view.queue.name.as_str() != "mail"));
    assert!(matches!(test.store.remove_queue(queue("mail")).await, Err(Error::Refused(_))));
    let fresh = test.put(job("mail")).await;
    assert_eq!(test.claim("mail").await.expect("a new queue of that name").job.id, fresh);
}

/// A commit reaches the parts of the database one after the other; whoever reads meanwhile must not see half of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_job_that_is_seen_completed_has_its_result() {
    let test = TestStore::new();
    for _ in 0..300 {
        let id = test.put(job("mail")).await;
        let claimed = test.claim("mail").await.expect("it waits");
        let store = test.store.clone();
        let reader = tokio::spawn(async move {
            loop {
                let seen = store.job(id).await.expect("reads").expect("is there");
                let result = store.body(&seen, BodyKind::Result).await.expect("a result that is named is there");
                if seen.is_ended() {
                    return result;
                }
                tokio::task::yield_now().await;
            }
        });
        test.store.ask(id, done_with(&claimed, "\"ok\""), Vec::new()).await.expect("completed");
        assert_eq!(reader.await.expect("no panic").as_deref(), Some(&b"\"ok\""[..]));
    }
}

#[tokio::test]
async fn a_gauge_counts_what_is_and_a_total_what_has_happened_wherever_a_job_is_moved() {
    let mut test = TestStore::new();
    let once = PolicyChoice { max_attempts: Some(1), ..PolicyChoice::default() };
    let id = test.put(with_policy("mail", once)).await;
    let got = test.claim("mail").await.expect("a job");
    test.ask(id, failed(&got, Retry::Backoff)).await.expect("taken");
    let moved = |to: &str| Command::Move(Move { queue: queue(to), reset_attempts: false, priority: None });
    test.ask(id, moved("spam")).await.expect("moved");
    assert_eq!(test.totals("mail").await, [1, 0, 0, 1], "it died there");
    assert_eq!(test.totals("spam").await, [0, 0, 0, 0], "nothing happened here");
    assert_eq!((test.count("mail", State::Dead).await, test.count("spam", State::Dead).await), (0, 1));
    test.ask(id, Command::Retry).await.expect("retried");
    assert_eq!(test.count("spam", State::Dead).await, 0);
    let got = test.claim("spam").await.expect("a job");
    test.ask(id, done(&got)).await.expect("taken");
    test.ask(id, moved("mail")).await.expect("moved");
    test.reopen().await;
    assert_eq!(test.totals("mail").await, [1, 0, 0, 1]);
    assert_eq!(test.totals("spam").await, [0, 1, 0, 0]);
    assert_eq!(test.count("mail", State::Completed).await, 1);
}

#[tokio::test]
async fn an_attempt_that_is_tried_again_at_once_is_counted_as_failed() {
    let test = TestStore::new();
    let id = test.put(job("mail")).await;
    let got = test.claim("mail").await.expect("a job");
    test.ask(id, failed(&got, Retry::After(secs(0)))).await.expect("taken");
    assert_eq!(test.totals("mail").await, [1, 0, 1, 0]);
    let got = test.claim("mail").await.expect("the same job");
    test.ask(id, failed(&got, Retry::After(secs(5)))).await.expect("taken");
    test.ask(id, Command::Move(Move { queue: queue("spam"), reset_attempts: false, priority: None }))
        .await
        .expect("moved");
    assert_eq!(test.totals("mail").await, [1, 0, 2, 0]);
    assert_eq!(test.totals("spam").await, [0, 0, 0, 0], "to be moved while it waits is no failure");
}
