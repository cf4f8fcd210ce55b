//! `windlass stats`: figures over time, of all queues or of one.

use clap::Args;
use serde_json::{Value, json};

use crate::cli::client::{Remote, part};
use crate::cli::terminal::show;
use crate::cli::terminal::show::Column;

/// Show figures over time: what was enqueued, completed and failed, and how long jobs waited and ran
#[derive(Debug, Args)]
pub struct Stats {
    /// One queue; without it, all queues
    #[arg(long)]
    queue: Option<String>,
    /// How far back, up to 24h
    #[arg(long, default_value = "1h")]
    window: String,
    /// How long a step is: a multiple of 5s in the last hour, and of 1m beyond it. The table shows 1m or, beyond an
    /// hour, 30m
    #[arg(long)]
    step: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

const COLUMNS: [Column; 9] = [
    ("FROM", "at"),
    ("ENQUEUED", "enqueued"),
    ("COMPLETED", "completed"),
    ("FAILED", "failed_attempts"),
    ("DEAD", "dead"),
    ("PENDING", "pending"),
    ("ACTIVE", "active"),
    ("WAIT p95", "wait"),
    ("RUN p95", "run"),
];

/// Steps of a table: few enough to be read.
const TABLE_STEPS: [&str; 2] = ["1m", "30m"];

impl Stats {
    pub fn run(self) -> anyhow::Result<()> {
        let ask = |step: Option<&str>| {
            let pairs = [("queue", self.queue.as_deref()), ("window", Some(self.window.as_str())), ("step", step)];
            let given = pairs.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", part(value?))));
            self.remote.get(&format!("/stats/series?{}", given.collect::<Vec<_>>().join("&")))
        };
        if self.remote.json() || self.step.is_some() {
            let series = ask(self.step.as_deref())?;
            return if self.remote.json() { show::json(&series) } else { table(&series) };
        }
        // The server says how long the window is, in whichever form it was given.
        let series = ask(None)?;
        let is_long = series["window_ms"].as_u64().is_some_and(|millis| millis > 3_600_000);
        table(&ask(Some(TABLE_STEPS[usize::from(is_long)])).unwrap_or(series))
    }
}

fn table(series: &Value) -> anyhow::Result<()> {
    if series["tracked"] == false {
        show::note("note: not every queue is counted over time; the least active ones are left out");
    }
    let at = series["at"].as_array().cloned().unwrap_or_default();
    if at.is_empty() {
        return show::print("no step has ended yet; figures begin with the server's start");
    }
    let rows: Vec<Value> = at.iter().enumerate().map(|(step, at)| row(series, step, at)).collect();
    show::table(&rows, &COLUMNS)
}

fn row(series: &Value, step: usize, at: &Value) -> Value {
    let of = |name: &str| series[name][step].clone();
    let span = |name: &str| series[name]["p95"][step].as_f64().map(|millis| format!("{millis} ms"));
    json!({
        "at": at,
        "enqueued": of("enqueued"),
        "completed": of("completed"),
        "failed_attempts": of("failed_attempts"),
        "dead": of("dead"),
        "pending": of("pending"),
        "active": of("active"),
        "wait": span("wait_ms"),
        "run": span("run_ms"),
    })
}
