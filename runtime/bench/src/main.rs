//! `windlass-bench`: measures a part of Windlass against the best that the machine could do, in the same run.
//!
//! The machine may be busy, so a figure is meaningful only as a ratio to its limit; no test depends on the results.
//! Reading order: `figure` (one result), `engine` (the store alone), `sandbox` (the executor alone), `guest` and `http`
//! (a server in a separate process), `languages`.

mod engine;
mod figure;
mod guest;
mod http;
mod languages;
mod process;
mod processor;
mod sandbox;
mod server;
mod setting;
mod stats;

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use serde_json::{Value, json};

use crate::figure::{Figure, Goal};
use crate::setting::Setting;

/// The server's allocator, so that measurements inside this process match the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measure Windlass on this machine, each figure next to its limit
///
/// `http` and `guest` start the `windlass` in the same folder as this program, or the one that WINDLASS_BIN names.
#[derive(Debug, Parser)]
#[command(name = "windlass-bench", version, arg_required_else_help = true)]
struct Bench {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The engine: whole job lifecycles, a backlog of ten million jobs, a single enqueue, an idle server
    Engine(Options),
    /// The sandbox: no-op jobs, durable jobs, sleeping jobs, jobs next to hostile handlers, a new version under load
    Guest(GuestOptions),
    /// Flows: a batch with a callback, and a parent that waits for its children, against the same jobs without them
    Flow(Options),
    /// The server over HTTP: single and bulk requests, workers, time to the first instruction, a thousand watchers
    Http(HttpOptions),
    /// Started by `http`: returns every body unchanged
    #[command(hide = true)]
    Echo,
    /// Started by `http`: sends what its standard input says
    #[command(hide = true)]
    Load,
    /// Languages: a job that returns immediately, written in each language, compared with bare wasmtime
    Languages(languages::Languages),
    /// Started by `engine` on its own folder, to be killed while it works
    #[command(hide = true)]
    Victim { dir: PathBuf, jobs: u64 },
}

#[derive(Debug, Args)]
struct Options {
    /// Measure less of everything; takes about a minute
    #[arg(long)]
    quick: bool,
    /// Where to create temporary data folders
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Text for people, or JSON for programs
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

#[derive(Debug, Args)]
struct GuestOptions {
    #[command(flatten)]
    options: Options,
    /// The plugin `hostile`, from `make plugins`
    #[arg(long, value_name = "FILE", default_value = "target/plugins/hostile.wasm")]
    guest: PathBuf,
}

#[derive(Debug, Args)]
struct HttpOptions {
    #[command(flatten)]
    options: Options,
    /// A component that returns the time at which it started, from `make plugins`
    #[arg(long, value_name = "FILE", default_value = "target/plugins/hostile.wasm")]
    guest: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
}

impl Options {
    fn setting(&self) -> Setting {
        Setting { quick: self.quick, dir: self.dir.clone() }
    }
}

fn main() -> anyhow::Result<()> {
    match Bench::parse().what {
        What::Engine(options) => show(&engine::run(&options.setting())?, options.output),
        What::Guest(GuestOptions { options, guest }) => show(&guest::run(&options.setting(), &guest)?, options.output),
        What::Flow(options) => show(&engine::run_flow(&options.setting())?, options.output),
        What::Http(HttpOptions { options, guest }) => show(&http::run(&options.setting(), &guest)?, options.output),
        What::Echo => http::peer::run(),
        What::Load => http::load::run(),
        What::Languages(languages) => languages.run(),
        What::Victim { dir, jobs } => engine::run_victim(&dir, jobs),
    }
}

fn show(figures: &[Figure], output: Output) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if output == Output::Json {
        let figures: Vec<Value> = figures.iter().map(in_json).collect();
        writeln!(out, "{}", json!({ "figures": figures }))?;
        return Ok(());
    }
    writeln!(out, "{:<28} {:>12} {:<12} {:>12} {:>8}  goal", "figure", "value", "unit", "limit", "ratio")?;
    for figure in figures {
        let limit = figure.limit.map_or(String::new(), |limit| format!("{limit:.2}"));
        let verdict = if figure.holds() { "holds" } else { "MISSED" };
        writeln!(
            out,
            "{:<28} {:>12.2} {:<12} {:>12} {:>8.3}  {} {}",
            figure.name,
            figure.value,
            figure.unit,
            limit,
            figure.ratio,
            goal(figure.goal),
            verdict
        )?;
    }
    Ok(())
}

fn in_json(figure: &Figure) -> Value {
    json!({
        "name": figure.name,
        "value": figure.value,
        "unit": figure.unit,
        "limit": figure.limit,
        "ratio": figure.ratio,
        "goal": goal(figure.goal),
        "holds": figure.holds(),
    })
}

fn goal(goal: Goal) -> String {
    match goal {
        Goal::AtLeast(least) => format!(">= {least}"),
        Goal::AtMost(most) => format!("<= {most}"),
    }
}
