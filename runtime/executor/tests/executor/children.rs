//! Waiting for children, and reading their results.

use std::sync::Arc;

use bytes::Bytes;
use windlass_core::flow::{OnFailure, Tally};
use windlass_core::{JobId, State, Time};
use windlass_executor::{ChildRead, HostError, Outcome, RequestedWait};

use crate::support::{Recorder, assert_contains, error, start, start_with, trespasser};

fn waits(children: u32, then: &str) -> String {
    format!(r#"{{"try": "wait", "children": {children}, "then": "{then}"}}"#)
}

fn child(ordinal: u32, result: &str) -> ChildRead {
    ChildRead {
        ordinal,
        id: JobId::new(Time::default(), u128::from(ordinal)),
        queue: "more".parse().expect("a name"),
        state: State::Completed,
        result: Some(Bytes::from(result.to_owned())),
        result_bytes: result.len() as u64,
        error: None,
    }
}

#[tokio::test]
async fn a_wait_commits_children_and_state_and_ignores_the_result() {
    let guest = trespasser().await;
    for then in ["wait", "complete"] {
        let ended = start(&guest, &waits(3, then), |attempt| attempt.children_committed = 4).ended().await;
        let Outcome::Waiting(RequestedWait { on_failure, state }) = ended.outcome else {
            panic!("{:?}", ended.outcome)
        };
        assert_eq!(on_failure, OnFailure::Continue);
        assert_eq!(state.map(|saved| (saved.schema, saved.bytes)), Some((1, Bytes::from_static(b"\"begun\""))));
        assert_eq!(ended.uncommitted.children.iter().map(|child| child.ordinal).collect::<Vec<_>>(), [4, 5, 6]);
    }
}

#[tokio::test]
async fn a_job_without_children_may_wait() {
    let ended = start(&trespasser().await, &waits(0, "wait"), |_| {}).ended().await;
    assert!(matches!(ended.outcome, Outcome::Waiting(_)), "{:?}", ended.outcome);
    assert!(ended.uncommitted.children.is_empty());
}

#[tokio::test]
async fn a_failure_or_a_trap_after_a_wait_cancels_the_wait() {
    let guest = trespasser().await;
    for (then, expected) in [("fail", "failed after all"), ("trap", "trapped after all")] {
        let ended = start(&guest, &waits(2, then), |_| {}).ended().await;
        assert!(matches!(ended.outcome, Outcome::Failed { .. }), "{:?}", ended.outcome);
        assert_contains(error(&ended), expected);
        assert!(ended.uncommitted.children.is_empty(), "they were not committed");
    }
}

#[tokio::test]
async fn a_state_that_is_too_large_is_refused_and_nothing_waits() {
    let ended =
        start(&trespasser().await, &waits(1, "wait"), |attempt| attempt.limits.checkpoint_bytes = 3).ended().await;
    assert_contains(error(&ended), "the state has 7 bytes, and a checkpoint may have 3");
}

#[tokio::test]
async fn a_joined_attempt_reads_its_children_page_by_page() {
    let host = Arc::new(Recorder::default());
    *host.family.lock().expect("no panic") = (0..250).map(|n| child(n, "7")).collect();
    // Too large for its page, so it is read separately.
    host.family.lock().expect("no panic")[120] = ChildRead { result: None, result_bytes: 3, ..child(120, "") };
    host.family.lock().expect("no panic")[200] =
        ChildRead { state: State::Dead, result: None, error: Some("boom".to_owned()), ..child(200, "") };
    let counts = Tally { total: 250, completed: 249, dead: 1, ..Tally::default() };
    let running = start_with(&trespasser().await, &waits(9, "wait"), Arc::clone(&host), |attempt| {
        attempt.joined = Some(counts);
        attempt.children_committed = 250;
    });
    let ended = running.ended().await;
    // 248 times 7, once 777, and one that is dead.
    let result = Bytes::from_static(b"\"250 joined, 2513 in all, boom\"");
    assert_eq!(ended.outcome, Outcome::Completed { result });
    assert!(ended.uncommitted.children.is_empty());
    let pages = host.pages.lock().expect("no panic").clone();
    assert_eq!(pages, [100; 3], "a page has at most 100, whatever the guest asks for");
}

#[tokio::test]
async fn unreadable_children_are_an_error_for_the_guest_and_a_superseded_attempt_ends() {
    let joined = Some(Tally::default());
    let read = async |why: HostError| {
        let host = Arc::new(Recorder::default());
        *host.unreadable.lock().expect("no panic") = Some(why);
        let running = start_with(&trespasser().await, &waits(1, "wait"), host, |attempt| attempt.joined = joined);
        running.ended().await
    };
    let ended = read(HostError::Unavailable("a result is damaged".to_owned())).await;
    assert_contains(error(&ended), "the children were not read: a result is damaged");
    assert_eq!(read(HostError::Ended).await.outcome, Outcome::Superseded);
    let reason = "the disk is full".to_owned();
    let ended = read(HostError::Interrupted(reason.clone())).await;
    assert_eq!(ended.outcome, Outcome::Interrupted { reason }, "it does not count as a failure");
}

#[tokio::test]
async fn an_instance_that_is_reused_forgets_the_wait_of_the_attempt_before() {
    let guest = trespasser().await;
    let reuse = Some(windlass_executor::Reuse { times: 5, limit_key: "waits".to_owned() });
    let waited = start(&guest, &waits(1, "complete"), |attempt| attempt.reuse = reuse.clone()).ended().await;
    assert!(matches!(waited.outcome, Outcome::Waiting(_)));
    let next = start(&guest, r#"{"try": "nothing"}"#, |attempt| attempt.reuse = reuse).ended().await;
    assert!(matches!(next.outcome, Outcome::Completed { .. }), "{:?}", next.outcome);
}
