//! Metrics of this process alone: how long plugins took to compile, and the recent rates of queues.
//!
//! They start at zero with the process. Durable counters belong to the store.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::time::sleep;
use windlass_core::{Counts, Histogram, QueueName};
use windlass_executor::{Executor, Plugin, Rejected};
use windlass_store::Store;

use crate::{Shutdown, limits};

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

/// The recent rates of each queue. Cheap to clone.
#[derive(Clone, Default)]
pub struct Rates(Arc<Mutex<Samples>>);

/// Samples of the queues, oldest first. A minute of samples every second would take much memory, so the longer window has its own,
/// a few seconds apart.
#[derive(Default)]
struct Samples {
    short: VecDeque<Sample>,
    long: VecDeque<Sample>,
}

#[derive(Clone)]
struct Sample {
    at: Instant,
    queues: Arc<HashMap<QueueName, Totals>>,
}

/// The counters of a queue since it was created.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    enqueued: u64,
    completed: u64,
    failed: u64,
}

/// Jobs per second, over the last seconds and over the last minute.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Recent {
    pub seconds: Rate,
    pub minute: Rate,
}

/// Jobs per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate {
    pub enqueued: f64,
    pub completed: f64,
    pub failed: f64,
}

impl Rates {
    /// Samples the queues until the server stops.
    pub fn start(store: Store, shutdown: Shutdown) -> Rates {
        let rates = Rates::default();
        let own = rates.clone();
        tokio::spawn(async move {
            loop {
                let began = Instant::now();
                if let Ok(views) = store.queues().await {
                    own.sample(Instant::now(), views.iter().map(|view| (&view.queue.name, &view.queue.counts)));
                }
                let pause = limits::RATE_SAMPLE.max(began.elapsed() * limits::RATE_REST);
                tokio::select! {
                    () = sleep(pause) => {}
                    () = shutdown.requested() => return,
                }
            }
        });
        rates
    }

    fn sample<'a>(&self, at: Instant, queues: impl Iterator<Item = (&'a QueueName, &'a Counts)>) {
        let queues = queues.map(|(name, counts)| (name.clone(), Totals::from(counts))).collect();
        let sample = Sample { at, queues: Arc::new(queues) };
        let mut samples = self.lock();
        if samples.long.back().is_none_or(|last| at.duration_since(last.at) >= limits::RATE_SHORT) {
            add(&mut samples.long, sample.clone(), limits::RATE_SPAN);
        }
        add(&mut samples.short, sample, limits::RATE_SHORT);
    }

    /// Each rate is computed since the oldest sample of its window, which is as old as the window once the server has run that long.
    pub fn of(&self, queue: &QueueName, now: Instant, counts: &Counts) -> Recent {
        let samples = self.lock();
        let totals = Totals::from(counts);
        let since = |samples: &VecDeque<Sample>| {
            samples.front().map_or_else(Rate::default, |oldest| oldest.rate(queue, now, totals))
        };
        Recent { seconds: since(&samples.short), minute: since(&samples.long) }
    }

    fn lock(&self) -> MutexGuard<'_, Samples> {
        // Samples are pushed and popped as a whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds a sample. The oldest one retained is the last from before the window.
fn add(samples: &mut VecDeque<Sample>, sample: Sample, window: Duration) {
    let at = sample.at;
    samples.push_back(sample);
    while samples.get(1).is_some_and(|second| at.duration_since(second.at) >= window) {
        samples.pop_front();
    }
}

impl Sample {
    fn rate(&self, queue: &QueueName, now: Instant, totals: Totals) -> Rate {
        let before = self.queues.get(queue).copied().unwrap_or_default();
        let seconds = now.duration_since(self.at).as_secs_f64().max(1.0);
        let rate = |now: u64, before: u64| (now.saturating_sub(before) as f64 / seconds * 1_000.0).round() / 1_000.0;
        Rate {
            enqueued: rate(totals.enqueued, before.enqueued),
            completed: rate(totals.completed, before.completed),
            failed: rate(totals.failed, before.failed),
        }
    }
}

impl From<&Counts> for Totals {
    fn from(counts: &Counts) -> Totals {
        Totals { enqueued: counts.enqueued, completed: counts.completed, failed: counts.failed + counts.dead }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(enqueued: u64, completed: u64) -> Counts {
        Counts { enqueued, completed, ..Counts::default() }
    }

    #[test]
    fn a_rate_is_computed_over_the_last_seconds_and_the_last_minute() {
        let rates = Rates::default();
        let queue: QueueName = "mail".parse().expect("a name");
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        assert_eq!(rates.of(&queue, start, &counts(5, 5)), Recent::default(), "nothing is known yet");
        // A hundred a second, and in the last ten seconds none.
        let enqueued = |second: u64| second.min(90) * 100;
        for second in 0..=100 {
            rates.sample(at(second), [(&queue, &counts(enqueued(second), second * 10))].into_iter());
        }
        let recent = rates.of(&queue, at(100), &counts(enqueued(100), 1_000));
        assert_eq!((recent.seconds.enqueued, recent.seconds.completed), (0.0, 10.0));
        assert_eq!((recent.minute.enqueued, recent.minute.completed), (83.333, 10.0), "5,000 in 60 s");
        assert_eq!(recent.minute.failed, 0.0);
        let samples = rates.lock();
        assert!(
            samples.short.len() <= 7 && samples.long.len() <= 14,
            "{} and {}",
            samples.short.len(),
            samples.long.len()
        );
    }

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
