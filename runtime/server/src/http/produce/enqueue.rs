//! Producers: `POST /enqueue` and `POST /enqueue/batch`.

use std::collections::BTreeMap;

use axum::Json;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use windlass_core::flow::{Dependency, NewBatch};
use windlass_core::{JobId, Name, NewJob, PolicyChoice, QueueName, Unique};
use windlass_store::Enqueued;

use crate::http::Api;
use crate::http::access::Way;
use crate::http::flows::batches::{BatchBody, new_batch};
use crate::http::flows::chains::ChainBody;
use crate::http::jobs::view;
use crate::http::jobs::view::WholeJob;
use crate::http::ops::pause;
use crate::http::produce::idempotency::IdempotencyKey;
use crate::http::produce::permitted::Existing;
use crate::http::produce::{permitted, served_by};
use crate::http::transport::error::{Error, Result};
use crate::http::transport::extract::Body;
use crate::http::transport::warnings;
use crate::http::wire::agent::AgentBody;
use crate::http::wire::policy::PolicyBody;
use crate::http::wire::{
    BackoffName, Moment, NameText, OnFailureName, PriorityName, Span, StateName, UntilName, WithinName,
};
use crate::limits;

/// A job as a producer describes it. Other fields are ignored: newer clients may send more.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub(crate) struct JobBody<'a> {
    #[schema(required = true, value_type = NameText)]
    queue: Option<String>,
    #[serde(borrow, default, deserialize_with = "present")]
    #[schema(value_type = serde_json::Value, required = false)]
    payload: Option<&'a RawValue>,
    #[serde(borrow)]
    #[schema(value_type = serde_json::Value, required = false)]
    checkpoint: Option<&'a RawValue>,
    priority: Option<PriorityName>,
    /// The number of runs, including the first.
    max_attempts: Option<u32>,
    max_retries: Option<u32>,
    retry_backoff: Option<BackoffName>,
    retry_base_delay: Option<Span>,
    retry_max_delay: Option<Span>,
    attempt_timeout: Option<Span>,
    stall_timeout: Option<Span>,
    max_duration: Option<Span>,
    lease_duration: Option<Span>,
    expire_after: Option<Span>,
    ttl: Option<Span>,
    scheduled_at: Option<Moment>,
    delay: Option<Span>,
    unique_key: Option<String>,
    unique_period: Option<Span>,
    unique_scope: Option<WithinName>,
    unique_until: Option<UntilName>,
    tags: Option<BTreeMap<String, String>>,
    scope: Option<String>,
    limit_key: Option<String>,
    target_worker: Option<String>,
    parent_id: Option<String>,
    batch_id: Option<String>,
    hold_reason: Option<String>,
    /// Limits for a handler that works in iterations.
    agent: Option<AgentBody>,
    /// A name for other jobs of this request to depend on.
    name: Option<String>,
    /// Blocked until these have ended: ids, or names of jobs in this request.
    depends_on: Option<Vec<String>>,
    /// What happens to it when one of those dies or is cancelled.
    on_dependency_failure: Option<OnFailureName>,
    /// Steps that follow each other; the job is the first.
    #[serde(borrow)]
    #[schema(value_type = Option<ChainBody>)]
    chain: Option<ChainBody<'a>>,
    /// Several jobs instead of this one. Only `/enqueue` uses this, so that it parses a body once.
    #[serde(borrow)]
    #[schema(ignore)]
    jobs: Option<&'a RawValue>,
}

/// The body of `/enqueue`: one job, or several under `jobs`.
#[derive(Debug, Default, Deserialize, ToSchema)]
struct Several<'a> {
    #[serde(borrow)]
    #[schema(required = true, value_type = Vec<JobBody>)]
    jobs: Option<Vec<JobBody<'a>>>,
    /// Counts the jobs together, and enqueues a callback when all have ended.
    #[serde(borrow)]
    #[schema(value_type = Option<BatchBody>)]
    batch: Option<BatchBody<'a>>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OneAnswer {
    job_id: String,
    status: &'static str,
    unique_existing: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    unique_job_id: Option<String>,
    /// A new job in short; for a duplicate, the whole record.
    #[schema(value_type = EnqueuedJob)]
    job: JobOrWhole,
    job_url: String,
    /// The live stream of this job.
    events_url: String,
    /// Who runs the jobs of its queue: the name of a plugin, `workers` when external workers fetch them, or `null` if
    /// nothing does yet. Workers count while a fetch waits, and for two minutes after their last fetch or heartbeat.
    #[schema(required = true)]
    served_by: Option<String>,
    /// What the client should know although the request was accepted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    warnings: Vec<String>,
}

#[derive(Debug, Serialize, ToSchema)]
struct EnqueuedJob {
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<NameText>)]
    queue: Option<QueueName>,
    #[schema(value_type = StateName)]
    state: &'static str,
}

