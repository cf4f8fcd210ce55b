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

#[derive(Debug, Serialize)]
pub struct Info {
    server_version: &'static str,
    api_version: &'static str,
}

pub async fn info() -> Json<Info> {
    Json(Info { server_version: env!("CARGO_PKG_VERSION"), api_version: "v1" })
}
