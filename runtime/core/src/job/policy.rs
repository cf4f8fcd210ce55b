//! How a job is treated: priority, retries, time limits. A queue holds defaults; a job may say its own.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Refusal, bounds};

/// Strict: a more urgent job starts first, whatever the age of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Priority {
    Critical,
    High,
    #[default]
    Normal,
    Low,
}

impl Priority {
    pub const ALL: [Priority; 4] = [Priority::Critical, Priority::High, Priority::Normal, Priority::Low];

    pub fn as_str(self) -> &'static str {
        match self {
            Priority::Critical => "critical",
            Priority::High => "high",
            Priority::Normal => "normal",
            Priority::Low => "low",
        }
    }

    /// 0 is the most urgent.
    pub fn rank(self) -> u8 {
        self as u8
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BackoffKind {
    None,
    Fixed,
    Linear,
    Quadratic,
    Exponential,
}

/// How long to wait after a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backoff {
    pub kind: BackoffKind,
    pub base: Duration,
    pub cap: Duration,
}

/// A job's policy with every default filled in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// The number of runs, the first included. 0 and 1 both mean one run.
    pub max_attempts: u32,
    pub backoff: Backoff,
    /// How long one attempt may take.
    pub attempt_timeout: Option<Duration>,
    /// How long an attempt may go without progress, checkpoint or log.
    pub stall_timeout: Option<Duration>,
    /// How long all attempts may take, counted from the first start.
    pub max_duration: Option<Duration>,
    /// How long an external worker holds the job without a heartbeat.
    pub lease: Duration,
    /// How long the ended job stays stored; the queue's retention when absent.
    pub ttl: Option<Duration>,
}

pub const DEFAULT_LEASE: Duration = Duration::from_secs(60);

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            max_attempts: 3,
            backoff: Backoff {
                kind: BackoffKind::Exponential,
                base: Duration::from_secs(5),
                cap: Duration::from_secs(600),
            },
            attempt_timeout: None,
            stall_timeout: None,
            max_duration: None,
            lease: DEFAULT_LEASE,
            ttl: None,
        }
    }
}

/// What a producer, or a queue's defaults, choose of the policy. What is absent comes from the next level.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyChoice {
    pub priority: Option<Priority>,
    pub max_attempts: Option<u32>,
    pub backoff: Option<BackoffKind>,
    pub base_delay: Option<Duration>,
    pub max_delay: Option<Duration>,
    pub attempt_timeout: Option<Duration>,
    pub stall_timeout: Option<Duration>,
    pub max_duration: Option<Duration>,
    pub expire_after: Option<Duration>,
    pub lease: Option<Duration>,
    pub ttl: Option<Duration>,
}

impl PolicyChoice {
    /// This choice, with `fallback` for what it leaves open.
    pub fn or(&self, fallback: &PolicyChoice) -> PolicyChoice {
        PolicyChoice {
            priority: self.priority.or(fallback.priority),
            max_attempts: self.max_attempts.or(fallback.max_attempts),
            backoff: self.backoff.or(fallback.backoff),
            base_delay: self.base_delay.or(fallback.base_delay),
            max_delay: self.max_delay.or(fallback.max_delay),
            attempt_timeout: self.attempt_timeout.or(fallback.attempt_timeout),
            stall_timeout: self.stall_timeout.or(fallback.stall_timeout),
            max_duration: self.max_duration.or(fallback.max_duration),
            expire_after: self.expire_after.or(fallback.expire_after),
            lease: self.lease.or(fallback.lease),
            ttl: self.ttl.or(fallback.ttl),
        }
    }

    /// The full policy, built-in defaults filling the rest.
    pub fn resolve(&self) -> Policy {
        let default = Policy::default();
        Policy {
            max_attempts: self.max_attempts.unwrap_or(default.max_attempts).max(1),
            backoff: Backoff {
                kind: self.backoff.unwrap_or(default.backoff.kind),
                base: self.base_delay.unwrap_or(default.backoff.base),
                cap: self.max_delay.unwrap_or(default.backoff.cap),
            },
            attempt_timeout: self.attempt_timeout,
            stall_timeout: self.stall_timeout,
            max_duration: self.max_duration,
            lease: self.lease.unwrap_or(default.lease),
            ttl: self.ttl,
        }
    }

    /// Refuses what no job could live by, naming the field.
    pub fn check(&self) -> Result<(), Refusal> {
        if self.max_attempts.is_some_and(|runs| runs > bounds::MAX_ATTEMPTS) {
            return Err(Refusal::invalid("max_attempts", format!("at most {} runs", bounds::MAX_ATTEMPTS)));
        }
        let spans = [
            ("retry_base_delay", self.base_delay),
            ("retry_max_delay", self.max_delay),
            ("attempt_timeout", self.attempt_timeout),
            ("stall_timeout", self.stall_timeout),
            ("max_duration", self.max_duration),
            ("expire_after", self.expire_after),
            ("ttl", self.ttl),
        ];
        for (field, span) in spans {
            if span.is_some_and(|span| span > bounds::LONGEST) {
                return Err(Refusal::invalid(field, "at most ten years"));
            }
        }
        let positive = [
            ("attempt_timeout", self.attempt_timeout),
            ("stall_timeout", self.stall_timeout),
            ("max_duration", self.max_duration),
            ("expire_after", self.expire_after),
        ];
        for (field, span) in positive {
            if span.is_some_and(|span| span.is_zero()) {
                return Err(Refusal::invalid(field, "more than zero, or leave it out for no limit"));
            }
        }
        if self.lease.is_some_and(|lease| !(bounds::SHORTEST_LEASE..=bounds::LONGEST_LEASE).contains(&lease)) {
            return Err(Refusal::invalid("lease", "between 1 second and 24 hours"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_is_refused_outside_its_bounds_and_taken_at_them() {
        type Set = fn(&mut PolicyChoice, Duration);
        let (least, longest) = (Duration::from_millis(1), bounds::LONGEST);
        let limits: [(&str, Set, Duration, Duration); 8] = [
            ("retry_base_delay", |choice, span| choice.base_delay = Some(span), Duration::ZERO, longest),
            ("retry_max_delay", |choice, span| choice.max_delay = Some(span), Duration::ZERO, longest),
            ("ttl", |choice, span| choice.ttl = Some(span), Duration::ZERO, longest),
            ("attempt_timeout", |choice, span| choice.attempt_timeout = Some(span), least, longest),
            ("stall_timeout", |choice, span| choice.stall_timeout = Some(span), least, longest),
            ("max_duration", |choice, span| choice.max_duration = Some(span), least, longest),
            ("expire_after", |choice, span| choice.expire_after = Some(span), least, longest),
            ("lease", |choice, span| choice.lease = Some(span), bounds::SHORTEST_LEASE, bounds::LONGEST_LEASE),
        ];
        for (field, set, from, to) in limits {
            let with = |span: Duration| {
                let mut choice = PolicyChoice::default();
                set(&mut choice, span);
                choice.check()
            };
            assert!(with(from).is_ok() && with(to).is_ok(), "{field}");
            for wrong in from.checked_sub(least).into_iter().chain([to + least]) {
                let refused = with(wrong);
                assert!(matches!(refused, Err(Refusal::Invalid { field: named, .. }) if named == field), "{refused:?}");
            }
        }
        let runs = |most| PolicyChoice { max_attempts: Some(most), ..PolicyChoice::default() }.check();
        assert!(runs(bounds::MAX_ATTEMPTS).is_ok() && runs(bounds::MAX_ATTEMPTS + 1).is_err());
    }
}
