//! `windlass plugin`: uploading handlers, choosing their versions, and granting permissions.

use std::path::{Path, PathBuf};

use anyhow::Context;
use base64::Engine;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use crate::cli::author;
use crate::cli::client::{Remote, part};
use crate::cli::jobs::job::print_answer;
use crate::cli::plugins::grant::{GrantMore, Revoke, without_empty};
use crate::cli::terminal::show;
use crate::cli::terminal::show::Column;

/// Create, build and upload plugins, choose their versions, grant permissions
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
    Strip(author::Strip),
    Push(Push),
    /// List all plugins
    List,
    /// Show one plugin: its versions, what it asks for, what it is granted, and its history
    Show(Which),
    /// Make a stored version the active one
    Activate {
        #[command(flatten)]
        plugin: Which,
        /// The version: its digest, or at least the first six characters of it
        digest: String,
        #[command(flatten)]
        swap: Swap,
    },
    /// Roll back to the version that was uploaded before the active one
    Rollback {
        #[command(flatten)]
        plugin: Which,
        #[command(flatten)]
        swap: Swap,
    },
    Canary(Canary),
    /// Replace the manifest of a version
    Manifest {
        #[command(flatten)]
        plugin: Which,
        /// The new manifest, a windlass.toml
        file: PathBuf,
        /// Which version [default: the active one]
        #[arg(long, value_name = "DIGEST")]
        of: Option<String>,
    },
    Grant(GrantMore),
    Revoke(Revoke),
    /// Delete a plugin or one of its versions; jobs in its queues wait
    Delete {
        #[command(flatten)]
        plugin: Which,
        /// Delete only this version
        #[arg(long, value_name = "DIGEST")]
        of: Option<String>,
        /// Delete it even if attempts are running; they are stopped, and their jobs become pending again
        #[arg(long)]
        force: bool,
    },
}

/// Build a plugin's folder, upload it and make it active; or upload a component that is already built
#[derive(Debug, Args)]
struct Push {
    /// The plugin's folder; if FILE is given, the plugin's name
    #[arg(default_value = ".", value_name = "DIR|NAME")]
    what: String,
    /// A component: a .wasm file
    file: Option<PathBuf>,
    /// The queues it serves, separated by commas [default: those of the manifest]
    #[arg(long)]
    queues: Option<String>,
    /// Its manifest, a windlass.toml [default: the folder's, or that of the active version]
    #[arg(long, value_name = "FILE", requires = "file")]
    manifest: Option<PathBuf>,
    /// Store it without making it active; `plugin activate` or `plugin canary` can do that later
    #[arg(long)]
    no_activate: bool,
    #[command(flatten)]
    swap: Swap,
}

/// Try a version on a share of new attempts; it is rolled back if too many of them fail
#[derive(Debug, Args)]
struct Canary {
    #[command(flatten)]
    plugin: Which,
    /// The version: its digest, or at least the first six characters of it
    #[arg(required_unless_present_any = ["promote", "stop"])]
    digest: Option<String>,
    /// The percentage of new attempts it gets
    #[arg(long, value_name = "PERCENT", default_value_t = 10)]
    share: u32,
    /// Roll it back when more than this share of its attempts has failed, from 0 to 1
    #[arg(long, value_name = "PART", default_value_t = 0.2)]
    max_failure_rate: f64,
    /// Judge the failure rate only once this many attempts have ended, so that one early failure does not end the trial
    #[arg(long, value_name = "N", default_value_t = 20)]
    min_attempts: u32,
    /// Make it active once this many attempts have ended within the failure rate
    #[arg(long, value_name = "N")]
    promote_after: Option<u32>,
    /// Make the canary active now
    #[arg(long, conflicts_with_all = ["digest", "stop"])]
    promote: bool,
    /// End the trial; no more attempts start on it
    #[arg(long, conflicts_with = "digest")]
    stop: bool,
}

#[derive(Debug, Args)]
struct Which {
    /// The plugin's name
    name: String,
}

/// What happens to running attempts when another version becomes active.
#[derive(Debug, Args)]
struct Swap {
    /// What happens to running attempts of the old version
    #[arg(long, value_enum, default_value = "drain")]
    swap: How,
    /// How long `--swap checkpoint` waits for a checkpoint [default: 60s]
    #[arg(long, value_name = "DURATION")]
    deadline: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum How {
    /// They finish on the old version
    Drain,
    /// They move to the new version at their next checkpoint
    Checkpoint,
    /// They are stopped, and start again on the new version from their last checkpoint
    Now,
}

impl Swap {
    fn as_str(&self) -> &'static str {
        match self.swap {
            How::Drain => "drain",
            How::Checkpoint => "checkpoint",
            How::Now => "now",
        }
    }

