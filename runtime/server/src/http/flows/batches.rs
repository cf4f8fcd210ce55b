//! `/batch`: jobs that are counted together, with a callback when all have ended.

use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use windlass_core::flow::{Batch, Callback, NewBatch};
use windlass_core::{Name, Refusal};

use crate::http::Api;
use crate::http::produce::permitted;
use crate::http::transport::error::{Error, Result};
use crate::http::transport::extract::Body;
use crate::http::wire::{GroupCounts, NameText, Rfc3339};

/// The callback of a batch.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub struct BatchBody<'a> {
    /// Where the callback is enqueued once all members have ended. Without one, the batch only counts.
    #[schema(value_type = Option<NameText>)]
    callback_queue: Option<String>,
    /// Its payload. The counters of the batch are added, unless it has fields of the same names.
    #[serde(borrow)]
    #[schema(value_type = serde_json::Value)]
    callback_payload: Option<&'a RawValue>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct CreatedBatch {
    batch_id: String,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct BatchView {
    batch_id: String,
    /// `open` while jobs can join, `running` once it is sealed, `finished` when all members have ended.
    #[schema(value_type = String)]
    state: &'static str,
    #[serde(flatten)]
    counts: GroupCounts,
    /// The share of jobs that have ended, in percent.
    percent: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<NameText>)]
    callback_queue: Option<windlass_core::QueueName>,
    /// The callback job, once it is enqueued.
    #[serde(skip_serializing_if = "Option::is_none")]
    callback_job: Option<String>,
    created_at: Rfc3339,
    #[serde(skip_serializing_if = "Option::is_none")]
    sealed_at: Option<Rfc3339>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at: Option<Rfc3339>,
}

impl From<Batch> for BatchView {
    fn from(batch: Batch) -> BatchView {
        BatchView {
            state: batch.standing().as_str(),
            percent: batch.tally.percent(),
            batch_id: batch.id,
            counts: batch.tally.into(),
            callback_queue: batch.callback_queue,
            callback_job: batch.callback_job.map(|id| id.to_string()),
            created_at: Rfc3339(batch.created_at),
            sealed_at: batch.sealed_at.map(Rfc3339),
            finished_at: batch.finished_at.map(Rfc3339),
        }
    }
}

/// Reads a batch from a request; `place` is put before the field's name in an error.
pub fn new_batch(body: &Body, batch: &BatchBody<'_>, place: &str) -> Result<NewBatch> {
    let callback = match (&batch.callback_queue, batch.callback_payload) {
        (Some(queue), payload) => Some(Callback {
            queue: Name::parse("callback_queue", queue)
                .map_err(|error| Error::invalid(format!("{place}{error}, not {queue:?}")))?,
            payload: payload.map(|raw| body.part(raw)),
        }),
        (None, Some(_)) => {
            let why = "is missing, and there is a callback_payload; name the queue of the callback";
            return Err(Error::field(&format!("{place}callback_queue"), why));
        }
        (None, None) => None,
    };
    Ok(NewBatch { callback, ..NewBatch::default() })
}

/// Create a batch
///
/// Jobs join it by `batch_id` until it is sealed. Once it is sealed and all members have ended, the callback is
/// enqueued, in the commit that ends the last member, and only once.
#[utoipa::path(post, path = "/batch", tag = "flows", request_body = Option<BatchBody>, responses((status = 201, body = CreatedBatch)))]
pub async fn create(api: Api, body: Body) -> Result<(StatusCode, Json<CreatedBatch>)> {
    permitted::check_batches(&api)?;
    let batch: BatchBody = body.json_or_default()?;
    let batch = new_batch(&body, &batch, "")?;
    permitted::check(&api, &[], Some(&batch))?;
    let made = api.store.make_batch(batch, Vec::new(), false).await?;
    Ok((StatusCode::CREATED, Json(CreatedBatch { batch_id: made.id })))
}

/// Seal a batch
///
/// No more jobs can join. The response has `callback_job` if all members have ended. Sealing a batch again changes
/// nothing.
#[utoipa::path(post, path = "/batch/{id}/seal", tag = "flows", responses((status = 200, body = BatchView), (status = 404, description = "There is no such batch.")))]
pub async fn seal(api: Api, Path(id): Path<String>) -> Result<Json<BatchView>> {
    permitted::check_batches(&api)?;
    Ok(Json(api.store.seal(id).await?.into()))
}

/// Show a batch
#[utoipa::path(get, path = "/batch/{id}", tag = "flows", responses((status = 200, body = BatchView), (status = 404, description = "There is no such batch, or all its jobs have been removed.")))]
pub async fn show(api: Api, Path(id): Path<String>) -> Result<Json<BatchView>> {
    let batch = api.store.batch(&id).await?.ok_or_else(|| Refusal::not_found("batch", id))?;
    Ok(Json(batch.into()))
}
