//! A queue: a name that jobs wait in, its settings, and its counts.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::flow::Gate;
use crate::limits::Rate;
use crate::trailing;
use crate::{Job, PolicyChoice, QueueName, Refusal, State, Time, bounds};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Queue {
    pub name: QueueName,
    /// Short and never used again: what keys on disk are built from.
    pub id: u32,
    pub created_at: Time,
    pub settings: Settings,
    pub counts: Counts,
    /// The key or the person that changed the settings last. The last field, because queues that were stored without it
    /// are still read.
    #[serde(deserialize_with = "trailing::or_default")]
    pub settings_by: Option<String>,
}

/// What an operator can set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    pub paused: bool,
    /// Paused in order to become idle: running jobs finish.
    pub draining: bool,
    pub defaults: PolicyChoice,
    pub max_concurrency: Option<u32>,
    pub rate: Option<Rate>,
    /// The same two, for each `limit_key` by itself.
    pub key_concurrency: Option<u32>,
    pub key_rate: Option<Rate>,
    /// After each such span of waiting a job counts as one priority more urgent. Absent: strict.
    pub ageing: Option<Duration>,
    pub retention: Retention,
    /// It runs level by level: a round starts when all jobs of those before it have ended.
    pub rounds: bool,
    /// How far it stays behind another queue with rounds.
    pub gate: Option<Gate>,
}

impl Settings {
    /// The names of the settings that are others in `other`, but for whether it is paused.
    pub fn differences(&self, other: &Settings) -> Vec<&'static str> {
        let Settings { draining, defaults, max_concurrency, rate, key_concurrency, key_rate, .. } = self;
        let Settings { ageing, retention, rounds, gate, .. } = self;
        let fields = [
            ("draining", *draining != other.draining),
            ("defaults", *defaults != other.defaults),
            ("max_concurrency", *max_concurrency != other.max_concurrency),
            ("rate", *rate != other.rate),
            ("key_concurrency", *key_concurrency != other.key_concurrency),
            ("key_rate", *key_rate != other.key_rate),
            ("ageing", *ageing != other.ageing),
            ("retention", *retention != other.retention),
            ("rounds", *rounds != other.rounds),
            ("gate", *gate != other.gate),
        ];
        fields.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
    }
}

/// How long and how many ended jobs are kept. `None` takes the default; a count of `None` means no bound.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retention {
    pub completed: RetentionLimit,
    pub dead: RetentionLimit,
    pub cancelled: RetentionLimit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetentionLimit {
    pub age: Duration,
    pub count: Option<u64>,
}

impl Default for RetentionLimit {
    fn default() -> RetentionLimit {
        RetentionLimit { age: Duration::from_secs(7 * 24 * 3600), count: None }
    }
}

impl Retention {
    /// The rule for a state; none for a job that has not ended.
    pub fn of(&self, state: State) -> Option<RetentionLimit> {
        match state {
            State::Completed => Some(self.completed),
            State::Dead => Some(self.dead),
            State::Cancelled => Some(self.cancelled),
            State::Scheduled | State::Pending | State::Active | State::Retrying | State::Held | State::Blocked => None,
        }
    }
}

/// Kept with every move of a job: no scan answers "how many are pending". `now` is what is; all else are totals, which
/// only rise.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Jobs in each state now, in the order of `State::ALL`.
    pub now: [u64; 9],
    /// Since the queue was made: jobs stored, not those moved here from another queue.
    pub enqueued: u64,
    /// How often a job completed here. One that is retried and completes again counts again.
    pub completed: u64,
    /// Attempts that failed and were followed by another.
    pub failed: u64,
    /// How often a job died here.
    pub dead: u64,
    pub cancelled: u64,
    /// Sum of waiting and running times of completed attempts, for averages.
    pub wait_ms: u64,
    pub run_ms: u64,
    /// The same, by how long they were.
    pub waits: Histogram,
    pub runs: Histogram,
}

/// How many spans were how long. The bounds never change: the counts are stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    /// One count for each bound, and one for what is longer than all.
    pub counts: [u64; Histogram::BOUNDS_MS.len() + 1],
}

impl Histogram {
    pub const BOUNDS_MS: [u64; 17] =
        [1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000, 1_800_000];

    pub fn add(&mut self, span_ms: u64) {
        self.counts[Histogram::BOUNDS_MS.partition_point(|bound| *bound < span_ms)] += 1;
    }
}

impl Counts {
    pub fn of(&self, state: State) -> u64 {
        self.now[state as usize]
    }

    /// Jobs that have not ended.
    pub fn open(&self) -> u64 {
        State::ALL.into_iter().filter(|state| !state.is_ended()).map(|state| self.of(state)).sum()
    }

    pub fn leave(&mut self, state: State) {
        let count = &mut self.now[state as usize];
        debug_assert!(*count > 0, "a job left `{}` that was never counted in", state.as_str());
        *count = count.saturating_sub(1);
    }

    pub fn enter(&mut self, state: State) {
        self.now[state as usize] += 1;
    }

