//! Statistics of jobs: `/jobs/stats` over all queues, `/queues/{name}/stats` for one.

use std::time::Duration;

use axum::Json;
use serde::Serialize;
use utoipa::ToSchema;
use windlass_core::{Counts, Job, Queue, QueueName, Refusal, State as JobState};
use windlass_store::{JobList, Store};

use crate::http::Api;
use crate::http::transport::error::Result;
use crate::http::transport::extract::NamePath;
use crate::http::wire::{NameText, StateCounts, Totals};
use crate::limits;

/// Jobs by state now, and totals of what has happened.
#[derive(Debug, Serialize, ToSchema)]
pub struct Stats {
    #[serde(flatten)]
    now: StateCounts,
    processing: u64,
    failed: u64,
    totals: Totals,
    /// The share of jobs that completed, of all that completed or died; `null` if there are none.
    success_rate: Option<f64>,
    /// In milliseconds, over all jobs that have completed.
    avg_execution_time: f64,
    avg_wait_time: f64,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct QueueStats {
    #[schema(value_type = NameText)]
    name: QueueName,
    #[serde(flatten)]
    stats: Stats,
    /// How many of the latest completed jobs the percentiles are over.
    sample: usize,
    wait_ms: Spread,
    run_ms: Spread,
}

#[derive(Debug, Default, Serialize, ToSchema)]
struct Spread {
    p50: Option<u64>,
    p95: Option<u64>,
    p99: Option<u64>,
}

/// Statistics over all queues
#[utoipa::path(get, path = "/jobs/stats", tag = "jobs", responses((status = 200, body = Stats)))]
pub async fn all(api: Api) -> Result<Json<Stats>> {
    let mut sum = Counts::default();
    for view in api.store.queues().await? {
        let counts = view.queue.counts;
        for (sum, count) in sum.now.iter_mut().zip(counts.now) {
            *sum += count;
        }
        sum.enqueued += counts.enqueued;
        sum.completed += counts.completed;
        sum.failed += counts.failed;
        sum.dead += counts.dead;
        sum.cancelled += counts.cancelled;
        sum.wait_ms += counts.wait_ms;
        sum.run_ms += counts.run_ms;
    }
    Ok(Json(stats(&sum)))
}

/// Statistics of one queue: success rate, waiting and running times
#[utoipa::path(get, path = "/queues/{name}/stats", tag = "queues", responses((status = 200, body = QueueStats)))]
pub async fn of_queue(api: Api, NamePath(name): NamePath) -> Result<Json<QueueStats>> {
    let store = api.store.frozen();
    let queue = find(&store, &name).await?;
    let list = JobList { queue: Some(name), state: Some(JobState::Completed), limit: limits::PAGE_MOST, offset: 0 };
    let jobs = store.jobs(list).await?;
    let wait = |job: &Job| job.first_started_at.map(|at| at.since(job.created_at));
    let run = |job: &Job| job.completed_at.zip(job.started_at).map(|(end, start)| end.since(start));
    Ok(Json(QueueStats {
        name: queue.name,
        stats: stats(&queue.counts),
        sample: jobs.len(),
        wait_ms: spread(jobs.iter().filter_map(wait).collect()),
        run_ms: spread(jobs.iter().filter_map(run).collect()),
    }))
}

async fn find(store: &Store, name: &QueueName) -> Result<Queue> {
    let found = store.queues().await?.into_iter().find(|view| view.queue.name == *name);
    Ok(found.ok_or_else(|| Refusal::not_found("queue", name))?.queue)
}

fn stats(counts: &Counts) -> Stats {
    let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
    Stats {
        now: counts.into(),
        processing: counts.of(JobState::Active),
        failed: counts.of(JobState::Dead),
        totals: counts.into(),
        success_rate: share(counts.completed, counts.completed + counts.dead),
        avg_execution_time: share(counts.run_ms, counts.completed).unwrap_or(0.0),
        avg_wait_time: share(counts.wait_ms, counts.completed).unwrap_or(0.0),
    }
}

fn spread(mut spans: Vec<Duration>) -> Spread {
    spans.sort_unstable();
    // The smallest value that this percentage of values do not exceed.
    let at = |percent: usize| {
        let rank = (spans.len() * percent).div_ceil(100).max(1) - 1;
        spans.get(rank).map(|span| u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
    };
    Spread { p50: at(50), p95: at(95), p99: at(99) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let spread = spread((1..=100).rev().map(Duration::from_millis).collect());
        assert_eq!((spread.p50, spread.p95, spread.p99), (Some(50), Some(95), Some(99)));
        let one = super::spread(vec![Duration::from_millis(7)]);
        assert_eq!((one.p50, one.p99), (Some(7), Some(7)));
        assert_eq!(super::spread(Vec::new()).p50, None);
    }
}
