//! `/namespaces`: tenants that share the server, and how much of it each may use.

use std::collections::HashSet;
use std::time::Duration;

use axum::Json;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};
use utoipa::{IntoParams, ToSchema};
use windlass_core::access::{KeyNamespaces, NamespaceRow, Quotas};
use windlass_core::{Command, Namespace, PluginCommand, Refusal, State};
use windlass_store::{AccessChange, Clock, InboundChange, JobList, ScheduleChange, Store, WebhookChange};

use crate::http::Api;
use crate::http::auth::{RateBody, RateView};
use crate::http::jobs::{Status, status};
use crate::http::transport::error::{Error, Result};
use crate::http::transport::extract::{Body, Query, TextPath};
use crate::http::wire::Rfc3339;
use crate::limits;

#[derive(Debug, Deserialize, ToSchema)]
struct NamespaceBody {
    /// 1 to 32 of the characters a-z 0-9 - _.
    name: String,
    #[serde(default)]
    quotas: QuotasBody,
}

/// What is absent is not limited.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = QuotasRequest)]
struct QuotasBody {
    /// Jobs that have not ended.
    open_jobs: Option<u64>,
    queues: Option<u32>,
    /// Bytes of payloads, checkpoints and results.
    stored_bytes: Option<u64>,
    /// Attempts of plugins that run at once.
    slots: Option<u32>,
    /// Requests of all its keys together.
    #[schema(value_type = Option<RateBody>)]
    requests: Option<RateBody>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Quotas)]
struct QuotasView {
    open_jobs: Option<u64>,
    queues: Option<u32>,
    stored_bytes: Option<u64>,
    slots: Option<u32>,
    requests: Option<RateView>,
}

/// What a namespace uses now.
#[derive(Debug, Default, Serialize, ToSchema)]
struct UsedView {
    open_jobs: u64,
    queues: u64,
    stored_bytes: u64,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct NamespaceAnswer {
    name: String,
    quotas: QuotasView,
    used: UsedView,
    created_at: Option<Rfc3339>,
    created_by: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct NamespaceList {
    namespaces: Vec<NamespaceAnswer>,
}

/// List the namespaces, with their quotas and what they use
#[utoipa::path(get, path = "/namespaces", tag = "access", responses((status = 200, body = NamespaceList)))]
pub async fn list(api: Api) -> Result<Json<NamespaceList>> {
    let store = api.whole_store.frozen();
    let default = NamespaceRow {
        name: Namespace::default(),
        quotas: Quotas::default(),
        created_at: windlass_core::Time::ZERO,
        created_by: None,
    };
    let rows = std::iter::once(default).chain(store.namespaces().await?);
    let (queues, stored) = (store.queues().await?, store.stored_bytes().await?);
    let answer = |row: NamespaceRow| {
        let own = || queues.iter().filter(|view| view.queue.name.is_in(&row.name));
        let stored_bytes = stored.iter().find(|(name, _)| *name == row.name).map_or(0, |(_, bytes)| *bytes);
        let used = UsedView {
            open_jobs: own().map(|view| view.queue.counts.open()).sum(),
            queues: own().count() as u64,
            stored_bytes,
        };
        NamespaceAnswer { used, ..NamespaceAnswer::from(row.clone()) }
    };
    Ok(Json(NamespaceList { namespaces: rows.map(answer).collect() }))
}

/// Create a namespace
#[utoipa::path(post, path = "/namespaces", tag = "access", request_body = NamespaceBody, responses((status = 201, body = NamespaceAnswer)))]
pub async fn create(api: Api, body: Body) -> Result<(StatusCode, Json<NamespaceAnswer>)> {
    let wanted: NamespaceBody = body.json()?;
    let row = NamespaceRow {
        name: Namespace::parse("name", &wanted.name)?,
        quotas: wanted.quotas.into(),
        created_at: api.clock.now(),
        created_by: Some(api.caller.actor.id.clone()),
    };
    put(&api, row.clone(), false).await?;
    Ok((StatusCode::CREATED, Json(row.into())))
}

/// Replace the quotas of a namespace
#[utoipa::path(
    put,
    path = "/namespaces/{name}/quotas",
    tag = "access",
    request_body = QuotasBody,
    responses((status = 200, body = NamespaceAnswer))
)]
pub async fn set_quotas(api: Api, TextPath(name): TextPath, body: Body) -> Result<Json<NamespaceAnswer>> {
    let name = Namespace::parse("name", &name)?;
    if name.is_default() {
        return Err(Error::field("name", "`default` has no quotas; give tenants namespaces of their own"));
    }
    let row = find(&api, &name).await?;
    let row = NamespaceRow { quotas: body.json::<QuotasBody>()?.into(), ..row };
    put(&api, row.clone(), true).await?;
    Ok(Json(row.into()))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Confirm {
    /// Must be `true`: everything in the namespace is removed.
    confirm: Option<bool>,
}

/// Remove a namespace with everything in it: queues and their jobs, plugins, schedules, webhooks, secrets and keys
///
/// Its keys and webhooks end first, then jobs that run are cancelled. If one does not end in time, the answer is 409
/// `NAMESPACE_BUSY`: what is done stays done, and the same request continues. A lost worker keeps its job until the
/// lease expires.
#[utoipa::path(
    delete,
    path = "/namespaces/{name}",
    tag = "access",
    params(Confirm),
    responses((status = 200, body = Status), (status = 409, description = "Jobs still run: `NAMESPACE_BUSY`."))
)]
pub async fn remove(api: Api, TextPath(name): TextPath, Query(query): Query<Confirm>) -> Result<Json<Status>> {
    let name = Namespace::parse("name", &name)?;
    if name.is_default() {
        return Err(Error::field("name", "`default` cannot be removed"));
    }
    find(&api, &name).await?;
    if query.confirm != Some(true) {
        let why = "everything in the namespace would be removed; send ?confirm=true to do so";
        return Err(Error::field("confirm", why));
    }
    // First of all nobody can use it any more.
    let keys = api.whole_store.api_keys().await?;
    for key in keys.into_iter().filter(|key| key.namespaces == KeyNamespaces::One(name.clone())) {
        api.store.change_access(AccessChange::RevokeKey { id: key.id }).await?;
    }
    api.authority.refresh().await?;
    empty(&api, &api.store_of(&name)).await?;
    api.store.change_access(AccessChange::RemoveNamespace { name }).await?;
    api.authority.refresh().await?;
    Ok(status("deleted"))
}

