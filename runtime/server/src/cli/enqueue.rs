//! `windlass enqueue`: one job more.

use std::io::Read;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use serde_json::{Map, Value, json};

use super::client::Remote;
use super::{show, watch};

/// Put a job into a queue
#[derive(Debug, Args)]
pub struct Enqueue {
    /// The queue it goes to
    queue: String,
    /// What the handler gets: JSON, `@FILE`, or `-` for standard input [default: {}]
    payload: Option<String>,
    /// critical, high, normal or low
    #[arg(long)]
    priority: Option<String>,
    /// Not before this long from now, such as 5m
    #[arg(long)]
    delay: Option<String>,
    /// Not before this time, such as 2030-01-31T12:00:00Z
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// The number of runs, the first included
    #[arg(long, value_name = "N")]
    max_retries: Option<u32>,
    /// Only one job with this key waits or runs at a time
    #[arg(long, value_name = "KEY")]
    unique_key: Option<String>,
    /// A tag; may be given several times
    #[arg(long = "tag", value_name = "KEY=VALUE", value_parser = pair)]
    tags: Vec<(String, String)>,
    /// What it is about, as type:id
    #[arg(long)]
    scope: Option<String>,
    /// Whose limits it counts against
    #[arg(long, value_name = "KEY")]
    limit_key: Option<String>,
    /// Wait until this job has ended; may be given several times
    #[arg(long, value_name = "JOB")]
    depends_on: Vec<String>,
    /// When one of those dies or is cancelled: fail, cancel or continue [default: cancel]
    #[arg(long, value_name = "POLICY")]
    on_dependency_failure: Option<String>,
    /// The batch it joins
    #[arg(long, value_name = "BATCH")]
    batch: Option<String>,
    /// Hold it until somebody approves it
    #[arg(long, value_name = "REASON")]
    hold: Option<String>,
    /// Stay and show how it goes; ends as the job does
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    remote: Remote,
}

impl Enqueue {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let remote = &self.remote;
        let answer = remote.post("/enqueue", &self.body()?)?;
        let id = answer["job_id"].as_str().unwrap_or_default().to_owned();
        if self.watch {
            return watch::watch(remote, &id);
        }
        if remote.json() {
            show::json(&answer)?;
        } else if answer["unique_existing"] == true {
            show::print(&format!("{id} has this unique key already"))?;
        } else {
            show::print(&id)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn body(&self) -> anyhow::Result<Value> {
        let mut body = Map::new();
        body.insert("queue".to_owned(), json!(self.queue));
        if let Some(payload) = &self.payload {
            body.insert("payload".to_owned(), read_json(payload)?);
        }
        let words = [
            ("priority", &self.priority),
            ("delay", &self.delay),
            ("scheduled_at", &self.at),
            ("unique_key", &self.unique_key),
            ("scope", &self.scope),
            ("limit_key", &self.limit_key),
            ("hold_reason", &self.hold),
            ("batch_id", &self.batch),
            ("on_dependency_failure", &self.on_dependency_failure),
        ];
        for (field, value) in words {
            if let Some(value) = value {
                body.insert(field.to_owned(), json!(value));
            }
        }
        if let Some(runs) = self.max_retries {
            body.insert("max_retries".to_owned(), json!(runs));
        }
        if !self.depends_on.is_empty() {
            body.insert("depends_on".to_owned(), json!(self.depends_on));
        }
        if !self.tags.is_empty() {
            let tags: Map<String, Value> = self.tags.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
            body.insert("tags".to_owned(), Value::Object(tags));
        }
        Ok(Value::Object(body))
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    let split = text.split_once('=').ok_or_else(|| format!("`{text}` is not KEY=VALUE"))?;
    Ok((split.0.to_owned(), split.1.to_owned()))
}

/// JSON given on the command line, in a file, or on standard input.
pub fn read_json(text: &str) -> anyhow::Result<Value> {
    let read = match text.strip_prefix('@') {
        _ if text == "-" => {
            let mut all = String::new();
            std::io::stdin().read_to_string(&mut all).context("cannot read standard input")?;
            all
        }
        Some(file) => std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?,
        None => text.to_owned(),
    };
    serde_json::from_str(&read)
        .context("the payload is not JSON; write one such as '{\"a\": 1}', in single quotes for the shell, or @FILE")
}
