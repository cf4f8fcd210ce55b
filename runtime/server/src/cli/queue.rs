//! `windlass queue`: how queues stand, and what operators set.

use anyhow::bail;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::client::{Remote, part};
use super::enqueue::read_json;
use super::job::told;
use super::show::{self, Column};

/// Look at queues, stop and start them, set their limits
#[derive(Debug, Args)]
pub struct Queue {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// All queues with their counts
    List,
    /// One queue with its settings and figures
    Show { name: String },
    /// Start no more of its jobs
    Pause { name: String },
    /// Start its jobs again
    Resume { name: String },
    /// Start no more, and let what runs finish
    Drain { name: String },
    /// Remove its pending and scheduled jobs
    Clear { name: String },
    /// Change its settings; `none` takes a limit away
    Set(Set),
    /// Remove the queue and all its jobs
    Destroy {
        name: String,
        /// Yes, all its jobs
        #[arg(long)]
        confirm: bool,
    },
}

#[derive(Debug, Args)]
struct Set {
    name: String,
    /// How many of its jobs run at once
    #[arg(long, value_name = "N")]
    concurrency: Option<String>,
    /// How many start in a span, such as 100/1m
    #[arg(long, value_name = "N/SPAN")]
    rate: Option<String>,
    /// How many run at once for each limit key
    #[arg(long, value_name = "N")]
    key_concurrency: Option<String>,
    /// How many start in a span for each limit key
    #[arg(long, value_name = "N/SPAN")]
    key_rate: Option<String>,
    /// After each such span of waiting a job counts as more urgent
    #[arg(long, value_name = "SPAN")]
    ageing: Option<String>,
    /// Defaults for its jobs, as JSON: '{"max_retries": 5}'
    #[arg(long, value_name = "JSON")]
    defaults: Option<String>,
    /// What is kept of ended jobs, as JSON: '{"completed": {"age": "1d", "count": 1000}}'
    #[arg(long, value_name = "JSON")]
    retention: Option<String>,
}

const LIST: [Column; 10] = [
    ("QUEUE", "name"),
    ("PENDING", "pending"),
    ("ACTIVE", "active"),
    ("RETRYING", "retrying"),
    ("IN/S", "enqueued_per_second"),
    ("DONE/S", "completed_per_second"),
    ("COMPLETED", "completed"),
    ("DEAD", "dead"),
    ("PAUSED", "paused"),
    ("SERVED BY", "served_by"),
];

const QUEUE: [Column; 26] = [
    ("queue", "name"),
    ("served by", "served_by"),
    ("paused", "paused"),
    ("draining", "draining"),
    ("pending", "pending"),
    ("active", "active"),
    ("scheduled", "scheduled"),
    ("retrying", "retrying"),
    ("held", "held"),
    ("blocked", "blocked"),
    ("completed", "completed"),
    ("dead", "dead"),
    ("cancelled", "cancelled"),
    ("oldest pending", "oldest_pending_at"),
    ("in a second", "enqueued_per_second"),
    ("done a second", "completed_per_second"),
    ("success rate", "stats.success_rate"),
    ("wait, ms", "stats.wait_ms"),
    ("run, ms", "stats.run_ms"),
    ("max concurrency", "settings.max_concurrency"),
    ("rate", "settings.rate"),
    ("concurrency of a key", "settings.key_concurrency"),
    ("rate of a key", "settings.key_rate"),
    ("ageing", "settings.ageing"),
    ("defaults", "settings.defaults"),
    ("retention", "settings.retention"),
];
const SETTINGS: [Column; 7] = [
    ("max concurrency", "max_concurrency"),
    ("rate", "rate"),
    ("concurrency of a key", "key_concurrency"),
    ("rate of a key", "key_rate"),
    ("ageing", "ageing"),
    ("defaults", "defaults"),
    ("retention", "retention"),
];

impl Queue {
    pub fn run(self) -> anyhow::Result<()> {
        let remote = &self.remote;
        let act = |name: &str, action: &str| {
            told(remote, &remote.post(&format!("/queues/{}/{action}", part(name)), &json!({}))?)
        };
        match self.action {
            Action::List => {
                let queues = remote.get("/queues")?;
                match queues.as_array().filter(|_| !remote.json()) {
                    Some(rows) => show::table(rows, &LIST),
                    None => show::json(&queues),
                }
            }
            Action::Show { name } => {
                let mut queue = remote.get(&format!("/queues/{}", part(&name)))?;
                queue["stats"] = remote.get(&format!("/queues/{}/stats", part(&name)))?;
                if remote.json() { show::json(&queue) } else { show::fields(&queue, &QUEUE) }
            }
            Action::Pause { name } => act(&name, "pause"),
            Action::Resume { name } => act(&name, "resume"),
            Action::Drain { name } => act(&name, "drain"),
            Action::Clear { name } => act(&name, "clear"),
            Action::Set(set) => {
                let body = set.body()?;
                let settings = remote.post(&format!("/queues/{}/settings", part(&set.name)), &body)?;
                if remote.json() { show::json(&settings) } else { show::fields(&settings, &SETTINGS) }
            }
            Action::Destroy { name, confirm: false } => {
                bail!("this removes queue {name} and all its jobs; add --confirm if that is meant")
            }
            Action::Destroy { name, confirm: true } => {
                told(remote, &remote.delete(&format!("/queues/{}?confirm=true", part(&name)))?)
            }
        }
    }
}

impl Set {
    fn body(&self) -> anyhow::Result<Value> {
        let mut body = Map::new();
        let mut put = |field: &str, value: Value| body.insert(field.to_owned(), value);
        for (field, text) in [("max_concurrency", &self.concurrency), ("key_concurrency", &self.key_concurrency)] {
            match text.as_deref() {
                Some("none") => drop(put(field, Value::Null)),
                Some(number) => drop(put(field, json!(number.parse::<u32>()?))),
                None => {}
            }
        }
        for (field, text) in [("rate", &self.rate), ("key_rate", &self.key_rate)] {
            match text.as_deref() {
                Some("none") => drop(put(field, Value::Null)),
                Some(text) => drop(put(field, rate(text)?)),
                None => {}
            }
        }
        if let Some(span) = &self.ageing {
            put("ageing", if span == "none" { Value::Null } else { json!(span) });
        }
        for (field, text) in [("defaults", &self.defaults), ("retention", &self.retention)] {
            if let Some(text) = text {
                put(field, read_json(text)?);
            }
        }
        if body.is_empty() {
            bail!("nothing to set; `windlass queue set --help` says what can be");
        }
        Ok(Value::Object(body))
    }
}

fn rate(text: &str) -> anyhow::Result<Value> {
    match text.split_once('/').map(|(count, per)| (count.parse::<u32>(), per)) {
        Some((Ok(count), per)) => Ok(json!({ "count": count, "per": per })),
        _ => bail!("`{text}` is not a rate; write one such as 100/1m"),
    }
}
