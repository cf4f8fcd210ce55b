//! The server itself.

use axum::Json;
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::jobs::{Status, status};
use crate::http::transport::error::{Error, Result};
use crate::http::wire::Rfc3339;
use crate::http::{Api, PAUSED};

/// Whether the server is alive
#[utoipa::path(get, path = "/healthz", tag = "system", responses((status = 200, body = Status)))]
pub async fn health(api: Api) -> Result<Json<Status>> {
    if api.shutdown.is_requested() { Err(Error::stopping()) } else { Ok(status("ok")) }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Ready {
    /// `ready`, or `paused`.
    status: &'static str,
    /// What a pause means.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'static str>,
}

/// Whether the server can accept work
///
/// Not ready (503) while it is stopping or its store cannot be written: from the first failed commit, or the
/// disappearance of the data folder, until a commit succeeds again; `error` says why. While the whole server is paused,
/// it accepts jobs and starts none: it is ready, and `status` is `paused`.
#[utoipa::path(get, path = "/readyz", tag = "system", responses((status = 200, body = Ready)))]
pub async fn ready(api: Api) -> Result<Json<Ready>> {
    if api.shutdown.is_requested() {
        return Err(Error::stopping());
    }
    match (api.store.trouble(), api.store.paused()) {
        (Some(why), _) => Err(Error::not_ready(why)),
        (None, Some(_)) => Ok(Json(Ready { status: "paused", message: Some(PAUSED) })),
        (None, None) => Ok(Json(Ready { status: "ready", message: None })),
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Node {
    role: &'static str,
    status: &'static str,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Cluster {
    mode: &'static str,
    status: &'static str,
    nodes: [Node; 1],
}

/// The servers of the cluster
///
/// Always one server.
#[utoipa::path(get, path = "/cluster/status", tag = "system", responses((status = 200, body = Cluster)))]
pub async fn cluster() -> Json<Cluster> {
    Json(Cluster { mode: "single", status: "healthy", nodes: [Node { role: "leader", status: "healthy" }] })
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Info {
    server_version: &'static str,
    api_version: &'static str,
    /// Whether the whole server is paused: nothing starts until `POST /resume`.
    paused: bool,
    paused_since: Option<Rfc3339>,
}

/// Which version runs, and whether it is paused
#[utoipa::path(get, path = "/info", tag = "system", responses((status = 200, body = Info)))]
pub async fn info(api: Api) -> Json<Info> {
    let paused = api.store.paused();
    Json(Info {
        server_version: env!("CARGO_PKG_VERSION"),
        api_version: "v1",
        paused: paused.is_some(),
        paused_since: paused.map(Rfc3339),
    })
}
