//! The child with whose failure its parent fails: which it was, and what the parent's error says of it.

use crate::{Job, JobId, QueueName, State, bounds};

/// A child that has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedChild {
    pub id: JobId,
    pub how: HowFailed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HowFailed {
    Dead {
        queue: QueueName,
        error: String,
    },
    Cancelled {
        queue: QueueName,
        reason: String,
    },
    /// It was removed before it had ended.
    Removed,
}

/// Deaths that say nothing more than the last error does.
const BY_ERROR: [&str; 2] = ["retries used up", "failed for good"];

impl FailedChild {
    /// None when it has not failed.
    pub fn of(job: &Job) -> Option<FailedChild> {
        let queue = job.queue.clone();
        let reason = job.timeline.steps.last().map(|step| step.reason.to_string()).unwrap_or_default();
        let how = match job.state {
            State::Dead => {
                let own = job.last_error.clone().filter(|_| BY_ERROR.contains(&&*reason));
                HowFailed::Dead { queue, error: own.unwrap_or(reason) }
            }
            State::Cancelled => HowFailed::Cancelled { queue, reason },
            State::Scheduled
            | State::Pending
            | State::Active
            | State::Retrying
            | State::Held
            | State::Blocked
            | State::Completed => return None,
        };
        Some(FailedChild { id: job.id, how })
    }

    /// What a removed child means to its parent: as it was before, it had failed, or had not ended.
    pub fn removed(job: &Job) -> Option<FailedChild> {
        if job.is_ended() { FailedChild::of(job) } else { Some(FailedChild { id: job.id, how: HowFailed::Removed }) }
    }
}

/// Room for the child's own error; the rest is for its id and the number of the others.
const ERROR_BYTES: usize = bounds::REASON_BYTES - 300;

/// The error of a parent that fails with its children: one of them, if it is known which, and how many more have
/// failed.
pub fn blame(child: Option<&FailedChild>, more: u64) -> String {
    let Some(FailedChild { id, how }) = child else {
        return match more {
            0 => "a child failed or was removed, and is not among the latest children".to_owned(),
            more => format!("{} children failed or were removed, and are not among the latest children", more + 1),
        };
    };
    let text = |text: &str| crate::decide::bounded(text.to_owned(), ERROR_BYTES);
    let first = match how {
        HowFailed::Dead { queue, error } => format!("child {id} (queue {queue}) failed: {}", text(error)),
        HowFailed::Cancelled { queue, reason } => {
            format!("child {id} (queue {queue}) was cancelled: {}", text(reason))
        }
        HowFailed::Removed => format!("child {id} was removed before it had ended"),
    };
    match more {
        0 => first,
        1 => format!("{first}; 1 more child failed"),
        more => format!("{first}; {more} more children failed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parents_error_names_the_child_its_error_and_how_many_more() {
        let id = JobId(7);
        let queue = || "resize".parse().expect("a name");
        let dead = HowFailed::Dead { queue: queue(), error: "connection refused".into() };
        let cancelled = HowFailed::Cancelled { queue: queue(), reason: "not wanted".into() };
        let cases = [
            (Some(dead.clone()), 0, format!("child {id} (queue resize) failed: connection refused")),
            (
                Some(dead.clone()),
                1,
                format!("child {id} (queue resize) failed: connection refused; 1 more child failed"),
            ),
            (Some(dead), 3, format!("child {id} (queue resize) failed: connection refused; 3 more children failed")),
            (Some(cancelled), 0, format!("child {id} (queue resize) was cancelled: not wanted")),
            (Some(HowFailed::Removed), 0, format!("child {id} was removed before it had ended")),
            (None, 0, "a child failed or was removed, and is not among the latest children".to_owned()),
            (None, 2, "3 children failed or were removed, and are not among the latest children".to_owned()),
        ];
        for (how, more, expected) in cases {
            let child = how.map(|how| FailedChild { id, how });
            assert_eq!(blame(child.as_ref(), more), expected);
        }
    }

    #[test]
    fn a_long_error_leaves_room_for_the_number_of_the_others() {
        let how = HowFailed::Dead { queue: "q".repeat(128).parse().expect("a name"), error: "é".repeat(100_000) };
        let text = blame(Some(&FailedChild { id: JobId(7), how }), u64::MAX - 1);
        assert!(text.len() <= bounds::REASON_BYTES && text.ends_with("more children failed"), "{} bytes", text.len());
    }
}
