//! `/secrets`: values for plugins that are granted them. They can be set but never read: no response contains one.

use axum::Json;
use axum::extract::Request;
use serde::Serialize;
use utoipa::ToSchema;
use windlass_core::Name;

use crate::http::Api;
use crate::http::jobs::{Status, status};
use crate::http::transport::body;
use crate::http::transport::error::{Error, Result};
use crate::http::transport::extract::NamePath;
use crate::http::wire::Rfc3339;
use crate::limits;

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
