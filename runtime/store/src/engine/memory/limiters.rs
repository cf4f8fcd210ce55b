//! How many attempts run and how often they start: for each limit key of a queue, and for each plugin. Those of a whole
//! queue are with the queue. How plugins share the slots of this process is in `slots`.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};

use windlass_core::limits::{Admission, Limiter, Rate};
use windlass_core::{Name, Settings, Time};

use crate::disk::{Disk, DiskError, Space, WriteBatch};
use crate::disk::{codec, keys};
use crate::engine::memory::slots::Slots;
use crate::limits;

#[derive(Default)]
pub struct Limiters {
    /// By queue and limit key: the ones used lately.
    keys: HashMap<(u32, String), Limiter>,
    /// Those that have changed since the last commit.
    changed: HashSet<(u32, String)>,
    /// Limit keys whose lanes wait for a rate window.
    parked: BTreeSet<(Time, u32, String)>,
    /// The attempts of each plugin in this process.
    plugins: HashMap<Name, Limiter>,
    /// How many attempts a plugin may run at once, where that is limited.
    ceilings: HashMap<Name, u32>,
    /// The slots that they hold.
    pub slots: Slots,
}

impl Limiters {
    fn key(&mut self, disk: &impl Disk, queue: u32, limit_key: &str) -> Result<&mut Limiter, DiskError> {
        match self.keys.entry((queue, limit_key.to_owned())) {
            Entry::Occupied(held) => Ok(held.into_mut()),
            Entry::Vacant(vacant) => {
                let limiter = match disk.get(Space::Limiters, &keys::limiter(queue, limit_key))? {
                    Some(bytes) => codec::decode(Space::Limiters, &bytes)?,
                    None => Limiter::default(),
                };
                Ok(vacant.insert(limiter))
            }
        }
    }

    /// Whether a job with this limit key may start.
    pub(crate) fn admit_key(
        &mut self,
        disk: &impl Disk,
        queue: u32,
        limit_key: &str,
        settings: &Settings,
        now: Time,
    ) -> Result<Admission, DiskError> {
        let (concurrency, rate) = (settings.key_concurrency, settings.key_rate);
        if limit_key.is_empty() || (concurrency.is_none() && rate.is_none()) {
            return Ok(Admission::Go);
        }
        Ok(self.key(disk, queue, limit_key)?.admit(concurrency, rate, now))
    }

    pub(crate) fn key_started(
        &mut self,
        disk: &impl Disk,
        queue: u32,
        limit_key: &str,
        rate: Option<Rate>,
        now: Time,
    ) -> Result<(), DiskError> {
        self.key(disk, queue, limit_key)?.start(rate, now);
        self.changed.insert((queue, limit_key.to_owned()));
        Ok(())
    }

    pub(crate) fn key_ended(&mut self, disk: &impl Disk, queue: u32, limit_key: &str) -> Result<(), DiskError> {
        self.key(disk, queue, limit_key)?.end();
        self.changed.insert((queue, limit_key.to_owned()));
        Ok(())
    }

    /// Nothing with this limit key starts before `until`.
    pub fn park(&mut self, until: Time, queue: u32, limit_key: String) {
        self.parked.insert((until, queue, limit_key));
    }

    pub(crate) fn next_opening(&self) -> Option<Time> {
        self.parked.first().map(|(at, ..)| *at)
    }

    /// The next limit key that may start jobs again.
    pub(crate) fn take_opened(&mut self, now: Time) -> Option<(u32, String)> {
        if self.next_opening()? > now {
            return None;
        }
        self.parked.pop_first().map(|(_, queue, limit_key)| (queue, limit_key))
    }

    /// Writes what has changed; a limiter in which nothing is left to remember is deleted.
    pub fn gather(&mut self, batch: &mut WriteBatch, rate_of: impl Fn(u32) -> Option<Rate>, now: Time) {
        for (queue, limit_key) in std::mem::take(&mut self.changed) {
            let key = keys::limiter(queue, &limit_key);
            let limiter = self.keys.get_mut(&(queue, limit_key));
            match limiter.and_then(|limiter| (!limiter.is_idle(rate_of(queue), now)).then_some(limiter)) {
                Some(limiter) => batch.put(Space::Limiters, key, codec::encode(limiter)),
                None => batch.delete(Space::Limiters, key),
            }
        }
        if self.keys.len() > limits::KEY_LIMITERS {
            self.keys.clear();
        }
    }

    pub(crate) fn drop_queue(&mut self, queue: u32) {
        self.keys.retain(|(of, _), _| *of != queue);
        self.changed.retain(|(of, _)| *of != queue);
    }

    pub(crate) fn set_ceilings(&mut self, ceilings: HashMap<Name, u32>) {
        self.ceilings = ceilings;
    }

    pub(crate) fn has_ceiling(&self, plugin: &Name) -> bool {
        self.ceilings.contains_key(plugin)
    }

    /// Whether a plugin may start one more attempt.
    pub(crate) fn admits_plugin(&mut self, plugin: &Name, now: Time) -> bool {
        self.is_below_ceiling(plugin, now) && self.slots.admits(plugin)
    }

    fn is_below_ceiling(&mut self, plugin: &Name, now: Time) -> bool {
        let Some(most) = self.ceilings.get(plugin) else { return true };
        let admission = self.plugins.get_mut(plugin).map(|limiter| limiter.admit(Some(*most), None, now));
        admission.is_none_or(|admission| admission == Admission::Go)
    }

    pub(crate) fn plugin_started(&mut self, plugin: &Name, now: Time) {
        self.slots.take(plugin);
        if let Some(limiter) = self.plugins.get_mut(plugin) {
            return limiter.start(None, now);
        }
        let mut limiter = Limiter::default();
        limiter.start(None, now);
        self.plugins.insert(plugin.clone(), limiter);
    }

    pub(crate) fn plugin_ended(&mut self, plugin: &Name) {
        self.slots.give_back(plugin);
        if let Some(limiter) = self.plugins.get_mut(plugin) {
            limiter.end();
        }
    }

    /// The attempts that run, by queue and limit key.
    pub(crate) fn running_keys(&self) -> impl Iterator<Item = ((u32, String), u32)> {
        self.keys.iter().map(|(key, limiter)| (key.clone(), limiter.running))
    }

    /// How many attempts of the plugins of a namespace run.
    pub(crate) fn running_in(&self, prefix: Option<&str>) -> u32 {
        let own = self.plugins.iter().filter(|(name, _)| name.prefix() == prefix);
        own.map(|(_, limiter)| limiter.running).sum()
    }

    /// The attempts that run, by plugin.
    pub(crate) fn running_plugins(&self) -> impl Iterator<Item = (Name, u32)> {
        self.plugins.iter().map(|(name, limiter)| (name.clone(), limiter.running))
    }
}
