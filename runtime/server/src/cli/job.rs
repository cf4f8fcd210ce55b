//! `windlass job`: looking at one job, and what people ask of it.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::client::{Remote, part};
use super::show::{self, Column};
use super::watch;
use crate::limits;

/// Look at a job, follow it, or tell it what to do
#[derive(Debug, Args)]
pub struct Job {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// The whole record
    Get { id: String },
    /// The latest jobs
    List {
        #[arg(long)]
        queue: Option<String>,
        #[arg(long)]
        state: Option<String>,
        #[arg(long, default_value_t = 50)]
        limit: usize,
    },
    /// Progress and log as they come. Ends as the job does: 0 completed, 1 dead, 3 cancelled
    Watch { id: String },
    /// Wait for its end, and show the record. Ends as the job does, or with 4 when time is up
    Wait {
        id: String,
        /// How many seconds to wait at most
        #[arg(long, default_value_t = 30)]
        timeout: u64,
    },
    /// Its log
    Logs {
        id: String,
        /// Stay until the job has ended
        #[arg(short, long)]
        follow: bool,
        /// The first line
        #[arg(long, default_value_t = 0)]
        from: u64,
    },
    /// Stop it, or never start it
    Cancel {
        id: String,
        #[arg(long)]
        reason: Option<String>,
    },
    /// Run an ended job again from the start, its attempts counted anew
    Retry { id: String },
    /// Run an ended job from nothing; all that is below it is removed, and made anew
    Rebuild { id: String },
    /// Give a dead job one run more
    Requeue { id: String },
    /// Put it into another queue
    Move { id: String, queue: String },
    /// Keep it from running until it is approved
    Hold {
        id: String,
        #[arg(long)]
        reason: Option<String>,
    },
    /// Let a held job run
    Approve { id: String },
    /// Let a held job die
    Reject {
        id: String,
        #[arg(long)]
        reason: Option<String>,
    },
    /// Remove it and all that belongs to it
    Delete { id: String },
}

const LIST: [Column; 6] = [
    ("ID", "id"),
    ("QUEUE", "queue"),
    ("STATE", "state"),
    ("ATTEMPT", "attempt"),
    ("CREATED", "created_at"),
    ("ERROR", "last_error"),
];
const RECORD: [Column; 22] = [
    ("id", "id"),
    ("queue", "queue"),
    ("state", "state"),
    ("priority", "priority"),
    ("attempt", "attempt"),
    ("max retries", "max_retries"),
    ("scope", "scope"),
    ("unique key", "unique_key"),
    ("schedule", "schedule"),
    ("plugin", "plugin"),
    ("version", "plugin_version"),
    ("worker", "worker_id"),
    ("created", "created_at"),
    ("scheduled", "scheduled_at"),
    ("started", "started_at"),
    ("completed", "completed_at"),
    ("failed", "failed_at"),
    ("held", "hold_reason"),
    ("progress", "progress.message"),
    ("last error", "last_error"),
    ("payload", "payload"),
    ("result", "result"),
];

impl Job {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let remote = &self.remote;
        match self.action {
            Action::Get { id } => record(remote, &remote.get(&format!("/jobs/{}", part(&id)))?)?,
            Action::List { queue, state, limit } => {
                let mut path = format!("/jobs?limit={limit}");
                for (name, value) in [("queue", queue), ("state", state)] {
                    if let Some(value) = value {
                        path.push_str(&format!("&{name}={}", part(&value)));
                    }
                }
                let answer = remote.get(&path)?;
                if remote.json() {
                    show::json(&answer)?;
                } else {
                    show::table(answer["jobs"].as_array().map_or(&[], Vec::as_slice), &LIST)?;
                }
            }
            Action::Watch { id } => return watch::watch(remote, &id),
            Action::Wait { id, timeout } => return wait(remote, &id, timeout),
            Action::Logs { id, follow: true, from } => watch::follow_log(remote, &id, from)?,
            Action::Logs { id, follow: false, from } => logs(remote, &id, from)?,
            Action::Cancel { id, reason } => act(remote, &id, "cancel", &with_reason(reason))?,
            Action::Retry { id } => act(remote, &id, "retry", &json!({}))?,
            Action::Rebuild { id } => act(remote, &id, "rebuild", &json!({}))?,
            Action::Requeue { id } => act(remote, &id, "requeue", &json!({}))?,
            Action::Move { id, queue } => act(remote, &id, "move", &json!({ "queue": queue }))?,
            Action::Hold { id, reason } => act(remote, &id, "hold", &with_reason(reason))?,
            Action::Approve { id } => act(remote, &id, "approve", &json!({}))?,
            Action::Reject { id, reason } => act(remote, &id, "reject", &with_reason(reason))?,
            Action::Delete { id } => told(remote, &remote.delete(&format!("/jobs/{}", part(&id)))?)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn with_reason(reason: Option<String>) -> Value {
    reason.map_or_else(|| json!({}), |reason| json!({ "reason": reason }))
}

fn act(remote: &Remote, id: &str, action: &str, body: &Value) -> anyhow::Result<()> {
    told(remote, &remote.post(&format!("/jobs/{}/{action}", part(id)), body)?)
}

/// The word that came of an action.
pub fn told(remote: &Remote, answer: &Value) -> anyhow::Result<()> {
    match answer["status"].as_str().filter(|_| !remote.json()) {
        Some(word) => show::print(word),
        None => show::json(answer),
    }
}

fn record(remote: &Remote, job: &Value) -> anyhow::Result<()> {
    if remote.json() { show::json(job) } else { show::fields(job, &RECORD) }
}

fn wait(remote: &Remote, id: &str, seconds: u64) -> anyhow::Result<ExitCode> {
    let seconds = seconds.min(limits::WAIT_MOST.as_secs());
    let job = remote.wait(&format!("/jobs/{}/wait?timeout={seconds}", part(id)), Duration::from_secs(seconds))?;
    record(remote, &job)?;
    let state = job["state"].as_str().unwrap_or_default();
    Ok(watch::exit_code(state).unwrap_or_else(|| ExitCode::from(watch::NOT_ENDED)))
}

fn logs(remote: &Remote, id: &str, mut from: u64) -> anyhow::Result<()> {
    loop {
        let page = remote.get(&format!("/jobs/{}/logs?from={from}", part(id)))?;
        let lines = page["lines"].as_array().map_or(&[][..], Vec::as_slice);
        for line in lines {
            show::print(&if remote.json() { line.to_string() } else { watch::log_line(line) })?;
        }
        if lines.is_empty() {
            return Ok(());
        }
        from = page["next"].as_u64().unwrap_or(from + lines.len() as u64);
    }
}
