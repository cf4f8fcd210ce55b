//! Which version new attempts use, and what happens to running ones.

use axum::Json;
use serde::Deserialize;
use utoipa::ToSchema;
use windlass_core::{NewCanary, Swap};

use crate::http::Api;
use crate::http::plugins::view::{PluginAnswer, show_plugin};
use crate::http::transport::error::{Error, Result};
use crate::http::transport::extract::{Body, NamePath};
use crate::http::wire::Span;
use crate::limits;

#[derive(Debug, Deserialize, ToSchema)]
struct Activate {
    /// The digest of a version, or at least six characters of it.
    version: String,
    /// `drain` (default), `checkpoint` or `now`.
    swap: Option<String>,
    /// How long `checkpoint` waits for a checkpoint; 60 s by default.
    deadline: Option<Span>,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
struct Rollback {
    swap: Option<String>,
    deadline: Option<Span>,
}

/// Make a version the active one
///
/// New attempts use this version from now on. Running ones finish on their version (`drain`), move to this one at their
/// next checkpoint (`checkpoint`), or are stopped immediately (`now`).
#[utoipa::path(post, path = "/plugins/{name}/activate", tag = "plugins", request_body = Activate, responses((status = 200, body = PluginAnswer), (status = 409, description = "A queue has another plugin."), (status = 422, description = "The component cannot run here.")))]
pub async fn activate(api: Api, NamePath(name): NamePath, body: Body) -> Result<Json<PluginAnswer>> {
    let request: Activate = body.json()?;
    let swap = swap(request.swap.as_deref(), request.deadline)?;
    let plugin = api.registry().activate(&name, &request.version, swap).await?;
    Ok(Json(show_plugin(&api, plugin).await?))
}

/// Roll back to the previous version
///
/// Activates the version that was uploaded before the active one.
#[utoipa::path(post, path = "/plugins/{name}/rollback", tag = "plugins", request_body = Option<Rollback>, responses((status = 200, body = PluginAnswer), (status = 409, description = "A queue has another plugin."), (status = 422, description = "The component cannot run here.")))]
pub async fn rollback(api: Api, NamePath(name): NamePath, body: Body) -> Result<Json<PluginAnswer>> {
    let request: Rollback = body.json_or_default()?;
    let plugin = api.registry().roll_back(&name, swap(request.swap.as_deref(), request.deadline)?).await?;
    Ok(Json(show_plugin(&api, plugin).await?))
}

#[derive(Debug, Deserialize, ToSchema)]
struct Canary {
    /// The digest of a version, or at least six characters of it.
    version: String,
    /// How many of a hundred new attempts it gets; 10 by default.
    share: Option<u32>,
    /// It is rolled back when a larger share of its attempts fails; 0.2 by default.
    max_failure_rate: Option<f64>,
    /// The rate is checked only after this many attempts have ended; 20 by default.
    min_attempts: Option<u32>,
    /// It becomes the active version after this many ended attempts within the rate. If absent, only when it is
    /// promoted.
    promote_after: Option<u32>,
}

/// Try a version on a share of the attempts
///
/// It is rolled back automatically if too many fail. A failed attempt on a canary does not count for the job, which is
/// retried on the active version.
#[utoipa::path(post, path = "/plugins/{name}/canary", tag = "plugins", request_body = Canary, responses((status = 200, body = PluginAnswer), (status = 422, description = "The component cannot run here.")))]
pub async fn start_canary(api: Api, NamePath(name): NamePath, body: Body) -> Result<Json<PluginAnswer>> {
    let request: Canary = body.json()?;
    let rate = request.max_failure_rate.unwrap_or(0.2);
    if !(0.0..=1.0).contains(&rate) {
        return Err(Error::field("max_failure_rate", "between 0 and 1, such as 0.2"));
    }
    let new = NewCanary {
        version: [0; 32],
        share: request.share.unwrap_or(10),
        max_failures_per_mille: (rate * 1_000.0).round() as u32,
        min_attempts: request.min_attempts.unwrap_or(20),
        promote_after: request.promote_after,
    };
    let plugin = api.registry().start_canary(&name, &request.version, new).await?;
    Ok(Json(show_plugin(&api, plugin).await?))
}

/// End a canary
///
/// No more attempts start on it; running ones finish.
#[utoipa::path(delete, path = "/plugins/{name}/canary", tag = "plugins", responses((status = 200, body = PluginAnswer)))]
pub async fn stop_canary(api: Api, NamePath(name): NamePath) -> Result<Json<PluginAnswer>> {
    let plugin = api.registry().end_canary(&name, false).await?;
    Ok(Json(show_plugin(&api, plugin).await?))
}

/// Make a canary the active version
#[utoipa::path(post, path = "/plugins/{name}/canary/promote", tag = "plugins", responses((status = 200, body = PluginAnswer)))]
pub async fn promote_canary(api: Api, NamePath(name): NamePath) -> Result<Json<PluginAnswer>> {
    let plugin = api.registry().end_canary(&name, true).await?;
    Ok(Json(show_plugin(&api, plugin).await?))
}

/// Reads a swap from a query.
pub(super) fn parse(name: Option<&str>, deadline: Option<&str>) -> Result<Swap> {
    let deadline = match deadline.map(|text| text.parse().map_or_else(|_| Span::parse(text), seconds)) {
        Some(span) => Some(span.map_err(|why| Error::field("deadline", why))?),
        None => None,
    };
    swap(name, deadline)
}

fn seconds(seconds: u64) -> std::result::Result<Span, String> {
    Ok(Span(std::time::Duration::from_secs(seconds)))
}

fn swap(name: Option<&str>, deadline: Option<Span>) -> Result<Swap> {
    let swap = match name.unwrap_or("drain") {
        "drain" => Swap::Drain,
        "checkpoint" => Swap::Checkpoint { within: deadline.map_or(limits::SWAP_WAIT, |span| span.0) },
        "now" => Swap::Now,
        other => {
            let why = format!("{other:?} is not a kind of swap; it is drain, checkpoint or now");
            return Err(Error::field("swap", why));
        }
    };
    match (swap, deadline) {
        (Swap::Drain | Swap::Now, Some(_)) => {
            Err(Error::field("deadline", "applies only to swap=checkpoint; leave it out"))
        }
        _ => Ok(swap),
    }
}
