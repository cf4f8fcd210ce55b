//! The flow that a job belongs to, read from the store: jobs, batches and the edges between them. Limited in size:
//! what exceeds the limit is only counted, in a separate node.

use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;
use utoipa::ToSchema;
use windlass_core::flow::{Batch, Chain, ChainPart, ChainPlace, percent};
use windlass_core::{Job, JobId, Refusal};
use windlass_store::Store;

use crate::http::flows::layout::place;
use crate::http::transport::error::Result;
use crate::http::wire::Rfc3339;
use crate::limits;

#[derive(Debug, Default, Serialize, ToSchema)]
pub struct Flow {
    /// The id in the request.
    pub id: String,
    pub nodes: Vec<FlowNode>,
    pub edges: Vec<FlowEdge>,
    /// There is more than is shown.
    pub truncated: bool,
    /// How large a drawing of it is, with each node where its `x` and `y` say.
    pub width: f64,
    pub height: f64,
    pub node_width: f64,
    pub node_height: f64,
}

#[derive(Debug, Default, Serialize, ToSchema)]
pub struct FlowNode {
    pub id: String,
    /// `job`, `batch`, or `more` for jobs that are only counted.
    #[schema(value_type = String)]
    pub kind: &'static str,
    /// The queue of a job, or what a batch counts.
    pub label: String,
    /// The state of a job or batch.
    pub state: String,
    pub percent: f64,
    /// Its top left corner in a drawing.
    pub x: f64,
    pub y: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Rfc3339>,
    /// When its latest attempt began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Rfc3339>,
    /// When it ended; of a batch, when all its jobs had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Rfc3339>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct FlowEdge {
    pub from: String,
    pub to: String,
    /// `needs`, `child`, `step` or `member`.
    #[schema(value_type = String)]
    pub kind: &'static str,
}

/// Everything that is connected with a job, a batch (`batch_…`) or a chain (`chain_…`).
pub async fn gather(store: &Store, id: &str) -> Result<Flow> {
    let mut walk =
        Walk { store, flow: new_flow(id), known: BTreeMap::new(), edges: BTreeMap::new(), next: VecDeque::new() };
    if Batch::is_id(id) {
        let batch = store.batch(id).await?.ok_or_else(|| Refusal::not_found("flow", id))?;
        walk.batch(batch);
    } else {
        let first = Chain::first(id).or_else(|| id.parse().ok()).ok_or_else(|| Refusal::not_found("flow", id))?;
        let job = store.job(first).await?.ok_or_else(|| Refusal::not_found("flow", id))?;
        walk.add_job(job);
    }
    while let Some(job) = walk.next.pop_front() {
        walk.around(&job).await?;
    }
    Ok(walk.finish())
}

fn new_flow(id: &str) -> Flow {
    Flow { id: id.to_owned(), ..Flow::default() }
}

struct Walk<'a> {
    store: &'a Store,
    flow: Flow,
    /// Where each node is.
    known: BTreeMap<String, usize>,
    edges: BTreeMap<(String, String), &'static str>,
    /// Jobs whose neighbours have not been read yet.
    next: VecDeque<Job>,
}

