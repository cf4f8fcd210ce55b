//! `windlass key`: make, list and revoke API keys.

use clap::{Args, Subcommand};
use serde_json::json;

use crate::cli::client::{Remote, part};
use crate::cli::jobs::job::print_answer;
use crate::cli::terminal::show;
use crate::cli::terminal::show::Column;

/// Create, list and revoke API keys
#[derive(Debug, Args)]
pub struct Key {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Create a key; it is printed once, and only its hash is stored
    Create {
        /// Who or what uses it
        name: String,
        /// What it may do: producer, worker, viewer, operator, deployer or admin
        #[arg(long)]
        role: String,
        /// The namespace it is valid in, or * for all; your own if absent
        #[arg(long = "for-namespace", value_name = "NAMESPACE")]
        for_namespace: Option<String>,
        /// The queues it may use, such as emails.send or emails.*; all if absent
        #[arg(long, value_delimiter = ',')]
        queues: Vec<String>,
        /// How many requests it may make, such as 100/1s
        #[arg(long)]
        rate: Option<String>,
        /// When it expires, such as 2030-01-01T00:00:00Z; never if absent
        #[arg(long, value_name = "TIME")]
        expires_at: Option<String>,
    },
    /// List keys: what they may do, and when they were last used
    List,
    /// Revoke a key; it is refused from now on
    Revoke {
        /// The id of the key, as `windlass key list` shows it
        id: String,
    },
}

const LIST: [Column; 7] = [
    ("ID", "id"),
    ("NAME", "name"),
    ("ROLE", "role"),
    ("NAMESPACE", "namespace"),
    ("QUEUES", "queues"),
    ("EXPIRES", "expires_at"),
    ("LAST USED", "last_used_at"),
];

impl Key {
    pub fn run(self) -> anyhow::Result<()> {
        let remote = &self.remote;
        match self.action {
            Action::Create { name, role, for_namespace, queues, rate, expires_at } => {
                let rate = rate.as_deref().map(super::rule::rate).transpose()?;
                let mut body = json!({ "name": name, "role": role });
                let optional = [
                    ("namespace", for_namespace.map(Into::into)),
                    ("queues", (!queues.is_empty()).then(|| json!(queues))),
                    ("rate", rate),
                    ("expires_at", expires_at.map(Into::into)),
                ];
                for (field, value) in optional {
                    if let Some(value) = value {
                        body[field] = value;
                    }
                }
                let made = remote.post("/auth/keys", &body)?;
                match made["key"].as_str().filter(|_| !remote.json()) {
                    Some(key) => {
                        show::note(&format!("the key {} is shown only now:", made["id"].as_str().unwrap_or_default()));
                        println!("{key}");
                        Ok(())
                    }
                    None => show::json(&made),
                }
            }
            Action::List => {
                let all = remote.get("/auth/keys")?;
                match all["keys"].as_array().filter(|_| !remote.json()) {
                    Some(rows) => show::table(rows, &LIST),
                    None => show::json(&all),
                }
            }
            Action::Revoke { id } => print_answer(remote, &remote.delete(&format!("/auth/keys/{}", part(&id)))?),
        }
    }
}