/// Removes everything that a namespace has. `store` is that of somebody who sees it and nothing else. What has been
/// removed is skipped the next time.
async fn empty(api: &Api, store: &Store) -> Result<()> {
    // What comes in from outside and what goes out come before what takes time.
    for hook in store.inbound_hooks().await? {
        let change = InboundChange::Remove { queue: hook.queue };
        api.inbound.change(store, &api.whole_store, &api.secrets, change).await?;
    }
    for hook in store.webhooks().await? {
        store.change_webhook(WebhookChange::Remove { id: hook.id }).await?;
    }
    api.webhooks.changed();
    for schedule in store.schedules().await? {
        store.change_schedule(ScheduleChange::Remove { name: schedule.name }).await?;
    }
    for plugin in store.plugins().await? {
        store.change_plugin(plugin.name, PluginCommand::Remove { force: true }).await?;
    }
    stop_jobs(store).await?;
    for view in store.queues().await? {
        store.remove_queue(view.queue.name).await?;
    }
    for secret in store.secrets().await? {
        api.secrets.remove(store, secret.name).await?;
    }
    api.registry.reload().await?;
    Ok(())
}

/// Lets no more jobs start, cancels those that run, and waits a while until they have ended.
async fn stop_jobs(store: &Store) -> Result<()> {
    for view in store.queues().await? {
        store.configure(view.queue.name, |settings| settings.paused = true).await?;
    }
    let deadline = Instant::now() + limits::NAMESPACE_WAIT;
    let mut asked = HashSet::new();
    loop {
        let list = JobList { state: Some(State::Active), limit: limits::BATCH, ..JobList::default() };
        let (active, _) = store.list(list).await?;
        if active.is_empty() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(Error::namespace_busy(active.len()));
        }
        for job in active.into_iter().filter(|job| asked.insert(job.id)) {
            let reason = "the namespace is being removed".to_owned();
            let cancel = Command::Cancel { reason, grace: Some(Duration::ZERO) };
            match store.ask(job.id, cancel, Vec::new()).await {
                // It may have ended meanwhile.
                Ok(_) | Err(windlass_store::Error::Refused(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        sleep(limits::NAMESPACE_POLL).await;
    }
}

async fn find(api: &Api, name: &Namespace) -> Result<NamespaceRow> {
    let found = api.whole_store.namespaces().await?.into_iter().find(|row| row.name == *name);
    Ok(found.ok_or_else(|| Refusal::not_found("namespace", name))?)
}

async fn put(api: &Api, row: NamespaceRow, replace: bool) -> Result<()> {
    api.store.change_access(AccessChange::PutNamespace { row: Box::new(row), replace }).await?;
    Ok(api.authority.refresh().await?)
}

impl From<QuotasBody> for Quotas {
    fn from(body: QuotasBody) -> Quotas {
        let QuotasBody { open_jobs, queues, stored_bytes, slots, requests } = body;
        Quotas { open_jobs, queues, stored_bytes, slots, requests: requests.map(Into::into) }
    }
}

impl From<NamespaceRow> for NamespaceAnswer {
    fn from(row: NamespaceRow) -> NamespaceAnswer {
        let Quotas { open_jobs, queues, stored_bytes, slots, requests } = row.quotas;
        let requests = requests.map(RateView::from);
        NamespaceAnswer {
            created_at: (!row.name.is_default()).then_some(Rfc3339(row.created_at)),
            name: row.name.to_string(),
            quotas: QuotasView { open_jobs, queues, stored_bytes, slots, requests },
            used: UsedView::default(),
            created_by: row.created_by,
        }
    }
}
