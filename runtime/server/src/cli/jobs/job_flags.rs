//! The fields of a job on the command line: a flag for each field of `POST /enqueue`, under the same name.

use clap::Args;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::cli::jobs::enqueue::read_json;
use crate::http::wire::{BackoffName, OnFailureName, PriorityName, UntilName, WithinName};

/// The fields of a job. The queue's defaults apply to those that are not given.
#[derive(Debug, Args)]
pub struct JobFlags {
    #[command(flatten)]
    when: When,
    #[command(flatten)]
    retries: Retries,
    #[command(flatten)]
    time_limits: TimeLimits,
    #[command(flatten)]
    unique: UniqueFlags,
    #[command(flatten)]
    labels: Labels,
    #[command(flatten)]
    relations: Relations,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "When it runs")]
struct When {
    /// How urgent it is
    #[arg(long, value_enum)]
    priority: Option<PriorityName>,
    /// Start it after this delay at the earliest, such as 5m
    #[arg(long, value_name = "DURATION")]
    delay: Option<String>,
    /// Start it at this time at the earliest, such as 2030-01-31T12:00:00Z
    #[arg(long, visible_alias = "at", value_name = "TIME")]
    scheduled_at: Option<String>,
    /// Hold it, for this reason, until it is approved
    #[arg(long, visible_alias = "hold", value_name = "REASON")]
    hold_reason: Option<String>,
    /// Let only this worker fetch it
    #[arg(long, value_name = "ID")]
    target_worker: Option<String>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Retries")]
pub struct Retries {
    /// How many times it may run, including the first run
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// How the delay grows from one failure to the next
    #[arg(long, value_enum, value_name = "KIND")]
    retry_backoff: Option<BackoffName>,
    /// The delay after the first failure
    #[arg(long, value_name = "DURATION")]
    retry_base_delay: Option<String>,
    /// The longest delay
    #[arg(long, value_name = "DURATION")]
    retry_max_delay: Option<String>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Time limits")]
pub struct TimeLimits {
    /// Dead if it has not completed this long after it was enqueued
    #[arg(long, value_name = "DURATION")]
    expire_after: Option<String>,
    /// How long one attempt may take
    #[arg(long, value_name = "DURATION")]
    attempt_timeout: Option<String>,
    /// How long an attempt may go without progress, a checkpoint or a log line
    #[arg(long, value_name = "DURATION")]
    stall_timeout: Option<String>,
    /// How long all attempts together may take
    #[arg(long, value_name = "DURATION")]
    max_duration: Option<String>,
    /// How long a worker may hold it without a heartbeat
    #[arg(long, value_name = "DURATION")]
    lease_duration: Option<String>,
    /// How long it stays stored after it has ended
    #[arg(long, value_name = "DURATION")]
    ttl: Option<String>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Unique jobs")]
struct UniqueFlags {
    /// Do not store it if another job has this key; return that job instead
    #[arg(long, value_name = "KEY")]
    unique_key: Option<String>,
    /// The longest time for which the key stays reserved
    #[arg(long, value_name = "DURATION")]
    unique_period: Option<String>,
    /// Among which jobs the key is unique: those of the queue, or those with the same --scope
    #[arg(long, value_enum)]
    unique_scope: Option<WithinName>,
    /// When the key is free again: at the end of the job, or only at the end of the period
    #[arg(long, value_enum)]
    unique_until: Option<UntilName>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Labels and limits")]
struct Labels {
    /// A tag; may be repeated
    #[arg(long = "tag", visible_alias = "tags", value_name = "NAME=VALUE", value_parser = pair)]
    tags: Vec<(String, String)>,
    /// What the job is about, as type:id
    #[arg(long)]
    scope: Option<String>,
    /// Whose share of the queue's limits it counts against, such as a customer's name
    #[arg(long, value_name = "KEY")]
    limit_key: Option<String>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Other jobs")]
struct Relations {
    /// Wait until this job has ended; may be repeated
    #[arg(long, value_name = "JOB")]
    depends_on: Vec<String>,
    /// What to do when one of those dies or is cancelled [default: cancel]
    #[arg(long, value_enum, value_name = "POLICY")]
    on_dependency_failure: Option<OnFailureName>,
    /// The job it is a child of
    #[arg(long, visible_alias = "parent", value_name = "JOB")]
    parent_id: Option<String>,
    /// The open batch it joins
    #[arg(long, visible_alias = "batch", value_name = "BATCH")]
    batch_id: Option<String>,
    /// The steps that follow it: '{"steps": [{"queue": "a"}, {"queue": "b"}]}', or @FILE
    #[arg(long, value_name = "JSON")]
    chain: Option<String>,
    /// Limits for an agent: '{"max_iterations": 10, "max_cost_usd": 2.5}', or @FILE
    #[arg(long, value_name = "JSON")]
    agent: Option<String>,
    /// The checkpoint its first attempt starts from: JSON, or @FILE
    #[arg(long, value_name = "JSON")]
    checkpoint: Option<String>,
}

/// Collects the fields that were given.
pub struct Body<'a>(pub &'a mut Map<String, Value>);

impl Body<'_> {
    pub fn put(&mut self, field: &str, value: &Option<impl Serialize>) {
        if let Some(value) = value {
            self.0.insert(field.to_owned(), json!(value));
        }
    }

