//! `/queues/{name}/rounds` and `/queues/{name}/sweep`: the progress of a queue that runs level by level, and rebuilding
//! the jobs that failed or are marked.

use std::time::Instant;

use axum::Json;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windlass_core::flow::Gate;
use windlass_core::{Name, QueueName, Refusal};
use windlass_store::{RoundRow, RoundsView, SweepFor};

use crate::http::Api;
use crate::http::jobs::bulk;
use crate::http::jobs::bulk::{BulkAccepted, BulkDone};
use crate::http::transport::error::Result;
use crate::http::transport::extract::{Body, NamePath, Query};
use crate::http::wire::{GroupCounts, NameText};
use crate::limits;

/// How far a queue stays behind another.
#[derive(Debug, Deserialize, ToSchema)]
pub struct GateBody {
    /// The queue that is ahead. It must have rounds too.
    #[schema(value_type = NameText)]
    queue: String,
    /// Round r starts when the other is at round r + `lead`, or has completed.
    lead: u32,
    /// The other's round s starts when this queue is at round s - `max_lead`, or has completed.
    max_lead: Option<u32>,
}

impl GateBody {
    pub fn read(self) -> Result<Gate> {
        Ok(Gate { queue: Name::parse("gate.queue", &self.queue)?, lead: self.lead, max_lead: self.max_lead })
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct GateView {
    #[schema(value_type = NameText)]
    queue: QueueName,
    lead: u32,
    max_lead: Option<u32>,
}

impl From<Gate> for GateView {
    fn from(gate: Gate) -> GateView {
        GateView { queue: gate.queue, lead: gate.lead, max_lead: gate.max_lead }
    }
}

/// The state of a queue with rounds.
#[derive(Debug, Serialize, ToSchema)]
pub struct RoundsNow {
    /// `idle` before its first job, `waiting` while a gate holds its round back, `running`, `completed` when all have
    /// ended.
    #[schema(value_type = String)]
    state: &'static str,
    /// The lowest round with a job that has not ended.
    round: Option<u32>,
    /// What that round waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_for: Option<String>,
}

impl From<RoundsView> for RoundsNow {
    fn from(view: RoundsView) -> RoundsNow {
        RoundsNow { state: view.course.phase().as_str(), round: view.course.current, waits_for: view.waits_for }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct RoundView {
    round: u32,
    #[serde(flatten)]
    counts: GroupCounts,
    /// Open jobs that wait only for the round.
    waiting: u64,
    /// The share of jobs that have ended, in percent.
    percent: f64,
}

impl From<RoundRow> for RoundView {
    fn from(row: RoundRow) -> RoundView {
        let RoundRow { number, round } = row;
        RoundView { round: number, percent: round.tally.percent(), counts: round.tally.into(), waiting: round.waiting }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct RoundsAnswer {
    #[serde(flatten)]
    now: RoundsNow,
    rounds: Vec<RoundView>,
    /// Where the next page starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<u32>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct RoundsQuery {
    /// The first round of the page.
    #[serde(default)]
    from: u32,
    limit: Option<usize>,
}

/// List the rounds of a queue, with their counters
#[utoipa::path(
    get,
    path = "/queues/{name}/rounds",
    tag = "queues",
    params(RoundsQuery),
    responses((status = 200, body = RoundsAnswer))
)]
pub async fn list_rounds(
    api: Api,
    NamePath(name): NamePath,
    Query(query): Query<RoundsQuery>,
) -> Result<Json<RoundsAnswer>> {
    let limit = query.limit.unwrap_or(limits::ROUNDS_PAGE).clamp(1, limits::ROUNDS_PAGE);
    let view = api.store.queues().await?.into_iter().find(|view| view.queue.name == name);
    let view = view.ok_or_else(|| Refusal::not_found("queue", &name))?;
    let Some(now) = view.rounds else {
        let why = format!("queue `{name}` has none; POST /queues/{name}/settings with rounds: true turns them on");
        return Err(Refusal::invalid("rounds", why).into());
    };
    let mut rows = api.store.rounds(name, query.from, limit + 1).await?;
    let next = rows.get(limit).map(|row| row.number);
    rows.truncate(limit);
    Ok(Json(RoundsAnswer { now: now.into(), rounds: rows.into_iter().map(RoundView::from).collect(), next }))
}

/// Which jobs of the queue are rebuilt.
#[derive(Debug, Default, Deserialize, ToSchema)]
struct Sweep {
    /// Dead jobs; true by default.
    failed: Option<bool>,
    /// Jobs whose records are marked; true by default.
    marked: Option<bool>,
    /// Cancelled jobs; false by default.
    cancelled: Option<bool>,
    /// Respond immediately instead of waiting for the end.
    #[serde(default, rename = "async")]
    in_background: bool,
}

/// Rebuild jobs that failed or are marked, in all rounds
///
/// The descendants of each such job are removed, and it runs from the start. An accepted sweep is completed even if the
/// server crashes, and nothing exists twice.
#[utoipa::path(
    post,
    path = "/queues/{name}/sweep",
    tag = "queues",
    request_body = Option<Sweep>,
    responses((status = 200, body = BulkDone), (status = 202, body = BulkAccepted))
)]
pub async fn sweep(api: Api, NamePath(name): NamePath, body: Body) -> Result<Response> {
    let began = Instant::now();
    let wanted: Sweep = body.json_or_default()?;
    let sweep = SweepFor {
        failed: wanted.failed.unwrap_or(true),
        marked: wanted.marked.unwrap_or(true),
        cancelled: wanted.cancelled.unwrap_or(false),
    };
    let news = api.store.watch_bulks();
    let taken_on = api.store.sweep(name, sweep).await?;
    bulk::answer(&api, taken_on, news, wanted.in_background, began).await
}
