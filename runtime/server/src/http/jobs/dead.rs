//! `GET /dead/groups`: dead jobs by what they died of. Which errors are the same one is a rule of core.

use std::time::Instant;

use axum::Json;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windlass_core::report::{FailureGroup, Failures, RanBy};
use windlass_core::{Job, Name, QueueName, State};
use windlass_store::search::Filter;

use crate::http::Api;
use crate::http::jobs::UnreadableJobs;
use crate::http::transport::error::{Error, Result};
use crate::http::transport::extract::Query;
use crate::http::wire::{NameText, Rfc3339};
use crate::limits;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct GroupsQuery {
    queue: Option<String>,
    /// How many groups at most, those of the most jobs; 50 by default.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct DeadGroups {
    /// All dead jobs.
    total: u64,
    /// How many of them were looked at for the groups, the latest.
    looked_at: u64,
    /// Whether all were looked at. If not, the counts are those of the latest.
    complete: bool,
    /// The groups of the most jobs first.
    groups: Vec<DeadGroup>,
    /// How many groups there are, with those beyond `limit`.
    groups_total: u64,
    duration_ms: u64,
    /// Only if there are such jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<UnreadableJobs>,
}

/// Dead jobs that died of the same error.
#[derive(Debug, Serialize, ToSchema)]
struct DeadGroup {
    /// For the filter `error_fingerprint` of searches and bulk operations.
    fingerprint: String,
    /// What their errors have in common: `no stock for order <n>`.
    pattern: String,
    count: u64,
    /// When the first and the last of them died.
    first_at: Rfc3339,
    last_at: Rfc3339,
    /// Where they are, with the most first.
    queues: Vec<DeadInQueue>,
    /// Who ran their last attempts, with the most first.
    versions: Vec<DeadOfVersion>,
    /// The latest of them, and what it died of.
    sample_job_id: String,
    sample_error: String,
}

#[derive(Debug, Serialize, ToSchema)]
struct DeadInQueue {
    #[schema(value_type = NameText)]
    queue: QueueName,
    count: u64,
}

/// A version of a plugin, or workers; neither, if they died before their first attempt.
#[derive(Debug, Serialize, ToSchema)]
struct DeadOfVersion {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<NameText>)]
    plugin: Option<Name>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plugin_version: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    worker: bool,
    count: u64,
}

/// Dead jobs by their errors
///
/// Errors that differ only in numbers, ids, hexadecimal text, paths and quoted values are one group. A search and a
/// bulk operation find the jobs of a group by `error_fingerprint`.
#[utoipa::path(get, path = "/dead/groups", tag = "jobs", params(GroupsQuery), responses((status = 200, body = DeadGroups)))]
pub async fn groups(api: Api, Query(query): Query<GroupsQuery>) -> Result<Json<DeadGroups>> {
    let began = Instant::now();
    let limit = query.limit.unwrap_or(limits::PAGE);
    if !(1..=limits::GROUPS_MOST).contains(&limit) {
        return Err(Error::field("limit", format!("1 to {} groups, not {limit}", limits::GROUPS_MOST)));
    }
    let queue = query.queue.as_deref().map(|name| Name::parse("queue", name)).transpose()?;
    let filter = Filter { queue, states: vec![State::Dead], ..Filter::default() };
    let survey = api.store.survey(filter, None, limits::DEAD_LOOKED_AT, Failures::default(), Failures::add).await?;
    let groups = survey.found.into_groups();
    Ok(Json(DeadGroups {
        total: survey.total,
        looked_at: survey.looked_at,
        complete: survey.complete,
        groups_total: groups.len() as u64,
        groups: groups.into_iter().take(limit).map(DeadGroup::from).collect(),
        duration_ms: began.elapsed().as_millis() as u64,
        unreadable: UnreadableJobs::of(survey.unreadable),
    }))
}

impl From<FailureGroup> for DeadGroup {
    fn from(group: FailureGroup) -> DeadGroup {
        let queues = group.queues.into_iter().map(|(queue, count)| DeadInQueue { queue, count });
        let versions = group.ran_by.into_iter().map(|(ran_by, count)| DeadOfVersion::of(ran_by, count));
        DeadGroup {
            fingerprint: group.fingerprint,
            pattern: group.pattern,
            count: group.count,
            first_at: Rfc3339(group.first),
            last_at: Rfc3339(group.last),
            queues: most_first(queues, |one| one.count),
            versions: most_first(versions, |one| one.count),
            sample_job_id: group.sample.id.to_string(),
            sample_error: sample(&group.sample),
        }
    }
}

impl DeadOfVersion {
    fn of(ran_by: RanBy, count: u64) -> DeadOfVersion {
        let (plugin, plugin_version, worker) = match ran_by {
            RanBy::Plugin { plugin, version } => (Some(plugin), Some(version), false),
            RanBy::Worker => (None, None, true),
            RanBy::Nobody => (None, None, false),
        };
        DeadOfVersion { plugin, plugin_version, worker, count }
    }
}

fn sample(job: &Job) -> String {
    job.died_of().unwrap_or_default().to_owned()
}

fn most_first<T>(parts: impl Iterator<Item = T>, count: impl Fn(&T) -> u64) -> Vec<T> {
    let mut parts: Vec<T> = parts.collect();
    parts.sort_by_key(|one| std::cmp::Reverse(count(one)));
    parts
}
