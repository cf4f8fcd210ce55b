//! The slots that plugins and their namespaces hold in this process, and the plugins that have been refused one.
//!
//! Whether one more attempt may start is decided in `windlass_core`; this only counts.

use std::collections::{BTreeSet, HashMap};

use windlass_core::{Name, SlotShare, SlotsHeld};

#[derive(Default)]
pub struct Slots {
    /// None when the slots are not shared.
    share: Option<SlotShare>,
    plugins: HashMap<Name, u32>,
    /// By the name of the namespace: those in which something runs or could run.
    namespaces: HashMap<String, NamespaceSlots>,
    /// In how many of them a plugin serves a queue.
    serving: usize,
    /// What all plugins hold.
    total: u32,
    /// The plugins that have been refused a slot since one was last given back.
    refused: BTreeSet<Name>,
}

#[derive(Default)]
struct NamespaceSlots {
    held: u32,
    /// How many of its plugins serve a queue, and so could use a slot.
    serving: usize,
}

impl Slots {
    pub fn set_share(&mut self, share: Option<SlotShare>) {
        self.share = share;
    }

    /// Those that serve a queue from now on, each once.
    pub fn set_serving<'a>(&mut self, plugins: impl Iterator<Item = &'a Name>) {
        for namespace in self.namespaces.values_mut() {
            namespace.serving = 0;
        }
        for plugin in plugins {
            self.namespace(plugin).serving += 1;
        }
        self.namespaces.retain(|_, namespace| !namespace.is_unused());
        self.serving = self.namespaces.values().filter(|namespace| namespace.serving > 0).count();
    }

    /// Whether the plugin may hold one more slot. One that may not is remembered, until a slot is given back.
    pub fn admits(&mut self, plugin: &Name) -> bool {
        let Some(share) = self.share else { return true };
        let by_group = self.plugins.get(plugin).copied().unwrap_or_default();
        let own = self.namespaces.get(plugin.namespace_name());
        let (held, serving) = own.map_or((0, 0), |own| (own.held, own.serving));
        let is_alone = self.serving <= usize::from(serving > 0);
        let namespace = SlotsHeld { by_group: held, by_others: self.total - held, is_alone };
        let group = SlotsHeld { by_group, by_others: held - by_group, is_alone: serving <= 1 };
        let admits = share.within(namespace).admits(group);
        if !admits {
            self.refused.insert(plugin.clone());
        }
        admits
    }

    pub fn take(&mut self, plugin: &Name) {
        *self.plugins.entry(plugin.clone()).or_default() += 1;
        self.namespace(plugin).held += 1;
        self.total += 1;
    }

    pub fn give_back(&mut self, plugin: &Name) {
        let Some(held) = self.plugins.get_mut(plugin) else { return };
        debug_assert!(*held > 0, "a slot is given back that was never taken");
        *held = held.saturating_sub(1);
        if *held == 0 {
            self.plugins.remove(plugin);
        }
        self.total = self.total.saturating_sub(1);
        let namespace = self.namespace(plugin);
        namespace.held = namespace.held.saturating_sub(1);
        if namespace.is_unused() {
            self.namespaces.remove(plugin.namespace_name());
        }
    }

    /// The plugins that may be admitted now that a slot has been given back.
    pub fn take_refused(&mut self) -> BTreeSet<Name> {
        std::mem::take(&mut self.refused)
    }

    fn namespace(&mut self, plugin: &Name) -> &mut NamespaceSlots {
        let name = plugin.namespace_name();
        if !self.namespaces.contains_key(name) {
            self.namespaces.insert(name.to_owned(), NamespaceSlots::default());
        }
        self.namespaces.get_mut(name).expect("it was just inserted")
    }
}

impl NamespaceSlots {
    fn is_unused(&self) -> bool {
        self.held == 0 && self.serving == 0
    }
}
