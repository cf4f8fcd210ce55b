//! Which versions this server cannot run, and why: the component is damaged, or no longer accepted, or was granted a
//! folder that this server no longer allows.
//!
//! A plugin whose active version is one of them is not ready. Its jobs wait: nothing is claimed from its queues. Each
//! such version is retried from time to time, and uploading the same bytes repairs it immediately.

use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

use tokio::sync::watch;
use tracing::{error, info};
use windlass_core::plugin::grant::{Folder, effective};
use windlass_core::{Digest, Name, Plugin, QueueName, Version, parse_digest};
use windlass_executor::FolderScope;

use crate::limits;
use crate::registry::{Loaded, Missing, Registry};

/// Why a version cannot be run.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    why: String,
    /// When to try it again.
    retry_at: Instant,
    tries: u32,
}

/// What can be claimed for this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Claimable {
    /// Every queue that a plugin serves.
    #[default]
    Everything,
    /// Only these queues: other plugins are not ready.
    Only(Vec<QueueName>),
}

impl Registry {
    /// What slots may claim, with a notification of each change.
    pub fn claimable(&self) -> watch::Receiver<Claimable> {
        self.inner.claimable.subscribe()
    }

    /// Why jobs of this plugin cannot start; `None` if they can.
    pub fn not_ready(&self, plugin: &Plugin) -> Option<String> {
        match &plugin.active {
            Some(active) => self.problem(active).or_else(|| self.refused_folder(plugin)),
            None => {
                Some(format!("no version is active; to choose one: windlass plugin activate {} DIGEST", plugin.name))
            }
        }
    }

    /// Why a version cannot be run; `None` if no problem is known.
    pub fn problem(&self, version: &Digest) -> Option<String> {
        self.read(|loaded| loaded.problems.get(version).map(|problem| problem.why.clone()))
    }

    /// A folder that the plugin was granted and that this server no longer allows, with what to do about it. The
    /// plugin's jobs would all fail, so they wait.
    pub(super) fn refused_folder(&self, plugin: &Plugin) -> Option<String> {
        self.read(|loaded| loaded.refused_folder(plugin, &self.inner.scope))
    }

    /// Whether the plugin's jobs are claimed at all.
    pub fn is_claimed(&self, plugin: &Name) -> bool {
        self.read(|loaded| {
            loaded.plugins.get(plugin).is_none_or(|plugin| match &plugin.active {
                Some(_) => loaded.is_ready(plugin, &self.inner.scope),
                None => true,
            })
        })
    }

    /// Stores and logs that a version cannot be run, unless the problem is temporary.
    pub(super) fn add_problem(&self, plugin: &Name, version: &Version, missing: &Missing) {
        if missing.is_temporary() {
            return;
        }
        let why = missing.to_string();
        let tries = self.write(|loaded| {
            let tries = loaded.problems.get(&version.component.sha256).map_or(0, |problem| problem.tries) + 1;
            let wait = limits::PROBLEM_RETRY.saturating_mul(1 << tries.min(16)).min(limits::PROBLEM_RETRY_MOST);
            let problem = Problem { why: why.clone(), retry_at: Instant::now() + wait, tries };
            loaded.problems.insert(version.component.sha256, problem);
            tries
        });
        if tries == 1 {
            match self.is_claimed(plugin) {
                true => error!("a version that is not active cannot be run: {why}"),
                false => error!("plugin {plugin} is not ready, and its jobs wait: {why}"),
            }
        }
        self.publish_claimable();
    }

    /// Called when the version can be run, because its code is compiled.
    pub(super) fn remove_problem(&self, version: &Digest) {
        if self.write(|loaded| loaded.problems.remove(version)).is_some() {
            let digest = windlass_core::short_digest(version);
            info!("version {digest} can be run again; jobs that waited for it start");
            self.publish_claimable();
        }
    }

