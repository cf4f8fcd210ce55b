//! `windlass bench`: measures a part of Windlass against what the machine could do at best, in the same run.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use windlass_store::bench::{self, Figure, Goal, Setting};

use crate::cli::{bench_guest, bench_http, bench_languages};
use crate::clock::SystemClock;

/// Measure Windlass on this machine, each figure beside the limit it should keep
#[derive(Debug, Args)]
pub struct Bench {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The engine: whole job lifecycles, a backlog of ten million jobs, a single enqueue, an idle server
    Engine(Options),
    /// The sandbox: no-op jobs, durable jobs, sleeping jobs, neighbours of hostile handlers, a new version under load
    Guest(GuestOptions),
    /// Flows: a batch with a callback, and a parent that waits for its children, against the same jobs without them
    Flow(Options),
    /// The server over HTTP: single requests, batches, workers, time to the first instruction, a thousand watchers
    Http(HttpOptions),
    /// Started by `http`: answers every body with itself
    #[command(hide = true)]
    Echo,
    /// Started by `http`: sends what its standard input says
    #[command(hide = true)]
    Load,
    /// Languages: a job that returns at once, written in each language, beside bare wasmtime
    Languages(bench_languages::Languages),
    /// Started by `engine` on a folder of its own, to be killed in the middle
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
    /// A component that tells when it began, from `make plugins`
    #[arg(long, value_name = "FILE", default_value = "target/plugins/hostile.wasm")]
    guest: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
}

impl Bench {
    pub fn run(self) -> anyhow::Result<()> {
        match self.what {
            What::Engine(options) => {
                let figures = bench::run(&setting(&options)?).map_err(anyhow::Error::from_boxed)?;
                show(&figures, options.output)
            }
            What::Guest(GuestOptions { options, guest }) => {
                let setting = bench_guest::Setting { quick: options.quick, dir: options.dir, guest };
                show(&bench_guest::run(&setting)?, options.output)
            }
            What::Flow(options) => {
                let figures = bench::run_flow(&setting(&options)?).map_err(anyhow::Error::from_boxed)?;
                show(&figures, options.output)
            }
            What::Http(HttpOptions { options, guest }) => {
                let setting = bench_http::Setting { quick: options.quick, dir: options.dir, guest };
                show(&bench_http::run(&setting)?, options.output)
            }
            What::Echo => bench_http::peer::run(),
            What::Load => bench_http::load::run(),
            What::Languages(languages) => languages.run(),
            What::Victim { dir, jobs } => {
                let options = Options { quick: false, dir: dir.clone(), output: Output::Text };
                bench::run_victim(&setting(&options)?, &dir, jobs).map_err(anyhow::Error::from_boxed)
            }
        }
    }
}

fn setting(options: &Options) -> anyhow::Result<Setting> {
    let program = std::env::current_exe()?.display().to_string();
    Ok(Setting {
        dir: options.dir.clone(),
        clock: Arc::new(SystemClock::start()),
        quick: options.quick,
        victim: vec![program, "bench".into(), "victim".into()],
        say: Box::new(|line| eprintln!("{line}")),
    })
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
