//! Memory, processor time, log, checkpoint and result: each has a limit, and an error that states it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::json;
use windlass_core::Retry;
use windlass_executor::{Child, Outcome, Uncommitted};

use crate::support::{assert_contains, built, compiled, error, hostile, neighbour_still_runs, start};

const MIB: usize = 1 << 20;

async fn runs_out_of_memory(guest: &str) {
    let guest = compiled(hostile(guest)).await;
    let running = start(&guest, "{}", |attempt| attempt.limits.memory_bytes = 8 * MIB);
    neighbour_still_runs().await;
    let ended = running.ended().await;
    assert_eq!(error(&ended), "the handler ran out of memory: an attempt may use 8388608 bytes");
    assert!(matches!(ended.outcome, Outcome::Failed { retry: Retry::Backoff, .. }));
    assert!(ended.usage.peak_memory <= 8 * MIB as u64, "{:?}", ended.usage);
    assert!(ended.usage.peak_memory > 6 * MIB as u64, "{:?}", ended.usage);
}

#[tokio::test]
async fn a_memory_bomb_gets_no_more_than_its_limit() {
    runs_out_of_memory("memory-bomb").await;
}

#[tokio::test]
async fn several_memories_get_no_more_than_one() {
    runs_out_of_memory("memory-bomb-many").await;
}

#[tokio::test]
async fn a_table_bomb_gets_no_more_than_its_limit() {
    let guest = compiled(hostile("table-bomb")).await;
    let running = start(&guest, "{}", |attempt| attempt.limits.memory_bytes = MIB / 2);
    neighbour_still_runs().await;
    let ended = running.ended().await;
    assert_eq!(error(&ended), "the handler ran out of memory: an attempt may use 524288 bytes");
    assert!(ended.usage.peak_memory <= MIB as u64 / 2, "{:?}", ended.usage);
}

#[tokio::test]
async fn a_guest_that_starts_larger_than_its_limit_fails_with_the_limit() {
    let guest = compiled(hostile("giant-result")).await;
    let running = start(&guest, "{}", |attempt| attempt.limits.memory_bytes = 8 * MIB);
    neighbour_still_runs().await;
    let ended = running.ended().await;
    assert_contains(error(&ended), "the handler ran out of memory: an attempt may use 8388608 bytes");
}

#[tokio::test]
async fn processor_time_is_limited() {
    let guest = compiled(hostile("endless-loop")).await;
    let running = start(&guest, "{}", |attempt| attempt.limits.cpu_time = Some(Duration::from_millis(30)));
    neighbour_still_runs().await;
    let ended = running.ended().await;
    assert_eq!(error(&ended), "the handler used up its processor time of 30ms");
    assert!(ended.usage.cpu_ms >= 30);
}

#[tokio::test]
async fn a_log_is_cut_at_its_limit_and_the_guest_continues() {
    let guest = compiled(hostile("log-flood")).await;
    let running = start(&guest, "{}", |attempt| {
        attempt.limits.log_bytes = 1_000;
        attempt.limits.cpu_time = Some(Duration::from_millis(50));
    });
    neighbour_still_runs().await;
    let host = Arc::clone(&running.host);
    let ended = running.ended().await;
    assert_eq!(error(&ended), "the handler used up its processor time of 50ms");
    let texts = host.texts();
    assert_eq!(texts.len(), 24, "23 lines of 43 bytes, and the mark");
    assert_eq!(texts[23], "the log is cut here: an attempt may write 1000 bytes");
    assert_eq!(ended.usage.log_bytes, 23 * 43);
}

#[tokio::test]
async fn a_checkpoint_that_is_too_large_is_refused_with_the_limit() {
    let guest = compiled(hostile("giant-checkpoint")).await;
    let running = start(&guest, "{}", |_| {});
    neighbour_still_runs().await;
    let host = Arc::clone(&running.host);
    let Outcome::Completed { result } = running.ended().await.outcome else { panic!("it did not complete") };
    assert_eq!((result[0], result[8]), (1, 0), "an error, too-large");
    assert_eq!(result[16..24], (16 * MIB as u64).to_le_bytes());
    assert_eq!(host.saves(), 0);
}

