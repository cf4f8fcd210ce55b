//! Admission to the instance pool: fair between plugins, and first come first served within one.
//!
//! The pool returns an error when it is exhausted, so attempts wait here instead. A permit has a weight: the share of
//! the pool that the component takes. The plugin that holds least is next, so that a thousand waiting jobs of one
//! plugin do not delay the only job of another. The last eighth of the pool is reserved for plugins that hold less than
//! that, so that no plugin fills the pool with attempts that sleep.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::limits::{OVERTAKEN, RESERVED_PART};

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Admission(Arc<Mutex<AdmissionState>>);

struct AdmissionState {
    free: u32,
    reserve: u32,
    /// The plugins that hold or wait for permits.
    loads: HashMap<Arc<str>, PluginLoad>,
    /// Incremented with every permit issued: among equals, the plugin served longest ago is next.
    turn: u64,
}

#[derive(Default)]
struct PluginLoad {
    held: u32,
    served: u64,
    /// How often lighter attempts of others were admitted first because this plugin's next one did not fit.
    overtaken: u32,
    waiting: VecDeque<Waiter>,
}

struct Waiter {
    weight: u32,
    give: oneshot::Sender<PoolPermit>,
}

/// Permission to hold an instance in the pool. Dropping it returns it.
pub(crate) struct PoolPermit {
    admission: Admission,
    plugin: Arc<str>,
    weight: u32,
}

impl Admission {
    pub(crate) fn new(instances: u32) -> Self {
        let state =
            AdmissionState { free: instances, reserve: instances / RESERVED_PART, loads: HashMap::new(), turn: 0 };
        Admission(Arc::new(Mutex::new(state)))
    }

    /// Returns a permit immediately, or `None`. Attempts that already wait are not overtaken.
    pub(crate) fn try_enter(&self, plugin: &Arc<str>, weight: u32) -> Option<PoolPermit> {
        let mut state = self.lock();
        if state.anyone_waits() || !state.fits(plugin, weight) {
            return None;
        }
        Some(state.take(self, plugin, weight))
    }

    /// Waits for a permit until it is this plugin's turn. Dropping the future leaves the queue.
    pub(crate) async fn enter(&self, plugin: &Arc<str>, weight: u32) -> Option<PoolPermit> {
        let (give, given) = oneshot::channel();
        self.lock().loads.entry(Arc::clone(plugin)).or_default().waiting.push_back(Waiter { weight, give });
        self.hand_out();
        given.await.ok()
    }

    pub(crate) fn anyone_waits(&self) -> bool {
        self.lock().anyone_waits()
    }

    fn hand_out(&self) {
        // Sent outside the lock: if the receiver is gone, the permit is returned by `drop`, which takes the lock again.
        loop {
            let next = self.lock().next(self);
            let Some((give, permit)) = next else { return };
            let _ = give.send(permit);
        }
    }

    fn lock(&self) -> MutexGuard<'_, AdmissionState> {
        // Every change below is complete before anything can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AdmissionState {
    fn anyone_waits(&self) -> bool {
        self.loads.values().any(|load| !load.waiting.is_empty())
    }

    fn fits(&self, plugin: &Arc<str>, weight: u32) -> bool {
        let held = self.loads.get(plugin).map_or(0, |load| load.held);
        let left = self.free.checked_sub(weight);
        left.is_some_and(|left| left >= self.reserve || held < self.reserve)
    }

    fn take(&mut self, admission: &Admission, plugin: &Arc<str>, weight: u32) -> PoolPermit {
        self.free -= weight;
        self.turn += 1;
        let load = self.loads.entry(Arc::clone(plugin)).or_default();
        load.held += weight;
        load.served = self.turn;
        load.overtaken = 0;
        PoolPermit { admission: admission.clone(), plugin: Arc::clone(plugin), weight }
    }

