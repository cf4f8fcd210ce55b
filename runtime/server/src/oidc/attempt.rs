//! What a browser keeps while its user is at the provider: a cookie that only this process can read or make. With it an
//! answer of the provider counts only in the browser that asked, so that nobody is signed in as somebody else by a
//! link.
//!
//! It is kept nowhere else, so that strangers who begin to sign in take no memory. Each counts once.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::aead::{Aead, KeyInit};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;
use windlass_core::Time;

use crate::limits;

/// One attempt to sign in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    pub state: String,
    pub nonce: String,
    /// What proves to the provider that the code was meant for us (PKCE).
    pub verifier: String,
    /// Where the provider sends the browser.
    pub redirect: String,
    /// Where the browser goes afterwards.
    pub to: String,
    pub until: u64,
}

/// Encrypts attempts, and knows which were used.
pub struct AttemptCipher {
    cipher: XChaCha20Poly1305,
    used: Mutex<Used>,
}

#[derive(Default)]
struct Used {
    states: BTreeMap<String, Time>,
    order: VecDeque<String>,
}

const KEY: usize = 32;
const NONCE: usize = 24;

impl AttemptCipher {
    /// None if the system has no randomness.
    pub fn new() -> Option<AttemptCipher> {
        let key: [u8; KEY] = random()?;
        Some(AttemptCipher { cipher: XChaCha20Poly1305::new(&key.into()), used: Mutex::default() })
    }

    /// The value of the cookie.
    pub fn encrypt(&self, attempt: &Attempt) -> Option<String> {
        let nonce: [u8; NONCE] = random()?;
        let plain = serde_json::to_vec(attempt).ok()?;
        let ciphertext = self.cipher.encrypt(&XNonce::from(nonce), plain.as_slice()).ok()?;
        Some(URL_SAFE_NO_PAD.encode([&nonce[..], &ciphertext].concat()))
    }

    /// The attempt of a cookie, if the provider answers to it and it was not answered before.
    pub fn decrypt(&self, cookie: &str, state: &str, now: Time) -> Option<Attempt> {
        let bytes = URL_SAFE_NO_PAD.decode(cookie).ok()?;
        let (nonce, ciphertext) = bytes.split_at_checked(NONCE)?;
        let nonce: [u8; NONCE] = nonce.try_into().ok()?;
        let plain = self.cipher.decrypt(&XNonce::from(nonce), ciphertext).ok()?;
        let attempt: Attempt = serde_json::from_slice(&plain).ok()?;
        let is_its: bool = attempt.state.as_bytes().ct_eq(state.as_bytes()).into();
        (is_its && now < Time(attempt.until) && self.use_once(&attempt, now)).then_some(attempt)
    }

    fn use_once(&self, attempt: &Attempt, now: Time) -> bool {
        // Both parts change together, and nothing in between can panic.
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(oldest) = used.order.front() {
            // The provider accepts a code once, too, so forgetting the oldest early costs nothing but the better words.
            let forget =
                used.order.len() >= limits::OIDC_USED || used.states.get(oldest).is_none_or(|until| *until <= now);
            if !forget {
                break;
            }
            if let Some(oldest) = used.order.pop_front() {
                used.states.remove(&oldest);
            }
        }
        if used.states.insert(attempt.state.clone(), Time(attempt.until)).is_some() {
            return false;
        }
        used.order.push_back(attempt.state.clone());
        true
    }
}

fn random<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(state: &str) -> Attempt {
        let text = |text: &str| text.to_owned();
        Attempt {
            state: text(state),
            nonce: text("n"),
            verifier: text("v"),
            redirect: text("r"),
            to: text("/ui/"),
            until: 1_000,
        }
    }

    #[test]
    fn an_attempt_counts_once_in_time_and_with_its_own_state() {
        let cipher = AttemptCipher::new().expect("randomness");
        let cookie = cipher.encrypt(&attempt("s1")).expect("a cookie");
        assert_eq!(cipher.decrypt(&cookie, "s2", Time(1)), None, "the answer to another attempt");
        assert_eq!(cipher.decrypt(&cookie, "s1", Time(1_000)), None, "too late");
        assert_eq!(cipher.decrypt(&cookie, "s1", Time(999)), Some(attempt("s1")));
        assert_eq!(cipher.decrypt(&cookie, "s1", Time(999)), None, "a second time");
        assert_eq!(cipher.used.lock().expect("nobody panicked").order.len(), 1);
        let next = cipher.encrypt(&attempt("s2")).expect("a cookie");
        assert!(cipher.decrypt(&next, "s2", Time(2)).is_some());
    }

    #[test]
    fn nobody_else_can_make_read_or_change_a_cookie() {
        let (cipher, other) = (AttemptCipher::new().expect("randomness"), AttemptCipher::new().expect("randomness"));
        let cookie = cipher.encrypt(&attempt("s1")).expect("a cookie");
        assert_ne!(cipher.encrypt(&attempt("s1")).expect("a cookie"), cookie);
        assert_eq!(other.decrypt(&cookie, "s1", Time(1)), None, "that of another server");
        let mut changed = URL_SAFE_NO_PAD.decode(&cookie).expect("base64");
        changed[NONCE] ^= 1;
        for wrong in ["", "x", "!", &URL_SAFE_NO_PAD.encode(changed), &cookie[..cookie.len() - 2]] {
            assert_eq!(cipher.decrypt(wrong, "s1", Time(1)), None, "{wrong}");
        }
    }

    #[test]
    fn what_was_used_takes_bounded_memory() {
        let cipher = AttemptCipher::new().expect("randomness");
        for number in 0..limits::OIDC_USED * 2 {
            let one = Attempt { until: u64::MAX, ..attempt(&number.to_string()) };
            assert!(cipher.use_once(&one, Time(1)));
        }
        let used = cipher.used.lock().expect("nobody panicked");
        assert_eq!((used.order.len(), used.states.len()), (limits::OIDC_USED, limits::OIDC_USED));
    }
}
