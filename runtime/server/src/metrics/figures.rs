//! What the attempts of each version of a plugin used, and what its attempts were denied: since the start of this
//! process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass_core::{Denial, Findings, JobId, Name, Usage};

use crate::limits;

/// Cheap to clone.
#[derive(Clone, Default)]
pub struct PluginFigures(Arc<Mutex<HashMap<Name, OfPlugin>>>);

#[derive(Default)]
struct OfPlugin {
    versions: HashMap<String, VersionFigures>,
    /// The latest ones, each grant once.
    denials: Vec<SeenDenial>,
}

/// A denial, how often it was seen, and in which job last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenDenial {
    pub denial: Denial,
    pub job: JobId,
    pub times: u64,
}

/// The attempts of one version that have ended.
#[derive(Clone, Debug, Default)]
pub struct VersionFigures {
    pub attempts: u64,
    pub completed: u64,
    pub failed: u64,
    pub run_ms: Distribution,
    pub cpu_ms: Distribution,
    pub memory_bytes: Distribution,
}

/// How an attempt ended, as far as it counts here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Completed,
    Failed,
    /// Handed back, stopped, or waiting for its children.
    Otherwise,
}

/// One attempt that has ended.
pub struct EndedAttempt<'a> {
    pub plugin: &'a Name,
    pub version: &'a str,
    pub job: JobId,
    pub ended: Ended,
    pub usage: Usage,
    pub findings: &'a Findings,
}

impl PluginFigures {
    pub fn add(&self, attempt: &EndedAttempt<'_>) {
        let mut plugins = self.lock();
        let is_known = plugins.contains_key(attempt.plugin);
        if !is_known && plugins.len() >= limits::FIGURES_OF_PLUGINS {
            return;
        }
        let plugin = plugins.entry(attempt.plugin.clone()).or_default();
        plugin.deny(attempt);
        // Attempts that never reached their handler used nothing, and say nothing about it.
        if attempt.usage == Usage::default() && attempt.ended == Ended::Otherwise {
            return;
        }
        if !plugin.versions.contains_key(attempt.version) && plugin.versions.len() >= windlass_core::bounds::VERSIONS {
            return;
        }
        plugin.versions.entry(attempt.version.to_owned()).or_default().add(attempt);
    }

    pub fn of_version(&self, plugin: &Name, version: &str) -> VersionFigures {
        let plugins = self.lock();
        plugins.get(plugin).and_then(|plugin| plugin.versions.get(version)).cloned().unwrap_or_default()
    }

    /// What attempts of a plugin were denied, the latest last.
    pub fn denials(&self, plugin: &Name) -> Vec<SeenDenial> {
        self.lock().get(plugin).map(|plugin| plugin.denials.clone()).unwrap_or_default()
    }

