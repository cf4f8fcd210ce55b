//! `windlass run`: runs one job on a component without a server, in the same sandbox, for testing and debugging.
//!
//! Nothing is stored except the file that `--state` names. The flags are the grant; the manifest asks, as on a server.
//! Reading order: `allow` (flags to a manifest and a grant), `terminal` (the guest's output), `state` (its checkpoint
//! from one run to the next).

mod allow;
mod state;
mod terminal;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use windlass_core::quantity::Span;
use windlass_core::{JobId, QueueName, Usage, bounds};
use windlass_executor::{
    Attempt, AttemptEnd, CacheConfig, Cancel, CancelReason, Child, Config, Executor, FolderScope, Host, Outcome,
    Uncommitted,
};
use windlass_store::Clock;

use self::state::StateFile;
use self::terminal::Terminal;
use crate::app::compiler;
use crate::attempt_setup::{AttemptSetup, Surroundings, setup};
use crate::cli::jobs::enqueue;
use crate::cli::jobs::watch as watching;
use crate::cli::terminal::show;
use crate::clock::SystemClock;
use crate::dispatcher::Redactor;
use crate::http::wire::Shown;
use crate::limits;
use crate::shutdown::signalled;

/// Run one job on a component in this process, without a server
///
/// For testing and debugging a handler: its log and progress are shown, and the result is printed at the end. Nothing
/// is stored unless you ask for it with --state. It may use what the flags allow, and nothing else; on a server,
/// `windlass plugin grant` does that.
#[derive(Debug, Args)]
pub struct Run {
    /// The component: a .wasm file, as built by `windlass plugin build`
    component: PathBuf,
    /// The job's payload: JSON, `@FILE` to read a file, or `-` to read standard input [default: {}]
    #[arg(long)]
    payload: Option<String>,
    /// The plugin's windlass.toml, with its queues, limits and config [default: the one beside the component, or beside
    /// the folder `build` it is in]
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,
    /// The queue of the job; a plugin with several handlers uses it to choose one [default: the first in windlass.toml]
    #[arg(long)]
    queue: Option<QueueName>,
    #[command(flatten)]
    allow: allow::AllowFlags,
    /// How long the job may take, such as 30s [default: the limit in windlass.toml]
    #[arg(long, value_name = "SPAN", value_parser = Span::parse)]
    timeout: Option<Span>,
    /// Keep the checkpoint in this file, so that the next run resumes from it. The file is removed when the job
    /// completes
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Text for people, or JSON for programs: one object, when the job has ended
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
}

