//! Whether a server would take a component, and what its author should know of it: asked of the executor itself.

use std::path::Path;

use anyhow::Context;
use bytes::Bytes;
use windlass_executor::{CacheConfig, Config, Executor, Plugin};

use super::project::Project;
use super::tools;
use crate::cli::show;

/// Compiles it as a server would, and tells its size and what it will need.
pub fn check(project: &Project, component: &Path) -> anyhow::Result<()> {
    let bytes = std::fs::read(component).with_context(|| format!("cannot read {}", component.display()))?;
    let plugin = compile(bytes.into()).context("no server would take this component")?;
    show::print(&format!("{} ({} bytes)", component.display(), plugin.size()))?;
    for line in needs(project, plugin.imports()) {
        show::print(&line)?;
    }
    Ok(())
}

fn compile(bytes: Bytes) -> anyhow::Result<Plugin> {
    let cache = tools::cache()?;
    // Kept, so that building what has not changed compiles nothing.
    let cache = CacheConfig { folder: cache.join("compiled"), key_file: cache.join("compiled.key") };
    let executor = Executor::new(Config { places: 16, cache: Some(cache), ..Config::default() })?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(executor.compile(bytes))?)
}

/// What it imports that works only with a grant, and whether the manifest asks for it.
fn needs(project: &Project, imports: &[String]) -> Vec<String> {
    let asks = &project.manifest.capabilities;
    let uses = |package: &str| imports.iter().find(|import| import.starts_with(package));
    let mut lines = Vec::new();
    if let Some(import) = uses("wasi:http/") {
        lines.push(need(import, "http", "[\"api.example.com\"]", !asks.http.is_empty()));
    }
    if let Some(import) = uses("windlass:job/secrets") {
        lines.push(need(import, "secrets", "[\"name\"]", !asks.secrets.is_empty()));
    }
    if lines.is_empty() {
        lines.push("it needs no grant to run".to_owned());
    }
    lines
}

fn need(import: &str, field: &str, example: &str, asked: bool) -> String {
    if asked {
        format!("imports {import}: windlass.toml asks for `{field}`, which the operator must grant")
    } else {
        format!("imports {import}: to use it, ask in windlass.toml under [capabilities]: {field} = {example}")
    }
}
