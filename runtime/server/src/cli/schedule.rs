//! `windlass schedule`: jobs that the clock makes.

use anyhow::bail;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::client::{Remote, part};
use super::enqueue::read_json;
use super::job::told;
use super::show::{self, Column};

/// Make jobs by the clock
#[derive(Debug, Args)]
pub struct Schedule {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make a schedule
    Add {
        name: String,
        /// Five fields (minute hour day month weekday), or six with seconds first
        cron: String,
        /// The queue its jobs go to
        queue: String,
        /// What the handler gets: JSON, `@FILE`, or `-` for standard input [default: {}]
        payload: Option<String>,
        /// The zone its times are in [default: UTC]
        #[arg(long, value_name = "ZONE")]
        timezone: Option<String>,
        /// When the last job still runs: allow, skip or cancel [default: allow]
        #[arg(long)]
        overlap: Option<String>,
        /// For times that passed while the server was down: skip, once or all [default: once]
        #[arg(long)]
        catch_up: Option<String>,
        /// While a job with this key waits or runs, no other is made
        #[arg(long, value_name = "KEY")]
        unique_key: Option<String>,
        /// The number of runs of its jobs, the first included
        #[arg(long, value_name = "N")]
        max_retries: Option<u32>,
        /// Change the schedule of this name, if there is one
        #[arg(long)]
        replace: bool,
    },
    /// All schedules
    List,
    /// Make no more jobs until it is resumed
    Pause { name: String },
    /// Make jobs again
    Resume { name: String },
    /// Make a job now
    Run { name: String },
    /// Remove it; jobs it has made stay
    Remove { name: String },
    /// The next times it runs
    Next {
        name: String,
        #[arg(long, default_value_t = 5)]
        count: usize,
    },
}

const LIST: [Column; 6] = [
    ("NAME", "name"),
    ("CRON", "cron"),
    ("ZONE", "timezone"),
    ("QUEUE", "queue"),
    ("NEXT", "next_run"),
    ("PAUSED", "paused"),
];

impl Schedule {
    pub fn run(self) -> anyhow::Result<()> {
        let remote = &self.remote;
        let path = |name: &str, rest: &str| format!("/schedules/{}{rest}", part(name));
        match self.action {
            Action::Add {
                name,
                cron,
                queue,
                payload,
                timezone,
                overlap,
                catch_up,
                unique_key,
                max_retries,
                replace,
            } => {
                let fields = [
                    ("name", json!(name)),
                    ("cron", json!(cron)),
                    ("queue", json!(queue)),
                    ("timezone", json!(timezone)),
                    ("overlap", json!(overlap)),
                    ("catch_up", json!(catch_up)),
                    ("unique_key", json!(unique_key)),
                    ("max_retries", json!(max_retries)),
                ];
                let given = fields.into_iter().filter(|(_, value)| !value.is_null());
                let mut body: Map<String, Value> = given.map(|(field, value)| (field.to_owned(), value)).collect();
                if let Some(payload) = payload {
                    body.insert("payload".to_owned(), read_json(&payload)?);
                }
                let known = remote.get("/schedules")?;
                let known = known.as_array().is_some_and(|all| all.iter().any(|one| one["name"] == json!(name)));
                let body = Value::Object(body);
                let made = match (known, replace) {
                    (true, true) => remote.put(&path(&name, ""), body.to_string().as_bytes())?,
                    (true, false) => bail!("schedule {name} exists already; add --replace to change it"),
                    (false, _) => remote.post("/schedules", &body)?,
                };
                if remote.json() {
                    show::json(&made)
                } else {
                    show::print(&format!("next run {}", made["next_run"].as_str().unwrap_or("never")))
                }
            }
            Action::List => {
                let all = remote.get("/schedules")?;
                match all.as_array().filter(|_| !remote.json()) {
                    Some(rows) => show::table(rows, &LIST),
                    None => show::json(&all),
                }
            }
            Action::Pause { name } => told(remote, &remote.post(&path(&name, "/pause"), &json!({}))?),
            Action::Resume { name } => told(remote, &remote.post(&path(&name, "/resume"), &json!({}))?),
            Action::Run { name } => {
                let ran = remote.post(&path(&name, "/run"), &json!({}))?;
                match ran["job_id"].as_str().filter(|_| !remote.json()) {
                    Some(id) => show::print(id),
                    None => told(remote, &ran),
                }
            }
            Action::Remove { name } => told(remote, &remote.delete(&path(&name, ""))?),
            Action::Next { name, count } => {
                let next = remote.get(&path(&name, &format!("/next?count={count}")))?;
                if remote.json() {
                    return show::json(&next);
                }
                let times = next["next"].as_array().map_or(&[][..], Vec::as_slice);
                times.iter().filter_map(Value::as_str).try_for_each(show::print)
            }
        }
    }
}
