//! `/webhook-endpoints`: addresses to which events are sent. Delivery itself is in `crate::webhooks`. Clients of the older wire format
//! find them under `/webhooks`, together with the jobs that `POST /webhooks/{queue}` enqueues.

use axum::Json;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_core::{Refusal, Time, Webhook};
use windlass_store::WebhookChange;

use crate::http::Api;
use crate::http::jobs::{Status, status};
use crate::http::transport::error::{Error, Result};
use crate::http::transport::extract::{Body, NamePath};
use crate::http::wire::Rfc3339;

/// How many times a failed delivery is retried unless the webhook says otherwise.
const RETRIES: u32 = 3;

#[derive(Debug, Deserialize, ToSchema)]
struct WebhookBody {
    /// Where events are sent: `https` or `http`. Private and loopback addresses need `--webhooks-private`.
    #[schema(required = true, example = "https://example.com/hooks")]
    url: Option<String>,
    /// Types of events; all of them when it is absent.
    #[schema(example = json!(["completed", "dead"]))]
    events: Option<Vec<String>>,
    /// Deliveries carry `X-Windlass-Signature: sha256=HMAC-SHA256(secret, body)`. Stored encrypted, never shown again.
    #[schema(min_length = 1, max_length = 1024)]
    secret: Option<String>,
    enabled: Option<bool>,
    /// How many times a failed delivery is retried; 3 by default.
    #[schema(maximum = 20)]
    retry_limit: Option<u32>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct WebhookAnswer {
    id: String,
    url: String,
    events: Vec<String>,
    has_secret: bool,
    enabled: bool,
    retry_limit: u32,
    created_at: Rfc3339,
    /// Events that were delivered.
    delivered: u64,
    /// Events whose delivery failed for good.
    failed: u64,
    /// Why the latest delivery failed for good, if it did.
    last_error: Option<String>,
}

/// List all webhook endpoints with their deliveries and failures
#[utoipa::path(get, path = "/webhook-endpoints", tag = "webhooks", responses((status = 200, body = Vec<WebhookAnswer>)))]
pub async fn list(api: Api) -> Result<Json<Vec<WebhookAnswer>>> {
    Ok(Json(api.store.webhooks().await?.into_iter().map(WebhookAnswer::from).collect()))
}

/// Show one webhook endpoint
#[utoipa::path(get, path = "/webhook-endpoints/{id}", tag = "webhooks", responses((status = 200, body = WebhookAnswer)))]
pub async fn show(api: Api, NamePath(id): NamePath) -> Result<Json<WebhookAnswer>> {
    let found = api.store.webhooks().await?.into_iter().find(|hook| hook.id == *id);
    Ok(Json(found.ok_or_else(|| Refusal::not_found("webhook", id))?.into()))
}

/// Send events to an address, from now on
///
/// The body of each delivery is the `data` of the event in the live stream. Events are delivered in order and at least once;
/// `X-Windlass-Delivery` identifies a delivery that is repeated.
#[utoipa::path(
    post,
    path = "/webhook-endpoints",
    tag = "webhooks",
    request_body = WebhookBody,
    responses((status = 201, body = WebhookAnswer))
)]
pub async fn create(api: Api, body: Body) -> Result<(StatusCode, Json<WebhookAnswer>)> {
    let wanted: WebhookBody = body.json()?;
    let Some(url) = wanted.url else {
        return Err(Error::field("url", "is missing; send the address for events, such as https://example.com/hooks"));
    };
    api.webhooks.check(&url).map_err(|why| Error::field("url", why))?;
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(Error::internal)?;
    let id = format!("hook_{:016x}", u64::from_be_bytes(random));
    let encrypted_secret = wanted.secret.map(|secret| api.secrets.encrypt_for_webhook(&id, &secret)).transpose()?;
    let hook = Webhook {
        id: id.clone(),
        url,
        events: wanted.events.unwrap_or_else(|| vec!["*".to_owned()]),
        encrypted_secret,
        enabled: wanted.enabled.unwrap_or(true),
        retry_limit: wanted.retry_limit.unwrap_or(RETRIES),
        created_at: Time::ZERO,
        told: 0,
        delivered: 0,
        failed: 0,
        last_error: None,
    };
    api.store.change_webhook(WebhookChange::Add(Box::new(hook))).await?;
    api.webhooks.changed();
    let stored = api.store.webhooks().await?.into_iter().find(|hook| hook.id == id);
    let stored =
        stored.ok_or_else(|| Error::not_found(format!("webhook {id} was removed immediately after it was created")))?;
    Ok((StatusCode::CREATED, Json(stored.into())))
}

/// Send no more events to an address
#[utoipa::path(delete, path = "/webhook-endpoints/{id}", tag = "webhooks", responses((status = 200, body = Status)))]
pub async fn remove(api: Api, NamePath(id): NamePath) -> Result<Json<Status>> {
    api.store.change_webhook(WebhookChange::Remove { id: id.to_string() }).await?;
    api.webhooks.changed();
    Ok(status("deleted"))
}

/// `GET /webhook-endpoints` under its older path
#[utoipa::path(get, path = "/webhooks", tag = "webhooks", responses((status = 200, body = Vec<WebhookAnswer>)))]
pub async fn list_alias(api: Api) -> Result<Json<Vec<WebhookAnswer>>> {
    list(api).await
}

/// `POST /webhook-endpoints` under its older path
#[utoipa::path(
    post,
    path = "/webhooks",
    tag = "webhooks",
    request_body = WebhookBody,
    responses((status = 201, body = WebhookAnswer))
)]
pub async fn create_alias(api: Api, body: Body) -> Result<(StatusCode, Json<WebhookAnswer>)> {
    create(api, body).await
}

/// `DELETE /webhook-endpoints/{id}` under its older path
#[utoipa::path(delete, path = "/webhooks/{name}", tag = "webhooks", responses((status = 200, body = Status)))]
pub async fn remove_alias(api: Api, id: NamePath) -> Result<Json<Status>> {
    remove(api, id).await
}

impl From<Webhook> for WebhookAnswer {
    fn from(hook: Webhook) -> WebhookAnswer {
        WebhookAnswer {
            id: hook.id,
            url: hook.url,
            events: hook.events,
            has_secret: hook.encrypted_secret.is_some(),
            enabled: hook.enabled,
            retry_limit: hook.retry_limit,
            created_at: Rfc3339(hook.created_at),
            delivered: hook.delivered,
            failed: hook.failed,
            last_error: hook.last_error,
        }
    }
}
