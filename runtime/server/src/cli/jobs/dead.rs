//! `windlass dead`: dead jobs by what they died of.

use clap::Args;
use serde_json::{Value, json};

use crate::cli::client::{Remote, part};
use crate::cli::terminal::show;
use crate::cli::terminal::show::Column;
use crate::limits;

/// Show dead jobs by their errors: `windlass bulk retry --error-fingerprint FINGERPRINT` retries one group
#[derive(Debug, Args)]
pub struct Dead {
    /// Only jobs of this queue
    #[arg(long)]
    queue: Option<String>,
    /// The most groups to show, those with the most jobs first
    #[arg(long, value_name = "N", default_value_t = limits::PAGE)]
    limit: usize,
    #[command(flatten)]
    remote: Remote,
}

const GROUPS: [Column; 6] = [
    ("FINGERPRINT", "fingerprint"),
    ("JOBS", "count"),
    ("LAST", "last_at"),
    ("QUEUES", "queues_shown"),
    ("LATEST JOB", "sample_job_id"),
    ("ERROR", "sample_error"),
];

impl Dead {
    pub fn run(self) -> anyhow::Result<()> {
        let queue = self.queue.as_deref().map_or_else(String::new, |queue| format!("&queue={}", part(queue)));
        let found = self.remote.get(&format!("/dead/groups?limit={}{queue}", self.limit))?;
        if self.remote.json() {
            return show::json(&found);
        }
        let groups = found["groups"].as_array().map_or(&[][..], Vec::as_slice);
        show::table(&groups.iter().map(for_people).collect::<Vec<_>>(), &GROUPS)?;
        let more = found["groups_total"].as_u64().unwrap_or_default().saturating_sub(groups.len() as u64);
        if more > 0 {
            show::note(&format!("{more} smaller groups are not shown; --limit shows more"));
        }
        if found["complete"] == json!(false) {
            let (looked_at, total) = (&found["looked_at"], &found["total"]);
            show::note(&format!("only the latest {looked_at} of {total} dead jobs were looked at; --queue narrows it"));
        }
        Ok(())
    }
}

fn for_people(group: &Value) -> Value {
    let mut shown = group.clone();
    let queues = group["queues"].as_array().map_or(&[][..], Vec::as_slice);
    let names: Vec<&str> = queues.iter().filter_map(|one| one["queue"].as_str()).take(3).collect();
    let more =
        if queues.len() > names.len() { format!(" and {} more", queues.len() - names.len()) } else { String::new() };
    shown["queues_shown"] = json!(names.join(", ") + &more);
    shown
}