/// The body of `/enqueue`, as it is described.
#[derive(ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only for the description: the fields that are present decide which form is read")]
enum EnqueueBody<'a> {
    One(Box<JobBody<'a>>),
    Several(Several<'a>),
}

/// The answer to `/enqueue`, as it is described.
#[derive(ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only described")]
enum EnqueueAnswer {
    One(OneAnswer),
    Several(SeveralAnswer),
}

/// A new job in short; for a duplicate, the whole record of the existing job, including its result.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum JobOrWhole {
    Short(EnqueuedJob),
    Whole(Box<WholeJob>),
}

#[derive(Debug, Serialize, ToSchema)]
struct SeveralAnswer {
    job_ids: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch_id: Option<String>,
    jobs: Vec<EnqueuedJob>,
    /// Each queue of the request, and who runs its jobs: the name of a plugin, `workers`, or `null` if nothing does
    /// yet.
    #[schema(value_type = BTreeMap<String, Option<String>>)]
    served_by: BTreeMap<QueueName, Option<String>>,
    /// What the client should know although the request was accepted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    warnings: Vec<String>,
}

/// An explicit `null` is a payload; only a missing field is absent.
fn present<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Enqueue one job, or several
#[utoipa::path(
    post,
    path = "/enqueue",
    tag = "producers",
    params(
        (
            "Idempotency-Key" = Option<String>,
            Header,
            description = "Makes the request safe to repeat: for a day, the same key returns the jobs of the first request.",
            max_length = 255
        )
    ),
    request_body = EnqueueBody,
    responses(
        (status = 201, description = "New jobs.", body = EnqueueAnswer),
        (
            status = 200,
            description = "Another job has the unique key or the Idempotency-Key; it is returned.",
            body = OneAnswer
        )
    )
)]
pub async fn one(api: Api, headers: HeaderMap, body: Body) -> Result<Response> {
    let once = IdempotencyKey::read(&headers)?;
    let (job, unknown): (JobBody, _) = body.watched()?;
    if job.jobs.is_some() {
        return store_several(&api, &body, body.json()?, &once).await;
    }
    body.report(unknown)?;
    let draft = to_draft(&body, job, &Names::default(), "")?;
    permitted::check_checkpoints(&api, draft.checkpoint.iter().count())?;
    permitted::check(&api, &[&draft.job], None)?;
    let job = draft.keep(&api).await?;
    store_one(&api, once.mark(job, 0), Existing::for_caller(&api)).await
}

pub(crate) async fn store_one(api: &Api, job: NewJob, shown: Existing) -> Result<Response> {
    let queue = job.queue.clone();
    let stored = api.store.enqueue(vec![job]).await?;
    let Some(stored) = stored.into_iter().next() else {
        return Err(Error::internal("the store returned no job for one that was enqueued"));
    };
    let status = if stored.duplicate { StatusCode::OK } else { StatusCode::CREATED };
    let existing = if stored.duplicate { api.store.job(stored.id).await? } else { None };
    // A duplicate may be in another queue.
    let queue = existing.as_ref().map(|job| job.queue.clone()).or(queue);
    let served_by = queue.as_ref().and_then(|queue| served_by::served_by(api, queue));
    let unserved = queue.as_ref().filter(|_| served_by.is_none() && !stored.duplicate);
    pause::warn(api);
    let warnings = warnings::take().into_iter().chain(unserved.map(served_by::warning)).collect();
    let job = match existing.filter(|_| shown == Existing::Whole) {
        Some(job) => JobOrWhole::Whole(Box::new(view::whole(&api.store, job).await?)),
        None => JobOrWhole::Short(job_answer(&stored, queue)),
    };
    Ok((status, Json(OneAnswer { served_by, warnings, ..answer(stored, job) })).into_response())
}

/// Enqueue many jobs: all of them, or none
#[utoipa::path(
    post,
    path = "/enqueue/batch",
    tag = "producers",
    params(
        (
            "Idempotency-Key" = Option<String>,
            Header,
            description = "Makes the request safe to repeat: for a day, the same key returns the jobs of the first request.",
            max_length = 255
        )
    ),
    request_body = Several,
    responses((status = 201, description = "All are stored.", body = SeveralAnswer))
)]
pub async fn batch(api: Api, headers: HeaderMap, body: Body) -> Result<Response> {
    let once = IdempotencyKey::read(&headers)?;
    store_several(&api, &body, body.json()?, &once).await
}