#[tokio::test]
async fn a_result_that_is_too_large_is_an_error() {
    let guest = compiled(hostile("giant-result")).await;
    let running = start(&guest, "{}", |_| {});
    neighbour_still_runs().await;
    let ended = running.ended().await;
    assert_eq!(
        error(&ended),
        "the handler passed too many bytes in one call: the limit is 34603008; pass less at a time"
    );

    let small = compiled(hostile("noop")).await;
    let ended = start(&small, "{}", |attempt| attempt.limits.result_bytes = 3).ended().await;
    assert_eq!(error(&ended), "the result has 4 bytes, and the limit is 3");
    let ended = start(&small, "{}", |attempt| attempt.limits.result_bytes = 4).ended().await;
    assert_eq!(ended.outcome, Outcome::Completed { result: Bytes::from_static(b"null") });
}

/// Lets the plugin `hostile` write as much as it can for a while, beside a neighbour. Returns what it has committed,
/// and how long it took.
async fn filled(with: &str) -> (Vec<(usize, Uncommitted)>, Duration) {
    let guest = compiled(built("hostile")).await;
    let began = Instant::now();
    let running = start(&guest, &json!({"try": "fill", "with": with, "ms": 1_500}).to_string(), |_| {});
    neighbour_still_runs().await;
    let host = Arc::clone(&running.host);
    let ended = running.ended().await;
    assert!(matches!(ended.outcome, Outcome::Completed { .. } | Outcome::Failed { .. }), "{:?}", ended.outcome);
    let saved = host.checkpoints.lock().expect("no panic");
    (saved.iter().map(|(state, rest)| (state.bytes.len(), rest.clone())).collect(), began.elapsed())
}

/// What an attempt may write in so much time.
fn allowance(time: Duration) -> usize {
    32 * MIB + (time.as_secs_f64() * 8.0 * MIB as f64) as usize
}

#[tokio::test]
async fn what_goes_to_the_disk_with_a_checkpoint_is_charged_to_the_pace_children_and_records_too() {
    let (saved, time) = filled("children").await;
    let children: usize = saved.iter().map(|(_, rest)| rest.children.len()).sum();
    let (least, last) = (4 << 10, 1_000);
    assert!(children > last, "it may spawn: {children}");
    assert!(children <= allowance(time) / least + last, "{children} children in {time:?}");

    let (saved, time) = filled("checkpoints").await;
    let bytes: usize = saved.iter().map(|(bytes, _)| bytes).sum();
    assert!(bytes <= allowance(time) + (4 << 20), "{bytes} bytes in {time:?}");

    let (saved, time) = filled("records").await;
    let bytes: usize = saved.iter().map(|(_, rest)| rest.notes.weight()).sum();
    assert!(bytes <= allowance(time) + MIB, "{bytes} bytes in {time:?}");
}

#[tokio::test]
async fn all_attempts_of_a_plugin_together_are_held_to_one_pace() {
    const ATTEMPTS: usize = 24;
    let guest = compiled(built("hostile")).await;
    let began = Instant::now();
    let payload = json!({"try": "fill", "with": "checkpoints", "ms": 1_000}).to_string();
    let running: Vec<_> = (0..ATTEMPTS).map(|_| start(&guest, &payload, |_| {})).collect();
    neighbour_still_runs().await;
    let mut bytes = 0;
    for running in running {
        let host = Arc::clone(&running.host);
        running.ended().await;
        bytes += host.checkpoints.lock().expect("no panic").iter().map(|(state, _)| state.bytes.len()).sum::<usize>();
    }
    // Each may save one more than it is allowed to.
    let most = 256 * MIB + (began.elapsed().as_secs_f64() * 64.0 * MIB as f64) as usize + ATTEMPTS * (4 << 20);
    assert!(bytes <= most, "{bytes} bytes, and {most} are allowed");
}

#[tokio::test]
async fn children_are_committed_with_the_checkpoint_or_the_result_and_are_limited() {
    let guest = compiled(hostile("spawn-bomb")).await;
    let running = start(&guest, "{}", |attempt| {
        attempt.children_committed = 5;
        attempt.limits.children = 10;
    });
    neighbour_still_runs().await;
    let host = Arc::clone(&running.host);
    let ended = running.ended().await;
    assert_eq!(ended.outcome, Outcome::Completed { result: Bytes::new() });

    let ordinals = |children: &[Child]| children.iter().map(|child| child.ordinal).collect::<Vec<_>>();
    let saved = host.checkpoints.lock().expect("no panic")[0].1.children.clone();
    assert_eq!(ordinals(&saved), [5, 6]);
    assert_eq!((saved[0].queue.as_str(), &saved[0].payload[..]), ("more", &b"more"[..]));
    assert_eq!(ordinals(&ended.uncommitted.children), (7..17).collect::<Vec<_>>());
}
