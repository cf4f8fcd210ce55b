//! Places for connections: how many there are in all and for one address, and who gives way when they are taken.
//!
//! A connection that has not sent a whole request yet is *silent*. Silent ones cost nothing to make, so that many of them must never
//! keep out somebody who wants something: when all places are taken, the oldest silent connection is closed for the newcomer. Those
//! that have sent a request keep their place; when only such are left, a newcomer waits (for any place) or is turned away (when its
//! own address has all that one may have).
//!
//! The lock is taken when a connection begins, when its first request has come, and when it ends; not for every request.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::pending;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;

/// All places. Cheap to clone.
#[derive(Clone)]
pub struct ConnectionSlots(Arc<Shared>);

struct Shared {
    most: usize,
    most_of_address: usize,
    table: Mutex<Table>,
    /// A place has become free. Only the one who accepts connections waits for it.
    freed: Notify,
}

#[derive(Default)]
struct Table {
    open: usize,
    addresses: HashMap<IpAddr, OfAddress>,
    /// Connections without a request so far, by their number: the oldest first.
    silent: BTreeMap<u64, Silent>,
    /// Those that were told to give way, and are about to. One at a time is enough: only one newcomer wants a place.
    closing: usize,
    next: u64,
}

#[derive(Default)]
struct OfAddress {
    open: usize,
    silent: BTreeSet<u64>,
    closing: usize,
}

struct Silent {
    address: IpAddr,
    gives_way: Arc<Notify>,
}

/// The place of one connection; free again when this is dropped.
pub struct ConnectionSlot {
    places: ConnectionSlots,
    address: IpAddr,
    number: u64,
    heard: AtomicBool,
    gives_way: Arc<Notify>,
}

/// One address has all the places that one may have, and uses them.
#[derive(Debug)]
pub struct AddressFull;

/// How trying to get a place went.
enum Tried {
    Taken(Arc<ConnectionSlot>),
    Wait,
    AddressFull,
}

impl ConnectionSlots {
    pub fn new(most: usize, most_of_address: usize) -> ConnectionSlots {
        ConnectionSlots(Arc::new(Shared { most, most_of_address, table: Mutex::default(), freed: Notify::new() }))
    }

    /// A place for a connection from this address, as soon as there is one. Called by one task only.
    pub async fn take(&self, address: IpAddr) -> Result<Arc<ConnectionSlot>, AddressFull> {
        let address = group(address);
        loop {
            match self.try_take(address) {
                Tried::Taken(place) => return Ok(place),
                Tried::AddressFull => return Err(AddressFull),
                Tried::Wait => self.0.freed.notified().await,
            }
        }
    }

    fn try_take(&self, address: IpAddr) -> Tried {
        let mut table = self.lock();
        if table.open >= self.0.most {
            return match table.silent.first_key_value() {
                Some((number, _)) if table.closing == 0 => {
                    let number = *number;
                    table.close(number)
                }
                _ => Tried::Wait,
            };
        }
        if let Some(of) = table.addresses.get(&address).filter(|of| of.open >= self.0.most_of_address) {
            return match of.silent.first().copied() {
                _ if of.closing > 0 => Tried::Wait,
                Some(number) => table.close(number),
                None => Tried::AddressFull,
            };
        }
        Tried::Taken(Arc::new(self.admit(&mut table, address)))
    }

    fn admit(&self, table: &mut Table, address: IpAddr) -> ConnectionSlot {
        let number = table.next;
        let gives_way = Arc::new(Notify::new());
        table.next += 1;
        table.open += 1;
        table.silent.insert(number, Silent { address, gives_way: Arc::clone(&gives_way) });
        let of = table.addresses.entry(address).or_default();
        of.open += 1;
        of.silent.insert(number);
        ConnectionSlot { places: self.clone(), address, number, heard: AtomicBool::new(false), gives_way }
    }

