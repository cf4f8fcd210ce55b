//! `windlass secret`: values that plugins may be granted. They are read from a file or typed in, and never shown.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Subcommand};

use crate::cli::client::{Remote, part};
use crate::cli::jobs::job::print_answer;
use crate::cli::terminal::show::Column;
use crate::cli::terminal::{secret, show};

/// Store secrets that plugins can be granted
#[derive(Debug, Args)]
pub struct Secret {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Store a secret; its value is typed in or read from standard input
    Set {
        /// The secret's name
        name: String,
        /// Read the value from this file, exactly as it is
        #[arg(long, value_name = "FILE")]
        from: Option<PathBuf>,
    },
    /// List the names of all secrets, and which plugins may read them
    List,
    /// Remove a secret
    Remove {
        /// The secret's name
        name: String,
    },
}

const LIST: [Column; 3] = [("NAME", "name"), ("GRANTED TO", "granted_to"), ("UPDATED", "updated_at")];

impl Secret {
    pub fn run(self) -> anyhow::Result<()> {
        let remote = &self.remote;
        match self.action {
            Action::Set { name, from } => {
                let value = match from {
                    Some(file) => std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?,
                    None => {
                        secret::from_input(&format!("the value of {name}"), &format!("windlass secret set {name}"))?
                    }
                };
                print_answer(remote, &remote.put(&format!("/secrets/{}", part(&name)), &value)?)
            }
            Action::List => {
                let all = remote.get("/secrets")?;
                match all["secrets"].as_array().filter(|_| !remote.json()) {
                    Some(rows) => show::table(rows, &LIST),
                    None => show::json(&all),
                }
            }
            Action::Remove { name } => print_answer(remote, &remote.delete(&format!("/secrets/{}", part(&name)))?),
        }
    }
}