    fn body(&self, mut body: Value) -> Value {
        body["swap"] = json!(self.as_str());
        if let Some(deadline) = &self.deadline {
            body["deadline"] = json!(deadline);
        }
        body
    }

    fn query(&self) -> String {
        let deadline = self.deadline.as_ref().map(|deadline| format!("&deadline={}", part(deadline)));
        format!("swap={}{}", self.as_str(), deadline.unwrap_or_default())
    }
}

/// How much of a digest is shown where it is to be typed again.
const SHORT: usize = 12;
const LIST: [Column; 5] =
    [("NAME", "name"), ("READY", "ready"), ("ACTIVE", "active"), ("QUEUES", "queues"), ("UPDATED", "updated_at")];
const VERSIONS: [Column; 7] = [
    ("VERSION", "version"),
    ("STATUS", "status"),
    ("SIZE", "size"),
    ("RUNNING", "running"),
    ("UPLOADED", "uploaded_at"),
    ("BY", "created_by"),
    ("LABEL", "uploaded_by"),
];
const HISTORY: [Column; 4] = [("AT", "at"), ("WHAT", "type"), ("VERSION", "version"), ("", "detail")];

impl Plugin {
    pub fn run(self) -> anyhow::Result<()> {
        let remote = &self.remote;
        match self.action {
            Action::New(new) => new.run(remote.json()),
            Action::Build(build) => build.run(remote.json()),
            Action::Strip(strip) => strip.run(),
            Action::Push(push) => push.run(remote),
            Action::List => list(remote),
            Action::Show(Which { name }) => {
                let plugin = remote.get(&format!("/plugins/{}", part(&name)))?;
                if remote.json() { show::json(&plugin) } else { describe(&plugin) }
            }
            Action::Activate { plugin, digest, swap } => {
                active(remote, &plugin.post(remote, "activate", &swap.body(json!({ "version": digest })))?)
            }
            Action::Rollback { plugin, swap } => {
                active(remote, &plugin.post(remote, "rollback", &swap.body(json!({})))?)
            }
            Action::Canary(canary) => canary.run(remote),
            Action::Manifest { plugin: Which { name }, file, of } => {
                let query = of.map_or_else(String::new, |of| format!("?version={}", part(&of)));
                active(remote, &remote.put(&format!("/plugins/{}/manifest{query}", part(&name)), &read(&file)?)?)
            }
            Action::Grant(grant) => grant.run(remote),
            Action::Revoke(revoke) => revoke.run(remote),
            Action::Delete { plugin: Which { name }, of: None, force } => {
                print_answer(remote, &remote.delete(&format!("/plugins/{}?force={force}", part(&name)))?)
            }
            Action::Delete { plugin: Which { name }, of: Some(version), force } => {
                let path = format!("/plugins/{}/versions/{}?force={force}", part(&name), part(&version));
                active(remote, &remote.delete(&path)?)
            }
        }
    }
}

impl Which {
    fn post(&self, remote: &Remote, what: &str, body: &Value) -> anyhow::Result<Value> {
        remote.post(&format!("/plugins/{}/{what}", part(&self.name)), body)
    }
}

impl Push {
    fn run(self, remote: &Remote) -> anyhow::Result<()> {
        let Push { what, file, queues, manifest, no_activate, swap } = self;
        let query = format!("{}&activate={}", swap.query(), !no_activate);
        let Some(file) = file else {
            return stored(remote, &author::push_folder(remote, Path::new(&what), queues.as_deref(), &query)?);
        };
        let bytes = read(&file)?;
        let manifest = manifest.as_ref().map(read).transpose()?;
        let queues = queues.map_or_else(String::new, |queues| format!("&queues={}", part(&queues)));
        stored(remote, &upload(remote, &what, &format!("{query}{queues}"), &bytes, manifest.as_deref())?)
    }
}

impl Canary {
    fn run(self, remote: &Remote) -> anyhow::Result<()> {
        let answer = if self.promote {
            self.plugin.post(remote, "canary/promote", &json!({}))?
        } else if self.stop {
            remote.delete(&format!("/plugins/{}/canary", part(&self.plugin.name)))?
        } else {
            let body = json!({
                "version": self.digest, "share": self.share, "max_failure_rate": self.max_failure_rate,
                "min_attempts": self.min_attempts, "promote_after": self.promote_after,
            });
            self.plugin.post(remote, "canary", &body)?
        };
        active(remote, &answer)
    }
}

