//! What people ask of jobs: cancel, retry, requeue, move, reprioritise, hold, delete; and of whole queues.

use bytes::Bytes;
use windlass_core::flow::OnFailure;
use windlass_core::{
    Body, BodyKind, Checkpoint, Command, Heartbeat, Holder, JobId, Move, NewJob, PolicyChoice, Priority, Reply, Retry,
    State, Usage, Wait,
};
use windlass_store::{Error, FairUse, Opening};

use super::house::{
    House, cancel, done, done_with, failed, handed_back, heartbeat, job, queue, secs, urgent, with_policy,
};

#[tokio::test]
async fn many_jobs_are_stored_together_or_not_at_all() {
    let mut house = House::new();
    let nameless = NewJob::default();
    let refused = house.store.enqueue(vec![job("mail"), nameless]).await;
    assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    let too_long = NewJob { scope: Some("x".repeat(10_000)), ..job("mail") };
    assert!(house.store.enqueue(vec![job("mail"), too_long]).await.is_err());
    assert_eq!(house.count("mail", State::Pending).await, 0);
    house.store.enqueue(vec![job("mail"), job("mail"), job("mail")]).await.expect("good jobs");
    house.reopen().await;
    assert_eq!(house.count("mail", State::Pending).await, 3);
}

/// The clock stands still here: all of them are of one millisecond.
#[tokio::test]
async fn ids_follow_the_order_of_enqueueing() {
    let house = House::new();
    let mut ids = vec![house.put(job("mail")).await];
    let together = house.store.enqueue((0..50).map(|_| job("mail")).collect()).await.expect("good jobs");
    ids.extend(together.iter().map(|stored| stored.id));
    ids.push(house.put(job("other")).await);
    assert!(ids.is_sorted() && ids.iter().all(|id| id.time() == house.now()), "{ids:?}");
    ids.dedup();
    assert_eq!(ids.len(), 52);
}

#[tokio::test]
async fn a_delayed_job_waits_for_its_time() {
    let mut house = House::new();
    let id = house.put(NewJob { delay: Some(secs(30)), ..job("mail") }).await;
    let at = house.put(NewJob { scheduled_at: Some(house.now() + secs(60)), ..job("mail") }).await;
    assert!(house.claim("mail").await.is_none());
    house.reopen().await;
    house.pass(secs(30)).await;
    assert_eq!((house.state(id).await, house.state(at).await), (Some(State::Pending), Some(State::Scheduled)));
    house.pass(secs(30)).await;
    assert_eq!(house.state(at).await, Some(State::Pending));
}

#[tokio::test]
async fn what_is_not_done_in_time_expires_and_a_running_attempt_is_stopped_first() {
    let house = House::new();
    let policy = PolicyChoice { expire_after: Some(secs(20)), ..PolicyChoice::default() };
    let running = house.put(with_policy("mail", policy.clone())).await;
    let got = house.claim("mail").await.expect("a job");
    let waiting = house.put(with_policy("mail", policy)).await;
    house.pass(secs(21)).await;
    assert_eq!(house.state(waiting).await, Some(State::Dead));
    assert_eq!(house.state(running).await, Some(State::Active));
    let Ok(Reply::Heartbeat { stop: Some(_), .. }) = house.ask(running, heartbeat(&got)).await else {
        panic!("it should stop")
    };
    house.ask(running, handed_back(&got)).await.expect("taken");
    assert_eq!(house.state(running).await, Some(State::Dead));
}

#[tokio::test]
async fn every_waiting_state_can_be_cancelled_and_an_ended_one_cannot() {
    let mut house = House::new();
    let pending = house.put(job("mail")).await;
    let scheduled = house.put(NewJob { delay: Some(secs(60)), ..job("mail") }).await;
    let held = house.put(NewJob { hold_reason: Some("look".into()), ..job("mail") }).await;
    for id in [pending, scheduled, held] {
        assert!(matches!(house.ask(id, cancel()).await, Ok(Reply::Now { state: State::Cancelled, .. })));
        assert!(house.ask(id, cancel()).await.is_err());
    }
    house.reopen().await;
    house.pass(secs(61)).await;
    assert_eq!(house.count("mail", State::Cancelled).await, 3);
    assert!(house.claim("mail").await.is_none());
}

