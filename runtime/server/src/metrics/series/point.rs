//! What happened to a queue, or to all queues of a namespace, in one step of time; and its stored form, which is small
//! because thousands of them stay in memory.

use windlass_core::{Counts, Histogram, State};

const BUCKETS: usize = Histogram::BOUNDS_MS.len() + 1;

/// The figures of one step, or of several steps together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Jobs stored, jobs completed, attempts that failed and were followed by another, and jobs that died.
    pub enqueued: u64,
    pub completed: u64,
    pub failed: u64,
    pub dead: u64,
    /// How many jobs were waiting and running at its end.
    pub pending: u64,
    pub active: u64,
    /// How long the completed ones waited and ran.
    pub waits: Spread,
    pub runs: Spread,
}

/// How many spans were how long, by the bounds of [`Histogram`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spread([u64; BUCKETS]);

impl Sum {
    /// What has happened between two readings of a queue's counters. Counters that have fallen are those of a new queue
    /// of the name.
    pub fn between(before: Option<&Counts>, now: &Counts) -> Sum {
        let before = before.filter(|before| before.enqueued <= now.enqueued && before.completed <= now.completed);
        let since = |of: fn(&Counts) -> u64| of(now).saturating_sub(before.map_or(0, of));
        let spread = |of: fn(&Counts) -> &Histogram| {
            let mut counts = of(now).counts;
            if let Some(before) = before {
                for (count, before) in counts.iter_mut().zip(&of(before).counts) {
                    *count = count.saturating_sub(*before);
                }
            }
            Spread(counts)
        };
        Sum {
            enqueued: since(|counts| counts.enqueued),
            completed: since(|counts| counts.completed),
            failed: since(|counts| counts.failed),
            dead: since(|counts| counts.dead),
            pending: now.of(State::Pending),
            active: now.of(State::Active),
            waits: spread(|counts| &counts.waits),
            runs: spread(|counts| &counts.runs),
        }
    }

    /// How much has happened.
    pub fn events(&self) -> u64 {
        self.enqueued + self.completed + self.failed + self.dead
    }

    /// Adds what happened at the same time elsewhere.
    pub fn beside(&mut self, other: &Sum) {
        let (pending, active) = (self.pending + other.pending, self.active + other.active);
        self.then(other);
        (self.pending, self.active) = (pending, active);
    }

    /// Adds what happened next.
    pub fn then(&mut self, next: &Sum) {
        self.enqueued += next.enqueued;
        self.completed += next.completed;
        self.failed += next.failed;
        self.dead += next.dead;
        (self.pending, self.active) = (next.pending, next.active);
        self.waits.add(&next.waits);
        self.runs.add(&next.runs);
    }

    /// A step in which nothing happens after this one.
    pub fn idle(&self) -> Sum {
        Sum { pending: self.pending, active: self.active, ..Sum::default() }
    }

    /// The numbers one after the other, each in as few bytes as it needs; of the spreads only what was counted.
    pub fn pack(&self) -> Box<[u8]> {
        let mut out = Vec::with_capacity(32);
        for number in [self.enqueued, self.completed, self.failed, self.dead, self.pending, self.active] {
            put(&mut out, number);
        }
        for spread in [&self.waits, &self.runs] {
            let counted = || spread.0.iter().enumerate().filter(|(_, count)| **count > 0);
            put(&mut out, counted().count() as u64);
            for (bucket, count) in counted() {
                out.push(bucket as u8);
                put(&mut out, *count);
            }
        }
        out.into_boxed_slice()
    }

    pub fn unpack(mut bytes: &[u8]) -> Sum {
        let bytes = &mut bytes;
        let mut sum = Sum {
            enqueued: take(bytes),
            completed: take(bytes),
            failed: take(bytes),
            dead: take(bytes),
            pending: take(bytes),
            active: take(bytes),
            ..Sum::default()
        };
        for spread in [&mut sum.waits, &mut sum.runs] {
            for _ in 0..take(bytes) {
                let bucket = usize::from(bytes.split_off_first().copied().unwrap_or_default());
                let count = take(bytes);
                if let Some(place) = spread.0.get_mut(bucket) {
                    *place = count;
                }
            }
        }
        sum
    }
}

