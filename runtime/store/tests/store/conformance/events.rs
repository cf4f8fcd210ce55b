//! The timeline of a job, the stream of events, the log, and the lists.

use std::time::Duration;

use windlass_core::{NewJob, PolicyChoice, Retry, State};
use windlass_store::{JobList, LogLine};

use super::test_store::{TestStore, done, failed, job, queue, with_policy};

#[tokio::test]
async fn every_move_of_a_job_is_in_its_timeline_with_a_reason() {
    let mut test = TestStore::new();
    let policy = PolicyChoice { backoff: Some(windlass_core::BackoffKind::None), ..PolicyChoice::default() };
    let id = test.put(with_policy("mail", policy)).await;
    let got = test.claim("mail").await.expect("a job");
    test.ask(id, failed(&got, Retry::Backoff)).await.expect("taken");
    let got = test.claim("mail").await.expect("a job");
    test.ask(id, done(&got)).await.expect("taken");
    test.reopen().await;
    let steps = test.job(id).await.timeline.steps;
    let states: Vec<State> = steps.iter().map(|step| step.state).collect();
    assert_eq!(states, [State::Pending, State::Active, State::Pending, State::Active, State::Completed]);
    assert!(steps.iter().all(|step| !step.reason.is_empty()));
}

#[tokio::test]
async fn a_watcher_resumes_where_it_left_off_and_numbers_only_rise() {
    let mut test = TestStore::new();
    let mut watching = test.store.watch();
    for _ in 0..3 {
        test.put(job("mail")).await;
    }
    let seen = watching.recv().await.expect("an event").seq;
    let rest = test.store.events_after(seen, 100).await.expect("reads");
    assert_eq!(rest.len(), 2);
    test.reopen().await;
    test.put(job("mail")).await;
    let all = test.store.events_after(0, 100).await.expect("reads");
    assert_eq!(all.len(), 4);
    assert!(all.windows(2).all(|pair| pair[0].seq < pair[1].seq), "{all:?}");
    let page = test.store.events_after(all[0].seq, 2).await.expect("reads");
    assert_eq!(page, all[1..3]);
}

#[tokio::test]
async fn log_lines_are_published_as_they_are_written_with_their_final_numbers() {
    let test = TestStore::new();
    let id = test.put(job("mail")).await;
    test.claim("mail").await.expect("a job");
    let mut told = test.store.watch_logs();
    let line = |text: &str| LogLine { at: test.now(), attempt: 1, level: "info".into(), text: text.into() };
    test.store.log(id, vec![line("a"), line("b")]);
    test.store.log(id, vec![line("c")]);
    let mut seen = Vec::new();
    while seen.len() < 3 {
        // The clock of this store stands still, so nothing of it is on disk yet.
        let record = told.recv().await.expect("a record");
        assert_eq!(record.job, id);
        seen.extend((record.first..).zip(record.lines.iter().cloned()));
    }
    assert!(test.store.logs(id, 0, 10).await.expect("reads").is_empty());
    test.pass(Duration::from_secs(1)).await;
    assert_eq!(test.store.logs(id, 0, 10).await.expect("reads"), seen);
}

#[tokio::test]
async fn log_lines_are_stored_in_order_and_read_from_anywhere() {
    let mut test = TestStore::new();
    let id = test.put(job("mail")).await;
    test.claim("mail").await.expect("a job");
    let line =
        |number: usize| LogLine { at: test.now(), attempt: 1, level: "info".into(), text: format!("line {number}") };
    for number in 0..5 {
        test.store.log(id, vec![line(2 * number), line(2 * number + 1)]);
    }
    test.reopen().await;
    let lines = test.store.logs(id, 0, 100).await.expect("reads");
    assert_eq!(lines.len(), 10);
    assert!(
        lines.iter().enumerate().all(|(at, (number, line))| at as u64 == *number && line.text == format!("line {at}"))
    );
    let page = test.store.logs(id, 7, 2).await.expect("reads");
    assert_eq!(page.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [7, 8]);
}

#[tokio::test]
async fn counts_and_lists_agree() {
    let mut test = TestStore::new();
    for _ in 0..3 {
        test.put(job("mail")).await;
    }
    test.put(NewJob { hold_reason: Some("look".into()), ..job("mail") }).await;
    test.put(job("images")).await;
    let got = test.claim("mail").await.expect("a job");
    test.ask(got.job.id, done(&got)).await.expect("taken");
    test.reopen().await;
    for (name, state, expected) in [
        ("mail", State::Pending, 2),
        ("mail", State::Held, 1),
        ("mail", State::Completed, 1),
        ("images", State::Pending, 1),
        ("images", State::Held, 0),
    ] {
        let list = JobList { queue: Some(queue(name)), state: Some(state), limit: 10, offset: 0 };
        let listed = test.store.jobs(list).await.expect("reads").len() as u64;
        assert_eq!((listed, test.count(name, state).await), (expected, expected), "{name} {state:?}");
    }
    let views = test.store.queues().await.expect("reads");
    let mail = views.iter().find(|view| view.queue.name.as_str() == "mail").expect("it is there");
    assert_eq!((mail.queue.counts.enqueued, mail.queue.counts.completed), (4, 1));
    assert!(mail.oldest_pending_at.is_some());
}
