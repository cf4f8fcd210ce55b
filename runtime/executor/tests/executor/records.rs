//! Records and marks: what a guest stores for other handlers, and what it may read of theirs.

use std::sync::Arc;

use bytes::Bytes;
use windlass_core::{JobId, Notes, Record, Time};
use windlass_executor::Outcome;

use crate::support::{Recorder, assert_contains, error, start, start_with, trespasser};

/// Puts a record, reads one of another queue, and marks the latter.
fn records(queue: &str, then: &str) -> String {
    format!(r#"{{"try": "record", "key": "a/b", "queue": "{queue}", "then": "{then}"}}"#)
}

fn host_with(queue: &str) -> Arc<Recorder> {
    let host = Arc::new(Recorder::default());
    let record = Record {
        queue: queue.parse().expect("a name"),
        key: "a/b".to_owned(),
        value: b"\"theirs\"".to_vec(),
        mark: Some("old".to_owned()),
        job: JobId::new(Time::default(), 7),
        updated_at: Time::default(),
    };
    host.records.lock().expect("no panic").insert((queue.to_owned(), "a/b".to_owned()), record);
    host
}

#[tokio::test]
async fn records_are_committed_with_the_result_and_those_of_other_queues_can_be_read() {
    let host = host_with("other");
    let running = start_with(&trespasser().await, &records("other", "complete"), host, |attempt| {
        attempt.permissions.queues = vec!["tests".to_owned(), "other".to_owned()];
        attempt.round = Some(7);
    });
    let ended = running.ended().await;
    let result = Bytes::from_static(b"\"round 7: theirs, old\"");
    assert_eq!(ended.outcome, Outcome::Completed { result });
    let notes = ended.uncommitted.notes;
    assert_eq!(notes.records.iter().map(|record| record.key.as_str()).collect::<Vec<_>>(), ["a/b"]);
    assert_eq!(notes.records[0].value, b"\"ours\"");
    let marks: Vec<_> = notes.marks.iter().map(|mark| (mark.queue.as_str(), mark.mark.as_deref())).collect();
    assert_eq!(marks, [("other", Some("seen"))]);
}

#[tokio::test]
async fn records_and_marks_are_committed_with_a_checkpoint_and_only_once() {
    let host = host_with("tests");
    let running = start_with(&trespasser().await, &records("tests", "save"), Arc::clone(&host), |attempt| {
        attempt.permissions.queues = vec!["tests".to_owned()];
    });
    let ended = running.ended().await;
    assert!(matches!(ended.outcome, Outcome::Completed { .. }), "{:?}", ended.outcome);
    assert!(ended.uncommitted.notes == Notes::default(), "they were committed with the checkpoint");
    let saved = host.checkpoints.lock().expect("no panic");
    assert_eq!((saved[0].1.notes.records.len(), saved[0].1.notes.marks.len()), (1, 1));
}

#[tokio::test]
async fn an_attempt_that_fails_stores_no_records() {
    let running = start_with(&trespasser().await, &records("tests", "fail"), host_with("tests"), |attempt| {
        attempt.permissions.queues = vec!["tests".to_owned()];
    });
    let ended = running.ended().await;
    assert_contains(error(&ended), "failed after all");
    assert!(ended.uncommitted.notes == Notes::default());
}

#[tokio::test]
async fn records_of_a_foreign_queue_are_denied_unless_a_gate_ties_it() {
    let guest = trespasser().await;
    let ended = start(&guest, &records("secret", "complete"), |_| {}).ended().await;
    assert_contains(error(&ended), "may not read or mark records of the queue `secret`");
    assert_contains(error(&ended), "windlass queue set QUEUE --gate secret:1");

    let host = host_with("tied");
    host.tied.lock().expect("no panic").push("tied".to_owned());
    let ended = start_with(&guest, &records("tied", "complete"), host, |_| {}).ended().await;
    let result = Bytes::from_static(b"\"no round: theirs, old\"");
    assert_eq!(ended.outcome, Outcome::Completed { result });
}

#[tokio::test]
async fn a_flood_of_records_is_refused_with_an_explanation() {
    let ended = start(&trespasser().await, r#"{"try": "record_flood"}"#, |_| {}).ended().await;
    assert_contains(error(&ended), "more than 256 records wait for a checkpoint; save one in between");
}
