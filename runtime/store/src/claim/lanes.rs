//! Who is next: the pending jobs of a queue, in lanes.
//!
//! A lane is the line of one (queue, priority, target, limit key), first in first out. A ring holds the lanes of one
//! (queue, priority, target) and takes turns between them. On disk every pending job has a place in `Ready`; in memory
//! each lane has a window of its first few, refilled from a cursor, and each ring a bounded number of lanes. So neither
//! ten million jobs nor ten million keys are ten million things in memory, and no read ever starts at the head, where
//! the tombstones of all earlier claims lie.
//!
//! The window may hold ids that have left the line in another way (cancelled, moved): the engine checks each candidate
//! against its row before it starts it.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use windlass_core::{JobId, Priority, Time};

use crate::disk::keys;
use crate::disk::{Disk, DiskError, Space, WriteBatch, after_prefix};
use crate::limits::Tuning;

/// One place in a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyPlace {
    pub seq: u64,
    pub id: JobId,
    pub since: Time,
}

impl ReadyPlace {
    pub fn encode(id: JobId, since: Time) -> Vec<u8> {
        let mut value = vec![crate::disk::codec::FORMAT];
        value.extend(id.to_bytes());
        value.extend(since.millis().to_be_bytes());
        value
    }

    pub fn decode(key: &[u8], value: &[u8]) -> Result<ReadyPlace, DiskError> {
        let parts = || {
            let value = value.strip_prefix(&[crate::disk::codec::FORMAT])?;
            let (id, rest) = value.split_first_chunk::<16>()?;
            let since = rest.first_chunk::<8>()?;
            Some(ReadyPlace {
                seq: keys::ready_seq(key)?,
                id: JobId::from_bytes(*id),
                since: Time(u64::from_be_bytes(*since)),
            })
        };
        parts().ok_or_else(|| DiskError::Row { space: Space::Ready, why: "a place in line makes no sense".into() })
    }
}

/// The lanes of one (queue, priority, target).
pub struct Ring {
    tuning: Tuning,
    prefix: Vec<u8>,
    queue: u32,
    priority: Priority,
    target: String,
    lanes: HashMap<String, Lane>,
    /// Keys of lanes that may have a runnable job, in turn.
    turn: VecDeque<String>,
    /// More lanes are stored than are in memory.
    cold: bool,
    /// Where the next lanes are read from, when `cold`.
    next_lanes: Vec<u8>,
    /// Turns taken since the lanes in memory were read.
    taken: usize,
    loaded: bool,
    /// How often the end of the stored lanes was reached since one of them started something.
    passes: u8,
    /// All lanes were looked through and none has anything to start: no look before something changes.
    exhausted: bool,
    /// Places added since the last commit to lanes that are not in memory.
    unseen: HashMap<String, Vec<ReadyPlace>>,
    /// Lanes that were found empty: their rows go with the next commit, unless something has come since.
    found_empty: HashSet<String>,
    /// Lanes that changed since the last commit.
    touched: Vec<String>,
}

#[derive(Default)]
struct Lane {
    window: VecDeque<ReadyPlace>,
    /// Everything stored for this lane from here on is not in the window; none when the window is the whole lane.
    rest: Option<u64>,
    /// Added since the last commit and not in the window: not yet to be found on disk.
    fresh: Vec<ReadyPlace>,
    in_turn: bool,
    parked: bool,
    /// The cursor as last written.
    stored_cursor: Option<u64>,
}

impl Lane {
    fn is_empty(&self) -> bool {
        self.window.is_empty() && self.rest.is_none() && self.fresh.is_empty()
    }

    /// Nothing before this is in the lane any more.
    fn cursor(&self, next_seq: u64) -> u64 {
        self.window.front().map(|place| place.seq).or(self.rest).unwrap_or(next_seq)
    }
}

/// Jobs a lane may start per turn of the lanes in memory, before others are read.
const TURNS_PER_LANE: usize = 8;

impl Ring {
    pub fn new(queue: u32, priority: Priority, target: &str, tuning: Tuning) -> Ring {
        Ring {
            tuning,
            prefix: keys::ring(queue, priority, target),
            queue,
            priority,
            target: target.to_owned(),
            lanes: HashMap::new(),
            turn: VecDeque::new(),
            cold: false,
            next_lanes: Vec::new(),
            taken: 0,
            loaded: false,
            passes: 0,
            exhausted: false,
            unseen: HashMap::new(),
            found_empty: HashSet::new(),
            touched: Vec::new(),
        }
    }

