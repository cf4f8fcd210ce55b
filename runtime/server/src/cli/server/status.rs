//! `windlass status` and `windlass worker`: an overview of the server, and its external workers.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::cli::client::{Remote, part};
use crate::cli::jobs::job::print_answer;
use crate::cli::plugins::plugin;
use crate::cli::terminal::show;
use crate::cli::terminal::show::Column;
use crate::http::PAUSED;

/// Show an overview of the server
#[derive(Debug, Args)]
pub struct Status {
    #[command(flatten)]
    remote: Remote,
}

impl Status {
    pub fn run(self) -> anyhow::Result<()> {
        let remote = &self.remote;
        let info = remote.get("/info")?;
        let stats = remote.get("/jobs/stats")?;
        let count = |list: Value| list.as_array().map_or(0, Vec::len);
        let plugins = remote.get("/plugins")?["plugins"].take();
        let plugins = plugins.as_array().cloned().unwrap_or_default();
        let waiting = plugins.iter().filter(|plugin| plugin["ready"] == false);
        let not_ready: Vec<Value> =
            waiting.map(|plugin| json!({"plugin": plugin["name"], "problem": plugin["problem"]})).collect();
        let mut status = json!({
            "server_version": info["server_version"],
            "paused": info["paused"],
            "paused_since": info["paused_since"],
            "queues": count(remote.get("/queues")?),
            "plugins": plugins.len(),
            "plugins_not_ready": not_ready,
            "schedules": count(remote.get("/schedules")?),
            "workers": count(remote.get("/workers")?),
            "jobs": stats,
        });
        if remote.json() {
            return show::json(&status);
        }
        let totals = &status["jobs"]["totals"];
        let so_far = ["enqueued", "completed", "dead", "cancelled"].map(|name| format!("{} {name}", totals[name]));
        let success = status["jobs"]["success_rate"].as_f64().map(|share| format!("{:.1} %", share * 100.0));
        if status["paused"] == true {
            show::print(PAUSED)?;
        }
        status["so_far"] = json!(so_far);
        status["success"] = json!(success);
        show::fields(
            &status,
            &[
                ("version", "server_version"),
                ("paused since", "paused_since"),
                ("queues", "queues"),
                ("plugins", "plugins"),
                ("schedules", "schedules"),
                ("workers", "workers"),
                ("pending", "jobs.pending"),
                ("active", "jobs.active"),
                ("scheduled", "jobs.scheduled"),
                ("retrying", "jobs.retrying"),
                ("held", "jobs.held"),
                ("blocked", "jobs.blocked"),
                ("completed", "jobs.completed"),
                ("dead", "jobs.dead"),
                ("cancelled", "jobs.cancelled"),
                ("totals", "so_far"),
                ("success", "success"),
            ],
        )?;
        plugin::not_ready(&plugins)
    }
}

/// List, drain and resume external workers
#[derive(Debug, Args)]
pub struct Worker {
    #[command(subcommand)]
    action: WorkerAction,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Subcommand)]
enum WorkerAction {
    /// List the workers that have fetched jobs since the server started
    List,
    /// Give a worker no more jobs; it finishes those it holds
    Drain(Which),
    /// Give a worker jobs again
    Resume(Which),
}

#[derive(Debug, Args)]
struct Which {
    /// The worker's id
    id: String,
}

const WORKERS: [Column; 6] = [
    ("WORKER", "id"),
    ("HOST", "hostname"),
    ("QUEUES", "queues"),
    ("LAST SEEN", "last_heartbeat"),
    ("DRAINING", "draining"),
    ("JOBS", "jobs"),
];

impl Worker {
    pub fn run(self) -> anyhow::Result<()> {
        let (id, action) = match &self.action {
            WorkerAction::List => return self.list(),
            WorkerAction::Drain(Which { id }) => (id, "drain"),
            WorkerAction::Resume(Which { id }) => (id, "resume"),
        };
        print_answer(&self.remote, &self.remote.post(&format!("/workers/{}/{action}", part(id)), &json!({}))?)
    }

    fn list(&self) -> anyhow::Result<()> {
        let workers = self.remote.get("/workers")?;
        match workers.as_array().filter(|_| !self.remote.json()) {
            Some(rows) => show::table(rows, &WORKERS),
            None => show::json(&workers),
        }
    }
}
