//! `/schedules`: jobs that are enqueued at set times. The rules are in `windlass_core::schedule`.

use std::collections::BTreeMap;

use axum::Json;
use axum::http::StatusCode;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};
use windlass_core::schedule::{CatchUp, Overlap, Schedule, Skipped};
use windlass_core::{Name, PolicyChoice, QueueName, Refusal, Time, Unique, UniqueScope, Until, bounds};
use windlass_store::{Clock, ScheduleChange};

use crate::http::Api;
use crate::http::access::Way;
use crate::http::jobs::{Status, status};
use crate::http::produce::permitted;
use crate::http::transport::error::{Error, Result};
use crate::http::transport::extract::{Body, NamePath, Query};
use crate::http::wire::policy::{PolicyBody, PolicyView};
use crate::http::wire::{CatchUpName, NameText, OverlapName, Rfc3339, Shown, Span};
use crate::limits;

/// `POST /schedules/preview` stands where the address of a schedule of this name would be.
const PREVIEW: &str = "preview";

/// The body that creates or changes a schedule. In a change, absent fields stay as they are.
#[derive(Debug, Default, Deserialize, ToSchema)]
struct ScheduleBody<'a> {
    name: Option<String>,
    queue: Option<String>,
    cron: Option<String>,
    timezone: Option<String>,
    #[serde(borrow)]
    #[schema(value_type = serde_json::Value, required = false)]
    payload: Option<&'a RawValue>,
    unique_key: Option<String>,
    unique_period: Option<Span>,
    tags: Option<BTreeMap<String, String>>,
    /// For times that passed while the server was down: run for none of them, once for all, or for each.
    catch_up: Option<CatchUpName>,
    /// With `catch_up` `all`: how many at most, the latest.
    catch_up_most: Option<u32>,
    /// When the job of its last run has not ended: run all the same, skip this run, or cancel that job first.
    overlap: Option<OverlapName>,
    paused: Option<bool>,
}

/// The whole body that creates or changes a schedule.
#[derive(Deserialize, ToSchema)]
#[allow(dead_code, reason = "only described: its two halves are read apart, so that unknown fields are noticed")]
struct ScheduleRequest<'a> {
    #[serde(flatten, borrow)]
    schedule: ScheduleBody<'a>,
    #[serde(flatten)]
    policy: PolicyBody,
}

/// Further fields of responses. A client may change a response and send it back, so they are not reported as unknown.
#[derive(Debug, Deserialize)]
#[allow(dead_code, reason = "names that are known; their values are not used")]
struct ScheduleAnswerFields<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    words: Option<&'a RawValue>,
    #[serde(borrow)]
    created_at: Option<&'a RawValue>,
    #[serde(borrow)]
    created_by: Option<&'a RawValue>,
    #[serde(borrow)]
    updated_at: Option<&'a RawValue>,
    #[serde(borrow)]
    last_run: Option<&'a RawValue>,
    #[serde(borrow)]
    last_job_id: Option<&'a RawValue>,
    #[serde(borrow)]
    next_run: Option<&'a RawValue>,
    #[serde(borrow)]
    skipped_total: Option<&'a RawValue>,
    #[serde(borrow)]
    skipped_runs: Option<&'a RawValue>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ScheduleAnswer {
    id: String,
    name: String,
    #[schema(value_type = NameText)]
    queue: QueueName,
    cron: String,
    /// When it runs, in words: `every day at 02:30`.
    words: String,
    timezone: String,
    #[schema(value_type = serde_json::Value)]
    payload: Shown,
    #[serde(skip_serializing_if = "Option::is_none")]
    unique_key: Option<String>,
    /// In seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    unique_period: Option<u64>,
    tags: BTreeMap<String, String>,
    catch_up: CatchUpName,
    #[serde(skip_serializing_if = "Option::is_none")]
    catch_up_most: Option<u32>,
    overlap: OverlapName,
    paused: bool,
    #[serde(flatten)]
    policy: PolicyView,
    created_at: Rfc3339,
    /// The key or the person that created it.
    #[serde(skip_serializing_if = "Option::is_none")]
    created_by: Option<String>,
    updated_at: Rfc3339,
    last_run: Option<Rfc3339>,
    last_job_id: Option<String>,
    next_run: Option<Rfc3339>,
    /// How many runs have been skipped since it was created.
    skipped_total: u64,
    /// The latest skipped runs, newest first.
    skipped_runs: Vec<SkippedRun>,
}