/// Stores all of the jobs, or none.
async fn store_several(api: &Api, body: &Body, several: Several<'_>, once: &IdempotencyKey) -> Result<Response> {
    let batch = match &several.batch {
        Some(batch) => {
            Some(NewBatch { id: once.batch(&api.caller.allowed.namespace), ..new_batch(body, batch, "batch.")? })
        }
        None => None,
    };
    let Some(jobs) = several.jobs else {
        return Err(Error::field("jobs", "a list of jobs is needed, each as for /enqueue"));
    };
    if jobs.len() > limits::BATCH {
        return Err(Error::field("jobs", format!("at most {} jobs in one batch, not {}", limits::BATCH, jobs.len())));
    }
    let names = Names::of(&jobs)?;
    let mut drafts = Vec::with_capacity(jobs.len());
    for (index, job) in jobs.into_iter().enumerate() {
        if batch.is_some() && job.batch_id.is_some() {
            let why = "the job is in the request's own batch; leave one of the two out";
            return Err(Error::field(&format!("jobs[{index}].batch_id"), why));
        }
        drafts.push(to_draft(body, job, &names, &format!("jobs[{index}]."))?);
    }
    permitted::check_checkpoints(api, drafts.iter().filter(|draft| draft.checkpoint.is_some()).count())?;
    permitted::check(api, &drafts.iter().map(|draft| &draft.job).collect::<Vec<_>>(), batch.as_ref())?;
    let mut new = Vec::with_capacity(drafts.len());
    for (index, draft) in drafts.into_iter().enumerate() {
        new.push(once.mark(draft.keep(api).await?, index));
    }
    let queues: Vec<_> = new.iter().map(|job| job.queue.clone()).collect();
    let mut served_by = BTreeMap::new();
    for queue in queues.iter().flatten() {
        if !served_by.contains_key(queue) {
            served_by.insert(queue.clone(), served_by::served_by(api, queue));
        }
    }
    let (stored, batch_id) = match batch {
        Some(batch) => {
            let made = api.store.make_batch(batch, new, true).await?;
            (made.jobs, Some(made.id))
        }
        None if new.is_empty() => (Vec::new(), None),
        None => (api.store.enqueue(new).await?, None),
    };
    let job_ids = stored.iter().map(|job| job.id.to_string()).collect();
    let jobs = stored.into_iter().zip(queues).map(|(job, queue)| job_answer(&job, queue)).collect();
    pause::warn(api);
    let mut warnings = warnings::take();
    warnings.extend(served_by::warnings(&served_by));
    Ok((StatusCode::CREATED, Json(SeveralAnswer { job_ids, batch_id, jobs, served_by, warnings })).into_response())
}

/// Jobs that an attempt of `parent` enqueues with its ack. Their ids are derived from (parent, ordinal), so a repeated
/// ack stores none twice.
pub(crate) async fn children(api: &Api, body: &Body, parent: JobId, jobs: Vec<JobBody<'_>>) -> Result<Vec<NewJob>> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    if jobs.len() > limits::BATCH {
        return Err(Error::field("children", format!("at most {} at once, not {}", limits::BATCH, jobs.len())));
    }
    let first = api.store.job(parent).await?.map_or(0, |job| job.children);
    let names = Names::of(&jobs)?;
    let places = jobs.into_iter().enumerate();
    let drafts: Vec<Draft> = places
        .map(|(index, job)| to_draft(body, job, &names, &format!("children[{index}].")))
        .collect::<Result<_>>()?;
    permitted::check_way(api, drafts.iter().flat_map(|draft| draft.job.queues()), Way::Children)?;
    let mut new = Vec::with_capacity(drafts.len());
    for (index, draft) in drafts.into_iter().enumerate() {
        new.push(draft.keep(api).await?.child_of(parent, first, index)?);
    }
    Ok(new)
}

fn answer(stored: Enqueued, job: JobOrWhole) -> OneAnswer {
    let id = stored.id.to_string();
    OneAnswer {
        status: if stored.duplicate { "duplicate" } else { stored.state.as_str() },
        unique_existing: stored.duplicate,
        unique_job_id: stored.duplicate.then(|| id.clone()),
        job,
        job_url: format!("/api/v1/jobs/{id}"),
        events_url: format!("/api/v1/jobs/{id}/events"),
        job_id: id,
        served_by: None,
        warnings: Vec::new(),
    }
}

/// A duplicate may be in another queue of its scope, so its queue is not shown.
fn job_answer(stored: &Enqueued, queue: Option<QueueName>) -> EnqueuedJob {
    let queue = queue.filter(|_| !stored.duplicate);
    EnqueuedJob { id: stored.id.to_string(), queue, state: stored.state.as_str() }
}

/// The names by which jobs of one request refer to each other.
#[derive(Default)]
struct Names(BTreeMap<String, usize>);