impl Spread {
    pub fn add(&mut self, other: &Spread) {
        for (count, more) in self.0.iter_mut().zip(&other.0) {
            *count += more;
        }
    }

    #[cfg(test)]
    pub fn count(&mut self, span_ms: u64) {
        self.0[Histogram::BOUNDS_MS.partition_point(|bound| *bound < span_ms)] += 1;
    }

    /// The span in milliseconds that so many percent do not exceed; none when nothing was counted. Within a bucket it
    /// is taken to be evenly spread; beyond the last bound it is that bound.
    pub fn percentile(&self, percent: f64) -> Option<f64> {
        percentile(&self.0, &Histogram::BOUNDS_MS, percent)
    }
}

/// The same for any bounds; there is one count more than bounds.
pub fn percentile(counts: &[u64], bounds: &[u64], percent: f64) -> Option<f64> {
    let total: u64 = counts.iter().sum();
    if total == 0 {
        return None;
    }
    let rank = (percent / 100.0 * total as f64).max(1.0);
    let mut below = 0.0;
    let mut lower = 0.0;
    for (count, bound) in counts.iter().zip(bounds) {
        let (count, upper) = (*count as f64, *bound as f64);
        if count > 0.0 && below + count >= rank {
            let value = lower + (upper - lower) * (rank - below) / count;
            return Some((value * 10.0).round() / 10.0);
        }
        below += count;
        lower = upper;
    }
    Some(lower)
}

/// Seven bits to a byte, the lowest first.
fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn take(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    let mut shift = 0;
    while let Some(byte) = bytes.split_off_first() {
        number |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 || shift >= 64 {
            break;
        }
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(spans: &[u64]) -> Spread {
        let mut spread = Spread::default();
        spans.iter().for_each(|span| spread.count(*span));
        spread
    }

    #[test]
    fn a_point_is_the_same_after_it_was_packed() {
        let mut sum = Sum { enqueued: 1, completed: 127, failed: 128, dead: 300, pending: 1 << 40, ..Sum::default() };
        sum.active = u64::MAX;
        sum.waits = spread(&[0, 1, 3, 3, 1_800_001]);
        sum.runs = spread(&[70; 1000]);
        assert_eq!(Sum::unpack(&sum.pack()), sum);
        assert_eq!(Sum::default().pack().len(), 8);
        assert_eq!(Sum::unpack(&[]), Sum::default(), "damaged memory does not end the server");
    }

    #[test]
    fn percentiles_are_interpolated_within_their_bucket() {
        assert_eq!(Spread::default().percentile(50.0), None);
        assert_eq!(spread(&[70]).percentile(99.0), Some(100.0));
        let hundred = spread(&[vec![60; 90], vec![600; 10]].concat());
        // 90 between 50 and 100, and 10 between 500 and 1,000.
        assert_eq!(hundred.percentile(45.0), Some(75.0));
        assert_eq!(hundred.percentile(95.0), Some(750.0));
        assert_eq!(spread(&[9_000_000]).percentile(50.0), Some(1_800_000.0), "beyond the last bound");
    }

    #[test]
    fn a_queue_that_was_made_again_counts_from_zero() {
        let counts = |enqueued, completed| Counts { enqueued, completed, ..Counts::default() };
        let of = |before: &Counts, now: &Counts| Sum::between(Some(before), now).enqueued;
        assert_eq!(of(&counts(10, 5), &counts(12, 6)), 2);
        assert_eq!(of(&counts(10, 5), &counts(3, 0)), 3);
        assert_eq!(Sum::between(None, &counts(3, 0)).enqueued, 3);
    }
}