#[tokio::test]
async fn a_cancelled_job_stays_active_until_its_attempt_ends_and_an_ack_that_comes_then_keeps_its_result() {
    let house = House::new();
    let id = house.put(job("mail")).await;
    let got = house.claim("mail").await.expect("a job");
    assert_eq!(house.ask(id, cancel()).await.expect("taken"), Reply::Stopping);
    assert_eq!(house.state(id).await, Some(State::Active));
    assert!(house.ask(id, done_with(&got, "late but there")).await.is_ok());
    let job = house.job(id).await;
    assert_eq!(job.state, State::Cancelled);
    let result = house.store.body(&job, BodyKind::Result).await.expect("reads");
    assert_eq!(result.as_deref(), Some(&b"late but there"[..]));
    assert!(house.ask(id, done_with(&got, "again")).await.is_ok(), "a repeated ack is answered again");
}

#[tokio::test]
async fn retry_starts_counting_again_and_keeps_the_checkpoint_except_after_completion() {
    let house = House::new();
    let id = house.put(with_policy("mail", PolicyChoice { max_attempts: Some(1), ..PolicyChoice::default() })).await;
    let got = house.claim("mail").await.expect("a job");
    let body = Body::Inline(Bytes::from_static(b"half way"));
    let checkpoint = Some(Checkpoint { body, schema: 1, usage: Usage::default() });
    house
        .ask(id, Command::Heartbeat(Heartbeat { checkpoint, ..Heartbeat::by(Holder::Token(got.token)) }))
        .await
        .expect("taken");
    house.ask(id, failed(&got, Retry::Backoff)).await.expect("taken");
    assert_eq!(house.state(id).await, Some(State::Dead));
    house.ask(id, Command::Retry).await.expect("dead jobs can be");
    let job = house.job(id).await;
    assert_eq!((job.state, job.attempt, job.failures), (State::Pending, 0, 0));
    let kept = house.store.body(&job, BodyKind::Checkpoint).await.expect("reads");
    assert_eq!(kept.as_deref(), Some(&b"half way"[..]));
    let got = house.claim("mail").await.expect("a job");
    assert!(house.ask(id, Command::Retry).await.is_err(), "it runs");
    house.ask(id, done(&got)).await.expect("taken");
    house.ask(id, Command::Retry).await.expect("completed jobs can be");
    let job = house.job(id).await;
    assert!(job.checkpoint.is_none() && job.result.is_none());
}

#[tokio::test]
async fn requeue_keeps_the_count_and_grants_one_run() {
    let house = House::new();
    let id = house.put(with_policy("mail", PolicyChoice { max_attempts: Some(1), ..PolicyChoice::default() })).await;
    for _ in 0..2 {
        let got = house.claim("mail").await.expect("a job");
        house.ask(id, failed(&got, Retry::Backoff)).await.expect("taken");
        assert_eq!(house.state(id).await, Some(State::Dead), "one run, no more");
        house.ask(id, Command::Requeue).await.expect("dead jobs can be");
    }
    assert_eq!(house.job(id).await.attempt, 2);
}

#[tokio::test]
async fn a_moved_job_waits_in_its_new_queue_and_an_active_one_is_not_moved() {
    let mut house = House::new();
    let id = house.put(job("mail")).await;
    let to =
        |name: &str| Command::Move(Move { queue: queue(name), reset_attempts: true, priority: Some(Priority::High) });
    house.ask(id, to("images")).await.expect("waiting jobs can be");
    house.reopen().await;
    assert!(house.claim("mail").await.is_none());
    let got = house.claim("images").await.expect("it is here now");
    assert_eq!((got.job.id, got.job.priority), (id, Priority::High));
    assert!(house.ask(id, to("mail")).await.is_err());
    assert_eq!((house.count("mail", State::Pending).await, house.count("images", State::Active).await), (0, 1));
}

#[tokio::test]
async fn a_new_priority_puts_a_job_at_the_end_of_its_new_lane() {
    let house = House::new();
    let low = house.put(urgent("mail", Priority::Low)).await;
    let first = house.put(urgent("mail", Priority::High)).await;
    house.ask(low, Command::Reprioritise { priority: Priority::High }).await.expect("it waits");
    let got = house.claim_as("ann", &["mail"], 2).await;
    assert_eq!(got.iter().map(|got| got.job.id).collect::<Vec<_>>(), [first, low]);
}

