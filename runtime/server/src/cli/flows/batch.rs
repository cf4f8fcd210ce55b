//! `windlass batch`: jobs that are counted together.

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::cli::client::{Remote, part};
use crate::cli::flows::pages;
use crate::cli::jobs::enqueue::read_json;
use crate::cli::terminal::show;
use crate::cli::terminal::show::Column;
use crate::limits;

/// Count jobs together, and run a callback job when all have ended
#[derive(Debug, Args)]
pub struct Batch {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Create an open batch; add jobs to it with `windlass enqueue QUEUE --batch-id ID`
    Create {
        /// The queue of the callback job
        #[arg(long, value_name = "QUEUE")]
        callback_queue: Option<String>,
        /// The payload of the callback job, to which the counters are added: JSON, `@FILE`, or `-` for standard input
        #[arg(long, value_name = "JSON", requires = "callback_queue")]
        callback_payload: Option<String>,
    },
    /// Close a batch to new jobs; its callback runs when all its jobs have ended
    Seal(Which),
    /// List batches, newest first
    List {
        /// How many
        #[arg(long, value_name = "N", default_value_t = limits::PAGE)]
        limit: usize,
    },
    /// Show how many jobs of a batch have ended, and how
    Show(Which),
}

#[derive(Debug, Args)]
struct Which {
    /// The batch's id
    id: String,
}

impl Batch {
    pub fn run(self) -> anyhow::Result<()> {
        let remote = &self.remote;
        let answer = match self.action {
            Action::Create { callback_queue, callback_payload } => {
                let mut body = Map::new();
                if let Some(queue) = callback_queue {
                    body.insert("callback_queue".to_owned(), json!(queue));
                }
                if let Some(payload) = callback_payload {
                    body.insert("callback_payload".to_owned(), read_json(&payload)?);
                }
                let made = remote.post("/batch", &Value::Object(body))?;
                if let Some(id) = made["batch_id"].as_str().filter(|_| !remote.json()) {
                    return show::print(id);
                }
                made
            }
            Action::List { limit } => return list(remote, limit),
            Action::Seal(Which { id }) => remote.post(&format!("/batch/{}/seal", part(&id)), &json!({}))?,
            Action::Show(Which { id }) => remote.get(&format!("/batch/{}", part(&id)))?,
        };
        if remote.json() {
            return show::json(&answer);
        }
        let number = |field: &str| answer[field].as_u64().unwrap_or_default();
        show::print(&format!(
            "{}: {:.0} % of {} jobs have ended: {} completed, {} dead, {} cancelled; {} are open",
            answer["state"].as_str().unwrap_or_default(),
            answer["percent"].as_f64().unwrap_or_default(),
            number("total"),
            number("completed"),
            number("dead"),
            number("cancelled"),
            number("open"),
        ))?;
        match answer["callback_job"].as_str() {
            Some(job) => show::print(&format!("callback job: {job}")),
            None => Ok(()),
        }
    }
}

const LIST: [Column; 7] = [
    ("ID", "batch_id"),
    ("STATE", "state"),
    ("JOBS", "total"),
    ("OPEN", "open"),
    ("DEAD", "dead"),
    ("CALLBACK", "callback_queue"),
    ("CREATED", "created_at"),
];

fn list(remote: &Remote, limit: usize) -> anyhow::Result<()> {
    let found = pages(remote, "/batches?", "batches", limit)?;
    match found["batches"].as_array().filter(|_| !remote.json()) {
        Some(rows) => show::table(rows, &LIST),
        None => show::json(&found),
    }
}
