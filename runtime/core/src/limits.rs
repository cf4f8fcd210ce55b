//! Concurrency and rate limits, for a queue and for each key in it. Deciding only: who is next is the store's to find,
//! whether it may start is decided here.

use core::time::Duration;
use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::{Refusal, Time, bounds};

/// At most `count` starts in any span of `per`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    pub count: u32,
    pub per: Duration,
}

impl Rate {
    pub fn check(&self, field: &'static str) -> Result<(), Refusal> {
        if self.count == 0 || self.count > bounds::MAX_RATE {
            return Err(Refusal::invalid(
                field,
                format!("a rate of 1 to {} starts; pause the queue to stop it", bounds::MAX_RATE),
            ));
        }
        if self.per < Duration::from_millis(1) || self.per > bounds::LONGEST_RATE_WINDOW {
            return Err(Refusal::invalid(field, "a window between 1 millisecond and 24 hours"));
        }
        Ok(())
    }
}

/// What has been started, for one queue or one key of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limiter {
    pub running: u32,
    /// The starts inside the window: (moment, how many), oldest first. One entry a start up to `EXACT`, and above
    /// that one entry per slice of the window, which counts until its last moment has passed: never too many.
    starts: VecDeque<(Time, u32)>,
}

/// Up to this rate each start is remembered by itself.
const EXACT: u32 = 1_000;
/// Above it, the window is cut into so many slices.
const SLICES: u64 = 256;

/// May one more start?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    Go,
    /// All places are taken: ask again when one ends.
    Full,
    /// Too many starts: ask again at this moment.
    Until(Time),
}

impl Limiter {
    /// Whether a start is allowed now. Does not count it.
    pub fn admit(&mut self, concurrency: Option<u32>, rate: Option<Rate>, now: Time) -> Admission {
        if concurrency.is_some_and(|max| self.running >= max) {
            return Admission::Full;
        }
        rate.map_or(Admission::Go, |rate| self.admit_many(1, rate, now))
    }

    /// Whether so many starts are allowed now, all together. Does not count them. More than the rate itself are never
    /// allowed: whoever asks for them should be told so.
    pub fn admit_many(&mut self, many: u32, rate: Rate, now: Time) -> Admission {
        self.forget_before(rate, now);
        let most = u64::from(rate.count).saturating_sub(u64::from(many));
        let mut recent: u64 = self.starts.iter().map(|(_, count)| u64::from(*count)).sum();
        if recent <= most && many <= rate.count {
            return Admission::Go;
        }
        // The moment when enough of the oldest have left the window.
        for (at, count) in &self.starts {
            recent -= u64::from(*count);
            if recent <= most {
                return Admission::Until(*at + rate.per);
            }
        }
        Admission::Until(now + rate.per)
    }

    /// Counts a start.
    pub fn start(&mut self, rate: Option<Rate>, now: Time) {
        self.running += 1;
        let Some(rate) = rate else {
            self.starts.clear();
            return;
        };
        if rate.count <= EXACT {
            self.starts.push_back((now, 1));
            return;
        }
        let slice = (rate.per.as_millis() as u64 / SLICES).max(1);
        let end = Time(now.millis() / slice * slice + slice - 1);
        match self.starts.back_mut() {
            Some((at, count)) if *at == end => *count += 1,
            _ => self.starts.push_back((end, 1)),
        }
    }

    /// Counts an end.
    pub fn end(&mut self) {
        debug_assert!(self.running > 0, "an attempt ended that was never counted");
        self.running = self.running.saturating_sub(1);
    }

    /// Whether there is anything to remember: an idle limiter need not be stored.
    pub fn is_idle(&mut self, rate: Option<Rate>, now: Time) -> bool {
        match rate {
            Some(rate) => self.forget_before(rate, now),
            None => self.starts.clear(),
        }
        self.running == 0 && self.starts.is_empty()
    }

