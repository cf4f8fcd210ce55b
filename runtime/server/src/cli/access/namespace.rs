//! `windlass namespace`: tenants that share the server, and how much of it each may use.

use anyhow::bail;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::cli::access::rule;
use crate::cli::client::{Remote, part};
use crate::cli::jobs::job::print_answer;
use crate::cli::terminal::show;
use crate::cli::terminal::show::Column;

/// Create and remove namespaces, and set their quotas
#[derive(Debug, Args)]
pub struct Namespace {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Create a namespace
    Create {
        /// 1 to 32 of the characters a-z 0-9 - _
        name: String,
        #[command(flatten)]
        quotas: QuotaFlags,
    },
    /// List the namespaces, with their quotas and what they use
    List,
    /// Replace the quotas of a namespace; quotas that are not given are removed
    Quotas {
        /// The namespace
        name: String,
        #[command(flatten)]
        quotas: QuotaFlags,
    },
    /// Remove a namespace with everything in it
    Remove {
        /// The namespace
        name: String,
        /// Confirm that its queues, jobs, plugins, schedules, secrets and keys are removed with it
        #[arg(long)]
        confirm: bool,
    },
}

/// How much of the server the namespace may use.
#[derive(Debug, Args)]
struct QuotaFlags {
    /// Jobs that have not ended
    #[arg(long, value_name = "N")]
    open_jobs: Option<u64>,
    /// Queues
    #[arg(long, value_name = "N")]
    queues: Option<u32>,
    /// Bytes of payloads, checkpoints and results
    #[arg(long, value_name = "BYTES")]
    stored_bytes: Option<u64>,
    /// Attempts of plugins that run at once
    #[arg(long, value_name = "N")]
    slots: Option<u32>,
    /// Requests of all its keys together, such as 500/1s
    #[arg(long, value_name = "RATE")]
    requests: Option<String>,
}

const LIST: [Column; 5] = [
    ("NAME", "name"),
    ("OPEN JOBS", "used.open_jobs"),
    ("QUEUES", "used.queues"),
    ("STORED BYTES", "used.stored_bytes"),
    ("CREATED", "created_at"),
];

impl Namespace {
    pub fn run(self) -> anyhow::Result<()> {
        let remote = &self.remote;
        match self.action {
            Action::Create { name, quotas } => {
                let body = json!({ "name": name, "quotas": quotas.body()? });
                print_answer(remote, &remote.post("/namespaces", &body)?)
            }
            Action::List => {
                let all = remote.get("/namespaces")?;
                match all["namespaces"].as_array().filter(|_| !remote.json()) {
                    Some(rows) => show::table(rows, &LIST),
                    None => show::json(&all),
                }
            }
            Action::Quotas { name, quotas } => {
                let body = serde_json::to_vec(&quotas.body()?)?;
                print_answer(remote, &remote.put(&format!("/namespaces/{}/quotas", part(&name)), &body)?)
            }
            Action::Remove { name, confirm } => {
                if !confirm {
                    bail!("everything in namespace {name} would be removed; say --confirm to do so");
                }
                print_answer(remote, &remote.delete(&format!("/namespaces/{}?confirm=true", part(&name)))?)
            }
        }
    }
}

impl QuotaFlags {
    fn body(&self) -> anyhow::Result<Value> {
        let mut body = json!({});
        let numbers = [
            ("open_jobs", self.open_jobs),
            ("queues", self.queues.map(u64::from)),
            ("stored_bytes", self.stored_bytes),
            ("slots", self.slots.map(u64::from)),
        ];
        for (field, number) in numbers {
            if let Some(number) = number {
                body[field] = number.into();
            }
        }
        if let Some(rate) = &self.requests {
            body["requests"] = rule::rate(rate)?;
        }
        Ok(body)
    }
}