    /// A job joins the end of its lane.
    pub fn push(
        &mut self,
        disk: &impl Disk,
        batch: &mut WriteBatch,
        limit_key: &str,
        place: ReadyPlace,
    ) -> Result<(), DiskError> {
        self.load(disk)?;
        self.look_again();
        if !self.lanes.contains_key(limit_key) {
            if !self.cold && self.lanes.len() >= self.tuning.hot_lanes {
                self.drop_empty(batch);
            }
            let key = self.lane_key(limit_key);
            if self.cold && is_stored(disk, batch, &key)? {
                self.unseen.entry(limit_key.to_owned()).or_default().push(place);
                return Ok(());
            }
            batch.put(Space::Lanes, key, cursor_value(place.seq));
            if self.cold || self.lanes.len() >= self.tuning.hot_lanes {
                // It waits on disk for the lanes in memory to have had their turns.
                self.cold = true;
                self.unseen.entry(limit_key.to_owned()).or_default().push(place);
                return Ok(());
            }
            self.lanes.insert(limit_key.to_owned(), Lane { stored_cursor: Some(place.seq), ..Lane::default() });
        }
        let Some(lane) = self.lanes.get_mut(limit_key) else { return Ok(()) };
        if lane.rest.is_none() && lane.window.len() < self.tuning.window {
            lane.window.push_back(place);
        } else {
            lane.rest.get_or_insert(place.seq);
            lane.fresh.push(place);
            self.touched.push(limit_key.to_owned());
        }
        if !lane.in_turn && !lane.parked {
            lane.in_turn = true;
            self.turn.push_back(limit_key.to_owned());
        }
        Ok(())
    }

    /// The candidate whose turn it is, without taking it.
    pub fn peek(&mut self, disk: &impl Disk) -> Result<Option<(String, ReadyPlace)>, DiskError> {
        self.load(disk)?;
        loop {
            while let Some(limit_key) = self.turn.front().cloned() {
                self.fill(disk, &limit_key)?;
                if let Some(lane) = self.lanes.get_mut(&limit_key) {
                    match lane.window.front() {
                        Some(place) => return Ok(Some((limit_key, *place))),
                        None => lane.in_turn = false,
                    }
                }
                self.turn.pop_front();
                self.found_empty.insert(limit_key);
            }
            if !self.cold || self.exhausted {
                return Ok(None);
            }
            // Once to the end from wherever this began, and once from the start to the end: then all have been seen,
            // but for the lanes that are new in this group.
            if self.passes < 2 {
                self.let_go();
                self.load(disk)?;
            } else {
                self.exhausted = true;
                self.bring_unseen();
            }
        }
    }

    fn bring_unseen(&mut self) {
        for (limit_key, fresh) in std::mem::take(&mut self.unseen) {
            let first = fresh.first().map(|place| place.seq);
            let lane = Lane { rest: first, fresh, in_turn: true, stored_cursor: first, ..Lane::default() };
            self.lanes.insert(limit_key.clone(), lane);
            self.touched.push(limit_key.clone());
            self.turn.push_back(limit_key);
        }
    }

    /// Something has come or may start again: earlier looks say nothing any more.
    fn look_again(&mut self) {
        self.passes = 0;
        self.exhausted = false;
    }

    /// The lanes in memory make room for others. Parked ones stay: a place or a moment they wait for brings them back.
    fn let_go(&mut self) {
        self.taken = 0;
        self.lanes.retain(|_, lane| lane.parked);
        self.turn.clear();
        self.loaded = false;
    }

    /// Takes the candidate that `peek` showed. `served` says that it started, so it is the next lane's turn; a stale
    /// one costs its lane no turn.
    pub fn take(&mut self, served: bool) {
        let Some(limit_key) = self.turn.front().cloned() else { return };
        if served {
            self.passes = 0;
        }
        if let Some(lane) = self.lanes.get_mut(&limit_key) {
            lane.window.pop_front();
            self.touched.push(limit_key);
            if lane.window.is_empty() && lane.rest.is_none() {
                lane.in_turn = false;
                self.turn.pop_front();
                self.taken += 1;
                return;
            }
        }
        if served {
            self.turn.rotate_left(1);
            self.taken += 1;
        }
    }

