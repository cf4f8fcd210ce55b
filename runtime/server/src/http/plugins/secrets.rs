//! `/secrets`: values for plugins that are granted them. They can be set but never read: no response contains one.

use axum::Json;
use axum::extract::Request;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_core::Name;

use crate::http::Api;
use crate::http::jobs::{Status, status};
use crate::http::transport::body;
use crate::http::transport::error::{Error, Result};
use crate::http::transport::extract::{Body, NamePath};
use crate::http::wire::Rfc3339;
use crate::limits;
use crate::secrets::rotation::Rotated;

#[derive(Debug, Serialize, ToSchema)]
pub struct SecretList {
    secrets: Vec<SecretAnswer>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct SecretAnswer {
    name: String,
    /// The plugins that may read it.
    granted_to: Vec<String>,
    created_at: Rfc3339,
    updated_at: Rfc3339,
}

/// List the names of all secrets
#[utoipa::path(get, path = "/secrets", tag = "secrets", responses((status = 200, body = SecretList)))]
pub async fn list(api: Api) -> Result<Json<SecretList>> {
    let rows = api.store.secrets().await?;
    let answer = |row: windlass_store::SecretRow| SecretAnswer {
        granted_to: api.registry.granted_to(&row.name).iter().map(Name::to_string).collect(),
        name: row.name.to_string(),
        created_at: Rfc3339(row.created_at),
        updated_at: Rfc3339(row.updated_at),
    };
    Ok(Json(SecretList { secrets: rows.into_iter().map(answer).collect() }))
}

/// Set a secret
///
/// The body is the value. It is used from the next attempt of each plugin that is granted it.
#[utoipa::path(put, path = "/secrets/{name}", tag = "secrets", request_body(content = String, content_type = "text/plain", description = "The value."), responses((status = 200, body = Status)))]
pub async fn set(api: Api, NamePath(name): NamePath, request: Request) -> Result<Json<Status>> {
    let held = body::read(request, &api, limits::SECRET, "store larger data elsewhere, and its key here").await?;
    let value =
        String::from_utf8(held.bytes.to_vec()).map_err(|_| Error::field("value", "a secret is text (UTF-8)"))?;
    api.secrets.set(&api.store, name, value).await?;
    Ok(status("stored"))
}

/// Remove a secret
#[utoipa::path(delete, path = "/secrets/{name}", tag = "secrets", responses((status = 200, body = Status)))]
pub async fn remove(api: Api, NamePath(name): NamePath) -> Result<Json<Status>> {
    api.secrets.remove(&api.store, name).await?;
    Ok(status("removed"))
}

#[derive(Debug, Default, Deserialize, ToSchema)]
pub struct RotateKeyBody {
    /// Drop the older keys that nothing needs any more, instead of adding one.
    #[serde(default)]
    drop_old: bool,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct RotatedKeys {
    /// The id of the key that encrypts now.
    current: u32,
    /// How many secrets and signing secrets were encrypted anew with it.
    encrypted_anew: u64,
    /// The ids of the keys that were dropped.
    dropped: Vec<u32>,
    /// The older keys that are still in the file.
    kept: Vec<KeptKey>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct KeptKey {
    id: u32,
    /// How many encrypted checkpoints need it; `null` if they were not counted.
    checkpoints: Option<u64>,
}

/// Replace the key that encrypts secrets
///
/// Adds a key to the key file and encrypts all secrets of plugins and webhooks anew with it, while everything keeps
/// running. Older keys stay for the encrypted checkpoints that need them; with `drop_old`, those that nothing needs are
/// dropped.
#[utoipa::path(
    post,
    path = "/secrets/rotate",
    tag = "secrets",
    request_body = RotateKeyBody,
    responses((status = 200, body = RotatedKeys))
)]
pub async fn rotate(api: Api, body: Body) -> Result<Json<RotatedKeys>> {
    let RotateKeyBody { drop_old } = body.json_or_default()?;
    let rotated = match drop_old {
        true => api.secrets.drop_old_keys(&api.store, &api.whole_store).await,
        false => api.secrets.rotate(&api.store, &api.whole_store).await,
    };
    Ok(Json(rotated?.into()))
}

impl From<Rotated> for RotatedKeys {
    fn from(rotated: Rotated) -> RotatedKeys {
        let Rotated { current, encrypted_anew, dropped, kept } = rotated;
        let kept = kept.into_iter().map(|key| KeptKey { id: key.id, checkpoints: key.checkpoints }).collect();
        RotatedKeys { current, encrypted_anew: encrypted_anew as u64, dropped, kept }
    }
}