impl Run {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let component = std::fs::read(&self.component)
            .with_context(|| format!("cannot read the component {}", self.component.display()))?;
        let payload = match &self.payload {
            Some(text) => enqueue::read_json(text)?.to_string(),
            None => "{}".to_owned(),
        };
        let found = manifest_beside(&self.component);
        let asked = allow::read_manifest(self.manifest.as_deref().or(found.as_deref()))?;
        let (manifest, grant, secrets) = self.allow.clone().decide(asked)?;
        // The user who types a path may use it, so there are no grant roots.
        let scope = FolderScope::Anywhere;
        let queue = match self.queue.clone().or_else(|| manifest.queues.first().cloned()) {
            Some(queue) => queue,
            None => name_of(&self.component).parse().unwrap_or_else(|_| "run".parse().expect("a good name")),
        };
        let served: Vec<QueueName> = manifest.queues.iter().chain([&queue]).cloned().collect();
        let secret = |name: &str| secrets.get(name).cloned();
        let (command, max_body) = ("windlass run", limits::BODY);
        let mut setup =
            setup(&manifest, &grant, Surroundings { served: &served, scope, secret: &secret, command, max_body });
        let timeout = self.timeout.map(|Span(timeout)| timeout).or(setup.limits.attempt_timeout);
        setup.limits.attempt_timeout = Some(timeout.unwrap_or(bounds::ATTEMPT_TIMEOUT));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let ended = runtime.block_on(self.attempt(component.into(), payload.into(), queue, setup));
        // Not a normal shutdown, which would wait for a thread that still reads standard input.
        runtime.shutdown_background();
        ended
    }

    async fn attempt(
        &self,
        component: Bytes,
        payload: Bytes,
        queue: QueueName,
        setup: AttemptSetup,
    ) -> anyhow::Result<ExitCode> {
        let json = self.output == Output::Json;
        let state = self.state.as_deref().map(StateFile::open).transpose()?;
        let redactor = Redactor::of(&setup.permissions);
        let clock = SystemClock::start();
        let now = clock.now();
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|error| anyhow::anyhow!("no random numbers: {error}"))?;
        let job = JobId::new(now, u128::from_le_bytes(random));
        let terminal = Arc::new(Terminal::new(json, job, queue.clone(), redactor, state));
        let executor = executor()?;
        let plugin = executor.compile(component).await.with_context(|| format!("{}", self.component.display()))?;
        if let Some(saved) = terminal.saved() {
            let (bytes, schema) = (saved.bytes.len(), saved.schema);
            terminal.say(&format!("continuing from a checkpoint of {bytes} bytes, schema {schema}"));
        }
        let (stop, cancel) = watch::channel(None);
        let attempt = Attempt {
            checkpoint: terminal.saved(),
            attempt: terminal.attempt(),
            max_attempts: terminal.attempt(),
            created_at_ms: now.millis(),
            started_at_ms: now.millis(),
            children_committed: terminal.children_committed(),
            limits: setup.limits,
            permissions: setup.permissions,
            ..Attempt::first(job.to_string(), queue.to_string(), payload, cancel)
        };
        let stopping = stop_on_signals(stop, Arc::clone(&terminal));
        let host = Arc::clone(&terminal) as Arc<dyn Host>;
        let ended = executor.run(&plugin, attempt, host).await;
        stopping.abort();
        self.report(&terminal, ended)
    }

    /// Shows the outcome, and returns the exit status.
    fn report(&self, terminal: &Terminal, ended: AttemptEnd) -> anyhow::Result<ExitCode> {
        let AttemptEnd { outcome, uncommitted: Uncommitted { children, notes }, usage } = ended;
        let fresh = children.len();
        let children: Vec<Child> = terminal.children().into_iter().chain(children).collect();
        terminal.note(notes);
        let mut report = json!({ "usage": shown_usage(&usage) });
        let state = match outcome {
            Outcome::Completed { result } => {
                terminal.completed()?;
                report["result"] = shown(result, terminal);
                "completed"
            }
            Outcome::Waiting(wait) => {
                terminal.waits(wait.state, fresh)?;
                report["waits_for"] = json!({"count": children.len()});
                "blocked"
            }
            Outcome::Failed { error, backtrace, .. } => {
                report["error"] = json!(terminal.clean(error));
                report["backtrace"] = json!(backtrace.map(|text| terminal.clean(text)));
                "dead"
            }
            Outcome::Stopped { reason, error, cooperative } => {
                report["error"] = json!(terminal.clean(error));
                report["cooperative"] = json!(cooperative);
                if reason == CancelReason::Timeout { "dead" } else { "cancelled" }
            }
            Outcome::Interrupted { reason } => bail!("this machine could not run it: {reason}"),
            Outcome::Superseded => bail!("the checkpoint was refused"),
        };
        report["state"] = json!(state);
        report["checkpoint"] = json!(terminal.saved().map(|saved| json!({
            "schema": saved.schema,
            "bytes": saved.bytes.len(),
        })));
        let child = |child: &Child| json!({"queue": child.queue, "payload": shown(child.payload.clone(), terminal)});
        report["children"] = children.iter().map(child).collect();
        report["records"] = terminal.records();
        terminal.finish();
        if self.output == Output::Json {
            show::json(&report)?;
        } else {
            describe(&report)?;
        }
        if state == "blocked" {
            return Ok(ExitCode::SUCCESS);
        }
        watching::exit_code(state).context("a job ends in one of three states")
    }
}

/// The first signal asks the attempt to stop, the second stops it by force.
fn stop_on_signals(stop: watch::Sender<Option<Cancel>>, terminal: Arc<Terminal>) -> JoinHandle<()> {
    let first = signalled();
    tokio::spawn(async move {
        if first.await.is_ok() {
            let grace = limits::CANCEL_GRACE;
            terminal.say(&format!("asked to stop; it is stopped by force after {grace:?}, or on a second signal"));
            stop.send_replace(Some(Cancel::within(CancelReason::User, grace)));
        }
        if signalled().await.is_ok() {
            stop.send_replace(Some(Cancel::within(CancelReason::User, Duration::ZERO)));
        }
        // The attempt ends when the channel closes, so the sender must live as long as this task.
        std::future::pending::<()>().await;
    })
}