impl Walk<'_> {
    /// Adds a job; false if there is no room for it.
    fn add_job(&mut self, job: Job) -> bool {
        let id = job.id.to_string();
        if self.known.contains_key(&id) {
            return true;
        }
        let node = FlowNode {
            id,
            kind: "job",
            label: job.queue.to_string(),
            state: job.state.as_str().to_owned(),
            percent: percent(&job),
            created_at: Some(Rfc3339(job.created_at)),
            started_at: job.started_at.map(Rfc3339),
            ended_at: job.completed_at.or(job.failed_at).filter(|_| job.is_ended()).map(Rfc3339),
            ..FlowNode::default()
        };
        let took = self.add(node);
        if took {
            self.next.push_back(job);
        }
        took
    }

    fn add(&mut self, node: FlowNode) -> bool {
        if self.flow.nodes.len() >= limits::FLOW_NODES {
            self.flow.truncated = true;
            return false;
        }
        self.known.insert(node.id.clone(), self.flow.nodes.len());
        self.flow.nodes.push(node);
        true
    }

    fn edge(&mut self, from: &str, to: &str, kind: &'static str) {
        self.edges.insert((from.to_owned(), to.to_owned()), kind);
    }

    fn batch(&mut self, batch: Batch) {
        let node = FlowNode {
            kind: "batch",
            label: format!(
                "{} jobs: {} completed, {} dead, {} cancelled",
                batch.tally.total, batch.tally.completed, batch.tally.dead, batch.tally.cancelled
            ),
            state: batch.standing().as_str().to_owned(),
            percent: batch.tally.percent(),
            created_at: Some(Rfc3339(batch.created_at)),
            ended_at: batch.finished_at.map(Rfc3339),
            id: batch.id,
            ..FlowNode::default()
        };
        self.add(node);
    }

    async fn add_by_id(&mut self, id: JobId) -> Result<bool> {
        if self.known.contains_key(&id.to_string()) {
            return Ok(true);
        }
        Ok(match self.store.job(id).await? {
            Some(job) => self.add_job(job),
            None => false,
        })
    }

    /// Adds what a job is linked to.
    async fn around(&mut self, job: &Job) -> Result<()> {
        let id = job.id.to_string();
        if let Some(parent) = job.parent
            && self.add_by_id(parent).await?
        {
            self.edge(&parent.to_string(), &id, "child");
        }
        self.around_children(job).await?;
        for batch_id in job.batch_id.iter().chain(job.links.as_ref().and_then(|links| links.callback_of.as_ref())) {
            if !self.known.contains_key(batch_id)
                && let Some(batch) = self.store.batch(batch_id).await?
            {
                let callback = batch.callback_job;
                self.batch(batch);
                if let Some(callback) = callback
                    && self.add_by_id(callback).await?
                {
                    self.edge(batch_id, &callback.to_string(), "step");
                }
            }
            if job.batch_id.as_ref() == Some(batch_id) && self.known.contains_key(batch_id) {
                self.edge(&id, batch_id, "member");
            }
        }
        let Some(links) = &job.links else { return Ok(()) };
        if links.depends_on > 0 {
            for linked in self.store.dependencies(job.id, limits::FLOW_CHILDREN).await? {
                if self.add_by_id(linked.id).await? {
                    self.edge(&linked.id.to_string(), &id, "needs");
                }
            }
        }
        if links.dependants > 0 {
            for linked in self.store.dependants(job.id, limits::FLOW_CHILDREN).await? {
                if self.add_by_id(linked.id).await? {
                    self.edge(&id, &linked.id.to_string(), "needs");
                }
            }
            self.more(&id, u64::from(links.dependants), "needs");
        }
        match links.chain {
            Some(place) => self.around_chain(place).await,
            None => Ok(()),
        }
    }

    async fn around_children(&mut self, job: &Job) -> Result<()> {
        let all = u64::from(job.children) + u64::from(job.adopted());
        if all == 0 {
            return Ok(());
        }
        let id = job.id.to_string();
        let (children, _) = self.store.children(job, 0, limits::FLOW_CHILDREN).await?;
        for (_, child) in children {
            let child_id = child.id.to_string();
            if self.add_job(child) {
                self.edge(&id, &child_id, "child");
            }
        }
        self.more(&id, all, "child");
        Ok(())
    }

    /// Adds one node for all neighbours of a job that are not shown, if some are.
    fn more(&mut self, id: &str, all: u64, kind: &'static str) {
        let shown = self.edges.iter().filter(|((from, _), edge)| from == id && **edge == kind).count() as u64;
        if all > limits::FLOW_CHILDREN as u64 && all > shown {
            let node = format!("{id}/{kind}");
            let label = format!("{} more", all - shown);
            self.flow.truncated = true;
            if self.add(FlowNode { id: node.clone(), kind: "more", label, ..FlowNode::default() }) {
                self.edge(id, &node, kind);
            }
        }
    }

    /// The ids of a chain's jobs are derived from its first job, so no list of them is needed.
    async fn around_chain(&mut self, place: ChainPlace) -> Result<()> {
        let Some(chain) = self.store.chain(place.first).await? else { return Ok(()) };
        let mut last = place.first;
        for step in 0..chain.steps.len() as u32 {
            let id = if step == 0 { place.first } else { JobId::of_chain(place.first, step, ChainPart::Step as u8) };
            if step > 0 && !self.add_by_id(id).await? {
                break;
            }
            if step > 0 {
                self.edge(&last.to_string(), &id.to_string(), "step");
            }
            for part in [ChainPart::OnFailure, ChainPart::OnExit] {
                let follower = JobId::of_chain(place.first, step, part as u8);
                if self.add_by_id(follower).await? {
                    self.edge(&id.to_string(), &follower.to_string(), "step");
                }
            }
            last = id;
        }
        Ok(())
    }

    fn finish(mut self) -> Flow {
        let known = &self.known;
        let edges = self.edges.into_iter().filter(|((from, to), _)| known.contains_key(from) && known.contains_key(to));
        self.flow.edges = edges.map(|((from, to), kind)| FlowEdge { from, to, kind }).collect();
        place(&mut self.flow);
        self.flow
    }
}