/// Consecutive runs that were skipped for the same reason.
#[derive(Debug, Serialize, ToSchema)]
struct SkippedRun {
    first: Rfc3339,
    last: Rfc3339,
    /// Of runs that were missed during one absence, at most 1,000 are counted.
    count: u64,
    /// `overlap`: the job of an earlier run had not ended. `paused`. `missed`: the server was down or late, and
    /// `catch_up` does not want it. `unique_key`: another job has the key. `refused`: `message` says why.
    reason: &'static str,
    message: String,
    /// The job that was the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    job_id: Option<String>,
}

impl From<&Skipped> for SkippedRun {
    fn from(skipped: &Skipped) -> SkippedRun {
        SkippedRun {
            first: Rfc3339(skipped.first),
            last: Rfc3339(skipped.last),
            count: skipped.count,
            reason: skipped.reason.as_str(),
            message: skipped.reason.to_string(),
            job_id: skipped.reason.job().map(|id| id.to_string()),
        }
    }
}

/// List all schedules
#[utoipa::path(get, path = "/schedules", tag = "schedules", responses((status = 200, body = Vec<ScheduleAnswer>)))]
pub async fn list(api: Api) -> Result<Json<Vec<ScheduleAnswer>>> {
    Ok(Json(api.store.schedules().await?.into_iter().map(ScheduleAnswer::from).collect()))
}

/// Show one schedule
#[utoipa::path(get, path = "/schedules/{name}", tag = "schedules", responses((status = 200, body = ScheduleAnswer)))]
pub async fn show(api: Api, NamePath(name): NamePath) -> Result<Json<ScheduleAnswer>> {
    Ok(Json(find(&api, &name).await?.into()))
}

/// Create a schedule
#[utoipa::path(
    post,
    path = "/schedules",
    tag = "schedules",
    request_body = ScheduleRequest,
    responses((status = 201, body = ScheduleAnswer), (status = 409, description = "The name is taken."))
)]
pub async fn create(api: Api, body: Body) -> Result<(StatusCode, Json<ScheduleAnswer>)> {
    let (wanted, policy) = wanted(&body)?;
    let needed = |field: &'static str, value: &Option<String>, example: &str| match value {
        Some(text) => Ok(text.clone()),
        None => Err(Error::field(field, format!("is missing; such as {example:?}"))),
    };
    let name = Name::parse("name", &needed("name", &wanted.name, "nightly-report")?)?;
    if name.as_str() == PREVIEW {
        return Err(Error::field(
            "name",
            format!("{PREVIEW:?} is the address of another request; choose another name"),
        ));
    }
    let now = api.clock.now();
    let mut schedule = Schedule {
        name: api.own(name),
        queue: api.own(Name::parse("queue", &needed("queue", &wanted.queue, "reports")?)?),
        cron: needed("cron", &wanted.cron, "30 2 * * 1-5")?,
        timezone: "UTC".to_owned(),
        payload: Bytes::from_static(b"{}"),
        policy: PolicyChoice::default(),
        unique: None,
        tags: Vec::new(),
        catch_up: CatchUp::default(),
        overlap: Overlap::default(),
        paused: false,
        created_at: now,
        updated_at: now,
        last_run: None,
        last_job: None,
        next_run: None,
        skipped: Default::default(),
        created_by: None,
    };
    apply(&mut schedule, &body, wanted, policy)?;
    Ok((StatusCode::CREATED, put(&api, schedule, false).await?))
}

/// Change a schedule: absent fields stay as they are
#[utoipa::path(
    put,
    path = "/schedules/{name}",
    tag = "schedules",
    request_body = ScheduleRequest,
    responses((status = 200, body = ScheduleAnswer))
)]
pub async fn update(api: Api, NamePath(name): NamePath, body: Body) -> Result<Json<ScheduleAnswer>> {
    let (wanted, policy) = wanted(&body)?;
    if wanted.name.as_ref().is_some_and(|other| **other != *name) {
        return Err(Error::field("name", "a schedule cannot be renamed; create another and delete this one"));
    }
    let mut schedule = find(&api, &name).await?;
    apply(&mut schedule, &body, wanted, policy)?;
    put(&api, schedule, true).await
}

/// Delete a schedule
#[utoipa::path(delete, path = "/schedules/{name}", tag = "schedules", responses((status = 200, body = Status)))]
pub async fn remove(api: Api, NamePath(name): NamePath) -> Result<Json<Status>> {
    api.store.change_schedule(ScheduleChange::Remove { name }).await?;
    Ok(status("deleted"))
}