fn list(remote: &Remote) -> anyhow::Result<()> {
    let all = remote.get("/plugins")?;
    match all["plugins"].as_array().filter(|_| !remote.json()) {
        Some(rows) => {
            show::table(rows, &LIST)?;
            not_ready(rows)
        }
        None => show::json(&all),
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
    upload_by(remote, name, query, component, manifest, by())
}

/// The same, with another name for the uploader.
pub fn upload_by(
    remote: &Remote,
    name: &str,
    query: &str,
    component: &[u8],
    manifest: Option<&[u8]>,
    by: String,
) -> anyhow::Result<Value> {
    let mut headers = vec![("Windlass-By", by)];
    headers.extend(manifest.map(|text| ("Windlass-Manifest", base64::engine::general_purpose::STANDARD.encode(text))));
    remote.put_with(&format!("/plugins/{}?{query}", part(name)), &headers, component)
}

/// Who runs this command, according to the environment.
pub fn by() -> String {
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_else(|_| "unknown".to_owned());
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

/// Prints why the jobs of some plugins wait, a line for each.
pub fn not_ready(plugins: &[Value]) -> anyhow::Result<()> {
    for plugin in plugins.iter().filter(|plugin| plugin["ready"] == false) {
        let text = |field: &str| plugin[field].as_str().unwrap_or_default();
        show::print(&format!("{} is not ready, and its jobs wait: {}", text("name"), text("problem")))?;
    }
    Ok(())
}

/// Prints a plugin as text.
fn describe(plugin: &Value) -> anyhow::Result<()> {
    show::fields(
        plugin,
        &[
            ("name", "name"),
            ("ready", "ready"),
            ("queues", "queues"),
            ("active", "active"),
            ("running", "running"),
            ("problem", "problem"),
        ],
    )?;
    if let Some(canary) = plugin["canary"].as_object() {
        let of = |field: &str| canary.get(field).map(Value::to_string).unwrap_or_default();
        show::print(&format!(
            "canary   {} gets {} % of new attempts; {} of {} have failed, and it is rolled back above a rate of {}",
            canary["version"].as_str().unwrap_or_default(),
            of("share"),
            of("failed"),
            of("ended"),
            of("max_failure_rate")
        ))?;
    }
    let list = |field: &str| plugin[field].as_array().map_or(&[][..], Vec::as_slice);
    let versions: Vec<Value> = list("versions").iter().map(|version| with_status(plugin, version)).collect();
    let is_active = |version: &&Value| version["version"] == plugin["active"];
    let asked = list("versions").iter().find(is_active).map(|version| without_empty(version["manifest"].clone()));
    show::print(&format!("\nasked    {:#}", asked.unwrap_or(json!({}))))?;
    let by = plugin["grant_created_by"].as_str().map_or_else(String::new, |by| format!(" (by {by})"));
    show::print(&format!("granted  {:#}{by}", without_empty(plugin["grant"].clone())))?;
    for denied in list("denied") {
        show::print(&format!("denied   {}", denied.as_str().unwrap_or_default()))?;
    }
    show::print("")?;
    show::table(&versions, &VERSIONS)?;
    show::print("")?;
    show::table(list("history"), &HISTORY)
}

/// A row of the table of versions: whether it is the active one or the canary, and whether it can run.
fn with_status(plugin: &Value, version: &Value) -> Value {
    let mut row = version.clone();
    let digest = &version["version"];
    let choice = if *digest == plugin["active"] {
        Some("active".to_owned())
    } else if *digest == plugin["canary"]["version"] {
        Some(format!("canary, {} %", plugin["canary"]["share"]))
    } else {
        None
    };
    let problem = version["problem"].is_string().then(|| "cannot run".to_owned());
    row["status"] = json!(choice.into_iter().chain(problem).collect::<Vec<_>>().join(", "));
    row
}

/// Prints the result of an upload. The digest is first, because the next command needs it.
fn stored(remote: &Remote, plugin: &Value) -> anyhow::Result<()> {
    let (name, version) = (plugin["name"].as_str().unwrap_or_default(), plugin["version"].as_str().unwrap_or_default());
    if remote.json() || plugin["active"] == version {
        return active(remote, plugin);
    }
    show::print(&format!("{version} is stored, and not active"))?;
    let short: String = version.chars().take(SHORT).collect();
    show::note(&format!(
        "to make it active:         {}\nto try it on some jobs:    {}",
        remote.command(&format!("plugin activate {name} {short}")),
        remote.command(&format!("plugin canary {name} {short} --share 10")),
    ));
    active(remote, plugin)
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
    if let Some(version) = plugin["canary"]["version"].as_str() {
        show::print(&format!("{version} is the canary, with {} % of new attempts", plugin["canary"]["share"]))?;
    }
    for denied in plugin["denied"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        show::print(&format!("denied: {denied}"))?;
    }
    Ok(())
}
