//! Incoming webhooks, for senders that cannot choose the form of their body: `POST /webhooks/{queue}`.

use axum::http::HeaderMap;
use axum::response::Response;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::IntoParams;
use windlass_core::{NewJob, PolicyChoice, Unique, UniqueScope, Until};

use crate::http::Api;
use crate::http::produce::enqueue::{IdempotencyKey, OneAnswer, store_one};
use crate::http::transport::error::{Error, Result};
use crate::http::transport::extract::{Body, NamePath, Query};
use crate::http::wire::aliases;
use crate::http::wire::{Moment, PriorityName, Shown};

/// The options of an incoming webhook, in the query.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct HookQuery {
    priority: Option<PriorityName>,
    unique_key: Option<String>,
    /// The number of runs, including the first.
    max_attempts: Option<u32>,
    max_retries: Option<u32>,
    scheduled_at: Option<Moment>,
    tags: Option<String>,
}

/// Enqueue a job whose payload is the body of the request
///
/// A JSON body is the payload as it is; other text becomes a string, other bytes Base64, and an empty body `{}`.
#[utoipa::path(
    post,
    path = "/webhooks/{name}",
    tag = "producers",
    params(
        HookQuery,
        (
            "Idempotency-Key" = Option<String>,
            Header,
            description = "Makes the request safe to repeat: for a day, the same key returns the jobs of the first request.",
            max_length = 255
        )
    ),
    request_body(content = String, content_type = "text/plain", description = "Any body."),
    responses(
        (status = 201, description = "A new job.", body = OneAnswer),
        (
            status = 200,
            description = "Another job has the unique key or the Idempotency-Key; it is returned.",
            body = OneAnswer
        )
    )
)]
pub async fn webhook(
    api: Api,
    NamePath(queue): NamePath,
    Query(query): Query<HookQuery>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response> {
    let once = IdempotencyKey::read(&headers)?;
    let mut tags = Vec::new();
    for pair in query.tags.as_deref().unwrap_or_default().split(',').filter(|pair| !pair.is_empty()) {
        let Some((key, value)) = pair.split_once(':') else {
            return Err(Error::field("tags", format!("{pair:?} has no colon; write tags=key:value,key:value")));
        };
        tags.push((key.to_owned(), value.to_owned()));
    }
    body.check_depth()?;
    let bytes = body.bytes();
    let payload = match bytes.trim_ascii() {
        [] => Bytes::from_static(b"{}"),
        text if serde_json::from_slice::<&RawValue>(text).is_ok() => bytes.slice_ref(text),
        _ => Bytes::from(serde_json::to_vec(&as_text(&bytes)).map_err(Error::internal)?),
    };
    let job = NewJob {
        queue: Some(queue),
        payload: Some(api.store.keep(payload).await?),
        policy: PolicyChoice {
            priority: query.priority.map(Into::into),
            max_attempts: aliases::max_attempts("", query.max_attempts, query.max_retries)?,
            ..PolicyChoice::default()
        },
        scheduled_at: query.scheduled_at.map(|moment| moment.0),
        unique: query.unique_key.map(|key| Unique {
            key,
            within: UniqueScope::default(),
            until: Until::default(),
            period: windlass_core::DEFAULT_PERIOD,
        }),
        tags,
        ..NewJob::default()
    };
    store_one(&api, once.mark(job, 0)).await
}

fn as_text(bytes: &Bytes) -> serde_json::Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => serde_json::Value::from(text),
        Err(_) => serde_json::json!(Shown(bytes.clone())),
    }
}
