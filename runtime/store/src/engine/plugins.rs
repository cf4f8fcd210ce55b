//! Plugins in the engine: what becomes of a change, which plugin serves which queue, and how many attempts each may run.

use windlass_core::limits::{Admission, Limiter};
use windlass_core::plugin::grant;
use windlass_core::plugin::grant::Grant;
use windlass_core::{
    Command, Digest, Job, JobId, Name, Plugin, PluginCommand, PluginFacts, QueueName, Refusal, Runner, Stopped, Swap,
    change_plugin, parse_digest,
};

use crate::disk::codec;
use crate::disk::{Disk, DiskError, Space};
use crate::engine::Engine;
use crate::engine::failure::Failure;
use crate::{SecretChange, SecretRow};

impl<D: Disk> Engine<D> {
    /// Carries out a change together with what it means for the attempts that run.
    pub(crate) fn change_plugin(&mut self, name: &Name, command: PluginCommand) -> Result<Option<Plugin>, Failure> {
        let attempts = self.attempts_of(name)?;
        let running: Vec<Digest> = attempts.iter().map(|(_, version)| *version).collect();
        let taken = |queue: &QueueName| self.served.get(queue).filter(|other| other.as_str() != &**name).cloned();
        let facts = PluginFacts { plugin: self.plugins.get(&**name), running: &running, taken: &taken };
        let changed = change_plugin(name, command, &facts, self.now)?;
        match &changed.plugin {
            Some(plugin) => self.put_plugin(plugin.clone()),
            None => self.drop_plugin(name),
        }
        match changed.grant {
            Some(Some(grant)) => self.put_grant(name, grant),
            Some(None) => self.drop_grant(name),
            None => {}
        }
        self.events.extend(changed.events);
        self.route();
        self.hard = true;
        if let Some(stopped) = changed.stopped {
            self.make_room(&attempts, &stopped, changed.plugin.as_ref())?;
        }
        Ok(changed.plugin)
    }

    /// Attempts on versions that have to go are handed over, or stopped.
    fn make_room(
        &mut self,
        attempts: &[(JobId, Digest)],
        stopped: &Stopped,
        plugin: Option<&Plugin>,
    ) -> Result<(), DiskError> {
        let by = match stopped.swap {
            Swap::Drain => return Ok(()),
            Swap::Checkpoint { within } => Some(self.now + within),
            Swap::Now => None,
        };
        let active = plugin.and_then(|plugin| plugin.active);
        for (job, version) in attempts {
            let meant = match stopped.only {
                Some(only) => *version == only,
                None => Some(*version) != active,
            };
            if meant {
                self.try_ask(*job, Command::Swap { by })?;
            }
        }
        Ok(())
    }

    /// The attempts of a plugin that run in this process, each with its version.
    fn attempts_of(&mut self, name: &str) -> Result<Vec<(JobId, Digest)>, DiskError> {
        let mut found = Vec::new();
        for (id, token) in self.local.clone() {
            let run = self.load(id)?.and_then(|job| job.run.as_ref()).filter(|run| run.token == token);
            if let Some(Runner::Local { plugin, version }) = run.map(|run| &run.runner)
                && plugin == name
                && let Some(version) = parse_digest(version)
            {
                found.push((id, version));
            }
        }
        // The order of a set is nobody's: the same wishes must lead to the same events.
        found.sort_unstable();
        Ok(found)
    }

    pub(crate) fn put_plugin(&mut self, plugin: Plugin) {
        for queue in &plugin.queues {
            self.ensure_queue(queue);
        }
        let was = self.plugins.get(&plugin.name).and_then(|old| old.active);
        let moved = was != plugin.active;
        self.dirty_plugins.insert(plugin.name.clone());
        self.plugins.insert(plugin.name.clone(), plugin);
        self.hard = true;
        if moved {
            self.route();
        }
    }

    fn drop_plugin(&mut self, name: &str) {
        if self.plugins.remove(name).is_some() {
            self.dirty_plugins.remove(name);
            self.batch.delete(Space::Plugins, name.as_bytes().to_vec());
        }
    }

    fn put_grant(&mut self, name: &str, grant: Grant) {
        self.batch.put(Space::Grants, name.as_bytes().to_vec(), codec::encode_in(Space::Grants, &(name, &grant)));
        self.grants.insert(name.to_owned(), grant);
    }

