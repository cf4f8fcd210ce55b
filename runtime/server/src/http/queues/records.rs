//! `/queues/{name}/records`: what handlers have stored under a key, and how external workers store and mark records
//! with an ack or a heartbeat.

use axum::Json;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};
use windlass_core::{Name, NewMark, NewRecord, Notes, QueueName, Record, Refusal, check_key};

use crate::http::Api;
use crate::http::transport::error::{Error, Result};
use crate::http::transport::extract::{NamePath, Query};
use crate::http::wire::{NameText, Rfc3339, Shown};
use crate::limits;

/// A record in the job's own queue, stored in the commit of the ack or checkpoint it comes with.
#[derive(Debug, Deserialize, ToSchema)]
pub struct RecordBody<'a> {
    key: String,
    #[serde(borrow)]
    #[schema(value_type = serde_json::Value)]
    value: &'a RawValue,
}

/// A mark on a record of any queue. Nothing happens if there is no such record.
#[derive(Debug, Deserialize, ToSchema)]
pub struct MarkBody {
    #[schema(value_type = NameText)]
    queue: String,
    key: String,
    /// `null` removes the mark.
    mark: Option<String>,
}

/// The records and marks of an ack or a heartbeat; refused here if they can never be stored.
pub fn notes(records: Option<Vec<RecordBody<'_>>>, marks: Option<Vec<MarkBody>>) -> Result<Option<Box<Notes>>> {
    let record = |body: RecordBody<'_>| NewRecord { key: body.key, value: body.value.get().as_bytes().to_vec() };
    let records = records.unwrap_or_default().into_iter().map(record).collect();
    let mut wanted = Vec::new();
    for MarkBody { queue, key, mark } in marks.unwrap_or_default() {
        wanted.push(NewMark { queue: Name::parse("marks.queue", &queue)?, key, mark });
    }
    let notes = Notes::new(records, wanted);
    if let Some(notes) = &notes {
        notes.check(0)?;
    }
    Ok(notes)
}

#[derive(Debug, Serialize, ToSchema)]
pub struct RecordView {
    #[schema(value_type = NameText)]
    queue: QueueName,
    key: String,
    #[schema(value_type = serde_json::Value)]
    value: Shown,
    mark: Option<String>,
    /// The job that wrote it. The record is removed with the job.
    job_id: String,
    updated_at: Rfc3339,
}

impl From<Record> for RecordView {
    fn from(record: Record) -> RecordView {
        let Record { queue, key, value, mark, job, updated_at } = record;
        let (value, job_id) = (Shown(value.into()), job.to_string());
        RecordView { queue, key, value, mark, job_id, updated_at: Rfc3339(updated_at) }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct RecordPage {
    records: Vec<RecordView>,
    /// The first key of the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// One record if the request names a key, otherwise a page.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum RecordsAnswer {
    One(RecordView),
    Page(RecordPage),
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct RecordsQuery {
    /// Only this record.
    key: Option<String>,
    /// The first key of the page.
    from: Option<String>,
    limit: Option<usize>,
    /// Only marked records.
    #[serde(default)]
    marked: bool,
}

/// List the records of a queue, by key
#[utoipa::path(
    get,
    path = "/queues/{name}/records",
    tag = "queues",
    params(RecordsQuery),
    responses((status = 200, body = RecordsAnswer))
)]
pub async fn list_records(
    api: Api,
    NamePath(name): NamePath,
    Query(query): Query<RecordsQuery>,
) -> Result<Json<RecordsAnswer>> {
    let RecordsQuery { key, from, limit, marked } = query;
    if let Some(key) = key {
        if from.is_some() || limit.is_some() || marked {
            return Err(Error::field("key", "asks for one record; leave out `from`, `limit` and `marked`"));
        }
        check_key("key", &key)?;
        let found = api.store.record(name, key.clone()).await?;
        let record = found.ok_or_else(|| Refusal::not_found("record", key))?;
        return Ok(Json(RecordsAnswer::One(record.into())));
    }
    let limit = limit.unwrap_or(limits::PAGE).clamp(1, limits::RECORDS_PAGE);
    let (records, next) = api.store.records(name, from.unwrap_or_default(), limit, marked).await?;
    let records = records.into_iter().map(RecordView::from).collect();
    Ok(Json(RecordsAnswer::Page(RecordPage { records, next })))
}
