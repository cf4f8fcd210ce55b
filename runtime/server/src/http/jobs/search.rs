//! `POST /jobs/search`, and `GET /dead` through it.

use std::time::Instant;

use axum::Json;
use bytes::Bytes;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windlass_store::search::{Cursor, Found, Order, Page, PayloadPart, Search, Sort};

use crate::http::Api;
use crate::http::jobs::UnreadableJobs;
use crate::http::jobs::view::JobView;
use crate::http::transport::error::{Error, Result};
use crate::http::transport::extract::{Body, Query};
use crate::http::wire::filter::JobFilter;
use crate::http::wire::{BodiesShown, BodyPreview, Shown, preview_chars, wire_enum};
use crate::limits;

wire_enum!(OrderName = Order { Asc, Desc });

/// What jobs are sorted by. Jobs with equal values are ordered by their creation, jobs without a value come last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum SortName {
    CreatedAt,
    StartedAt,
    CompletedAt,
    Priority,
    Attempt,
    ScheduledAt,
    FailedAt,
    UpdatedAt,
    ExpireAt,
    /// When the job came into its state.
    Since,
}

impl From<SortName> for Sort {
    fn from(name: SortName) -> Sort {
        match name {
            SortName::CreatedAt => Sort::CreatedAt,
            SortName::StartedAt => Sort::StartedAt,
            SortName::CompletedAt => Sort::CompletedAt,
            SortName::Priority => Sort::Priority,
            SortName::Attempt => Sort::Attempt,
            SortName::ScheduledAt => Sort::ScheduledAt,
            SortName::FailedAt => Sort::FailedAt,
            SortName::UpdatedAt => Sort::UpdatedAt,
            SortName::ExpireAt => Sort::ExpireAt,
            SortName::Since => Sort::Since,
        }
    }
}

/// Which part of the matches, in which order, and how much of each.
#[derive(Debug, Default, Deserialize, ToSchema)]
struct Paging {
    sort: Option<SortName>,
    order: Option<OrderName>,
    #[schema(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// The `cursor` of the previous page.
    cursor: Option<String>,
    /// How much of the payloads: all (the default, of those up to 64 KiB), their first characters, or nothing.
    #[serde(default)]
    payload: BodiesShown,
    /// How many characters of each payload.
    #[schema(minimum = 1, maximum = 65536)]
    preview_chars: Option<usize>,
}

/// A search: a filter, and which part of its matches to return.
#[derive(Debug, Deserialize, ToSchema)]
#[allow(dead_code, reason = "only described: its two halves are read apart, so that an error names the field")]
struct SearchRequest {
    #[serde(flatten)]
    filter: JobFilter,
    #[serde(flatten)]
    paging: Paging,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct SearchAnswer {
    jobs: Vec<FoundJob>,
    /// How many jobs match; on later pages, how many did when the first page was read.
    total: u64,
    /// Where the next page starts.
    cursor: Option<String>,
    has_more: bool,
    duration_ms: u64,
    /// Only if there are such jobs. Whether they match the filter is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<UnreadableJobs>,
}

#[derive(Debug, Serialize, ToSchema)]
struct FoundJob {
    #[serde(flatten)]
    job: JobView,
    #[serde(flatten)]
    payload: FoundPayload,
    payload_size: u64,
}

/// As much of a payload as was asked for.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
enum FoundPayload {
    Full {
        /// `null` when it is large; `GET /jobs/{id}/payload` has it.
        #[schema(value_type = serde_json::Value)]
        payload: Option<Shown>,
    },
    Preview {
        payload_preview: Option<BodyPreview>,
    },
    None {},
}

/// Find jobs
///
/// Filters on queue, state, tag, scope, batch, parent, unique key and time use indexes; those on payloads and errors
/// read them at low priority. A page is a consistent snapshot.
#[utoipa::path(post, path = "/jobs/search", tag = "jobs", request_body = SearchRequest, responses((status = 200, body = SearchAnswer)))]
pub async fn search(api: Api, body: Body) -> Result<Json<SearchAnswer>> {
    let began = Instant::now();
    let (filter, paging): (JobFilter, Paging) = body.json_both()?;
    find(&api, filter, paging, began).await
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct DeadQuery {
    queue: Option<String>,
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    cursor: Option<String>,
}

/// List dead jobs
///
/// The dead letter queue: a search for dead jobs, newest first.
#[utoipa::path(get, path = "/dead", tag = "jobs", params(DeadQuery), responses((status = 200, body = SearchAnswer)))]
pub async fn dead(api: Api, Query(query): Query<DeadQuery>) -> Result<Json<SearchAnswer>> {
    let paging = Paging { limit: query.limit, cursor: query.cursor, ..Paging::default() };
    find(&api, JobFilter::in_state("dead", query.queue), paging, Instant::now()).await
}

async fn find(api: &Api, filter: JobFilter, paging: Paging, began: Instant) -> Result<Json<SearchAnswer>> {
    let sort = paging.sort.map_or(Sort::CreatedAt, Into::into);
    let order = paging.order.map_or(Order::Desc, Into::into);
    let limit = paging.limit.unwrap_or(limits::PAGE);
    if !(1..=limits::PAGE_MOST).contains(&limit) {
        return Err(Error::field("limit", format!("1 to {} jobs on a page, not {limit}", limits::PAGE_MOST)));
    }
    let after = paging.cursor.as_deref().map(|text| cursor(text, sort, order)).transpose()?;
    let (filter, payload_filter) = filter.read().await?;
    let chars = preview_chars(paging.preview_chars, limits::PREVIEW)?;
    let payload = match paging.payload {
        BodiesShown::None => PayloadPart::None,
        BodiesShown::Preview => PayloadPart::Head(BodyPreview::head(chars)),
        BodiesShown::Full => PayloadPart::Small,
    };
    let page = api.store.search(Search { filter, sort, order, limit, after, payload_filter, payload }).await?;
    Ok(Json(answer(page, paging.payload, chars, began)))
}

/// The cursor of the previous page; it is valid for the same order only.
fn cursor(text: &str, sort: Sort, order: Order) -> Result<Cursor> {
    let cursor = Cursor::from_text(text).ok_or_else(|| {
        Error::field(
            "cursor",
            "is not a cursor of a search; send the `cursor` of the previous page unchanged, or leave it out",
        )
    })?;
    if cursor.sort != sort || cursor.order != order {
        return Err(Error::field("cursor", "belongs to another `sort` or `order`; start again without it"));
    }
    Ok(cursor)
}

fn answer(page: Page, wanted: BodiesShown, chars: usize, began: Instant) -> SearchAnswer {
    let shown = |Found { job, payload }: Found| {
        let payload_size = job.payload.len();
        let payload = match wanted {
            BodiesShown::Full => FoundPayload::Full { payload: payload.map(Shown) },
            BodiesShown::Preview => {
                let preview = |head: Bytes| BodyPreview::of(&head, payload_size, chars);
                FoundPayload::Preview { payload_preview: payload.map(preview) }
            }
            BodiesShown::None => FoundPayload::None {},
        };
        FoundJob { payload_size, payload, job: job.into() }
    };
    SearchAnswer {
        jobs: page.jobs.into_iter().map(shown).collect(),
        unreadable: UnreadableJobs::of(page.unreadable),
        total: page.total,
        has_more: page.next.is_some(),
        cursor: page.next.map(|cursor| cursor.to_text()),
        duration_ms: began.elapsed().as_millis() as u64,
    }
}
