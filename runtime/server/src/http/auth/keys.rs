//! `/auth/keys`: API keys are made, listed and revoked, and take effect at once.

use axum::Json;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_core::access::{ApiKey, KeyNamespaces, NewKey, Role};
use windlass_core::{AllowedQueues, Refusal};
use windlass_store::{AccessChange, Clock};

use crate::http::Api;
use crate::http::access::key_text;
use crate::http::auth::{RateBody, RateView};
use crate::http::jobs::{Status, status};
use crate::http::transport::error::{Error, Result};
use crate::http::transport::extract::{Body, TextPath};
use crate::http::wire::{Moment, Rfc3339};

/// A key to be made.
#[derive(Debug, Default, Deserialize, ToSchema)]
struct KeyBody {
    /// Who uses it.
    #[schema(required = true, value_type = String)]
    name: Option<String>,
    /// `producer`, `worker`, `viewer`, `operator`, `deployer` or `admin`.
    #[schema(required = true, value_type = String)]
    role: Option<String>,
    /// Where it is valid; `*` for all namespaces. The caller's own if absent.
    namespace: Option<String>,
    /// The queues it may use, such as `emails.send` or `emails.*`; all if absent.
    queues: Option<Vec<String>>,
    /// One such pattern.
    queue_scope: Option<String>,
    /// How many requests it may make.
    #[schema(value_type = Option<RateBody>)]
    rate: Option<RateBody>,
    expires_at: Option<Moment>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct KeyAnswer {
    id: String,
    name: String,
    role: String,
    namespace: String,
    queues: Vec<String>,
    rate: Option<RateView>,
    expires_at: Option<Rfc3339>,
    created_at: Rfc3339,
    created_by: Option<String>,
    /// To the minute.
    last_used_at: Option<Rfc3339>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct CreatedKey {
    /// The key itself. It is shown only now.
    key: String,
    #[serde(flatten)]
    stored: KeyAnswer,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct KeyList {
    keys: Vec<KeyAnswer>,
}

/// List the keys of the namespace; an admin of all namespaces sees all keys
#[utoipa::path(get, path = "/auth/keys", tag = "access", responses((status = 200, body = KeyList)))]
pub async fn list(api: Api) -> Result<Json<KeyList>> {
    let mut keys = api.store.api_keys().await?;
    keys.retain(|key| may_manage(&api, &key.namespaces));
    keys.sort_by_key(|key| key.created_at);
    Ok(Json(KeyList { keys: keys.into_iter().map(KeyAnswer::from).collect() }))
}

/// Create a key
///
/// The answer is the only place where the key itself is ever shown: the server stores its hash.
#[utoipa::path(post, path = "/auth/keys", tag = "access", request_body = KeyBody, responses((status = 201, body = CreatedKey)))]
pub async fn create(api: Api, body: Body) -> Result<(StatusCode, Json<CreatedKey>)> {
    let wanted: KeyBody = body.json()?;
    let now = api.clock.now();
    let new = read(&api, wanted)?;
    new.check(now)?;
    if !may_manage(&api, &new.namespaces) {
        return Err(Error::forbidden(format!(
            "only an admin of all namespaces can create a key for `{}`",
            new.namespaces.as_str()
        )));
    }
    if let KeyNamespaces::One(namespace) = &new.namespaces {
        let others = AllowedQueues::of(namespace.clone());
        let known =
            namespace.is_default() || api.store.namespaces().await?.iter().any(|row| row.name == others.namespace);
        if !known {
            return Err(Refusal::not_found("namespace", namespace).into());
        }
    }
    let made = key_text::KEY.make().ok_or_else(|| Error::internal("the system has no randomness for a key"))?;
    let row = new.make(made.id, made.sha256, Some(api.caller.actor.id.clone()), now);
    api.store.change_access(AccessChange::AddKey(Box::new(row.clone()))).await?;
    api.authority.refresh().await?;
    Ok((StatusCode::CREATED, Json(CreatedKey { key: made.key, stored: row.into() })))
}

/// Revoke a key: it is refused from now on
#[utoipa::path(
    delete,
    path = "/auth/keys/{id}",
    tag = "access",
    params(("id" = String, Path, description = "The id of a key, as the list shows it.")),
    responses((status = 200, body = Status))
)]
pub async fn revoke(api: Api, TextPath(id): TextPath) -> Result<Json<Status>> {
    let keys = api.store.api_keys().await?;
    let known = keys.iter().find(|key| key.id == id).filter(|key| may_manage(&api, &key.namespaces));
    if known.is_none() {
        return Err(Refusal::not_found("key", id).into());
    }
    api.store.change_access(AccessChange::RevokeKey { id }).await?;
    api.authority.refresh().await?;
    Ok(status("revoked"))
}

/// Whether the caller may make, see and revoke keys that are valid there: nobody hands out more than they have.
fn may_manage(api: &Api, namespaces: &KeyNamespaces) -> bool {
    let everywhere = api.authority.is_everywhere(&api.caller);
    match namespaces {
        KeyNamespaces::All => everywhere,
        KeyNamespaces::One(namespace) => everywhere || *namespace == api.caller.allowed.namespace,
    }
}

fn read(api: &Api, wanted: KeyBody) -> Result<NewKey> {
    let Some(name) = wanted.name else {
        return Err(Error::field("name", "is missing; say who uses the key, such as \"billing service\""));
    };
    let roles = || Role::ALL.map(Role::as_str).join(", ");
    let Some(role) = wanted.role else { return Err(Error::field("role", format!("is missing; one of {}", roles()))) };
    let namespaces = match &wanted.namespace {
        Some(text) => KeyNamespaces::parse(text)?,
        None => KeyNamespaces::One(api.caller.allowed.namespace.clone()),
    };
    let patterns = wanted.queues.into_iter().flatten().chain(wanted.queue_scope);
    let own = &api.caller.allowed.patterns;
    let mut queues = Vec::new();
    for text in patterns {
        queues.push(text.parse().map_err(|why: String| Error::field("queues", why))?);
    }
    // An admin of some queues makes keys for those, at most.
    if queues.is_empty() {
        queues = own.to_vec();
    } else if let Some(outside) =
        queues.iter().find(|queue| !own.is_empty() && !own.iter().any(|pattern| pattern.includes(queue)))
    {
        return Err(Error::forbidden(format!(
            "your own key may not use the queues `{outside}`, so it cannot hand them out"
        )));
    }
    Ok(NewKey {
        name,
        role: role.parse()?,
        namespaces,
        queues,
        rate: wanted.rate.map(Into::into),
        expires_at: wanted.expires_at.map(|moment| moment.0),
    })
}

impl From<ApiKey> for KeyAnswer {
    fn from(key: ApiKey) -> KeyAnswer {
        KeyAnswer {
            id: key.id,
            name: key.name,
            role: key.role.to_string(),
            namespace: key.namespaces.as_str().to_owned(),
            queues: key.queues.iter().map(ToString::to_string).collect(),
            rate: key.rate.map(RateView::from),
            expires_at: key.expires_at.map(Rfc3339),
            created_at: Rfc3339(key.created_at),
            created_by: key.created_by,
            last_used_at: key.last_used_at.map(Rfc3339),
        }
    }
}
