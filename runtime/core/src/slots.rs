//! How the slots of a server are shared between groups of attempts: first between namespaces, then between the plugins
//! of each. Deciding only: what runs is counted by the store.
//!
//! An attempt may never end, so a slot that is taken may never come back. A group therefore takes only its share of the
//! slots that the other groups leave, and never the last one. However many groups take all they can get, each leaves
//! something to the next: with 64 slots and a share of three quarters, the first gets 48, the second 12 and the third
//! 3, while a group that runs nothing finds a free slot.

use crate::bounds;

/// The slots, and the share that one group may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotShare {
    pub slots: u32,
    /// How much of the slots that the other groups leave one group may hold.
    pub percent: u32,
}

/// What runs, as one group sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotsHeld {
    pub by_group: u32,
    pub by_others: u32,
    /// Whether no other group could use a slot.
    pub is_alone: bool,
}

impl SlotShare {
    /// How many slots a group may hold while the other groups hold so many.
    pub fn most(self, held: SlotsHeld) -> u32 {
        let left = self.slots.saturating_sub(held.by_others);
        if self.percent >= 100 {
            return left;
        }
        if held.is_alone {
            // One for the first job of a plugin that is uploaded later. A server with few slots has none to spare.
            return left - u32::from(self.slots >= bounds::SLOTS_TO_SPARE_ONE && left > 1);
        }
        let share = u64::from(left) * u64::from(self.percent) / 100;
        left.min(u32::try_from(share).unwrap_or(left).max(1))
    }

    /// The slots of one namespace, as its plugins share them: what it may hold while the other namespaces hold so many.
    /// A namespace that is alone has them all, so that a server without tenants knows no namespaces.
    pub fn within(self, namespace: SlotsHeld) -> SlotShare {
        let slots = match namespace.is_alone {
            true => self.slots.saturating_sub(namespace.by_others),
            false => self.most(namespace),
        };
        SlotShare { slots, ..self }
    }

    /// Whether a group may start one more attempt.
    pub fn admits(self, held: SlotsHeld) -> bool {
        held.by_group < self.most(held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARE: SlotShare = SlotShare { slots: 64, percent: 75 };

    /// Lets each group in turn take all it can get, and keep it. Returns what each holds.
    fn filled(share: SlotShare, groups: usize) -> Vec<u32> {
        let mut held = vec![0; groups];
        for group in 0..groups {
            loop {
                let by_others = held.iter().sum::<u32>() - held[group];
                if !share.admits(SlotsHeld { by_group: held[group], by_others, is_alone: false }) {
                    break;
                }
                held[group] += 1;
            }
        }
        held
    }

    #[test]
    fn each_group_leaves_a_part_to_the_next_however_long_it_keeps_what_it_has() {
        assert_eq!(filled(SHARE, 5), [48, 12, 3, 1, 0]);
        assert_eq!(filled(SlotShare { slots: 8, percent: 50 }, 5), [4, 2, 1, 1, 0]);
        assert_eq!(filled(SlotShare { slots: 2, percent: 75 }, 3), [1, 1, 0]);
        assert_eq!(filled(SlotShare { slots: 1, percent: 75 }, 2), [1, 0]);
        assert_eq!(filled(SlotShare { slots: 64, percent: 100 }, 2), [64, 0]);
    }

    /// Lets the plugins of each namespace in turn take all they can get, and keep it. Returns what each holds.
    fn filled_by_namespaces(share: SlotShare, namespaces: usize, plugins: usize) -> Vec<Vec<u32>> {
        let mut held = vec![vec![0; plugins]; namespaces];
        for (namespace, plugin) in (0..namespaces).flat_map(|of| (0..plugins).map(move |plugin| (of, plugin))) {
            loop {
                let own: u32 = held[namespace].iter().sum();
                let all: u32 = held.iter().flatten().sum();
                let tenant = SlotsHeld { by_group: own, by_others: all - own, is_alone: namespaces == 1 };
                let by_group = held[namespace][plugin];
                let group = SlotsHeld { by_group, by_others: own - by_group, is_alone: plugins == 1 };
                if !share.within(tenant).admits(group) {
                    break;
                }
                held[namespace][plugin] += 1;
            }
        }
        held
    }

    #[test]
    fn however_many_plugins_a_namespace_has_it_leaves_a_part_to_the_next_one() {
        assert_eq!(filled_by_namespaces(SHARE, 3, 4), [[36, 9, 2, 1], [9, 2, 1, 0], [2, 1, 0, 0]]);
        // A namespace that is alone shares its slots like a server without any.
        assert_eq!(filled_by_namespaces(SHARE, 1, 5), [filled(SHARE, 5)]);
        for (slots, percent) in (2..70).flat_map(|slots| [1, 50, 75, 99].map(|percent| (slots, percent))) {
            let held = filled_by_namespaces(SlotShare { slots, percent }, 2, 4);
            let each: Vec<u32> = held.iter().map(|plugins| plugins.iter().sum()).collect();
            assert!(each.iter().all(|held| *held > 0), "{slots} slots, {percent} percent: {held:?}");
        }
    }

    #[test]
    fn the_last_free_slot_is_taken_only_by_a_group_that_holds_none() {
        for percent in 1..100 {
            for slots in 2..70 {
                let share = SlotShare { slots, percent };
                for by_others in 0..slots {
                    let by_group = slots - by_others - 1;
                    let admits = share.admits(SlotsHeld { by_group, by_others, is_alone: false });
                    assert_eq!(admits, by_group == 0, "{share:?} with {by_group} and {by_others}");
                }
            }
        }
    }

    #[test]
    fn groups_that_give_slots_back_come_to_hold_the_same() {
        let (mut held, mut turn) = (vec![48u32, 0, 0], 0);
        for _ in 0..1_000 {
            // Attempts end one after the other, of the group that has most; then each in turn takes what it may.
            let most = (0..3).max_by_key(|group| held[*group]).unwrap_or(0);
            held[most] -= 1;
            for _ in 0..3 {
                turn = (turn + 1) % 3;
                let by_others = held.iter().sum::<u32>() - held[turn];
                held[turn] += u32::from(SHARE.admits(SlotsHeld { by_group: held[turn], by_others, is_alone: false }));
            }
        }
        let (least, most) = (held.iter().min(), held.iter().max());
        assert!(least.zip(most).is_some_and(|(least, most)| most - least <= 2), "{held:?}");
    }

    #[test]
    fn a_group_that_is_alone_takes_all_but_one_and_all_of_a_few() {
        let most = |slots, by_others| {
            SlotShare { slots, percent: 75 }.most(SlotsHeld { by_group: 0, by_others, is_alone: true })
        };
        assert_eq!((most(64, 0), most(bounds::SLOTS_TO_SPARE_ONE, 0)), (63, bounds::SLOTS_TO_SPARE_ONE - 1));
        assert_eq!((most(bounds::SLOTS_TO_SPARE_ONE - 1, 0), most(1, 0)), (bounds::SLOTS_TO_SPARE_ONE - 1, 1));
        // Attempts of a plugin that has been removed may still run.
        assert_eq!((most(64, 10), most(64, 63), most(64, 64), most(64, 90)), (53, 1, 0, 0));
    }
}