/// Pause a schedule: enqueue no more of its jobs
#[utoipa::path(post, path = "/schedules/{name}/pause", tag = "schedules", responses((status = 200, body = Status)))]
pub async fn pause(api: Api, NamePath(name): NamePath) -> Result<Json<Status>> {
    api.store.change_schedule(ScheduleChange::Pause { name, paused: true }).await?;
    Ok(status("paused"))
}

/// Resume a schedule
#[utoipa::path(post, path = "/schedules/{name}/resume", tag = "schedules", responses((status = 200, body = Status)))]
pub async fn resume(api: Api, NamePath(name): NamePath) -> Result<Json<Status>> {
    api.store.change_schedule(ScheduleChange::Pause { name, paused: false }).await?;
    Ok(status("resumed"))
}

#[derive(Debug, Serialize, ToSchema)]
pub struct EndedAttempt {
    status: &'static str,
    /// The job it enqueued; `null` if the run was skipped.
    job_id: Option<String>,
    /// Why the run was skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    skipped: Option<SkippedRun>,
}

/// Enqueue a job of a schedule now
#[utoipa::path(post, path = "/schedules/{name}/run", tag = "schedules", responses((status = 200, body = EndedAttempt)))]
pub async fn run(api: Api, NamePath(name): NamePath) -> Result<Json<EndedAttempt>> {
    let before = find(&api, &name).await?.last_job;
    api.store.change_schedule(ScheduleChange::RunNow { name: name.clone() }).await?;
    let schedule = find(&api, &name).await?;
    let made = schedule.last_job.filter(|job| Some(*job) != before);
    let status = if made.is_some() { "enqueued" } else { "skipped" };
    let skipped = schedule.skipped.latest.last().filter(|_| made.is_none()).map(SkippedRun::from);
    Ok(Json(EndedAttempt { status, job_id: made.map(|id| id.to_string()), skipped }))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct NextQuery {
    count: Option<usize>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Next {
    next: Vec<Rfc3339>,
    /// The time zone of the schedule.
    timezone: String,
}

/// The next times of a schedule
#[utoipa::path(
    get,
    path = "/schedules/{name}/next",
    tag = "schedules",
    params(NextQuery),
    responses((status = 200, body = Next))
)]
pub async fn next(api: Api, NamePath(name): NamePath, Query(query): Query<NextQuery>) -> Result<Json<Next>> {
    let schedule = find(&api, &name).await?;
    let count = query.count.unwrap_or(limits::NEXT_TIMES).clamp(1, limits::NEXT_TIMES_MOST);
    let times = schedule.next_times(api.clock.now(), count)?;
    Ok(Json(Next { next: times.into_iter().map(Rfc3339).collect(), timezone: schedule.timezone }))
}

/// An expression that no schedule has yet.
#[derive(Debug, Default, Deserialize, ToSchema)]
struct PreviewRequest {
    #[schema(required = true)]
    cron: Option<String>,
    /// The zone its times are in; UTC by default.
    timezone: Option<String>,
    /// How many times; 5 by default.
    #[schema(minimum = 1, maximum = 1000)]
    count: Option<usize>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct PreviewAnswer {
    /// When it would run: `every day at 02:30`.
    words: String,
    next: Vec<Rfc3339>,
    timezone: String,
}

/// The next times of a cron expression that is not saved
///
/// It is refused as a schedule with it would be. Nothing is stored.
#[utoipa::path(
    post,
    path = "/schedules/preview",
    tag = "schedules",
    request_body = PreviewRequest,
    responses((status = 200, body = PreviewAnswer))
)]
pub async fn preview(api: Api, body: Body) -> Result<Json<PreviewAnswer>> {
    let PreviewRequest { cron, timezone, count } = body.json()?;
    let cron = cron.ok_or_else(|| Error::field("cron", "is missing; such as \"30 2 * * 1-5\""))?;
    let timezone = timezone.unwrap_or_else(|| "UTC".to_owned());
    let count = count.unwrap_or(limits::NEXT_TIMES).clamp(1, limits::NEXT_TIMES_MOST);
    let found = windlass_core::schedule::preview(&cron, &timezone, api.clock.now(), count)?;
    let next = found.next.into_iter().map(Rfc3339).collect();
    Ok(Json(PreviewAnswer { words: found.words, next, timezone }))
}

async fn find(api: &Api, name: &Name) -> Result<Schedule> {
    let found = api.store.schedules().await?.into_iter().find(|schedule| schedule.name == *name);
    Ok(found.ok_or_else(|| Refusal::not_found("schedule", name))?)
}

