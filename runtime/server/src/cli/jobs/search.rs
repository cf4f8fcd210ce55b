//! `windlass search`: finds jobs. It prints a table on a terminal and ids into a pipe, so that
//! `windlass search … | windlass bulk retry` works.

use std::io::IsTerminal;

use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};

use crate::cli::client::{Address, Remote};
use crate::cli::jobs::filters::Filters;
use crate::cli::terminal::show;
use crate::cli::terminal::show::Column;
use crate::http::wire::BodiesShown;
use crate::http::{OrderName, SortName};
use crate::limits;

/// Find jobs
#[derive(Debug, Args)]
pub struct Search {
    #[command(flatten)]
    sorting: Sorting,
    /// The most jobs to list [default: 50 in a table or as JSON, all of them as ids]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// How much of each payload a JSON response has [default: all of it, up to 64 KiB]
    #[arg(long, value_enum)]
    payload: Option<BodiesShown>,
    /// How many characters of each payload with --payload preview
    #[arg(long, value_name = "N", default_value_t = limits::PREVIEW)]
    preview_chars: usize,
    /// A table, the API's response, or one id per line [default: text on a terminal, ids into a pipe]
    #[arg(long, value_enum)]
    output: Option<Output>,
    #[command(flatten)]
    filters: Filters,
    #[command(flatten)]
    address: Address,
}

/// In which order jobs are listed.
#[derive(Debug, Args)]
pub struct Sorting {
    /// What to sort by; jobs without such a value come last
    #[arg(long, value_enum, value_name = "FIELD", default_value = "created_at")]
    sort: SortName,
    /// Whether the smallest or the largest comes first
    #[arg(long, value_enum, default_value = "desc")]
    order: OrderName,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
    Ids,
}

impl Search {
    pub fn run(self) -> anyhow::Result<()> {
        let remote = Remote::from(self.address);
        let unless_said = if std::io::stdout().is_terminal() { Output::Text } else { Output::Ids };
        match self.output.unwrap_or(unless_said) {
            Output::Ids => {
                let ids = |page: Vec<Value>| {
                    page.iter().try_for_each(|job| show::print(job["id"].as_str().unwrap_or_default()))
                };
                let wanted = request(&self.filters, &self.sorting);
                let last = find(&remote, wanted, self.limit.unwrap_or(usize::MAX), ids)?;
                note_unreadable(&last);
                Ok(())
            }
            Output::Json => {
                let mut wanted = request(&self.filters, &self.sorting);
                wanted.insert("payload".to_owned(), json!(self.payload.unwrap_or_default()));
                wanted.insert("preview_chars".to_owned(), json!(self.preview_chars));
                show::json(&all(&remote, wanted, self.limit)?)
            }
            Output::Text => table(&found(&remote, &self.filters, &self.sorting, self.limit)?, &self.sorting),
        }
    }
}

/// All jobs up to the limit, in one response; without their payloads.
pub fn found(remote: &Remote, filters: &Filters, sorting: &Sorting, limit: Option<usize>) -> anyhow::Result<Value> {
    all(remote, request(filters, sorting), limit)
}

/// A search that does not load the payloads.
fn request(filters: &Filters, sorting: &Sorting) -> Map<String, Value> {
    let mut request = filters.to_json();
    request.insert("sort".to_owned(), json!(sorting.sort));
    request.insert("order".to_owned(), json!(sorting.order));
    request.insert("payload".to_owned(), json!(BodiesShown::None));
    request
}

fn all(remote: &Remote, request: Map<String, Value>, limit: Option<usize>) -> anyhow::Result<Value> {
    let mut jobs = Vec::new();
    let mut answer = find(remote, request, limit.unwrap_or(limits::PAGE), |page| {
        jobs.extend(page);
        Ok(())
    })?;
    answer["jobs"] = Value::Array(jobs);
    Ok(answer)
}

/// Requests pages until there are no more, or enough. Returns the last page without its jobs.
fn find(
    remote: &Remote,
    mut request: Map<String, Value>,
    limit: usize,
    mut take: impl FnMut(Vec<Value>) -> anyhow::Result<()>,
) -> anyhow::Result<Value> {
    let mut left = limit;
    let mut unreadable = Value::Null;
    loop {
        // At least one, so that a limit of 0 still returns the total.
        request.insert("limit".to_owned(), json!(left.clamp(1, limits::PAGE_MOST)));
        let mut answer = remote.post("/jobs/search", &Value::Object(request.clone()))?;
        let mut page = answer["jobs"].as_array_mut().map(std::mem::take).unwrap_or_default();
        page.truncate(left);
        left -= page.len();
        take(page)?;
        if answer["unreadable"].is_null() && !unreadable.is_null() {
            answer["unreadable"] = unreadable.clone();
        }
        unreadable = answer["unreadable"].clone();
        match answer["cursor"].as_str().filter(|_| left > 0) {
            Some(cursor) => request.insert("cursor".to_owned(), json!(cursor)),
            None => return Ok(answer),
        };
    }
}

/// A table of what was found, with a column for the sort key.
pub fn table(found: &Value, sorting: &Sorting) -> anyhow::Result<()> {
    let by: Column = match sorting.sort {
        SortName::StartedAt => ("STARTED", "started_at"),
        SortName::CompletedAt => ("COMPLETED", "completed_at"),
        SortName::ScheduledAt => ("SCHEDULED", "scheduled_at"),
        SortName::FailedAt => ("FAILED", "failed_at"),
        SortName::UpdatedAt | SortName::Since => ("UPDATED", "updated_at"),
        SortName::ExpireAt => ("EXPIRES", "expire_at"),
        SortName::CreatedAt | SortName::Priority | SortName::Attempt => ("CREATED", "created_at"),
    };
    let columns = [
        ("ID", "id"),
        ("QUEUE", "queue"),
        ("STATE", "state"),
        ("PRIORITY", "priority"),
        ("ATTEMPT", "attempt"),
        by,
        ("ERROR", "last_error"),
    ];
    let jobs = found["jobs"].as_array().map_or(&[][..], Vec::as_slice);
    show::table(jobs, &columns)?;
    if found["total"].as_u64() > Some(jobs.len() as u64) {
        show::note(&format!("{} of {}; --limit shows more", jobs.len(), found["total"]));
    }
    note_unreadable(found);
    Ok(())
}

/// Says which jobs are missing because they cannot be read.
fn note_unreadable(found: &Value) {
    let Some(unreadable) = found["unreadable"].as_object() else { return };
    let ids = unreadable["ids"].as_array().map_or(&[][..], Vec::as_slice);
    let shown: Vec<&str> = ids.iter().filter_map(Value::as_str).take(5).collect();
    let more = if unreadable["count"].as_u64() > Some(shown.len() as u64) { ", …" } else { "" };
    let (count, error) = (&unreadable["count"], unreadable["error"].as_str().unwrap_or_default());
    show::note(&format!("{count} more cannot be read ({}{more}): {error}", shown.join(", ")));
}
