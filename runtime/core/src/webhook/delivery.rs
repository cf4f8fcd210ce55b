//! What was sent to a webhook and how it went: one entry for each attempt, of which the latest are stored.

use serde::{Deserialize, Serialize};

use crate::decide::bounded;
use crate::{Time, bounds};

/// One attempt to deliver one event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// The `webhook-id` of the request: the same for each attempt to deliver one event.
    pub message_id: String,
    /// The number of the event; a test has none.
    pub seq: Option<u64>,
    /// The type of the event.
    pub kind: String,
    pub cause: DeliveryCause,
    pub at: Time,
    /// From 1 on.
    pub attempt: u32,
    /// The status of the answer, if there was one.
    pub status: Option<u16>,
    pub duration_ms: u64,
    pub error: Option<String>,
    /// When it is tried again; none if it arrived or was given up.
    pub next_attempt_at: Option<Time>,
}

/// Why something was delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeliveryCause {
    /// The event happened.
    Event,
    /// Somebody asked for an event to be delivered again.
    Redelivery,
    /// Somebody asked for a test.
    Test,
}

/// Which deliveries of a webhook are stored: their numbers follow each other without a gap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryLog {
    /// The oldest.
    pub first: u64,
    /// The number of the next one.
    pub next: u64,
}

impl Delivery {
    /// The same with texts within their bounds, so that the entries of a webhook have a bounded size together.
    pub fn bounded(mut self) -> Delivery {
        self.error = self.error.map(|error| bounded(error, bounds::DELIVERY_ERROR_BYTES));
        self
    }

    /// Whether it is too old to be stored.
    pub fn is_past_keeping(&self, now: Time) -> bool {
        now.since(self.at) >= bounds::DELIVERY_AGE
    }
}

impl DeliveryLog {
    /// Adds one, and returns its number.
    pub fn add(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// The number of the oldest, if there are more than are stored.
    pub fn surplus(&self) -> Option<u64> {
        (self.next - self.first > bounds::DELIVERIES).then_some(self.first)
    }

    pub fn numbers(&self) -> core::ops::Range<u64> {
        self.first..self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivery(error: &str) -> Delivery {
        Delivery {
            message_id: "hook_1:7".into(),
            seq: Some(7),
            kind: "completed".into(),
            cause: DeliveryCause::Event,
            at: Time(1_000),
            attempt: 1,
            status: Some(500),
            duration_ms: 12,
            error: Some(error.into()),
            next_attempt_at: None,
        }
    }

    #[test]
    fn a_long_error_is_cut() {
        let cut = delivery(&"é".repeat(bounds::DELIVERY_ERROR_BYTES)).bounded().error.expect("an error");
        assert!((bounds::DELIVERY_ERROR_BYTES..bounds::DELIVERY_ERROR_BYTES + 4).contains(&cut.len()), "{}", cut.len());
        assert_eq!(delivery("short").bounded(), delivery("short"));
    }

    #[test]
    fn a_delivery_is_kept_for_its_time() {
        let end = Time(1_000) + bounds::DELIVERY_AGE;
        assert!(!delivery("").is_past_keeping(Time(end.0 - 1)));
        assert!(delivery("").is_past_keeping(end));
    }

    #[test]
    fn numbers_rise_and_the_oldest_is_surplus_once_there_are_too_many() {
        let mut log = DeliveryLog::default();
        for number in 0..bounds::DELIVERIES {
            assert_eq!((log.surplus(), log.add()), (None, number));
        }
        assert_eq!(log.surplus(), None);
        assert_eq!((log.add(), log.surplus()), (bounds::DELIVERIES, Some(0)));
        log.first += 1;
        assert_eq!((log.surplus(), log.numbers()), (None, 1..bounds::DELIVERIES + 1));
    }
}
