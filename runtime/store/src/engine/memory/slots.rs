//! The slots that groups of attempts hold in this process, and the groups that have been refused one.
//!
//! A group is whatever shares slots with others: the attempts of one plugin here. Whether one more may start is decided in
//! `windlass_core`; this only counts.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use windlass_core::{SlotShare, SlotsHeld};

pub struct SlotGroups<K> {
    /// None when the slots are not shared.
    share: Option<SlotShare>,
    held: HashMap<K, u32>,
    /// The sum of those.
    total: u32,
    /// How many groups could use a slot.
    groups: usize,
    /// The groups that have been refused a slot since one was last given back.
    refused: BTreeSet<K>,
}

impl<K> Default for SlotGroups<K> {
    fn default() -> SlotGroups<K> {
        SlotGroups { share: None, held: HashMap::new(), total: 0, groups: 0, refused: BTreeSet::new() }
    }
}

impl<K: Clone + Ord + Hash> SlotGroups<K> {
    pub fn set_share(&mut self, share: Option<SlotShare>) {
        self.share = share;
    }

    pub fn set_groups(&mut self, groups: usize) {
        self.groups = groups;
    }

    /// Whether the group may hold one more slot. One that may not is remembered, until a slot is given back.
    pub fn admits<Q>(&mut self, group: &Q) -> bool
    where
        Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
        K: std::borrow::Borrow<Q>,
    {
        let Some(share) = self.share else { return true };
        let by_group = self.held.get(group).copied().unwrap_or_default();
        let held = SlotsHeld { by_group, by_others: self.total - by_group, is_alone: self.groups <= 1 };
        let admits = share.admits(held);
        if !admits {
            self.refused.insert(group.to_owned());
        }
        admits
    }

    pub fn take(&mut self, group: K) {
        *self.held.entry(group).or_default() += 1;
        self.total += 1;
    }

    pub fn give_back<Q>(&mut self, group: &Q)
    where
        Q: Eq + Hash + ?Sized,
        K: std::borrow::Borrow<Q>,
    {
        let Some(held) = self.held.get_mut(group) else { return };
        debug_assert!(*held > 0, "a slot is given back that was never taken");
        *held = held.saturating_sub(1);
        self.total = self.total.saturating_sub(1);
        if *held == 0 {
            self.held.remove(group);
        }
    }

    /// The groups that may be admitted now that a slot has been given back.
    pub fn take_refused(&mut self) -> BTreeSet<K> {
        std::mem::take(&mut self.refused)
    }
}