/// Prints the outcome for a person: the result on standard output, everything else on standard error. Most of it was
/// written by the guest, so all of it goes through `show`.
fn describe(report: &Value) -> anyhow::Result<()> {
    for child in report["children"].as_array().into_iter().flatten() {
        let queue = child["queue"].as_str().unwrap_or_default();
        show::note(&format!("it starts a job in `{queue}`: {}", child["payload"]));
    }
    for record in report["records"].as_array().into_iter().flatten() {
        let mark = record["mark"].as_str().map(|mark| format!(", marked `{mark}`")).unwrap_or_default();
        let key = record["key"].as_str().unwrap_or_default();
        show::note(&format!("it records `{key}`{mark}: {}", record["value"]));
    }
    if let Some(count) = report["waits_for"]["count"].as_u64() {
        show::note(&format!(
            "it waits here until its {count} children have ended: a server would run them and then continue this job"
        ));
    }
    let usage = &report["usage"];
    show::note(&format!(
        "{}: {} ms, {} ms of processor, {} KiB of memory, {} calls",
        report["state"].as_str().unwrap_or_default(),
        usage["wall_ms"],
        usage["cpu_ms"],
        usage["peak_memory"].as_u64().unwrap_or_default() / 1_024,
        usage["host_calls"],
    ));
    if let Some(error) = report["error"].as_str() {
        show::note(&format!("error: {error}"));
    }
    if let Some(backtrace) = report["backtrace"].as_str() {
        show::note(backtrace);
    }
    if report["result"].is_null() { Ok(()) } else { show::json(&report["result"]) }
}

/// A body as the API shows it, without secrets.
fn shown(bytes: Bytes, terminal: &Terminal) -> Value {
    let text = serde_json::to_string(&Shown(bytes)).unwrap_or_default();
    serde_json::from_str(&terminal.clean(text)).unwrap_or_default()
}

fn shown_usage(usage: &Usage) -> Value {
    json!({
        "cpu_ms": usage.cpu_ms,
        "wall_ms": usage.wall_ms,
        "peak_memory": usage.peak_memory,
        "host_calls": usage.host_calls,
        "log_bytes": usage.log_bytes,
    })
}

/// An executor for one attempt. Compiled code is cached in the user's cache folder, if there is one.
fn executor() -> anyhow::Result<Executor> {
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let folder =
        std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home).map(|cache| cache.join("windlass"));
    let cache =
        folder.map(|folder| CacheConfig { folder: folder.join("compiled"), key_file: folder.join("compiled.key") });
    let with = |cache| Executor::new(Config { instances: 64, compiler: Some(compiler()), cache, ..Config::default() });
    match with(cache) {
        Ok(executor) => Ok(executor),
        // A folder that cannot be written only costs time.
        Err(_) => Ok(with(None)?),
    }
}

/// `windlass plugin build` writes the component of `orders/windlass.toml` into `orders/build`.
fn manifest_beside(component: &Path) -> Option<PathBuf> {
    let component = component.canonicalize().ok()?;
    let folder = component.parent()?;
    let above = folder.parent().filter(|_| folder.ends_with("build"));
    [Some(folder), above].into_iter().flatten().map(|place| place.join("windlass.toml")).find(|path| path.is_file())
}

fn name_of(component: &Path) -> String {
    component.file_stem().map_or_else(|| "run".to_owned(), |stem| stem.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_is_found_beside_the_component_and_beside_the_folder_it_was_built_into() {
        let dir = tempfile::tempdir().expect("a folder");
        let orders = dir.path().canonicalize().expect("it exists").join("orders");
        std::fs::create_dir_all(orders.join("build")).expect("room");
        for place in ["orders.wasm", "build/orders.wasm"] {
            std::fs::write(orders.join(place), "").expect("room");
            assert_eq!(manifest_beside(&orders.join(place)), None);
        }
        let manifest = orders.join("windlass.toml");
        std::fs::write(&manifest, "").expect("room");
        for place in ["orders.wasm", "build/orders.wasm"] {
            assert_eq!(manifest_beside(&orders.join(place)), Some(manifest.clone()), "{place}");
        }
        // The parent of any other folder is not searched.
        std::fs::create_dir(orders.join("other")).expect("room");
        std::fs::write(orders.join("other/orders.wasm"), "").expect("room");
        assert_eq!(manifest_beside(&orders.join("other/orders.wasm")), None);
    }
}
