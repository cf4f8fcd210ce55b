//! `/plugins`: uploading handlers, choosing their versions, and showing them.
//!
//! Reading order: this file, `view` (responses), `swap` (which version runs), `grant` (what it may do), `form` (texts
//! in TOML or JSON).

mod form;
mod grant;
pub(crate) mod secrets;
mod swap;
mod view;

use axum::Json;
use axum::extract::{Path, Request};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windlass_core::plugin::manifest::Manifest;
use windlass_core::{Name, QueueName};

use crate::http::Api;
use crate::http::jobs::{Status, status};
use crate::http::transport::body;
use crate::http::transport::error::{Error, Result};
use crate::http::transport::extract::{NamePath, Query};
use crate::limits;
use crate::registry::{Upload, find_version};
pub use grant::*;
pub use swap::*;
pub use view::CanaryAnswer;
use view::{PluginAnswer, show_plugin, show_plugins};

/// The header for the manifest of an uploaded component: the text of a `windlass.toml`, or the same as JSON, in Base64.
const MANIFEST_HEADER: &str = "windlass-manifest";
/// The header for the name of the person or program that uploads.
const BY_HEADER: &str = "windlass-by";

#[derive(Debug, Serialize, ToSchema)]
pub struct Plugins {
    plugins: Vec<PluginAnswer>,
}

/// List all plugins
#[utoipa::path(get, path = "/plugins", tag = "plugins", responses((status = 200, body = Plugins)))]
pub async fn list(api: Api) -> Result<Json<Plugins>> {
    let plugins = api.store.plugins().await?;
    Ok(Json(Plugins { plugins: show_plugins(&api, plugins).await? }))
}

/// Show one plugin: its versions, what it asks for, what it is granted, and its history
#[utoipa::path(get, path = "/plugins/{name}", tag = "plugins", responses((status = 200, body = PluginAnswer)))]
pub async fn show(api: Api, NamePath(name): NamePath) -> Result<Json<PluginAnswer>> {
    let plugin = api.registry.plugin(&name).await?;
    Ok(Json(show_plugin(&api, plugin).await?))
}

