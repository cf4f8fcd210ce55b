//! Slots for connections: how many there are in total and per address, and which connection is closed when they are all
//! in use.
//!
//! A connection on which no request has been admitted yet is *unproven*: it has sent nothing, or nothing with a right
//! key. Unproven ones cost a client nothing, so they must never keep out a client with a request: when all slots are in
//! use, the oldest unproven connection is closed for the new one. Proven connections keep their slot; when only such
//! are left, a new one waits for a slot, or is refused if its address already has all the slots that one address may
//! have.
//!
//! The lock is taken when a connection opens, for each request until it is proven, and when it closes; not for every
//! request.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;

use crate::http::transport::peer::ClientAddress;

/// All slots. Cheap to clone.
#[derive(Clone)]
pub struct ConnectionSlots(Arc<Shared>);

struct Shared {
    most: usize,
    most_of_address: usize,
    table: Mutex<Table>,
    /// A slot has become free. Only the task that accepts connections waits for this.
    freed: Notify,
}

#[derive(Default)]
struct Table {
    open: usize,
    addresses: HashMap<IpAddr, OfAddress>,
    /// Connections on which nothing was admitted so far, by their number: the oldest first.
    unproven: BTreeMap<u64, Unproven>,
    /// Connections that were asked to close and have not yet. One at a time is enough, because only one new connection
    /// waits for a slot.
    closing: usize,
    next: u64,
}

#[derive(Default)]
struct OfAddress {
    open: usize,
    unproven: BTreeSet<u64>,
    closing: usize,
}

struct Unproven {
    address: IpAddr,
    close_now: Arc<Notify>,
}

/// The slot of one connection, freed when this is dropped.
pub struct ConnectionSlot {
    slots: ConnectionSlots,
    address: IpAddr,
    number: u64,
    has_request: AtomicBool,
    is_proven: AtomicBool,
    close_now: Arc<Notify>,
}

/// The address has all the connections that one address may have, and none of them is unproven.
#[derive(Debug)]
pub struct AddressFull;

/// The result of trying to get a slot.
enum Tried {
    Taken(Arc<ConnectionSlot>),
    Wait,
    AddressFull,
}

impl ConnectionSlots {
    pub fn new(most: usize, most_of_address: usize) -> ConnectionSlots {
        ConnectionSlots(Arc::new(Shared { most, most_of_address, table: Mutex::default(), freed: Notify::new() }))
    }

    /// How many connections are open, and how many may be.
    pub fn in_use(&self) -> (usize, usize) {
        (self.lock().open, self.0.most)
    }

    /// A slot for a connection from this address, as soon as there is one. Called by one task only.
    pub async fn take(&self, address: IpAddr) -> Result<Arc<ConnectionSlot>, AddressFull> {
        let address = ClientAddress::new(address).network();
        loop {
            match self.try_take(address) {
                Tried::Taken(slot) => return Ok(slot),
                Tried::AddressFull => return Err(AddressFull),
                Tried::Wait => self.0.freed.notified().await,
            }
        }
    }

    fn try_take(&self, address: IpAddr) -> Tried {
        let mut table = self.lock();
        if table.open >= self.0.most {
            return match table.unproven.first_key_value() {
                Some((number, _)) if table.closing == 0 => {
                    let number = *number;
                    table.close(number)
                }
                _ => Tried::Wait,
            };
        }
        if let Some(of) = table.addresses.get(&address).filter(|of| of.open >= self.0.most_of_address) {
            return match of.unproven.first().copied() {
                _ if of.closing > 0 => Tried::Wait,
                Some(number) => table.close(number),
                None => Tried::AddressFull,
            };
        }
        Tried::Taken(Arc::new(self.admit(&mut table, address)))
    }

    fn admit(&self, table: &mut Table, address: IpAddr) -> ConnectionSlot {
        let number = table.next;
        let close_now = Arc::new(Notify::new());
        table.next += 1;
        table.open += 1;
        table.unproven.insert(number, Unproven { address, close_now: Arc::clone(&close_now) });
        let of = table.addresses.entry(address).or_default();
        of.open += 1;
        of.unproven.insert(number);
        let (has_request, is_proven) = (AtomicBool::new(false), AtomicBool::new(false));
        ConnectionSlot { slots: self.clone(), address, number, has_request, is_proven, close_now }
    }

