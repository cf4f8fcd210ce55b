//! How fast an attempt may write checkpoints, in bytes. A guest that does nothing but save would otherwise take the disk from all
//! other jobs.

use std::time::{Duration, Instant};

use crate::limits::{SAVED_AT_ONCE, SAVED_PER_SECOND};

/// A budget that is refilled with time. A burst is allowed first, so that a guest that saves little never waits.
#[derive(Debug)]
pub(crate) struct CheckpointRate {
    /// When the bytes saved so far would have been written at the allowed rate.
    even_at: Instant,
}

impl CheckpointRate {
    pub(crate) fn begin(now: Instant) -> Self {
        CheckpointRate { even_at: now }
    }

    /// Charges these bytes, and returns how long to wait before saving them.
    pub(crate) fn take(&mut self, bytes: usize, now: Instant) -> Duration {
        self.even_at = self.even_at.max(now);
        let ahead = self.even_at.saturating_duration_since(now);
        self.even_at += span(bytes);
        ahead.saturating_sub(span(SAVED_AT_ONCE))
    }
}

/// How long these bytes take at the allowed rate.
fn span(bytes: usize) -> Duration {
    Duration::from_secs_f64(bytes as f64 / SAVED_PER_SECOND as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_that_saves_little_never_waits_and_one_that_saves_much_is_limited() {
        let now = Instant::now();
        let mut rate = CheckpointRate::begin(now);
        assert_eq!(rate.take(SAVED_AT_ONCE, now), Duration::ZERO);
        assert_eq!(rate.take(SAVED_PER_SECOND, now), Duration::ZERO);
        assert_eq!(rate.take(1, now), Duration::from_secs(1));
        // The budget is refilled with time.
        let later = now + Duration::from_secs(3600);
        assert_eq!(rate.take(SAVED_AT_ONCE, later), Duration::ZERO);
    }
}
