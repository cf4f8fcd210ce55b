//! What a guest can hand over, or make the host do, in one call.

use std::sync::Arc;
use std::time::Duration;

use windlass_executor::Ended;

use crate::support::{assert_says, compiled, error, hostile, neighbour_is_well, start};

const GIB: usize = 1 << 30;

/// Runs a guest of the gallery beside its neighbour, with so much memory and little time.
async fn ends(guest: &str, memory_bytes: usize) -> Ended {
    let guest = compiled(hostile(guest)).await;
    let running = start(&guest, "{}", |attempt| {
        attempt.limits.memory_bytes = memory_bytes;
        attempt.limits.cpu_time = Some(Duration::from_secs(20));
    });
    neighbour_is_well().await;
    running.ended().await
}

#[tokio::test]
async fn a_gigabyte_in_one_call_is_refused_before_it_is_copied() {
    for guest in ["checkpoint-gigabyte", "result-gigabyte", "string-gigabyte", "list-gigabyte"] {
        let ended = ends(guest, 2 * GIB).await;
        assert_says(error(&ended), "the handler handed over too much at once: 34603008 bytes is the most for one call");
        assert!(ended.usage.cpu_ms < 10_000, "{guest}: {:?}", ended.usage);
    }
}

#[tokio::test]
async fn a_guest_cannot_have_a_gigabyte_in_the_first_place() {
    let ended = ends("checkpoint-gigabyte", GIB / 4).await;
    assert_says(error(&ended), "the handler ran out of memory: an attempt may use 268435456 bytes");
}

#[tokio::test]
async fn addresses_outside_a_guests_memory_are_a_trap() {
    for (guest, expected) in [("string-outside", "out of bounds"), ("bad-pointers", "beyond end of memory")] {
        let ended = ends(guest, GIB / 4).await;
        assert_says(error(&ended), expected);
    }
}

#[tokio::test]
async fn recursion_below_a_call_of_the_host_overflows_the_guests_stack_and_not_ours() {
    assert_says(error(&ends("deep-call", GIB / 4).await), "its stack overflowed");
}

#[tokio::test]
async fn the_host_cannot_be_called_back_while_it_hands_something_over() {
    assert_says(error(&ends("call-from-realloc", GIB / 4).await), "cannot leave component instance");
}

#[tokio::test]
async fn more_random_bytes_than_the_limit_are_refused() {
    assert_says(error(&ends("random-gigabytes", GIB / 4).await), "the handler could not go on");
}

#[tokio::test]
async fn a_guest_holds_only_so_many_timers() {
    assert_says(error(&ends("timer-bomb", GIB / 4).await), "resource table");
}

#[tokio::test]
async fn cheap_calls_for_ever_end_with_the_processor_time() {
    for guest in ["random-flood", "progress-flood"] {
        let guest = compiled(hostile(guest)).await;
        let running = start(&guest, "{}", |attempt| attempt.limits.cpu_time = Some(Duration::from_millis(50)));
        let host = Arc::clone(&running.host);
        neighbour_is_well().await;
        let ended = running.ended().await;
        assert_eq!(error(&ended), "the handler used up its processor time of 50ms");
        assert!(ended.usage.host_calls > 100, "calls of WASI count, too: {:?}", ended.usage);
        assert!(host.progress.lock().expect("no panic").len() as u64 <= ended.usage.host_calls);
    }
}
