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
    /// Show the server itself: disk, memory, connections, commits, limits and what confines its child processes
    #[arg(long)]
    system: bool,
    #[command(flatten)]
    remote: Remote,
}

impl Status {
    pub fn run(self) -> anyhow::Result<()> {
        let remote = &self.remote;
        if self.system {
            return system(remote);
        }
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

fn system(remote: &Remote) -> anyhow::Result<()> {
    let mut system = remote.get("/system")?;
    if remote.json() {
        return show::json(&system);
    }
    let number = |system: &Value, path: &str| system.pointer(path).and_then(Value::as_u64);
    let used = |system: &Value, used: &str, most: &str| {
        number(system, used)
            .map(|count| (count, Some(most).filter(|path| !path.is_empty()).and_then(|path| number(system, path))))
    };
    let of_most = |pair: Option<(u64, Option<u64>)>, show: fn(u64) -> String| match pair {
        Some((count, Some(most))) => json!(format!("{} of {}", show(count), show(most))),
        Some((count, None)) => json!(show(count)),
        None => Value::Null,
    };
    let plain: fn(u64) -> String = |count| count.to_string();
    let bytes: fn(u64) -> String = mebibytes;
    for (name, pair, show) in [
        ("slots_busy", used(&system, "/slots/busy", "/slots/total"), plain),
        ("disk_free", used(&system, "/data/free_bytes", "/data/size_bytes"), bytes),
        ("bodies", used(&system, "/memory/buffered_bodies_bytes", "/memory/buffered_bodies_limit_bytes"), bytes),
        ("connected", used(&system, "/connections/open", "/connections/limit"), plain),
        ("files", used(&system, "/open_files/open", "/open_files/limit"), plain),
        ("resident", used(&system, "/memory/resident_bytes", ""), bytes),
        ("tables", used(&system, "/data/store_bytes", ""), bytes),
        ("journals", used(&system, "/data/journal_bytes", ""), bytes),
        ("blobs", used(&system, "/data/blobs_bytes", ""), bytes),
        ("compiled", used(&system, "/data/compiled_bytes", ""), bytes),
    ] {
        system[name] = of_most(pair, show);
    }
    show::fields(&system, &SYSTEM)?;
    let limits = system["limits"].as_object().into_iter().flatten();
    for (name, value) in limits {
        show::print(&format!("limit {name:<28} {value}"))?;
    }
    Ok(())
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

const SYSTEM: [Column; 23] = [
    ("version", "version"),
    ("started", "started_at"),
    ("paused since", "paused_since"),
    ("trouble", "trouble"),
    ("durability", "durability"),
    ("processors", "processors"),
    ("slots", "slots_busy"),
    ("live streams", "watchers"),
    ("connections", "connected"),
    ("open files", "files"),
    ("memory", "resident"),
    ("bodies held", "bodies"),
    ("data folder", "data.dir"),
    ("disk free", "disk_free"),
    ("tables", "tables"),
    ("journals", "journals"),
    ("large bodies", "blobs"),
    ("compiled code", "compiled"),
    ("commits", "commits.count"),
    ("commit p50 ms", "commits.p50_ms"),
    ("commit p99 ms", "commits.p99_ms"),
    ("landlock", "confinement.landlock.detail"),
    ("seccomp", "confinement.seccomp.detail"),
];

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
    /// Drain a worker: it gets no more jobs, and finishes those it holds
    Drain(Which),
    /// Resume a drained worker: it gets jobs again
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
