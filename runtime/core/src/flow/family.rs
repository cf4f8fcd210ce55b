//! Children, counted for their parent, and a parent that waits for them.
//!
//! A parent of a million children is these few numbers: its children's ids come from their ordinals, so there is no
//! list.

use serde::{Deserialize, Serialize};

use crate::flow::{OnFailure, Tally};

/// The children of one job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Family {
    /// When the parent and all children are removed, so are these numbers.
    pub tally: Tally,
    /// The parent waits for all of them; what becomes of it when one fails.
    pub waiting: Option<OnFailure>,
    /// Failures that the parent has seen: it was run again after them.
    pub seen: u64,
    /// The rest have been cancelled for the sake of one that failed.
    pub cut: bool,
}

/// What the children's numbers mean for a parent that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Wait,
    /// All have ended: the parent runs again.
    Join,
    /// One has failed, and the parent with it.
    Fail,
    /// One has failed: the others are not wanted any more.
    CancelRest,
}

impl Family {
    /// Failures that the parent has not seen yet.
    pub fn new_failures(&self) -> u64 {
        self.tally.failures().saturating_sub(self.seen)
    }

    /// Called once all that a commit changes is known.
    pub fn verdict(&mut self) -> Verdict {
        let Some(policy) = self.waiting else { return Verdict::Wait };
        let failed = self.new_failures() > 0;
        match policy {
            OnFailure::Fail if failed => Verdict::Fail,
            _ if self.tally.open == 0 => {
                self.seen = self.tally.failures();
                self.cut = false;
                Verdict::Join
            }
            OnFailure::Cancel if failed && !self.cut => {
                self.cut = true;
                Verdict::CancelRest
            }
            OnFailure::Fail | OnFailure::Cancel | OnFailure::Continue => Verdict::Wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::State;

    #[test]
    fn a_waiting_parent_goes_on_when_all_have_ended_or_as_its_policy_says() {
        use OnFailure::{Cancel, Continue, Fail};
        let cases = [
            (None, 0, 0, Verdict::Wait),
            (Some(Fail), 0, 0, Verdict::Join),
            (Some(Fail), 2, 0, Verdict::Wait),
            (Some(Fail), 2, 1, Verdict::Fail),
            (Some(Continue), 2, 1, Verdict::Wait),
            (Some(Continue), 0, 1, Verdict::Join),
            (Some(Cancel), 2, 1, Verdict::CancelRest),
            (Some(Cancel), 0, 1, Verdict::Join),
        ];
        for (waiting, open, dead, expected) in cases {
            let mut family =
                Family { tally: Tally { total: 5, open, dead, ..Tally::default() }, waiting, ..Family::default() };
            assert_eq!(family.verdict(), expected, "{family:?}");
        }
    }

    #[test]
    fn the_rest_are_cancelled_once_and_old_failures_do_not_count_again() {
        let mut family = Family {
            tally: Tally { open: 1, dead: 1, ..Tally::default() },
            waiting: Some(OnFailure::Cancel),
            ..Family::default()
        };
        assert_eq!(family.verdict(), Verdict::CancelRest);
        assert_eq!(family.verdict(), Verdict::Wait);
        family.tally.moved(Some(State::Pending), Some(State::Cancelled));
        assert_eq!(family.verdict(), Verdict::Join);
        family.tally.moved(None, Some(State::Pending));
        family.waiting = Some(OnFailure::Fail);
        assert_eq!(family.verdict(), Verdict::Wait);
    }
}
