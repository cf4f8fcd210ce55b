//! Plugins in the engine: what follows from a change, which plugin serves which queue, and how many attempts each may
//! run.

use windlass_core::plugin::grant::StoredGrant;
use windlass_core::{
    Command, Digest, Job, JobId, Name, Plugin, PluginCommand, PluginFacts, QueueName, Refusal, Runner, Stopped, Swap,
    change_plugin, parse_digest,
};

use crate::disk::{Disk, DiskError, Space};
use crate::disk::{codec, keys};
use crate::engine::Engine;
use crate::engine::failure::Failure;
use crate::{SecretChange, SecretRow};

impl<D: Disk> Engine<D> {
    /// Carries out a change together with what it means for the attempts that run.
    pub(crate) fn change_plugin(
        &mut self,
        name: &Name,
        command: PluginCommand,
        by: Option<String>,
    ) -> Result<Option<Plugin>, Failure> {
        let attempts = self.attempts_of(name)?;
        let running: Vec<Digest> = attempts.iter().map(|(_, version)| *version).collect();
        let server = |queue: &QueueName| self.catalogue.server_of(queue);
        let taken = |queue: &QueueName| server(queue).filter(|other| *other != name).cloned();
        let facts =
            PluginFacts { plugin: self.catalogue.plugin(name), running: &running, by: by.as_deref(), taken: &taken };
        let changed = change_plugin(name, command, &facts, self.now)?;
        self.admit_queues(changed.plugin.iter().flat_map(|plugin| &plugin.queues))?;
        match &changed.plugin {
            Some(plugin) => self.put_plugin(plugin.clone()),
            None => self.catalogue.drop_plugin(name, &mut self.unsaved.batch),
        }
        match changed.grant {
            Some(Some(grant)) => {
                let stored = StoredGrant { plugin: name.clone(), grant, created_by: by };
                self.catalogue.put_grant(stored, &mut self.unsaved.batch);
            }
            Some(None) => self.catalogue.drop_grant(name, &mut self.unsaved.batch),
            None => {}
        }
        self.events.extend(changed.events);
        self.route();
        self.unsaved.require_commit();
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
    fn attempts_of(&mut self, name: &Name) -> Result<Vec<(JobId, Digest)>, DiskError> {
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
        // A set has no order, and the same commands must lead to the same events.
        found.sort_unstable();
        Ok(found)
    }

    pub(crate) fn put_plugin(&mut self, plugin: Plugin) {
        for queue in &plugin.queues {
            self.ensure_queue(queue);
        }
        self.unsaved.require_commit();
        if self.catalogue.put_plugin(plugin) {
            self.route();
        }
    }

    /// Works out which plugin serves which queue, how many attempts each may run at once, and who shares the slots.
    pub(crate) fn route(&mut self) {
        self.limiters.set_ceilings(self.catalogue.route());
        self.limiters.slots.set_serving(self.catalogue.serving().into_iter());
        for queue in self.catalogue.served_queues() {
            self.queues.wake(queue);
        }
    }

    /// Whether a plugin serves the queue and may start one more attempt.
    pub(crate) fn plugin_admits(&mut self, queue: &QueueName) -> bool {
        let Some(plugin) = self.catalogue.server_of(queue) else { return false };
        let slots = self.quotas.slots(&queue.namespace());
        slots.is_none_or(|most| self.limiters.running_in(queue.prefix()) < most)
            && self.limiters.admits_plugin(plugin, self.now)
    }

    /// Counts the attempts of plugins as they start and end. When one ends, the plugin may start a job of any of its
    /// queues, and so may those that have been refused a slot.
    pub(crate) fn count_attempt(&mut self, old: Option<&Job>, new: Option<&Job>) {
        let (before, after) = (old.and_then(local_plugin), new.and_then(local_plugin));
        if before == after {
            return;
        }
        if let Some(plugin) = before {
            self.limiters.plugin_ended(plugin);
            let limited = self.catalogue.plugin(plugin).filter(|_| self.limiters.has_ceiling(plugin));
            let refused = self.limiters.slots.take_refused();
            let refused = refused.iter().filter_map(|plugin| self.catalogue.plugin(plugin));
            for queue in limited.into_iter().chain(refused).flat_map(|plugin| &plugin.queues) {
                self.queues.wake_if_waiting(queue);
            }
            // Another plugin of the namespace may take the slot.
            if self.quotas.slots(&plugin.namespace()).is_some() {
                for queue in self.catalogue.served_queues().filter(|queue| queue.prefix() == plugin.prefix()) {
                    self.queues.wake(queue);
                }
            }
        }
        if let Some(plugin) = after {
            self.limiters.plugin_started(plugin, self.now);
        }
    }

    pub(crate) fn change_secret(&mut self, change: SecretChange) -> Result<(), Failure> {
        match change {
            SecretChange::Put { name, encrypted } => {
                let old = match self.disk.get(Space::Secrets, &keys::named(&name))? {
                    Some(bytes) => Some(codec::decode::<SecretRow>(Space::Secrets, &bytes)?),
                    None => None,
                };
                let created_at = old.map_or(self.now, |old| old.created_at);
                let row = SecretRow { name: name.clone(), encrypted, created_at, updated_at: self.now };
                self.unsaved.batch.put(Space::Secrets, keys::named(&name), codec::encode(&row));
            }
            SecretChange::Remove { name } => {
                let key = keys::named(&name);
                let added = self.unsaved.batch.writes.get(&(Space::Secrets, key.clone())).is_some_and(Option::is_some);
                if !added && self.disk.get(Space::Secrets, &key)?.is_none() {
                    return Err(Refusal::not_found("secret", name).into());
                }
                self.unsaved.batch.delete(Space::Secrets, key);
            }
        }
        self.unsaved.require_commit();
        Ok(())
    }
}

/// The plugin that runs the job in this process.
fn local_plugin(job: &Job) -> Option<&Name> {
    match &job.run.as_ref()?.runner {
        Runner::Local { plugin, .. } => Some(plugin),
        Runner::External { .. } => None,
    }
}
