//! The recent rates of queues: over the last seconds, and over the last minute.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use windlass_core::{Counts, QueueName};

use crate::limits;

/// The recent rates of each queue. Cheap to clone.
#[derive(Clone, Default)]
pub struct Rates(Arc<Mutex<Samples>>);

/// Samples of the queues, oldest first. A minute of samples every second would take much memory, so the longer window
/// has its own, a few seconds apart.
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
    pub(super) fn sample<'a>(&self, at: Instant, queues: impl Iterator<Item = (&'a QueueName, &'a Counts)>) {
        let queues = queues.map(|(name, counts)| (name.clone(), Totals::from(counts))).collect();
        let sample = Sample { at, queues: Arc::new(queues) };
        let mut samples = self.lock();
        if samples.long.back().is_none_or(|last| at.duration_since(last.at) >= limits::RATE_SHORT) {
            add(&mut samples.long, sample.clone(), limits::RATE_SPAN);
        }
        add(&mut samples.short, sample, limits::RATE_SHORT);
    }

    /// Each rate is computed since the oldest sample of its window, which is as old as the window once the server has
    /// run that long.
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
}
