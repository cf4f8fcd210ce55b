//! `windlass usage`: what jobs used.

use clap::Args;
use serde_json::{Value, json};

use crate::cli::client::{Remote, part};
use crate::cli::terminal::show::Column;
use crate::cli::terminal::{show, units};
use crate::limits;

/// Show what jobs that ended lately used: processor time, memory, tokens and cost
#[derive(Debug, Args)]
pub struct Usage {
    /// Jobs that ended in this time until now, such as 24h
    #[arg(long, value_name = "DURATION", default_value = "7d")]
    period: String,
    /// queue, plugin, version, model, namespace, or tag:KEY
    #[arg(long, value_name = "FIELD", default_value = "queue")]
    group_by: String,
    /// How many groups at most, those of the highest cost and then of the most processor time
    #[arg(long, value_name = "N", default_value_t = limits::GROUPS)]
    limit: usize,
    #[command(flatten)]
    remote: Remote,
}

const COLUMNS: [Column; 8] = [
    ("", "name"),
    ("JOBS", "jobs"),
    ("CPU", "cpu"),
    ("RAN", "ran"),
    ("MOST MEMORY", "memory"),
    ("TOKENS IN", "input"),
    ("TOKENS OUT", "output_tokens"),
    ("USD", "cost"),
];

impl Usage {
    pub fn run(self) -> anyhow::Result<()> {
        let (period, by) = (part(&self.period), part(&self.group_by));
        let found = self.remote.get(&format!("/usage/summary?period={period}&group_by={by}&limit={}", self.limit))?;
        if self.remote.json() {
            return show::json(&found);
        }
        let groups = found["groups"].as_array().map_or(&[][..], Vec::as_slice);
        let mut rows: Vec<Value> =
            groups.iter().map(|group| row(group["key"].as_str().unwrap_or("(none)"), group)).collect();
        if found["other"].is_object() {
            rows.push(row("(others)", &found["other"]));
        }
        rows.push(row("(all)", &found["totals"]));
        show::table(&rows, &COLUMNS)?;
        if found["complete"] == json!(false) {
            let looked_at = &found["looked_at"];
            show::note(&format!("only the latest {looked_at} jobs of this time were looked at; --period narrows it"));
        }
        Ok(())
    }
}

fn row(name: &str, used: &Value) -> Value {
    let number = |field: &str| used[field].as_u64().unwrap_or_default();
    let input = number("input_tokens") + number("cache_creation_tokens") + number("cache_read_tokens");
    let mut row = used.clone();
    row["name"] = json!(name);
    row["cpu"] = json!(units::millis(number("cpu_ms")));
    row["ran"] = json!(units::millis(number("wall_ms")));
    row["memory"] = json!(units::bytes(number("peak_memory")));
    row["input"] = json!(input);
    row["cost"] = json!(format!("{:.4}", used["cost_usd"].as_f64().unwrap_or_default()));
    row
}
