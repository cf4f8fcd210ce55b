//! What an attempt in the sandbox uses at this moment, and what it may use.

use std::time::{Duration, Instant};

use serde::Serialize;
use utoipa::ToSchema;
use windlass_core::{LimitKind, Time};

use crate::dispatcher::RunningAttempt;
use crate::http::wire::Rfc3339;

/// What an attempt in the sandbox uses now. Attempts of external workers are not measured.
#[derive(Debug, Serialize, ToSchema)]
pub struct LiveView {
    cpu_ms: u64,
    memory_bytes: u64,
    memory_peak_bytes: u64,
    host_calls: u64,
    log_bytes: u64,
    /// `null`: no limit.
    cpu_limit_ms: Option<u64>,
    memory_limit_bytes: u64,
    log_limit_bytes: u64,
    /// The limits that it has run into: `memory`, `cpu_time`, `attempt_timeout`, `stall_timeout`, `log`, `checkpoint`,
    /// `result`, `children` or `http`.
    hits: Vec<&'static str>,
    /// The last sign of life: progress, a checkpoint, a line of log.
    alive_at: Option<Rfc3339>,
    /// When its time is used up.
    deadline: Option<Rfc3339>,
    /// Since when it has been asked to stop, why, and when it is stopped by force.
    stopping_since: Option<Rfc3339>,
    stopping_reason: Option<String>,
    stopped_by: Option<Rfc3339>,
}

impl LiveView {
    pub fn hits(&self) -> &[&'static str] {
        &self.hits
    }

    /// `now` is the same moment by the server's clock and by the machine's.
    pub fn of(attempt: &RunningAttempt, now: (Time, Instant)) -> LiveView {
        let reading = attempt.gauge.read();
        let limits = attempt.limits();
        let stopping = attempt.stopping();
        let timeout = limits.and_then(|limits| limits.attempt_timeout);
        LiveView {
            cpu_ms: millis(reading.cpu),
            memory_bytes: reading.memory_bytes,
            memory_peak_bytes: reading.memory_peak_bytes,
            host_calls: reading.host_calls,
            log_bytes: reading.log_bytes,
            cpu_limit_ms: limits.and_then(|limits| limits.cpu_time).map(millis),
            memory_limit_bytes: limits.map_or(0, |limits| limits.memory_bytes as u64),
            log_limit_bytes: limits.map_or(0, |limits| limits.log_bytes as u64),
            hits: reading.hits.iter().map(LimitKind::as_str).collect(),
            alive_at: reading.quiet.map(|quiet| Rfc3339(before(now.0, quiet))),
            deadline: timeout.map(|timeout| Rfc3339(attempt.started_at + timeout)),
            stopping_since: stopping.map(|(since, _)| Rfc3339(at(since, now))),
            stopping_reason: stopping.map(|(_, cancel)| cancel.reason.to_string()),
            stopped_by: stopping.map(|(_, cancel)| Rfc3339(at(cancel.deadline, now))),
        }
    }
}

/// A moment of the machine's clock, by the server's clock.
fn at(moment: Instant, now: (Time, Instant)) -> Time {
    match moment.checked_duration_since(now.1) {
        Some(ahead) => now.0 + ahead,
        None => before(now.0, now.1.duration_since(moment)),
    }
}

fn before(now: Time, span: Duration) -> Time {
    Time(now.millis().saturating_sub(millis(span)))
}

pub fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_of_both_clocks_are_the_same_distance_from_now() {
        let now = (Time(10_000), Instant::now());
        let second = Duration::from_secs(1);
        assert_eq!(at(now.1 + second, now), Time(11_000));
        assert_eq!(at(now.1, now), Time(10_000));
        assert_eq!(at(now.1 - second, now), Time(9_000));
    }
}
