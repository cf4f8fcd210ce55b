//! Addresses that events are sent to: what one may contain, and how far its deliveries have come.

use serde::{Deserialize, Serialize};

use crate::{EventKind, Refusal, Time, bounds};

/// An address that receives events. The server delivers; the store remembers how far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Webhook {
    /// `hook_` and what the server made up.
    pub id: String,
    pub url: String,
    /// Kinds of events by their names, or `*` for all.
    pub events: Vec<String>,
    /// What deliveries are signed with, encrypted by the server: only it can decrypt it.
    pub encrypted_secret: Option<Vec<u8>>,
    pub enabled: bool,
    /// How often a delivery that failed is tried again before it is given up.
    pub retry_limit: u32,
    pub created_at: Time,
    /// The last event that was dealt with.
    pub told: u64,
    pub delivered: u64,
    /// Deliveries given up.
    pub failed: u64,
    pub last_error: Option<String>,
}

impl Webhook {
    /// Whether it wants events of this kind.
    pub fn wants(&self, kind: &EventKind) -> bool {
        self.events.iter().any(|word| word == "*" || word == kind.as_str())
    }

    pub fn check(&self) -> Result<(), Refusal> {
        if self.url.len() > bounds::URL_BYTES {
            return Err(Refusal::invalid("url", format!("at most {} bytes", bounds::URL_BYTES)));
        }
        if self.events.is_empty() {
            return Err(Refusal::invalid("events", "name at least one kind of event, or \"*\" for all"));
        }
        for word in &self.events {
            if word != "*" && !EventKind::WORDS.contains(&word.as_str()) {
                let known = EventKind::WORDS.join(", ");
                return Err(Refusal::invalid("events", format!("{word:?} is not one of *, {known}")));
            }
        }
        if self.retry_limit > bounds::WEBHOOK_RETRIES {
            return Err(Refusal::invalid("retry_limit", format!("at most {}", bounds::WEBHOOK_RETRIES)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hook(events: &[&str]) -> Webhook {
        Webhook {
            id: "hook_1".into(),
            url: "https://example.com/".into(),
            events: events.iter().map(|word| (*word).to_owned()).collect(),
            encrypted_secret: None,
            enabled: true,
            retry_limit: 3,
            created_at: Time::ZERO,
            told: 0,
            delivered: 0,
            failed: 0,
            last_error: None,
        }
    }

    #[test]
    fn a_hook_hears_what_it_names_and_nothing_else() {
        let done = EventKind::Completed { attempt: 1 };
        assert!(hook(&["*"]).wants(&done) && hook(&["dead", "completed"]).wants(&done));
        assert!(!hook(&["dead"]).wants(&done));
    }

    #[test]
    fn a_hook_that_could_never_be_told_is_refused() {
        assert!(hook(&["*"]).check().is_ok());
        assert!(hook(&[]).check().is_err());
        assert!(hook(&["finished"]).check().is_err());
        assert!(Webhook { retry_limit: 1_000, ..hook(&["*"]) }.check().is_err());
    }
}
