//! Waiting for something to become true, for a while and no longer.

use std::thread;
use std::time::{Duration, Instant};

/// Far longer than anything takes, so that only a fault reaches it.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Asks until there is an answer, and fails the test when none came in time.
#[track_caller]
pub fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(began.elapsed() < DEADLINE, "not within {DEADLINE:?}: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}
