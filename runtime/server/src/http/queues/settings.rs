//! What operators set on a queue besides pausing it: limits, fairness, retention, rounds, and defaults for its jobs.

use std::time::Duration;

use axum::Json;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;
use windlass_core::limits::Rate;
use windlass_core::{PolicyChoice, RetentionLimit, Settings};

use crate::http::Api;
use crate::http::queues::rounds::{GateBody, GateView};
use crate::http::transport::error::{Error, Result};
use crate::http::transport::extract::{Body, NamePath};
use crate::http::wire::policy::{PolicyBody, PolicyView};
use crate::http::wire::{Span, Text};

/// Absent settings do not change; `null` removes a limit.
#[derive(Debug, Default, Deserialize, ToSchema)]
struct SettingsBody {
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<u32>)]
    max_concurrency: Option<Option<u32>>,
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<RateBody>)]
    rate: Option<Option<RateBody>>,
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<u32>)]
    key_concurrency: Option<Option<u32>>,
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<RateBody>)]
    key_rate: Option<Option<RateBody>>,
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<Span>)]
    ageing: Option<Option<Span>>,
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<PolicyBody>)]
    defaults: Option<Option<PolicyBody>>,
    retention: Option<RetentionBody>,
    /// Whether it has rounds. Can be changed only while none of its jobs is open.
    rounds: Option<bool>,
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<GateBody>)]
    gate: Option<Option<GateBody>>,
}

#[derive(Debug, Deserialize, ToSchema)]
struct RateBody {
    count: u32,
    per: Span,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
struct RetentionBody {
    completed: Option<KeepBody>,
    dead: Option<KeepBody>,
    cancelled: Option<KeepBody>,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
struct KeepBody {
    age: Option<Span>,
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<u64>)]
    count: Option<Option<u64>>,
}

/// Distinguishes a field that is present as `null` from an absent one.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> std::result::Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

#[derive(Debug, Serialize, ToSchema)]
pub struct SettingsView {
    max_concurrency: Option<u32>,
    rate: Option<RateView>,
    key_concurrency: Option<u32>,
    key_rate: Option<RateView>,
    ageing: Option<Text>,
    defaults: PolicyView,
    retention: RetentionView,
    rounds: bool,
    gate: Option<GateView>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct RateView {
    count: u32,
    per: Text,
}

impl From<Rate> for RateView {
    fn from(rate: Rate) -> RateView {
        RateView { count: rate.count, per: Text(rate.per) }
    }
}

#[derive(Debug, Serialize, ToSchema)]
struct RetentionView {
    completed: KeepView,
    dead: KeepView,
    cancelled: KeepView,
}

#[derive(Debug, Serialize, ToSchema)]
struct KeepView {
    age: Text,
    count: Option<u64>,
}

/// Set limits, fairness, retention and defaults of a queue
///
/// Returns all settings.
#[utoipa::path(
    post,
    path = "/queues/{name}/settings",
    tag = "queues",
    request_body = SettingsBody,
    responses((status = 200, body = SettingsView))
)]
pub async fn change(api: Api, NamePath(queue): NamePath, body: Body) -> Result<Json<SettingsView>> {
    let mut wanted: SettingsBody = body.json()?;
    if wanted.max_concurrency == Some(Some(0)) || wanted.key_concurrency == Some(Some(0)) {
        return Err(Error::field("max_concurrency", "at least 1, or null for no limit; pause the queue to stop it"));
    }
    let gate = match wanted.gate.take() {
        Some(gate) => Some(gate.map(GateBody::read).transpose()?),
        None => None,
    };
    let defaults =
        wanted.defaults.take().map(|body| body.map(|body| body.read("defaults.")).transpose()).transpose()?;
    let settings = api
        .store
        .configure(queue, move |settings| {
            settings.gate = gate.unwrap_or(settings.gate.take());
            match defaults {
                Some(Some(chosen)) => settings.defaults = chosen.or(&settings.defaults),
                Some(None) => settings.defaults = PolicyChoice::default(),
                None => {}
            }
            wanted.apply(settings);
        })
        .await?;
    Ok(Json(settings.into()))
}

impl SettingsBody {
    fn apply(self, settings: &mut Settings) {
        fn set<T, U>(place: &mut Option<U>, wanted: Option<Option<T>>, convert: impl Fn(T) -> U) {
            if let Some(value) = wanted {
                *place = value.map(convert);
            }
        }
        let rate = |body: RateBody| Rate { count: body.count, per: body.per.0 };
        set(&mut settings.max_concurrency, self.max_concurrency, |max| max);
        set(&mut settings.rate, self.rate, rate);
        set(&mut settings.key_concurrency, self.key_concurrency, |max| max);
        set(&mut settings.key_rate, self.key_rate, rate);
        set(&mut settings.ageing, self.ageing, |span| span.0);
        settings.rounds = self.rounds.unwrap_or(settings.rounds);
        let retention = self.retention.unwrap_or_default();
        retention.completed.unwrap_or_default().apply(&mut settings.retention.completed);
        retention.dead.unwrap_or_default().apply(&mut settings.retention.dead);
        retention.cancelled.unwrap_or_default().apply(&mut settings.retention.cancelled);
    }
}

impl KeepBody {
    fn apply(self, keep: &mut RetentionLimit) {
        keep.age = self.age.map_or(keep.age, |span| span.0);
        keep.count = self.count.unwrap_or(keep.count);
    }
}

impl From<Settings> for SettingsView {
    fn from(settings: Settings) -> SettingsView {
        let rate = |rate: Option<Rate>| rate.map(RateView::from);
        let keep = |keep: RetentionLimit| KeepView { age: Text(keep.age), count: keep.count };
        SettingsView {
            max_concurrency: settings.max_concurrency,
            rate: rate(settings.rate),
            key_concurrency: settings.key_concurrency,
            key_rate: rate(settings.key_rate),
            ageing: settings.ageing.map(|span: Duration| Text(span)),
            defaults: settings.defaults.into(),
            retention: RetentionView {
                completed: keep(settings.retention.completed),
                dead: keep(settings.retention.dead),
                cancelled: keep(settings.retention.cancelled),
            },
            rounds: settings.rounds,
            gate: settings.gate.map(GateView::from),
        }
    }
}
