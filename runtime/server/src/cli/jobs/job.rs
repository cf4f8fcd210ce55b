//! `windlass job`: showing one job, and acting on it.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::cli::client::{Remote, part};
use crate::cli::jobs::filters::Filters;
use crate::cli::jobs::job_attempts;
use crate::cli::jobs::job_flags::{Body, pair};
use crate::cli::jobs::job_record;
use crate::cli::jobs::search;
use crate::cli::jobs::search::Sorting;
use crate::cli::jobs::watch;
use crate::cli::terminal::show;
use crate::http::wire::PriorityName;
use crate::limits;

/// Show, watch, cancel and retry jobs
#[derive(Debug, Args)]
pub struct Job {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show one job: its record, errors and timeline
    Get(Which),
    /// List the attempts of a job: when each waited and ran, how it ended, and what it used
    Attempts(Which),
    /// List jobs, the newest first
    List {
        #[command(flatten)]
        sorting: Sorting,
        /// The most jobs to list
        #[arg(long, value_name = "N", default_value_t = limits::PAGE)]
        limit: usize,
        #[command(flatten)]
        filters: Box<Filters>,
    },
    /// Show progress and log until the job ends. Exit status: 0 completed, 1 dead, 3 cancelled
    Watch(Which),
    /// Wait until the job ends, then show it. Exit status: as for `watch`, and 4 if time ran out
    Wait {
        #[command(flatten)]
        job: Which,
        /// The longest time to wait, in seconds
        #[arg(long, value_name = "SECONDS", default_value_t = 30)]
        timeout: u64,
    },
    /// Show the log
    Logs {
        #[command(flatten)]
        job: Which,
        /// Keep showing new lines until the job ends
        #[arg(short, long)]
        follow: bool,
        /// The number of the first line to show, counted from 0
        #[arg(long, value_name = "N", default_value_t = 0)]
        from: u64,
    },
    /// Write the result unchanged: the bytes that the handler returned
    Result(Bytes),
    /// Write the payload unchanged: the bytes that the handler is given
    Payload(Bytes),
    /// Cancel a job; if it is running, ask it to stop
    Cancel {
        #[command(flatten)]
        job: Which,
        /// Why, for the job's timeline
        #[arg(long)]
        reason: Option<String>,
        /// How long a running attempt in a plugin may take before it is stopped by force, such as 30s [default: 5s]
        #[arg(long, value_name = "DURATION")]
        grace: Option<String>,
    },
    /// Run an ended job again with all its attempts
    Retry {
        #[command(flatten)]
        job: Which,
        /// Another payload, with which it starts from the beginning: JSON, `@FILE`, or `-` for standard input
        #[arg(long, value_name = "JSON")]
        payload: Option<String>,
    },
    /// Run a scheduled or retrying job now instead of at its time
    RunNow(Which),
    /// Change a job that waits; flags that are not given leave their values unchanged
    Edit(Box<Edit>),
    /// Run an ended job again from the start, after removing its descendants
    Rebuild(Which),
    /// Give a dead job one more attempt
    Requeue(Which),
    /// Move a job to another queue
    Move {
        #[command(flatten)]
        job: Which,
        /// The queue to move it to
        queue: String,
        /// The priority it has there [default: unchanged]
        #[arg(long, value_enum)]
        priority: Option<PriorityName>,
        /// Count its attempts from zero
        #[arg(long)]
        reset_attempts: bool,
    },
    /// Hold a job until it is approved or rejected
    Hold {
        #[command(flatten)]
        job: Which,
        /// Why, for the person who decides
        #[arg(long)]
        reason: Option<String>,
    },
    /// Let a held job run
    Approve(Which),
    /// End a held job as dead
    Reject {
        #[command(flatten)]
        job: Which,
        /// Why, shown with the job
        #[arg(long)]
        reason: Option<String>,
    },
    /// Delete a job and everything stored with it
    Delete(Which),
}

