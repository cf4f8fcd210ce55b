//! `windlass plugin push` of a folder: builds it, uploads it with its manifest, and makes it active.

use std::path::Path;

use anyhow::Context;
use serde_json::Value;

use crate::cli::author::build::build;
use crate::cli::author::project::Project;
use crate::cli::client::{Remote, part};
use crate::cli::plugins::plugin;

/// Builds and uploads a plugin's folder, and returns the server's response. `queues` replace those of the manifest;
/// `query` has the options of the swap.
pub fn push_folder(remote: &Remote, dir: &Path, queues: Option<&str>, query: &str) -> anyhow::Result<Value> {
    let project = Project::open(dir)?;
    let component = project.component();
    build(&project, &component)?;
    upload(remote, &project, &component, queues, query)
}

pub fn upload(
    remote: &Remote,
    project: &Project,
    component: &Path,
    queues: Option<&str>,
    query: &str,
) -> anyhow::Result<Value> {
    let bytes = std::fs::read(component).with_context(|| format!("cannot read {}", component.display()))?;
    let path = project.folder.join("windlass.toml");
    let manifest = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let own = project.queues().join(",");
    let query = format!("queues={}&{query}", part(queues.unwrap_or(&own)));
    plugin::upload(remote, &project.name, &query, &bytes, Some(&manifest))
}
