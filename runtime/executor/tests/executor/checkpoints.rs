//! What happens around a checkpoint: traps, a slow disk, a stop.

use std::sync::Arc;
use std::time::Duration;

use windlass_executor::{CancelReason, HostError, Outcome};

use crate::support::{Recorder, assert_contains, compiled, error, hostile, neighbour_still_runs, start_with};

#[tokio::test]
async fn a_trap_while_an_error_is_returned_saves_nothing() {
    let guest = compiled(hostile("trap-in-checkpoint")).await;
    let host = Arc::new(Recorder::default());
    host.answers.lock().expect("no panic").push(Err(HostError::Unavailable("the disk is full".to_owned())));
    let running = start_with(&guest, "{}", Arc::clone(&host), |_| {});
    neighbour_still_runs().await;
    let ended = running.ended().await;
    assert_contains(error(&ended), "it reached code that must not be reached");
    assert_eq!(host.saves(), 0);
    assert!(ended.uncommitted.children.is_empty());
}

#[tokio::test]
async fn a_trap_right_after_a_checkpoint_keeps_it_and_its_children() {
    let guest = compiled(hostile("trap-in-checkpoint")).await;
    let host = Arc::new(Recorder::default());
    let running = start_with(&guest, "{}", Arc::clone(&host), |_| {});
    neighbour_still_runs().await;
    let ended = running.ended().await;
    assert!(matches!(ended.outcome, Outcome::Failed { .. }));
    assert!(ended.uncommitted.children.is_empty(), "they were committed with the checkpoint");
    let saved = host.checkpoints.lock().expect("no panic");
    assert_eq!(saved.iter().map(|(_, uncommitted)| uncommitted.children.len()).collect::<Vec<_>>(), [1]);
}

#[tokio::test]
async fn waiting_for_a_slow_disk_does_not_count_as_a_stall() {
    let guest = compiled(hostile("spawn-bomb")).await;
    let host = Arc::new(Recorder::default());
    *host.disk.lock().expect("no panic") = Duration::from_secs(3);
    let running = start_with(&guest, "{}", Arc::clone(&host), |attempt| {
        attempt.limits.stall_timeout = Some(Duration::from_millis(1_500));
        attempt.limits.children = 3;
    });
    let ended = running.ended().await;
    assert!(matches!(ended.outcome, Outcome::Completed { .. }), "{:?}", ended.outcome);
}

#[tokio::test]
async fn a_guest_that_waits_for_a_disk_that_hangs_is_stopped_by_force() {
    let guest = compiled(hostile("trap-in-checkpoint")).await;
    let host = Arc::new(Recorder::default());
    *host.disk.lock().expect("no panic") = Duration::from_secs(3_600);
    let running = start_with(&guest, "{}", Arc::clone(&host), |_| {});
    neighbour_still_runs().await;
    running.stop(CancelReason::User, Duration::from_millis(20));
    let ended = running.ended().await;
    assert!(matches!(ended.outcome, Outcome::Stopped { reason: CancelReason::User, cooperative: false, .. }));
}