    /// Adds to the totals what a job has reached; `was` is the state it comes from, and none for a new one. One that
    /// comes from another queue in the state it had there has reached nothing.
    pub fn reach(&mut self, was: Option<State>, job: &Job, now: Time) {
        self.enqueued += u64::from(was.is_none());
        if was == Some(job.state) {
            return;
        }
        match job.state {
            State::Completed => {
                let ran = job.started_at.map_or(0, |at| now.since(at).as_millis() as u64);
                let waited = (now.since(job.created_at).as_millis() as u64).saturating_sub(ran);
                self.completed += 1;
                self.run_ms += ran;
                self.wait_ms += waited;
                self.waits.add(waited);
                self.runs.add(ran);
            }
            State::Dead => self.dead += 1,
            State::Cancelled => self.cancelled += 1,
            State::Scheduled | State::Pending | State::Active | State::Retrying | State::Held | State::Blocked => {}
        }
    }
}

impl Settings {
    pub fn check(&self) -> Result<(), Refusal> {
        self.defaults.check()?;
        for (field, rate) in [("rate_limit", self.rate), ("key_rate_limit", self.key_rate)] {
            if let Some(rate) = rate {
                rate.check(field)?;
            }
        }
        if self.ageing.is_some_and(|span| span < Duration::from_secs(1) || span > bounds::LONGEST) {
            return Err(Refusal::invalid(
                "ageing",
                "between 1 second and ten years, or leave it out for strict priority",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JobId;

    #[test]
    fn the_totals_count_what_a_job_reaches_and_not_what_it_was_before() {
        let mut counts = Counts::default();
        let new = Job::new(JobId::new(Time(1_000), 1), "mail".parse().expect("a name"), Time(1_000));
        let mut reach = |was, state| {
            counts.reach(was, &Job { state, started_at: Some(Time(1_700)), ..new.clone() }, Time(2_000));
            [counts.enqueued, counts.completed, counts.dead, counts.cancelled, counts.wait_ms, counts.run_ms]
        };
        assert_eq!(reach(None, State::Pending), [1, 0, 0, 0, 0, 0]);
        assert_eq!(reach(Some(State::Active), State::Completed), [1, 1, 0, 0, 700, 300]);
        assert_eq!(reach(Some(State::Completed), State::Completed), [1, 1, 0, 0, 700, 300], "it was moved here");
        assert_eq!(reach(Some(State::Active), State::Dead), [1, 1, 1, 0, 700, 300]);
        assert_eq!(reach(Some(State::Held), State::Cancelled), [1, 1, 1, 1, 700, 300]);
        assert_eq!(reach(Some(State::Completed), State::Completed), [1, 1, 1, 1, 700, 300]);
        assert_eq!((counts.waits.counts.iter().sum::<u64>(), counts.runs.counts.iter().sum::<u64>()), (1, 1));
    }

    #[test]
    fn jobs_are_counted_in_the_state_they_are_in() {
        let mut counts = Counts::default();
        State::ALL.into_iter().for_each(|state| counts.enter(state));
        counts.enter(State::Held);
        assert_eq!((counts.of(State::Held), counts.of(State::Dead), counts.open()), (2, 1, 7));
        counts.leave(State::Held);
        counts.leave(State::Dead);
        assert_eq!((counts.of(State::Held), counts.of(State::Dead), counts.open()), (1, 0, 6));
    }

    #[test]
    fn a_span_is_counted_under_the_first_bound_it_does_not_exceed() {
        let mut histogram = Histogram::default();
        [0, 1, 2, 3, 1_800_000, 1_800_001].into_iter().for_each(|span| histogram.add(span));
        assert_eq!(histogram.counts[..4], [2, 1, 1, 0]);
        assert_eq!(histogram.counts[16..], [1, 1]);
    }

    #[test]
    fn each_end_has_its_own_retention() {
        let limit = |seconds| RetentionLimit { age: Duration::from_secs(seconds), count: None };
        let retention = Retention { completed: limit(1), dead: limit(2), cancelled: limit(3) };
        let found = State::ALL.map(|state| retention.of(state).map_or(0, |limit| limit.age.as_secs()));
        assert_eq!(found, [0, 0, 0, 0, 0, 0, 1, 2, 3]);
    }

    #[test]
    fn settings_outside_their_bounds_are_refused_by_field() {
        let ageing = |ageing| Settings { ageing: Some(ageing), ..Settings::default() }.check();
        let (second, least) = (Duration::from_secs(1), Duration::from_millis(1));
        assert!(ageing(second).is_ok() && ageing(bounds::LONGEST).is_ok());
        assert!(ageing(second - least).is_err() && ageing(bounds::LONGEST + least).is_err());
        let rate = Some(Rate { count: 0, per: second });
        for (settings, expected) in [
            (Settings { rate, ..Settings::default() }, "rate_limit"),
            (Settings { key_rate: rate, ..Settings::default() }, "key_rate_limit"),
        ] {
            assert!(matches!(settings.check(), Err(Refusal::Invalid { field, .. }) if field == expected));
        }
    }
}
