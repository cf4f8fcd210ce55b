//! `/auth`, `/namespaces`, `/enqueue-rules`, `/audit-logs`: who may do what, and who did what.

pub(crate) mod audit;
pub(crate) mod keys;
pub(crate) mod namespaces;
pub(crate) mod oidc;
pub(crate) mod rules;
pub(crate) mod session;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_core::limits::Rate;

use crate::http::wire::{Span, Text};

/// At most so many in any span of this length: `{"count": 10, "per": "1m"}`, or the same as
/// `{"rate": 10, "period": "1m"}`.
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
