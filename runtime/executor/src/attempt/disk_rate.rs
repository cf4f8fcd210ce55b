//! How fast attempts may write to the disk, in bytes: each attempt, and all attempts of a plugin together.
//!
//! A guest that does nothing but save, spawn or log would otherwise take the disk from all other jobs. What goes to the
//! disk with a checkpoint is charged before it is saved, and the rest when the guest has returned: then the attempt
//! keeps its slot a little longer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use windlass_core::Notes;

use crate::host::Children;
use crate::limits::{CHILD_COST, DISK_BUDGETS, NOTE_COST, OF_ATTEMPT, OF_PLUGIN};

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

    /// Whether all that was written would have been written by now at the allowed rate: then it is as good as a new
    /// one.
    fn is_even(&self, now: Instant) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).even_at <= now
    }
}

/// The budgets of the plugins that write, by owner. Not kept with the compiled code, which two plugins may have in
/// common. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct DiskBudgets(Arc<Mutex<HashMap<Arc<str>, Arc<PluginBudget>>>>);

impl DiskBudgets {
    pub(crate) fn of(&self, owner: &Arc<str>, now: Instant) -> Arc<PluginBudget> {
        let mut budgets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if budgets.len() >= DISK_BUDGETS && !budgets.contains_key(owner) {
            budgets.retain(|_, budget| Arc::strong_count(budget) > 1 || !budget.is_even(now));
        }
        Arc::clone(budgets.entry(Arc::clone(owner)).or_insert_with(|| Arc::new(PluginBudget::begin(now))))
    }
}

/// The budgets that one attempt is charged to.
pub(crate) struct DiskRate {
    own: Budget,
    plugin: Arc<PluginBudget>,
    /// How much of the log has been charged.
    log: u64,
}

impl DiskRate {
    pub(crate) fn begin(plugin: Arc<PluginBudget>, now: Instant) -> Self {
        DiskRate { own: Budget::begin(OF_ATTEMPT, now), plugin, log: 0 }
    }

    /// Charges a checkpoint or a result of so many bytes, what is committed with it, and what the log has grown by.
    /// Returns how long to wait.
    pub(crate) fn take(&mut self, body: usize, children: &Children, notes: &Notes, log: u64, now: Instant) -> Duration {
        let logged = usize::try_from(log.saturating_sub(self.log)).unwrap_or(usize::MAX);
        self.log = log;
        let bytes =
            body.saturating_add(logged).saturating_add(children_cost(children)).saturating_add(notes_cost(notes));
        if bytes == 0 {
            return Duration::ZERO;
        }
        self.own.take(bytes, now).max(self.plugin.take(bytes, now))
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

    #[test]
    fn a_plugin_keeps_its_budget_while_it_owes_and_no_other_plugin_is_charged_to_it() {
        let now = Instant::now();
        let budgets = DiskBudgets::default();
        let (acme, globex) = (Arc::from("acme|mail"), Arc::from("globex|mail"));
        let much = OF_PLUGIN.at_once + 3 * OF_PLUGIN.per_second;
        assert_eq!(budgets.of(&acme, now).take(much, now), Duration::ZERO);
        for other in 0..2 * DISK_BUDGETS {
            budgets.of(&Arc::from(other.to_string()), now);
        }
        assert!(budgets.0.lock().expect("no panic").len() <= DISK_BUDGETS + 1);
        assert_eq!(budgets.of(&acme, now).take(1, now), Duration::from_secs(3));
        assert_eq!(budgets.of(&globex, now).take(1, now), Duration::ZERO);
    }
}