    /// Closes the oldest unproven connection, if there is one: the process has run out of descriptors.
    pub fn close_oldest(&self) {
        let mut table = self.lock();
        if let Some(number) = table.unproven.first_key_value().map(|(number, _)| *number) {
            table.close(number);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // Nothing can panic in the middle of a change, so a poisoned lock holds nothing inconsistent.
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn close(&mut self, number: u64) -> Tried {
        if let Some(unproven) = self.forget(number) {
            self.closing += 1;
            if let Some(of) = self.addresses.get_mut(&unproven.address) {
                of.closing += 1;
            }
            unproven.close_now.notify_one();
        }
        Tried::Wait
    }

    /// Removes a connection that is proven now, or has closed.
    fn forget(&mut self, number: u64) -> Option<Unproven> {
        let unproven = self.unproven.remove(&number)?;
        if let Some(of) = self.addresses.get_mut(&unproven.address) {
            of.unproven.remove(&number);
        }
        Some(unproven)
    }
}

impl ConnectionSlot {
    /// The head of a request has arrived. False if the slot was given to another connection just before: this one is
    /// being closed.
    pub fn request_arrived(&self) -> bool {
        if self.is_proven.load(Ordering::Relaxed) {
            return true;
        }
        let is_ours = self.slots.lock().unproven.contains_key(&self.number);
        self.has_request.store(is_ours, Ordering::Relaxed);
        is_ours
    }

    /// A request was admitted. False if the slot was given to another connection just before.
    pub fn prove(&self) -> bool {
        if self.is_proven.load(Ordering::Relaxed) {
            return true;
        }
        let was_unproven = self.slots.lock().forget(self.number).is_some();
        self.is_proven.store(was_unproven, Ordering::Relaxed);
        was_unproven
    }

    /// Returns when the connection is to be closed: for another one, or because no request has arrived for too long.
    pub async fn closing(&self, timeout: Duration) {
        tokio::select! {
            () = self.close_now.notified() => {}
            () = sleep(timeout) => {
                if self.has_request.load(Ordering::Relaxed) {
                    self.close_now.notified().await;
                }
            }
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut table = self.slots.lock();
        let was_unproven = table.forget(self.number).is_some();
        let was_closing = usize::from(!was_unproven && !self.is_proven.load(Ordering::Relaxed));
        table.open -= 1;
        table.closing -= was_closing;
        if let Some(of) = table.addresses.get_mut(&self.address) {
            of.open -= 1;
            of.closing -= was_closing;
            if of.open == 0 {
                table.addresses.remove(&self.address);
            }
        }
        drop(table);
        self.slots.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So long that only a bug reaches it.
    const NEVER: Duration = Duration::from_secs(3_600);

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    /// A connection as the server holds it: it closes when it is asked to.
    fn connect(slot: Arc<ConnectionSlot>) -> tokio::task::JoinHandle<()> {
        tokio::spawn(async move { slot.closing(NEVER).await })
    }

    #[tokio::test]
    async fn the_oldest_unproven_connection_is_closed_and_proven_ones_stay() {
        let slots = ConnectionSlots::new(3, 3);
        let busy = slots.take(address(1)).await.expect("a slot");
        assert!(busy.prove());
        let first = connect(slots.take(address(1)).await.expect("a slot"));
        let second = connect(slots.take(address(2)).await.expect("a slot"));
        let third = slots.take(address(3)).await.expect("the first is closed for it");
        first.await.expect("it was closed");
        assert!(!second.is_finished());
        assert!(third.prove() && busy.prove());
        let fourth = slots.take(address(3)).await.expect("the second is closed for it");
        second.await.expect("it was closed");
        assert!(fourth.prove());
        // Now all of them are proven, and a new connection waits until one closes.
        let waiting = tokio::spawn({
            let slots = slots.clone();
            async move { slots.take(address(4)).await.is_ok() }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(busy);
        assert!(waiting.await.expect("no panic"));
    }

    #[tokio::test]
    async fn one_address_gets_no_more_than_its_share() {
        let slots = ConnectionSlots::new(10, 2);
        let unproven = connect(slots.take(address(1)).await.expect("a slot"));
        let busy = slots.take(address(1)).await.expect("a slot");
        assert!(busy.prove());
        let next = slots.take(address(1)).await.expect("the unproven one is closed for it");
        unproven.await.expect("it was closed");
        assert!(next.prove());
        assert!(slots.take(address(1)).await.is_err(), "both of its slots are in use");
        assert!(slots.take(address(2)).await.is_ok(), "other addresses are not affected");
        drop(next);
        assert!(slots.take(address(1)).await.is_ok());
    }

    #[tokio::test]
    async fn a_request_that_arrives_too_late_finds_its_slot_gone() {
        let slots = ConnectionSlots::new(1, 1);
        let late = slots.take(address(1)).await.expect("a slot");
        slots.close_oldest();
        assert!(!late.request_arrived() && !late.prove() && !late.request_arrived());
        late.closing(NEVER).await;
        drop(late);
        assert!(slots.take(address(1)).await.is_ok());
        assert_eq!(slots.lock().open, 0, "every slot is free again");
        assert!(slots.lock().addresses.is_empty());
    }

    #[tokio::test]
    async fn a_request_that_is_not_admitted_keeps_no_slot() {
        let slots = ConnectionSlots::new(1, 1);
        let stranger = slots.take(address(1)).await.expect("a slot");
        assert!(stranger.request_arrived());
        let held = connect(Arc::clone(&stranger));
        drop(stranger);
        let next = slots.take(address(2)).await.expect("the stranger is closed for it");
        held.await.expect("it was closed");
        assert!(next.request_arrived() && next.prove() && next.request_arrived());
        drop(next);
        assert_eq!(slots.lock().open, 0, "every slot is free again");
    }
}
