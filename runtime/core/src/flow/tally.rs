//! How many jobs of a group have ended, and how: the same few numbers for a batch, a job's children and a round.

use serde::{Deserialize, Serialize};

use crate::State;

/// Counts of the jobs of one group. They follow the moves of the jobs, which may be older than the group, so they stop
/// at zero and never wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    pub total: u64,
    /// Jobs that have not ended: scheduled, retrying, held and blocked ones too.
    pub open: u64,
    pub completed: u64,
    pub dead: u64,
    pub cancelled: u64,
    /// Jobs that are still stored. The group is removed after the last of them.
    pub references: u64,
}

impl Tally {
    /// A job of the group has moved. `None` means not stored: before it was enqueued, or after it was removed.
    pub fn moved(&mut self, was: Option<State>, is: Option<State>) {
        match was {
            None => {
                self.total += 1;
                self.references += 1;
                self.open += 1;
            }
            Some(state) => {
                if let Some(count) = self.ended(state) {
                    decrement(count);
                    self.open += 1;
                }
            }
        }
        let now = match (is, was) {
            (Some(state), _) => state,
            (None, Some(state)) if state.is_ended() => state,
            // Removed before it ended: it will never run, as if it had been cancelled.
            (None, _) => State::Cancelled,
        };
        if let Some(count) = self.ended(now) {
            *count += 1;
            decrement(&mut self.open);
        }
        if is.is_none() {
            self.release();
        }
    }

    /// A job has left the group as if it had never been in it: it moved to another queue, or will be created again.
    pub fn left(&mut self, was: State) {
        decrement(&mut self.total);
        match self.ended(was) {
            Some(count) => decrement(count),
            None => decrement(&mut self.open),
        }
        self.release();
    }

    /// A job that is not counted itself keeps the group stored.
    pub fn keep(&mut self) {
        self.references += 1;
    }

    /// A job that kept the group stored has been removed.
    pub fn release(&mut self) {
        decrement(&mut self.references);
    }

    /// Jobs that ended in another way than completed.
    pub fn failures(&self) -> u64 {
        self.dead + self.cancelled
    }

    /// How many of a hundred have ended.
    pub fn percent(&self) -> f64 {
        if self.total == 0 { 100.0 } else { 100.0 * self.total.saturating_sub(self.open) as f64 / self.total as f64 }
    }

    /// The count of jobs that have ended in this state; none of a state in which a job has not ended.
    fn ended(&mut self, state: State) -> Option<&mut u64> {
        match state {
            State::Completed => Some(&mut self.completed),
            State::Dead => Some(&mut self.dead),
            State::Cancelled => Some(&mut self.cancelled),
            State::Scheduled | State::Pending | State::Active | State::Retrying | State::Held | State::Blocked => None,
        }
    }
}

fn decrement(count: &mut u64) {
    *count = count.saturating_sub(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(tally: &Tally) -> [u64; 6] {
        [tally.total, tally.open, tally.completed, tally.dead, tally.cancelled, tally.references]
    }

    #[test]
    fn the_numbers_follow_the_moves_of_the_jobs() {
        let moves = [
            (None, Some(State::Pending), [1, 1, 0, 0, 0, 1]),
            (Some(State::Pending), Some(State::Active), [1, 1, 0, 0, 0, 1]),
            (Some(State::Active), Some(State::Dead), [1, 0, 0, 1, 0, 1]),
            // Retried: it counts again.
            (Some(State::Dead), Some(State::Pending), [1, 1, 0, 0, 0, 1]),
            (Some(State::Active), Some(State::Completed), [1, 0, 1, 0, 0, 1]),
            (None, Some(State::Cancelled), [2, 0, 1, 0, 1, 2]),
            (None, Some(State::Scheduled), [3, 1, 1, 0, 1, 3]),
            // Removed before its end, and after it.
            (Some(State::Scheduled), None, [3, 0, 1, 0, 2, 2]),
            (Some(State::Completed), None, [3, 0, 1, 0, 2, 1]),
        ];
        let mut tally = Tally::default();
        for (was, is, expected) in moves {
            tally.moved(was, is);
            assert_eq!(numbers(&tally), expected, "after {was:?} to {is:?}");
        }
        assert_eq!(tally.failures(), 2);
    }

    #[test]
    fn a_job_that_leaves_is_taken_out_of_the_number_it_was_in() {
        let full = Tally { total: 8, open: 2, completed: 2, dead: 2, cancelled: 2, references: 8 };
        let cases = [
            (State::Blocked, [7, 1, 2, 2, 2, 7]),
            (State::Completed, [7, 2, 1, 2, 2, 7]),
            (State::Dead, [7, 2, 2, 1, 2, 7]),
            (State::Cancelled, [7, 2, 2, 2, 1, 7]),
        ];
        for (was, expected) in cases {
            let mut tally = full;
            tally.left(was);
            assert_eq!(numbers(&tally), expected, "{was:?}");
        }
    }

    #[test]
    fn no_number_goes_below_zero() {
        let mut tally = Tally::default();
        tally.release();
        tally.left(State::Dead);
        tally.left(State::Pending);
        tally.moved(Some(State::Pending), Some(State::Completed));
        assert_eq!(numbers(&tally), [0, 0, 1, 0, 0, 0]);
        tally.moved(Some(State::Dead), None);
        assert_eq!(numbers(&tally), [0, 0, 1, 1, 0, 0]);
    }

    #[test]
    fn a_job_outside_the_numbers_keeps_the_group() {
        let mut tally = Tally::default();
        tally.keep();
        assert_eq!(numbers(&tally), [0, 0, 0, 0, 0, 1]);
        tally.release();
        assert_eq!(tally, Tally::default());
    }

    #[test]
    fn the_percentage_counts_all_that_have_ended() {
        let cases = [(0, 0, 100.0), (4, 4, 0.0), (4, 1, 75.0), (4, 0, 100.0), (1, 2, 0.0)];
        for (total, open, expected) in cases {
            let percent = Tally { total, open, ..Tally::default() }.percent();
            assert!((percent - expected).abs() < 1e-9, "{open} open of {total}: {percent}");
        }
    }
}
