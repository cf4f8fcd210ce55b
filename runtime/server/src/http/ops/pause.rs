//! `/pause` and `/resume`: the whole server, where `/queues/{name}/pause` is one queue.

use axum::Json;

use crate::http::Api;
use crate::http::jobs::{Status, status};
use crate::http::transport::error::Result;
use crate::http::transport::warnings;

/// The warning for clients that may wait for a job to start.
pub const PAUSED: &str = "paused: nothing starts until `windlass resume`";

/// Pause the whole server
///
/// No job starts, no delay, lease or expiry ends, no schedule runs, no webhook is sent and nothing is removed by its
/// age until `POST /resume`, also after restarts. Attempts that run go on to their end; jobs can be enqueued, changed
/// and read.
#[utoipa::path(post, path = "/pause", tag = "system", responses((status = 200, body = Status)))]
pub async fn pause(api: Api) -> Result<Json<Status>> {
    api.store.pause().await?;
    Ok(status("paused"))
}

/// Resume the whole server
///
/// Ends a pause of the whole server, or a start with `--paused`. What came due meanwhile happens now; workers have a
/// whole lease from now to send their next heartbeat.
#[utoipa::path(post, path = "/resume", tag = "system", responses((status = 200, body = Status)))]
pub async fn resume(api: Api) -> Result<Json<Status>> {
    api.store.resume().await?;
    Ok(status("resumed"))
}

/// Adds that warning to the response.
pub fn warn(api: &Api) {
    if api.store.paused().is_some() {
        warnings::add(format!("the server is {PAUSED}"));
    }
}
