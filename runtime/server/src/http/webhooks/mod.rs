//! `/webhook-endpoints`: addresses to which events are sent. Delivery itself is in `crate::webhooks`. Clients of the
//! older wire format find them under `/webhooks`, together with the jobs that `POST /webhooks/{queue}` enqueues.
//!
//! Reading order: this file, `deliveries` (what was sent, tests, sending again), `inbound` (queues whose requests must
//! be signed).

pub(crate) mod deliveries;
pub(crate) mod inbound;

use axum::Json;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_core::{DeliveryLog, Refusal, SigningSecrets, Time, Webhook, WebhookEdit};
use windlass_store::{Clock, WebhookChange};

use crate::http::Api;
use crate::http::jobs::{Status, status};
use crate::http::transport::error::{Error, Result};
use crate::http::transport::extract::{Body, NamePath};
use crate::http::wire::{Rfc3339, Span};
use crate::limits;
use crate::secrets::Signer;
use crate::secrets::keyring::SecretKey;
use crate::webhooks::standard;

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
    /// Signs every delivery, as Standard Webhooks describes: `whsec_` and 24 to 64 random bytes in Base64. Without one
    /// the server makes one and shows it in this answer only. Stored encrypted.
    #[schema(pattern = "^whsec_[A-Za-z0-9+/]{32,86}={0,2}$")]
    secret: Option<String>,
    enabled: Option<bool>,
    /// How many times a failed delivery is retried; 3 by default.
    #[schema(maximum = 20)]
    retry_limit: Option<u32>,
}

/// What is changed of a webhook; absent fields stay as they are.
#[derive(Debug, Default, Deserialize, ToSchema)]
struct WebhookEditBody {
    #[schema(example = "https://example.com/hooks")]
    url: Option<String>,
    events: Option<Vec<String>>,
    /// One that is enabled again gets the events from then on.
    enabled: Option<bool>,
    #[schema(maximum = 20)]
    retry_limit: Option<u32>,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
struct RotateBody {
    /// The new secret; without one the server makes one and shows it in this answer only.
    #[schema(pattern = "^whsec_[A-Za-z0-9+/]{32,86}={0,2}$")]
    secret: Option<String>,
    /// How long the secret so far signs every delivery beside the new one; 24 hours by default, and 0 if it has leaked.
    keep_previous: Option<Span>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct WebhookAnswer {
    id: String,
    url: String,
    events: Vec<String>,
    has_secret: bool,
    /// Until when deliveries are also signed with the previous secret.
    previous_secret_until: Option<Rfc3339>,
    enabled: bool,
    retry_limit: u32,
    created_at: Rfc3339,
    updated_at: Rfc3339,
    /// Events that were delivered.
    delivered: u64,
    /// Events whose delivery failed for good.
    failed: u64,
    /// Why the latest delivery failed for good, if it did.
    last_error: Option<String>,
}

/// A webhook whose secret is new.
#[derive(Debug, Serialize, ToSchema)]
struct NewSecretAnswer {
    #[serde(flatten)]
    webhook: WebhookAnswer,
    /// The secret, if the server has made it. It is not shown again.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    secret: Option<String>,
}

/// List all webhook endpoints with their deliveries and failures
#[utoipa::path(get, path = "/webhook-endpoints", tag = "webhooks", responses((status = 200, body = Vec<WebhookAnswer>)))]
pub async fn list(api: Api) -> Result<Json<Vec<WebhookAnswer>>> {
    let now = api.clock.now();
    Ok(Json(api.store.webhooks().await?.into_iter().map(|hook| WebhookAnswer::new(hook, now)).collect()))
}

/// Show one webhook endpoint
#[utoipa::path(get, path = "/webhook-endpoints/{id}", tag = "webhooks", responses((status = 200, body = WebhookAnswer)))]
pub async fn show(api: Api, NamePath(id): NamePath) -> Result<Json<WebhookAnswer>> {
    Ok(Json(WebhookAnswer::new(find(&api, &id).await?, api.clock.now())))
}

async fn find(api: &Api, id: &str) -> Result<Webhook> {
    let found = api.store.webhooks().await?.into_iter().find(|hook| hook.id == *id);
    Ok(found.ok_or_else(|| Refusal::not_found("webhook", id))?)
}

/// Send events to an address, from now on
///
/// The body of each delivery is the `data` of the event in the live stream. Events are delivered in order and at least
/// once, and signed as Standard Webhooks describes: `webhook-id` identifies a delivery that is repeated,
/// `webhook-timestamp` is the time of the attempt in seconds, and `webhook-signature` has `v1,` and the HMAC-SHA256 of
/// `ID.TIMESTAMP.BODY` in Base64 for each valid secret.
#[utoipa::path(
    post,
    path = "/webhook-endpoints",
    tag = "webhooks",
    request_body = WebhookBody,
    responses((status = 201, body = NewSecretAnswer))
)]
pub async fn create(api: Api, body: Body) -> Result<(StatusCode, Json<impl Serialize>)> {
    let wanted: WebhookBody = body.json()?;
    let Some(url) = wanted.url else {
        return Err(Error::field("url", "is missing; send the address for events, such as https://example.com/hooks"));
    };
    api.webhooks.check(&url).map_err(|why| Error::field("url", why))?;
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(Error::internal)?;
    let id = format!("hook_{:016x}", u64::from_be_bytes(random));
    let key = api.secrets.key();
    let (encrypted, made) = new_secret(&key, &id, wanted.secret)?;
    let hook = Webhook {
        id: id.clone(),
        url,
        events: wanted.events.unwrap_or_else(|| vec!["*".to_owned()]),
        secrets: SigningSecrets::new(encrypted),
        enabled: wanted.enabled.unwrap_or(true),
        retry_limit: wanted.retry_limit.unwrap_or(RETRIES),
        created_at: Time::ZERO,
        updated_at: Time::ZERO,
        delivered_up_to: 0,
        delivered: 0,
        failed: 0,
        last_error: None,
        log: DeliveryLog::default(),
        namespace: Default::default(),
    };
    api.store.change_webhook(WebhookChange::Add(Box::new(hook))).await?;
    api.webhooks.changed();
    Ok((StatusCode::CREATED, Json(NewSecretAnswer::new(&api, &id, made).await?)))
}