    /// The lane whose turn it is may not start anything now.
    pub fn park(&mut self) {
        if let Some(limit_key) = self.turn.pop_front()
            && let Some(lane) = self.lanes.get_mut(&limit_key)
        {
            lane.in_turn = false;
            lane.parked = true;
        }
    }

    pub fn unpark(&mut self, limit_key: &str) -> bool {
        let Some(lane) = self.lanes.get_mut(limit_key) else { return false };
        if !std::mem::take(&mut lane.parked) {
            return false;
        }
        self.exhausted = false;
        if !lane.in_turn && !lane.is_empty() {
            lane.in_turn = true;
            self.turn.push_back(limit_key.to_owned());
        }
        true
    }

    pub(crate) fn unpark_all(&mut self) {
        let parked: Vec<String> =
            self.lanes.iter().filter(|(_, lane)| lane.parked).map(|(key, _)| key.clone()).collect();
        for key in parked {
            self.unpark(&key);
        }
    }

    /// Before a commit: writes the cursors that have moved far.
    pub fn settle(&mut self, batch: &mut WriteBatch, next_seq: u64) {
        for limit_key in &self.touched {
            let Some(lane) = self.lanes.get_mut(limit_key) else { continue };
            let cursor = lane.cursor(next_seq);
            if lane.stored_cursor.is_none_or(|stored| cursor >= stored + self.tuning.cursor_step) {
                lane.stored_cursor = Some(cursor);
                let key = keys::lane(self.queue, self.priority, &self.target, limit_key);
                batch.put(Space::Lanes, key, cursor_value(cursor));
            }
        }
        for limit_key in std::mem::take(&mut self.found_empty) {
            let filled = self.lanes.get(&limit_key).is_some_and(|lane| !lane.is_empty() || lane.parked);
            // A ring that is all in memory keeps its lanes: they will be used again.
            if self.cold && !filled && !self.unseen.contains_key(&limit_key) {
                batch.delete(Space::Lanes, self.lane_key(&limit_key));
                self.lanes.remove(&limit_key);
            }
        }
    }

    /// After a commit: what was fresh is on disk now. Answers whether other lanes come in: then it is worth a look.
    pub fn committed(&mut self) -> bool {
        for limit_key in self.touched.drain(..) {
            if let Some(lane) = self.lanes.get_mut(&limit_key) {
                lane.fresh.clear();
            }
        }
        let came = !self.unseen.is_empty();
        self.unseen.clear();
        let had_their_turns = self.taken >= self.lanes.len().max(1) * TURNS_PER_LANE;
        if self.cold && had_their_turns {
            self.let_go();
        }
        came
    }

    fn drop_empty(&mut self, batch: &mut WriteBatch) {
        let empty: Vec<String> =
            self.lanes.iter().filter(|(_, lane)| lane.is_empty() && !lane.parked).map(|(key, _)| key.clone()).collect();
        for limit_key in empty {
            batch.delete(Space::Lanes, self.lane_key(&limit_key));
            self.lanes.remove(&limit_key);
        }
        let lanes = &self.lanes;
        self.turn.retain(|key| lanes.contains_key(key));
    }

    /// Brings lanes into memory: all of them, or as many as may be, in turn.
    fn load(&mut self, disk: &impl Disk) -> Result<(), DiskError> {
        if self.loaded {
            return Ok(());
        }
        self.loaded = true;
        let until = after_prefix(&self.prefix);
        let from = if self.next_lanes.is_empty() { self.prefix.clone() } else { self.next_lanes.clone() };
        let mut page = disk.scan(Space::Lanes, &from, &until, self.tuning.hot_lanes)?;
        self.cold = page.len() == self.tuning.hot_lanes || from != self.prefix || !self.unseen.is_empty();
        self.next_lanes.clear();
        if page.len() == self.tuning.hot_lanes {
            if let Some((last, _)) = page.last() {
                self.next_lanes = last.to_vec();
                self.next_lanes.push(0);
            }
        } else if page.is_empty() && from != self.prefix {
            page = disk.scan(Space::Lanes, &self.prefix, &until, self.tuning.hot_lanes)?;
        }
        if self.next_lanes.is_empty() {
            self.passes = self.passes.saturating_add(1);
        }
        for (key, value) in page {
            let Some(limit_key) = read_limit_key(&self.prefix, &key) else { continue };
            let cursor = read_cursor(&value)?;
            if self.lanes.contains_key(&limit_key) {
                continue;
            }
            let fresh = self.unseen.remove(&limit_key).unwrap_or_default();
            self.touched.push(limit_key.clone());
            let lane =
                Lane { rest: Some(cursor), fresh, in_turn: true, stored_cursor: Some(cursor), ..Lane::default() };
            self.lanes.insert(limit_key.clone(), lane);
            self.turn.push_back(limit_key);
        }
        Ok(())
    }

