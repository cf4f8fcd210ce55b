//! A job in responses. A field without a value is left out, except those that every client expects.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use windlass_core::{AfterStop, BodyKind, Job, Progress, QueueName, Time, bounds};
use windlass_store::Store;

use crate::checkpoints::{ENCRYPTED_HEAD, may_be_encrypted, plaintext_len};
use crate::http::flows::chains::ChainView;
use crate::http::flows::children;
use crate::http::jobs::attempt::{ErrorView, RunnerView, StepView, UsageView, usage_view};
use crate::http::transport::error::Result;
use crate::http::wire::agent;
use crate::http::wire::agent::{AgentAnswer, AttemptUsage, StepStatusName, TokenUsage};
use crate::http::wire::{
    BackoffName, BodiesShown, BodyPreview, GroupCounts, NameText, OnFailureName, PriorityName, Rfc3339, Shown,
    StateName, Text, UntilName, WithinName,
};
use crate::limits;

/// The record of a job without its bodies and errors: what lists show.
#[derive(Debug, Serialize, ToSchema)]
pub struct JobView {
    id: String,
    #[schema(value_type = NameText)]
    queue: QueueName,
    #[schema(value_type = StateName)]
    state: &'static str,
    priority: PriorityName,
    attempt: u32,
    /// The number of runs, including the first.
    max_attempts: u32,
    max_retries: u32,
    failures: u32,
    crashes: u32,
    retry_backoff: BackoffName,
    retry_base_delay: Text,
    retry_base_delay_ms: u64,
    retry_max_delay: Text,
    retry_max_delay_ms: u64,
    tags: BTreeMap<String, String>,
    #[serde(flatten)]
    optional: Optional,
    progress: Option<ProgressView>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
struct Optional {
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_worker: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unique_key: Option<String>,
    /// In seconds, like the field that producers send.
    #[serde(skip_serializing_if = "Option::is_none")]
    unique_period: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unique_scope: Option<WithinName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unique_until: Option<UntilName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_id: Option<String>,
    /// How many generations of parents it descends from, if it has a parent.
    #[serde(skip_serializing_if = "Option::is_none")]
    depth: Option<u32>,
    /// Its round, in a queue with rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    round: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chain_id: Option<String>,
    /// From 0; of `on_failure` and `on_exit`, that of the step they follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    chain_step: Option<u32>,
    /// The batch whose callback it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    callback_of: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_dependency_failure: Option<OnFailureName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schedule: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt_timeout: Option<Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stall_timeout: Option<Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_duration: Option<Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<Text>,
    created_at: Rfc3339,
    updated_at: Rfc3339,
    #[serde(skip_serializing_if = "Option::is_none")]
    scheduled_at: Option<Rfc3339>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expire_after: Option<Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expire_at: Option<Rfc3339>,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<Rfc3339>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completed_at: Option<Rfc3339>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed_at: Option<Rfc3339>,
    /// Why it was or will be cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    cancel_reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hold_reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
    /// Of a dead job: the group of its error, as in `GET /dead/groups`.
    #[serde(skip_serializing_if = "Option::is_none")]
    error_fingerprint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    step_status: Option<StepStatusName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<AgentAnswer>,
    /// The usage of all its attempts together.
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<TokenUsage>,
    /// The usage of each of its latest attempts.
    #[serde(skip_serializing_if = "Option::is_none")]
    usage_by_attempt: Option<Vec<AttemptUsage>>,
    /// The older version it still runs on, because the active one cannot read its checkpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pinned_version: Option<String>,
    #[serde(flatten)]
    run: RunView,
    /// Who runs it or ran it last.
    #[serde(flatten)]
    runner: RunnerView,
    /// What the latest ended attempt used.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt_usage: Option<UsageView>,
}

/// The running attempt.
#[derive(Debug, Default, Serialize, ToSchema)]
struct RunView {
    #[serde(skip_serializing_if = "Option::is_none")]
    heartbeat_at: Option<Rfc3339>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_expires_at: Option<Rfc3339>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cancel_requested_at: Option<Rfc3339>,
}

/// The whole record: `GET /jobs/{id}`.
#[derive(Debug, Serialize, ToSchema)]
pub struct WholeJob {
    #[serde(flatten)]
    job: JobView,
    #[serde(flatten)]
    bodies: Bodies,
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint_schema: Option<u32>,
    /// Its children.
    #[serde(skip_serializing_if = "Option::is_none")]
    children: Option<GroupCounts>,
    /// The chain that it is a step of.
    #[serde(skip_serializing_if = "Option::is_none")]
    chain_config: Option<ChainView>,
    /// The jobs it depends on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    depends_on: Vec<String>,
    /// What a blocked job waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_for: Option<WaitsFor>,
    errors: Vec<ErrorView>,
    timeline: Vec<StepView>,
    #[serde(skip_serializing_if = "is_zero")]
    timeline_dropped: u32,
}

/// Payload, checkpoint and result, as far as they were asked for.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
enum Bodies {
    Full(FullBodies),
    Preview(BodyPreviews),
    None {},
}

#[derive(Debug, Serialize, ToSchema)]
struct FullBodies {
    #[schema(value_type = serde_json::Value)]
    payload: Option<Shown>,
    #[schema(value_type = serde_json::Value)]
    checkpoint: Option<Shown>,
    #[schema(value_type = serde_json::Value)]
    result: Option<Shown>,
}

#[derive(Debug, Serialize, ToSchema)]
struct BodyPreviews {
    payload_preview: Option<BodyPreview>,
    checkpoint_preview: Option<BodyPreview>,
    result_preview: Option<BodyPreview>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ProgressView {
    ts: Rfc3339,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = serde_json::Value, required = false)]
    detail: Option<Detail>,
    #[serde(skip_serializing_if = "Option::is_none")]
    percent: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    current: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    weight: Option<f64>,
}