impl Names {
    fn of(jobs: &[JobBody<'_>]) -> Result<Names> {
        let mut names = BTreeMap::new();
        for (index, job) in jobs.iter().enumerate() {
            let Some(name) = &job.name else { continue };
            let field = format!("jobs[{index}].name");
            if name.is_empty() || name.parse::<JobId>().is_ok() {
                return Err(Error::field(&field, "must not be empty or a job id"));
            }
            if let Some(other) = names.insert(name.clone(), index) {
                return Err(Error::field(&field, format!("{name:?} is the name of jobs[{other}] already")));
            }
        }
        Ok(Names(names))
    }

    /// What a job waits for: ids, or names of jobs in the same request.
    fn dependencies(&self, job: &JobBody<'_>, place: &str) -> Result<Vec<Dependency>> {
        let found = job.depends_on.iter().flatten().map(|text| {
            self.find(text).ok_or_else(|| {
                let why = format!("{text:?} is neither a job id nor the `name` of a job in this request");
                Error::field(&format!("{place}depends_on"), why)
            })
        });
        found.collect()
    }

    fn find(&self, text: &str) -> Option<Dependency> {
        let named = self.0.get(text).map(|index| Dependency::Sibling(*index));
        named.or_else(|| text.parse().ok().map(Dependency::Job))
    }
}

/// A job that was read, and whose bodies are not stored yet: nothing of one that is refused reaches the disk.
struct Draft {
    job: NewJob,
    payload: Bytes,
    checkpoint: Option<Bytes>,
}

impl Draft {
    async fn keep(self, api: &Api) -> Result<NewJob> {
        let checkpoint = match self.checkpoint {
            Some(checkpoint) => Some(api.store.keep(checkpoint).await?),
            None => None,
        };
        Ok(NewJob { payload: Some(api.store.keep(self.payload).await?), checkpoint, ..self.job })
    }
}

/// `place` is the prefix of a field's name in an error.
fn to_draft(body: &Body, mut job: JobBody<'_>, names: &Names, place: &str) -> Result<Draft> {
    let depends_on = names.dependencies(&job, place)?;
    let queue = queue(job.queue.as_deref(), place)?;
    let parent = match &job.parent_id {
        Some(id) => Some(id.parse().map_err(|_| {
            Error::field(&format!("{place}parent_id"), format!("{id:?} is not a job id: `job_` and 26 characters"))
        })?),
        None => None,
    };
    let policy = job.policy(place)?;
    let payload = job
        .payload
        .or_else(|| job.chain.as_ref().and_then(ChainBody::first_payload))
        .map_or_else(|| Bytes::from_static(b"{}"), |raw| body.part(raw));
    let checkpoint = job.checkpoint.map(|raw| body.part(raw));
    let chain = match job.chain.take() {
        Some(chain) => Some(Box::new(chain.into_chain(body, &format!("{place}chain."))?)),
        None => None,
    };
    let job = NewJob {
        queue: Some(queue),
        policy,
        scheduled_at: job.scheduled_at.map(|moment| moment.0),
        delay: job.delay.map(|span| span.0),
        unique: job.unique(),
        tags: job.tags.unwrap_or_default().into_iter().collect(),
        scope: job.scope,
        limit_key: job.limit_key,
        target_worker: job.target_worker,
        parent,
        batch_id: job.batch_id,
        agent: job.agent.map(|agent| Box::new(agent.into())),
        hold_reason: job.hold_reason,
        depends_on,
        on_dependency_failure: job.on_dependency_failure.map(Into::into).unwrap_or_default(),
        chain,
        ..NewJob::default()
    };
    Ok(Draft { job, payload, checkpoint })
}

fn queue(name: Option<&str>, place: &str) -> Result<QueueName> {
    let Some(name) = name else {
        let why = "is missing; name the queue of the job, such as \"emails.send\"";
        return Err(Error::field(&format!("{place}queue"), why));
    };
    Name::parse("queue", name).map_err(|error| Error::invalid(format!("{error}, not {name:?}")))
}

impl JobBody<'_> {
    fn policy(&self, place: &str) -> Result<PolicyChoice> {
        let policy = PolicyBody {
            priority: self.priority,
            max_attempts: self.max_attempts,
            max_retries: self.max_retries,
            retry_backoff: self.retry_backoff,
            retry_base_delay: self.retry_base_delay,
            retry_max_delay: self.retry_max_delay,
            attempt_timeout: self.attempt_timeout,
            stall_timeout: self.stall_timeout,
            max_duration: self.max_duration,
            lease_duration: self.lease_duration,
            expire_after: self.expire_after,
            ttl: self.ttl,
        };
        policy.read(place)
    }

    fn unique(&mut self) -> Option<Unique> {
        Some(Unique {
            key: self.unique_key.take()?,
            within: self.unique_scope.map(Into::into).unwrap_or_default(),
            until: self.unique_until.map(Into::into).unwrap_or_default(),
            period: self.unique_period.map_or(windlass_core::DEFAULT_PERIOD, |span| span.0),
        })
    }
}
