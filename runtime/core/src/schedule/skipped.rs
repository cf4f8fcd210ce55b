//! Runs of a schedule that did not take place, and why.

use core::fmt;

use serde::{Deserialize, Deserializer, Serialize};

use crate::{JobId, Time, bounds};

/// All runs of a schedule that were skipped: how many, and the latest of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedRuns {
    pub total: u64,
    /// Oldest first, at most [`bounds::SKIPPED_RUNS`].
    pub latest: Vec<Skipped>,
}

/// Runs that were skipped one after the other for the same reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    pub first: Time,
    pub last: Time,
    pub count: u64,
    pub reason: SkipReason,
}

/// Why a run did not take place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SkipReason {
    /// The job of an earlier run had not ended, and `overlap` is `skip`.
    Overlap {
        job: JobId,
    },
    Paused,
    /// Its time passed while the server was down or busy, and `catch_up` does not want it.
    Missed,
    /// A job that has not ended has the unique key.
    UniqueKey {
        job: JobId,
    },
    Refused {
        why: String,
    },
}

impl SkippedRuns {
    /// Notes runs that did not take place. `last_run` is the latest that did: runs on both sides of it are not counted
    /// as one.
    pub(super) fn note(&mut self, skipped: Skipped, last_run: Option<Time>) {
        self.total = self.total.saturating_add(skipped.count);
        let before = self.latest.last_mut();
        match before.filter(|one| one.reason == skipped.reason && last_run.is_none_or(|run| run < one.first)) {
            Some(one) => {
                one.last = skipped.last;
                one.count = one.count.saturating_add(skipped.count);
            }
            None => self.latest.push(skipped),
        }
        if self.latest.len() > bounds::SKIPPED_RUNS {
            self.latest.remove(0);
        }
    }

    /// Schedules that were stored before skipped runs were recorded end where these would begin, and have none.
    pub(super) fn or_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SkippedRuns, D::Error> {
        Ok(SkippedRuns::deserialize(deserializer).unwrap_or_default())
    }
}

impl SkipReason {
    /// The reason as one word, for programs.
    pub fn as_str(&self) -> &'static str {
        match self {
            SkipReason::Overlap { .. } => "overlap",
            SkipReason::Paused => "paused",
            SkipReason::Missed => "missed",
            SkipReason::UniqueKey { .. } => "unique_key",
            SkipReason::Refused { .. } => "refused",
        }
    }

    /// The job that stood in the way.
    pub fn job(&self) -> Option<JobId> {
        match self {
            SkipReason::Overlap { job } | SkipReason::UniqueKey { job } => Some(*job),
            SkipReason::Paused | SkipReason::Missed | SkipReason::Refused { .. } => None,
        }
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SkipReason::Overlap { job } => write!(f, "the job of an earlier run, {job}, had not ended"),
            SkipReason::Paused => f.write_str("the schedule was paused"),
            SkipReason::Missed => f.write_str("the server was down or late at that time"),
            SkipReason::UniqueKey { job } => write!(f, "{job} has the unique key"),
            SkipReason::Refused { why } => write!(f, "its job was refused: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(at: u64, reason: SkipReason) -> Skipped {
        Skipped { first: Time(at), last: Time(at), count: 1, reason }
    }

    #[test]
    fn runs_skipped_in_a_row_for_one_reason_are_one_entry() {
        let mut runs = SkippedRuns::default();
        (1..=3).for_each(|at| runs.note(one(at, SkipReason::Paused), None));
        assert_eq!(runs.latest, [Skipped { first: Time(1), last: Time(3), count: 3, reason: SkipReason::Paused }]);
        // After a run, or for another reason, it is another entry.
        runs.note(one(5, SkipReason::Paused), Some(Time(4)));
        runs.note(one(6, SkipReason::Missed), Some(Time(4)));
        assert_eq!(runs.latest.iter().map(|one| one.count).collect::<Vec<_>>(), [3, 1, 1]);
        assert_eq!(runs.total, 5);
    }

    #[test]
    fn only_the_latest_are_kept_and_all_are_counted() {
        let mut runs = SkippedRuns::default();
        let many = bounds::SKIPPED_RUNS as u64 + 5;
        (0..many).for_each(|at| runs.note(one(at * 10, SkipReason::Missed), Some(Time(at * 10))));
        assert_eq!((runs.latest.len(), runs.total), (bounds::SKIPPED_RUNS, many));
        assert_eq!(runs.latest.last().map(|one| one.first), Some(Time((many - 1) * 10)));
    }
}
