//! `/auth`, `/namespaces`, `/enqueue-rules`, `/audit-logs`: who may do what, and who did what.

pub(crate) mod audit;
pub(crate) mod keys;
pub(crate) mod namespaces;
pub(crate) mod rules;

use std::time::Duration;

use axum::Json;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_core::limits::Rate;

use crate::http::Api;
use crate::http::wire::{Span, Text};

/// Who the caller is, as the server knows them
#[utoipa::path(get, path = "/auth/status", tag = "access", responses((status = 200, body = AuthStatus)))]
pub async fn status(api: Api) -> Json<AuthStatus> {
    let caller = &api.caller;
    Json(AuthStatus {
        actor: caller.actor.id.clone(),
        role: caller.actor.role.map(|role| role.to_string()),
        namespace: caller.allowed.namespace.to_string(),
        queues: caller.allowed.patterns.iter().map(ToString::to_string).collect(),
    })
}

#[derive(Debug, Serialize, ToSchema)]
pub struct AuthStatus {
    /// The id of a key, `start-key` for the key that the server was started with, or `insecure` on a server that needs no key.
    actor: String,
    role: Option<String>,
    /// The namespace of this request.
    namespace: String,
    /// The queues that the key may use, by patterns; empty: all of the namespace.
    queues: Vec<String>,
}

/// At most so many in any span of this length: `{"count": 10, "per": "1m"}`, or the same as `{"rate": 10, "period": "1m"}`.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = RequestRate)]
pub struct RateBody {
    #[serde(alias = "rate")]
    count: u32,
    #[serde(alias = "period")]
    per: Option<Span>,
}

impl From<RateBody> for Rate {
    fn from(body: RateBody) -> Rate {
        Rate { count: body.count, per: body.per.map_or(Duration::from_secs(1), |span| span.0) }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RequestRateView)]
pub struct RateView {
    count: u32,
    per: Text,
}

impl From<Rate> for RateView {
    fn from(rate: Rate) -> RateView {
        RateView { count: rate.count, per: Text(rate.per) }
    }
}
