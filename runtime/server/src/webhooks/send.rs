//! One message to one address, once: signed with every secret that is valid, and the answer as an entry of what was
//! delivered.

use std::time::{Duration, Instant};

use tokio::time::timeout;
use windlass_core::{Delivery, DeliveryCause, Time, Webhook};

use crate::limits;
use crate::secrets::{Secrets, Signer};
use crate::webhooks::post::{self, Answer, DeliveryError};
use crate::webhooks::signature::Key;
use crate::webhooks::standard;

/// Where the events of a webhook go, and with which keys they are signed.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub hook: Webhook,
    /// Newest first, each with the time until which it is valid.
    keys: Vec<(Key, Option<Time>)>,
}

/// What is sent.
pub struct Message {
    /// The same for each attempt to deliver it.
    pub id: String,
    /// The number of the event; a test has none.
    pub seq: Option<u64>,
    pub kind: String,
    pub cause: DeliveryCause,
    pub body: String,
}

/// How one attempt ended.
pub struct Sent {
    pub at: Time,
    duration: Duration,
    pub outcome: Result<Answer, DeliveryError>,
}

impl Endpoint {
    /// `None` if a secret was encrypted with another key than the server has.
    pub fn new(hook: Webhook, secrets: &Secrets) -> Option<Endpoint> {
        let decrypted = secrets.signing(&Signer::Webhook(hook.id.clone()), &hook.secrets)?;
        let keys = decrypted.into_iter().map(|secret| (standard::key_of_stored(&secret.text), secret.until));
        Some(Endpoint { keys: keys.collect(), hook })
    }

    /// Whether the other sends elsewhere, something else or otherwise.
    pub fn differs(&self, other: &Endpoint) -> bool {
        let settings = |endpoint: &Endpoint| {
            let hook = &endpoint.hook;
            (hook.url.clone(), hook.events.clone(), hook.retry_limit, hook.secrets.clone())
        };
        settings(self) != settings(other)
    }

    /// Sends a message and waits for the answer.
    pub async fn send(&self, message: &Message, private: bool, now: Time) -> Sent {
        let began = Instant::now();
        let headers = self.headers(message, now);
        let posted = post::post(&self.hook.url, private, headers.into_iter(), message.body.clone());
        let late = || DeliveryError::Perhaps(format!("no answer within {} s", limits::DELIVERY.as_secs()));
        let outcome = timeout(limits::DELIVERY, posted).await.unwrap_or_else(|_| Err(late()));
        Sent { at: now, duration: began.elapsed(), outcome }
    }

    fn headers(&self, message: &Message, now: Time) -> Vec<(&'static str, String)> {
        let mut headers = vec![
            ("content-type", "application/json".to_owned()),
            ("user-agent", concat!("windlass/", env!("CARGO_PKG_VERSION")).to_owned()),
            (standard::ID, message.id.clone()),
            (standard::TIMESTAMP, standard::seconds(now)),
        ];
        let mut valid = self.keys.iter().filter(|(_, until)| until.is_none_or(|until| now < until)).peekable();
        if valid.peek().is_some() {
            let keys = valid.map(|(key, _)| key);
            headers.push((standard::SIGNATURE, standard::sign(keys, &message.id, now, message.body.as_bytes())));
        }
        headers
    }
}

impl Sent {
    /// Why it did not arrive, and whether it may arrive if it is sent again.
    pub fn failure(&self) -> Option<(String, bool)> {
        match &self.outcome {
            Ok(answer) if answer.status.is_success() => None,
            Ok(answer) => Some((format!("{} answered {}", answer.from, answer.status), true)),
            Err(DeliveryError::Perhaps(why)) => Some((why.clone(), true)),
            Err(DeliveryError::Never(why)) => Some((why.clone(), false)),
        }
    }

    /// The entry that is stored.
    pub fn entry(&self, message: &Message, attempt: u32, next_attempt_at: Option<Time>) -> Delivery {
        Delivery {
            message_id: message.id.clone(),
            seq: message.seq,
            kind: message.kind.clone(),
            cause: message.cause,
            at: self.at,
            attempt,
            status: self.outcome.as_ref().ok().map(|answer| answer.status.as_u16()),
            duration_ms: u64::try_from(self.duration.as_millis()).unwrap_or(u64::MAX),
            error: self.failure().map(|(why, _)| why),
            next_attempt_at,
        }
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::{DeliveryLog, SigningSecrets};

    use super::*;

    fn endpoint(keys: Vec<(Key, Option<Time>)>) -> Endpoint {
        let hook = Webhook {
            id: "hook_1".into(),
            url: "https://example.com/".into(),
            events: vec!["*".into()],
            secrets: SigningSecrets::default(),
            enabled: true,
            retry_limit: 3,
            created_at: Time::ZERO,
            updated_at: Time::ZERO,
            delivered_up_to: 0,
            delivered: 0,
            failed: 0,
            last_error: None,
            log: DeliveryLog::default(),
            namespace: Default::default(),
        };
        Endpoint { hook, keys }
    }

    fn signatures(endpoint: &Endpoint, now: Time) -> Option<usize> {
        let (id, kind, body) = ("hook_1:7".to_owned(), "completed".to_owned(), "{}".to_owned());
        let message = Message { id, seq: Some(7), kind, cause: DeliveryCause::Event, body };
        let headers = endpoint.headers(&message, now);
        let value = headers.iter().find(|(name, _)| *name == standard::SIGNATURE).map(|(_, value)| value);
        value.map(|value| value.split(' ').count())
    }

    #[test]
    fn the_previous_secret_signs_until_its_time_is_over() {
        let (new, old) = (Key::new(vec![1; 32]), Key::new(vec![2; 32]));
        let endpoint = endpoint(vec![(new, None), (old, Some(Time(10_000)))]);
        assert_eq!(signatures(&endpoint, Time(9_999)), Some(2));
        assert_eq!(signatures(&endpoint, Time(10_000)), Some(1));
    }

    #[test]
    fn a_webhook_from_before_that_has_no_secret_is_not_signed() {
        assert_eq!(signatures(&endpoint(Vec::new()), Time(1)), None);
    }

    #[test]
    fn an_endpoint_differs_by_its_settings_and_not_by_how_far_it_is() {
        let one = endpoint(Vec::new());
        let mut other = one.clone();
        (other.hook.delivered_up_to, other.hook.delivered) = (9, 9);
        assert!(!one.differs(&other));
        other.hook.url = "https://example.org/".into();
        assert!(one.differs(&other));
    }
}
