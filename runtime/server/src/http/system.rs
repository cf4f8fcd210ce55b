//! The server about itself.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::Api;
use super::error::{Error, Result};
use super::jobs::{Status, status};

/// Whether the server lives
#[utoipa::path(get, path = "/healthz", tag = "system", responses((status = 200, body = Status)))]
pub async fn health(State(api): State<Api>) -> Result<Json<Status>> {
    if api.shutdown.is_requested() { Err(Error::stopping()) } else { Ok(status("ok")) }
}

/// Whether the server can take work
///
/// Whether it can take work: it is not stopping, and its store takes writes. Not ready (503) from the first commit that failed, or
/// from the moment the data folder went away, until a commit succeeded again; `error` says why.
#[utoipa::path(get, path = "/readyz", tag = "system", responses((status = 200, body = Status)))]
pub async fn ready(State(api): State<Api>) -> Result<Json<Status>> {
    if api.shutdown.is_requested() {
        return Err(Error::stopping());
    }
    match api.store.trouble() {
        Some(why) => Err(Error::not_ready(why)),
        None => Ok(status("ready")),
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

/// The servers that work together
///
/// One server is all there is.
#[utoipa::path(get, path = "/cluster/status", tag = "system", responses((status = 200, body = Cluster)))]
pub async fn cluster() -> Json<Cluster> {
    Json(Cluster { mode: "single", status: "healthy", nodes: [Node { role: "leader", status: "healthy" }] })
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Info {
    server_version: &'static str,
    api_version: &'static str,
}

/// Which version runs
#[utoipa::path(get, path = "/info", tag = "system", responses((status = 200, body = Info)))]
pub async fn info() -> Json<Info> {
    Json(Info { server_version: env!("CARGO_PKG_VERSION"), api_version: "v1" })
}
