//! What was sent to a webhook lately, a test, and sending one again.

use axum::Json;
use axum::extract::Path;
use serde::Serialize;
use utoipa::ToSchema;
use windlass_core::access::AuditOutcome;
use windlass_core::{Delivery, DeliveryCause};
use windlass_store::Clock;

use crate::http::Api;
use crate::http::transport::error::{Error, Result};
use crate::http::transport::extract::NamePath;
use crate::http::webhooks::find;
use crate::http::wire::{Rfc3339, wire_enum};
use crate::webhooks::Attempted;

wire_enum!(CauseName = DeliveryCause { Event, Redelivery, Test });

/// One attempt to deliver something.
#[derive(Debug, Serialize, ToSchema)]
pub struct DeliveryAnswer {
    /// The `webhook-id` header of the request: the same for all attempts to deliver one event.
    #[schema(example = "hook_5c6ae3b1fd0a4d27:4711")]
    id: String,
    at: Rfc3339,
    /// The number of the event; a test has none.
    seq: Option<u64>,
    /// The type of the event.
    #[schema(example = "completed")]
    r#type: String,
    /// Whether the event happened, was sent again on request, or is a test.
    cause: CauseName,
    /// The number of the attempt, from 1 on.
    attempt: u32,
    /// The status of the receiver's answer, if there was one.
    status_code: Option<u16>,
    duration_ms: u64,
    /// Why it did not arrive, if it did not.
    error: Option<String>,
    /// When it is tried again; `null` if it arrived or was given up.
    next_attempt_at: Option<Rfc3339>,
}

/// What came of one request to a webhook endpoint.
#[derive(Debug, Serialize, ToSchema)]
pub struct AttemptAnswer {
    /// Whether the receiver answered with 2xx.
    delivered: bool,
    #[serde(flatten)]
    delivery: DeliveryAnswer,
    /// The beginning of the body that the receiver answered with; `null` if there was no answer.
    response: Option<String>,
}

/// List what was sent to a webhook endpoint lately, newest first
///
/// One entry for each attempt. The last 100 are stored, for a week at most.
#[utoipa::path(
    get,
    path = "/webhook-endpoints/{id}/deliveries",
    tag = "webhooks",
    responses((status = 200, body = Vec<DeliveryAnswer>))
)]
pub async fn list_deliveries(api: Api, NamePath(id): NamePath) -> Result<Json<Vec<DeliveryAnswer>>> {
    find(&api, &id).await?;
    let now = api.clock.now();
    let stored = api.store.deliveries(&id).await?.into_iter().rev();
    Ok(Json(stored.filter(|delivery| !delivery.is_past_keeping(now)).map(DeliveryAnswer::from).collect()))
}

/// Send a test to a webhook endpoint now
///
/// An event of the type `test`, signed like any other and sent once, whatever types of events the endpoint gets and
/// whether it is enabled or not. The answer says what came back.
#[utoipa::path(
    post,
    path = "/webhook-endpoints/{id}/test",
    tag = "webhooks",
    responses((status = 200, body = AttemptAnswer))
)]
pub async fn test(api: Api, NamePath(id): NamePath) -> Result<Json<AttemptAnswer>> {
    let hook = find(&api, &id).await?;
    api.store.note("webhook.test", id.to_string(), AuditOutcome::Done).await?;
    Ok(Json(api.webhooks.test(hook).await?.into()))
}

/// Send an event to a webhook endpoint again, now
///
/// The delivery must be among those that are listed, and its event still stored. It is sent once, with the same
/// `webhook-id` and the current settings of the endpoint. The answer says what came back.
#[utoipa::path(
    post,
    path = "/webhook-endpoints/{id}/deliveries/{delivery}/redeliver",
    tag = "webhooks",
    responses((status = 200, body = AttemptAnswer))
)]
pub async fn redeliver(api: Api, Path((id, delivery)): Path<(String, String)>) -> Result<Json<AttemptAnswer>> {
    let hook = find(&api, &id).await?;
    api.store.note("webhook.redeliver", format!("{id} {delivery}"), AuditOutcome::Done).await?;
    Ok(Json(api.webhooks.redeliver(hook, &delivery).await.map_err(Error::from)?.into()))
}

impl From<Delivery> for DeliveryAnswer {
    fn from(delivery: Delivery) -> DeliveryAnswer {
        DeliveryAnswer {
            id: delivery.message_id,
            at: Rfc3339(delivery.at),
            seq: delivery.seq,
            r#type: delivery.kind,
            cause: delivery.cause.into(),
            attempt: delivery.attempt,
            status_code: delivery.status,
            duration_ms: delivery.duration_ms,
            error: delivery.error,
            next_attempt_at: delivery.next_attempt_at.map(Rfc3339),
        }
    }
}

impl From<Attempted> for AttemptAnswer {
    fn from(attempted: Attempted) -> AttemptAnswer {
        AttemptAnswer {
            delivered: attempted.entry.error.is_none(),
            delivery: attempted.entry.into(),
            response: attempted.answer.map(|body| String::from_utf8_lossy(&body).into_owned()),
        }
    }
}