/// The secret that the client sent, or one that is made: encrypted, and in clear if the client does not have it yet.
fn new_secret(key: &SecretKey, id: &str, sent: Option<String>) -> Result<(Vec<u8>, Option<String>)> {
    let signer = Signer::Webhook(id.to_owned());
    match sent {
        Some(secret) => {
            standard::key_of(&secret).map_err(|why| Error::field("secret", why))?;
            Ok((key.encrypt_signing(&signer, &secret)?, None))
        }
        None => {
            let secret = standard::generate().map_err(Error::internal)?;
            Ok((key.encrypt_signing(&signer, &secret)?, Some(secret)))
        }
    }
}

/// Edit a webhook endpoint
///
/// Absent fields stay as they are. A delivery that is waiting to be retried is tried at once with the new settings. A
/// new secret is set with `rotate-secret`.
#[utoipa::path(
    patch,
    path = "/webhook-endpoints/{id}",
    tag = "webhooks",
    request_body = WebhookEditBody,
    responses((status = 200, body = WebhookAnswer))
)]
pub async fn edit(api: Api, NamePath(id): NamePath, body: Body) -> Result<Json<WebhookAnswer>> {
    let WebhookEditBody { url, events, enabled, retry_limit } = body.json()?;
    if let Some(url) = &url {
        api.webhooks.check(url).map_err(|why| Error::field("url", why))?;
    }
    let edit = WebhookEdit { url, events, enabled, retry_limit };
    api.store.change_webhook(WebhookChange::Edit { id: id.to_string(), edit }).await?;
    api.webhooks.changed();
    Ok(Json(WebhookAnswer::new(find(&api, &id).await?, api.clock.now())))
}

/// Give a webhook endpoint a new secret
///
/// The secret so far signs every delivery beside the new one for a while, so that the receiver can be changed in the
/// meantime. There are never more than two: an older one is dropped.
#[utoipa::path(
    post,
    path = "/webhook-endpoints/{id}/rotate-secret",
    tag = "webhooks",
    request_body = RotateBody,
    responses((status = 200, body = NewSecretAnswer))
)]
pub async fn rotate(api: Api, NamePath(id): NamePath, body: Body) -> Result<Json<impl Serialize>> {
    let RotateBody { secret, keep_previous } = body.json_or_default()?;
    let key = api.secrets.key();
    let (encrypted, made) = new_secret(&key, &id, secret)?;
    let keep = keep_previous.map_or(limits::PREVIOUS_SECRET, |span| span.0);
    api.store.change_webhook(WebhookChange::Rotate { id: id.to_string(), encrypted, keep }).await?;
    api.webhooks.changed();
    Ok(Json(NewSecretAnswer::new(&api, &id, made).await?))
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
    responses((status = 201, body = NewSecretAnswer))
)]
pub async fn create_alias(api: Api, body: Body) -> Result<(StatusCode, Json<impl Serialize>)> {
    create(api, body).await
}

/// `DELETE /webhook-endpoints/{id}` under its older path
#[utoipa::path(delete, path = "/webhooks/{name}", tag = "webhooks", responses((status = 200, body = Status)))]
pub async fn remove_alias(api: Api, id: NamePath) -> Result<Json<Status>> {
    remove(api, id).await
}

impl WebhookAnswer {
    fn new(hook: Webhook, now: Time) -> WebhookAnswer {
        WebhookAnswer {
            has_secret: hook.secrets.newest.is_some(),
            previous_secret_until: hook.secrets.previous_at(now).map(|previous| Rfc3339(previous.until)),
            id: hook.id,
            url: hook.url,
            events: hook.events,
            enabled: hook.enabled,
            retry_limit: hook.retry_limit,
            created_at: Rfc3339(hook.created_at),
            updated_at: Rfc3339(hook.updated_at),
            delivered: hook.delivered,
            failed: hook.failed,
            last_error: hook.last_error,
        }
    }
}

impl NewSecretAnswer {
    async fn new(api: &Api, id: &str, secret: Option<String>) -> Result<NewSecretAnswer> {
        Ok(NewSecretAnswer { webhook: WebhookAnswer::new(find(api, id).await?, api.clock.now()), secret })
    }
}
