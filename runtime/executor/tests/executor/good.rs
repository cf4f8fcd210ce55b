//! A well-behaved handler: the demo plugin, end to end inside the executor.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use windlass_core::{Progress, Retry};
use windlass_executor::{HostError, Outcome, Stream};

use crate::support::{Recorder, assert_contains, built, compiled, error, start, start_with};

fn result(outcome: &Outcome) -> Value {
    match outcome {
        Outcome::Completed { result } => serde_json::from_slice(result).expect("JSON"),
        other => panic!("it did not complete: {other:?}"),
    }
}

const STEPS: &str = r#"{"generate_mb": 1, "seed": 7, "step_kb": 256}"#;

#[tokio::test]
async fn a_handler_runs_and_its_progress_checkpoints_and_usage_are_reported() {
    let digest = compiled(built("digest")).await;
    let running = start(&digest, STEPS, |_| {});
    let host = Arc::clone(&running.host);
    let ended = running.ended().await;

    let result = result(&ended.outcome);
    assert_eq!(result["steps"], 4);
    assert_eq!(result["attempts"], json!([{"attempt": 1, "first_step": 1, "last_step": 4}]));

    let progress = host.progress.lock().expect("no panic").clone();
    assert_eq!(progress.len(), 4);
    assert_eq!(progress[3].phase.as_deref(), Some("hash"));
    let Progress { current, total, unit, weight, percent, .. } = &progress[3];
    assert_eq!((*current, *total, unit.as_deref()), (Some(1 << 20), Some(1 << 20), Some("bytes")));
    assert_eq!((*weight, *percent), (None, None));
    assert_eq!(host.saves(), 4);

    assert!(ended.usage.wall_ms >= ended.usage.cpu_ms / 2, "{:?}", ended.usage);
    assert!(ended.usage.peak_memory > 1 << 20);
    assert!(ended.usage.host_calls >= 12);
}

#[tokio::test]
async fn the_next_attempt_continues_from_the_last_checkpoint() {
    let digest = compiled(built("digest")).await;
    let whole = result(&start(&digest, STEPS, |_| {}).ended().await.outcome);

    // Answers are taken from the end: two checkpoints are stored, the third is not.
    let host = Arc::new(Recorder::default());
    host.answers.lock().expect("no panic").extend([
        Err(HostError::Unavailable("the disk is full".to_owned())),
        Ok(()),
        Ok(()),
    ]);
    let ended = start_with(&digest, STEPS, Arc::clone(&host), |_| {}).ended().await;
    assert_contains(error(&ended), "the disk is full");
    assert!(matches!(ended.outcome, Outcome::Failed { retry: Retry::Backoff, .. }));

    let saved = host.checkpoints.lock().expect("no panic").last().map(|(checkpoint, _)| checkpoint.clone());
    let running = start(&digest, STEPS, |attempt| {
        attempt.attempt = 2;
        attempt.checkpoint = saved;
    });
    let host = Arc::clone(&running.host);
    let resumed = result(&running.ended().await.outcome);
    assert_eq!(resumed["sha256"], whole["sha256"]);
    assert_eq!(
        resumed["attempts"],
        json!([{"attempt": 1, "first_step": 1, "last_step": 2}, {"attempt": 2, "first_step": 3, "last_step": 4}])
    );
    let log = host.log.lock().expect("no panic").clone();
    assert_eq!((log[0].stream, log[0].message.as_str()), (Stream::Stdout, "going on after step 2 of 4"));
}

#[tokio::test]
async fn a_superseded_attempt_ends_at_its_next_checkpoint() {
    let digest = compiled(built("digest")).await;
    let host = Arc::new(Recorder::default());
    host.answers.lock().expect("no panic").push(Err(HostError::Ended));
    let ended = start_with(&digest, STEPS, Arc::clone(&host), |_| {}).ended().await;
    assert_eq!(ended.outcome, Outcome::Superseded);
    assert_eq!(host.progress.lock().expect("no panic").len(), 1, "it ended at its first checkpoint");
}

#[tokio::test]
async fn a_host_that_fails_at_a_checkpoint_ends_the_attempt_without_an_error_for_the_handler() {
    let digest = compiled(built("digest")).await;
    let host = Arc::new(Recorder::default());
    let reason = "the store cannot write: no space left on device".to_owned();
    host.answers.lock().expect("no panic").push(Err(HostError::Interrupted(reason.clone())));
    let ended = start_with(&digest, STEPS, Arc::clone(&host), |_| {}).ended().await;
    assert_eq!(ended.outcome, Outcome::Interrupted { reason });
    assert!(ended.usage.host_calls > 0, "its usage is reported");
}

#[tokio::test]
async fn a_failure_states_whether_to_retry() {
    let digest = compiled(built("digest")).await;
    let ended = start(&digest, "{}", |_| {}).ended().await;
    assert_eq!(
        ended.outcome,
        Outcome::Failed {
            error: "nothing to hash: give `text` or `generate_mb`".to_owned(),
            backtrace: None,
            retry: Retry::Never
        }
    );
    let ended = start(&digest, "not json", |_| {}).ended().await;
    assert_contains(error(&ended), "the payload is not what this handler takes");
}

#[tokio::test]
async fn unicode_and_large_payloads_pass() {
    let digest = compiled(built("digest")).await;
    let text = "zwölf Boxkämpfer 🥊\n".repeat(200_000);
    let ended = start(&digest, &json!({ "text": text }).to_string(), |_| {}).ended().await;
    assert_eq!(result(&ended.outcome)["lines"], 200_000);
    assert_eq!(result(&ended.outcome)["bytes"], text.len());
}

#[tokio::test]
async fn many_attempts_share_a_pool_that_is_smaller_than_their_number() {
    let digest = compiled(built("digest")).await;
    let running: Vec<_> = (0..200).map(|_| start(&digest, r#"{"text": "a b"}"#, |_| {})).collect();
    for running in running {
        assert_eq!(result(&running.ended().await.outcome)["words"], 2);
    }
}

#[tokio::test]
async fn a_plugin_knows_its_digest_size_and_imports() {
    let bytes = built("digest");
    let digest = compiled(Bytes::clone(&bytes)).await;
    assert_eq!(digest.digest().len(), 64);
    assert_eq!(digest.size(), bytes.len());
    let imports = digest.imports().join(" ");
    assert_contains(&imports, "windlass:job/checkpoint@0.1.0");
    assert_contains(&imports, "wasi:cli/stdout@");
}