async fn put(api: &Api, schedule: Schedule, replace: bool) -> Result<Json<ScheduleAnswer>> {
    permitted::check_way(api, [&schedule.queue], Way::Operated)?;
    let name = schedule.name.clone();
    api.store.change_schedule(ScheduleChange::Put { schedule: Box::new(schedule), replace }).await?;
    Ok(Json(find(api, &name).await?.into()))
}

fn wanted(body: &Body) -> Result<(ScheduleBody<'_>, PolicyBody)> {
    let (wanted, unknown) = body.watched()?;
    let (policy, other) = body.watched()?;
    let (_, rest) = body.watched::<ScheduleAnswerFields<'_>>()?;
    body.report(unknown.both(other).both(rest))?;
    Ok((wanted, policy))
}

fn apply(schedule: &mut Schedule, body: &Body, wanted: ScheduleBody<'_>, policy: PolicyBody) -> Result<()> {
    if let Some(queue) = wanted.queue {
        schedule.queue = Name::parse("queue", &queue)?;
    }
    schedule.cron = wanted.cron.unwrap_or_else(|| schedule.cron.clone());
    schedule.timezone = wanted.timezone.unwrap_or_else(|| schedule.timezone.clone());
    if let Some(raw) = wanted.payload {
        schedule.payload = body.part(raw);
        // Schedules are held in memory, all of them.
        let most = windlass_store::limits::INLINE_BODY;
        if schedule.payload.len() > most {
            return Err(Error::field("payload", format!("at most {most} bytes for a schedule")));
        }
    }
    if let Some(key) = wanted.unique_key {
        let period = wanted.unique_period.map_or(windlass_core::DEFAULT_PERIOD, |span| span.0);
        schedule.unique = Some(Unique { key, within: UniqueScope::default(), until: Until::default(), period });
    } else if let (Some(unique), Some(period)) = (&mut schedule.unique, wanted.unique_period) {
        unique.period = period.0;
    }
    if let Some(tags) = wanted.tags {
        schedule.tags = tags.into_iter().collect();
    }
    if let Some(word) = wanted.catch_up {
        schedule.catch_up = match word {
            CatchUpName::Skip => CatchUp::Skip,
            CatchUpName::Once => CatchUp::Once,
            CatchUpName::All => CatchUp::All { at_most: wanted.catch_up_most.unwrap_or(bounds::CATCH_UP) },
        };
    } else if let (CatchUp::All { at_most }, Some(most)) = (&mut schedule.catch_up, wanted.catch_up_most) {
        *at_most = most;
    }
    schedule.overlap = wanted.overlap.map_or(schedule.overlap, Overlap::from);
    schedule.paused = wanted.paused.unwrap_or(schedule.paused);
    schedule.policy = policy.read("")?.or(&schedule.policy);
    Ok(())
}

impl From<Schedule> for ScheduleAnswer {
    fn from(schedule: Schedule) -> ScheduleAnswer {
        let at = |time: Option<Time>| time.map(Rfc3339);
        let (catch_up, catch_up_most) = match schedule.catch_up {
            CatchUp::Skip => (CatchUpName::Skip, None),
            CatchUp::Once => (CatchUpName::Once, None),
            CatchUp::All { at_most } => (CatchUpName::All, Some(at_most)),
        };
        ScheduleAnswer {
            id: schedule.name.to_string(),
            name: schedule.name.to_string(),
            words: schedule.words(),
            queue: schedule.queue,
            cron: schedule.cron,
            timezone: schedule.timezone,
            payload: Shown(schedule.payload),
            unique_period: schedule.unique.as_ref().map(|unique| unique.period.as_secs_f64().ceil() as u64),
            unique_key: schedule.unique.map(|unique| unique.key),
            tags: schedule.tags.into_iter().collect(),
            catch_up,
            catch_up_most,
            overlap: schedule.overlap.into(),
            paused: schedule.paused,
            policy: schedule.policy.into(),
            created_at: Rfc3339(schedule.created_at),
            created_by: schedule.created_by,
            updated_at: Rfc3339(schedule.updated_at),
            last_run: at(schedule.last_run),
            last_job_id: schedule.last_job.map(|id| id.to_string()),
            next_run: at(schedule.next_run).filter(|_| !schedule.paused),
            skipped_total: schedule.skipped.total,
            skipped_runs: schedule.skipped.latest.iter().rev().map(SkippedRun::from).collect(),
        }
    }
}
