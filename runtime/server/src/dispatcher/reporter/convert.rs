//! Between the executor's types and the rules'.

use std::time::Duration;

use bytes::Bytes;
use windlass_core::{Job, JobId, Name, NewJob, Priority, Progress, Refusal, State, Unique, UniqueScope, Until, Usage};
use windlass_executor::{self as executor, Amount, Child, ChildRead, ChildState};

/// A child, as its parent reads it.
pub(super) fn child_read(number: u64, job: Job, result: Option<Bytes>) -> ChildRead {
    ChildRead {
        ordinal: u32::try_from(number).unwrap_or(u32::MAX),
        id: job.id.to_string(),
        queue: job.queue.to_string(),
        state: match job.state {
            State::Completed => ChildState::Completed,
            State::Dead => ChildState::Dead,
            State::Cancelled => ChildState::Cancelled,
            _ => ChildState::Open,
        },
        result,
        result_bytes: job.result.len(),
        error: job.last_error,
    }
}

pub(in crate::dispatcher) fn usage(usage: &executor::Usage) -> Usage {
    let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    Usage {
        cpu_ms: millis(usage.cpu),
        wall_ms: millis(usage.wall),
        peak_memory: usage.peak_memory,
        host_calls: usage.host_calls,
        log_bytes: usage.log_bytes,
    }
}

pub(super) fn progress(progress: executor::Progress) -> Progress {
    let mut converted = Progress {
        phase: progress.phase,
        message: progress.message,
        level: Some(progress.level.as_str().to_owned()),
        detail: progress.detail,
        ..Progress::default()
    };
    match progress.amount {
        Some(Amount::Percent(percent)) => converted.percent = Some(percent),
        Some(Amount::Count { current, total, unit, weight }) => {
            converted.current = Some(current);
            converted.total = total;
            converted.unit = unit;
            converted.weight = weight;
        }
        None => {}
    }
    converted
}

/// All of a child but its payload.
pub(super) fn new_job(parent: JobId, child: Child) -> Result<NewJob, Refusal> {
    let mut job = NewJob {
        queue: Some(Name::parse("queue", &child.queue)?),
        delay: child.delay,
        tags: child.tags,
        scope: child.scope,
        parent: Some(parent),
        id: Some(JobId::child(parent, child.ordinal)),
        ..NewJob::default()
    };
    job.unique = child.unique_key.map(|key| Unique {
        key,
        within: UniqueScope::default(),
        until: Until::default(),
        period: child.unique_period.unwrap_or(windlass_core::DEFAULT_PERIOD),
    });
    job.policy.max_retries = child.max_attempts;
    job.policy.priority = child.priority.map(|priority| match priority {
        executor::Priority::Critical => Priority::Critical,
        executor::Priority::High => Priority::High,
        executor::Priority::Normal => Priority::Normal,
    });
    Ok(job)
}
