//! `POST /jobs/count`: how many jobs match a filter, and how many of each value.

use std::time::Instant;

use axum::Json;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_store::search::{Counted, GroupBy, Search};

use crate::http::Api;
use crate::http::jobs::UnreadableJobs;
use crate::http::transport::error::{Error, Result};
use crate::http::transport::extract::Body;
use crate::http::wire::filter::JobFilter;
use crate::limits;

/// What is counted.
#[derive(Debug, Default, Deserialize, ToSchema)]
struct CountRequest {
    /// As in a search; without one, all jobs.
    #[serde(default)]
    filter: JobFilter,
    /// state, queue, priority, plugin, plugin_version, worker, schedule, batch, round, limit_key, created_by, or
    /// tag:KEY.
    group_by: Option<String>,
    /// How many values at most, those of the most jobs.
    #[schema(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct CountAnswer {
    total: u64,
    /// The values of the most jobs first; empty without `group_by`.
    groups: Vec<CountOfGroup>,
    /// Jobs whose values are not among these.
    other: u64,
    duration_ms: u64,
    /// Only if there are such jobs. Whether they match the filter is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<UnreadableJobs>,
}

#[derive(Debug, Serialize, ToSchema)]
struct CountOfGroup {
    /// `null` for jobs without a value.
    key: Option<String>,
    count: u64,
}

const WORDS: [(&str, GroupBy); 11] = [
    ("state", GroupBy::State),
    ("queue", GroupBy::Queue),
    ("priority", GroupBy::Priority),
    ("plugin", GroupBy::Plugin),
    ("plugin_version", GroupBy::PluginVersion),
    ("worker", GroupBy::Worker),
    ("schedule", GroupBy::Schedule),
    ("batch", GroupBy::Batch),
    ("round", GroupBy::Round),
    ("limit_key", GroupBy::LimitKey),
    ("created_by", GroupBy::CreatedBy),
];

/// Count jobs
///
/// How many match a filter, and how many of each value of one field. Filters are those of a search, and so is what they
/// cost; by state or queue, with no other filter than these, nothing is read but the queues' own counts.
#[utoipa::path(post, path = "/jobs/count", tag = "jobs", request_body = CountRequest, responses((status = 200, body = CountAnswer)))]
pub async fn count(api: Api, body: Body) -> Result<Json<CountAnswer>> {
    let began = Instant::now();
    let CountRequest { filter, group_by, limit } = body.json_or_default()?;
    let limit = limit.unwrap_or(limits::GROUPS);
    if !(1..=limits::GROUPS_MOST).contains(&limit) {
        return Err(Error::field("limit", format!("1 to {} values, not {limit}", limits::GROUPS_MOST)));
    }
    let by = group_by.as_deref().map(group).transpose()?;
    let (filter, payload_filter) = filter.read().await?;
    let search = Search { payload_filter, ..Search::of(filter, 0) };
    let mut counted = match by {
        Some(by) => api.store.count(search, by).await?,
        None => {
            let page = api.store.search(search).await?;
            Counted { total: page.total, groups: Vec::new(), unreadable: page.unreadable }
        }
    };
    let cut = counted.groups.split_off(limit.min(counted.groups.len()));
    Ok(Json(CountAnswer {
        total: counted.total,
        groups: counted.groups.into_iter().map(|(key, count)| CountOfGroup { key, count }).collect(),
        other: cut.iter().map(|(_, count)| count).sum(),
        duration_ms: began.elapsed().as_millis() as u64,
        unreadable: UnreadableJobs::of(counted.unreadable),
    }))
}

fn group(word: &str) -> Result<GroupBy> {
    if let Some(tag) = word.strip_prefix("tag:").filter(|tag| !tag.is_empty()) {
        return Ok(GroupBy::Tag(tag.to_owned()));
    }
    let known = WORDS.into_iter().find(|(name, _)| *name == word);
    known.map(|(_, by)| by).ok_or_else(|| {
        let words = WORDS.map(|(name, _)| name).join(", ");
        Error::field("group_by", format!("{word:?} is not one of {words} or tag:KEY"))
    })
}
