//! What is due when: an ordered keyspace with a bounded head in memory. Read from a cursor, never from the start, so
//! that millions of fired timers cost a later look nothing.

use std::collections::BTreeSet;

use windlass_core::Time;

use crate::disk::keys;
use crate::disk::keys::TimerFor;
use crate::disk::{Disk, DiskError, Space};
use crate::limits::Tuning;

pub struct Timers {
    tuning: Tuning,
    /// The earliest timers, in order. Every stored timer before `horizon` is in here.
    head: BTreeSet<Vec<u8>>,
    /// Where the next page starts; none when all that is stored is in memory.
    horizon: Option<Vec<u8>>,
    /// All earlier than this have fired: where a restart begins to read.
    floor: Time,
}

impl Timers {
    pub fn new(floor: Time, tuning: Tuning) -> Timers {
        Timers { tuning, head: BTreeSet::new(), horizon: Some(floor.millis().to_be_bytes().to_vec()), floor }
    }

    pub fn floor(&self) -> Time {
        self.floor
    }

    /// Follows a committed change.
    pub fn added(&mut self, key: Vec<u8>) {
        if self.horizon.as_ref().is_some_and(|horizon| key >= *horizon) {
            return;
        }
        self.head.insert(key);
        if self.head.len() > 2 * self.tuning.timers {
            // Keep the earliest; the rest is read again when its time comes near.
            let later = self.head.iter().nth(self.tuning.timers).cloned();
            if let Some(later) = later {
                self.head.split_off(&later);
                self.horizon = Some(later);
            }
        }
    }

    pub fn removed(&mut self, key: &[u8]) {
        self.head.remove(key);
    }

    /// When to look next; none when nothing is stored.
    pub fn next(&mut self, disk: &impl Disk) -> Result<Option<Time>, DiskError> {
        self.fill(disk)?;
        Ok(self.head.first().and_then(|key| keys::read_timer(key)).map(|(at, _)| at))
    }

    /// The next timer that is due, with its key. It stays until a commit removes it.
    pub fn due(&mut self, disk: &impl Disk, now: Time) -> Result<Option<(Vec<u8>, TimerFor)>, DiskError> {
        self.fill(disk)?;
        let Some(key) = self.head.first() else { return Ok(None) };
        match keys::read_timer(key) {
            Some((at, what)) if at <= now => {
                self.floor = self.floor.max(at);
                let key = key.clone();
                self.head.remove(&key);
                Ok(Some((key, what)))
            }
            Some(_) => Ok(None),
            None => Err(DiskError::Row { space: Space::Timers, why: "a timer's key makes no sense".into() }),
        }
    }

    fn fill(&mut self, disk: &impl Disk) -> Result<(), DiskError> {
        while self.head.is_empty() {
            let Some(from) = self.horizon.take() else { return Ok(()) };
            let page = disk.scan(Space::Timers, &from, &[u8::MAX; 16], self.tuning.timers)?;
            if page.len() == self.tuning.timers
                && let Some((last, _)) = page.last()
            {
                let mut next = last.to_vec();
                next.push(0);
                self.horizon = Some(next);
            }
            self.head = page.into_iter().map(|(key, _)| key.to_vec()).collect();
        }
        Ok(())
    }
}
