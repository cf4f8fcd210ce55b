//! `windlass attempt`: the attempts that run now.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::cli::client::{Remote, part};
use crate::cli::terminal::show;
use crate::cli::terminal::show::Column;

/// List the attempts that run now, with what they use
#[derive(Debug, Args)]
pub struct Attempt {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the attempts that run now, the newest first
    List(List),
}

#[derive(Debug, Args)]
struct List {
    /// Only attempts of jobs of this queue
    #[arg(long)]
    queue: Option<String>,
    /// Only attempts of this plugin
    #[arg(long)]
    plugin: Option<String>,
    /// The most attempts to list, up to 1000
    #[arg(long, default_value_t = 50)]
    limit: usize,
}

const COLUMNS: [Column; 9] = [
    ("JOB", "job_id"),
    ("QUEUE", "queue"),
    ("ATTEMPT", "attempt"),
    ("RUNS ON", "runs_on"),
    ("STARTED", "started_at"),
    ("CPU", "cpu"),
    ("MEMORY", "memory"),
    ("PROGRESS", "progress.message"),
    ("LIMITS HIT", "live.hits"),
];

impl Attempt {
    pub fn run(self) -> anyhow::Result<()> {
        let Action::List(List { queue, plugin, limit }) = self.action;
        let mut query = format!("?limit={limit}");
        for (name, value) in [("queue", queue), ("plugin", plugin)] {
            query.extend(value.map(|value| format!("&{name}={}", part(&value))));
        }
        let answer = self.remote.get(&format!("/attempts{query}"))?;
        if self.remote.json() {
            return show::json(&answer);
        }
        let attempts = answer["attempts"].as_array().cloned().unwrap_or_default();
        if attempts.is_empty() {
            return show::print("no attempt runs now");
        }
        let listed = attempts.len() as u64;
        show::table(&attempts.into_iter().map(row).collect::<Vec<_>>(), &COLUMNS)?;
        match answer["total"].as_u64() {
            Some(total) if total > listed => show::print(&format!("and {} more; --limit shows more", total - listed)),
            Some(_) | None => Ok(()),
        }
    }
}

/// With a few columns put together.
fn row(mut attempt: Value) -> Value {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let version = text(&attempt["plugin_version"]).unwrap_or_default();
    let version = version.get(..12).unwrap_or(&version);
    attempt["runs_on"] = match text(&attempt["plugin"]) {
        Some(plugin) => json!(format!("{plugin} {version}")),
        None => attempt["worker"]["id"].clone(),
    };
    let of = |name: &str| attempt["live"][name].as_u64();
    let with = |used: Option<String>, most: Option<String>| match (used, most) {
        (Some(used), Some(most)) => json!(format!("{used} of {most}")),
        (used, _) => json!(used),
    };
    let cpu = with(of("cpu_ms").map(millis), of("cpu_limit_ms").map(millis));
    let memory = with(of("memory_bytes").map(mebibytes), of("memory_limit_bytes").map(mebibytes));
    attempt["cpu"] = cpu;
    attempt["memory"] = memory;
    attempt
}

fn millis(count: u64) -> String {
    format!("{count} ms")
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_what_an_attempt_uses_and_may_use() {
        let sandboxed = row(json!({
            "plugin": "mailer", "plugin_version": "0123456789abcdef",
            "live": {"cpu_ms": 7, "cpu_limit_ms": null, "memory_bytes": 1 << 20, "memory_limit_bytes": 3 << 20},
        }));
        assert_eq!(sandboxed["runs_on"], "mailer 0123456789ab");
        assert_eq!((&sandboxed["cpu"], &sandboxed["memory"]), (&json!("7 ms"), &json!("1.0 MiB of 3.0 MiB")));
        let outside = row(json!({"worker": {"id": "w1"}, "live": null}));
        assert_eq!((&outside["runs_on"], &outside["cpu"]), (&json!("w1"), &Value::Null));
    }
}
