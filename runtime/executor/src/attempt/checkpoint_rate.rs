//! How fast an attempt may fill the disk: its checkpoints, by their bytes. A guest that does nothing but save would otherwise take the
//! disk from everybody else.

use std::time::{Duration, Instant};

use crate::limits::{SAVED_AT_ONCE, SAVED_PER_SECOND};

/// A budget that is refilled with time. The first ones are free of it, so that whoever saves a little never waits.
#[derive(Debug)]
pub(crate) struct Pace {
    /// When all that was saved would have been, at the allowed speed.
    even_at: Instant,
}

impl Pace {
    pub(crate) fn begin(now: Instant) -> Self {
        Pace { even_at: now }
    }

    /// How long to wait before so many bytes are saved. They count from now on.
    pub(crate) fn take(&mut self, bytes: usize, now: Instant) -> Duration {
        self.even_at = self.even_at.max(now);
        let ahead = self.even_at.saturating_duration_since(now);
        self.even_at += span(bytes);
        ahead.saturating_sub(span(SAVED_AT_ONCE))
    }
}

/// What so many bytes take at the allowed speed.
fn span(bytes: usize) -> Duration {
    Duration::from_secs_f64(bytes as f64 / SAVED_PER_SECOND as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_saves_little_never_waits_and_whoever_saves_much_is_held_to_the_speed() {
        let now = Instant::now();
        let mut pace = Pace::begin(now);
        assert_eq!(pace.take(SAVED_AT_ONCE, now), Duration::ZERO);
        assert_eq!(pace.take(SAVED_PER_SECOND, now), Duration::ZERO);
        assert_eq!(pace.take(1, now), Duration::from_secs(1));
        // What was saved is forgotten when time has made up for it.
        let later = now + Duration::from_secs(3600);
        assert_eq!(pace.take(SAVED_AT_ONCE, later), Duration::ZERO);
    }
}