    /// Closes the oldest silent connection, if there is one: the process has run out of descriptors.
    pub fn close_oldest(&self) {
        let mut table = self.lock();
        if let Some(number) = table.silent.first_key_value().map(|(number, _)| *number) {
            table.close(number);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // Every change is made whole before anything can panic.
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn close(&mut self, number: u64) -> Tried {
        if let Some(silent) = self.forget(number) {
            self.closing += 1;
            if let Some(of) = self.addresses.get_mut(&silent.address) {
                of.closing += 1;
            }
            silent.gives_way.notify_one();
        }
        Tried::Wait
    }

    /// It is not silent any more, or has ended.
    fn forget(&mut self, number: u64) -> Option<Silent> {
        let silent = self.silent.remove(&number)?;
        if let Some(of) = self.addresses.get_mut(&silent.address) {
            of.silent.remove(&number);
        }
        Some(silent)
    }
}

impl ConnectionSlot {
    /// A whole request has come. False when the place was given away a moment before: the connection is being closed.
    pub fn heard(&self) -> bool {
        if self.heard.load(Ordering::Relaxed) {
            return true;
        }
        let heard = self.places.lock().forget(self.number).is_some();
        self.heard.store(heard, Ordering::Relaxed);
        heard
    }

    /// Returns when the connection is to be closed: it gives way to another, or has been silent for too long.
    pub async fn lost(&self, patience: Duration) {
        tokio::select! {
            () = self.gives_way.notified() => {}
            () = sleep(patience) => {
                if self.heard.load(Ordering::Relaxed) {
                    pending::<()>().await;
                }
            }
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut table = self.places.lock();
        let was_silent = table.forget(self.number).is_some();
        let was_closing = usize::from(!was_silent && !self.heard.load(Ordering::Relaxed));
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
        self.places.0.freed.notify_one();
    }
}

/// Whose connection it is: a network of IPv6 addresses is one customer's, who can use any of them.
fn group(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So long that only a fault reaches it.
    const NEVER: Duration = Duration::from_secs(3_600);

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    /// A connection as the server holds it: it ends when it is told to give way.
    fn connect(place: Arc<ConnectionSlot>) -> tokio::task::JoinHandle<()> {
        tokio::spawn(async move { place.lost(NEVER).await })
    }

    #[tokio::test]
    async fn the_oldest_silent_connection_gives_way_and_those_that_spoke_stay() {
        let places = ConnectionSlots::new(3, 3);
        let busy = places.take(address(1)).await.expect("a place");
        assert!(busy.heard());
        let first = connect(places.take(address(1)).await.expect("a place"));
        let second = connect(places.take(address(2)).await.expect("a place"));
        let third = places.take(address(3)).await.expect("the first gives way");
        first.await.expect("it was closed");
        assert!(!second.is_finished());
        assert!(third.heard() && busy.heard());
        let fourth = places.take(address(3)).await.expect("the second gives way");
        second.await.expect("it was closed");
        assert!(fourth.heard());
        // Now all of them have sent a request: whoever comes waits until one ends.
        let waiting = tokio::spawn({
            let places = places.clone();
            async move { places.take(address(4)).await.is_ok() }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(busy);
        assert!(waiting.await.expect("no panic"));
    }

    #[tokio::test]
    async fn one_address_takes_no_more_than_its_share() {
        let places = ConnectionSlots::new(10, 2);
        let silent = connect(places.take(address(1)).await.expect("a place"));
        let busy = places.take(address(1)).await.expect("a place");
        assert!(busy.heard());
        let next = places.take(address(1)).await.expect("the silent one gives way");
        silent.await.expect("it was closed");
        assert!(next.heard());
        assert!(places.take(address(1)).await.is_err(), "both of its places are in use");
        assert!(places.take(address(2)).await.is_ok(), "others do not notice");
        drop(next);
        assert!(places.take(address(1)).await.is_ok());
    }

    #[tokio::test]
    async fn a_request_that_comes_too_late_is_told_that_its_place_is_gone() {
        let places = ConnectionSlots::new(1, 1);
        let late = places.take(address(1)).await.expect("a place");
        places.close_oldest();
        assert!(!late.heard() && !late.heard());
        late.lost(NEVER).await;
        drop(late);
        assert!(places.take(address(1)).await.is_ok());
        assert_eq!(places.lock().open, 0, "every place is free again");
        assert!(places.lock().addresses.is_empty());
    }

    #[test]
    fn a_network_of_ipv6_addresses_counts_as_one() {
        let group = |text: &str| group(text.parse().expect("an address"));
        assert_eq!(group("2001:db8:1:2:3::4"), group("2001:db8:1:2:ffff::9"));
        assert_ne!(group("2001:db8:1:2::4"), group("2001:db8:1:3::4"));
        assert_eq!(group("::ffff:192.0.2.1"), group("192.0.2.1"));
        assert_ne!(group("192.0.2.1"), group("192.0.2.2"));
    }
}