    /// The next attempt to admit, if any fits.
    fn next(&mut self, admission: &Admission) -> Option<(oneshot::Sender<PoolPermit>, PoolPermit)> {
        for load in self.loads.values_mut() {
            load.waiting.retain(|waiter| !waiter.give.is_closed());
        }
        let mut order: Vec<(u32, u64, Arc<str>, u32)> = self
            .loads
            .iter()
            .filter_map(|(plugin, load)| {
                let head = load.waiting.front()?;
                Some((load.held, load.served, Arc::clone(plugin), head.weight))
            })
            .collect();
        order.sort_unstable();
        let at = order.iter().position(|(_, _, plugin, weight)| self.fits(plugin, *weight))?;
        // Lighter attempts may overtake those that do not fit, but not for ever.
        for (_, _, plugin, _) in &order[..at] {
            let load = self.loads.get_mut(plugin)?;
            if load.overtaken >= OVERTAKEN {
                return None;
            }
            load.overtaken += 1;
        }
        let (_, _, plugin, weight) = &order[at];
        let waiter = self.loads.get_mut(plugin)?.waiting.pop_front()?;
        Some((waiter.give, self.take(admission, plugin, *weight)))
    }
}

impl Drop for PoolPermit {
    fn drop(&mut self) {
        {
            let mut state = self.admission.lock();
            state.free += self.weight;
            if let Some(load) = state.loads.get_mut(&self.plugin) {
                load.held = load.held.saturating_sub(self.weight);
                if load.held == 0 && load.waiting.is_empty() {
                    state.loads.remove(&self.plugin);
                }
            }
        }
        self.admission.hand_out();
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn plugin(name: &str) -> Arc<str> {
        name.into()
    }

    fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn the_plugin_that_holds_least_is_next() {
        let admission = Admission::new(4);
        let (many, one) = (plugin("many"), plugin("one"));
        let mut held: Vec<PoolPermit> = (0..4).filter_map(|_| admission.try_enter(&many, 1)).collect();
        assert_eq!(held.len(), 4);
        let mut first = pin!(admission.enter(&many, 1));
        let mut late = pin!(admission.enter(&one, 1));
        assert!(poll(first.as_mut()).is_pending() && poll(late.as_mut()).is_pending());
        held.pop();
        assert!(poll(late.as_mut()).is_ready(), "it came last, and holds nothing");
        assert!(poll(first.as_mut()).is_ready(), "the permit was returned with the future that held it");
    }

    #[test]
    fn the_last_eighth_is_reserved_for_plugins_that_hold_little() {
        let admission = Admission::new(16);
        let (greedy, modest) = (plugin("greedy"), plugin("modest"));
        let held: Vec<PoolPermit> = std::iter::from_fn(|| admission.try_enter(&greedy, 1)).collect();
        assert_eq!(held.len(), 14);
        assert!(admission.try_enter(&modest, 2).is_some());
    }

    #[test]
    fn dropping_a_waiting_attempt_loses_no_permit() {
        let admission = Admission::new(1);
        let name = plugin("one");
        let permit = admission.try_enter(&name, 1).expect("a free permit");
        {
            let mut gone = pin!(admission.enter(&name, 1));
            assert!(poll(gone.as_mut()).is_pending());
            // The permit is sent to a waiter that is dropped before it receives it.
            drop(permit);
        }
        assert!(admission.try_enter(&name, 1).is_some());
        assert!(admission.lock().loads.len() <= 1);
    }

    #[test]
    fn a_heavy_attempt_is_not_overtaken_for_ever() {
        let admission = Admission::new(2);
        let (heavy, light) = (plugin("heavy"), plugin("light"));
        let mut permit = admission.try_enter(&light, 1);
        let mut waiting = pin!(admission.enter(&heavy, 2));
        assert!(poll(waiting.as_mut()).is_pending());
        let mut overtook = 0;
        loop {
            let mut next = pin!(admission.enter(&light, 1));
            match poll(next.as_mut()) {
                Poll::Ready(entered) => permit = entered,
                Poll::Pending => break,
            }
            overtook += 1;
            assert!(overtook <= OVERTAKEN + 1, "the heavy attempt is never admitted");
        }
        drop(permit);
        assert!(poll(waiting.as_mut()).is_ready());
    }
}
