//! The filter of a search as flags, with the names of the API. `search`, `bulk` and `job list` share it.

use clap::Args;
use clap::builder::PossibleValuesParser;
use serde::Serialize;
use serde_json::{Map, Value, json};
use windlass_core::State;

use crate::cli::jobs::job_flags::pair;
use crate::http::wire::PriorityName;

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Filters (a job must pass all that are given)")]
pub struct Filters {
    /// Jobs of this queue
    #[arg(long)]
    queue: Option<String>,
    /// Jobs in this state, or in one of several: pending,scheduled
    #[arg(long, visible_alias = "states", value_delimiter = ',', value_parser = states())]
    state: Vec<String>,
    /// Jobs of this priority
    #[arg(long, value_enum)]
    priority: Option<PriorityName>,
    /// Jobs with this tag; may be repeated
    #[arg(long = "tag", visible_alias = "tags", value_name = "NAME=VALUE", value_parser = pair)]
    tags: Vec<(String, String)>,
    /// Jobs about this, as type:id
    #[arg(long)]
    scope: Option<String>,
    /// Jobs whose payload contains this text
    #[arg(long, value_name = "TEXT")]
    payload_contains: Option<String>,
    /// Jobs whose payload passes this jq filter, such as '.amount > 100'
    #[arg(long, visible_alias = "jq", value_name = "FILTER")]
    payload_jq: Option<String>,
    /// Created at this time or later, such as 2030-01-31T12:00:00Z
    #[arg(long, value_name = "TIME")]
    created_after: Option<String>,
    /// Created before this time
    #[arg(long, value_name = "TIME")]
    created_before: Option<String>,
    /// Scheduled for this time or later
    #[arg(long, value_name = "TIME")]
    scheduled_after: Option<String>,
    /// Scheduled for a time before this
    #[arg(long, value_name = "TIME")]
    scheduled_before: Option<String>,
    /// Started at this time or later
    #[arg(long, value_name = "TIME")]
    started_after: Option<String>,
    /// Started before this time
    #[arg(long, value_name = "TIME")]
    started_before: Option<String>,
    /// Completed at this time or later
    #[arg(long, value_name = "TIME")]
    completed_after: Option<String>,
    /// Completed before this time
    #[arg(long, value_name = "TIME")]
    completed_before: Option<String>,
    /// Dead or cancelled at this time or later
    #[arg(long, value_name = "TIME")]
    failed_after: Option<String>,
    /// Dead or cancelled before this time
    #[arg(long, value_name = "TIME")]
    failed_before: Option<String>,
    /// Expiring at this time or later
    #[arg(long, value_name = "TIME")]
    expire_after: Option<String>,
    /// Expiring before this time
    #[arg(long, value_name = "TIME")]
    expire_before: Option<String>,
    /// Jobs that this worker runs or ran last
    #[arg(long, visible_alias = "worker", value_name = "ID")]
    worker_id: Option<String>,
    /// Jobs that this plugin runs or ran last
    #[arg(long, value_name = "NAME")]
    plugin: Option<String>,
    /// Jobs that this version of a plugin runs or ran last: its digest, or the first characters of it
    #[arg(long, value_name = "DIGEST")]
    plugin_version: Option<String>,
    /// Jobs with failed attempts, or without
    #[arg(long, value_name = "true|false")]
    has_errors: Option<bool>,
    /// Jobs with this text in one of their errors
    #[arg(long, value_name = "TEXT")]
    error_contains: Option<String>,
    /// Dead jobs that died of the same error: the fingerprint that `windlass dead` shows
    #[arg(long, visible_alias = "fingerprint", value_name = "FINGERPRINT")]
    error_fingerprint: Option<String>,
    /// Jobs of this batch
    #[arg(long, visible_alias = "batch", value_name = "ID")]
    batch_id: Option<String>,
    /// Children of this job
    #[arg(long, visible_alias = "parent", value_name = "JOB")]
    parent_id: Option<String>,
    /// Jobs of this chain
    #[arg(long, visible_alias = "chain", value_name = "ID")]
    chain_id: Option<String>,
    /// The job with this unique key
    #[arg(long, value_name = "KEY")]
    unique_key: Option<String>,
    /// Jobs of this round, in queues with rounds
    #[arg(long, value_name = "N")]
    round: Option<u32>,
    /// Jobs that this schedule enqueued
    #[arg(long, value_name = "NAME")]
    schedule: Option<String>,
    /// Jobs with this limit key
    #[arg(long, value_name = "KEY")]
    limit_key: Option<String>,
    /// Jobs enqueued by this key
    #[arg(long, value_name = "ID")]
    created_by: Option<String>,
    /// Jobs that have been started at least this many times
    #[arg(long, value_name = "N")]
    attempt_min: Option<u32>,
    /// Jobs that have been started at most this many times
    #[arg(long, value_name = "N")]
    attempt_max: Option<u32>,
    /// Jobs whose id starts with this
    #[arg(long, visible_alias = "id-prefix", value_name = "PREFIX")]
    job_id_prefix: Option<String>,
}

/// The states a job can be in, as values of a flag.
fn states() -> PossibleValuesParser {
    PossibleValuesParser::new(State::ALL.map(State::as_str))
}

impl Filters {
    /// The filter for the server, with only the flags that were given.
    pub fn to_json(&self) -> Map<String, Value> {
        fn put(filter: &mut Map<String, Value>, name: &str, value: &Option<impl Serialize>) {
            if let Some(value) = value {
                filter.insert(name.to_owned(), json!(value));
            }
        }
        let mut filter = Map::new();
        let texts = [
            ("queue", &self.queue),
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
            ("failed_after", &self.failed_after),
            ("failed_before", &self.failed_before),
            ("expire_after", &self.expire_after),
            ("expire_before", &self.expire_before),
            ("worker_id", &self.worker_id),
            ("plugin", &self.plugin),
            ("plugin_version", &self.plugin_version),
            ("error_contains", &self.error_contains),
            ("error_fingerprint", &self.error_fingerprint),
            ("batch_id", &self.batch_id),
            ("parent_id", &self.parent_id),
            ("chain_id", &self.chain_id),
            ("unique_key", &self.unique_key),
            ("schedule", &self.schedule),
            ("limit_key", &self.limit_key),
            ("created_by", &self.created_by),
            ("job_id_prefix", &self.job_id_prefix),
        ];
        for (name, text) in texts {
            put(&mut filter, name, text);
        }
        put(&mut filter, "priority", &self.priority);
        put(&mut filter, "has_errors", &self.has_errors);
        put(&mut filter, "round", &self.round);
        put(&mut filter, "attempt_min", &self.attempt_min);
        put(&mut filter, "attempt_max", &self.attempt_max);
        if !self.state.is_empty() {
            filter.insert("state".to_owned(), json!(self.state));
        }
        if !self.tags.is_empty() {
            let tags: Map<String, Value> = self.tags.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
            filter.insert("tags".to_owned(), Value::Object(tags));
        }
        filter
    }
}
