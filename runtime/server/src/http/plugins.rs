//! `/plugins`: uploading handlers and looking at them.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windlass_core::{Name, Plugin, QueueName, Version};

use super::Api;
use super::error::{Error, Result};
use super::jobs::{Status, status};
use super::read::{self, Body, NamePath, Query};
use super::wire::{NameText, Rfc3339};
use crate::limits;
use crate::registry::find_version;

#[derive(Debug, Serialize, ToSchema)]
pub struct PluginAnswer {
    name: String,
    #[schema(value_type = Vec<NameText>)]
    queues: Vec<QueueName>,
    /// The version that new attempts take.
    active: Option<String>,
    versions: Vec<VersionAnswer>,
    created_at: Rfc3339,
    updated_at: Rfc3339,
}

#[derive(Debug, Serialize, ToSchema)]
struct VersionAnswer {
    /// The SHA-256 of the component.
    version: String,
    size: u64,
    uploaded_at: Rfc3339,
    imports: Vec<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Plugins {
    plugins: Vec<PluginAnswer>,
}

/// The plugin as it stands after an upload.
#[derive(Debug, Serialize, ToSchema)]
pub struct UploadAnswer {
    /// The version that was uploaded, active from now on.
    version: Option<String>,
    new_version: bool,
    #[serde(flatten)]
    plugin: PluginAnswer,
}

/// All plugins
#[utoipa::path(get, path = "/plugins", tag = "plugins", responses((status = 200, body = Plugins)))]
pub async fn list(State(api): State<Api>) -> Result<Json<Plugins>> {
    let plugins = api.registry.plugins().await?;
    Ok(Json(Plugins { plugins: plugins.into_iter().map(PluginAnswer::from).collect() }))
}

/// One plugin and its versions
#[utoipa::path(get, path = "/plugins/{name}", tag = "plugins", responses((status = 200, body = PluginAnswer)))]
pub async fn show(State(api): State<Api>, NamePath(name): NamePath) -> Result<Json<PluginAnswer>> {
    Ok(Json(api.registry.plugin(&name).await?.into()))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct UploadQuery {
    queues: Option<String>,
}

/// Upload a plugin or a new version of it
///
/// The raw component. Checked, compiled, stored and activated, or refused with nothing changed.
#[utoipa::path(put, path = "/plugins/{name}", tag = "plugins", params(UploadQuery), request_body(content = Vec<u8>, content_type = "application/wasm", description = "The component."), responses((status = 201, description = "A new version.", body = UploadAnswer), (status = 200, description = "This version was there.", body = UploadAnswer), (status = 409, description = "A queue has another plugin."), (status = 422, description = "The component cannot run here.")))]
pub async fn upload(
    State(api): State<Api>,
    NamePath(name): NamePath,
    Query(query): Query<UploadQuery>,
    request: Request,
) -> Result<(StatusCode, Json<UploadAnswer>)> {
    let queues = match query.queues {
        Some(list) => Some(queues(&list)?),
        None => None,
    };
    let smaller = "build the component for size and without debug information";
    let bytes = read::read(request, limits::COMPONENT, smaller).await?;
    let uploaded = api.registry.upload(name, queues, bytes).await?;
    let status = if uploaded.new_version { StatusCode::CREATED } else { StatusCode::OK };
    let plugin = PluginAnswer::from(uploaded.plugin);
    let answer = UploadAnswer { version: plugin.active.clone(), new_version: uploaded.new_version, plugin };
    Ok((status, Json(answer)))
}

#[derive(Debug, Deserialize, ToSchema)]
struct Activate {
    version: String,
}

/// Make a version the active one
///
/// New attempts take this version from now on; running ones finish on theirs.
#[utoipa::path(post, path = "/plugins/{name}/activate", tag = "plugins", request_body = Activate, responses((status = 200, body = PluginAnswer), (status = 409, description = "A queue has another plugin."), (status = 422, description = "The component cannot run here.")))]
pub async fn activate(State(api): State<Api>, NamePath(name): NamePath, body: Body) -> Result<Json<PluginAnswer>> {
    let Activate { version } = body.json()?;
    Ok(Json(api.registry.activate(&name, &version).await?.into()))
}

/// Go back to the version before
///
/// The version uploaded before the active one.
#[utoipa::path(post, path = "/plugins/{name}/rollback", tag = "plugins", responses((status = 200, body = PluginAnswer), (status = 422, description = "The component cannot run here.")))]
pub async fn rollback(State(api): State<Api>, NamePath(name): NamePath) -> Result<Json<PluginAnswer>> {
    let plugin = api.registry.plugin(&name).await?;
    let active = plugin.versions.iter().position(|version| Some(version.component.sha256) == plugin.active);
    let Some(before) = active.and_then(|at| at.checked_sub(1)).and_then(|at| plugin.versions.get(at)) else {
        return Err(Error::invalid(format!("plugin {name} has no version from before the active one")));
    };
    Ok(Json(api.registry.activate(&name, &before.digest()).await?.into()))
}

/// Remove a plugin
#[utoipa::path(delete, path = "/plugins/{name}", tag = "plugins", responses((status = 200, body = Status)))]
pub async fn remove(State(api): State<Api>, NamePath(name): NamePath) -> Result<Json<Status>> {
    api.registry.remove(&name).await?;
    Ok(status("deleted"))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct DownloadQuery {
    version: Option<String>,
}

/// The component of a plugin
///
/// The component as it was uploaded: the active version, or the one that is named.
#[utoipa::path(get, path = "/plugins/{name}/component", tag = "plugins", params(DownloadQuery), responses((status = 200, body = Vec<u8>, content_type = "application/wasm")))]
pub async fn download(
    State(api): State<Api>,
    NamePath(name): NamePath,
    Query(query): Query<DownloadQuery>,
) -> Result<Response> {
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

/// `a,b,c`, each named once.
fn queues(list: &str) -> Result<Vec<QueueName>> {
    let mut queues: Vec<QueueName> = Vec::new();
    for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let queue = Name::parse("queues", name)?;
        if !queues.contains(&queue) {
            queues.push(queue);
        }
    }
    if queues.is_empty() || queues.len() > limits::QUEUES {
        let why = format!("name 1 to {} queues, separated by commas, or leave it out", limits::QUEUES);
        return Err(Error::field("queues", why));
    }
    Ok(queues)
}

impl From<Plugin> for PluginAnswer {
    fn from(plugin: Plugin) -> PluginAnswer {
        PluginAnswer {
            active: plugin.active_version().map(Version::digest),
            name: plugin.name,
            queues: plugin.queues,
            versions: plugin.versions.into_iter().map(VersionAnswer::from).collect(),
            created_at: Rfc3339(plugin.created_at),
            updated_at: Rfc3339(plugin.updated_at),
        }
    }
}

impl From<Version> for VersionAnswer {
    fn from(version: Version) -> VersionAnswer {
        VersionAnswer {
            version: version.digest(),
            size: version.component.len,
            uploaded_at: Rfc3339(version.uploaded_at),
            imports: version.imports,
        }
    }
}