    fn forget_before(&mut self, rate: Rate, now: Time) {
        while self.starts.front().is_some_and(|(at, _)| *at + rate.per <= now) {
            self.starts.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PER_SECOND: Rate = Rate { count: 2, per: Duration::from_secs(1) };

    #[test]
    fn a_rate_holds_in_every_window_not_only_aligned_ones() {
        let mut limiter = Limiter::default();
        for at in [900, 950] {
            assert_eq!(limiter.admit(None, Some(PER_SECOND), Time(at)), Admission::Go);
            limiter.start(Some(PER_SECOND), Time(at));
        }
        assert_eq!(limiter.admit(None, Some(PER_SECOND), Time(1_000)), Admission::Until(Time(1_900)));
        assert_eq!(limiter.admit(None, Some(PER_SECOND), Time(1_900)), Admission::Go);
    }

    #[test]
    fn a_high_rate_is_never_exceeded_and_needs_little_memory() {
        let rate = Rate { count: 5_000, per: Duration::from_secs(60) };
        let mut limiter = Limiter::default();
        let mut starts = Vec::new();
        for at in (0..180_000).step_by(3) {
            let now = Time(at);
            if limiter.admit(None, Some(rate), now) == Admission::Go {
                limiter.start(Some(rate), now);
                starts.push(at);
            }
        }
        for (index, at) in starts.iter().enumerate() {
            let inside = starts[index..].iter().take_while(|later| **later < at + 60_000).count();
            assert!(inside <= 5_000, "{inside} starts within a minute of {at}");
        }
        assert!(limiter.starts.len() as u64 <= SLICES + 1);
    }

    #[test]
    fn many_starts_are_admitted_together_or_not_at_all() {
        let rate = Rate { count: 5, per: Duration::from_secs(1) };
        let mut limiter = Limiter::default();
        assert_eq!(limiter.admit_many(5, rate, Time(0)), Admission::Go);
        for at in [0, 100, 200] {
            limiter.start(Some(rate), Time(at));
        }
        assert_eq!(limiter.admit_many(2, rate, Time(300)), Admission::Go);
        assert_eq!(limiter.admit_many(4, rate, Time(300)), Admission::Until(Time(1_100)));
        assert_eq!(limiter.admit_many(4, rate, Time(1_100)), Admission::Go);
        assert_eq!(limiter.admit_many(6, rate, Time(9_000)), Admission::Until(Time(10_000)), "more than the rate");
    }

    #[test]
    fn a_full_queue_admits_again_when_one_ends() {
        let mut limiter = Limiter::default();
        limiter.start(None, Time(1));
        assert_eq!(limiter.admit(Some(1), None, Time(2)), Admission::Full);
        limiter.end();
        assert_eq!(limiter.admit(Some(1), None, Time(2)), Admission::Go);
    }

    #[test]
    fn a_rate_is_refused_outside_its_bounds_and_taken_at_them() {
        let rate = |count, per| Rate { count, per };
        let second = Duration::from_secs(1);
        for (count, per) in
            [(1, second), (bounds::MAX_RATE, second), (1, Duration::from_millis(1)), (1, bounds::LONGEST_RATE_WINDOW)]
        {
            assert_eq!(rate(count, per).check("rate"), Ok(()), "{count} in {per:?}");
        }
        for (count, per) in [
            (0, second),
            (bounds::MAX_RATE + 1, second),
            (1, Duration::from_micros(999)),
            (1, bounds::LONGEST_RATE_WINDOW + Duration::from_millis(1)),
        ] {
            let refused = rate(count, per).check("key_rate").expect_err("out of bounds");
            assert!(matches!(refused, Refusal::Invalid { field, .. } if field == "key_rate"), "{refused}");
        }
    }

    #[test]
    fn when_to_ask_again_is_when_enough_starts_have_left_the_window() {
        let mut limiter = Limiter::default();
        for at in [100, 200, 300] {
            limiter.start(Some(PER_SECOND), Time(at));
        }
        // Three are in the window and two may be: the first two must leave it.
        assert_eq!(limiter.admit(None, Some(PER_SECOND), Time(400)), Admission::Until(Time(1_200)));
        // A start leaves the window at the very moment it is one window old.
        assert_eq!(limiter.admit(None, Some(PER_SECOND), Time(1_199)), Admission::Until(Time(1_200)));
        assert_eq!(limiter.admit(None, Some(PER_SECOND), Time(1_200)), Admission::Go);
    }

    #[test]
    fn up_to_a_thousand_each_start_counts_by_itself_and_above_that_by_slices() {
        let exact = Rate { count: EXACT, per: Duration::from_secs(60) };
        let sliced = Rate { count: EXACT + 1, per: Duration::from_secs(60) };
        let (mut one, mut other) = (Limiter::default(), Limiter::default());
        for at in [1_000, 1_001, 1_002] {
            one.start(Some(exact), Time(at));
            other.start(Some(sliced), Time(at));
        }
        assert_eq!(one.starts, [(Time(1_000), 1), (Time(1_001), 1), (Time(1_002), 1)]);
        // 60,000 ms in 256 slices of 234 ms: 936 to 1,169 is the fifth, and counts until its last moment has passed.
        assert_eq!(other.starts, [(Time(1_169), 3)]);
        other.start(Some(sliced), Time(1_169));
        other.start(Some(sliced), Time(1_170));
        assert_eq!(other.starts, [(Time(1_169), 4), (Time(1_403), 1)]);
        assert_eq!((one.running, other.running), (3, 5));
        // A window shorter than its slices is cut into milliseconds.
        let short = Rate { count: EXACT + 1, per: Duration::from_millis(100) };
        let mut limiter = Limiter::default();
        limiter.start(Some(short), Time(7));
        assert_eq!(limiter.starts, [(Time(7), 1)]);
    }

    #[test]
    fn a_limiter_without_a_rate_remembers_no_starts() {
        let mut limiter = Limiter::default();
        limiter.start(Some(PER_SECOND), Time(1));
        limiter.start(None, Time(2));
        assert!(limiter.starts.is_empty());
        assert_eq!(limiter.running, 2);
        assert_eq!(limiter.admit(None, Some(PER_SECOND), Time(3)), Admission::Go);
    }

    #[test]
    fn a_limiter_is_idle_when_nothing_runs_and_no_start_is_in_the_window() {
        let mut limiter = Limiter::default();
        assert!(limiter.is_idle(None, Time(1)));
        limiter.start(Some(PER_SECOND), Time(1));
        assert!(!limiter.clone().is_idle(None, Time(5_000)), "it runs");
        limiter.end();
        assert!(!limiter.is_idle(Some(PER_SECOND), Time(1_000)), "its start still counts");
        assert!(limiter.is_idle(Some(PER_SECOND), Time(1_001)));
        limiter.start(Some(PER_SECOND), Time(2_000));
        limiter.end();
        assert!(limiter.is_idle(None, Time(2_000)), "without a rate no start counts");
    }
}
