//! Guests that trap: each failure has a plain message, and a backtrace.

use windlass_core::Retry;
use windlass_executor::Outcome;

use crate::support::{compiled, error, hostile, neighbour_still_runs, start};

async fn fails_with(guest: &str, expected: &str) -> String {
    let guest = compiled(hostile(guest)).await;
    let running = start(&guest, "{}", |_| {});
    neighbour_still_runs().await;
    let ended = running.ended().await;
    assert_eq!(error(&ended), expected);
    match ended.outcome {
        Outcome::Failed { backtrace, retry: Retry::Backoff, .. } => backtrace.unwrap_or_default(),
        other => panic!("a trap must be retried: {other:?}"),
    }
}

#[tokio::test]
async fn a_trap_names_the_functions_it_came_through() {
    let backtrace = fails_with("trap", "the handler trapped: wasm trap: integer divide by zero").await;
    for function in ["divide", "share_the_bill", "run"] {
        assert!(backtrace.contains(function), "{function} is not in {backtrace}");
    }
}

#[tokio::test]
async fn a_panic_is_reported_with_its_message() {
    fails_with("panic", "the handler panicked: at src/lib.rs:12:5:\nno such customer: 42").await;
}

#[tokio::test]
async fn a_stack_overflow_is_reported_as_one() {
    fails_with("stack-overflow", "the handler trapped: its stack overflowed").await;
}
