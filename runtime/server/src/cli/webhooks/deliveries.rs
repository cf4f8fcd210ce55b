//! `windlass webhook deliveries`, `test` and `redeliver`: what was sent and what came back.

use anyhow::bail;
use serde_json::Value;

use crate::cli::client::Remote;
use crate::cli::terminal::show;
use crate::cli::terminal::show::Column;
use crate::cli::webhooks::path;

const LIST: [Column; 9] = [
    ("DELIVERY", "id"),
    ("AT", "at"),
    ("TYPE", "type"),
    ("CAUSE", "cause"),
    ("ATTEMPT", "attempt"),
    ("STATUS", "status_code"),
    ("MS", "duration_ms"),
    ("ERROR", "error"),
    ("NEXT ATTEMPT", "next_attempt_at"),
];
const ATTEMPT: [Column; 5] = [
    ("delivery", "id"),
    ("delivered", "delivered"),
    ("status", "status_code"),
    ("ms", "duration_ms"),
    ("response", "response"),
];

pub fn list(remote: &Remote, id: &str) -> anyhow::Result<()> {
    let sent = remote.get(&path(id, "/deliveries"))?;
    match sent.as_array().filter(|_| !remote.json()) {
        Some(rows) => show::table(rows, &LIST),
        None => show::json(&sent),
    }
}

/// What came of one request. The command fails if it did not arrive.
pub fn print_attempt(remote: &Remote, attempt: &Value) -> anyhow::Result<()> {
    if remote.json() {
        show::json(attempt)?
    } else {
        show::fields(attempt, &ATTEMPT)?
    }
    match attempt["error"].as_str() {
        Some(why) => bail!("it was not delivered: {why}"),
        None => Ok(()),
    }
}
