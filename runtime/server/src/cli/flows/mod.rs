//! Commands about jobs that belong together: flows and batches.

pub mod batch;
pub mod flow;

use serde_json::{Value, json};

use crate::cli::client::{Remote, part};
use crate::cli::terminal::show;
use crate::limits;

/// Requests pages of a list until there are no more, or enough, and returns the last one with the rows of all. `path`
/// ends where the query continues.
fn pages(remote: &Remote, path: &str, field: &str, limit: usize) -> anyhow::Result<Value> {
    let (mut rows, mut cursor) = (Vec::new(), String::new());
    loop {
        let left = (limit - rows.len()).clamp(1, limits::PAGE_MOST);
        let mut page = remote.get(&format!("{path}limit={left}{cursor}"))?;
        rows.extend(page[field].as_array_mut().map(std::mem::take).unwrap_or_default());
        rows.truncate(limit);
        if let Some(count) = page["unreadable"]["count"].as_u64() {
            show::note(&format!("{count} could not be read: {}", page["unreadable"]["error"]));
        }
        match page["cursor"].as_str().filter(|_| rows.len() < limit) {
            Some(next) => cursor = format!("&cursor={}", part(next)),
            None => {
                page[field] = json!(rows);
                return Ok(page);
            }
        }
    }
}
