//! A job's children: a page of them with their results, and the tree below a job.

use axum::Json;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windlass_core::{BodyKind, Job, QueueName, Refusal};
use windlass_store::Store;

use crate::http::Api;
use crate::http::transport::error::Result;
use crate::http::transport::extract::{JobPath, Query};
use crate::http::wire::{GroupCounts, NameText, Shown, StateName};
use crate::limits;

/// The counters of a job's children; `None` if it has none.
pub async fn counts(store: &Store, job: &Job) -> Result<Option<GroupCounts>> {
    if job.children == 0 && job.adopted() == 0 {
        return Ok(None);
    }
    Ok(store.family(job.id).await?.map(|family| family.tally.into()))
}

#[derive(Debug, Deserialize, IntoParams)]
pub struct ChildrenQuery {
    /// The number of the first child: `next` of the previous page.
    #[serde(default)]
    from: u64,
    limit: Option<usize>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ChildrenPage {
    #[serde(flatten)]
    counts: Option<GroupCounts>,
    children: Vec<ChildView>,
    /// Where the next page starts; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<u64>,
}

#[derive(Debug, Serialize, ToSchema)]
struct ChildView {
    id: String,
    #[schema(value_type = NameText)]
    queue: QueueName,
    #[schema(value_type = StateName)]
    state: &'static str,
    #[schema(value_type = serde_json::Value)]
    result: Option<Shown>,
    /// The result is too large for a list: `GET /jobs/{id}` has it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    result_omitted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// The children of a job, with their results
///
/// In the order in which they were spawned, followed by those that were enqueued with `parent_id`. Removed children are
/// left out.
#[utoipa::path(get, path = "/jobs/{id}/children", tag = "flows", params(ChildrenQuery), responses((status = 200, body = ChildrenPage), (status = 404, description = "There is no such job.")))]
pub async fn list(api: Api, JobPath(id): JobPath, Query(query): Query<ChildrenQuery>) -> Result<Json<ChildrenPage>> {
    let store = api.store.frozen();
    let job = store.job(id).await?.ok_or_else(|| Refusal::not_found("job", id))?;
    let limit = query.limit.unwrap_or(limits::PAGE).clamp(1, limits::PAGE_MOST);
    let (found, next) = store.children(&job, query.from, limit).await?;
    let mut children = Vec::with_capacity(found.len());
    for (_, child) in found {
        let large = child.result.len() > limits::EVENT_RESULT;
        let result = if large { None } else { store.body(&child, BodyKind::Result).await? };
        children.push(ChildView {
            id: child.id.to_string(),
            queue: child.queue,
            state: child.state.as_str(),
            result: result.map(Shown),
            result_omitted: large,
            error: child.last_error,
        });
    }
    Ok(Json(ChildrenPage { counts: counts(&store, &job).await?, children, next }))
}

/// A job and its descendants.
#[derive(Debug, Serialize, ToSchema)]
pub struct Tree {
    id: String,
    #[schema(value_type = NameText)]
    queue: QueueName,
    #[schema(value_type = StateName)]
    state: &'static str,
    /// The progress of the job and its descendants in percent, each child by its weight.
    percent: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    children: Option<GroupCounts>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(no_recursion)]
    jobs: Vec<Tree>,
    /// How many children are not shown, because the tree is limited in size.
    #[serde(skip_serializing_if = "is_zero")]
    omitted: u64,
    #[serde(skip)]
    ended: bool,
    #[serde(skip)]
    weight: f64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The tree below a job
///
/// A few hundred jobs at most; `percent` is the weighted progress of the leaves.
#[utoipa::path(get, path = "/jobs/{id}/tree", tag = "flows", responses((status = 200, body = Tree), (status = 404, description = "There is no such job.")))]
pub async fn tree(api: Api, JobPath(id): JobPath) -> Result<Json<Tree>> {
    let store = api.store.frozen();
    let job = store.job(id).await?.ok_or_else(|| Refusal::not_found("job", id))?;
    let mut room = limits::FLOW_NODES;
    Ok(Json(grow(&store, job, &mut room).await?))
}

/// Builds the tree depth first, until `room` is used up; the rest is only counted.
async fn grow(store: &Store, job: Job, room: &mut usize) -> Result<Tree> {
    let counts = counts(store, &job).await?;
    let mut tree = leaf(&job);
    tree.children = counts;
    let Some(counts) = counts else { return Ok(tree) };
    let (children, _) = store.children(&job, 0, (*room).min(limits::FLOW_CHILDREN)).await?;
    *room = room.saturating_sub(children.len());
    for (_, child) in children {
        tree.jobs.push(Box::pin(grow(store, child, room)).await?);
    }
    tree.omitted = counts.total.saturating_sub(tree.jobs.len() as u64);
    let shown = tree.jobs.iter().filter(|child| child.ended).count() as u64;
    let omitted_ended = (counts.total - counts.open).saturating_sub(shown).min(tree.omitted);
    let parts = tree.jobs.iter().map(|child| (child.percent, child.weight));
    let unseen = [(100.0, omitted_ended as f64), (0.0, (tree.omitted - omitted_ended) as f64)];
    if !job.is_ended() {
        tree.percent = windlass_core::flow::rolled_up(parts.chain(unseen));
    }
    Ok(tree)
}

fn leaf(job: &Job) -> Tree {
    Tree {
        id: job.id.to_string(),
        queue: job.queue.clone(),
        state: job.state.as_str(),
        percent: windlass_core::flow::percent(job),
        children: None,
        jobs: Vec::new(),
        omitted: 0,
        ended: job.is_ended(),
        weight: job.progress.as_ref().and_then(|progress| progress.weight).unwrap_or(1.0),
    }
}
