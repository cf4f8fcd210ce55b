//! `GET /flows/{id}`: what a job belongs to, as JSON or as a picture. `list` has those that there are.

pub(crate) mod batches;
pub(crate) mod chains;
pub(crate) mod children;
mod graph;
mod layout;
pub(crate) mod list;
mod svg;

use axum::Json;
use axum::extract::Path;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::http::Api;
use crate::http::transport::error::{Error, Result};
use crate::http::transport::extract::Query;
use graph::{Flow, gather};
use svg::{dot, svg};

#[derive(Debug, Deserialize, IntoParams)]
pub struct FlowQuery {
    /// `json`, `dot` (Graphviz) or `svg`. Without it, the `Accept` header decides.
    format: Option<String>,
}

/// The flow that a job, a batch or a chain belongs to
///
/// Its jobs and batches and the edges between them: a few hundred nodes at most, the rest summed up. Also as a picture.
#[utoipa::path(get, path = "/flows/{id}", tag = "flows", params(FlowQuery), responses((status = 200, body = Flow), (status = 404, description = "There is no such job, batch or chain.")))]
pub async fn show(
    api: Api,
    Path(id): Path<String>,
    Query(query): Query<FlowQuery>,
    headers: HeaderMap,
) -> Result<Response> {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let format = match query.format.as_deref() {
        Some(format @ ("json" | "dot" | "svg")) => format,
        Some(other) => return Err(Error::field("format", format!("json, dot or svg, not {other:?}"))),
        None if accept.contains("image/svg+xml") && !accept.contains("text/html") => "svg",
        None if accept.contains("text/vnd.graphviz") => "dot",
        None => "json",
    };
    let flow = gather(&api.store.frozen(), &id).await?;
    Ok(match format {
        "dot" => ([(header::CONTENT_TYPE, "text/vnd.graphviz")], dot(&flow)).into_response(),
        "svg" => ([(header::CONTENT_TYPE, "image/svg+xml")], svg(&flow)).into_response(),
        _ => Json(flow).into_response(),
    })
}
