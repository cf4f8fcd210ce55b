//! Metrics of this process alone: how long plugins took to compile, the recent rates of queues, and their figures over
//! the last day.
//!
//! They start at zero with the process. Durable counters belong to the store: rates and figures over time are
//! differences of those that it keeps with each queue, so that nothing is counted twice and nothing is stored for them.

pub mod figures;
mod rates;
pub mod series;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::time::sleep;
use windlass_core::Histogram;
use windlass_executor::{Executor, Plugin, Rejected};
use windlass_store::{Clock, Store};

use crate::clock::SystemClock;
use crate::{Shutdown, limits};
pub use figures::PluginFigures;
pub use rates::{Rates, Recent};
pub use series::Series;

/// How long components took to compile, including those from the cache.
pub static COMPILES: Spans = Spans::new();

/// A histogram of durations that many threads add to.
pub struct Spans {
    counts: [AtomicU64; Histogram::BOUNDS_MS.len() + 1],
    micros: AtomicU64,
}

impl Spans {
    const fn new() -> Spans {
        Spans { counts: [const { AtomicU64::new(0) }; Histogram::BOUNDS_MS.len() + 1], micros: AtomicU64::new(0) }
    }

    pub fn add(&self, span: Duration) {
        let millis = span.as_secs_f64() * 1_000.0;
        let at = Histogram::BOUNDS_MS.partition_point(|bound| (*bound as f64) < millis);
        self.counts[at].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(u64::try_from(span.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub fn counts(&self) -> Vec<u64> {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }

    pub fn seconds(&self) -> f64 {
        self.micros.load(Ordering::Relaxed) as f64 / 1e6
    }
}

/// Compiles a component, and records how long it took.
pub async fn compile(executor: &Executor, bytes: Bytes) -> Result<Plugin, Rejected> {
    let began = Instant::now();
    let compiled = executor.compile(bytes).await;
    COMPILES.add(began.elapsed());
    compiled
}

/// Samples the queues until the server stops, for their rates and for their figures over time.
pub fn sample_queues(store: Store, clock: Arc<SystemClock>, shutdown: Shutdown) -> (Rates, Series) {
    let (rates, series) = (Rates::default(), Series::default());
    let (own_rates, own_series) = (rates.clone(), series.clone());
    tokio::spawn(async move {
        loop {
            let began = Instant::now();
            if let Ok(views) = store.queues().await {
                let counts = || views.iter().map(|view| (&view.queue.name, &view.queue.counts));
                own_rates.sample(Instant::now(), counts());
                own_series.sample(clock.now(), counts());
            }
            // A sample at the beginning of each second, so that a step of the figures is as long as it says.
            let second = limits::RATE_SAMPLE.as_millis() as u64;
            let next = Duration::from_millis(second - clock.now().millis() % second);
            let pause = next.max(began.elapsed() * limits::RATE_REST);
            tokio::select! {
                () = sleep(pause) => {}
                () = shutdown.requested() => return,
            }
        }
    });
    (rates, series)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_counted_in_its_bucket() {
        let spans = Spans::new();
        for millis in [1, 3, 7_200_000] {
            spans.add(Duration::from_millis(millis));
        }
        let counts = spans.counts();
        assert_eq!((counts[0], counts[2], counts.last()), (1, 1, Some(&1)));
        assert_eq!(counts.iter().sum::<u64>(), 3);
    }
}
