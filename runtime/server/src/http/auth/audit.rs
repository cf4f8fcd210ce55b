//! `/audit-logs`: who changed what, when, and from where.

use axum::Json;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windlass_core::access::AuditEntry;
use windlass_store::AuditFilter;

use crate::http::transport::error::Result;
use crate::http::transport::extract::Query;
use crate::http::wire::{Moment, Rfc3339};
use crate::http::{Api, OrderName};
use crate::limits;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct AuditQuery {
    /// Entries after the one of this number.
    #[serde(default)]
    after: u64,
    /// Entries before the one of this number.
    before: Option<u64>,
    /// `asc`, the oldest first, is the default.
    order: Option<OrderName>,
    actor: Option<String>,
    /// Such as `plugin.upload`, or `plugin` for all that begin so.
    action: Option<String>,
    target: Option<String>,
    /// Entries from this time on.
    since: Option<Moment>,
    limit: Option<usize>,
    /// `true` recomputes the hashes of this page, from the entry that `after` names.
    #[serde(default)]
    verify: bool,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct AuditAnswer {
    entries: Vec<AuditView>,
    /// Where the next page begins: as `after`, or as `before` if the newest come first. Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<u64>,
    /// With `verify`: whether the entries follow each other unchanged, and the last page ends where the log does.
    #[serde(skip_serializing_if = "Option::is_none")]
    verified: Option<bool>,
    /// The number of the first entry that was changed or is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    broken_at: Option<u64>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AuditEntry)]
struct AuditView {
    seq: u64,
    at: Rfc3339,
    /// The id of a key, `oidc:` and the subject of a person or a program, `start-key`, `insecure` or `anybody`.
    actor: String,
    role: Option<String>,
    namespace: String,
    address: Option<String>,
    action: String,
    target: String,
    /// `done`, `refused` or `denied`.
    outcome: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    hash: String,
}

/// The audit log, oldest first
///
/// Of the caller's namespace; an admin of all namespaces sees all entries. Each entry has the hash of itself and the
/// one before.
#[utoipa::path(get, path = "/audit-logs", tag = "access", params(AuditQuery), responses((status = 200, body = AuditAnswer)))]
pub async fn show(api: Api, Query(query): Query<AuditQuery>) -> Result<Json<AuditAnswer>> {
    let everywhere = api.authority.is_everywhere(&api.caller);
    let filter = AuditFilter {
        after: query.after,
        before: query.before,
        newest_first: query.order == Some(OrderName::Desc),
        actor: query.actor,
        action: query.action,
        target: query.target,
        since: query.since.map(|moment| moment.0),
        namespace: (!everywhere).then(|| api.caller.allowed.namespace.clone()),
        limit: query.limit.unwrap_or(limits::PAGE),
    };
    let chained =
        everywhere && filter == AuditFilter { after: filter.after, limit: filter.limit, ..AuditFilter::default() };
    let store = api.store.frozen();
    let page = store.audit_log(filter).await?;
    let (mut verified, mut broken_at) = (None, None);
    if query.verify && chained {
        let before = store.audit_hash(query.after).await?;
        let head = store.audit_head().await?;
        match head.verify_page((query.after, before), &page.entries, page.next.is_none()) {
            Ok(()) => verified = Some(true),
            Err(seq) => (verified, broken_at) = (Some(false), Some(seq)),
        }
    } else if query.verify {
        return Err(crate::http::transport::error::Error::field(
            "verify",
            "needs the whole log: ask without filters, the oldest first, as an admin of all namespaces",
        ));
    }
    let entries = page.entries.into_iter().map(AuditView::from).collect();
    Ok(Json(AuditAnswer { entries, cursor: page.next, verified, broken_at }))
}

impl From<AuditEntry> for AuditView {
    fn from(entry: AuditEntry) -> AuditView {
        AuditView {
            seq: entry.seq,
            at: Rfc3339(entry.at),
            actor: entry.actor.id,
            role: entry.actor.role.map(|role| role.to_string()),
            namespace: entry.namespace.to_string(),
            address: entry.actor.address.map(|address| address.to_string()),
            action: entry.action,
            target: entry.target,
            outcome: entry.outcome.as_str().to_owned(),
            reason: entry.outcome.reason().map(str::to_owned),
            hash: entry.hash.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }
}
