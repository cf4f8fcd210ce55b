//! Which versions this server cannot run, and why: the component is damaged, or no longer accepted.
//!
//! A plugin whose active version is among them is not ready. Its jobs wait: nothing is claimed from its queues. Each such version is
//! looked at again from time to time, and an upload of the same bytes repairs it at once.

use std::collections::HashMap;
use std::time::Instant;

use tokio::sync::watch;
use tracing::{error, info};
use windlass_core::{Digest, Plugin, QueueName, Version, parse_digest};

use super::{Missing, Registry};
use crate::limits;

/// Why a version cannot be run.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    why: String,
    /// When it is worth another look.
    again_at: Instant,
    looks: u32,
}

/// What can be claimed for this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Claimable {
    /// Whatever a plugin serves.
    #[default]
    Everything,
    /// Only these queues: other plugins are not ready.
    Only(Vec<QueueName>),
}

impl Registry {
    /// What slots may claim, and a word each time that changes.
    pub fn claimable(&self) -> watch::Receiver<Claimable> {
        self.inner.claimable.subscribe()
    }

    /// Why jobs of this plugin cannot start; none when they can.
    pub fn not_ready(&self, plugin: &Plugin) -> Option<String> {
        match &plugin.active {
            Some(active) => self.problem(active),
            None => {
                Some(format!("no version is active; to choose one: windlass plugin activate {} DIGEST", plugin.name))
            }
        }
    }

    /// Why a version cannot be run; none when nothing is known against it.
    pub fn problem(&self, version: &Digest) -> Option<String> {
        self.read(|loaded| loaded.problems.get(version).map(|problem| problem.why.clone()))
    }

    /// Whether the plugin's jobs are claimed at all.
    pub fn is_claimed(&self, plugin: &str) -> bool {
        self.read(|loaded| {
            let active = loaded.plugins.get(plugin).and_then(|plugin| plugin.active);
            active.is_none_or(|active| !loaded.problems.contains_key(&active))
        })
    }

    /// Takes note of a version that cannot be run; what will pass by itself is none.
    pub(super) fn note_problem(&self, plugin: &str, version: &Version, missing: &Missing) {
        if missing.may_pass() {
            return;
        }
        let why = missing.to_string();
        let looks = self.write(|loaded| {
            let looks = loaded.problems.get(&version.component.sha256).map_or(0, |problem| problem.looks) + 1;
            let wait = limits::PROBLEM_LOOK.saturating_mul(1 << looks.min(16)).min(limits::PROBLEM_LOOK_MOST);
            let problem = Problem { why: why.clone(), again_at: Instant::now() + wait, looks };
            loaded.problems.insert(version.component.sha256, problem);
            looks
        });
        if looks == 1 {
            match self.is_claimed(plugin) {
                true => error!("a version that is not active cannot be run: {why}"),
                false => error!("plugin {plugin} is not ready, and its jobs wait: {why}"),
            }
        }
        self.tell_claimable();
    }

    /// The version can be run: its code is here.
    pub(super) fn clear_problem(&self, version: &Digest) {
        if self.write(|loaded| loaded.problems.remove(version)).is_some() {
            let digest = windlass_core::short_digest(version);
            info!("version {digest} can be run again; jobs that waited for it start");
            self.tell_claimable();
        }
    }

    /// Looks again at versions that could not be run: a file may have been restored.
    pub(super) async fn look_again(&self) {
        let now = Instant::now();
        let due = self.read(|loaded| {
            let versions = loaded
                .plugins
                .values()
                .flat_map(|plugin| plugin.versions.iter().map(|version| (plugin.name.clone(), version.clone())));
            let is_due = |version: &Version| {
                loaded.problems.get(&version.component.sha256).is_some_and(|problem| problem.again_at <= now)
            };
            versions.filter(|(_, version)| is_due(version)).collect::<Vec<_>>()
        });
        for (plugin, version) in due {
            // Success and failure are both taken note of there.
            let _ = self.compile_stored(&plugin, &version).await;
        }
    }

    /// Lets the slots know when what they may claim has changed.
    pub(super) fn tell_claimable(&self) {
        let claimable = self.read(|loaded| claimable(&loaded.plugins, |version| loaded.problems.contains_key(version)));
        self.inner.claimable.send_if_modified(|known| {
            let changed = *known != claimable;
            *known = claimable;
            changed
        });
    }

    /// The error of an earlier try, so that a version that cannot be run is not read again for every job.
    pub(super) fn known_problem(&self, plugin: &str, version: &str) -> Option<Missing> {
        let why = self.problem(&parse_digest(version)?)?;
        Some(Missing::Known { plugin: plugin.to_owned(), why })
    }
}

fn claimable(plugins: &HashMap<String, Plugin>, is_problem: impl Fn(&Digest) -> bool) -> Claimable {
    let ready = |plugin: &&Plugin| plugin.active.is_some_and(|active| !is_problem(&active));
    let serving = || plugins.values().filter(|plugin| plugin.active.is_some());
    if serving().all(|plugin| ready(&plugin)) {
        return Claimable::Everything;
    }
    let mut queues: Vec<QueueName> = serving().filter(ready).flat_map(|plugin| plugin.queues.clone()).collect();
    queues.sort_unstable();
    Claimable::Only(queues)
}

#[cfg(test)]
mod tests {
    use windlass_core::Time;

    use super::*;

    fn plugin(name: &str, active: Option<u8>) -> (String, Plugin) {
        let plugin = Plugin {
            name: name.to_owned(),
            queues: vec![name.parse().expect("a name")],
            versions: Vec::new(),
            active: active.map(|byte| [byte; 32]),
            canary: None,
            history: Vec::new(),
            created_at: Time(0),
            updated_at: Time(0),
        };
        (name.to_owned(), plugin)
    }

    #[test]
    fn nothing_is_claimed_for_a_plugin_that_is_not_ready_and_everything_while_all_are() {
        let plugins = HashMap::from([plugin("a", Some(1)), plugin("b", Some(2)), plugin("idle", None)]);
        assert_eq!(claimable(&plugins, |_| false), Claimable::Everything);
        let only = Claimable::Only(vec!["b".parse().expect("a name")]);
        assert_eq!(claimable(&plugins, |version| *version == [1; 32]), only);
        assert_eq!(claimable(&plugins, |_| true), Claimable::Only(Vec::new()));
        assert_eq!(claimable(&plugins, |version| *version == [9; 32]), Claimable::Everything, "nobody's version");
    }
}
