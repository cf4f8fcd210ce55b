//! Dead jobs by what they died of.

use std::collections::BTreeMap;

use super::{fingerprint, pattern};
use crate::{Job, Name, QueueName, Runner, State, Time};

/// Groups that are told apart; the jobs of further ones are only counted.
const GROUPS: usize = 1_000;
/// Queues, and versions, of one group that are told apart.
const PARTS: usize = 100;
/// Errors whose fingerprint is remembered, so that the same text is not read again.
const REMEMBERED: usize = 4_096;

impl Job {
    /// What it died of: its last error, or why it is dead without one. None while it is not dead.
    pub fn died_of(&self) -> Option<&str> {
        if self.state != State::Dead {
            return None;
        }
        let reason = || self.timeline.steps.last().map_or("", |step| &*step.reason);
        Some(self.last_error.as_deref().unwrap_or_else(reason))
    }

    /// The fingerprint of what it died of.
    pub fn error_fingerprint(&self) -> Option<String> {
        self.died_of().map(fingerprint)
    }
}

/// Who ran the last attempts of dead jobs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RanBy {
    Plugin {
        plugin: Name,
        version: String,
    },
    Worker,
    /// Nobody: it died before it began.
    Nobody,
}

/// Dead jobs of one fingerprint.
#[derive(Clone, Debug, PartialEq)]
pub struct FailureGroup {
    pub fingerprint: String,
    pub pattern: String,
    pub count: u64,
    pub first: Time,
    pub last: Time,
    pub queues: BTreeMap<QueueName, u64>,
    pub ran_by: BTreeMap<RanBy, u64>,
    /// The latest of them.
    pub sample: Job,
}

/// Dead jobs, group by group.
#[derive(Clone, Debug, Default)]
pub struct Failures {
    groups: BTreeMap<String, FailureGroup>,
    fingerprints: BTreeMap<String, String>,
    /// Jobs of groups for which there was no room.
    pub others: u64,
}

impl Failures {
    /// Counts a job, if it is dead.
    pub fn add(&mut self, job: &Job) {
        let Some(error) = job.died_of() else { return };
        let fingerprint = match self.fingerprints.get(error) {
            Some(known) => known.clone(),
            None => {
                let found = fingerprint(error);
                if self.fingerprints.len() < REMEMBERED {
                    self.fingerprints.insert(error.to_owned(), found.clone());
                }
                found
            }
        };
        let at = job.failed_at.unwrap_or(job.updated_at);
        if !self.groups.contains_key(&fingerprint) {
            if self.groups.len() >= GROUPS {
                self.others += 1;
                return;
            }
            let group = FailureGroup {
                fingerprint: fingerprint.clone(),
                pattern: pattern(error),
                count: 0,
                first: at,
                last: at,
                queues: BTreeMap::new(),
                ran_by: BTreeMap::new(),
                sample: job.clone(),
            };
            self.groups.insert(fingerprint.clone(), group);
        }
        if let Some(group) = self.groups.get_mut(&fingerprint) {
            group.add(job, at);
        }
    }

    /// The groups with the most jobs first; of the same size, the latest.
    pub fn into_groups(self) -> Vec<FailureGroup> {
        let mut groups: Vec<FailureGroup> = self.groups.into_values().collect();
        groups.sort_by(|one, other| other.count.cmp(&one.count).then(other.last.cmp(&one.last)));
        groups
    }
}

impl FailureGroup {
    fn add(&mut self, job: &Job, at: Time) {
        fn count<K: Ord>(counts: &mut BTreeMap<K, u64>, key: K) {
            if counts.len() < PARTS || counts.contains_key(&key) {
                *counts.entry(key).or_default() += 1;
            }
        }
        self.count += 1;
        self.first = self.first.min(at);
        if at > self.last {
            self.last = at;
            self.sample = job.clone();
        }
        count(&mut self.queues, job.queue.clone());
        let ran_by = match &job.ran_by {
            Some(Runner::Local { plugin, version }) => {
                RanBy::Plugin { plugin: plugin.clone(), version: version.clone() }
            }
            Some(Runner::External { .. }) => RanBy::Worker,
            None => RanBy::Nobody,
        };
        count(&mut self.ran_by, ran_by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JobId;

    fn dead(n: u64, queue: &str, error: Option<&str>) -> Job {
        let mut job = Job::new(JobId::new(Time(n), u128::from(n)), queue.parse().expect("a name"), Time(n));
        job.enter(State::Dead, Time(n), "expired");
        job.failed_at = Some(Time(n));
        job.last_error = error.map(str::to_owned);
        job
    }

    #[test]
    fn dead_jobs_of_one_error_are_one_group_with_its_times_queues_and_latest_job() {
        let mut failures = Failures::default();
        let version = "ab".repeat(32);
        let plugin: Name = "shop".parse().expect("a name");
        let mut first = dead(30, "orders", Some("no stock for order 17"));
        first.ran_by = Some(Runner::Local { plugin: plugin.clone(), version: version.clone() });
        let second = dead(90, "returns", Some("no stock for order 18"));
        let third = dead(60, "orders", Some("no stock for order 17"));
        [&first, &second, &third, &dead(40, "orders", None)].into_iter().for_each(|job| failures.add(job));
        let mut waiting = dead(50, "orders", Some("no stock for order 1"));
        waiting.state = State::Retrying;
        failures.add(&waiting);

        let groups = failures.into_groups();
        assert_eq!(groups.len(), 2);
        let stock = &groups[0];
        assert_eq!((stock.count, stock.first, stock.last), (3, Time(30), Time(90)));
        assert_eq!((&*stock.pattern, stock.sample.id), ("no stock for order <n>", second.id));
        assert_eq!(second.error_fingerprint().as_ref(), Some(&stock.fingerprint));
        let queues: Vec<_> = stock.queues.iter().map(|(queue, count)| (queue.as_str(), *count)).collect();
        assert_eq!(queues, [("orders", 2), ("returns", 1)]);
        assert_eq!(stock.ran_by, [(RanBy::Plugin { plugin, version }, 1), (RanBy::Nobody, 2)].into());
        assert_eq!((groups[1].count, &*groups[1].pattern), (1, "expired"), "without an error it is the reason");
    }

    #[test]
    fn jobs_of_too_many_groups_are_only_counted() {
        let mut failures = Failures::default();
        for n in 0..GROUPS as u64 + 5 {
            let letters: String = n.to_string().bytes().map(|digit| (b'a' + digit - b'0') as char).collect();
            failures.add(&dead(n, "q", Some(&letters)));
        }
        assert_eq!((failures.others, failures.groups.len()), (5, GROUPS));
        failures.add(&dead(9, "q", Some("a")));
        assert_eq!(failures.others, 5, "a group that is known is still counted");
    }
}