    pub fn put_tags(&mut self, tags: &[(String, String)]) {
        if !tags.is_empty() {
            let tags: Map<String, Value> = tags.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
            self.put("tags", &Some(tags));
        }
    }

    pub fn read(&mut self, field: &str, text: &Option<String>) -> anyhow::Result<()> {
        if let Some(text) = text {
            self.0.insert(field.to_owned(), read_json(text)?);
        }
        Ok(())
    }
}

impl JobFlags {
    /// Writes the given fields into the body of a request, and nothing else.
    pub fn write(&self, body: &mut Map<String, Value>) -> anyhow::Result<()> {
        let JobFlags { when, retries, time_limits, unique, labels, relations } = self;
        let mut body = Body(body);
        body.put("priority", &when.priority);
        body.put("delay", &when.delay);
        body.put("scheduled_at", &when.scheduled_at);
        body.put("hold_reason", &when.hold_reason);
        body.put("target_worker", &when.target_worker);
        retries.write(&mut body);
        time_limits.write(&mut body);
        body.put("unique_key", &unique.unique_key);
        body.put("unique_period", &unique.unique_period);
        body.put("unique_scope", &unique.unique_scope);
        body.put("unique_until", &unique.unique_until);
        body.put("scope", &labels.scope);
        body.put("limit_key", &labels.limit_key);
        body.put("on_dependency_failure", &relations.on_dependency_failure);
        body.put("parent_id", &relations.parent_id);
        body.put("batch_id", &relations.batch_id);
        body.read("chain", &relations.chain)?;
        body.read("agent", &relations.agent)?;
        body.read("checkpoint", &relations.checkpoint)?;
        if !relations.depends_on.is_empty() {
            body.put("depends_on", &Some(&relations.depends_on));
        }
        body.put_tags(&labels.tags);
        Ok(())
    }
}

impl Retries {
    pub fn write(&self, body: &mut Body<'_>) {
        body.put("max_attempts", &self.max_attempts);
        body.put("retry_backoff", &self.retry_backoff);
        body.put("retry_base_delay", &self.retry_base_delay);
        body.put("retry_max_delay", &self.retry_max_delay);
    }
}

impl TimeLimits {
    pub fn write(&self, body: &mut Body<'_>) {
        body.put("expire_after", &self.expire_after);
        body.put("attempt_timeout", &self.attempt_timeout);
        body.put("stall_timeout", &self.stall_timeout);
        body.put("max_duration", &self.max_duration);
        body.put("lease_duration", &self.lease_duration);
        body.put("ttl", &self.ttl);
    }
}

/// A tag as it is written on the command line.
pub fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("`{text}` is not NAME=VALUE"))?;
    Ok((name.to_owned(), value.to_owned()))
}