    /// Retries versions that could not be run, because a file may have been restored.
    pub(super) async fn retry_problems(&self) {
        let now = Instant::now();
        let due = self.read(|loaded| {
            let versions = loaded
                .plugins
                .values()
                .flat_map(|plugin| plugin.versions.iter().map(|version| (plugin.name.clone(), version.clone())));
            let is_due = |version: &Version| {
                loaded.problems.get(&version.component.sha256).is_some_and(|problem| problem.retry_at <= now)
            };
            versions.filter(|(_, version)| is_due(version)).collect::<Vec<_>>()
        });
        for (plugin, version) in due {
            // Success and failure are both stored there.
            let _ = self.compile_stored(&plugin, &version).await;
        }
    }

    /// Notifies the slots if what they may claim has changed.
    pub(super) fn publish_claimable(&self) {
        let claimable =
            self.read(|loaded| claimable(&loaded.plugins, |plugin| loaded.is_ready(plugin, &self.inner.scope)));
        self.inner.claimable.send_if_modified(|known| {
            let changed = *known != claimable;
            *known = claimable;
            changed
        });
    }

    /// The error of an earlier try, so that a version that cannot be run is not read for every job.
    pub(super) fn known_problem(&self, plugin: &Name, version: &str) -> Option<Missing> {
        let why = self.problem(&parse_digest(version)?)?;
        Some(Missing::Known { plugin: plugin.clone(), why })
    }
}

impl Loaded {
    /// Whether jobs of a plugin can start.
    fn is_ready(&self, plugin: &Plugin, scope: &FolderScope) -> bool {
        plugin.active.is_some_and(|active| !self.problems.contains_key(&active))
            && self.refused_folder(plugin, scope).is_none()
    }

    fn refused_folder(&self, plugin: &Plugin, scope: &FolderScope) -> Option<String> {
        let (allowed, _) = effective(&plugin.active_version()?.manifest, &self.grants.get(&plugin.name)?.grant);
        allowed.folders.into_iter().find_map(|Folder { guest, host, .. }| {
            let why = scope.allows(Path::new(&host)).err()?;
            let name = &plugin.name;
            Some(format!(
                "it was granted the folder {host} as `{guest}`, which cannot be opened: {why}. To revoke the grant: \
                 windlass plugin revoke {name} --read {guest}={host}"
            ))
        })
    }
}

fn claimable(plugins: &HashMap<Name, Plugin>, is_ready: impl Fn(&Plugin) -> bool) -> Claimable {
    let serving = || plugins.values().filter(|plugin| plugin.active.is_some());
    if serving().all(&is_ready) {
        return Claimable::Everything;
    }
    let ready = serving().filter(|plugin| is_ready(plugin));
    let mut queues: Vec<QueueName> = ready.flat_map(|plugin| plugin.queues.clone()).collect();
    queues.sort_unstable();
    Claimable::Only(queues)
}

#[cfg(test)]
mod tests {
    use windlass_core::Time;

    use super::*;

    fn plugin(name: &str, active: Option<u8>) -> (Name, Plugin) {
        let name: Name = name.parse().expect("a name");
        let plugin = Plugin {
            name: name.clone(),
            queues: vec![name.clone()],
            versions: Vec::new(),
            active: active.map(|byte| [byte; 32]),
            canary: None,
            history: Vec::new(),
            created_at: Time(0),
            updated_at: Time(0),
            uploaders: Default::default(),
        };
        (name, plugin)
    }

    #[test]
    fn nothing_is_claimed_for_a_plugin_that_is_not_ready_and_everything_while_all_are() {
        let plugins = HashMap::from([plugin("a", Some(1)), plugin("b", Some(2)), plugin("idle", None)]);
        assert_eq!(claimable(&plugins, |_| true), Claimable::Everything);
        let only = Claimable::Only(vec!["b".parse().expect("a name")]);
        assert_eq!(claimable(&plugins, |plugin| plugin.name.as_str() != "a"), only);
        assert_eq!(claimable(&plugins, |_| false), Claimable::Only(Vec::new()));
        assert_eq!(
            claimable(&plugins, |plugin| plugin.name.as_str() != "idle"),
            Claimable::Everything,
            "it serves nothing"
        );
    }
}
