//! `windlass count`: how many jobs there are, and how many of each value.

use clap::Args;
use serde_json::json;

use crate::cli::client::Remote;
use crate::cli::jobs::filters::Filters;
use crate::cli::terminal::show;
use crate::cli::terminal::show::Column;
use crate::limits;

/// Count jobs: `windlass count --state dead --group-by queue`
#[derive(Debug, Args)]
pub struct Count {
    /// Count the jobs of each value separately: state, queue, priority, plugin, plugin_version, worker, schedule,
    /// batch, round, limit_key, created_by, or tag:KEY
    #[arg(long, value_name = "FIELD")]
    group_by: Option<String>,
    /// The most values to show, those with the most jobs first
    #[arg(long, value_name = "N", default_value_t = limits::GROUPS)]
    limit: usize,
    #[command(flatten)]
    filters: Filters,
    #[command(flatten)]
    remote: Remote,
}

const GROUPS: [Column; 2] = [("VALUE", "key"), ("JOBS", "count")];

impl Count {
    pub fn run(self) -> anyhow::Result<()> {
        let mut request = json!({ "filter": self.filters.to_json(), "limit": self.limit });
        if let Some(by) = &self.group_by {
            request["group_by"] = json!(by);
        }
        let counted = self.remote.post("/jobs/count", &request)?;
        if self.remote.json() {
            return show::json(&counted);
        }
        if self.group_by.is_none() {
            return show::print(&counted["total"].to_string());
        }
        show::table(counted["groups"].as_array().map_or(&[][..], Vec::as_slice), &GROUPS)?;
        if let Some(other) = counted["other"].as_u64().filter(|other| *other > 0) {
            show::note(&format!("{other} jobs have other values; --limit shows more"));
        }
        Ok(())
    }
}
