//! What operators have set up: plugins with their grants and the queues they serve, schedules, and webhooks in both
//! directions.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use windlass_core::plugin::grant;
use windlass_core::plugin::grant::{Grant, StoredGrant};
use windlass_core::schedule::Schedule;
use windlass_core::{InboundHook, Name, Namespace, Plugin, QueueName, Refusal, Webhook};

use crate::disk::codec;
use crate::disk::keys::named as key;
use crate::disk::{Disk, DiskError, Space, WriteBatch};
use crate::engine::thread::recover::read_all;

#[derive(Default)]
pub struct Catalogue {
    plugins: BTreeMap<Name, Plugin>,
    /// Plugins that have changed since the last commit: written once, however often their canary has counted.
    changed: BTreeSet<Name>,
    grants: BTreeMap<Name, StoredGrant>,
    /// Which plugin serves a queue. Follows from the plugins, see `route`.
    served: HashMap<QueueName, Name>,
    schedules: BTreeMap<Name, Schedule>,
    webhooks: BTreeMap<String, Webhook>,
    inbound_hooks: BTreeMap<QueueName, InboundHook>,
}

impl Catalogue {
    pub fn read(disk: &impl Disk) -> Result<Catalogue, DiskError> {
        let plugins = read_all::<Plugin>(disk, Space::Plugins)?;
        let schedules = read_all::<Schedule>(disk, Space::Schedules)?;
        let webhooks = read_all::<Webhook>(disk, Space::Webhooks)?;
        let inbound_hooks = read_all::<InboundHook>(disk, Space::InboundHooks)?;
        let grants = read_all::<StoredGrant>(disk, Space::Grants)?;
        Ok(Catalogue {
            plugins: plugins.into_iter().map(|plugin| (plugin.name.clone(), plugin)).collect(),
            changed: BTreeSet::new(),
            grants: grants.into_iter().map(|grant| (grant.plugin.clone(), grant)).collect(),
            served: HashMap::new(),
            schedules: schedules.into_iter().map(|schedule| (schedule.name.clone(), schedule)).collect(),
            webhooks: webhooks.into_iter().map(|hook| (hook.id.clone(), hook)).collect(),
            inbound_hooks: inbound_hooks.into_iter().map(|hook| (hook.queue.clone(), hook)).collect(),
        })
    }

    pub fn plugin(&self, name: &Name) -> Option<&Plugin> {
        self.plugins.get(name)
    }

    /// Returns whether its active version is another one now.
    pub(crate) fn put_plugin(&mut self, plugin: Plugin) -> bool {
        let was = self.plugins.get(&plugin.name).and_then(|old| old.active);
        let moved = was != plugin.active;
        self.changed.insert(plugin.name.clone());
        self.plugins.insert(plugin.name.clone(), plugin);
        moved
    }

    pub(crate) fn drop_plugin(&mut self, name: &Name, batch: &mut WriteBatch) {
        if self.plugins.remove(name).is_some() {
            self.changed.remove(name);
            batch.delete(Space::Plugins, key(name));
        }
    }

    pub(crate) fn put_grant(&mut self, grant: StoredGrant, batch: &mut WriteBatch) {
        batch.put(Space::Grants, key(&grant.plugin), codec::encode_in(Space::Grants, &grant));
        self.grants.insert(grant.plugin.clone(), grant);
    }

    pub(crate) fn drop_grant(&mut self, name: &Name, batch: &mut WriteBatch) {
        if self.grants.remove(name).is_some() {
            batch.delete(Space::Grants, key(name));
        }
    }

    /// Works out which plugin serves which queue. Returns how many attempts each may run at once, where that is
    /// limited.
    pub fn route(&mut self) -> HashMap<Name, u32> {
        let serving = || self.plugins.values().filter(|plugin| plugin.active_version().is_some());
        let nothing = Grant::default();
        let ceiling = |plugin: &Plugin| {
            let granted = self.grants.get(&plugin.name).map_or(&nothing, |stored| &stored.grant);
            grant::effective(&plugin.active_version()?.manifest, granted).0.limits.concurrency
        };
        let ceilings = serving().filter_map(|plugin| Some((plugin.name.clone(), ceiling(plugin)?))).collect();
        let queues_of = |plugin: &Plugin| plugin.queues.clone().into_iter();
        let served = serving().flat_map(|plugin| queues_of(plugin).map(|queue| (queue, plugin.name.clone())));
        self.served = served.collect();
        ceilings
    }

    /// The plugins that serve a queue, each once.
    pub(crate) fn serving(&self) -> BTreeSet<&Name> {
        self.served.values().collect()
    }

