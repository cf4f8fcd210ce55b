//! `/enqueue-rules`: who may enqueue to which queues, and how often; also somebody without a key.

use axum::Json;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_core::Refusal;
use windlass_core::access::{EnqueueRule, Role, Who};
use windlass_store::AccessChange;

use crate::http::Api;
use crate::http::auth::{RateBody, RateView};
use crate::http::transport::error::{Error, Result};
use crate::http::transport::extract::Body;

/// The first rule whose `queues` cover a job's queue decides who may enqueue it.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = EnqueueRuleRequest)]
struct RuleBody {
    /// Queues, such as `contact` or `forms.*`.
    queues: Vec<String>,
    /// `"anybody"`, also without a key; or `{"roles": [...]}`; or `{"keys": [ids]}`. An admin always may.
    #[schema(value_type = serde_json::Value)]
    who: WhoBody,
    /// For each address or key; needed with `anybody`.
    #[schema(value_type = Option<RateBody>)]
    rate: Option<RateBody>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum WhoBody {
    Word(String),
    Roles { roles: Vec<String> },
    Keys { keys: Vec<String> },
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = EnqueueRule)]
pub struct RuleView {
    queues: Vec<String>,
    #[schema(value_type = serde_json::Value)]
    who: WhoView,
    rate: Option<RateView>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum WhoView {
    Word(&'static str),
    Roles { roles: Vec<&'static str> },
    Keys { keys: Vec<String> },
}

/// Show the enqueue rules of the namespace
#[utoipa::path(get, path = "/enqueue-rules", tag = "access", responses((status = 200, body = Vec<RuleView>)))]
pub async fn show(api: Api) -> Result<Json<Vec<RuleView>>> {
    let all = api.store.enqueue_rules().await?;
    let own = all.into_iter().find(|(namespace, _)| *namespace == api.caller.allowed.namespace);
    Ok(Json(own.into_iter().flat_map(|(_, rules)| rules).map(RuleView::from).collect()))
}

/// Replace the enqueue rules of the namespace; an empty list removes them
#[utoipa::path(
    put,
    path = "/enqueue-rules",
    tag = "access",
    request_body = Vec<RuleBody>,
    responses((status = 200, body = Vec<RuleView>))
)]
pub async fn replace(api: Api, body: Body) -> Result<Json<Vec<RuleView>>> {
    let wanted: Vec<RuleBody> = body.json()?;
    let rules = wanted.into_iter().map(read).collect::<Result<Vec<_>>>()?;
    let namespace = api.caller.allowed.namespace.clone();
    api.store.change_access(AccessChange::SetRules { namespace, rules }).await?;
    api.authority.refresh().await?;
    show(api).await
}

fn read(body: RuleBody) -> Result<EnqueueRule> {
    let mut queues = Vec::new();
    for text in body.queues {
        queues.push(text.parse().map_err(|why: String| Error::field("queues", why))?);
    }
    let who = match body.who {
        WhoBody::Word(word) if word == "anybody" => Who::Anybody,
        WhoBody::Word(word) => {
            let why = format!("{word:?} is neither \"anybody\" nor {{\"roles\": […]}} nor {{\"keys\": […]}}");
            return Err(Error::field("who", why));
        }
        WhoBody::Roles { roles } => {
            let roles = roles.iter().map(|role| role.parse()).collect::<std::result::Result<Vec<Role>, Refusal>>()?;
            Who::Roles(roles)
        }
        WhoBody::Keys { keys } => Who::Keys(keys),
    };
    Ok(EnqueueRule { queues, who, rate: body.rate.map(Into::into) })
}

impl From<EnqueueRule> for RuleView {
    fn from(rule: EnqueueRule) -> RuleView {
        RuleView {
            queues: rule.queues.iter().map(ToString::to_string).collect(),
            who: match rule.who {
                Who::Anybody => WhoView::Word("anybody"),
                Who::Roles(roles) => WhoView::Roles { roles: roles.into_iter().map(Role::as_str).collect() },
                Who::Keys(keys) => WhoView::Keys { keys },
            },
            rate: rule.rate.map(RateView::from),
        }
    }
}
