//! Cancellation and timeouts: by request first, and then by force, whatever the guest is doing.

use std::sync::Arc;
use std::time::Duration;

use windlass_executor::{CancelReason, Outcome};

use crate::support::{assert_contains, built, compiled, error, hostile, neighbour_still_runs, start};

const LONG: &str = r#"{"generate_mb": 4096, "step_kb": 64, "pause_ms": 1}"#;

#[tokio::test]
async fn a_handler_that_checks_for_cancellation_stops_by_itself() {
    let digest = compiled(built("digest")).await;
    for reason in [CancelReason::User, CancelReason::Shutdown, CancelReason::Swap] {
        let running = start(&digest, LONG, |_| {});
        let host = Arc::clone(&running.host);
        host.until(|host| host.saves() >= 2).await;
        running.stop(reason, Duration::from_secs(60));
        let ended = running.ended().await;
        assert!(matches!(ended.outcome, Outcome::Stopped { reason: found, cooperative: true, .. } if found == reason));
        assert_contains(error(&ended), "stopped on request");
        assert!(ended.uncommitted.children.is_empty());
    }
}

#[tokio::test]
async fn a_timeout_asks_first() {
    let digest = compiled(built("digest")).await;
    let ended =
        start(&digest, LONG, |attempt| attempt.limits.attempt_timeout = Some(Duration::from_millis(50))).ended().await;
    assert!(matches!(ended.outcome, Outcome::Stopped { reason: CancelReason::Timeout, cooperative: true, .. }));
}

async fn is_stopped_by_force(guest: &str) {
    let guest = compiled(hostile(guest)).await;
    let running = start(&guest, "{}", |_| {});
    neighbour_still_runs().await;
    running.stop(CancelReason::User, Duration::from_millis(20));
    let ended = running.ended().await;
    assert!(matches!(ended.outcome, Outcome::Stopped { reason: CancelReason::User, cooperative: false, .. }));
    assert_contains(error(&ended), "the job was cancelled");
    neighbour_still_runs().await;
}

#[tokio::test]
async fn a_computing_guest_is_stopped_by_force() {
    is_stopped_by_force("endless-loop").await;
}

#[tokio::test]
async fn a_sleeping_guest_is_stopped_by_force() {
    is_stopped_by_force("sleep-forever").await;
}

#[tokio::test]
async fn a_guest_in_an_endless_loop_of_host_calls_is_stopped_by_force() {
    is_stopped_by_force("log-flood").await;
}

#[tokio::test]
async fn a_guest_that_stalls_is_stopped() {
    for guest in ["endless-loop", "sleep-forever"] {
        let guest = compiled(hostile(guest)).await;
        let running = start(&guest, "{}", |attempt| attempt.limits.stall_timeout = Some(Duration::from_millis(50)));
        neighbour_still_runs().await;
        let ended = running.ended().await;
        assert!(matches!(ended.outcome, Outcome::Stopped { reason: CancelReason::Timeout, cooperative: false, .. }));
        assert_contains(error(&ended), "no progress, checkpoint or log for 50ms");
    }
}

#[tokio::test]
async fn a_guest_that_computes_longer_than_its_timeout_is_stopped() {
    let guest = compiled(hostile("endless-loop")).await;
    let running = start(&guest, "{}", |attempt| attempt.limits.attempt_timeout = Some(Duration::from_millis(20)));
    neighbour_still_runs().await;
    let ended = running.ended().await;
    assert!(matches!(ended.outcome, Outcome::Stopped { reason: CancelReason::Timeout, cooperative: false, .. }));
    assert_contains(error(&ended), "longer than its timeout of 20ms");
}

#[tokio::test]
async fn an_attempt_that_was_cancelled_before_it_started_never_runs() {
    let guest = compiled(hostile("endless-loop")).await;
    let running = start(&guest, "{}", |attempt| {
        let (_, cancel) =
            tokio::sync::watch::channel(Some(windlass_executor::Cancel::within(CancelReason::User, Duration::ZERO)));
        attempt.cancel = cancel;
    });
    let ended = running.ended().await;
    assert!(matches!(ended.outcome, Outcome::Stopped { reason: CancelReason::User, .. }));
}
