//! The memory that the bodies of all requests may take together, from their first byte until the request has been
//! handled.
//!
//! A body is weighed as it grows, not by what it could become. When there is no room for more, one of those that are
//! still arriving gives way: the one that has held the most memory for the longest time. So many slow bodies cannot
//! keep out a client that sends its own and is done. Small bodies never give way, because they take hardly more than
//! their connections do.
//!
//! `extract::read` takes a share for each body. The lock is taken only for bodies that are not small.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;

use crate::limits;

/// The memory for all bodies. Cheap to clone.
#[derive(Clone)]
pub struct BodyBudget(Arc<Shared>);

struct Shared {
    most: usize,
    held: AtomicUsize,
    arriving: Mutex<Arriving>,
}

/// Bodies that are not small and are still arriving, by their number. What is not in here cannot give way.
#[derive(Default)]
struct Arriving {
    bodies: BTreeMap<u64, Weight>,
    next: u64,
}

struct Weight {
    bytes: usize,
    since: Instant,
    give_way: Arc<Notify>,
}

/// What one body takes, free again when this is dropped.
pub struct BodyShare {
    budget: BodyBudget,
    since: Instant,
    bytes: usize,
    /// Its entry among those that are arriving.
    entry: Option<Entry>,
}

struct Entry {
    number: u64,
    give_way: Arc<Notify>,
}

/// Why a body cannot grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoom {
    /// Others take the memory; there will be some in a moment.
    Now,
    /// It is larger than all the memory.
    Ever,
}

impl BodyBudget {
    pub fn new(most: usize) -> BodyBudget {
        BodyBudget(Arc::new(Shared { most, held: AtomicUsize::new(0), arriving: Mutex::default() }))
    }

    /// How much of it is in use.
    pub fn held(&self) -> usize {
        self.0.held.load(Ordering::Relaxed)
    }

    /// All of it.
    pub fn most(&self) -> usize {
        self.0.most
    }

    /// A share for a body that begins to arrive now.
    pub fn share(&self, now: Instant) -> BodyShare {
        BodyShare { budget: self.clone(), since: now, bytes: 0, entry: None }
    }

    fn arriving(&self) -> MutexGuard<'_, Arriving> {
        // Nothing can panic in the middle of a change, so a poisoned lock holds nothing inconsistent.
        self.0.arriving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_exceeded(&self) -> bool {
        self.0.held.load(Ordering::Relaxed) > self.0.most
    }
}

impl BodyShare {
    /// The body takes this many bytes from now on. If there is no room, another may have to give way.
    pub fn grow(&mut self, bytes: usize, now: Instant) -> Result<(), NoRoom> {
        let budget = self.budget.clone();
        let more = bytes.saturating_sub(self.bytes);
        if bytes <= limits::SMALL_BODY {
            self.bytes += more;
            budget.0.held.fetch_add(more, Ordering::Relaxed);
            return Ok(());
        }
        if bytes > budget.0.most {
            return Err(NoRoom::Ever);
        }
        let mut arriving = budget.arriving();
        let number = match &self.entry {
            // It has given way already.
            Some(entry) if !arriving.bodies.contains_key(&entry.number) => return Err(NoRoom::Now),
            Some(entry) => entry.number,
            None => self.register(&mut arriving),
        };
        self.bytes += more;
        budget.0.held.fetch_add(more, Ordering::Relaxed);
        if let Some(weight) = arriving.bodies.get_mut(&number) {
            weight.bytes = self.bytes;
        }
        while budget.is_exceeded() {
            match arriving.heaviest(now) {
                Some(heaviest) if heaviest != number => arriving.dismiss(&budget, heaviest),
                _ => return Err(NoRoom::Now),
            }
        }
        Ok(())
    }

    fn register(&mut self, arriving: &mut Arriving) -> u64 {
        let (number, give_way) = (arriving.next, Arc::new(Notify::new()));
        arriving.next += 1;
        arriving
            .bodies
            .insert(number, Weight { bytes: self.bytes, since: self.since, give_way: Arc::clone(&give_way) });
        self.entry = Some(Entry { number, give_way });
        number
    }

    /// Returns when the body has to give way to others.
    pub async fn must_give_way(&self) {
        match &self.entry {
            Some(entry) => entry.give_way.notified().await,
            None => pending().await,
        }
    }

    /// The whole body is there, and no longer gives way; unless it had to a moment ago.
    pub fn has_arrived(&mut self) -> Result<(), NoRoom> {
        let Some(entry) = &self.entry else { return Ok(()) };
        self.budget.arriving().bodies.remove(&entry.number).ok_or(NoRoom::Now)?;
        self.entry = None;
        Ok(())
    }
}