#[tokio::test]
async fn a_held_job_waits_for_approval_and_a_rejected_one_is_dead() {
    let mut house = House::new();
    let good = house.put(job("mail")).await;
    let bad = house.put(job("mail")).await;
    for id in [good, bad] {
        house.ask(id, Command::Hold { reason: "look".into() }).await.expect("it waits");
    }
    house.reopen().await;
    assert!(house.claim("mail").await.is_none());
    house.ask(good, Command::Approve).await.expect("it is held");
    house.ask(bad, Command::Reject { reason: "no".into() }).await.expect("it is held");
    assert_eq!((house.state(good).await, house.state(bad).await), (Some(State::Pending), Some(State::Dead)));
    assert!(house.ask(good, Command::Approve).await.is_err());
}

#[tokio::test]
async fn a_held_running_job_is_stopped_first_unless_it_was_done_already() {
    let house = House::new();
    let id = house.put(job("mail")).await;
    let got = house.claim("mail").await.expect("a job");
    assert_eq!(house.ask(id, Command::Hold { reason: "wait".into() }).await.expect("taken"), Reply::Stopping);
    house.ask(id, handed_back(&got)).await.expect("taken");
    assert_eq!(house.state(id).await, Some(State::Held));
    house.ask(id, Command::Approve).await.expect("it is held");
    let got = house.claim("mail").await.expect("a job");
    house.ask(id, Command::Hold { reason: "wait".into() }).await.expect("taken");
    house.ask(id, done(&got)).await.expect("taken");
    assert_eq!(house.state(id).await, Some(State::Completed));
}

#[tokio::test]
async fn a_deleted_job_is_removed_with_everything_it_had_and_a_running_one_is_stopped_first() {
    let mut house = House::new();
    let payload = Some(Body::Inline(Bytes::from_static(b"{}")));
    let id = house.put(NewJob { payload, ..job("mail") }).await;
    let got = house.claim("mail").await.expect("a job");
    house.store.log(
        id,
        vec![windlass_store::LogLine { at: house.now(), attempt: 1, level: "info".into(), text: "hi".into() }],
    );
    assert_eq!(house.ask(id, Command::Delete).await.expect("taken"), Reply::Stopping);
    assert_eq!(house.ask(id, failed(&got, Retry::Backoff)).await.expect("taken"), Reply::Removed);
    house.reopen().await;
    assert_eq!(house.state(id).await, None);
    assert!(house.store.logs(id, 0, 10).await.expect("reads").is_empty());
    assert!(house.store.errors(id).await.expect("reads").is_empty());
    let states = State::ALL;
    for state in states {
        assert_eq!(house.count("mail", state).await, 0, "{state:?}");
    }
}

#[tokio::test]
async fn children_come_with_what_they_were_spawned_by_and_never_twice() {
    let mut house = House::new();
    let parent = house.put(job("mail")).await;
    let child = |ordinal| NewJob { id: Some(JobId::child(parent, ordinal)), parent: Some(parent), ..job("images") };
    let got = house.claim("mail").await.expect("a job");
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
    house.store.ask(parent, point("one"), vec![child(0), child(1)]).await.expect("taken");
    house.reopen().await;
    assert_eq!(house.job(parent).await.children, 2, "the next attempt counts on from here");
    house.store.ask(parent, point("two"), vec![child(1), child(2)]).await.expect("taken");
    assert_eq!(house.count("images", State::Pending).await, 3, "a child sent twice is one");
    let nameless = NewJob { id: Some(JobId::child(parent, 9)), ..NewJob::default() };
    assert!(house.store.ask(parent, done(&got), vec![nameless]).await.is_err());
    assert_eq!(house.state(parent).await, Some(State::Active), "together or not at all");
}

