//! Waiting for a condition, with a deadline.

use std::thread;
use std::time::{Duration, Instant};

/// Far longer than anything takes, so that only a bug reaches it.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Polls until there is a value, and fails the test at the deadline.
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