    fn drop_grant(&mut self, name: &str) {
        if self.grants.remove(name).is_some() {
            self.batch.delete(Space::Grants, name.as_bytes().to_vec());
        }
    }

    /// Before a commit: plugins whose record has changed, each once.
    pub(crate) fn gather_plugins(&mut self) {
        for name in std::mem::take(&mut self.dirty_plugins) {
            if let Some(plugin) = self.plugins.get(&name) {
                self.batch.put(Space::Plugins, name.into_bytes(), codec::encode_in(Space::Plugins, plugin));
            }
        }
    }

    /// Works out which plugin serves which queue, and how many attempts each may run at once.
    pub(crate) fn route(&mut self) {
        let serving = || self.plugins.values().filter(|plugin| plugin.active_version().is_some());
        let nothing = Grant::default();
        let ceiling = |plugin: &Plugin| {
            let granted = self.grants.get(&plugin.name).unwrap_or(&nothing);
            grant::effective(&plugin.active_version()?.manifest, granted).0.limits.concurrency
        };
        self.ceilings =
            serving().filter_map(|plugin| ceiling(plugin).map(|most| (plugin.name.clone(), most))).collect();
        self.served = serving()
            .flat_map(|plugin| plugin.queues.iter().map(|queue| (queue.clone(), plugin.name.clone())))
            .collect();
        self.awake.extend(self.served.keys().cloned());
    }

    /// Whether a plugin serves the queue and may start one more attempt.
    pub(crate) fn plugin_admits(&mut self, queue: &QueueName) -> bool {
        let Some(plugin) = self.served.get(queue) else { return false };
        let Some(most) = self.ceilings.get(plugin) else { return true };
        let admitted = self.plugin_limiters.get_mut(plugin).map(|limiter| limiter.admit(Some(*most), None, self.now));
        admitted.is_none_or(|admission| admission == Admission::Go)
    }

    /// Counts the attempts of plugins as jobs come and go. A place that is free again wakes all that the plugin serves.
    pub(crate) fn count_attempt(&mut self, old: Option<&Job>, new: Option<&Job>) {
        let (before, after) = (old.and_then(local_plugin), new.and_then(local_plugin));
        if before == after {
            return;
        }
        if let Some(plugin) = before {
            if let Some(limiter) = self.plugin_limiters.get_mut(plugin) {
                limiter.end();
            }
            if self.ceilings.contains_key(plugin)
                && let Some(plugin) = self.plugins.get(plugin)
            {
                self.awake.extend(plugin.queues.iter().cloned());
            }
        }
        if let Some(plugin) = after {
            match self.plugin_limiters.get_mut(plugin) {
                Some(limiter) => limiter.start(None, self.now),
                None => {
                    let mut limiter = Limiter::default();
                    limiter.start(None, self.now);
                    self.plugin_limiters.insert(plugin.to_owned(), limiter);
                }
            }
        }
    }

    pub(crate) fn change_secret(&mut self, change: SecretChange) -> Result<(), Failure> {
        match change {
            SecretChange::Put { name, sealed } => {
                let old = match self.disk.get(Space::Secrets, name.as_bytes())? {
                    Some(bytes) => Some(codec::decode::<SecretRow>(Space::Secrets, &bytes)?),
                    None => None,
                };
                let created_at = old.map_or(self.now, |old| old.created_at);
                let row = SecretRow { name: name.to_string(), sealed, created_at, updated_at: self.now };
                self.batch.put(Space::Secrets, name.as_bytes().to_vec(), codec::encode(&row));
            }
            SecretChange::Remove { name } => {
                let key = name.as_bytes().to_vec();
                let added = self.batch.writes.get(&(Space::Secrets, key.clone())).is_some_and(Option::is_some);
                if !added && self.disk.get(Space::Secrets, &key)?.is_none() {
                    return Err(Refusal::not_found("secret", name).into());
                }
                self.batch.delete(Space::Secrets, key);
            }
        }
        self.hard = true;
        Ok(())
    }
}

/// The plugin that runs the job in this process.
fn local_plugin(job: &Job) -> Option<&str> {
    match &job.run.as_ref()?.runner {
        Runner::Local { plugin, .. } => Some(plugin),
        Runner::External { .. } => None,
    }
}