    /// Refills an empty window from where the lane continues.
    fn fill(&mut self, disk: &impl Disk, limit_key: &str) -> Result<(), DiskError> {
        let prefix = self.lane_key(limit_key);
        let Some(lane) = self.lanes.get_mut(limit_key) else { return Ok(()) };
        let (true, Some(from)) = (lane.window.is_empty(), lane.rest) else { return Ok(()) };
        let page = disk.scan(Space::Ready, &keys::ready(&prefix, from), &after_prefix(&prefix), self.tuning.window)?;
        for (key, value) in &page {
            lane.window.push_back(ReadyPlace::decode(key, value)?);
        }
        lane.rest = None;
        let last = lane.window.back().map_or(from, |place| place.seq + 1);
        if page.len() == self.tuning.window {
            lane.rest = Some(last);
            return Ok(());
        }
        // The disk has no more: what was added since the last commit follows.
        let mut fresh = std::mem::take(&mut lane.fresh).into_iter().filter(|place| place.seq >= last);
        while lane.window.len() < self.tuning.window {
            match fresh.next() {
                Some(place) => lane.window.push_back(place),
                None => break,
            }
        }
        lane.fresh = fresh.collect();
        lane.rest = lane.fresh.first().map(|place| place.seq);
        Ok(())
    }

    fn lane_key(&self, limit_key: &str) -> Vec<u8> {
        keys::lane(self.queue, self.priority, &self.target, limit_key)
    }
}

/// Whether the lane has a row, the write batch included.
fn is_stored(disk: &impl Disk, batch: &WriteBatch, key: &[u8]) -> Result<bool, DiskError> {
    match batch.writes.get(&(Space::Lanes, key.to_vec())) {
        Some(value) => Ok(value.is_some()),
        None => Ok(disk.get(Space::Lanes, key)?.is_some()),
    }
}

fn read_limit_key(prefix: &[u8], key: &[u8]) -> Option<String> {
    let text = key.strip_prefix(prefix)?.strip_suffix(&[0])?;
    String::from_utf8(text.to_vec()).ok()
}

fn cursor_value(seq: u64) -> Vec<u8> {
    let mut value = vec![crate::disk::codec::FORMAT];
    value.extend(seq.to_be_bytes());
    value
}

fn read_cursor(value: &[u8]) -> Result<u64, DiskError> {
    value
        .strip_prefix(&[crate::disk::codec::FORMAT])
        .and_then(|rest| rest.first_chunk::<8>())
        .map(|bytes| u64::from_be_bytes(*bytes))
        .ok_or_else(|| DiskError::Row { space: Space::Lanes, why: "a cursor makes no sense".into() })
}

/// The rings of one queue.
pub struct QueueRings {
    tuning: Tuning,
    rings: BTreeMap<(u8, String), Ring>,
}

impl QueueRings {
    pub fn new(tuning: Tuning) -> QueueRings {
        QueueRings { tuning, rings: BTreeMap::new() }
    }

    pub fn ring(&mut self, queue: u32, priority: Priority, target: &str) -> &mut Ring {
        let key = (priority.rank(), target.to_owned());
        self.rings.entry(key).or_insert_with(|| Ring::new(queue, priority, target, self.tuning))
    }

    /// Whether some jobs wait for one worker alone.
    pub(crate) fn has_targets(&self) -> bool {
        self.rings.keys().any(|(_, target)| !target.is_empty())
    }

    pub(crate) fn rings(&mut self) -> impl Iterator<Item = &mut Ring> {
        self.rings.values_mut()
    }
}
