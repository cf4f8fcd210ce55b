//! `GET /usage/summary`: what jobs that ended lately used, added up. How it is added up is a rule of core.

use std::time::{Duration, Instant};

use axum::Json;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windlass_core::report::{UsageBy, UsageReport, UsageSum};
use windlass_core::{State, Time};
use windlass_store::Clock;
use windlass_store::search::Filter;

use crate::http::Api;
use crate::http::jobs::UnreadableJobs;
use crate::http::transport::error::{Error, Result};
use crate::http::transport::extract::Query;
use crate::http::wire::{Rfc3339, Span};
use crate::limits;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct UsageQuery {
    /// Jobs that ended in this time until now, such as `24h`. The default is `7d`.
    period: Option<String>,
    /// queue (the default), plugin, version, model, namespace, or tag:KEY.
    group_by: Option<String>,
    /// How many groups at most, those of the highest cost, then of the most processor time; 100 by default.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct UsageSummary {
    period_ms: u64,
    /// Jobs that ended from here on.
    since: Rfc3339,
    totals: UsageTotals,
    /// The groups of the highest cost first, then those of the most processor time.
    groups: Vec<UsageOfGroup>,
    /// All groups beyond `limit`, added up; only if there are such groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    other: Option<UsageTotals>,
    /// Whether all jobs of the period were looked at. If not, the figures are those of the latest.
    complete: bool,
    /// How many were looked at.
    looked_at: u64,
    duration_ms: u64,
    /// Only if there are such jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<UnreadableJobs>,
}

#[derive(Debug, Serialize, ToSchema)]
struct UsageOfGroup {
    /// `null` for jobs without a value: no plugin ran them, they have no such tag, or no model was named.
    key: Option<String>,
    #[serde(flatten)]
    used: UsageTotals,
}

/// What some jobs used together.
#[derive(Debug, Serialize, ToSchema)]
struct UsageTotals {
    jobs: u64,
    completed: u64,
    dead: u64,
    cancelled: u64,
    /// Of the last attempt of each job, if it ran in the sandbox.
    cpu_ms: u64,
    wall_ms: u64,
    /// The most memory that one of these attempts had, in bytes.
    peak_memory: u64,
    /// How many jobs reported tokens or a cost. These are of all their attempts.
    reported: u64,
    input_tokens: u64,
    output_tokens: u64,
    cache_creation_tokens: u64,
    cache_read_tokens: u64,
    cost_usd: f64,
}

impl From<UsageSum> for UsageTotals {
    fn from(sum: UsageSum) -> UsageTotals {
        UsageTotals {
            jobs: sum.jobs,
            completed: sum.completed,
            dead: sum.dead,
            cancelled: sum.cancelled,
            cpu_ms: sum.cpu_ms,
            wall_ms: sum.wall_ms,
            peak_memory: sum.peak_memory,
            reported: sum.reported,
            input_tokens: sum.input_tokens,
            output_tokens: sum.output_tokens,
            cache_creation_tokens: sum.cache_creation_tokens,
            cache_read_tokens: sum.cache_read_tokens,
            cost_usd: sum.cost_usd,
        }
    }
}

/// Show what jobs used
///
/// Processor time, memory, tokens and cost of the jobs that ended in a period and are still stored, in all and by
/// queue, plugin, version, model, namespace or tag.
#[utoipa::path(get, path = "/usage/summary", tag = "jobs", params(UsageQuery), responses((status = 200, body = UsageSummary)))]
pub async fn summary(api: Api, Query(query): Query<UsageQuery>) -> Result<Json<UsageSummary>> {
    let began = Instant::now();
    let period = period(query.period.as_deref())?;
    let by = query.group_by.as_deref().map_or(Ok(UsageBy::default()), group)?;
    let limit = query.limit.unwrap_or(limits::GROUPS);
    if !(1..=limits::GROUPS_MOST).contains(&limit) {
        return Err(Error::field("limit", format!("1 to {} groups, not {limit}", limits::GROUPS_MOST)));
    }
    let since = Time(api.clock.now().millis().saturating_sub(period.as_millis() as u64));
    let filter = Filter { states: vec![State::Completed, State::Dead, State::Cancelled], ..Filter::default() };
    let report = UsageReport::by(by);
    let survey = api.store.survey(filter, Some(since), limits::USAGE_LOOKED_AT, report, UsageReport::add).await?;
    let totals = survey.found.totals;
    let (groups, other) = survey.found.into_groups(limit);
    let of_group = |(key, used): (Option<String>, UsageSum)| UsageOfGroup { key, used: used.into() };
    Ok(Json(UsageSummary {
        period_ms: period.as_millis() as u64,
        since: Rfc3339(since),
        totals: totals.into(),
        groups: groups.into_iter().map(of_group).collect(),
        other: (other.jobs > 0).then(|| other.into()),
        complete: survey.complete,
        looked_at: survey.looked_at,
        duration_ms: began.elapsed().as_millis() as u64,
        unreadable: UnreadableJobs::of(survey.unreadable),
    }))
}

fn period(text: Option<&str>) -> Result<Duration> {
    let Some(text) = text else { return Ok(limits::USAGE_PERIOD) };
    let period = Span::parse(text).map_err(|why| Error::field("period", why))?.0;
    if period.is_zero() || period > limits::USAGE_PERIOD_MOST {
        return Err(Error::field("period", format!("more than nothing and at most `400d`, not {text:?}")));
    }
    Ok(period)
}

fn group(word: &str) -> Result<UsageBy> {
    let wrong = || Error::field("group_by", format!("{word:?} is not one of {} or tag:KEY", UsageBy::WORDS.join(", ")));
    UsageBy::parse(word).ok_or_else(wrong)
}
