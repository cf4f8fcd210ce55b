//! The queues in memory: their rows, the lanes of their pending jobs, and which of them may have something to start.

use std::collections::{BTreeSet, HashMap};

use windlass_core::limits::Limiter;
use windlass_core::{Queue, QueueName, State, Time};

use crate::claim::lanes::QueueRings;
use crate::disk::{Disk, DiskError, Space, WriteBatch};
use crate::disk::{codec, keys};
use crate::limits::Tuning;

pub struct QueueState {
    pub row: Queue,
    pub line: QueueRings,
    pub limiter: Limiter,
    /// Too many starts: nothing starts before this.
    pub closed_until: Option<Time>,
    /// The row has changed since the last commit.
    pub dirty: bool,
    /// Something in its lanes has changed since the last commit.
    pub line_touched: bool,
}

impl QueueState {
    fn new(row: Queue, limiter: Limiter, tuning: Tuning) -> QueueState {
        QueueState {
            row,
            line: QueueRings::new(tuning),
            limiter,
            closed_until: None,
            dirty: false,
            line_touched: false,
        }
    }
}

#[derive(Default)]
pub struct Queues {
    by_name: HashMap<QueueName, QueueState>,
    names: HashMap<u32, QueueName>,
    /// Those in which something may have become startable.
    awake: BTreeSet<QueueName>,
}

impl Queues {
    pub fn read(disk: &impl Disk, rows: Vec<Queue>, tuning: Tuning) -> Result<Queues, DiskError> {
        let mut queues = Queues::default();
        for row in rows {
            let mut limiter: Limiter = match disk.get(Space::Limiters, &keys::limiter(row.id, ""))? {
                Some(bytes) => codec::decode(Space::Limiters, &bytes)?,
                None => Limiter::default(),
            };
            limiter.running = u32::try_from(row.counts.of(State::Active)).unwrap_or(u32::MAX);
            queues.insert(QueueState::new(row, limiter, tuning));
        }
        Ok(queues)
    }

    /// A queue that is not stored yet.
    pub fn add(&mut self, row: Queue, tuning: Tuning) {
        self.insert(QueueState { dirty: true, ..QueueState::new(row, Limiter::default(), tuning) });
    }

    fn insert(&mut self, queue: QueueState) {
        self.names.insert(queue.row.id, queue.row.name.clone());
        self.by_name.insert(queue.row.name.clone(), queue);
    }

    pub fn remove(&mut self, name: &QueueName) {
        if let Some(queue) = self.by_name.remove(name) {
            self.names.remove(&queue.row.id);
        }
    }

    pub fn contains(&self, name: &QueueName) -> bool {
        self.by_name.contains_key(name)
    }

    pub fn get(&self, name: &QueueName) -> Option<&QueueState> {
        self.by_name.get(name)
    }

    pub fn get_mut(&mut self, name: &QueueName) -> Option<&mut QueueState> {
        self.by_name.get_mut(name)
    }

    pub(crate) fn by_id(&self, id: u32) -> Option<&QueueState> {
        self.by_name.get(self.names.get(&id)?)
    }

    pub fn id_of(&self, name: &QueueName) -> Option<u32> {
        Some(self.by_name.get(name)?.row.id)
    }

    pub fn iter(&self) -> impl Iterator<Item = &QueueState> {
        self.by_name.values()
    }

    pub fn wake(&mut self, name: &QueueName) {
        // Asked first: most queues are awake already, and a name costs an allocation.
        if !self.awake.contains(name) {
            self.awake.insert(name.clone());
        }
    }

    /// Only if it has jobs that wait to be started.
    pub(crate) fn wake_if_waiting(&mut self, name: &QueueName) {
        if self.by_name.get(name).is_some_and(|queue| queue.row.counts.of(State::Pending) > 0) {
            self.wake(name);
        }
    }

    pub(crate) fn wake_all(&mut self) {
        self.awake.extend(self.by_name.keys().cloned());
    }

    pub(crate) fn any_awake(&self) -> bool {
        !self.awake.is_empty()
    }

    pub(crate) fn take_awake(&mut self) -> BTreeSet<QueueName> {
        std::mem::take(&mut self.awake)
    }

    /// The rate of a limit key has room again: its lanes take part in the choice.
    pub fn unpark(&mut self, id: u32, limit_key: &str) {
        let Some(queue) = self.names.get(&id).and_then(|name| self.by_name.get_mut(name)) else { return };
        for ring in queue.line.rings() {
            ring.unpark(limit_key);
        }
        self.awake.insert(queue.row.name.clone());
    }

    /// Queues whose rate has room again may start jobs.
    pub fn reopen(&mut self, now: Time) {
        for queue in self.by_name.values_mut() {
            if queue.closed_until.is_some_and(|until| until <= now) {
                queue.closed_until = None;
                self.awake.insert(queue.row.name.clone());
            }
        }
    }

    /// When the first queue reopens.
    pub(crate) fn next_reopening(&self) -> Option<Time> {
        self.by_name.values().filter_map(|queue| queue.closed_until).min()
    }

    /// Writes the rows that have changed, and the places of the lanes.
    pub fn gather(&mut self, batch: &mut WriteBatch, next_ready: u64) {
        for queue in self.by_name.values_mut() {
            if queue.line_touched {
                for ring in queue.line.rings() {
                    ring.settle(batch, next_ready);
                }
            }
            if std::mem::take(&mut queue.dirty) {
                batch.put(Space::Queues, keys::named(&queue.row.name), codec::encode(&queue.row));
                if queue.row.settings.rate.is_some() {
                    batch.put(Space::Limiters, keys::limiter(queue.row.id, ""), codec::encode(&queue.limiter));
                }
            }
        }
    }

    /// The disk has what `gather` wrote: lanes can be read from it again.
    pub fn committed(&mut self) {
        for queue in self.by_name.values_mut() {
            if std::mem::take(&mut queue.line_touched) {
                for ring in queue.line.rings() {
                    if ring.committed() {
                        self.awake.insert(queue.row.name.clone());
                    }
                }
            }
        }
    }
}