#[derive(Debug, Args)]
struct Bytes {
    #[command(flatten)]
    job: Which,
    /// The file to write to [default: standard output]
    #[arg(short = 'o', long = "out", value_name = "FILE")]
    file: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct Which {
    /// The job's id
    id: String,
}

#[derive(Debug, Args)]
struct Edit {
    #[command(flatten)]
    job: Which,
    /// The handler's input: JSON, `@FILE`, or `-` for standard input
    #[arg(long, value_name = "JSON")]
    payload: Option<String>,
    /// How urgent it is
    #[arg(long, value_enum)]
    priority: Option<PriorityName>,
    /// When it is due, such as 2030-01-31T12:00:00Z, or `now`
    #[arg(long, visible_alias = "at", value_name = "TIME")]
    scheduled_at: Option<String>,
    /// A tag; may be repeated. Those that are given replace all it has
    #[arg(long = "tag", visible_alias = "tags", value_name = "NAME=VALUE", value_parser = pair)]
    tags: Vec<(String, String)>,
    /// How many times it may run, including the runs it has had
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// How long one attempt may take, or `none`
    #[arg(long, value_name = "DURATION")]
    attempt_timeout: Option<String>,
    /// How long an attempt may go without progress, a checkpoint or a log line, or `none`
    #[arg(long, value_name = "DURATION")]
    stall_timeout: Option<String>,
    /// How long all attempts together may take, or `none`
    #[arg(long, value_name = "DURATION")]
    max_duration: Option<String>,
}

impl Edit {
    fn send(&self, remote: &Remote) -> anyhow::Result<()> {
        let or_null = |text: &Option<String>, word: &str| {
            text.as_ref().map(|text| if text == word { Value::Null } else { json!(text) })
        };
        let mut fields = Map::new();
        let mut body = Body(&mut fields);
        body.read("payload", &self.payload)?;
        body.put("priority", &self.priority);
        body.put("scheduled_at", &or_null(&self.scheduled_at, "now"));
        body.put_tags(&self.tags);
        body.put("max_attempts", &self.max_attempts);
        body.put("attempt_timeout", &or_null(&self.attempt_timeout, "none"));
        body.put("stall_timeout", &or_null(&self.stall_timeout, "none"));
        body.put("max_duration", &or_null(&self.max_duration, "none"));
        let path = format!("/jobs/{}", part(&self.job.id));
        print_answer(remote, &remote.patch(&path, &Value::Object(fields))?)
    }
}

impl Job {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let remote = &self.remote;
        match self.action {
            Action::Get(Which { id }) => record(remote, &remote.get(&format!("/jobs/{}", part(&id)))?)?,
            Action::Attempts(Which { id }) => job_attempts::show(remote, &id)?,
            Action::List { sorting, limit, filters } => {
                let found = search::found(remote, &filters, &sorting, Some(limit))?;
                if remote.json() { show::json(&found)? } else { search::table(&found, &sorting)? }
            }
            Action::Watch(Which { id }) => return watch::watch(remote, &id),
            Action::Wait { job, timeout } => return wait(remote, &job.id, timeout),
            Action::Logs { job, follow: true, from } => watch::follow_log(remote, &job.id, from)?,
            Action::Logs { job, follow: false, from } => logs(remote, &job.id, from)?,
            Action::Result(bytes) => bytes.write(remote, "result")?,
            Action::Payload(bytes) => bytes.write(remote, "payload")?,
            Action::Cancel { job, reason, grace } => {
                let mut body = with_reason(reason);
                if let Some(grace) = grace {
                    body["grace"] = json!(grace);
                }
                act(remote, &job.id, "cancel", &body)?;
            }
            Action::Retry { job, payload } => {
                let mut fields = Map::new();
                Body(&mut fields).read("payload", &payload)?;
                act(remote, &job.id, "retry", &Value::Object(fields))?;
            }
            Action::RunNow(job) => act(remote, &job.id, "run-now", &json!({}))?,
            Action::Edit(edit) => edit.send(remote)?,
            Action::Rebuild(job) => act(remote, &job.id, "rebuild", &json!({}))?,
            Action::Requeue(job) => act(remote, &job.id, "requeue", &json!({}))?,
            Action::Move { job, queue, priority, reset_attempts } => {
                let mut body = json!({ "queue": queue, "reset_attempts": reset_attempts });
                if let Some(priority) = priority {
                    body["priority"] = json!(priority);
                }
                act(remote, &job.id, "move", &body)?;
            }
            Action::Hold { job, reason } => act(remote, &job.id, "hold", &with_reason(reason))?,
            Action::Approve(job) => act(remote, &job.id, "approve", &json!({}))?,
            Action::Reject { job, reason } => act(remote, &job.id, "reject", &with_reason(reason))?,
            Action::Delete(job) => print_answer(remote, &remote.delete(&format!("/jobs/{}", part(&job.id)))?)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Bytes {
    fn write(&self, remote: &Remote, what: &str) -> anyhow::Result<()> {
        let bytes = remote.download(&format!("/jobs/{}/{what}", part(&self.job.id)))?;
        match &self.file {
            Some(file) => {
                std::fs::write(file, &bytes).with_context(|| format!("cannot write {}", file.display()))?;
                let written = json!({ "file": file, "bytes": bytes.len() });
                if remote.json() {
                    show::json(&written)
                } else {
                    show::print(&format!("{} bytes in {}", bytes.len(), file.display()))
                }
            }
            None => show::bytes(&bytes),
        }
    }
}

fn with_reason(reason: Option<String>) -> Value {
    reason.map_or_else(|| json!({}), |reason| json!({ "reason": reason }))
}

fn act(remote: &Remote, id: &str, action: &str, body: &Value) -> anyhow::Result<()> {
    print_answer(remote, &remote.post(&format!("/jobs/{}/{action}", part(id)), body)?)
}

/// Prints the status that an action returned.
pub fn print_answer(remote: &Remote, answer: &Value) -> anyhow::Result<()> {
    match answer["status"].as_str().filter(|_| !remote.json()) {
        Some(status) => show::print(status),
        None => show::json(answer),
    }
}

fn record(remote: &Remote, job: &Value) -> anyhow::Result<()> {
    if remote.json() { show::json(job) } else { job_record::show(job) }
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
            if remote.json() { show::line(line)? } else { show::print(&watch::log_line(line))? }
        }
        if lines.is_empty() {
            return Ok(());
        }
        from = page["next"].as_u64().unwrap_or(from + lines.len() as u64);
    }
}
