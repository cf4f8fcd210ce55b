//! Webhooks in both directions: addresses that events are sent to, with what was delivered to them, and queues that
//! take signed requests of other services. What one may contain and how it changes; the server signs, sends and
//! verifies.

mod delivery;
mod inbound;
mod secrets;

use serde::{Deserialize, Serialize};

use crate::decide::bounded;
use crate::{Event, EventKind, Namespace, Refusal, Time, bounds};
pub use delivery::{Delivery, DeliveryCause, DeliveryLog};
pub use inbound::{InboundHook, InboundSettings, SignatureScheme};
pub use secrets::{PreviousSecret, SigningSecrets};

/// An address that receives events. The server delivers; the store remembers how far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Webhook {
    /// `hook_` and what the server made up.
    pub id: String,
    pub url: String,
    /// Kinds of events by their names, or `*` for all.
    pub events: Vec<String>,
    /// What deliveries are signed with. One from before secrets were always made may have none.
    pub secrets: SigningSecrets,
    pub enabled: bool,
    /// How often a delivery that failed is tried again before it is given up.
    pub retry_limit: u32,
    pub created_at: Time,
    /// When it was last edited or its secret changed.
    pub updated_at: Time,
    /// Events up to this number have been delivered or given up.
    pub delivered_up_to: u64,
    pub delivered: u64,
    /// Deliveries given up.
    pub failed: u64,
    pub last_error: Option<String>,
    /// Which of its deliveries are stored.
    pub log: DeliveryLog,
    /// Whose events it gets.
    pub namespace: Namespace,
}

/// What may be changed of a webhook; what is absent stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebhookEdit {
    pub url: Option<String>,
    pub events: Option<Vec<String>>,
    pub enabled: Option<bool>,
    pub retry_limit: Option<u32>,
}

impl Webhook {
    /// Whether it wants an event: one of its namespace, of a kind that it names.
    pub fn wants(&self, event: &Event) -> bool {
        let kind = &event.kind;
        event.queue.is_in(&self.namespace) && self.events.iter().any(|word| word == "*" || word == kind.as_str())
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

    /// Events up to this number have been delivered or given up.
    pub fn note_delivered(&mut self, up_to: u64, delivered: u64, failed: u64, last_error: Option<String>) {
        self.delivered_up_to = self.delivered_up_to.max(up_to);
        self.delivered += delivered;
        self.failed += failed;
        self.last_error = last_error.map(|error| bounded(error, bounds::DELIVERY_ERROR_BYTES));
    }

    /// The webhook as it is after the edit. `newest` is the number of the last event: one that is enabled again gets
    /// the events from then on, not those from the time in which nobody wanted them.
    pub fn edited(mut self, edit: WebhookEdit, newest: u64, now: Time) -> Result<Webhook, Refusal> {
        let resumes = edit.enabled == Some(true) && !self.enabled;
        self.url = edit.url.unwrap_or(self.url);
        self.events = edit.events.unwrap_or(self.events);
        self.enabled = edit.enabled.unwrap_or(self.enabled);
        self.retry_limit = edit.retry_limit.unwrap_or(self.retry_limit);
        self.delivered_up_to = if resumes { self.delivered_up_to.max(newest) } else { self.delivered_up_to };
        self.updated_at = now;
        self.check()?;
        Ok(self)
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
            secrets: SigningSecrets::default(),
            enabled: true,
            retry_limit: 3,
            created_at: Time::ZERO,
            updated_at: Time::ZERO,
            delivered_up_to: 7,
            delivered: 0,
            failed: 0,
            last_error: None,
            log: DeliveryLog::default(),
            namespace: Namespace::default(),
        }
    }

    fn event(namespace: &Namespace) -> Event {
        let queue: crate::QueueName = "mail".parse().expect("a name");
        let (kind, queue) = (EventKind::Completed { attempt: 1 }, queue.within(namespace));
        Event { at: Time(1), job: crate::JobId::NONE, queue, scope: None, kind }
    }

    #[test]
    fn a_hook_hears_what_it_names_and_nothing_else() {
        let done = event(&Namespace::default());
        assert!(hook(&["*"]).wants(&done) && hook(&["dead", "completed"]).wants(&done));
        assert!(!hook(&["dead"]).wants(&done));
        let acme: Namespace = "acme".parse().expect("a namespace");
        assert!(!hook(&["*"]).wants(&event(&acme)), "another tenant's");
        assert!(Webhook { namespace: acme.clone(), ..hook(&["*"]) }.wants(&event(&acme)));
    }

    #[test]
    fn a_hook_that_could_never_be_told_is_refused() {
        assert!(hook(&["*"]).check().is_ok());
        assert!(hook(&[]).check().is_err());
        assert!(hook(&["finished"]).check().is_err());
        assert!(Webhook { retry_limit: 1_000, ..hook(&["*"]) }.check().is_err());
    }

    #[test]
    fn an_edit_changes_what_it_names_and_is_checked_as_a_whole() {
        let edit = WebhookEdit { url: Some("https://example.org/".into()), ..WebhookEdit::default() };
        let edited = hook(&["dead"]).edited(edit, 100, Time(5)).expect("a good edit");
        let expected = Webhook { url: "https://example.org/".into(), updated_at: Time(5), ..hook(&["dead"]) };
        assert_eq!(edited, expected);
        let wrong = WebhookEdit { events: Some(vec!["finished".into()]), ..WebhookEdit::default() };
        assert!(hook(&["dead"]).edited(wrong, 100, Time(5)).is_err());
    }

    #[test]
    fn a_hook_that_is_enabled_again_gets_the_events_from_then_on() {
        let edit = |enabled| WebhookEdit { enabled: Some(enabled), ..WebhookEdit::default() };
        let off = hook(&["*"]).edited(edit(false), 50, Time(1)).expect("a good edit");
        assert_eq!((off.enabled, off.delivered_up_to), (false, 7));
        let still = hook(&["*"]).edited(edit(true), 50, Time(1)).expect("a good edit");
        assert_eq!(still.delivered_up_to, 7, "it was enabled, so it misses nothing");
        let on = off.edited(edit(true), 100, Time(2)).expect("a good edit");
        assert_eq!((on.enabled, on.delivered_up_to), (true, 100));
    }
}