#[tokio::test]
async fn children_have_children_down_to_the_deepest_generation_and_the_refusal_names_it() {
    let mut house = House::new();
    let fair_use = FairUse { spawn_depth: 2, ..FairUse::default() };
    house.reopen_with(Opening { fair_use, ..Opening::default() }).await;
    let mut parent = house.put(job("images")).await;
    for depth in 1..=2 {
        let claimed = house.claim("images").await.expect("the parent");
        let child = NewJob { id: Some(JobId::child(parent, 0)), parent: Some(parent), ..job("images") };
        house.store.ask(parent, done(&claimed), vec![child]).await.expect("completed");
        parent = JobId::child(parent, 0);
        assert_eq!(house.job(parent).await.depth, depth);
    }
    let claimed = house.claim("images").await.expect("the grandchild");
    let child = NewJob { id: Some(JobId::child(parent, 0)), parent: Some(parent), ..job("images") };
    let refused = house.store.ask(parent, done(&claimed), vec![child]).await.expect_err("it is too deep");
    assert!(refused.to_string().contains("at most 2 generations"), "{refused}");
    assert_eq!(house.state(parent).await, Some(State::Active), "nothing of it is stored");
    let adopted = house.try_put(NewJob { parent: Some(parent), ..job("images") }).await;
    assert!(adopted.is_err(), "nor may others put a job under it");
    assert_eq!(house.job(house.put(job("images")).await).await.depth, 0);
}

#[tokio::test]
async fn the_error_of_a_parent_names_the_child_that_failed_and_not_one_that_was_removed_meanwhile() {
    for (first_died, expected) in [(false, "was cancelled: "), (true, "failed: it broke")] {
        let house = House::new();
        let parent = house.put(job("mail")).await;
        let child = |ordinal| NewJob { id: Some(JobId::child(parent, ordinal)), parent: Some(parent), ..job("images") };
        let got = house.claim("mail").await.expect("a job");
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
            house.store.ask(parent, Command::Heartbeat(spawn), vec![child(0), child(1)]).await.expect("accepted");
            let first = house.claim("images").await.expect("a child");
            house.ask(first.job.id, failed(&first, Retry::Never)).await.expect("accepted");
            let asks = vec![(first.job.id, Command::Delete), (parent, wait)];
            house.store.ask_each(asks).await.expect("accepted");
        } else {
            house.store.ask(parent, wait, vec![child(0), child(1)]).await.expect("accepted");
            let first = house.claim("images").await.expect("a child");
            house.ask(first.job.id, done(&first)).await.expect("accepted");
            let second = JobId::child(parent, 1);
            let asks = vec![(first.job.id, Command::Delete), (second, cancel())];
            house.store.ask_each(asks).await.expect("accepted");
        }
        let named = JobId::child(parent, if first_died { 0 } else { 1 });
        let job = house.job(parent).await;
        let error = job.last_error.expect("it has failed");
        assert_eq!(job.state, State::Dead);
        assert!(error.starts_with(&format!("child {named} (queue images) {expected}")), "{error}");
    }
}

#[tokio::test]
async fn a_child_that_was_removed_before_its_parent_waited_is_said_to_be_removed() {
    let house = House::new();
    let parent = house.put(job("mail")).await;
    let child = NewJob { id: Some(JobId::child(parent, 0)), parent: Some(parent), ..job("images") };
    let got = house.claim("mail").await.expect("a job");
    let holder = Holder::Token(got.token);
    let point = Checkpoint { body: Body::Inline(Bytes::new()), schema: 1, usage: Usage::default() };
    let spawn = Heartbeat { checkpoint: Some(point), ..Heartbeat::by(holder) };
    house.store.ask(parent, Command::Heartbeat(spawn), vec![child]).await.expect("accepted");
    house.ask(JobId::child(parent, 0), Command::Delete).await.expect("accepted");
    let (on_child_failure, usage) = (OnFailure::Fail, Usage::default());
    let wait = Wait { holder, on_child_failure, checkpoint: None, usage, notes: None };
    house.ask(parent, Command::Wait(wait)).await.expect("accepted");
    let error = house.job(parent).await.last_error.expect("it has failed");
    assert_eq!(error, "a child failed or was removed, and is not among the latest children");
}

#[tokio::test]
async fn a_paused_queue_takes_jobs_and_starts_none() {
    let mut house = House::new();
    house.set("mail", |settings| settings.paused = true).await;
    let id = house.put(job("mail")).await;
    house.reopen().await;
    assert!(house.claim("mail").await.is_none());
    house.set("mail", |settings| settings.paused = false).await;
    assert_eq!(house.claim("mail").await.expect("a job").job.id, id);
}

