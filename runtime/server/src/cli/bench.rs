//! `windlass bench`: measures a part of Windlass against what the machine could do at best, in the same run.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use windlass_executor::bench as guest;
use windlass_store::bench::{self, Figure, Goal, Setting};

use crate::clock::SystemClock;

/// Measure this machine: figures with the limit they are held against
#[derive(Debug, Args)]
pub struct Bench {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The engine: lifecycles, a backlog of ten million jobs, one enqueue alone, an idle server
    Engine(Options),
    /// What each language costs: the same job that returns at once in every one, beside bare wasmtime
    Languages(Languages),
    /// Started by `engine` on a folder of its own, to be killed in the middle
    #[command(hide = true)]
    Victim { dir: PathBuf, jobs: u64 },
}

#[derive(Debug, Args)]
struct Options {
    /// A smaller version of each figure: a minute in all
    #[arg(long)]
    quick: bool,
    /// Where to make the data folders of the run; they are removed afterwards
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

#[derive(Debug, Args)]
struct Languages {
    /// Components to measure; `make plugins` builds target/plugins/test-LANG.wasm
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// A payload with which they return at once
    #[arg(long, default_value = r#"{"mode":"noop"}"#)]
    payload: String,
    /// Seconds for each language instead of half a minute
    #[arg(long)]
    quick: bool,
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
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
            What::Languages(languages) => languages.run(),
            What::Victim { dir, jobs } => {
                let options = Options { quick: false, dir: dir.clone(), output: Output::Text };
                bench::run_victim(&setting(&options)?, &dir, jobs).map_err(anyhow::Error::from_boxed)
            }
        }
    }
}

impl Languages {
    fn run(self) -> anyhow::Result<()> {
        let mut guests = Vec::new();
        for file in &self.files {
            let stem = file.file_stem().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
            let component = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?.into();
            guests.push(guest::Guest { name: stem.trim_start_matches("test-").to_owned(), component });
        }
        let say = |line: &str| eprintln!("{line}");
        let found = guest::languages(guests, &self.payload.into(), self.quick, &say).map_err(anyhow::Error::from_boxed)?;
        let mut out = std::io::stdout().lock();
        if self.output == Output::Json {
            let languages: Vec<Value> = found.iter().map(language_in_json).collect();
            writeln!(out, "{}", json!({ "languages": languages }))?;
            return Ok(());
        }
        writeln!(
            out,
            "| language | component | compile | cold | warm | reused | bare wasmtime | ratio | memory |\n|---|---|---|---|---|---|---|---|---|"
        )?;
        for each in &found {
            writeln!(
                out,
                "| {} | {} KB | {:.0} ms | {:.1} ms | {:.0} µs | {:.0} µs | {:.0} µs | {:.2}{} | {:.1} MB |",
                each.name,
                each.component_bytes / 1000,
                each.compile_ms,
                each.cold_ms,
                each.warm_us,
                each.reused_us,
                each.bare_us,
                each.ratio(),
                if each.ratio() <= guest::MOST_RATIO { "" } else { " MISSED" },
                each.memory_bytes as f64 / 1e6,
            )?;
        }
        Ok(())
    }
}

fn language_in_json(language: &guest::Language) -> Value {
    json!({
        "name": language.name,
        "component_bytes": language.component_bytes,
        "compile_ms": language.compile_ms,
        "cold_ms": language.cold_ms,
        "warm_us": language.warm_us,
        "reused_us": language.reused_us,
        "bare_us": language.bare_us,
        "ratio": language.ratio(),
        "memory_bytes": language.memory_bytes,
        "holds": language.ratio() <= guest::MOST_RATIO,
    })
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
