//! `windlass flow`: what a job belongs to, drawn in the terminal.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::IsTerminal;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::cli::client::{Remote, part};
use crate::cli::flows::pages;
use crate::cli::terminal::show;
use crate::cli::terminal::show::Column;
use crate::http::wire::FlowKindName;
use crate::limits;

/// Show jobs that belong together: chains, batches, trees, dependencies
#[derive(Debug, Args)]
pub struct Flow {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List batches, chains and trees of jobs, newest first
    List {
        /// Only these
        #[arg(long, value_enum)]
        kind: Option<FlowKindName>,
        /// How many
        #[arg(long, value_name = "N", default_value_t = limits::PAGE)]
        limit: usize,
    },
    /// Draw the flow that a job belongs to
    Show {
        /// The id of a job, a batch or a chain
        id: String,
        /// Draw again whenever something changes, until all the jobs have ended
        #[arg(long)]
        watch: bool,
    },
}

/// How often a watched flow is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

impl Flow {
    pub fn run(self) -> anyhow::Result<()> {
        match self.action {
            Action::List { kind, limit } => list(&self.remote, kind, limit),
            Action::Show { id, watch } => show_one(&self.remote, &id, watch),
        }
    }
}

const LIST: [Column; 8] = [
    ("ID", "id"),
    ("KIND", "kind"),
    ("STATE", "state"),
    ("%", "percent_shown"),
    ("JOBS", "total"),
    ("DEAD", "dead"),
    ("CREATED", "created_at"),
    ("QUEUES", "label"),
];

fn list(remote: &Remote, kind: Option<FlowKindName>, limit: usize) -> anyhow::Result<()> {
    let only = kind.map_or_else(String::new, |kind| format!("kind={}&", json!(kind).as_str().unwrap_or_default()));
    let mut found = pages(remote, &format!("/flows?{only}"), "flows", limit)?;
    if remote.json() {
        return show::json(&found);
    }
    let rows = found["flows"].as_array_mut().map(std::mem::take).unwrap_or_default();
    let shown = rows.into_iter().map(|mut flow| {
        flow["percent_shown"] = json!(flow["percent"].as_f64().unwrap_or_default().floor());
        flow
    });
    show::table(&shown.collect::<Vec<_>>(), &LIST)
}

fn show_one(remote: &Remote, id: &str, watch: bool) -> anyhow::Result<()> {
    let path = format!("/flows/{}", part(id));
    let mut last = Value::Null;
    loop {
        let flow = remote.get(&path)?;
        if flow != last {
            if remote.json() {
                show::json(&flow)?;
            } else {
                if watch && std::io::stdout().is_terminal() {
                    show::clear_screen()?;
                }
                show::print(draw(&flow).trim_end())?;
            }
        }
        if !watch || has_ended(&flow) {
            return Ok(());
        }
        last = flow;
        std::thread::sleep(LOOK_EVERY);
    }
}

fn has_ended(flow: &Value) -> bool {
    let ended = ["completed", "dead", "cancelled", "finished"];
    let nodes = flow["nodes"].as_array().map_or(&[][..], Vec::as_slice);
    nodes.iter().filter(|node| node["kind"] != "more").all(|node| ended.contains(&text(node, "state")))
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// One line per node, after all that lead to it, indented by how deep it stands.
fn draw(flow: &Value) -> String {
    let nodes = flow["nodes"].as_array().map_or(&[][..], Vec::as_slice);
    let edges = flow["edges"].as_array().map_or(&[][..], Vec::as_slice);
    let mut depth: BTreeMap<&str, usize> = nodes.iter().map(|node| (text(node, "id"), 0)).collect();
    for _ in 0..nodes.len() {
        let mut moved = false;
        for edge in edges {
            let above = depth.get(text(edge, "from")).copied().unwrap_or(0);
            if let Some(below) = depth.get_mut(text(edge, "to")).filter(|below| **below <= above && above < nodes.len())
            {
                *below = above + 1;
                moved = true;
            }
        }
        if !moved {
            break;
        }
    }
    let mut lines = BTreeMap::new();
    for (index, node) in nodes.iter().enumerate() {
        let id = text(node, "id");
        let level = depth.get(id).copied().unwrap_or(0);
        let mut line = format!("{}{} ", "    ".repeat(level), mark(text(node, "state")));
        let _ = write!(line, "{}  {}", text(node, "label"), text(node, "state"));
        if node["state"] == "active" || node["kind"] == "batch" {
            let _ = write!(line, " {:.0} %", node["percent"].as_f64().unwrap_or_default());
        }
        if node["kind"] != "more" {
            let _ = write!(line, "  {id}");
        }
        let from = edges.iter().filter(|edge| text(edge, "to") == id).map(|edge| {
            let above = nodes.iter().find(|node| node["id"] == edge["from"]);
            format!("{} {}", text(edge, "kind"), above.map_or("", |above| text(above, "label")))
        });
        let mut from: Vec<String> = from.collect();
        from.dedup();
        if from.len() > 3 {
            let more = from.len() - 3;
            from.truncate(3);
            from.push(format!("{more} more"));
        }
        if !from.is_empty() {
            let _ = write!(line, "  ← {}", from.join(", "));
        }
        lines.insert((level, index), line);
    }
    let mut out: String = lines.into_values().map(|line| line + "\n").collect();
    if flow["truncated"] == true {
        out.push_str("… and more than is shown\n");
    }
    out
}

fn mark(state: &str) -> char {
    match state {
        "completed" | "finished" => '✓',
        "dead" => '✗',
        "cancelled" => '⊘',
        "active" | "running" => '▶',
        "blocked" | "held" => '‖',
        _ => '·',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_stands_below_what_leads_to_it() {
        let flow = json!({
            "nodes": [
                {"id": "b", "kind": "job", "label": "second", "state": "blocked", "percent": 0.0},
                {"id": "a", "kind": "job", "label": "first", "state": "active", "percent": 50.0},
            ],
            "edges": [{"from": "a", "to": "b", "kind": "needs"}],
            "truncated": false,
        });
        assert_eq!(draw(&flow), "▶ first  active 50 %  a\n    ‖ second  blocked  b  ← needs first\n");
        assert!(!has_ended(&flow));
    }
}