/// The plugin after an upload.
#[derive(Debug, Serialize, ToSchema)]
pub struct UploadAnswer {
    /// The version that was uploaded.
    version: String,
    new_version: bool,
    #[serde(flatten)]
    plugin: PluginAnswer,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct UploadQuery {
    /// The queues it serves, separated by commas, instead of those in its manifest.
    queues: Option<String>,
    /// `false` stores the version without making it active.
    activate: Option<bool>,
    /// What happens to running attempts: `drain` (default), `checkpoint` or `now`.
    swap: Option<String>,
    /// How long `swap=checkpoint` waits for one, such as `60s`.
    deadline: Option<String>,
}

/// Upload a plugin or a new version of it
///
/// The body is the raw component. It is checked, compiled, stored and activated, or refused with nothing changed. Send
/// a manifest in the header `Windlass-Manifest`, in Base64; without one, the version gets the manifest of the active
/// version.
#[utoipa::path(put, path = "/plugins/{name}", tag = "plugins", params(UploadQuery, ("Windlass-Manifest" = Option<String>, Header, description = "A windlass.toml, or the same as JSON, in Base64."), ("Windlass-By" = Option<String>, Header, description = "Who uploads, as they say themselves.")), request_body(content = Vec<u8>, content_type = "application/wasm", description = "The component."), responses((status = 201, description = "A new version.", body = UploadAnswer), (status = 200, description = "This version was there.", body = UploadAnswer), (status = 409, description = "A queue has another plugin."), (status = 422, description = "The component cannot run here."), (status = 503, description = "The disk is full, or the server lacks something else; nothing was done.")))]
pub async fn upload(
    api: Api,
    NamePath(name): NamePath,
    Query(query): Query<UploadQuery>,
    request: Request,
) -> Result<(StatusCode, Json<UploadAnswer>)> {
    let queues = match &query.queues {
        Some(list) => Some(queues(list)?),
        None => None,
    };
    let manifest = manifest_in(request.headers())?;
    let by = request.headers().get(BY_HEADER).and_then(|by| by.to_str().ok()).map(|by| by.chars().take(128).collect());
    let swap = swap::parse(query.swap.as_deref(), query.deadline.as_deref())?;
    let swap = query.activate.unwrap_or(true).then_some(swap);
    let smaller = "build the component for size and without debug information";
    let held = body::read(request, &api, limits::COMPONENT, smaller).await?;
    let bytes = held.bytes.clone();
    let uploaded = api.registry().upload(name, Upload { bytes, manifest, queues, by, swap }).await?;
    let status = if uploaded.new_version { StatusCode::CREATED } else { StatusCode::OK };
    let plugin = show_plugin(&api, uploaded.plugin).await?;
    Ok((status, Json(UploadAnswer { version: uploaded.version, new_version: uploaded.new_version, plugin })))
}

fn manifest_in(headers: &HeaderMap) -> Result<Option<Manifest>> {
    let Some(header) = headers.get(MANIFEST_HEADER) else { return Ok(None) };
    let text = base64::engine::general_purpose::STANDARD.decode(header.as_bytes().trim_ascii());
    let text = text.map_err(|_| Error::invalid("the header Windlass-Manifest should be a manifest in Base64"))?;
    form::read::<Manifest>(&text, "the manifest").map(Some)
}

/// `a,b,c`, each named once.
fn queues(list: &str) -> Result<Vec<QueueName>> {
    let mut queues: Vec<QueueName> = Vec::new();
    for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        queues.push(Name::parse("queues", name)?);
    }
    if queues.is_empty() || queues.len() > limits::QUEUES {
        let why = format!("name 1 to {} queues, separated by commas, or leave it out", limits::QUEUES);
        return Err(Error::field("queues", why));
    }
    Ok(queues)
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Force {
    /// `true` removes it even if it is in use: its attempts are stopped and their jobs become pending again.
    force: Option<bool>,
}

/// Remove a plugin and its grant
///
/// The jobs of its queues wait for another plugin, or for workers. Refused while attempts run, unless forced.
#[utoipa::path(delete, path = "/plugins/{name}", tag = "plugins", params(Force), responses((status = 200, body = Status), (status = 409, description = "Attempts of it run.")))]
pub async fn remove(api: Api, NamePath(name): NamePath, Query(query): Query<Force>) -> Result<Json<Status>> {
    api.registry().remove(&name, query.force.unwrap_or(false)).await?;
    api.figures.keep(&name, false, &[]);
    Ok(status("deleted"))
}

/// Remove one version
///
/// Refused while it is active, a canary, or attempts run on it, unless forced.
#[utoipa::path(delete, path = "/plugins/{name}/versions/{version}", tag = "plugins", params(Force), responses((status = 200, body = PluginAnswer), (status = 409, description = "The version is in use.")))]
pub async fn remove_version(
    api: Api,
    Path((name, version)): Path<(String, String)>,
    Query(query): Query<Force>,
) -> Result<Json<PluginAnswer>> {
    let name = Name::parse("name", &name)?;
    let plugin = api.registry().remove_version(&name, &version, query.force.unwrap_or(false)).await?;
    api.figures.keep(&plugin.name, true, &plugin.versions.iter().map(|version| version.digest()).collect::<Vec<_>>());
    Ok(Json(show_plugin(&api, plugin).await?))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct WhichVersion {
    /// The digest of a version, or at least six characters of it; the active one if none is named.
    version: Option<String>,
}

/// Download a component as it was uploaded
///
/// The active version, or the one that is named.
#[utoipa::path(get, path = "/plugins/{name}/component", tag = "plugins", params(WhichVersion), responses((status = 200, content_type = "application/wasm", body = Vec<u8>)))]
pub async fn download(api: Api, NamePath(name): NamePath, Query(query): Query<WhichVersion>) -> Result<Response> {
    let plugin = api.registry.plugin(&name).await?;
    let version = match &query.version {
        Some(text) => Some(find_version(&plugin, text)?),
        None => plugin.active_version(),
    };
    let Some(version) = version else {
        return Err(Error::not_found(format!("plugin {name} has no active version; name one with ?version=")));
    };
    let bytes = api.store.read_blob(version.component).await?;
    Ok(([(header::CONTENT_TYPE, "application/wasm")], bytes).into_response())
}
