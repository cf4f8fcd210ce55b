//! Wrong keys, per client: after a few in a row, further ones are not judged for a while, and the while doubles. A
//! right key always counts, so that nobody is locked out by another program behind the same address.
//!
//! Called by access control, for every request with a key. Nothing is locked unless somebody has sent wrong ones
//! lately.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::http::transport::peer::ClientAddress;
use crate::limits;

/// Who has sent wrong keys.
#[derive(Default)]
pub struct Throttle {
    clients: Mutex<HashMap<IpAddr, WrongKeys>>,
    /// How many clients there are.
    count: AtomicUsize,
}

/// The wrong keys of one client.
#[derive(Clone, Copy)]
struct WrongKeys {
    in_a_row: u32,
    last: Instant,
    /// Until when further ones are refused without a look.
    until: Instant,
}

impl Throttle {
    /// Refuses another wrong key of a client that has to wait, and says how long.
    pub fn check(&self, client: ClientAddress, now: Instant) -> Result<(), Duration> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        let until = self.lock().get(&client.network()).map(|wrong| wrong.until);
        match until.map(|until| until.saturating_duration_since(now)) {
            Some(wait) if !wait.is_zero() => Err(wait),
            _ => Ok(()),
        }
    }

    /// A client has sent a wrong key.
    pub fn wrong(&self, client: ClientAddress, now: Instant) {
        let mut clients = self.lock();
        let network = client.network();
        if clients.len() >= limits::WRONG_KEY_CLIENTS && !clients.contains_key(&network) {
            make_room(&mut clients, now);
        }
        let wrong = clients.entry(network).or_insert(WrongKeys { in_a_row: 0, last: now, until: now });
        if is_forgotten(wrong, now) {
            wrong.in_a_row = 0;
        }
        wrong.in_a_row = wrong.in_a_row.saturating_add(1);
        wrong.last = now;
        wrong.until = now + wait(wrong.in_a_row);
        self.count.store(clients.len(), Ordering::Relaxed);
    }

    /// A client has sent a right key, so its wrong ones no longer count.
    pub fn right(&self, client: ClientAddress) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut clients = self.lock();
        clients.remove(&client.network());
        self.count.store(clients.len(), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, WrongKeys>> {
        // Nothing can panic in the middle of a change, so a poisoned lock holds nothing inconsistent.
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long to wait after this many wrong keys in a row.
fn wait(in_a_row: u32) -> Duration {
    match in_a_row.checked_sub(limits::WRONG_KEYS) {
        None => Duration::ZERO,
        Some(doublings) => {
            let factor = 1u32.checked_shl(doublings).unwrap_or(u32::MAX);
            limits::WRONG_KEY_WAIT.saturating_mul(factor).min(limits::WRONG_KEY_WAIT_MOST)
        }
    }
}

fn is_forgotten(wrong: &WrongKeys, now: Instant) -> bool {
    now.saturating_duration_since(wrong.last) > limits::WRONG_KEY_MEMORY
}

/// Removes the clients that are forgotten, or the older half of them if there are none.
fn make_room(clients: &mut HashMap<IpAddr, WrongKeys>, now: Instant) {
    let before = clients.len();
    clients.retain(|_, wrong| !is_forgotten(wrong, now));
    if clients.len() < before {
        return;
    }
    let mut times: Vec<Instant> = clients.values().map(|wrong| wrong.last).collect();
    let half = times.len() / 2;
    let (_, middle, _) = times.select_nth_unstable(half);
    let middle = *middle;
    clients.retain(|_, wrong| wrong.last > middle);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(last: u32) -> ClientAddress {
        ClientAddress::new(IpAddr::from(last.to_be_bytes()))
    }

    fn send_wrong(throttle: &Throttle, times: u32, now: Instant) {
        (0..times).for_each(|_| throttle.wrong(client(1), now));
    }

    #[test]
    fn after_a_few_wrong_keys_a_client_waits_and_each_time_twice_as_long() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        send_wrong(&throttle, limits::WRONG_KEYS - 1, start);
        assert_eq!(throttle.check(client(1), start), Ok(()));
        let mut now = start;
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            throttle.wrong(client(1), now);
            let wait = Duration::from_secs(seconds);
            assert_eq!(throttle.check(client(1), now), Err(wait));
            assert_eq!(throttle.check(client(2), now), Ok(()), "others are not affected");
            now += wait;
            assert_eq!(throttle.check(client(1), now), Ok(()), "after {seconds} s");
        }
        send_wrong(&throttle, 100, now);
        assert_eq!(throttle.check(client(1), now), Err(limits::WRONG_KEY_WAIT_MOST));
    }

    #[test]
    fn a_right_key_and_time_make_wrong_ones_forgotten() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        send_wrong(&throttle, limits::WRONG_KEYS, start);
        assert!(throttle.check(client(1), start).is_err());
        throttle.right(client(1));
        assert_eq!(throttle.check(client(1), start), Ok(()));
        assert_eq!(throttle.count.load(Ordering::Relaxed), 0);
        send_wrong(&throttle, limits::WRONG_KEYS, start);
        let later = start + limits::WRONG_KEY_MEMORY + Duration::from_secs(1);
        throttle.wrong(client(1), later);
        assert_eq!(throttle.check(client(1), later), Ok(()), "this is the first again");
    }

    #[test]
    fn the_clients_of_one_ipv6_network_count_as_one() {
        let address = |text: &str| ClientAddress::new(text.parse().expect("an address"));
        let (throttle, now) = (Throttle::default(), Instant::now());
        for last in 0..limits::WRONG_KEYS {
            throttle.wrong(address(&format!("2001:db8:0:1::{last:x}")), now);
        }
        assert!(throttle.check(address("2001:db8:0:1::ffff"), now).is_err());
        assert!(throttle.check(address("2001:db8:0:2::1"), now).is_ok());
    }

    #[test]
    fn there_are_never_more_clients_than_there_is_room_for_and_the_latest_stay() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        let many = limits::WRONG_KEY_CLIENTS as u32 * 3;
        for number in 0..many {
            throttle.wrong(client(number), start + Duration::from_millis(u64::from(number)));
            assert!(throttle.lock().len() <= limits::WRONG_KEY_CLIENTS);
        }
        assert!(throttle.lock().contains_key(&client(many - 1).network()));
        assert!(!throttle.lock().contains_key(&client(0).network()));
        // All at the same time is no reason to keep more.
        for number in 0..many {
            throttle.wrong(client(number), start);
        }
        assert!(throttle.lock().len() <= limits::WRONG_KEY_CLIENTS);
    }
}
