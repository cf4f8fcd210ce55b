//! In which order jobs are found, and where in it a page ended.

use serde::{Deserialize, Serialize};
use windlass_core::{Job, JobId, Time};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sort {
    #[default]
    CreatedAt,
    StartedAt,
    CompletedAt,
    /// The most urgent is the highest.
    Priority,
    Attempt,
    /// When it is due: of scheduled and retrying jobs.
    ScheduledAt,
    FailedAt,
    UpdatedAt,
    ExpireAt,
    /// When it came into its state.
    Since,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    Asc,
    #[default]
    Desc,
}

/// A job's place in an order: smaller comes earlier, whichever the direction. Jobs of the same value follow by their
/// creation, and those without a value come last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SortKey {
    without: bool,
    value: u64,
    birth: u128,
    id: u128,
}

impl SortKey {
    pub fn of(job: &Job, sort: Sort, order: Order) -> SortKey {
        let value = match sort {
            Sort::CreatedAt => Some(0),
            Sort::StartedAt => job.started_at.map(Time::millis),
            Sort::CompletedAt => job.completed_at.map(Time::millis),
            Sort::Priority => Some(u64::from(u8::MAX - job.priority.rank())),
            Sort::Attempt => Some(u64::from(job.attempt)),
            Sort::ScheduledAt => job.scheduled_at.map(Time::millis),
            Sort::FailedAt => job.failed_at.map(Time::millis),
            Sort::UpdatedAt => Some(job.updated_at.millis()),
            Sort::ExpireAt => job.expire_at.map(Time::millis),
            Sort::Since => Some(job.since.millis()),
        };
        // Creation first, then what is random in the id: the same order in which the indexes lie.
        let random = job.id.0 & ((1 << 80) - 1);
        let birth = u128::from(job.created_at.millis()) << 80 | random;
        match order {
            Order::Asc => SortKey { without: value.is_none(), value: value.unwrap_or(0), birth, id: job.id.0 },
            Order::Desc => {
                SortKey { without: value.is_none(), value: !value.unwrap_or(0), birth: !birth, id: !job.id.0 }
            }
        }
    }

    pub fn job(&self, order: Order) -> JobId {
        match order {
            Order::Asc => JobId(self.id),
            Order::Desc => JobId(!self.id),
        }
    }

    /// The birth of the job, as indexes hold it.
    pub(crate) fn birth(&self, order: Order) -> [u8; 16] {
        match order {
            Order::Asc => self.birth.to_be_bytes(),
            Order::Desc => (!self.birth).to_be_bytes(),
        }
    }

    /// The time it stands at in an order by time, latest first.
    pub(crate) fn latest(&self, sort: Sort) -> Option<Time> {
        match sort {
            _ if self.without => None,
            Sort::CreatedAt => Some(Time((!self.birth >> 80) as u64)),
            Sort::StartedAt | Sort::CompletedAt | Sort::FailedAt | Sort::Since => Some(Time(!self.value)),
            // These may be later than the moment at which the job came into its state, or are no times.
            Sort::Priority | Sort::Attempt | Sort::ScheduledAt | Sort::UpdatedAt | Sort::ExpireAt => None,
        }
    }
}

/// Where a page ended. It holds for the order it was made in, and carries the total along, so that later pages need not
/// count again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    pub sort: Sort,
    pub order: Order,
    pub place: SortKey,
    pub total: u64,
}

impl Cursor {
    /// As clients carry it: opaque to them.
    pub fn to_text(&self) -> String {
        let bytes = postcard::to_stdvec(self).expect("a cursor holds nothing that postcard cannot write");
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub fn from_text(text: &str) -> Option<Cursor> {
        if text.len() > 256 || !text.is_ascii() {
            return None;
        }
        let pairs = text.as_bytes().chunks(2);
        let bytes: Option<Vec<u8>> =
            pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect();
        postcard::from_bytes(&bytes?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_survives_its_text_form_and_garbage_is_refused() {
        let place = SortKey { without: false, value: 7, birth: 8, id: !9 };
        let cursor = Cursor { sort: Sort::Attempt, order: Order::Desc, place, total: 1_000_000 };
        assert_eq!(Cursor::from_text(&cursor.to_text()), Some(cursor));
        assert_eq!(place.job(Order::Desc), JobId(9));
        for wrong in ["", "zz", "0", "00", &"ff".repeat(200), "é"] {
            assert_eq!(Cursor::from_text(wrong), None, "{wrong:?}");
        }
    }
}
