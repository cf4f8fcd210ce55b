//! What a version asks for, and what the operator grants.

use axum::Json;
use serde_json::Value;
use windlass_core::plugin::grant::Grant;
use windlass_core::plugin::manifest::Manifest;

use crate::http::Api;
use crate::http::jobs::{Status, status};
use crate::http::plugins::view::{ManifestAnswer, PluginAnswer, show_grant, show_plugin};
use crate::http::plugins::{WhichVersion, form};
use crate::http::transport::error::{Error, Result};
use crate::http::transport::extract::{Body, NamePath, Query};
use crate::registry::find_version;

/// The manifest of a version
#[utoipa::path(get, path = "/plugins/{name}/manifest", tag = "plugins", params(WhichVersion), responses((status = 200, body = ManifestAnswer)))]
pub async fn manifest(
    api: Api,
    NamePath(name): NamePath,
    Query(query): Query<WhichVersion>,
) -> Result<Json<ManifestAnswer>> {
    let plugin = api.registry.plugin(&name).await?;
    let version = match &query.version {
        Some(text) => Some(find_version(&plugin, text)?),
        None => plugin.active_version(),
    };
    let none = || Error::not_found(format!("plugin {name} has no active version; name one with ?version="));
    Ok(Json(version.ok_or_else(none)?.into()))
}

/// Replace the manifest of a version
///
/// In TOML, as in a `windlass.toml`, or the same as JSON. Running attempts keep the manifest they started with.
#[utoipa::path(put, path = "/plugins/{name}/manifest", tag = "plugins", params(WhichVersion), request_body(content = Object, description = "A manifest."), responses((status = 200, body = PluginAnswer), (status = 409, description = "A queue has another plugin.")))]
pub async fn set_manifest(
    api: Api,
    NamePath(name): NamePath,
    Query(query): Query<WhichVersion>,
    body: Body,
) -> Result<Json<PluginAnswer>> {
    let manifest: Manifest = form::read(&body.bytes(), "the manifest")?;
    let plugin = api.registry().set_manifest(&name, query.version.as_deref(), manifest).await?;
    Ok(Json(show_plugin(&api, plugin).await?))
}

/// What the operator grants a plugin
///
/// A grant can exist before its plugin; without one, nothing is granted.
#[utoipa::path(get, path = "/plugins/{name}/grant", tag = "plugins", responses((status = 200, body = Value)))]
pub async fn grant(api: Api, NamePath(name): NamePath) -> Result<Json<Value>> {
    Ok(Json(show_grant(&api.registry.granted(&name))))
}

/// Replace what a plugin is granted
///
/// In JSON or TOML. Can be set before the plugin is uploaded; the next attempt uses it. A folder must be inside one of
/// the server's grant roots (`--grant-root`), and is stored as the path that it resolves to.
#[utoipa::path(put, path = "/plugins/{name}/grant", tag = "plugins", request_body(content = Object, description = "A grant."), responses((status = 200, body = Value)))]
pub async fn set_grant(api: Api, NamePath(name): NamePath, body: Body) -> Result<Json<Value>> {
    let grant: Grant = form::read(&body.bytes(), "the grant")?;
    api.registry().grant(&name, grant).await?;
    Ok(Json(show_grant(&api.registry.granted(&name))))
}

/// Revoke everything that a plugin is granted
#[utoipa::path(delete, path = "/plugins/{name}/grant", tag = "plugins", responses((status = 200, body = Status)))]
pub async fn revoke(api: Api, NamePath(name): NamePath) -> Result<Json<Status>> {
    api.registry().grant(&name, Grant::default()).await?;
    Ok(status("revoked"))
}