/// JSON by convention; text when it is not.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Detail {
    Json(Box<RawValue>),
    Text(String),
}

/// How many jobs it waits for and the first of them, or what else it waits for.
#[derive(Debug, Default, Serialize, ToSchema)]
struct WaitsFor {
    count: u32,
    jobs: Vec<String>,
    /// Its round, when it waits for nothing else.
    #[serde(skip_serializing_if = "Option::is_none")]
    round: Option<u32>,
    /// What it waits for, as a sentence; also while everything below it is being removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// Reads everything that belongs to a job.
pub async fn whole(store: &Store, job: Job) -> Result<WholeJob> {
    whole_with(store, job, BodiesShown::Full, limits::PREVIEW_OF_ONE).await
}

/// The same, with the bodies as they were asked for.
pub async fn whole_with(store: &Store, job: Job, shown: BodiesShown, chars: usize) -> Result<WholeJob> {
    let bodies = bodies(store, &job, shown, chars).await?;
    let errors = store.errors(job.id).await?;
    let linked = match &job.links {
        Some(links) if links.depends_on > 0 => store.dependencies(job.id, bounds::DEPENDENCIES).await?,
        Some(_) | None => Vec::new(),
    };
    let open = linked.iter().filter(|linked| linked.state.is_none_or(|state| !state.is_ended()));
    let children = children::counts(store, &job).await?;
    let chain = match job.links.as_ref().and_then(|links| links.chain) {
        Some(place) => store.chain(place.first).await?,
        None => None,
    };
    let joins = job.links.as_ref().is_some_and(|links| links.waits_for_children.is_some());
    let waits_for = (job.waits_for() > 0).then(|| WaitsFor {
        count: job.waits_for(),
        jobs: open.take(limits::WAITS_FOR).map(|linked| linked.id.to_string()).collect(),
        ..WaitsFor::default()
    });
    let waits_for = waits_otherwise(&job).or(waits_for);
    let waits_for = match children.filter(|_| joins) {
        Some(counts) => Some(waits_for_children(store, &job, counts).await?),
        None => waits_for,
    };
    Ok(WholeJob {
        depends_on: linked.iter().map(|linked| linked.id.to_string()).collect(),
        waits_for,
        children,
        chain_config: chain.map(ChainView::from),
        bodies,
        checkpoint_schema: (!job.checkpoint.is_none()).then_some(job.checkpoint_schema),
        errors: errors.into_iter().map(ErrorView::from).collect(),
        timeline: job.timeline.steps.iter().map(StepView::from).collect(),
        timeline_dropped: job.timeline.dropped,
        job: job.into(),
    })
}

async fn bodies(store: &Store, job: &Job, shown: BodiesShown, chars: usize) -> Result<Bodies> {
    let full = async |kind| store.body(job, kind).await.map(|body: Option<Bytes>| body.map(Shown));
    let preview = async |kind| preview(store, job, kind, chars).await;
    Ok(match shown {
        BodiesShown::None => Bodies::None {},
        BodiesShown::Preview => Bodies::Preview(BodyPreviews {
            payload_preview: preview(BodyKind::Payload).await?,
            checkpoint_preview: preview(BodyKind::Checkpoint).await?,
            result_preview: preview(BodyKind::Result).await?,
        }),
        BodiesShown::Full => Bodies::Full(FullBodies {
            payload: full(BodyKind::Payload).await?,
            checkpoint: full(BodyKind::Checkpoint).await?,
            result: full(BodyKind::Result).await?,
        }),
    })
}

async fn preview(store: &Store, job: &Job, kind: BodyKind, chars: usize) -> Result<Option<BodyPreview>> {
    let Some(head) = store.body_head(job, kind, BodyPreview::head(chars).max(ENCRYPTED_HEAD)).await? else {
        return Ok(None);
    };
    if may_be_encrypted(&head)
        && let Some(whole) = store.body(job, kind).await?
        && let Some(length) = plaintext_len(&whole)
    {
        return Ok(Some(BodyPreview::encrypted(length as u64)));
    }
    Ok(Some(BodyPreview::of(&head, job.body(kind).len(), chars)))
}

/// A parent that joins its children waits for the open ones; the first of them are listed.
async fn waits_for_children(store: &Store, job: &Job, counts: GroupCounts) -> Result<WaitsFor> {
    let (first, _) = store.children(job, 0, limits::PAGE).await?;
    let open = first.iter().map(|(_, child)| child).filter(|child| !child.is_ended()).take(limits::WAITS_FOR);
    let count = u32::try_from(counts.open).unwrap_or(u32::MAX);
    let jobs = open.map(|child| child.id.to_string()).collect();
    Ok(WaitsFor { count, jobs, ..WaitsFor::default() })
}

/// A job that waits for no other job.
fn waits_otherwise(job: &Job) -> Option<WaitsFor> {
    if job.removing().is_some() {
        let reason = Some("everything below it is being removed".to_owned());
        return Some(WaitsFor { reason, ..WaitsFor::default() });
    }
    let round = job.waits_for_round()?;
    Some(WaitsFor { round: Some(round), reason: Some(format!("waits for round {round}")), ..WaitsFor::default() })
}

impl From<Job> for JobView {
    fn from(mut job: Job) -> JobView {
        let policy = &job.policy;
        JobView {
            id: job.id.to_string(),
            queue: job.queue.clone(),
            state: job.state.as_str(),
            priority: job.priority.into(),
            attempt: job.attempt,
            max_attempts: policy.max_attempts,
            max_retries: policy.max_attempts,
            failures: job.failures,
            crashes: job.crashes,
            retry_backoff: policy.backoff.kind.into(),
            retry_base_delay: Text(policy.backoff.base),
            retry_base_delay_ms: millis(policy.backoff.base),
            retry_max_delay: Text(policy.backoff.cap),
            retry_max_delay_ms: millis(policy.backoff.cap),
            tags: std::mem::take(&mut job.tags).into_iter().collect(),
            progress: job.progress.take().map(ProgressView::from),
            optional: job.into(),
        }
    }
}

impl From<Job> for Optional {
    fn from(job: Job) -> Optional {
        let at = |time: Option<Time>| time.map(Rfc3339);
        let span = |span: Option<Duration>| span.map(Text);
        let cancel_reason = job.cancel_reason().map(str::to_owned);
        let error_fingerprint = job.error_fingerprint();
        let (runner, run) = runs(&job);
        let (usage, usage_by_attempt) = agent::usage(job.spending);
        let (unique_key, unique) = match job.unique {
            Some(unique) => (Some(unique.key), Some((unique.period, unique.within, unique.until))),
            None => (None, None),
        };
        let place = job.links.as_ref().and_then(|links| links.chain);
        let tied = job.links.as_ref().filter(|links| links.depends_on > 0).cloned();
        Optional {
            scope: job.scope,
            limit_key: job.limit_key,
            target_worker: job.target_worker,
            unique_key,
            unique_period: unique.map(|(period, _, _)| period.as_secs_f64().ceil() as u64),
            unique_scope: unique.map(|(_, within, _)| within.into()),
            unique_until: unique.map(|(_, _, until)| until.into()),
            parent_id: job.parent.map(|id| id.to_string()),
            depth: Some(job.depth).filter(|depth| *depth > 0),
            round: job.round,
            batch_id: job.batch_id,
            on_dependency_failure: tied.as_ref().map(|links| links.on_dependency_failure.into()),
            chain_id: place.map(|place| place.chain_id()),
            chain_step: place.map(|place| place.step),
            callback_of: job.links.and_then(|links| links.callback_of),
            schedule: job.schedule.map(|name| name.to_string()),
            created_by: job.created_by,
            attempt_timeout: span(job.policy.attempt_timeout),
            stall_timeout: span(job.policy.stall_timeout),
            max_duration: span(job.policy.max_duration),
            ttl: span(job.policy.ttl),
            created_at: Rfc3339(job.created_at),
            updated_at: Rfc3339(job.updated_at),
            scheduled_at: at(job.scheduled_at),
            expire_after: job.expire_at.map(|end| Text(end.since(job.created_at))),
            expire_at: at(job.expire_at),
            started_at: at(job.started_at),
            completed_at: at(job.completed_at),
            failed_at: at(job.failed_at),
            cancel_reason,
            hold_reason: job.hold_reason,
            error_fingerprint,
            last_error: job.last_error,
            pinned_version: job.pinned,
            exit_reason: job.exit_reason,
            step_status: job.step_status.map(Into::into),
            agent: job.agent.map(|agent| (*agent).into()),
            usage,
            usage_by_attempt,
            runner,
            attempt_usage: job.usage.and_then(usage_view),
            run,
        }
    }
}

/// Who runs a job or ran it last, and the attempt that runs now.
fn runs(job: &Job) -> (RunnerView, RunView) {
    let Some(run) = &job.run else {
        return (job.ran_by.clone().map(RunnerView::from).unwrap_or_default(), RunView::default());
    };
    let stop = run.stop.as_ref().filter(|stop| stop.then != AfterStop::Swap);
    let view = RunView {
        heartbeat_at: Some(Rfc3339(run.heartbeat_at)),
        lease_expires_at: run.lease_expires_at.map(Rfc3339),
        cancel_requested_at: stop.map(|stop| Rfc3339(stop.at)),
    };
    (run.runner.clone().into(), view)
}

impl From<Progress> for ProgressView {
    fn from(progress: Progress) -> ProgressView {
        ProgressView {
            ts: Rfc3339(progress.ts),
            phase: progress.phase,
            message: progress.message,
            level: progress.level,
            detail: progress.detail.map(|text| match serde_json::from_str(&text) {
                Ok(json) => Detail::Json(json),
                Err(_) => Detail::Text(text),
            }),
            percent: progress.percent,
            current: progress.current,
            total: progress.total,
            unit: progress.unit,
            weight: progress.weight,
        }
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}
