//! Figures of queues over time: the last hour in steps of five seconds, and the last day in steps of a minute.
//!
//! Held in memory, from the start of the server on. Only so many queues have figures: when there are more, those in
//! which the least happens give way, first in the namespace that has the most of them. Each namespace has the figures
//! of all its queues together, to which those that gave way still count.

mod point;
mod track;

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use windlass_core::{AllowedQueues, Counts, Namespace, QueueName, Time};

use crate::limits;
pub use point::{Spread, Sum};
use track::{Resolution, Track};

/// Cheap to clone.
#[derive(Clone, Default)]
pub struct Series(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    /// The first reading, and the step in which the latest one was.
    since: Option<Time>,
    step: u64,
    before: HashMap<QueueName, Counts>,
    queues: HashMap<QueueName, Track>,
    namespaces: HashMap<Namespace, Track>,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub span: Duration,
    pub step: Duration,
}

/// The answer: one sum for each step, the oldest first.
#[derive(Debug)]
pub struct Figures {
    /// When the server began to count.
    pub since: Option<Time>,
    /// Whether everything that was asked for has figures.
    pub tracked: bool,
    /// The beginning of each step with its figures.
    pub steps: Vec<(Time, Sum)>,
}

impl Series {
    /// Takes a reading of the counters of all queues. Does something once in each step.
    pub fn sample<'a>(&self, now: Time, queues: impl Iterator<Item = (&'a QueueName, &'a Counts)>) {
        let step = now.millis() / limits::SERIES_STEP.as_millis() as u64;
        let mut kept = self.lock();
        if kept.since.is_some() && kept.step >= step {
            return;
        }
        let queues: Vec<_> = queues.collect();
        match kept.since {
            // What happened until now belongs to the step that has just ended.
            Some(_) => kept.record(step - 1, &queues),
            None => kept.since = Some(now),
        }
        kept.step = step;
        kept.before = queues.into_iter().map(|(name, counts)| (name.clone(), counts.clone())).collect();
    }

    /// The figures of one queue; none if there was no such queue at the latest reading.
    pub fn of_queue(&self, queue: &QueueName, window: Window) -> Option<Figures> {
        let kept = self.lock();
        kept.before.contains_key(queue).then(|| {
            let track = kept.queues.get(queue);
            kept.figures(window, track.into_iter(), track.is_some())
        })
    }

    /// The figures of each queue that somebody may see and that has figures, those in which the most happened in the
    /// window first.
    pub fn of_each(&self, allowed: &AllowedQueues, window: Window, most: usize) -> Vec<(QueueName, Figures)> {
        let kept = self.lock();
        let own = kept.queues.iter().filter(|(queue, _)| allowed.allow(queue));
        let mut found: Vec<_> = own
            .map(|(queue, track)| (queue.clone(), kept.figures(window, std::iter::once(track), true)))
            .map(|(queue, figures)| (figures.steps.iter().map(|(_, sum)| sum.events()).sum::<u64>(), queue, figures))
            .collect();
        found.sort_by(|(a, first, _), (b, second, _)| b.cmp(a).then_with(|| first.cmp(second)));
        found.into_iter().take(most).map(|(_, queue, figures)| (queue, figures)).collect()
    }

    /// The figures of all queues that somebody may see. Of those who may see only some, these are added up.
    pub fn of_all(&self, allowed: &AllowedQueues, window: Window) -> Figures {
        let kept = self.lock();
        if allowed.are_all() {
            let track = kept.namespaces.get(&allowed.namespace);
            let is_empty = !kept.before.keys().any(|queue| allowed.allow(queue));
            return kept.figures(window, track.into_iter(), track.is_some() || is_empty);
        }
        let tracks = kept.queues.iter().filter(|(queue, _)| allowed.allow(queue)).map(|(_, track)| track);
        let tracked =
            kept.before.keys().filter(|queue| allowed.allow(queue)).all(|queue| kept.queues.contains_key(queue));
        kept.figures(window, tracks, tracked)
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        // A step that is lost by a panic leaves a gap, and nothing else depends on it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn record(&mut self, step: u64, queues: &[(&QueueName, &Counts)]) {
        let mut totals: HashMap<Namespace, Sum> = HashMap::new();
        let mut sums = Vec::with_capacity(queues.len());
        for (name, counts) in queues {
            let sum = Sum::between(self.before.get(*name), counts);
            totals.entry(name.namespace()).or_default().beside(&sum);
            sums.push(((*name).clone(), sum));
        }
        let known: HashSet<&QueueName> = queues.iter().map(|(name, _)| *name).collect();
        self.queues.retain(|name, _| known.contains(name));
        self.namespaces.retain(|name, _| totals.contains_key(name));
        // Those with figures first: whoever wants the place of another has to compare with the present.
        sums.sort_by_key(|(name, _)| !self.queues.contains_key(name));
        for (name, sum) in sums {
            if self.make_room(&name, &sum) {
                self.queues.entry(name).or_default().add(step, &sum);
            }
        }
        for (namespace, sum) in totals {
            let is_known = self.namespaces.contains_key(&namespace);
            if is_known || give_way(&mut self.namespaces, limits::SERIES_NAMESPACES, &sum, |_| true) {
                self.namespaces.entry(namespace).or_default().add(step, &sum);
            }
        }
    }

    /// Whether a queue has a place, or gets one.
    fn make_room(&mut self, name: &QueueName, sum: &Sum) -> bool {
        if self.queues.contains_key(name) || self.queues.len() < limits::SERIES_QUEUES {
            return true;
        }
        if sum.events() == 0 {
            return false;
        }
        let mut places: HashMap<Namespace, usize> = HashMap::new();
        for queue in self.queues.keys() {
            *places.entry(queue.namespace()).or_default() += 1;
        }
        let own = places.get(&name.namespace()).copied().unwrap_or_default();
        let (largest, most) = places.into_iter().max_by_key(|(_, count)| *count).unwrap_or_default();
        if most > own + 1 {
            let least = least(&self.queues, |queue| queue.is_in(&largest));
            return least.is_some_and(|least| self.queues.remove(&least).is_some());
        }
        let namespace = name.namespace();
        give_way(&mut self.queues, limits::SERIES_QUEUES, sum, |queue| queue.is_in(&namespace))
    }

    fn figures<'a>(&self, window: Window, tracks: impl Iterator<Item = &'a Track>, tracked: bool) -> Figures {
        let resolution = Resolution::of(window);
        // The last step that has ended, and the first one of the window.
        let end = Time(self.step * limits::SERIES_STEP.as_millis() as u64);
        let since = self.since.unwrap_or(end);
        let mut steps = resolution.steps(window, since, end);
        for track in tracks {
            track.add_to(resolution, window.step, &mut steps);
        }
        Figures { since: self.since, tracked, steps }
    }
}

/// Whether there is room, or the least active one is dropped for one in which this has happened.
fn give_way<K: Clone + Eq + Hash>(
    tracks: &mut HashMap<K, Track>,
    most: usize,
    sum: &Sum,
    among: impl Fn(&K) -> bool,
) -> bool {
    if tracks.len() < most {
        return true;
    }
    let Some(least) = least(tracks, among) else { return false };
    let gives_way = tracks.get(&least).is_some_and(|track| track.activity() < sum.events() as f64);
    if gives_way {
        tracks.remove(&least);
    }
    gives_way
}

fn least<K: Clone + Eq + Hash>(tracks: &HashMap<K, Track>, among: impl Fn(&K) -> bool) -> Option<K> {
    let among = tracks.iter().filter(|(key, _)| among(key));
    among.min_by(|(_, a), (_, b)| a.activity().total_cmp(&b.activity())).map(|(key, _)| key.clone())
}

#[cfg(test)]
mod tests;
