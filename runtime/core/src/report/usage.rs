//! What ended jobs used, added up: processor time, memory, tokens and money.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use crate::{Job, Runner, State};

/// Groups that are told apart; the jobs of further ones are added up as one.
const GROUPS: usize = 1_000;

/// By what usage is told apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum UsageBy {
    #[default]
    Queue,
    /// The plugin that ran the last attempt.
    Plugin,
    /// Its version.
    Version,
    /// The model that was named last.
    Model,
    Namespace,
    /// The value of this tag.
    Tag(String),
}

impl UsageBy {
    pub const WORDS: [&'static str; 5] = ["queue", "plugin", "version", "model", "namespace"];

    /// From its name, as in `tag:customer`.
    pub fn parse(word: &str) -> Option<UsageBy> {
        Some(match word {
            "queue" => UsageBy::Queue,
            "plugin" => UsageBy::Plugin,
            "version" => UsageBy::Version,
            "model" => UsageBy::Model,
            "namespace" => UsageBy::Namespace,
            other => UsageBy::Tag(other.strip_prefix("tag:").filter(|key| !key.is_empty())?.to_owned()),
        })
    }

    fn of(&self, job: &Job) -> Option<String> {
        match (self, &job.ran_by) {
            (UsageBy::Queue, _) => Some(job.queue.to_string()),
            (UsageBy::Plugin, Some(Runner::Local { plugin, .. })) => Some(plugin.to_string()),
            (UsageBy::Version, Some(Runner::Local { version, .. })) => Some(version.clone()),
            (UsageBy::Plugin | UsageBy::Version, _) => None,
            (UsageBy::Model, _) => job.spending.as_ref()?.total.model.clone(),
            (UsageBy::Namespace, _) => Some(job.queue.namespace().to_string()),
            (UsageBy::Tag(key), _) => job.tags.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone()),
        }
    }
}

/// What some jobs used together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct UsageSum {
    pub jobs: u64,
    pub completed: u64,
    pub dead: u64,
    pub cancelled: u64,
    /// Of the last attempt of each.
    pub cpu_ms: u64,
    pub wall_ms: u64,
    /// The most of any.
    pub peak_memory: u64,
    /// Of all attempts of those that reported tokens or a cost.
    pub reported: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cache_creation_tokens: u64,
    pub cache_read_tokens: u64,
    pub cost_usd: f64,
}

impl UsageSum {
    fn of(job: &Job) -> UsageSum {
        let used = job.usage.unwrap_or_default();
        let spent = job.spending.as_ref().map(|spending| &spending.total);
        let tokens = |of: fn(&crate::ModelUsage) -> u64| spent.map_or(0, of);
        UsageSum {
            jobs: 1,
            completed: u64::from(job.state == State::Completed),
            dead: u64::from(job.state == State::Dead),
            cancelled: u64::from(job.state == State::Cancelled),
            cpu_ms: used.cpu_ms,
            wall_ms: used.wall_ms,
            peak_memory: used.peak_memory,
            reported: u64::from(spent.is_some()),
            input_tokens: tokens(|spent| spent.input_tokens),
            output_tokens: tokens(|spent| spent.output_tokens),
            cache_creation_tokens: tokens(|spent| spent.cache_creation_tokens),
            cache_read_tokens: tokens(|spent| spent.cache_read_tokens),
            cost_usd: spent.map_or(0.0, |spent| spent.cost_usd),
        }
    }
}

impl AddAssign for UsageSum {
    fn add_assign(&mut self, more: UsageSum) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.jobs, more.jobs);
        add(&mut self.completed, more.completed);
        add(&mut self.dead, more.dead);
        add(&mut self.cancelled, more.cancelled);
        add(&mut self.cpu_ms, more.cpu_ms);
        add(&mut self.wall_ms, more.wall_ms);
        self.peak_memory = self.peak_memory.max(more.peak_memory);
        add(&mut self.reported, more.reported);
        add(&mut self.input_tokens, more.input_tokens);
        add(&mut self.output_tokens, more.output_tokens);
        add(&mut self.cache_creation_tokens, more.cache_creation_tokens);
        add(&mut self.cache_read_tokens, more.cache_read_tokens);
        self.cost_usd += more.cost_usd;
    }
}

/// Usage, group by group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UsageReport {
    by: UsageBy,
    pub totals: UsageSum,
    /// By the value of each; those without one are under `None`.
    groups: BTreeMap<Option<String>, UsageSum>,
    /// Of groups for which there was no room.
    others: UsageSum,
}

