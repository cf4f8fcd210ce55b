//! How fast attempts may write to the disk, in bytes: each attempt, and all attempts of a plugin together.
//!
//! A guest that does nothing but save, spawn or log would otherwise take the disk from all other jobs. What goes to the disk with a
//! checkpoint is charged before it is saved, and the rest when the guest has returned: then the attempt keeps its slot a little longer.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use windlass_core::Notes;

use crate::host::Children;
use crate::limits::{CHILD_COST, NOTE_COST, OF_ATTEMPT, OF_PLUGIN};
use crate::plugin::Plugin;

/// Bytes per second, and the burst before that applies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    pub(crate) per_second: usize,
    pub(crate) at_once: usize,
}

/// A budget that is refilled with time. A burst is allowed first, so that a guest that saves little never waits.
#[derive(Debug)]
struct Budget {
    rate: Rate,
    /// When what has been written so far would have been written at the allowed rate.
    even_at: Instant,
}

impl Budget {
    fn begin(rate: Rate, now: Instant) -> Self {
        Budget { rate, even_at: now }
    }

    /// Charges these bytes, and returns how long to wait before they are written.
    fn take(&mut self, bytes: usize, now: Instant) -> Duration {
        self.even_at = self.even_at.max(now);
        let ahead = self.even_at.saturating_duration_since(now);
        self.even_at += self.span(bytes);
        ahead.saturating_sub(self.span(self.rate.at_once))
    }

    /// How long these bytes take at the allowed rate.
    fn span(&self, bytes: usize) -> Duration {
        Duration::from_secs_f64(bytes as f64 / self.rate.per_second as f64)
    }
}

/// What all attempts of a plugin share.
#[derive(Debug)]
pub(crate) struct PluginBudget(Mutex<Budget>);

impl PluginBudget {
    pub(crate) fn begin(now: Instant) -> Self {
        PluginBudget(Mutex::new(Budget::begin(OF_PLUGIN, now)))
    }

    fn take(&self, bytes: usize, now: Instant) -> Duration {
        // A panic cannot leave half a moment.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take(bytes, now)
    }
}

/// The budgets that one attempt is charged to.
pub(crate) struct DiskRate {
    own: Budget,
    plugin: Plugin,
    /// How much of the log has been charged.
    log: u64,
}

impl DiskRate {
    pub(crate) fn begin(plugin: Plugin, now: Instant) -> Self {
        DiskRate { own: Budget::begin(OF_ATTEMPT, now), plugin, log: 0 }
    }

    /// Charges a checkpoint or a result of so many bytes, what is committed with it, and what the log has grown by. Returns how long to
    /// wait.
    pub(crate) fn take(&mut self, body: usize, children: &Children, notes: &Notes, log: u64, now: Instant) -> Duration {
        let logged = usize::try_from(log.saturating_sub(self.log)).unwrap_or(usize::MAX);
        self.log = log;
        let bytes =
            body.saturating_add(logged).saturating_add(children_cost(children)).saturating_add(notes_cost(notes));
        if bytes == 0 {
            return Duration::ZERO;
        }
        self.own.take(bytes, now).max(self.plugin.disk().take(bytes, now))
    }
}

/// A child is far more on the disk than its payload: its record, its place in line, and where searches find it.
fn children_cost(children: &Children) -> usize {
    children.bytes().saturating_add(children.count().saturating_mul(CHILD_COST))
}

fn notes_cost(notes: &Notes) -> usize {
    notes.weight().saturating_add((notes.records.len() + notes.marks.len()).saturating_mul(NOTE_COST))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { per_second: 1_000, at_once: 4_000 };

    #[test]
    fn a_guest_that_saves_little_never_waits_and_one_that_saves_much_is_limited() {
        let now = Instant::now();
        let mut budget = Budget::begin(RATE, now);
        assert_eq!(budget.take(RATE.at_once, now), Duration::ZERO);
        assert_eq!(budget.take(RATE.per_second, now), Duration::ZERO);
        assert_eq!(budget.take(1, now), Duration::from_secs(1));
        // The budget is refilled with time.
        let later = now + Duration::from_secs(3600);
        assert_eq!(budget.take(RATE.at_once, later), Duration::ZERO);
    }

    #[test]
    fn what_one_attempt_of_a_plugin_leaves_owing_the_next_one_waits_for() {
        let now = Instant::now();
        let all = PluginBudget(Mutex::new(Budget::begin(RATE, now)));
        assert_eq!(all.take(RATE.at_once + 3 * RATE.per_second, now), Duration::ZERO);
        assert_eq!(all.take(1, now), Duration::from_secs(3));
        assert_eq!(all.take(1, now + Duration::from_secs(4)), Duration::ZERO);
    }
}