#[tokio::test]
async fn clearing_a_queue_removes_what_is_pending_and_scheduled_and_nothing_else() {
    let mut house = House::new();
    let active = house.put(job("mail")).await;
    house.claim("mail").await.expect("a job");
    let held = house.put(NewJob { hold_reason: Some("look".into()), ..job("mail") }).await;
    for _ in 0..700 {
        house.put(job("mail")).await;
    }
    house.put(NewJob { delay: Some(secs(60)), ..job("mail") }).await;
    assert_eq!(house.store.clear(queue("mail")).await.expect("clears"), 701);
    house.reopen().await;
    assert_eq!((house.count("mail", State::Pending).await, house.count("mail", State::Scheduled).await), (0, 0));
    assert_eq!((house.state(active).await, house.state(held).await), (Some(State::Active), Some(State::Held)));
    assert!(house.claim("mail").await.is_none());
}

#[tokio::test]
async fn a_queue_is_removed_with_its_jobs_but_not_under_running_ones() {
    let mut house = House::new();
    let id = house.put(job("mail")).await;
    let got = house.claim("mail").await.expect("a job");
    assert!(house.store.remove_queue(queue("mail")).await.is_err());
    house.ask(id, done(&got)).await.expect("taken");
    house.put(job("mail")).await;
    assert_eq!(house.store.remove_queue(queue("mail")).await.expect("removes"), 2);
    house.reopen().await;
    assert!(house.store.queues().await.expect("reads").iter().all(|view| view.queue.name.as_str() != "mail"));
    assert!(matches!(house.store.remove_queue(queue("mail")).await, Err(Error::Refused(_))));
    let fresh = house.put(job("mail")).await;
    assert_eq!(house.claim("mail").await.expect("a new queue of that name").job.id, fresh);
}

/// A commit reaches the parts of the database one after the other; whoever reads meanwhile must not see half of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_job_that_is_seen_completed_has_its_result() {
    let house = House::new();
    for _ in 0..300 {
        let id = house.put(job("mail")).await;
        let claimed = house.claim("mail").await.expect("it waits");
        let store = house.store.clone();
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
        house.store.ask(id, done_with(&claimed, "\"ok\""), Vec::new()).await.expect("completed");
        assert_eq!(reader.await.expect("no panic").as_deref(), Some(&b"\"ok\""[..]));
    }
}

#[tokio::test]
async fn a_gauge_counts_what_is_and_a_total_what_has_happened_wherever_a_job_is_moved() {
    let mut house = House::new();
    let once = PolicyChoice { max_attempts: Some(1), ..PolicyChoice::default() };
    let id = house.put(with_policy("mail", once)).await;
    let got = house.claim("mail").await.expect("a job");
    house.ask(id, failed(&got, Retry::Backoff)).await.expect("taken");
    let moved = |to: &str| Command::Move(Move { queue: queue(to), reset_attempts: false, priority: None });
    house.ask(id, moved("spam")).await.expect("moved");
    assert_eq!(house.totals("mail").await, [1, 0, 0, 1], "it died there");
    assert_eq!(house.totals("spam").await, [0, 0, 0, 0], "nothing happened here");
    assert_eq!((house.count("mail", State::Dead).await, house.count("spam", State::Dead).await), (0, 1));
    house.ask(id, Command::Retry).await.expect("retried");
    assert_eq!(house.count("spam", State::Dead).await, 0);
    let got = house.claim("spam").await.expect("a job");
    house.ask(id, done(&got)).await.expect("taken");
    house.ask(id, moved("mail")).await.expect("moved");
    house.reopen().await;
    assert_eq!(house.totals("mail").await, [1, 0, 0, 1]);
    assert_eq!(house.totals("spam").await, [0, 1, 0, 0]);
    assert_eq!(house.count("mail", State::Completed).await, 1);
}

#[tokio::test]
async fn an_attempt_that_is_tried_again_at_once_is_counted_as_failed() {
    let house = House::new();
    let id = house.put(job("mail")).await;
    let got = house.claim("mail").await.expect("a job");
    house.ask(id, failed(&got, Retry::After(secs(0)))).await.expect("taken");
    assert_eq!(house.totals("mail").await, [1, 0, 1, 0]);
    let got = house.claim("mail").await.expect("the same job");
    house.ask(id, failed(&got, Retry::After(secs(5)))).await.expect("taken");
    house
        .ask(id, Command::Move(Move { queue: queue("spam"), reset_attempts: false, priority: None }))
        .await
        .expect("moved");
    assert_eq!(house.totals("mail").await, [1, 0, 2, 0]);
    assert_eq!(house.totals("spam").await, [0, 0, 0, 0], "to be moved while it waits is no failure");
}