impl UsageReport {
    pub fn by(by: UsageBy) -> UsageReport {
        UsageReport { by, ..UsageReport::default() }
    }

    pub fn add(&mut self, job: &Job) {
        let used = UsageSum::of(job);
        self.totals += used;
        let key = self.by.of(job);
        if self.groups.len() >= GROUPS && !self.groups.contains_key(&key) {
            self.others += used;
        } else {
            *self.groups.entry(key).or_default() += used;
        }
    }

    /// So many groups, the dearest first; of the same cost, those that took more processor time, then those of more
    /// jobs. What all others used is added up beside them.
    pub fn into_groups(self, most: usize) -> (Vec<(Option<String>, UsageSum)>, UsageSum) {
        let mut groups: Vec<_> = self.groups.into_iter().collect();
        groups.sort_by(|(_, one), (_, other)| {
            let cost = other.cost_usd.total_cmp(&one.cost_usd);
            cost.then(other.cpu_ms.cmp(&one.cpu_ms)).then(other.jobs.cmp(&one.jobs))
        });
        let mut others = self.others;
        groups.drain(most.min(groups.len())..).for_each(|(_, used)| others += used);
        (groups, others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{JobId, ModelUsage, ModelUsageTotals, Time, Usage};

    fn ended(n: u64, queue: &str, cpu_ms: u64, cost_usd: Option<f64>) -> Job {
        let mut job = Job::new(JobId::new(Time(n), u128::from(n)), queue.parse().expect("a name"), Time(n));
        job.enter(State::Completed, Time(n), "");
        job.usage = Some(Usage { cpu_ms, wall_ms: 2 * cpu_ms, peak_memory: cpu_ms, ..Usage::default() });
        job.tags = vec![("customer".to_owned(), format!("c{}", n % 2))];
        job.spending = cost_usd.map(|cost_usd| {
            let total = ModelUsage { input_tokens: 5, model: Some("m".into()), cost_usd, ..ModelUsage::default() };
            Box::new(ModelUsageTotals { total, ..ModelUsageTotals::default() })
        });
        job
    }

    fn report(by: &str) -> UsageReport {
        let mut report = UsageReport::by(UsageBy::parse(by).expect("a known word"));
        let mut dead = ended(4, "b", 30, None);
        dead.state = State::Dead;
        [ended(1, "a", 10, Some(0.5)), ended(2, "a", 20, Some(0.25)), dead].iter().for_each(|job| report.add(job));
        report
    }

    #[test]
    fn usage_adds_up_in_all_and_by_group_with_the_dearest_first() {
        let by_queue = report("queue");
        let totals = by_queue.totals;
        assert_eq!((totals.jobs, totals.completed, totals.dead, totals.cpu_ms), (3, 2, 1, 60));
        assert_eq!((totals.wall_ms, totals.peak_memory, totals.reported, totals.input_tokens), (120, 30, 2, 10));
        assert!((totals.cost_usd - 0.75).abs() < 1e-9);
        let (groups, others) = by_queue.into_groups(10);
        assert_eq!(others, UsageSum::default());
        let short: Vec<_> = groups.iter().map(|(key, sum)| (key.as_deref(), sum.jobs, sum.cpu_ms)).collect();
        assert_eq!(short, [(Some("a"), 2, 30), (Some("b"), 1, 30)]);
        let keys = |by| report(by).into_groups(10).0.into_iter().map(|(key, _)| key).collect::<Vec<_>>();
        assert_eq!(keys("model"), [Some("m".to_owned()), None]);
        assert_eq!(keys("tag:customer"), [Some("c1".to_owned()), Some("c0".to_owned())]);
        assert_eq!(keys("plugin"), [None], "nobody here ran in a plugin");
        let (first, others) = report("queue").into_groups(1);
        assert_eq!((first.len(), others.jobs, others.cpu_ms), (1, 1, 30));
    }

    #[test]
    fn words_that_name_no_group_are_refused() {
        for wrong in ["", "tag:", "colour", "Queue"] {
            assert_eq!(UsageBy::parse(wrong), None, "{wrong:?}");
        }
        assert!(UsageBy::WORDS.into_iter().all(|word| UsageBy::parse(word).is_some()));
    }

    #[test]
    fn beyond_so_many_groups_the_rest_is_one() {
        let mut report = UsageReport::by(UsageBy::Queue);
        for n in 0..GROUPS as u64 + 3 {
            report.add(&ended(n, &format!("q{n}"), 1, None));
        }
        assert_eq!((report.groups.len(), report.others.jobs, report.totals.jobs), (GROUPS, 3, GROUPS as u64 + 3));
    }
}
