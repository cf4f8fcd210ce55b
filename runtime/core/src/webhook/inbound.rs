//! Queues that take signed requests of other services, and what such a signature must say.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{QueueName, Refusal, SigningSecrets, Time, bounds};

/// The way in which a service signs its webhooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SignatureScheme {
    GitHub,
    Stripe,
    /// Standard Webhooks, which many services use.
    Standard,
}

/// A queue whose incoming webhooks must be signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InboundHook {
    pub queue: QueueName,
    pub scheme: SignatureScheme,
    pub secrets: SigningSecrets,
    /// How far the signed time may be from now; none if the scheme signs no time.
    pub tolerance: Option<Duration>,
    pub created_at: Time,
    pub updated_at: Time,
}

/// What is set for a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboundSettings {
    pub scheme: SignatureScheme,
    /// As the server has encrypted it; without one the secrets stay.
    pub secret: Option<Vec<u8>>,
    /// How long the secret before a new one stays valid.
    pub keep_previous: Duration,
    /// Without one the tolerance stays, and is the usual one at first.
    pub tolerance: Option<Duration>,
}

impl SignatureScheme {
    /// Whether it signs the time of a request.
    pub fn signs_time(self) -> bool {
        match self {
            SignatureScheme::GitHub => false,
            SignatureScheme::Stripe | SignatureScheme::Standard => true,
        }
    }
}

impl InboundHook {
    /// What a queue has after these settings; `old` is what it had.
    pub fn set(
        old: Option<&InboundHook>,
        queue: QueueName,
        settings: InboundSettings,
        now: Time,
    ) -> Result<InboundHook, Refusal> {
        let InboundSettings { scheme, secret, keep_previous, tolerance } = settings;
        // A secret of one scheme is none of another.
        let same = old.filter(|old| old.scheme == scheme);
        let mut secrets = same.map(|old| old.secrets.clone()).unwrap_or_default();
        secrets.drop_expired(now);
        match secret {
            Some(secret) => secrets.rotate(secret, keep_previous, now)?,
            None if same.is_some() => {}
            None => return Err(Refusal::invalid("secret", "is missing; send the secret that the sender signs with")),
        }
        let tolerance = tolerance_of(scheme, tolerance, same.and_then(|old| old.tolerance))?;
        let created_at = old.map_or(now, |old| old.created_at);
        Ok(InboundHook { queue, scheme, secrets, tolerance, created_at, updated_at: now })
    }

    /// Whether a request that was signed at this time may still, or already, be accepted.
    pub fn accepts_time(&self, signed_at: Time, now: Time) -> bool {
        let distance = now.since(signed_at).max(signed_at.since(now));
        self.tolerance.is_none_or(|most| distance <= most)
    }
}

fn tolerance_of(
    scheme: SignatureScheme,
    wanted: Option<Duration>,
    old: Option<Duration>,
) -> Result<Option<Duration>, Refusal> {
    match wanted {
        Some(_) if !scheme.signs_time() => {
            Err(Refusal::invalid("tolerance", "this scheme signs no time that could be compared; leave it out"))
        }
        Some(wanted) if !(bounds::TOLERANCE_LEAST..=bounds::TOLERANCE_MOST).contains(&wanted) => {
            let (least, most) = (bounds::TOLERANCE_LEAST.as_secs(), bounds::TOLERANCE_MOST.as_secs() / 3600);
            Err(Refusal::invalid("tolerance", format!("at least {least} s and at most {most} h")))
        }
        wanted => Ok(wanted.or(old).or_else(|| scheme.signs_time().then_some(bounds::TOLERANCE))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use SignatureScheme::{GitHub, Standard, Stripe};

    fn settings(scheme: SignatureScheme, secret: Option<u8>) -> InboundSettings {
        InboundSettings {
            scheme,
            secret: secret.map(|byte| vec![byte]),
            keep_previous: Duration::ZERO,
            tolerance: None,
        }
    }

    fn set(old: Option<&InboundHook>, settings: InboundSettings, now: u64) -> Result<InboundHook, Refusal> {
        InboundHook::set(old, "hooks".parse().expect("a name"), settings, Time(now))
    }

    #[test]
    fn a_new_hook_needs_a_secret_and_a_later_change_does_not() {
        assert!(set(None, settings(Stripe, None), 1).is_err());
        let hook = set(None, settings(Stripe, Some(1)), 1).expect("good settings");
        assert_eq!((hook.tolerance, hook.created_at), (Some(bounds::TOLERANCE), Time(1)));
        let wider = InboundSettings { tolerance: Some(Duration::from_secs(600)), ..settings(Stripe, None) };
        let hook = set(Some(&hook), wider, 2).expect("good settings");
        assert_eq!(
            (hook.secrets.clone(), hook.created_at, hook.updated_at),
            (SigningSecrets::new(vec![1]), Time(1), Time(2))
        );
        let hook = set(Some(&hook), settings(Stripe, Some(2)), 3).expect("good settings");
        assert_eq!(hook.tolerance, Some(Duration::from_secs(600)), "it stays");
        assert_eq!(hook.secrets, SigningSecrets::new(vec![2]));
        assert!(set(Some(&hook), settings(Standard, None), 4).is_err(), "a secret of another scheme is none");
    }

    #[test]
    fn a_secret_that_is_kept_stays_valid_beside_the_new_one() {
        let hook = set(None, settings(GitHub, Some(1)), 1).expect("good settings");
        let kept = InboundSettings { keep_previous: Duration::from_secs(1), ..settings(GitHub, Some(2)) };
        let hook = set(Some(&hook), kept, 10).expect("good settings");
        assert_eq!(hook.secrets.previous_at(Time(1_009)).map(|previous| &*previous.encrypted), Some(&[1][..]));
        let hook = set(Some(&hook), settings(GitHub, None), 1_010).expect("good settings");
        assert_eq!(hook.secrets, SigningSecrets::new(vec![2]), "what has expired is removed");
    }

    #[test]
    fn a_tolerance_has_bounds_and_is_refused_where_no_time_is_signed() {
        let with = |scheme, tolerance| InboundSettings { tolerance: Some(tolerance), ..settings(scheme, Some(1)) };
        assert!(set(None, with(GitHub, bounds::TOLERANCE), 1).is_err());
        assert_eq!(set(None, settings(GitHub, Some(1)), 1).expect("good settings").tolerance, None);
        assert!(set(None, with(Stripe, Duration::ZERO), 1).is_err());
        assert!(set(None, with(Stripe, bounds::TOLERANCE_MOST + bounds::TOLERANCE_LEAST), 1).is_err());
        assert!(set(None, with(Standard, bounds::TOLERANCE_MOST), 1).is_ok());
    }

    #[test]
    fn a_signed_time_may_be_off_by_the_tolerance_in_either_direction() {
        let hook = set(None, settings(Stripe, Some(1)), 1).expect("good settings");
        let (now, most) = (Time(1_000_000), bounds::TOLERANCE.as_millis() as u64);
        assert!(hook.accepts_time(Time(now.0 - most), now) && hook.accepts_time(Time(now.0 + most), now));
        assert!(!hook.accepts_time(Time(now.0 - most - 1), now) && !hook.accepts_time(Time(now.0 + most + 1), now));
        let untimed = set(None, settings(GitHub, Some(1)), 1).expect("good settings");
        assert!(untimed.accepts_time(Time::ZERO, now));
    }
}
