//! `windlass plugin`: uploading handlers and choosing their versions.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::author;
use super::client::{Remote, part};
use super::job::told;
use super::show::{self, Column};

/// Upload handlers and choose their versions
#[derive(Debug, Args)]
pub struct Plugin {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Subcommand)]
enum Action {
    New(author::New),
    Build(author::Build),
    /// Build a plugin's folder and upload it, or upload a component that is there already; make it active
    Push {
        /// A plugin's folder, or with FILE the plugin's name
        #[arg(default_value = ".", value_name = "DIR|NAME")]
        what: String,
        /// The component
        file: Option<PathBuf>,
        /// The queues it serves, separated by commas [default: those it has; for a new one, its own name]
        #[arg(long, requires = "file")]
        queues: Option<String>,
    },
    /// All plugins
    List,
    /// One plugin with its versions
    Show {
        name: String,
    },
    /// Make a stored version the one that new attempts take
    Activate {
        name: String,
        /// The version: its digest, or at least six characters of it
        digest: String,
    },
    /// Go back to the version before the active one
    Rollback {
        name: String,
    },
    /// Remove it; jobs of its queues wait
    Delete {
        name: String,
    },
}

const LIST: [Column; 4] = [("NAME", "name"), ("ACTIVE", "active"), ("QUEUES", "queues"), ("UPDATED", "updated_at")];
const VERSIONS: [Column; 3] = [("VERSION", "version"), ("SIZE", "size"), ("UPLOADED", "uploaded_at")];

impl Plugin {
    pub fn run(self) -> anyhow::Result<()> {
        let remote = &self.remote;
        match self.action {
            Action::New(new) => new.run(),
            Action::Build(build) => build.run(),
            Action::Push { what, file: None, queues: _ } => {
                active(remote, &author::push_folder(remote, Path::new(&what))?)
            }
            Action::Push { what: name, file: Some(file), queues } => {
                let bytes = std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
                let query = queues.map_or_else(String::new, |queues| format!("?queues={}", part(&queues)));
                active(remote, &remote.put(&format!("/plugins/{}{query}", part(&name)), &bytes)?)
            }
            Action::List => {
                let all = remote.get("/plugins")?;
                match all["plugins"].as_array().filter(|_| !remote.json()) {
                    Some(rows) => show::table(rows, &LIST),
                    None => show::json(&all),
                }
            }
            Action::Show { name } => {
                let plugin = remote.get(&format!("/plugins/{}", part(&name)))?;
                if remote.json() {
                    return show::json(&plugin);
                }
                show::fields(&plugin, &[("name", "name"), ("queues", "queues"), ("active", "active")])?;
                show::table(plugin["versions"].as_array().map_or(&[], Vec::as_slice), &VERSIONS)
            }
            Action::Activate { name, digest } => {
                let body = json!({ "version": digest });
                active(remote, &remote.post(&format!("/plugins/{}/activate", part(&name)), &body)?)
            }
            Action::Rollback { name } => {
                active(remote, &remote.post(&format!("/plugins/{}/rollback", part(&name)), &json!({}))?)
            }
            Action::Delete { name } => told(remote, &remote.delete(&format!("/plugins/{}", part(&name)))?),
        }
    }
}

fn active(remote: &Remote, plugin: &Value) -> anyhow::Result<()> {
    if remote.json() {
        return show::json(plugin);
    }
    let queues: Vec<&str> = plugin["queues"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let version = plugin["active"].as_str().unwrap_or_default();
    show::print(&format!("{version} is active and serves {}", queues.join(", ")))
}
