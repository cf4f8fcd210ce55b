//! The way into the instance pool: fair between plugins, and first come first served within one.
//!
//! The pool answers with an error when it is exhausted, so attempts wait here instead. A place has a weight: what the component
//! takes of the pool. The plugin that holds least goes next, so that a thousand waiting jobs of one plugin do not hold up the
//! only one of another; and the last eighth of the pool is for plugins that hold less than that, so that no plugin fills it
//! with attempts that sleep.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::limits::{OVERTAKEN, RESERVED_PART};

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Gate(Arc<Mutex<Places>>);

struct Places {
    free: u32,
    reserve: u32,
    /// Who holds or waits for places.
    lines: HashMap<Arc<str>, Line>,
    /// Counts up with every place handed out: who was served longest ago goes first among equals.
    turn: u64,
}

#[derive(Default)]
struct Line {
    held: u32,
    served: u64,
    /// How often lighter ones went first because the head of this line did not fit.
    overtaken: u32,
    waiting: VecDeque<Waiter>,
}

struct Waiter {
    weight: u32,
    give: oneshot::Sender<Place>,
}

/// A place in the pool. Dropping it gives it back.
pub(crate) struct Place {
    gate: Gate,
    plugin: Arc<str>,
    weight: u32,
}

impl Gate {
    pub(crate) fn new(places: u32) -> Self {
        let places = Places { free: places, reserve: places / RESERVED_PART, lines: HashMap::new(), turn: 0 };
        Gate(Arc::new(Mutex::new(places)))
    }

    /// A place at once, or none. Nobody who waits is passed over.
    pub(crate) fn try_enter(&self, plugin: &Arc<str>, weight: u32) -> Option<Place> {
        let mut places = self.lock();
        if places.anyone_waits() || !places.fits(plugin, weight) {
            return None;
        }
        Some(places.take(self, plugin, weight))
    }

    /// A place, when it is this plugin's turn. To drop the future is to leave the line.
    pub(crate) async fn enter(&self, plugin: &Arc<str>, weight: u32) -> Option<Place> {
        let (give, given) = oneshot::channel();
        self.lock().lines.entry(Arc::clone(plugin)).or_default().waiting.push_back(Waiter { weight, give });
        self.hand_out();
        given.await.ok()
    }

    pub(crate) fn anyone_waits(&self) -> bool {
        self.lock().anyone_waits()
    }

    fn hand_out(&self) {
        // Given away outside the lock: a place whose taker has gone comes back through `drop`, which locks again.
        loop {
            let next = self.lock().next(self);
            let Some((give, place)) = next else { return };
            let _ = give.send(place);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        // Every change below is complete before anything can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Places {
    fn anyone_waits(&self) -> bool {
        self.lines.values().any(|line| !line.waiting.is_empty())
    }

    fn fits(&self, plugin: &Arc<str>, weight: u32) -> bool {
        let held = self.lines.get(plugin).map_or(0, |line| line.held);
        let left = self.free.checked_sub(weight);
        left.is_some_and(|left| left >= self.reserve || held < self.reserve)
    }

    fn take(&mut self, gate: &Gate, plugin: &Arc<str>, weight: u32) -> Place {
        self.free -= weight;
        self.turn += 1;
        let line = self.lines.entry(Arc::clone(plugin)).or_default();
        line.held += weight;
        line.served = self.turn;
        line.overtaken = 0;
        Place { gate: gate.clone(), plugin: Arc::clone(plugin), weight }
    }

    /// The next to be let in, if anybody can be.
    fn next(&mut self, gate: &Gate) -> Option<(oneshot::Sender<Place>, Place)> {
        for line in self.lines.values_mut() {
            line.waiting.retain(|waiter| !waiter.give.is_closed());
        }
        let mut order: Vec<(u32, u64, Arc<str>, u32)> = self
            .lines
            .iter()
            .filter_map(|(plugin, line)| {
                let head = line.waiting.front()?;
                Some((line.held, line.served, Arc::clone(plugin), head.weight))
            })
            .collect();
        order.sort_unstable();
        let at = order.iter().position(|(_, _, plugin, weight)| self.fits(plugin, *weight))?;
        // Lighter ones may go before those that do not fit, but not for ever.
        for (_, _, plugin, _) in &order[..at] {
            let line = self.lines.get_mut(plugin)?;
            if line.overtaken >= OVERTAKEN {
                return None;
            }
            line.overtaken += 1;
        }
        let (_, _, plugin, weight) = &order[at];
        let waiter = self.lines.get_mut(plugin)?.waiting.pop_front()?;
        Some((waiter.give, self.take(gate, plugin, *weight)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        {
            let mut places = self.gate.lock();
            places.free += self.weight;
            if let Some(line) = places.lines.get_mut(&self.plugin) {
                line.held = line.held.saturating_sub(self.weight);
                if line.held == 0 && line.waiting.is_empty() {
                    places.lines.remove(&self.plugin);
                }
            }
        }
        self.gate.hand_out();
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
    fn the_plugin_that_holds_least_goes_next() {
        let gate = Gate::new(4);
        let (many, one) = (plugin("many"), plugin("one"));
        let mut held: Vec<Place> = (0..4).filter_map(|_| gate.try_enter(&many, 1)).collect();
        assert_eq!(held.len(), 4);
        let mut first = pin!(gate.enter(&many, 1));
        let mut late = pin!(gate.enter(&one, 1));
        assert!(poll(first.as_mut()).is_pending() && poll(late.as_mut()).is_pending());
        held.pop();
        assert!(poll(late.as_mut()).is_ready(), "it came last, and holds nothing");
        assert!(poll(first.as_mut()).is_ready(), "the place was given back with the future that held it");
    }

    #[test]
    fn the_last_eighth_is_not_for_who_holds_much() {
        let gate = Gate::new(16);
        let (greedy, modest) = (plugin("greedy"), plugin("modest"));
        let held: Vec<Place> = std::iter::from_fn(|| gate.try_enter(&greedy, 1)).collect();
        assert_eq!(held.len(), 14);
        assert!(gate.try_enter(&modest, 2).is_some());
    }

    #[test]
    fn who_leaves_the_line_loses_no_place() {
        let gate = Gate::new(1);
        let name = plugin("one");
        let place = gate.try_enter(&name, 1).expect("a free place");
        {
            let mut gone = pin!(gate.enter(&name, 1));
            assert!(poll(gone.as_mut()).is_pending());
            // The place is handed to a waiter that is dropped before it takes it.
            drop(place);
        }
        assert!(gate.try_enter(&name, 1).is_some());
        assert!(gate.lock().lines.len() <= 1);
    }

    #[test]
    fn a_heavy_one_is_not_overtaken_for_ever() {
        let gate = Gate::new(2);
        let (heavy, light) = (plugin("heavy"), plugin("light"));
        let mut place = gate.try_enter(&light, 1);
        let mut waiting = pin!(gate.enter(&heavy, 2));
        assert!(poll(waiting.as_mut()).is_pending());
        let mut overtook = 0;
        loop {
            let mut next = pin!(gate.enter(&light, 1));
            match poll(next.as_mut()) {
                Poll::Ready(entered) => place = entered,
                Poll::Pending => break,
            }
            overtook += 1;
            assert!(overtook <= OVERTAKEN + 1, "the heavy one never gets its turn");
        }
        drop(place);
        assert!(poll(waiting.as_mut()).is_ready());
    }
}
