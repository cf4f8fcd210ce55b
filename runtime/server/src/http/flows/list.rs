//! `GET /flows` and `GET /batches`: what there is, newest first, without the jobs in it.

use axum::Json;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windlass_core::flow::{FlowKind, FlowSummary};
use windlass_store::{FlowCursor, FlowPage, ListedFlow};

use crate::http::Api;
use crate::http::flows::batches::BatchView;
use crate::http::jobs::UnreadableJobs;
use crate::http::transport::error::{Error, Result};
use crate::http::transport::extract::Query;
use crate::http::wire::{FlowKindName, GroupCounts, Rfc3339};
use crate::limits;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct FlowsQuery {
    /// Only batches, chains, or jobs with children.
    #[serde(default)]
    #[param(inline)]
    kind: Option<FlowKindName>,
    /// `cursor` of the page before.
    cursor: Option<String>,
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct BatchesQuery {
    /// `cursor` of the page before.
    cursor: Option<String>,
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Flows {
    flows: Vec<FlowView>,
    /// Where the next page starts; `null` on the last one.
    cursor: Option<String>,
    has_more: bool,
    /// Only if there are such flows, by the jobs that they began with.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<UnreadableJobs>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Batches {
    batches: Vec<BatchView>,
    /// Where the next page starts; `null` on the last one.
    cursor: Option<String>,
    has_more: bool,
    /// Only if there are such batches; their ids begin with `job_` here.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<UnreadableJobs>,
}

/// A flow in a list.
#[derive(Debug, Serialize, ToSchema)]
struct FlowView {
    /// For `GET /flows/{id}`: that of a batch, of a chain, or of the job at the root of a tree.
    id: String,
    kind: FlowKindName,
    /// The queues of a chain, that of a job, or that of a batch's callback.
    label: String,
    /// `open` while jobs can join, `running`, or `finished` when all its jobs have ended.
    #[schema(value_type = String)]
    state: &'static str,
    /// The members of a batch, the steps of a chain, or a job with its children.
    #[serde(flatten)]
    counts: GroupCounts,
    /// How far it is, in percent.
    percent: f64,
    created_at: Rfc3339,
    /// When the last of it ended.
    ended_at: Option<Rfc3339>,
}

impl From<FlowSummary> for FlowView {
    fn from(flow: FlowSummary) -> FlowView {
        FlowView {
            id: flow.id,
            kind: flow.kind.into(),
            label: flow.label,
            state: flow.status.as_str(),
            counts: flow.tally.into(),
            percent: flow.percent,
            created_at: Rfc3339(flow.created_at),
            ended_at: flow.ended_at.map(Rfc3339),
        }
    }
}

/// List flows
///
/// Batches, chains and trees of jobs, newest first. A page may have fewer than `limit`: go on while `has_more` is true.
#[utoipa::path(get, path = "/flows", tag = "flows", params(FlowsQuery), responses((status = 200, body = Flows)))]
pub async fn list_flows(api: Api, Query(query): Query<FlowsQuery>) -> Result<Json<Flows>> {
    let kinds = query.kind.map_or_else(|| FlowKind::ALL.to_vec(), |kind| vec![kind.into()]);
    let page = page(&api, kinds, query.cursor.as_deref(), query.limit).await?;
    Ok(Json(Flows {
        flows: page.flows.iter().map(|flow| flow.summary().into()).collect(),
        has_more: page.next.is_some(),
        cursor: page.next.map(FlowCursor::to_text),
        unreadable: UnreadableJobs::of(page.unreadable),
    }))
}

/// List batches
///
/// Newest first. A page may have fewer than `limit`: go on while `has_more` is true.
#[utoipa::path(get, path = "/batches", tag = "flows", params(BatchesQuery), responses((status = 200, body = Batches)))]
pub async fn list_batches(api: Api, Query(query): Query<BatchesQuery>) -> Result<Json<Batches>> {
    let page = page(&api, vec![FlowKind::Batch], query.cursor.as_deref(), query.limit).await?;
    let batch = |flow| match flow {
        ListedFlow::Batch(batch) => Some(BatchView::from(batch)),
        ListedFlow::Chain { .. } | ListedFlow::Tree { .. } => None,
    };
    Ok(Json(Batches {
        batches: page.flows.into_iter().filter_map(batch).collect(),
        has_more: page.next.is_some(),
        cursor: page.next.map(FlowCursor::to_text),
        unreadable: UnreadableJobs::of(page.unreadable),
    }))
}

async fn page(api: &Api, kinds: Vec<FlowKind>, cursor: Option<&str>, limit: Option<usize>) -> Result<FlowPage> {
    let limit = limit.unwrap_or(limits::PAGE);
    if !(1..=limits::PAGE_MOST).contains(&limit) {
        return Err(Error::field("limit", format!("1 to {} in one page, not {limit}", limits::PAGE_MOST)));
    }
    let read = |text| {
        let wrong =
            || Error::field("cursor", "the `cursor` of the page before, as it was; leave it out for the first page");
        FlowCursor::from_text(text).ok_or_else(wrong)
    };
    Ok(api.store.flows(kinds, cursor.map(read).transpose()?, limit).await?)
}
