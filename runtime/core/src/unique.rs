//! Unique keys: at most one job per key, either until it ends or for a period that outlives it.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Job, JobId, QueueName, Refusal, Time, bounds};

/// What a producer asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unique {
    pub key: String,
    pub within: UniqueScope,
    pub until: Until,
    pub period: Duration,
}

/// Where the key must be the only one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum UniqueScope {
    #[default]
    Queue,
    /// Among the jobs of one scope, whatever their queue.
    Scope,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Until {
    /// The lock is released when the job ends; the period is its upper bound.
    #[default]
    End,
    /// The lock stays for the period, ended or not: a duplicate gets the finished job and its result.
    Period,
}

pub const DEFAULT_PERIOD: Duration = Duration::from_secs(3600);

/// The identity of a lock.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LockKey {
    Queue(QueueName, String),
    /// The scope with its namespace, and the key.
    Scope(String, String),
}

/// A taken lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lock {
    pub job: JobId,
    pub until: Until,
    pub expires_at: Time,
}

impl Lock {
    /// Does it still keep others out?
    pub fn holds(&self, now: Time) -> bool {
        now < self.expires_at
    }
}

impl Unique {
    pub fn check(&self, scope: Option<&str>) -> Result<(), Refusal> {
        if self.key.is_empty() || self.key.len() > bounds::UNIQUE_KEY_BYTES {
            return Err(Refusal::invalid("unique_key", format!("1 to {} bytes", bounds::UNIQUE_KEY_BYTES)));
        }
        if self.period.is_zero() || self.period > bounds::LONGEST {
            return Err(Refusal::invalid("unique_period", "more than zero and at most ten years"));
        }
        if self.within == UniqueScope::Scope && scope.is_none() {
            return Err(Refusal::invalid("unique_scope", "`scope` needs the job to have a `scope`"));
        }
        Ok(())
    }

    pub fn lock_key(&self, queue: &QueueName, scope: Option<&str>) -> LockKey {
        match (self.within, scope) {
            (UniqueScope::Scope, Some(scope)) => LockKey::Scope(queue.namespace().qualify(scope), self.key.clone()),
            (UniqueScope::Scope, None) | (UniqueScope::Queue, _) => LockKey::Queue(queue.clone(), self.key.clone()),
        }
    }
}

impl Job {
    /// The lock this job wants, or holds.
    pub fn lock_key(&self) -> Option<LockKey> {
        self.unique.as_ref().map(|unique| unique.lock_key(&self.queue, self.scope.as_deref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unique(key: &str, within: UniqueScope, period: Duration) -> Unique {
        Unique { key: key.into(), within, until: Until::End, period }
    }

    #[test]
    fn a_key_has_at_least_one_byte_and_at_most_its_bound() {
        let check = |len: usize| unique(&"k".repeat(len), UniqueScope::Queue, DEFAULT_PERIOD).check(None);
        assert!(check(1).is_ok() && check(bounds::UNIQUE_KEY_BYTES).is_ok());
        assert!(check(0).is_err() && check(bounds::UNIQUE_KEY_BYTES + 1).is_err());
    }

    #[test]
    fn a_period_is_more_than_nothing_and_at_most_the_longest() {
        let check = |period| unique("k", UniqueScope::Queue, period).check(None);
        assert!(check(Duration::from_millis(1)).is_ok() && check(bounds::LONGEST).is_ok());
        assert!(check(Duration::ZERO).is_err() && check(bounds::LONGEST + Duration::from_millis(1)).is_err());
    }

    #[test]
    fn a_key_within_a_scope_needs_one() {
        let within_scope = unique("k", UniqueScope::Scope, DEFAULT_PERIOD);
        assert!(within_scope.check(Some("user:1")).is_ok());
        assert!(within_scope.check(None).is_err());
        assert!(unique("k", UniqueScope::Queue, DEFAULT_PERIOD).check(Some("user:1")).is_ok());
    }

    #[test]
    fn a_lock_is_named_by_where_its_key_must_be_the_only_one() {
        let queue: QueueName = "mail".parse().expect("a name");
        let of = |within, scope| unique("k", within, DEFAULT_PERIOD).lock_key(&queue, scope);
        let by_queue = LockKey::Queue(queue.clone(), "k".into());
        assert_eq!(of(UniqueScope::Queue, None), by_queue);
        assert_eq!(of(UniqueScope::Queue, Some("user:1")), by_queue);
        assert_eq!(of(UniqueScope::Scope, None), by_queue);
        assert_eq!(of(UniqueScope::Scope, Some("user:1")), LockKey::Scope("user:1".into(), "k".into()));
        let elsewhere = queue.within(&"acme".parse().expect("a namespace"));
        let lock = unique("k", UniqueScope::Scope, DEFAULT_PERIOD).lock_key(&elsewhere, Some("user:1"));
        assert_ne!(lock, of(UniqueScope::Scope, Some("user:1")));
    }

    #[test]
    fn a_lock_holds_until_the_moment_it_expires() {
        let lock = Lock { job: JobId::new(Time(1), 1), until: Until::Period, expires_at: Time(10) };
        assert!(lock.holds(Time(9)));
        assert!(!lock.holds(Time(10)));
    }
}
