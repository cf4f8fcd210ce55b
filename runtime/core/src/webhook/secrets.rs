//! The secrets of a webhook: the newest, and for a while the one before it, so that both sides of a rotation need not
//! happen at once.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Refusal, Time, bounds};

/// Secrets as the server has encrypted them: only it can decrypt them. Never more than two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SigningSecrets {
    pub newest: Option<Vec<u8>>,
    pub previous: Option<PreviousSecret>,
}

/// The secret before the newest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviousSecret {
    pub encrypted: Vec<u8>,
    /// Until when it is valid.
    pub until: Time,
}

impl SigningSecrets {
    pub fn new(encrypted: Vec<u8>) -> SigningSecrets {
        SigningSecrets { newest: Some(encrypted), previous: None }
    }

    /// Makes this secret the newest. The one that was stays valid for `keep`; any older one is dropped at once.
    pub fn rotate(&mut self, encrypted: Vec<u8>, keep: Duration, now: Time) -> Result<(), Refusal> {
        self.keep(keep)?;
        let before = self.newest.replace(encrypted).filter(|_| !keep.is_zero());
        self.previous = before.map(|encrypted| PreviousSecret { encrypted, until: now + keep });
        Ok(())
    }

    fn keep(&self, keep: Duration) -> Result<(), Refusal> {
        if keep <= bounds::PREVIOUS_SECRET {
            return Ok(());
        }
        let days = bounds::PREVIOUS_SECRET.as_secs() / (24 * 3600);
        Err(Refusal::invalid(
            "keep_previous",
            format!("at most {days} days; a secret that leaked should go at once, with 0"),
        ))
    }

    /// The previous secret while it is valid.
    pub fn previous_at(&self, now: Time) -> Option<&PreviousSecret> {
        self.previous.as_ref().filter(|previous| now < previous.until)
    }

    /// Removes a previous secret that is valid no more.
    pub fn drop_expired(&mut self, now: Time) {
        if self.previous_at(now).is_none() {
            self.previous = None;
        }
    }

    /// Puts another ciphertext of the same secret in the place of this one. Returns whether there was one.
    pub fn replace(&mut self, from: &[u8], to: Vec<u8>) -> bool {
        let previous = self.previous.as_mut().map(|previous| &mut previous.encrypted);
        match self.newest.as_mut().into_iter().chain(previous).find(|stored| stored.as_slice() == from) {
            Some(stored) => {
                *stored = to;
                true
            }
            None => false,
        }
    }

    /// All that are stored, newest first.
    pub fn all(&self) -> impl Iterator<Item = &[u8]> {
        let previous = self.previous.iter().map(|previous| previous.encrypted.as_slice());
        self.newest.as_deref().into_iter().chain(previous)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    #[test]
    fn the_secret_before_the_newest_is_valid_for_as_long_as_it_was_kept() {
        let mut secrets = SigningSecrets::new(vec![1]);
        secrets.rotate(vec![2], DAY, Time(1_000)).expect("a good span");
        let until = Time(1_000) + DAY;
        assert_eq!(secrets.newest, Some(vec![2]));
        assert_eq!(secrets.previous_at(Time(until.0 - 1)), Some(&PreviousSecret { encrypted: vec![1], until }));
        assert_eq!(secrets.previous_at(until), None);
        secrets.drop_expired(Time(until.0 - 1));
        assert_eq!(secrets.all().count(), 2);
        secrets.drop_expired(until);
        assert_eq!(secrets, SigningSecrets::new(vec![2]));
    }

    #[test]
    fn there_are_never_more_than_two_and_one_that_leaked_goes_at_once() {
        let mut secrets = SigningSecrets::new(vec![1]);
        secrets.rotate(vec![2], DAY, Time(0)).expect("a good span");
        secrets.rotate(vec![3], DAY, Time(1)).expect("a good span");
        assert_eq!(secrets.all().collect::<Vec<_>>(), [&[3], &[2]]);
        secrets.rotate(vec![4], Duration::ZERO, Time(2)).expect("a good span");
        assert_eq!(secrets, SigningSecrets::new(vec![4]));
    }

    #[test]
    fn a_ciphertext_is_replaced_wherever_it_stands_and_only_if_it_is_the_one() {
        let mut secrets = SigningSecrets::new(vec![1]);
        secrets.rotate(vec![2], DAY, Time(0)).expect("a good span");
        assert!(secrets.replace(&[1], vec![11]) && secrets.replace(&[2], vec![12]));
        assert!(!secrets.replace(&[1], vec![13]), "it has changed meanwhile");
        assert_eq!(secrets.all().collect::<Vec<_>>(), [&[12], &[11]]);
        assert!(!SigningSecrets::default().replace(&[1], vec![2]));
    }

    #[test]
    fn the_first_secret_has_none_before_it_and_a_span_has_a_bound() {
        let mut secrets = SigningSecrets::default();
        secrets.rotate(vec![1], DAY, Time(0)).expect("a good span");
        assert_eq!(secrets, SigningSecrets::new(vec![1]));
        let wrong = secrets.rotate(vec![2], bounds::PREVIOUS_SECRET + DAY, Time(0));
        assert!(wrong.is_err());
        assert_eq!(secrets, SigningSecrets::new(vec![1]), "a refusal changes nothing");
    }
}