impl Arriving {
    /// The body that has held the most memory for the longest time; of two alike, the newer.
    fn heaviest(&self, now: Instant) -> Option<u64> {
        let cost = |weight: &Weight| weight.bytes as u128 * now.saturating_duration_since(weight.since).as_micros();
        self.bodies.iter().max_by_key(|(_, weight)| cost(weight)).map(|(number, _)| *number)
    }

    fn dismiss(&mut self, budget: &BodyBudget, number: u64) {
        if let Some(weight) = self.bodies.remove(&number) {
            budget.0.held.fetch_sub(weight.bytes, Ordering::Relaxed);
            weight.give_way.notify_one();
        }
    }
}

impl Drop for BodyShare {
    fn drop(&mut self) {
        // Whoever made it give way has freed its bytes.
        let is_held = match &self.entry {
            Some(entry) => self.budget.arriving().bodies.remove(&entry.number).is_some(),
            None => true,
        };
        if is_held {
            self.budget.0.held.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MIB: usize = 1 << 20;

    /// Seconds after some start.
    struct Clock(Instant);

    impl Clock {
        fn at(&self, seconds: u64) -> Instant {
            self.0 + Duration::from_secs(seconds)
        }
    }

    fn held(budget: &BodyBudget) -> usize {
        budget.0.held.load(Ordering::Relaxed)
    }

    #[test]
    fn the_slowest_large_body_gives_way_to_one_that_needs_room() {
        let (budget, clock) = (BodyBudget::new(4 * MIB), Clock(Instant::now()));
        let mut slow = budget.share(clock.at(0));
        let mut quick = budget.share(clock.at(9));
        slow.grow(2 * MIB, clock.at(1)).expect("room");
        quick.grow(2 * MIB, clock.at(10)).expect("room");
        let mut new = budget.share(clock.at(10));
        new.grow(MIB, clock.at(10)).expect("the slow one gives way");
        assert_eq!(held(&budget), 3 * MIB);
        assert_eq!(slow.grow(3 * MIB, clock.at(10)), Err(NoRoom::Now));
        assert_eq!(slow.has_arrived(), Err(NoRoom::Now));
        quick.has_arrived().expect("it was not asked to give way");
        drop((slow, quick, new));
        assert_eq!(held(&budget), 0);
        assert!(budget.arriving().bodies.is_empty());
    }

    #[test]
    fn a_body_that_has_arrived_keeps_its_memory_and_others_are_refused() {
        let (budget, clock) = (BodyBudget::new(2 * MIB), Clock(Instant::now()));
        let mut first = budget.share(clock.at(0));
        first.grow(2 * MIB, clock.at(0)).expect("room");
        first.has_arrived().expect("in time");
        let mut second = budget.share(clock.at(5));
        assert_eq!(second.grow(MIB, clock.at(6)), Err(NoRoom::Now));
        drop(second);
        let mut small = budget.share(clock.at(6));
        small.grow(limits::SMALL_BODY, clock.at(6)).expect("a small one always has room");
        drop((first, small));
        assert_eq!(held(&budget), 0);
    }

    #[test]
    fn a_body_larger_than_everything_is_refused_for_good() {
        let budget = BodyBudget::new(MIB);
        let mut share = budget.share(Instant::now());
        assert_eq!(share.grow(MIB + 1, Instant::now()), Err(NoRoom::Ever));
        drop(share);
        assert_eq!(held(&budget), 0);
    }

    #[test]
    fn a_body_gives_way_once_it_is_the_one_that_costs_most() {
        let (budget, clock) = (BodyBudget::new(3 * MIB), Clock(Instant::now()));
        let mut steady = budget.share(clock.at(0));
        let mut other = budget.share(clock.at(5));
        other.grow(MIB, clock.at(6)).expect("room");
        steady.grow(2 * MIB, clock.at(7)).expect("room");
        // Growing makes it the most expensive of all, so it is not given the room of others.
        assert_eq!(steady.grow(3 * MIB, clock.at(8)), Err(NoRoom::Now));
        other.grow(MIB, clock.at(9)).expect("it keeps what it has");
        drop(steady);
        assert_eq!(held(&budget), MIB);
    }

    #[tokio::test]
    async fn whoever_has_to_give_way_hears_of_it() {
        let (budget, clock) = (BodyBudget::new(2 * MIB), Clock(Instant::now()));
        let mut slow = budget.share(clock.at(0));
        slow.grow(2 * MIB, clock.at(1)).expect("room");
        let waiting = tokio::spawn(async move { slow.must_give_way().await });
        tokio::task::yield_now().await;
        let mut new = budget.share(clock.at(2));
        new.grow(MIB, clock.at(2)).expect("room");
        waiting.await.expect("it hears of it");
        assert_eq!(held(&budget), MIB);
    }
}
