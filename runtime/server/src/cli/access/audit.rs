//! `windlass audit`: who changed what.

use anyhow::bail;
use clap::Args;

use crate::cli::client::{Remote, part};
use crate::cli::terminal::show;
use crate::cli::terminal::show::Column;
use crate::http::OrderName;

/// Show the audit log: who changed what, when, and from where
#[derive(Debug, Args)]
pub struct Audit {
    /// Only entries after the one with this number
    #[arg(long, default_value_t = 0, value_name = "N")]
    after: u64,
    /// Only entries before the one with this number
    #[arg(long, value_name = "N")]
    before: Option<u64>,
    /// Whether the oldest or the newest come first [default: asc]
    #[arg(long, value_enum)]
    order: Option<OrderName>,
    /// Only what this key did
    #[arg(long, value_name = "KEY-ID")]
    actor: Option<String>,
    /// Only this action, such as plugin.upload, or plugin for all actions on plugins
    #[arg(long)]
    action: Option<String>,
    /// Only what was done to this job, queue, plugin or key
    #[arg(long)]
    target: Option<String>,
    /// Only entries from this time on, such as 2026-11-01T00:00:00Z
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// The most entries to show
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Check that no entry was changed or removed; prints nothing else
    #[arg(long)]
    verify: bool,
    /// Print all entries from --after on as lines of JSON, to keep them elsewhere, and check them on the way
    #[arg(long, conflicts_with_all = ["verify", "before", "order", "actor", "action", "target", "since", "limit"])]
    export: bool,
    #[command(flatten)]
    remote: Remote,
}

const LIST: [Column; 8] = [
    ("SEQ", "seq"),
    ("AT", "at"),
    ("ACTOR", "actor"),
    ("ROLE", "role"),
    ("NAMESPACE", "namespace"),
    ("ACTION", "action"),
    ("TARGET", "target"),
    ("OUTCOME", "outcome"),
];

impl Audit {
    pub fn run(self) -> anyhow::Result<()> {
        if self.verify || self.export {
            return self.check();
        }
        let mut query = format!("/audit-logs?after={}", self.after);
        let newest_first = self.order == Some(OrderName::Desc);
        let filters = [
            ("before", self.before.map(|seq| seq.to_string())),
            ("order", newest_first.then(|| "desc".to_owned())),
            ("actor", self.actor),
            ("action", self.action),
            ("target", self.target),
            ("since", self.since),
            ("limit", self.limit.map(|limit| limit.to_string())),
        ];
        for (name, value) in filters {
            if let Some(value) = value {
                query.push_str(&format!("&{name}={}", part(&value)));
            }
        }
        let page = self.remote.get(&query)?;
        match page["entries"].as_array().filter(|_| !self.remote.json()) {
            Some(rows) => show::table(rows, &LIST)?,
            None => return show::json(&page),
        }
        if let Some(cursor) = page["cursor"].as_u64() {
            let from = if newest_first { "--order desc --before" } else { "--after" };
            show::note(&format!("there are more: windlass audit {from} {cursor}"));
        }
        Ok(())
    }

    /// Goes through the whole log, page by page, and prints it if it is to be exported.
    fn check(self) -> anyhow::Result<()> {
        let (mut after, mut seen) = (self.after, 0);
        loop {
            let page = self.remote.get(&format!("/audit-logs?after={after}&limit=1000&verify=true"))?;
            if let Some(seq) = page["broken_at"].as_u64() {
                bail!("the audit log was changed: entry {seq} is missing, or does not follow from the one before it");
            }
            let entries = page["entries"].as_array().map(Vec::as_slice).unwrap_or_default();
            seen += entries.len();
            if self.export {
                entries.iter().try_for_each(|entry| show::print(&entry.to_string()))?;
            }
            match page["cursor"].as_u64() {
                Some(cursor) => after = cursor,
                None => break,
            }
        }
        let verified = format!("{seen} entries, none changed or missing");
        if self.export {
            show::note(&verified);
            return Ok(());
        }
        show::print(&verified)
    }
}
