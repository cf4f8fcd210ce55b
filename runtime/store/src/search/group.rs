//! Counting jobs by a value that each of them has at most once.

use std::borrow::Cow;

use windlass_core::{Job, Runner};

use crate::Unreadable;

/// By what jobs are counted apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupBy {
    State,
    Queue,
    Priority,
    /// The plugin that runs it, or ran it last.
    Plugin,
    PluginVersion,
    Worker,
    Schedule,
    Batch,
    Round,
    LimitKey,
    CreatedBy,
    /// The value of this tag.
    Tag(String),
}

/// How many jobs pass a filter, and how many of each value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    pub total: u64,
    /// The largest first; those without a value count as `None`.
    pub groups: Vec<(Option<String>, u64)>,
    /// Jobs that could not be read: whether they pass the filter is not known.
    pub unreadable: Unreadable,
}

impl GroupBy {
    /// The value of a job.
    pub fn of<'a>(&self, job: &'a Job) -> Option<Cow<'a, str>> {
        let runner = || job.run.as_ref().map(|run| &run.runner).or(job.ran_by.as_ref());
        match self {
            GroupBy::State => Some(job.state.as_str().into()),
            GroupBy::Queue => Some(job.queue.as_str().into()),
            GroupBy::Priority => Some(job.priority.as_str().into()),
            GroupBy::Plugin => match runner()? {
                Runner::Local { plugin, .. } => Some(plugin.as_str().into()),
                Runner::External { .. } => None,
            },
            GroupBy::PluginVersion => match runner()? {
                Runner::Local { version, .. } => Some(version.into()),
                Runner::External { .. } => None,
            },
            GroupBy::Worker => match runner()? {
                Runner::Local { .. } => None,
                Runner::External { worker_id, .. } => Some(worker_id.into()),
            },
            GroupBy::Schedule => job.schedule.as_ref().map(|name| name.as_str().into()),
            GroupBy::Batch => job.batch_id.as_deref().map(Cow::from),
            GroupBy::Round => job.round.map(|round| round.to_string().into()),
            GroupBy::LimitKey => job.limit_key.as_deref().map(Cow::from),
            GroupBy::CreatedBy => job.created_by.as_deref().map(Cow::from),
            GroupBy::Tag(key) => job.tags.iter().find(|(name, _)| name == key).map(|(_, value)| value.into()),
        }
    }
}
