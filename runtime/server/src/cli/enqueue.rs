//! `windlass enqueue`: one job more.

use std::io::Read;
use std::process::ExitCode;

use anyhow::{Context, bail};
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
    #[command(flatten)]
    policy: Policy,
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
    /// Any other field of `POST /enqueue`, in a JSON object: '{"chain": {"steps": […]}}', or @FILE
    #[arg(long, value_name = "JSON")]
    with: Option<String>,
    /// Sent again with the same key within a day, it is the same job
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Stay and show how it goes; ends as the job does
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    remote: Remote,
}

/// How the job is tried, and how long it may take. What is left out is as its queue says.
#[derive(Debug, Args)]
struct Policy {
    /// How waiting grows from run to run: none, fixed, linear or exponential
    #[arg(long, value_name = "KIND")]
    retry_backoff: Option<String>,
    /// The wait after the first run that failed
    #[arg(long, value_name = "SPAN")]
    retry_base_delay: Option<String>,
    /// The longest wait between two runs
    #[arg(long, value_name = "SPAN")]
    retry_max_delay: Option<String>,
    /// How long the unique key holds
    #[arg(long, value_name = "SPAN")]
    unique_period: Option<String>,
    /// Not started any more after this long
    #[arg(long, value_name = "SPAN")]
    expire_after: Option<String>,
    /// How long one run may take
    #[arg(long, value_name = "SPAN")]
    attempt_timeout: Option<String>,
    /// How long a run may give no sign of life
    #[arg(long, value_name = "SPAN")]
    stall_timeout: Option<String>,
    /// How long all runs may take together
    #[arg(long, value_name = "SPAN")]
    max_duration: Option<String>,
    /// How long it is kept once it has ended
    #[arg(long, value_name = "SPAN")]
    ttl: Option<String>,
    /// Only this worker may fetch it
    #[arg(long, value_name = "ID")]
    target_worker: Option<String>,
    /// The job that it is a child of
    #[arg(long = "parent", value_name = "JOB")]
    parent_id: Option<String>,
}

impl Policy {
    fn words(&self) -> [(&'static str, &Option<String>); 11] {
        [
            ("retry_backoff", &self.retry_backoff),
            ("retry_base_delay", &self.retry_base_delay),
            ("retry_max_delay", &self.retry_max_delay),
            ("unique_period", &self.unique_period),
            ("expire_after", &self.expire_after),
            ("attempt_timeout", &self.attempt_timeout),
            ("stall_timeout", &self.stall_timeout),
            ("max_duration", &self.max_duration),
            ("ttl", &self.ttl),
            ("target_worker", &self.target_worker),
            ("parent_id", &self.parent_id),
        ]
    }
}

impl Enqueue {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let remote = &self.remote;
        let body = self.body()?;
        let answer = match &self.idempotency_key {
            Some(key) => remote.post_with("/enqueue", ("Idempotency-Key", key), &body)?,
            None => remote.post("/enqueue", &body)?,
        };
        let id = answer["job_id"].as_str().unwrap_or_default().to_owned();
        if self.watch {
            return watch::watch(remote, &id);
        }
        if remote.json() {
            show::json(&answer)?;
        } else {
            // Scripts take the id, whichever job has it.
            show::print(&id)?;
            if answer["unique_existing"] == true {
                eprintln!("no new job: this one has the key already");
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn body(&self) -> anyhow::Result<Value> {
        let mut body = match &self.with {
            Some(text) => match read_json(text)? {
                Value::Object(fields) => fields,
                other => bail!("--with takes a JSON object of fields, not {other}"),
            },
            None => Map::new(),
        };
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
        for (field, value) in words.into_iter().chain(self.policy.words()) {
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
        .context("that is not JSON; write it such as '{\"a\": 1}', in single quotes for the shell, or @FILE")
}
