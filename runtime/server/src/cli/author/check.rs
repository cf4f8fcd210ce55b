//! Whether a server would accept a component, and what its author should know about it, determined by the executor
//! itself.

use std::path::Path;

use anyhow::Context;
use bytes::Bytes;
use serde_json::json;
use windlass_executor::{CacheConfig, Config, Executor, Plugin};

use crate::cli::author::project::Project;
use crate::cli::author::tools;
use crate::cli::terminal::show;

/// Compiles it as a server would, and shows its size and what it needs.
pub fn check(json: bool, project: &Project, component: &Path) -> anyhow::Result<()> {
    let bytes = std::fs::read(component).with_context(|| format!("cannot read {}", component.display()))?;
    let plugin = compile(bytes.into()).context("no server would accept this component")?;
    report(json, component, plugin.size() as u64, Some(needs(project, plugin.imports())))
}

/// Shows what was built, and what it needs if that was checked.
pub fn report(json: bool, component: &Path, size: u64, needs: Option<Vec<String>>) -> anyhow::Result<()> {
    if json {
        let checked = needs.is_some();
        let needs = needs.unwrap_or_default();
        return show::json(&json!({
            "component": component.display().to_string(), "size": size, "checked": checked, "needs": needs,
        }));
    }
    let unchecked = if needs.is_some() { "" } else { ", unchecked" };
    show::print(&format!("{} ({size} bytes{unchecked})", component.display()))?;
    match needs.as_deref() {
        Some([]) => show::print("it needs no grant to run"),
        needs => needs.unwrap_or_default().iter().try_for_each(|line| show::print(line)),
    }
}

fn compile(bytes: Bytes) -> anyhow::Result<Plugin> {
    let cache = tools::cache()?;
    // Cached, so that an unchanged component is not compiled again.
    let cache = CacheConfig { folder: cache.join("compiled"), key_file: cache.join("compiled.key") };
    let executor = Executor::new(Config { instances: 16, cache: Some(cache), ..Config::default() })?;
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
    lines
}

fn need(import: &str, field: &str, example: &str, asked: bool) -> String {
    if asked {
        format!("imports {import}: windlass.toml asks for `{field}`, which the operator must grant")
    } else {
        format!("imports {import}: to use it, ask in windlass.toml under [capabilities]: {field} = {example}")
    }
}