    pub(crate) fn served_queues(&self) -> impl Iterator<Item = &QueueName> {
        self.served.keys()
    }

    /// The name of the plugin that serves a queue.
    pub(crate) fn server_of(&self, queue: &QueueName) -> Option<&Name> {
        self.served.get(queue)
    }

    pub(crate) fn plugin_of(&self, queue: &QueueName) -> Option<&Plugin> {
        self.plugins.get(self.server_of(queue)?)
    }

    pub fn schedule(&self, name: &Name) -> Option<&Schedule> {
        self.schedules.get(name)
    }

    pub(crate) fn known_schedule(&self, name: &Name) -> Result<Schedule, Refusal> {
        self.schedules.get(name).cloned().ok_or_else(|| Refusal::not_found("schedule", name))
    }

    pub(crate) fn put_schedule(&mut self, schedule: Schedule, batch: &mut WriteBatch) {
        batch.put(Space::Schedules, key(&schedule.name), codec::encode(&schedule));
        self.schedules.insert(schedule.name.clone(), schedule);
    }

    pub(crate) fn drop_schedule(&mut self, name: &Name, batch: &mut WriteBatch) {
        batch.delete(Space::Schedules, key(name));
        self.schedules.remove(name);
    }

    pub(crate) fn known_webhook(&self, id: &str) -> Result<Webhook, Refusal> {
        self.webhooks.get(id).cloned().ok_or_else(|| Refusal::not_found("webhook", id))
    }

    pub(crate) fn count_webhooks(&self) -> usize {
        self.webhooks.len()
    }

    pub(crate) fn put_webhook(&mut self, hook: Webhook, batch: &mut WriteBatch) {
        batch.put(Space::Webhooks, hook.id.as_bytes().to_vec(), codec::encode_in(Space::Webhooks, &hook));
        self.webhooks.insert(hook.id.clone(), hook);
    }

    pub(crate) fn drop_webhook(&mut self, id: &str, batch: &mut WriteBatch) {
        batch.delete(Space::Webhooks, id.as_bytes().to_vec());
        self.webhooks.remove(id);
    }

    pub(crate) fn inbound_hook(&self, queue: &QueueName) -> Option<&InboundHook> {
        self.inbound_hooks.get(queue)
    }

    pub(crate) fn count_inbound_hooks(&self) -> usize {
        self.inbound_hooks.len()
    }

    pub(crate) fn put_inbound_hook(&mut self, hook: InboundHook, batch: &mut WriteBatch) {
        self.forget_inbound_row(&hook.queue, batch);
        batch.put(Space::InboundHooks, key(&hook.queue), codec::encode(&hook));
        self.inbound_hooks.insert(hook.queue.clone(), hook);
    }

    pub(crate) fn drop_inbound_hook(&mut self, queue: &QueueName, batch: &mut WriteBatch) {
        self.forget_inbound_row(queue, batch);
        batch.delete(Space::InboundHooks, key(queue));
        self.inbound_hooks.remove(queue);
    }

    /// The hook of a tenant was once stored under the name of its queue alone, which is the key of the hook that
    /// `default` has.
    fn forget_inbound_row(&self, queue: &QueueName, batch: &mut WriteBatch) {
        let bare = queue.within(&Namespace::default());
        if bare != *queue && !self.inbound_hooks.contains_key(&bare) {
            batch.delete(Space::InboundHooks, key(&bare));
        }
    }

    /// The webhooks of a namespace, and its queues whose incoming webhooks must be signed.
    pub(crate) fn hooks_in(&self, namespace: &Namespace) -> (Vec<String>, Vec<QueueName>) {
        let outgoing = self.webhooks.values().filter(|hook| hook.namespace == *namespace).map(|hook| hook.id.clone());
        let inbound = self.inbound_hooks.keys().filter(|queue| queue.is_in(namespace)).cloned();
        (outgoing.collect(), inbound.collect())
    }

    /// Something with a name of its own that a namespace still has, in words.
    pub(crate) fn anything_in(&self, namespace: &Namespace) -> Option<String> {
        let plugin = self.plugins.keys().find(|name| name.is_in(namespace)).map(|name| format!("the plugin `{name}`"));
        let schedule = || self.schedules.keys().find(|name| name.is_in(namespace));
        plugin.or_else(|| schedule().map(|name| format!("the schedule `{name}`")))
    }

    /// Writes the plugins that have changed.
    pub fn gather(&mut self, batch: &mut WriteBatch) {
        for name in std::mem::take(&mut self.changed) {
            if let Some(plugin) = self.plugins.get(&name) {
                batch.put(Space::Plugins, key(&name), codec::encode_in(Space::Plugins, plugin));
            }
        }
    }
}
