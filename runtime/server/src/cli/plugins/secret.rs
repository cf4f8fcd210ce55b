//! `windlass secret`: values that plugins may be granted. They are read from a file or typed in, and never shown.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

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
    /// Replace the key that encrypts secrets, while everything keeps running
    Rotate {
        /// Drop the older keys that nothing needs any more, instead of adding one
        #[arg(long)]
        drop_old: bool,
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
            Action::Rotate { drop_old } => {
                let answer = remote.post("/secrets/rotate", &json!({"drop_old": drop_old}))?;
                if remote.json() {
                    return show::json(&answer);
                }
                println!("{}", rotated(&answer));
                Ok(())
            }
        }
    }
}

/// What a rotation has done, and what is left to do.
fn rotated(answer: &Value) -> String {
    let mut lines = vec![format!("key {} encrypts; {} encrypted anew", answer["current"], answer["encrypted_anew"])];
    lines.extend(answer["dropped"].as_array().into_iter().flatten().map(|id| format!("key {id} dropped")));
    lines.extend(answer["kept"].as_array().into_iter().flatten().map(|key| {
        let id = &key["id"];
        match key["checkpoints"].as_u64() {
            Some(count) => format!("key {id} stays: {count} encrypted checkpoints need it"),
            None => {
                format!("key {id} stays for now; `windlass secret rotate --drop-old` drops it when nothing needs it")
            }
        }
    }));
    lines.join("\n")
}
