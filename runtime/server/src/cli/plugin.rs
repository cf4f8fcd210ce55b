//! `windlass plugin`: uploading handlers, choosing their versions, and saying what they may do.

use std::path::{Path, PathBuf};

use anyhow::Context;
use base64::Engine;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use super::author;
use super::client::{Remote, part};
use super::grant::{GrantMore, Revoke, without_nothing};
use super::job::told;
use super::show::{self, Column};

/// Upload handlers, choose their versions, say what they may do
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
    #[command(hide = true)]
    Slim(author::Slim),
    /// Build a plugin's folder and upload it, or upload a component that is there already; make it active
    Push {
        /// A plugin's folder, or with FILE the plugin's name
        #[arg(default_value = ".", value_name = "DIR|NAME")]
        what: String,
        /// The component
        file: Option<PathBuf>,
        /// The queues it serves, separated by commas [default: what the manifest says, or those it has]
        #[arg(long, requires = "file")]
        queues: Option<String>,
        /// What it serves, needs and asks for: a windlass.toml [default: the folder's, or that of the active version]
        #[arg(long, value_name = "FILE", requires = "file")]
        manifest: Option<PathBuf>,
        /// Only store it; `activate` or `canary` choose it later
        #[arg(long)]
        no_activate: bool,
        #[command(flatten)]
        swap: Swap,
    },
    /// All plugins
    List,
    /// One plugin: its versions, what it asks for and what it is granted
    Show {
        name: String,
    },
    /// Make a stored version the one that new attempts take
    Activate {
        name: String,
        /// The version: its digest, or at least six characters of it
        digest: String,
        #[command(flatten)]
        swap: Swap,
    },
    /// Go back to the version before the active one
    Rollback {
        name: String,
        #[command(flatten)]
        swap: Swap,
    },
    /// Try a version on a share of the attempts; it is taken back by itself when too many fail
    Canary {
        name: String,
        /// The version: its digest, or at least six characters of it
        #[arg(required_unless_present_any = ["promote", "stop"])]
        digest: Option<String>,
        /// How many of a hundred new attempts it gets
        #[arg(long, default_value_t = 10)]
        share: u32,
        /// It is taken back when more of its attempts fail
        #[arg(long, default_value_t = 0.2)]
        max_failure_rate: f64,
        /// A rate says nothing before so many attempts have ended
        #[arg(long, default_value_t = 20)]
        min_attempts: u32,
        /// Make it active after so many ended attempts within the rate
        #[arg(long, value_name = "N")]
        promote_after: Option<u32>,
        /// Make the canary active now
        #[arg(long, conflicts_with_all = ["digest", "stop"])]
        promote: bool,
        /// End the trial: nothing more starts on it
        #[arg(long, conflicts_with = "digest")]
        stop: bool,
    },
    /// Replace the manifest of a version
    Manifest {
        name: String,
        /// A windlass.toml
        file: PathBuf,
        /// Which version [default: the active one]
        #[arg(long, value_name = "DIGEST")]
        of: Option<String>,
    },
    Grant(GrantMore),
    Revoke(Revoke),
    /// Remove it, or one version of it; jobs of its queues wait
    Delete {
        name: String,
        /// Only this version
        #[arg(long, value_name = "DIGEST")]
        of: Option<String>,
        /// Also while it is in use: attempts are stopped and their jobs go back in line
        #[arg(long)]
        force: bool,
    },
}

/// What becomes of running attempts when another version takes over.
#[derive(Debug, Args)]
struct Swap {
    /// What becomes of running attempts
    #[arg(long, value_enum, default_value = "drain")]
    swap: How,
    /// How long --swap checkpoint waits for one [default: 60s]
    #[arg(long, value_name = "SPAN")]
    deadline: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum How {
    /// They finish on their version
    Drain,
    /// They are handed over at their next checkpoint
    Checkpoint,
    /// They are stopped and start again
    Now,
}

impl Swap {
    fn word(&self) -> &'static str {
        match self.swap {
            How::Drain => "drain",
            How::Checkpoint => "checkpoint",
            How::Now => "now",
        }
    }

    fn body(&self, mut body: Value) -> Value {
        body["swap"] = json!(self.word());
        if let Some(deadline) = &self.deadline {
            body["deadline"] = json!(deadline);
        }
        body
    }

    fn query(&self) -> String {
        let deadline = self.deadline.as_ref().map(|deadline| format!("&deadline={}", part(deadline)));
        format!("swap={}{}", self.word(), deadline.unwrap_or_default())
    }
}

const LIST: [Column; 4] = [("NAME", "name"), ("ACTIVE", "active"), ("QUEUES", "queues"), ("UPDATED", "updated_at")];
const VERSIONS: [Column; 5] = [
    ("VERSION", "version"),
    ("SIZE", "size"),
    ("RUNNING", "running"),
    ("UPLOADED", "uploaded_at"),
    ("BY", "uploaded_by"),
];
const HISTORY: [Column; 4] = [("AT", "at"), ("WHAT", "type"), ("VERSION", "version"), ("", "detail")];

