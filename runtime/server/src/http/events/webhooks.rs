//! `/webhooks`: addresses that events are sent to. Delivery itself is in `crate::webhooks`.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_core::{Time, Webhook};
use windlass_store::WebhookChange;

use crate::http::Api;
use crate::http::jobs::{Status, status};
use crate::http::transport::error::{Error, Result};
use crate::http::transport::extract::{Body, NamePath};
use crate::http::wire::Rfc3339;

/// How often a delivery is tried again unless the webhook says otherwise.
const RETRIES: u32 = 3;

#[derive(Debug, Deserialize, ToSchema)]
struct WebhookBody {
    /// Where to: `https` or `http`. Addresses inside the server's networks need `--webhooks-private`.
    #[schema(required = true, example = "https://example.com/hooks")]
    url: Option<String>,
    /// Kinds of events; all when it is left out.
    #[schema(example = json!(["completed", "dead"]))]
    events: Option<Vec<String>>,
    /// Deliveries carry `X-Windlass-Signature: sha256=HMAC-SHA256(secret, body)`. Stored sealed, never shown again.
    #[schema(min_length = 1, max_length = 1024)]
    secret: Option<String>,
    enabled: Option<bool>,
    /// How often a delivery that failed is tried again, 3 unless it is said.
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
    /// Events that arrived.
    delivered: u64,
    /// Events that were given up after the last try.
    failed: u64,
    /// Why the last one was given up, if it was.
    last_error: Option<String>,
}

/// All webhooks, and how they fare
#[utoipa::path(get, path = "/webhooks", tag = "webhooks", responses((status = 200, body = Vec<WebhookAnswer>)))]
pub async fn list(State(api): State<Api>) -> Result<Json<Vec<WebhookAnswer>>> {
    Ok(Json(api.store.webhooks().await?.into_iter().map(WebhookAnswer::from).collect()))
}

/// Have events sent to an address, from now on
///
/// Each event is sent as the `data` of the live stream is, in order, at least once; `X-Windlass-Delivery` names it.
#[utoipa::path(
    post,
    path = "/webhooks",
    tag = "webhooks",
    request_body = WebhookBody,
    responses((status = 201, body = WebhookAnswer))
)]
pub async fn create(State(api): State<Api>, body: Body) -> Result<(StatusCode, Json<WebhookAnswer>)> {
    let wanted: WebhookBody = body.json()?;
    let Some(url) = wanted.url else {
        return Err(Error::field("url", "is missing; say where to send events, such as https://example.com/hooks"));
    };
    api.webhooks.check(&url).map_err(|why| Error::field("url", why))?;
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(Error::internal)?;
    let id = format!("hook_{:016x}", u64::from_be_bytes(random));
    let sealed_secret = wanted.secret.map(|secret| api.secrets.seal_for_webhook(&id, &secret)).transpose()?;
    let hook = Webhook {
        id: id.clone(),
        url,
        events: wanted.events.unwrap_or_else(|| vec!["*".to_owned()]),
        sealed_secret,
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
    let stored = stored.ok_or_else(|| Error::not_found(format!("webhook {id} was removed at once")))?;
    Ok((StatusCode::CREATED, Json(stored.into())))
}

/// Send no more events to an address
#[utoipa::path(delete, path = "/webhooks/{name}", tag = "webhooks", responses((status = 200, body = Status)))]
pub async fn remove(State(api): State<Api>, NamePath(id): NamePath) -> Result<Json<Status>> {
    api.store.change_webhook(WebhookChange::Remove { id: id.to_string() }).await?;
    api.webhooks.changed();
    Ok(status("deleted"))
}

impl From<Webhook> for WebhookAnswer {
    fn from(hook: Webhook) -> WebhookAnswer {
        WebhookAnswer {
            id: hook.id,
            url: hook.url,
            events: hook.events,
            has_secret: hook.sealed_secret.is_some(),
            enabled: hook.enabled,
            retry_limit: hook.retry_limit,
            created_at: Rfc3339(hook.created_at),
            delivered: hook.delivered,
            failed: hook.failed,
            last_error: hook.last_error,
        }
    }
}
