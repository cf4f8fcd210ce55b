//! Identities: the job id and the token of a lease.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use ulid::Ulid;

use crate::{Name, Refusal, Time};

/// A job's identity: a ULID, written as `job_` and 26 characters. Sorts by creation time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobId(pub u128);

const PREFIX: &str = "job_";
/// The random part of a ULID.
const RANDOM_BITS: u32 = 80;

impl JobId {
    /// No job: what events about a plugin carry.
    pub const NONE: JobId = JobId(0);

    /// A new id from the time and 80 bits of the caller's randomness.
    pub fn new(now: Time, random: u128) -> JobId {
        JobId(Ulid::from_parts(now.millis(), random).0)
    }

    /// A new id that sorts after `newest`, the last one made this way: jobs of the same millisecond are listed in the
    /// order they came in.
    pub fn following(newest: JobId, now: Time, random: u128) -> JobId {
        if newest.time() == now {
            // A step of random length, so that an id does not give away the next one.
            JobId(newest.0 + 1 + (random & u128::from(u32::MAX)))
        } else {
            JobId::new(now, random)
        }
    }

    /// The id of the `ordinal`-th child of `parent`: the same each time it is asked for, so that a repeated attempt
    /// spawns no duplicates. It has the parent's time, so a tree sorts together.
    pub fn child(parent: JobId, ordinal: u32) -> JobId {
        JobId::derived(parent.time(), &[b"child", &parent.to_bytes(), &ordinal.to_be_bytes()])
    }

    /// The id of the job that `schedule` makes for the instant `at`: one instant, one id, crash or not.
    pub fn of_schedule(schedule: &Name, at: Time) -> JobId {
        JobId::derived(at, &[b"schedule", schedule.qualified().as_bytes(), &at.millis().to_be_bytes()])
    }

    /// The id of the `ordinal`-th job that others have put under `parent`: apart from those it spawns itself.
    pub fn adopted(parent: JobId, ordinal: u32) -> JobId {
        JobId::derived(parent.time(), &[b"adopted", &parent.to_bytes(), &ordinal.to_be_bytes()])
    }

    /// The id of a job that follows in the chain that `first` began: a step follows once, retried or not.
    pub fn of_chain(first: JobId, step: u32, part: u8) -> JobId {
        JobId::derived(first.time(), &[b"chain", &first.to_bytes(), &step.to_be_bytes(), &[part]])
    }

    /// The id of the callback of a batch: a batch calls back once.
    pub fn of_batch(batch: &str, made_at: Time) -> JobId {
        JobId::derived(made_at, &[b"batch", batch.as_bytes()])
    }

    fn derived(time: Time, parts: &[&[u8]]) -> JobId {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let digest = hash.finalize();
        let random = digest.iter().take(10).fold(0u128, |sum, byte| (sum << 8) | u128::from(*byte));
        JobId::new(time, random)
    }

    /// The time the id was made at.
    pub fn time(self) -> Time {
        Time((self.0 >> RANDOM_BITS) as u64)
    }

    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    pub fn from_bytes(bytes: [u8; 16]) -> JobId {
        JobId(u128::from_be_bytes(bytes))
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", Ulid(self.0))
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for JobId {
    type Err = Refusal;
    fn from_str(text: &str) -> Result<JobId, Refusal> {
        text.strip_prefix(PREFIX).and_then(|rest| Ulid::from_string(rest).ok()).map(|ulid| JobId(ulid.0)).ok_or_else(
            || Refusal::invalid("id", "a job id is `job_` and 26 characters, such as job_01JQ8ZK3V7N3W5X9Y1A2B3C4D5"),
        )
    }
}

/// Proof that its holder runs the job's current attempt: the attempt's fence and a random part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Token {
    /// Which claim of the job this is. Only rises, so that a late report is recognised.
    pub fence: u32,
    pub secret: u64,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:016x}", self.fence, self.secret)
    }
}

impl FromStr for Token {
    type Err = Refusal;
    fn from_str(text: &str) -> Result<Token, Refusal> {
        let wrong = || Refusal::invalid("lease_token", "send the token as the fetch gave it");
        let (fence, secret) = text.split_once('-').ok_or_else(wrong)?;
        Ok(Token {
            fence: fence.parse().map_err(|_| wrong())?,
            secret: u64::from_str_radix(secret, 16).map_err(|_| wrong())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_its_text_form() {
        let id = JobId::new(Time(1_763_000_000_000), 42);
        assert_eq!(id.to_string().parse::<JobId>().expect("its own text"), id);
        assert_eq!(id.time(), Time(1_763_000_000_000));
        assert!("job_!".parse::<JobId>().is_err());
        assert!("01JQ8ZK3V7N3W5X9Y1A2B3C4D5".parse::<JobId>().is_err());
    }

    #[test]
    fn ids_of_one_millisecond_sort_in_the_order_they_were_made() {
        let now = Time(1_763_000_000_000);
        let mut newest = JobId::following(JobId::NONE, now, 5 << 70);
        assert_eq!(newest, JobId::new(now, 5 << 70));
        for random in [0, u128::MAX, 7] {
            let next = JobId::following(newest, now, random);
            assert!(next > newest && next.time() == now, "{next}");
            newest = next;
        }
        assert_eq!(JobId::following(newest, now + core::time::Duration::from_millis(1), 3).0 & 0xff, 3);
    }

    #[test]
    fn a_child_has_the_same_id_each_time_and_siblings_differ() {
        let parent = JobId::new(Time(5), 1);
        assert_eq!(JobId::child(parent, 3), JobId::child(parent, 3));
        assert_ne!(JobId::child(parent, 3), JobId::child(parent, 4));
    }

    #[test]
    fn a_token_survives_its_text_form() {
        let token = Token { fence: 3, secret: 0xdead_beef };
        assert_eq!(token.to_string().parse::<Token>().expect("its own text"), token);
    }
}
