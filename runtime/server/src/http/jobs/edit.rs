//! Changing one job: while it waits, before its time, and when it runs again. What may be changed in which state is
//! decided in core.

use std::collections::BTreeMap;

use axum::Json;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use windlass_core::{Command, Edit, Time};

use crate::http::Api;
use crate::http::jobs::{Status, ask, status};
use crate::http::transport::error::{Error, Result};
use crate::http::transport::extract::{Body, JobPath};
use crate::http::wire::{Moment, PriorityName, Span};

/// What to change of a job that waits. Absent fields stay as they are.
#[derive(Debug, Default, Deserialize, ToSchema)]
struct EditRequest<'a> {
    #[serde(borrow, default, deserialize_with = "given_json")]
    #[schema(value_type = serde_json::Value, required = false)]
    payload: Option<&'a RawValue>,
    priority: Option<PriorityName>,
    /// When it is due; `null`, or a time that has passed, is at once.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<Moment>)]
    scheduled_at: Option<Option<Moment>>,
    /// All of its tags; those that are not named are removed.
    tags: Option<BTreeMap<String, String>>,
    max_attempts: Option<u32>,
    /// `null` is no limit, here and in the next two.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<Span>)]
    attempt_timeout: Option<Option<Span>>,
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<Span>)]
    stall_timeout: Option<Option<Span>>,
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<Span>)]
    max_duration: Option<Option<Span>>,
}

/// An explicit `null` is a payload; only a missing field is absent.
fn given_json<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// The same for a value that `null` removes.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> std::result::Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(deserializer).map(Some)
}

/// Change a job that waits
///
/// A scheduled, pending, retrying, held or blocked job. Its timeline says what was changed, and by whom.
#[utoipa::path(patch, path = "/jobs/{id}", tag = "jobs", request_body = EditRequest, responses((status = 200, body = Status)))]
pub async fn change(api: Api, JobPath(id): JobPath, body: Body) -> Result<Json<Status>> {
    let wanted: EditRequest<'_> = body.json()?;
    let span = |given: Option<Option<Span>>| given.map(|limit| limit.map(|span| span.0));
    let edit = Edit {
        payload: match wanted.payload {
            Some(raw) => Some(api.store.keep(body.part(raw)).await?),
            None => None,
        },
        priority: wanted.priority.map(Into::into),
        scheduled_at: wanted.scheduled_at.map(|at| at.map_or(Time::ZERO, |moment| moment.0)),
        tags: wanted.tags.map(|tags| tags.into_iter().collect()),
        max_attempts: wanted.max_attempts,
        attempt_timeout: span(wanted.attempt_timeout),
        stall_timeout: span(wanted.stall_timeout),
        max_duration: span(wanted.max_duration),
        by: api.caller.actor.id.clone(),
    };
    if edit.fields().is_empty() {
        return Err(Error::invalid(
            "nothing to change: send `payload`, `priority`, `scheduled_at`, `tags`, `max_attempts`, `attempt_timeout`, \
             `stall_timeout` or `max_duration`",
        ));
    }
    ask(&api, id, Command::Edit(Box::new(edit))).await?;
    Ok(status("edited"))
}

/// Run a scheduled or retrying job now
///
/// It waits no longer for its time, and starts as soon as its queue lets it.
#[utoipa::path(post, path = "/jobs/{id}/run-now", tag = "jobs", responses((status = 200, body = Status)))]
pub async fn run_now(api: Api, JobPath(id): JobPath) -> Result<Json<Status>> {
    ask(&api, id, Command::RunNow).await?;
    Ok(status("pending"))
}

/// What it is to run with; by default, what it ran with.
#[derive(Debug, Default, Deserialize, ToSchema)]
struct RetryRequest<'a> {
    /// Another payload. The job then starts without its checkpoint.
    #[serde(borrow, default, deserialize_with = "given_json")]
    #[schema(value_type = serde_json::Value, required = false)]
    payload: Option<&'a RawValue>,
}

/// Run an ended job again with all its attempts
#[utoipa::path(
    post,
    path = "/jobs/{id}/retry",
    tag = "jobs",
    request_body = Option<RetryRequest>,
    responses((status = 200, body = Status), (status = 409, description = "Another job has its unique key."))
)]
pub async fn retry(api: Api, JobPath(id): JobPath, body: Body) -> Result<Json<Status>> {
    let RetryRequest { payload } = body.json_or_default()?;
    let command = match payload {
        Some(raw) => Command::RetryWith { payload: api.store.keep(body.part(raw)).await? },
        None => Command::Retry,
    };
    ask(&api, id, command).await?;
    Ok(status("retried"))
}
