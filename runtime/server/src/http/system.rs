//! The server about itself.

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use super::Api;
use super::error::{Error, Result};
use super::jobs::{Status, status};

pub async fn health(State(api): State<Api>) -> Result<Json<Status>> {
    if api.shutdown.is_requested() { Err(Error::stopping()) } else { Ok(status("ok")) }
}

/// Whether it can take work: it is not stopping, and its store can be read.
pub async fn ready(State(api): State<Api>) -> Result<Json<Status>> {
    if api.shutdown.is_requested() {
        return Err(Error::stopping());
    }
    api.store.event_bounds().await?;
    Ok(status("ready"))
}

#[derive(Debug, Serialize)]
pub struct Node {
    role: &'static str,
    status: &'static str,
}

#[derive(Debug, Serialize)]
pub struct Cluster {
    mode: &'static str,
    status: &'static str,
    nodes: [Node; 1],
}

/// One server is all there is.
pub async fn cluster() -> Json<Cluster> {
    Json(Cluster { mode: "single", status: "healthy", nodes: [Node { role: "leader", status: "healthy" }] })
}

#[derive(Debug, Serialize)]
pub struct Info {
    server_version: &'static str,
    api_version: &'static str,
}

pub async fn info() -> Json<Info> {
    Json(Info { server_version: env!("CARGO_PKG_VERSION"), api_version: "v1" })
}