impl Plugin {
    pub fn run(self) -> anyhow::Result<()> {
        let remote = &self.remote;
        let post = |name: &str, what: &str, body: &Value| remote.post(&format!("/plugins/{}/{what}", part(name)), body);
        match self.action {
            Action::New(new) => new.run(self.remote.json()),
            Action::Build(build) => build.run(self.remote.json()),
            Action::Slim(slim) => slim.run(),
            Action::Push { what, file: None, no_activate, swap, .. } => {
                let query = format!("{}&activate={}", swap.query(), !no_activate);
                active(remote, &author::push_folder(remote, Path::new(&what), &query)?)
            }
            Action::Push { what: name, file: Some(file), queues, manifest, no_activate, swap } => {
                let bytes = read(&file)?;
                let manifest = manifest.as_ref().map(read).transpose()?;
                let queues = queues.map_or_else(String::new, |queues| format!("&queues={}", part(&queues)));
                let query = format!("{}&activate={}{queues}", swap.query(), !no_activate);
                active(remote, &upload(remote, &name, &query, &bytes, manifest.as_deref())?)
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
                if remote.json() { show::json(&plugin) } else { describe(&plugin) }
            }
            Action::Activate { name, digest, swap } => {
                active(remote, &post(&name, "activate", &swap.body(json!({ "version": digest })))?)
            }
            Action::Rollback { name, swap } => active(remote, &post(&name, "rollback", &swap.body(json!({})))?),
            Action::Canary { name, promote: true, .. } => active(remote, &post(&name, "canary/promote", &json!({}))?),
            Action::Canary { name, stop: true, .. } => {
                active(remote, &remote.delete(&format!("/plugins/{}/canary", part(&name)))?)
            }
            Action::Canary { name, digest, share, max_failure_rate, min_attempts, promote_after, .. } => {
                let body = json!({
                    "version": digest, "share": share, "max_failure_rate": max_failure_rate,
                    "min_attempts": min_attempts, "promote_after": promote_after,
                });
                active(remote, &post(&name, "canary", &body)?)
            }
            Action::Manifest { name, file, of } => {
                let query = of.map_or_else(String::new, |of| format!("?version={}", part(&of)));
                active(remote, &remote.put(&format!("/plugins/{}/manifest{query}", part(&name)), &read(&file)?)?)
            }
            Action::Grant(grant) => grant.run(remote),
            Action::Revoke(revoke) => revoke.run(remote),
            Action::Delete { name, of: None, force } => {
                told(remote, &remote.delete(&format!("/plugins/{}?force={force}", part(&name)))?)
            }
            Action::Delete { name, of: Some(version), force } => {
                let path = format!("/plugins/{}/versions/{}?force={force}", part(&name), part(&version));
                active(remote, &remote.delete(&path)?)
            }
        }
    }
}

/// Sends a component, with its manifest where there is one.
pub fn upload(
    remote: &Remote,
    name: &str,
    query: &str,
    component: &[u8],
    manifest: Option<&[u8]>,
) -> anyhow::Result<Value> {
    let mut headers = vec![("Windlass-By", by())];
    headers.extend(manifest.map(|text| ("Windlass-Manifest", base64::engine::general_purpose::STANDARD.encode(text))));
    remote.put_with(&format!("/plugins/{}?{query}", part(name)), &headers, component)
}

/// Who runs this command, as far as the environment tells.
fn by() -> String {
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_else(|_| "somebody".to_owned());
    let host = std::fs::read_to_string("/etc/hostname").unwrap_or_default();
    let plain = |text: &str| text.chars().filter(|c| c.is_ascii_graphic()).collect::<String>();
    match plain(&host) {
        host if host.is_empty() => plain(&user),
        host => format!("{}@{host}", plain(&user)),
    }
}

fn read(file: &PathBuf) -> anyhow::Result<Vec<u8>> {
    std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))
}

/// A plugin for people.
fn describe(plugin: &Value) -> anyhow::Result<()> {
    show::fields(plugin, &[("name", "name"), ("queues", "queues"), ("active", "active"), ("running", "running")])?;
    if let Some(canary) = plugin["canary"].as_object() {
        let of = |field: &str| canary.get(field).map(Value::to_string).unwrap_or_default();
        show::print(&format!(
            "canary   {} gets {} of 100; {} of {} ended attempts failed, and at most {} may",
            canary["version"].as_str().unwrap_or_default(),
            of("share"),
            of("failed"),
            of("ended"),
            of("max_failure_rate")
        ))?;
    }
    let list = |field: &str| plugin[field].as_array().map_or(&[][..], Vec::as_slice);
    let is_active = |version: &&Value| version["version"] == plugin["active"];
    let asked = list("versions").iter().find(is_active).map(|version| without_nothing(version["manifest"].clone()));
    show::print(&format!("\nasked    {:#}", asked.unwrap_or(json!({}))))?;
    show::print(&format!("granted  {:#}", without_nothing(plugin["grant"].clone())))?;
    for denied in list("denied") {
        show::print(&format!("denied   {}", denied.as_str().unwrap_or_default()))?;
    }
    show::print("")?;
    show::table(list("versions"), &VERSIONS)?;
    show::print("")?;
    show::table(list("history"), &HISTORY)
}

fn active(remote: &Remote, plugin: &Value) -> anyhow::Result<()> {
    if remote.json() {
        return show::json(plugin);
    }
    let queues: Vec<&str> = plugin["queues"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    match plugin["active"].as_str() {
        Some(version) => show::print(&format!("{version} is active and serves {}", queues.join(", ")))?,
        None => show::print("no version is active")?,
    }
    if let Some(version) = plugin["version"].as_str().filter(|version| plugin["active"] != *version) {
        show::print(&format!("{version} is stored"))?;
    }
    if let Some(version) = plugin["canary"]["version"].as_str() {
        show::print(&format!("{version} is the canary, for {} of 100 attempts", plugin["canary"]["share"]))?;
    }
    for denied in plugin["denied"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        show::print(&format!("denied: {denied}"))?;
    }
    Ok(())
}
