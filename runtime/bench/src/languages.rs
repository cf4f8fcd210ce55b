//! `windlass-bench languages`: what a job costs in each language, compared with bare wasmtime in the same run.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use crate::Output;
use crate::sandbox::{Guest, Language, MOST_RATIO, languages};
use anyhow::Context;
use clap::Args;
use serde_json::{Value, json};

#[derive(Debug, Args)]
pub struct Languages {
    /// The components to measure; `make plugins` builds target/plugins/test-LANG.wasm
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// A payload with which each returns immediately
    #[arg(long, default_value = r#"{"mode":"noop"}"#)]
    payload: String,
    /// Take seconds for each language instead of half a minute
    #[arg(long)]
    quick: bool,
    /// Text for people, or JSON for programs
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

impl Languages {
    pub fn run(self) -> anyhow::Result<()> {
        let mut guests = Vec::new();
        for file in &self.files {
            let stem = file.file_stem().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
            let component = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?.into();
            guests.push(Guest { name: stem.trim_start_matches("test-").to_owned(), component });
        }
        let found = languages(guests, &self.payload.into(), self.quick)?;
        let mut out = std::io::stdout().lock();
        if self.output == Output::Json {
            let found: Vec<Value> = found.iter().map(in_json).collect();
            writeln!(out, "{}", json!({ "languages": found }))?;
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
                if each.ratio() <= MOST_RATIO { "" } else { " MISSED" },
                each.memory_bytes as f64 / 1e6,
            )?;
        }
        Ok(())
    }
}

fn in_json(language: &Language) -> Value {
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
        "holds": language.ratio() <= MOST_RATIO,
    })
}
