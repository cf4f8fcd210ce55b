//! From a save to the active version: built or assembled, uploaded, activated and reported.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use serde_json::Value;

use crate::cli::author::build::build;
use crate::cli::author::dev::keys::{restored, say};
use crate::cli::author::dev::prepared;
use crate::cli::author::project::Project;
use crate::cli::client::{Remote, part};
use crate::cli::plugins::plugin;

/// Appended to the uploader's name, so that versions of `windlass dev` can be distinguished from others.
const MARK: &str = ", windlass dev";
/// How many versions of `windlass dev` a plugin keeps besides the active one.
const KEPT: usize = 5;

pub struct Swapper {
    remote: Arc<Remote>,
    folder: PathBuf,
    full_build: bool,
    check: bool,
    /// The versions that were active since the command started, and the active one.
    seen: HashSet<String>,
    active: Option<String>,
    /// Whether the active version is a runtime with sources, not a build.
    prepared: bool,
}

impl Swapper {
    /// Asks the server for its versions, and fails if it cannot be reached.
    pub fn new(remote: &Arc<Remote>, project: &Project, full_build: bool, check: bool) -> anyhow::Result<Swapper> {
        let known = remote.get("/plugins")?;
        let ours = known["plugins"].as_array().into_iter().flatten().find(|plugin| plugin["name"] == *project.name);
        let active = ours.and_then(|plugin| plugin["active"].as_str()).map(str::to_owned);
        Ok(Swapper {
            remote: Arc::clone(remote),
            folder: project.folder.clone(),
            full_build,
            check,
            seen: active.iter().cloned().collect(),
            active,
            prepared: false,
        })
    }

    /// Activates the folder's contents, and returns whether that succeeded. An error is shown, and the previous version
    /// stays active.
    pub fn swap(&mut self) -> bool {
        match self.try_swap() {
            Ok(answer) => {
                let version = answer["active"].as_str().unwrap_or_default().to_owned();
                say(&self.sentence(&version, answer["new_version"] == true));
                self.active = Some(version.clone());
                self.seen.insert(version);
                true
            }
            Err(error) => {
                say(&format!("{error:#}\nthe version on the server stays active"));
                false
            }
        }
    }

    fn try_swap(&mut self) -> anyhow::Result<Value> {
        let project = Project::open(&self.folder)?;
        self.prepared = !self.full_build && prepared::is_prepared(project.lang);
        let (component, manifest) = if self.prepared {
            (restored(|| prepared::component(&project, self.check))?, prepared::manifest(&project))
        } else {
            let path = project.component();
            restored(|| build(&project, &path))?;
            let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            (bytes, project.manifest.clone())
        };
        let query = format!("queues={}&swap=drain", part(&project.queues().join(",")));
        let manifest = serde_json::to_vec(&manifest)?;
        let by = format!("{}{MARK}", plugin::by());
        let answer = plugin::upload_by(&self.remote, &project.name, &query, &component, Some(&manifest), by)?;
        self.remove_old(&project, &answer);
        Ok(answer)
    }

    /// What happened to the active version.
    fn sentence(&self, version: &str, new: bool) -> String {
        let short = &version[..version.len().min(12)];
        if self.active.as_deref() == Some(version) {
            format!("version {short} is already active: nothing has changed")
        } else if !new || self.seen.contains(version) {
            format!("version {short}, which the server had before, is active again")
        } else {
            format!("version {short} is active")
        }
    }

    /// A plugin has a limited number of versions, and each uses disk space, so the oldest versions of `windlass dev`
    /// are removed.
    fn remove_old(&self, project: &Project, answer: &Value) {
        let idle = |version: &&Value| {
            let ours = version["uploaded_by"].as_str().is_some_and(|by| by.ends_with(MARK));
            let used = [&answer["active"], &answer["canary"]["version"]].contains(&&version["version"]);
            ours && !used && version["running"] == 0
        };
        let idle: Vec<&Value> = answer["versions"].as_array().into_iter().flatten().filter(idle).collect();
        for version in &idle[..idle.len().saturating_sub(KEPT)] {
            let version = part(version["version"].as_str().unwrap_or_default());
            // It may be in use by now; then it stays.
            let _ = self.remote.delete(&format!("/plugins/{}/versions/{version}", part(&project.name)));
        }
    }

    /// Says which version stays on the server.
    pub fn farewell(&self) {
        if self.prepared && self.active.is_some() {
            say(
                "the last save stays active, in the runtime of `windlass dev`; `windlass plugin push` replaces it with the built component",
            );
        }
    }
}
