//! `windlass enqueue`: adds a job.

use std::io::Read;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use serde_json::{Map, Value, json};

use crate::cli::client::Remote;
use crate::cli::jobs::job_flags::JobFlags;
use crate::cli::jobs::watch;
use crate::cli::terminal::show;

/// Add a job to a queue
#[derive(Debug, Args)]
pub struct Enqueue {
    /// The queue to add it to
    queue: String,
    /// The handler's input: JSON, `@FILE`, or `-` for standard input [default: {}]
    payload: Option<String>,
    /// Show its progress and log until it ends. Exit status: 0 completed, 1 dead, 3 cancelled
    #[arg(long)]
    watch: bool,
    /// Make the request safe to repeat: for a day, the same key returns the same job
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Further fields of `POST /enqueue`, as a JSON object or @FILE
    #[arg(long, value_name = "JSON")]
    with: Option<String>,
    #[command(flatten)]
    fields: JobFlags,
    #[command(flatten)]
    remote: Remote,
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
        let existing = answer["unique_existing"] == true;
        if !existing && answer.get("served_by").is_some_and(Value::is_null) {
            self.say_how_to_serve();
        }
        if self.watch {
            let (queue, status) = (&self.queue, answer["job"]["state"].as_str().unwrap_or_default());
            show::note(&match existing {
                true => format!("{id} already has the unique key, and is {status}"),
                false => format!("{id} is {status} in {queue}"),
            });
            return watch::watch(remote, &id);
        }
        if remote.json() {
            show::json(&answer)?;
        } else {
            // Scripts read the id, whether the job is new or not.
            show::print(&id)?;
            if existing {
                show::note("no new job: this one already has the unique key");
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// How the queue could be served, for a person who waits for the job. That it is not served is in the response's
    /// warnings.
    fn say_how_to_serve(&self) {
        let (queue, remote) = (&self.queue, &self.remote);
        show::note(&format!(
            "to serve it with a plugin:  {}\nor with a worker of your own that fetches from {queue}:  {}, \"workers\"",
            remote.command(&format!("plugin push DIR --queues {queue}")),
            remote.docs(),
        ));
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
        self.fields.write(&mut body)?;
        Ok(Value::Object(body))
    }
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
