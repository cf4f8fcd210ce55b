//! `windlass plugin push` of a folder: builds it, uploads it with its manifest, and makes it active.

use std::path::Path;

use anyhow::Context;
use serde_json::Value;

use super::build::build;
use super::project::Project;
use crate::cli::client::{Remote, part};

/// Builds and uploads a plugin's folder; gives what the server answers.
pub fn push_folder(remote: &Remote, dir: &Path) -> anyhow::Result<Value> {
    let project = Project::open(dir)?;
    let component = project.component();
    build(&project, &component)?;
    upload(remote, &project, &component)
}

pub fn upload(remote: &Remote, project: &Project, component: &Path) -> anyhow::Result<Value> {
    let bytes = std::fs::read(component).with_context(|| format!("cannot read {}", component.display()))?;
    let queues = part(&project.queues().join(","));
    remote.put(&format!("/plugins/{}?queues={queues}", part(&project.name)), &bytes)
}
