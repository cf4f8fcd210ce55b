//! `/inbound-webhooks`: queues whose incoming webhooks must be signed. The requests themselves are in
//! `http::produce::inbound`.

use std::time::Duration;

use axum::Json;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_core::{InboundHook, InboundSettings, QueueName, Refusal, Time};
use windlass_store::{Clock, InboundChange};

use crate::http::Api;
use crate::http::jobs::{Status, status};
use crate::http::transport::error::{Error, Result};
use crate::http::transport::extract::{Body, NamePath};
use crate::http::wire::{NameText, Rfc3339, SchemeName, Span, Text};
use crate::secrets::Signer;
use crate::webhooks::inbound::key_of;

#[derive(Debug, Default, Deserialize, ToSchema)]
struct InboundBody {
    /// How the sender signs: `github` (`X-Hub-Signature-256`), `stripe` (`Stripe-Signature`), or `standard` (Standard
    /// Webhooks: `webhook-id`, `webhook-timestamp` and `webhook-signature`, or the same with `svix-`).
    #[schema(required = true)]
    scheme: Option<SchemeName>,
    /// The secret that the sender signs with. Needed at first and with another scheme; without it the secret stays.
    /// Stored encrypted, and never shown.
    #[schema(min_length = 16, max_length = 1024)]
    secret: Option<String>,
    /// How long the secret so far is accepted beside a new one; by default not at all.
    keep_previous: Option<Span>,
    /// How far the signed time may be from now; 5 minutes by default. `github` signs no time.
    tolerance: Option<Span>,
}

/// A queue whose incoming webhooks must be signed.
#[derive(Debug, Serialize, ToSchema)]
pub struct InboundAnswer {
    #[schema(value_type = NameText)]
    queue: String,
    /// Where the sender posts to, on this server.
    path: String,
    scheme: SchemeName,
    /// How far the signed time may be from now; `null` if the scheme signs no time.
    tolerance: Option<Text>,
    /// Until when the secret before the newest is accepted as well.
    previous_secret_until: Option<Rfc3339>,
    created_at: Rfc3339,
    updated_at: Rfc3339,
}

/// List the queues whose incoming webhooks must be signed
#[utoipa::path(get, path = "/inbound-webhooks", tag = "webhooks", responses((status = 200, body = Vec<InboundAnswer>)))]
pub async fn list_inbound(api: Api) -> Result<Json<Vec<InboundAnswer>>> {
    let now = api.clock.now();
    Ok(Json(api.store.inbound_hooks().await?.into_iter().map(|hook| InboundAnswer::new(hook, now)).collect()))
}

/// Accept only signed incoming webhooks for a queue
///
/// From then on, `POST /webhooks/{queue}` refuses requests that the sender has not signed, and accepts signed ones
/// without a key.
#[utoipa::path(
    put,
    path = "/inbound-webhooks/{queue}",
    tag = "webhooks",
    request_body = InboundBody,
    responses((status = 200, body = InboundAnswer))
)]
pub async fn set_inbound(api: Api, NamePath(queue): NamePath, body: Body) -> Result<Json<InboundAnswer>> {
    let wanted: InboundBody = body.json()?;
    let Some(scheme) = wanted.scheme else {
        return Err(Error::field("scheme", "is missing; say how the sender signs: github, stripe or standard"));
    };
    let key = api.secrets.key();
    let secret = match wanted.secret {
        Some(secret) => {
            key_of(scheme.into(), &secret).map_err(|why| Error::field("secret", why))?;
            Some(key.encrypt_signing(&Signer::Sender(queue.clone()), &secret)?)
        }
        None => None,
    };
    let settings = InboundSettings {
        scheme: scheme.into(),
        secret,
        keep_previous: wanted.keep_previous.map_or(Duration::ZERO, |span| span.0),
        tolerance: wanted.tolerance.map(|span| span.0),
    };
    change(&api, InboundChange::Set { queue: queue.clone(), settings }).await?;
    let found = api.store.inbound_hooks().await?.into_iter().find(|hook| hook.queue == queue);
    let hook = found.ok_or_else(|| Refusal::not_found("inbound webhook", queue))?;
    Ok(Json(InboundAnswer::new(hook, api.clock.now())))
}

/// Accept incoming webhooks for a queue without a signature, from clients that have a key
#[utoipa::path(
    delete,
    path = "/inbound-webhooks/{queue}",
    tag = "webhooks",
    responses((status = 200, body = Status))
)]
pub async fn remove_inbound(api: Api, NamePath(queue): NamePath) -> Result<Json<Status>> {
    change(&api, InboundChange::Remove { queue }).await?;
    Ok(status("removed"))
}

async fn change(api: &Api, change: InboundChange) -> Result<()> {
    Ok(api.inbound.change(&api.store, &api.whole_store, &api.secrets, change).await?)
}

impl InboundAnswer {
    fn new(hook: InboundHook, now: Time) -> InboundAnswer {
        InboundAnswer {
            path: path_of(&hook.queue),
            queue: hook.queue.to_string(),
            scheme: hook.scheme.into(),
            tolerance: hook.tolerance.map(Text),
            previous_secret_until: hook.secrets.previous_at(now).map(|previous| Rfc3339(previous.until)),
            created_at: Rfc3339(hook.created_at),
            updated_at: Rfc3339(hook.updated_at),
        }
    }
}

/// Where a sender posts to. It cannot choose its headers, so the namespace of a tenant is part of the address.
fn path_of(queue: &QueueName) -> String {
    let path = format!("/api/v1/webhooks/{}", queue.replace('/', "%2F"));
    match queue.prefix() {
        Some(namespace) => format!("{path}?namespace={namespace}"),
        None => path,
    }
}
