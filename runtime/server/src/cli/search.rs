//! `windlass search`: finds jobs. On a terminal a table, into a pipe the ids, so that `windlass search … | windlass bulk retry`
//! does what it says.

use std::io::IsTerminal;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::client::{Address, Remote};
use super::filters::Filters;
use super::show::{self, Column};
use crate::limits;

/// Find jobs
#[derive(Debug, Args)]
pub struct Search {
    #[command(flatten)]
    filters: Filters,
    /// By what: created_at, started_at, completed_at, priority or attempt
    #[arg(long, default_value = "created_at")]
    sort: String,
    /// asc or desc
    #[arg(long, default_value = "desc")]
    order: String,
    /// How many at most; without it 50 in a table, and all as ids
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// A table for people, the answer for programs, or one id a line
    #[arg(long, value_enum)]
    output: Option<Output>,
    #[command(flatten)]
    address: Address,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
    Ids,
}

const COLUMNS: [Column; 7] = [
    ("ID", "id"),
    ("QUEUE", "queue"),
    ("STATE", "state"),
    ("PRIORITY", "priority"),
    ("ATTEMPT", "attempt"),
    ("CREATED", "created_at"),
    ("ERROR", "last_error"),
];

impl Search {
    pub fn run(self) -> anyhow::Result<()> {
        let remote = Remote::from(self.address);
        let in_a_pipe = if std::io::stdout().is_terminal() { Output::Text } else { Output::Ids };
        let output = self.output.unwrap_or(in_a_pipe);
        let mut left = match (self.limit, output) {
            (Some(limit), _) => limit,
            (None, Output::Ids) => usize::MAX,
            (None, Output::Text | Output::Json) => limits::PAGE,
        };
        let mut request = self.filters.to_json();
        request.insert("sort".to_owned(), json!(self.sort));
        request.insert("order".to_owned(), json!(self.order));
        let mut jobs = Vec::new();
        let mut answer = Value::Null;
        while left > 0 {
            request.insert("limit".to_owned(), json!(left.min(limits::PAGE_MOST)));
            answer = remote.post("/jobs/search", &Value::Object(request.clone()))?;
            let page = answer["jobs"].as_array_mut().map(std::mem::take).unwrap_or_default();
            left = left.saturating_sub(page.len());
            if output == Output::Ids {
                for job in &page {
                    show::print(job["id"].as_str().unwrap_or_default())?;
                }
            } else {
                jobs.extend(page);
            }
            match answer["cursor"].as_str() {
                Some(cursor) => request.insert("cursor".to_owned(), json!(cursor)),
                None => break,
            };
        }
        match output {
            Output::Ids => Ok(()),
            Output::Json => {
                answer["jobs"] = Value::Array(jobs);
                show::json(&answer)
            }
            Output::Text => {
                show::table(&jobs, &COLUMNS)?;
                if answer["has_more"] == true {
                    eprintln!("{} of {}; --limit shows more", jobs.len(), answer["total"]);
                }
                Ok(())
            }
        }
    }
}
