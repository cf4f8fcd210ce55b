//! What a guest can pass to the host, or make it do, in one call.

use std::sync::Arc;
use std::time::Duration;

use windlass_executor::AttemptEnd;

use crate::support::{assert_contains, compiled, error, hostile, neighbour_still_runs, start};

const GIB: usize = 1 << 30;

/// Runs a hostile guest next to a well-behaved one, with this much memory and little time.
async fn ends(guest: &str, memory_bytes: usize) -> AttemptEnd {
    let guest = compiled(hostile(guest)).await;
    let running = start(&guest, "{}", |attempt| {
        attempt.limits.memory_bytes = memory_bytes;
        attempt.limits.cpu_time = Some(Duration::from_secs(20));
    });
    neighbour_still_runs().await;
    running.ended().await
}

#[tokio::test]
async fn a_gigabyte_in_one_call_is_refused_before_it_is_copied() {
    for guest in ["checkpoint-gigabyte", "result-gigabyte", "string-gigabyte", "list-gigabyte"] {
        let ended = ends(guest, 2 * GIB).await;
        assert_contains(
            error(&ended),
            "the handler passed too many bytes in one call: the limit is 34603008; pass less at a time",
        );
        assert!(ended.usage.cpu_ms < 10_000, "{guest}: {:?}", ended.usage);
    }
}

#[tokio::test]
async fn a_guest_cannot_have_a_gigabyte_in_the_first_place() {
    let ended = ends("checkpoint-gigabyte", GIB / 4).await;
    assert_contains(error(&ended), "the handler ran out of memory: an attempt may use 268435456 bytes");
}

#[tokio::test]
async fn addresses_outside_a_guests_memory_are_a_trap() {
    for (guest, expected) in [("string-outside", "out of bounds"), ("bad-pointers", "beyond end of memory")] {
        let ended = ends(guest, GIB / 4).await;
        assert_contains(error(&ended), expected);
    }
}

#[tokio::test]
async fn recursion_below_a_call_of_the_host_overflows_the_guests_stack_and_not_ours() {
    assert_contains(error(&ends("deep-call", GIB / 4).await), "its stack overflowed");
}

#[tokio::test]
async fn the_host_cannot_be_called_while_it_passes_a_value_to_the_guest() {
    assert_contains(error(&ends("call-from-realloc", GIB / 4).await), "cannot leave component instance");
}

#[tokio::test]
async fn more_random_bytes_than_the_limit_are_refused() {
    assert_contains(error(&ends("random-gigabytes", GIB / 4).await), "the handler could not continue");
}

#[tokio::test]
async fn the_timers_of_a_guest_are_limited() {
    assert_contains(error(&ends("timer-bomb", GIB / 4).await), "resource table");
}

#[tokio::test]
async fn endless_cheap_calls_end_with_the_processor_time() {
    for guest in ["random-flood", "progress-flood"] {
        let guest = compiled(hostile(guest)).await;
        let running = start(&guest, "{}", |attempt| attempt.limits.cpu_time = Some(Duration::from_millis(50)));
        let host = Arc::clone(&running.host);
        neighbour_still_runs().await;
        let ended = running.ended().await;
        assert_eq!(error(&ended), "the handler used up its processor time of 50ms");
        assert!(ended.usage.host_calls > 100, "calls of WASI count as well: {:?}", ended.usage);
        assert!(host.progress.lock().expect("no panic").len() as u64 <= ended.usage.host_calls);
    }
}