    /// Forgets what is not there any more.
    pub fn keep(&self, plugin: &Name, exists: bool, versions: &[String]) {
        let mut plugins = self.lock();
        if !exists {
            plugins.remove(plugin);
        } else if let Some(known) = plugins.get_mut(plugin) {
            known.versions.retain(|version, _| versions.contains(version));
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Name, OfPlugin>> {
        // A count that is lost by a panic is one count.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OfPlugin {
    fn deny(&mut self, attempt: &EndedAttempt<'_>) {
        for denial in &attempt.findings.denials {
            let same = |seen: &SeenDenial| {
                (&seen.denial.capability, &seen.denial.grant) == (&denial.capability, &denial.grant)
            };
            let times = match self.denials.iter().position(same) {
                Some(at) => self.denials.remove(at).times + 1,
                None => 1,
            };
            if self.denials.len() >= limits::DENIALS_OF_PLUGIN {
                self.denials.remove(0);
            }
            self.denials.push(SeenDenial { denial: denial.clone(), job: attempt.job, times });
        }
    }
}

impl VersionFigures {
    fn add(&mut self, attempt: &EndedAttempt<'_>) {
        self.attempts += 1;
        match attempt.ended {
            Ended::Completed => self.completed += 1,
            Ended::Failed => self.failed += 1,
            Ended::Otherwise => {}
        }
        self.run_ms.add(attempt.usage.wall_ms);
        self.cpu_ms.add(attempt.usage.cpu_ms);
        self.memory_bytes.add(attempt.usage.peak_memory);
    }
}

/// How many values were how large, in steps of a quarter of a power of two: a percentile is off by a tenth at most.
#[derive(Clone, Debug)]
pub struct Distribution {
    counts: [u32; Distribution::BUCKETS],
    pub max: u64,
}

impl Distribution {
    const BUCKETS: usize = 4 * 48;

    pub fn add(&mut self, value: u64) {
        self.counts[Distribution::bucket(value)] += 1;
        self.max = self.max.max(value);
    }

    pub fn count(&self) -> u64 {
        self.counts.iter().map(|count| u64::from(*count)).sum()
    }

    /// The value that so many percent do not exceed.
    pub fn percentile(&self, percent: u64) -> Option<u64> {
        let total = self.count();
        let rank = (total * percent).div_ceil(100).max(1);
        let mut seen = 0;
        let bucket = self.counts.iter().position(|count| {
            seen += u64::from(*count);
            seen >= rank
        })?;
        Some(Distribution::most_of(bucket).min(self.max))
    }

    fn bucket(value: u64) -> usize {
        if value < 4 {
            return value as usize;
        }
        let power = value.ilog2() as usize;
        // The two bits below the highest one.
        let quarter = (value >> (power - 2)) as usize & 3;
        (power * 4 + quarter - 4).min(Distribution::BUCKETS - 1)
    }

    /// The largest value of a bucket.
    fn most_of(bucket: usize) -> u64 {
        if bucket < 4 {
            return bucket as u64;
        }
        let (power, quarter) = ((bucket + 4) / 4, (bucket + 4) % 4);
        ((5 + quarter as u64) << (power - 2)) - 1
    }
}

impl Default for Distribution {
    fn default() -> Distribution {
        Distribution { counts: [0; Distribution::BUCKETS], max: 0 }
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::Time;

    use super::*;

    #[test]
    fn percentiles_are_off_by_a_quarter_of_a_power_of_two_at_most() {
        let mut spread = Distribution::default();
        assert_eq!(spread.percentile(50), None);
        (1..=1_000).for_each(|value| spread.add(value));
        assert_eq!((spread.count(), spread.max), (1_000, 1_000));
        for (percent, exact) in [(50, 500.0), (95, 950.0), (99, 990.0)] {
            let found = spread.percentile(percent).expect("values") as f64;
            assert!((found / exact - 1.0).abs() < 0.25, "{percent}: {found}");
        }
        assert_eq!(spread.percentile(100), Some(1_000));
        for value in [0, 1, 3, 4, 5, 7, 8, 1_023, 1_024, 1 << 40, u64::MAX] {
            let bucket = Distribution::bucket(value);
            let last = bucket == Distribution::BUCKETS - 1;
            assert!(last || Distribution::most_of(bucket) >= value, "{value}");
            assert!(bucket == 0 || Distribution::most_of(bucket - 1) < value, "{value}");
        }
    }

    #[test]
    fn a_denial_is_listed_once_with_how_often_it_was_seen() {
        let (figures, plugin) = (PluginFigures::default(), "mailer".parse::<Name>().expect("a name"));
        let denial = |grant: &str, at| Denial {
            at: Time(at),
            capability: "http".to_owned(),
            wanted: grant.to_owned(),
            grant: grant.to_owned(),
        };
        let ended = |job, denials: Vec<Denial>| {
            let findings = Findings { denials, ..Findings::default() };
            let usage = Usage { cpu_ms: 5, wall_ms: 7, peak_memory: 1 << 20, ..Usage::default() };
            let (ended, version) = (Ended::Failed, "v1");
            figures.add(&EndedAttempt { plugin: &plugin, version, job, ended, usage, findings: &findings });
        };
        let job = |number| JobId::new(Time(1), number);
        ended(job(1), vec![denial("a.com", 1), denial("b.com", 2)]);
        ended(job(2), vec![denial("a.com", 3)]);
        let seen = figures.denials(&plugin);
        let told: Vec<_> = seen.iter().map(|one| (&*one.denial.grant, one.times, one.job)).collect();
        assert_eq!(told, [("b.com", 1, job(1)), ("a.com", 2, job(2))]);
        let of = figures.of_version(&plugin, "v1");
        assert_eq!((of.attempts, of.failed, of.completed, of.cpu_ms.percentile(50)), (2, 2, 0, Some(5)));
        figures.keep(&plugin, true, &[]);
        assert_eq!(figures.of_version(&plugin, "v1").attempts, 0);
        figures.keep(&plugin, false, &[]);
        assert!(figures.denials(&plugin).is_empty());
    }
}
