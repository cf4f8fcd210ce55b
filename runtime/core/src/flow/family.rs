//! Children, counted for their parent, and a parent that waits for them.
//!
//! A parent of a million children is these few numbers: its children's ids come from their ordinals, so there is no list.

use serde::{Deserialize, Serialize};

use crate::State;
use crate::flow::OnFailure;

/// The children of one job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Family {
    pub total: u64,
    /// Those that have not ended.
    pub open: u64,
    pub completed: u64,
    pub dead: u64,
    pub cancelled: u64,
    /// Children whose records are still there. When they and the parent are gone, so are these numbers.
    pub kept_by: u64,
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
    /// All have ended: the parent goes on.
    Join,
    /// One has failed, and the parent with it.
    Fail,
    /// One has failed: the others are not wanted any more.
    CancelRest,
}

impl Family {
    /// A child has moved. `None` is not being there: before it was enqueued, or after it was removed.
    pub fn moved(&mut self, was: Option<State>, is: Option<State>) {
        match was {
            None => {
                self.total += 1;
                self.kept_by += 1;
                self.open += 1;
            }
            Some(state) if state.is_ended() => {
                let ended = self.ended(state);
                *ended = ended.saturating_sub(1);
                self.open += 1;
            }
            Some(_) => {}
        }
        let ended = match (is, was) {
            (Some(state), _) => state.is_ended().then_some(state),
            (None, Some(state)) if state.is_ended() => Some(state),
            (None, _) => Some(State::Cancelled),
        };
        if let Some(state) = ended {
            self.open = self.open.saturating_sub(1);
            *self.ended(state) += 1;
        }
        if is.is_none() {
            self.kept_by = self.kept_by.saturating_sub(1);
        }
    }

    fn ended(&mut self, state: State) -> &mut u64 {
        match state {
            State::Completed => &mut self.completed,
            State::Dead => &mut self.dead,
            _ => &mut self.cancelled,
        }
    }

    fn failures(&self) -> u64 {
        self.dead + self.cancelled
    }

    /// Failures that the parent has not seen yet.
    pub fn new_failures(&self) -> u64 {
        self.failures().saturating_sub(self.seen)
    }

    /// Called once all that a commit changes is known.
    pub fn verdict(&mut self) -> Verdict {
        let Some(policy) = self.waiting else { return Verdict::Wait };
        let failed = self.new_failures() > 0;
        match policy {
            OnFailure::Fail if failed => Verdict::Fail,
            _ if self.open == 0 => {
                self.seen = self.failures();
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
            let mut family = Family { total: 5, open, dead, waiting, ..Family::default() };
            assert_eq!(family.verdict(), expected, "{family:?}");
        }
    }

    #[test]
    fn the_rest_are_cancelled_once_and_old_failures_do_not_count_again() {
        let mut family = Family { open: 1, dead: 1, waiting: Some(OnFailure::Cancel), ..Family::default() };
        assert_eq!(family.verdict(), Verdict::CancelRest);
        assert_eq!(family.verdict(), Verdict::Wait);
        family.moved(Some(State::Pending), Some(State::Cancelled));
        assert_eq!(family.verdict(), Verdict::Join);
        family.moved(None, Some(State::Pending));
        family.waiting = Some(OnFailure::Fail);
        assert_eq!(family.verdict(), Verdict::Wait);
    }
}
