//! Unique keys: at most one job per key, either until it ends or for a period that outlives it.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Job, JobId, QueueName, Refusal, Time, bounds};

/// What a producer asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unique {
    pub key: String,
    pub within: Within,
    pub until: Until,
    pub period: Duration,
}

/// Where the key must be the only one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Within {
    #[default]
    Queue,
    /// Among the jobs of one scope, whatever their queue.
    Scope,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Until {
    /// The lock goes with the job's end; the period is its upper bound.
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
        if self.within == Within::Scope && scope.is_none() {
            return Err(Refusal::invalid("unique_scope", "`scope` needs the job to have a `scope`"));
        }
        Ok(())
    }

    pub fn lock_key(&self, queue: &QueueName, scope: Option<&str>) -> LockKey {
        match (self.within, scope) {
            (Within::Scope, Some(scope)) => LockKey::Scope(scope.to_owned(), self.key.clone()),
            (Within::Scope, None) | (Within::Queue, _) => LockKey::Queue(queue.clone(), self.key.clone()),
        }
    }
}

impl Job {
    /// The lock this job wants, or holds.
    pub fn lock_key(&self) -> Option<LockKey> {
        self.unique.as_ref().map(|unique| unique.lock_key(&self.queue, self.scope.as_deref()))
    }
}
