//! The filter of a search on the command line: `search` and `bulk` share it.

use clap::Args;
use serde_json::{Map, Value, json};

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Filters (all that are given must hold)")]
pub struct Filters {
    #[arg(long)]
    queue: Option<String>,
    /// One state or several: dead, or pending,scheduled
    #[arg(long, value_delimiter = ',')]
    state: Vec<String>,
    #[arg(long, value_name = "PRIORITY")]
    priority: Option<String>,
    /// NAME=VALUE; may be given several times
    #[arg(long = "tag", value_name = "NAME=VALUE", value_parser = tag)]
    tags: Vec<(String, String)>,
    #[arg(long)]
    scope: Option<String>,
    /// A text in the payload
    #[arg(long, value_name = "TEXT")]
    payload_contains: Option<String>,
    /// A jq filter over the payload, such as '.amount > 100'
    #[arg(long = "jq", value_name = "FILTER")]
    payload_jq: Option<String>,
    #[arg(long, value_name = "TIME")]
    created_after: Option<String>,
    #[arg(long, value_name = "TIME")]
    created_before: Option<String>,
    #[arg(long, value_name = "TIME")]
    scheduled_after: Option<String>,
    #[arg(long, value_name = "TIME")]
    scheduled_before: Option<String>,
    #[arg(long, value_name = "TIME")]
    started_after: Option<String>,
    #[arg(long, value_name = "TIME")]
    started_before: Option<String>,
    #[arg(long, value_name = "TIME")]
    completed_after: Option<String>,
    #[arg(long, value_name = "TIME")]
    completed_before: Option<String>,
    #[arg(long, value_name = "TIME")]
    expire_after: Option<String>,
    #[arg(long, value_name = "TIME")]
    expire_before: Option<String>,
    /// The worker that runs it or ran it last
    #[arg(long = "worker", value_name = "ID")]
    worker_id: Option<String>,
    #[arg(long)]
    plugin: Option<String>,
    /// The digest of the plugin's version, or how it begins
    #[arg(long, value_name = "DIGEST")]
    plugin_version: Option<String>,
    /// Whether an attempt of it has failed
    #[arg(long, value_name = "true|false")]
    has_errors: Option<bool>,
    /// A text in one of its errors
    #[arg(long, value_name = "TEXT")]
    error_contains: Option<String>,
    #[arg(long = "batch", value_name = "ID")]
    batch_id: Option<String>,
    #[arg(long = "parent", value_name = "JOB")]
    parent_id: Option<String>,
    #[arg(long = "chain", value_name = "ID")]
    chain_id: Option<String>,
    #[arg(long, value_name = "KEY")]
    unique_key: Option<String>,
    #[arg(long, value_name = "N")]
    attempt_min: Option<u32>,
    #[arg(long, value_name = "N")]
    attempt_max: Option<u32>,
    /// How its id begins
    #[arg(long = "id-prefix", value_name = "PREFIX")]
    job_id_prefix: Option<String>,
}

fn tag(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write it as NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

impl Filters {
    /// As the server takes it: only what was given.
    pub fn to_json(&self) -> Map<String, Value> {
        let mut filter = Map::new();
        let texts = [
            ("queue", &self.queue),
            ("priority", &self.priority),
            ("scope", &self.scope),
            ("payload_contains", &self.payload_contains),
            ("payload_jq", &self.payload_jq),
            ("created_after", &self.created_after),
            ("created_before", &self.created_before),
            ("scheduled_after", &self.scheduled_after),
            ("scheduled_before", &self.scheduled_before),
            ("started_after", &self.started_after),
            ("started_before", &self.started_before),
            ("completed_after", &self.completed_after),
            ("completed_before", &self.completed_before),
            ("expire_after", &self.expire_after),
            ("expire_before", &self.expire_before),
            ("worker_id", &self.worker_id),
            ("plugin", &self.plugin),
            ("plugin_version", &self.plugin_version),
            ("error_contains", &self.error_contains),
            ("batch_id", &self.batch_id),
            ("parent_id", &self.parent_id),
            ("chain_id", &self.chain_id),
            ("unique_key", &self.unique_key),
            ("job_id_prefix", &self.job_id_prefix),
        ];
        for (name, text) in texts {
            if let Some(text) = text {
                filter.insert(name.to_owned(), json!(text));
            }
        }
        if !self.state.is_empty() {
            filter.insert("state".to_owned(), json!(self.state));
        }
        if !self.tags.is_empty() {
            let tags: Map<String, Value> = self.tags.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
            filter.insert("tags".to_owned(), Value::Object(tags));
        }
        if let Some(has_errors) = self.has_errors {
            filter.insert("has_errors".to_owned(), json!(has_errors));
        }
        for (name, number) in [("attempt_min", self.attempt_min), ("attempt_max", self.attempt_max)] {
            if let Some(number) = number {
                filter.insert(name.to_owned(), json!(number));
            }
        }
        filter
    }
}
