//! The event stream and the logs of jobs: stored in the commit of what they report, bounded by number and age.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use windlass_core::{Event, EventKind, JobId, Time};

use crate::disk::{Disk, DiskError, Space, WriteBatch};
use crate::disk::{codec, keys};
use crate::engine::Meta;
use crate::limits::Tuning;
use crate::{EventRecord, LogLine, limits};

/// A stored row of events.
#[derive(Clone, Copy)]
struct Chunk {
    last: u64,
    count: u32,
    at: Time,
}

pub struct EventLog {
    /// The number of the next event to be stored.
    next: u64,
    /// Events since the last commit.
    unsaved: Vec<Event>,
    /// How many of those have been shown ahead of the commit: progress only.
    shown: usize,
    chunks: VecDeque<Chunk>,
    stored: u64,
}

impl EventLog {
    pub fn read(disk: &impl Disk, meta: &Meta, now: Time) -> Result<EventLog, DiskError> {
        // Numbers above those that are stored may have been shown already.
        let next = meta.events_reserved.max(1);
        let mut log = EventLog { next, unsaved: Vec::new(), shown: 0, chunks: VecDeque::new(), stored: 0 };
        let mut start = keys::event(meta.events_from);
        loop {
            let page = disk.scan(Space::Events, &start, &[u8::MAX; 16], 1_024)?;
            for (key, value) in &page {
                let (first, events): (u64, Vec<Event>) = codec::decode(Space::Events, value)?;
                let at = events.last().map_or(now, |event| event.at);
                log.stored += events.len() as u64;
                let last = first + (events.len() as u64).saturating_sub(1);
                log.chunks.push_back(Chunk { last, count: events.len() as u32, at });
                start = key.to_vec();
                start.push(0);
            }
            if page.len() < 1_024 {
                return Ok(log);
            }
        }
    }

    pub fn push(&mut self, event: Event) {
        self.unsaved.push(event);
    }

    pub fn extend(&mut self, events: impl IntoIterator<Item = Event>) {
        self.unsaved.extend(events);
    }

    /// The number of the last stored event.
    pub fn last(&self) -> u64 {
        self.next.saturating_sub(1)
    }

    pub(crate) fn count_stored(&self) -> u64 {
        self.stored
    }

    /// Writes the group's events as one row, and returns those that are to be shown once they are durable.
    pub fn gather(&mut self, batch: &mut WriteBatch, now: Time) -> Vec<Arc<EventRecord>> {
        let events = std::mem::take(&mut self.unsaved);
        let shown = std::mem::take(&mut self.shown);
        if events.is_empty() {
            return Vec::new();
        }
        let first = self.next;
        let last = first + events.len() as u64 - 1;
        self.next = last + 1;
        batch.put(Space::Events, keys::event(last), codec::encode(&(first, &events)));
        self.chunks.push_back(Chunk { last, count: events.len() as u32, at: now });
        self.stored += events.len() as u64;
        let numbered = events.into_iter().enumerate().skip(shown);
        numbered.map(|(offset, event)| Arc::new(EventRecord { seq: first + offset as u64, event })).collect()
    }

    /// Deletes the oldest events: those beyond the maximum number, and those that are too old unless everything is
    /// paused.
    pub fn trim(&mut self, batch: &mut WriteBatch, meta: &mut Meta, tuning: &Tuning, paused: bool, now: Time) {
        while let Some(oldest) = self.chunks.front().copied() {
            let too_many = self.stored - u64::from(oldest.count) >= tuning.events;
            let too_old = now.since(oldest.at) > limits::EVENT_AGE && !paused;
            if !too_many && !too_old {
                break;
            }
            self.chunks.pop_front();
            self.stored -= u64::from(oldest.count);
            meta.events_from = oldest.last + 1;
            batch.delete(Space::Events, keys::event(oldest.last));
        }
        // A number that was shown ahead of its commit must not be given to another event after a crash.
        if self.next + tuning.event_reserve / 2 > meta.events_reserved {
            meta.events_reserved = self.next + tuning.event_reserve;
        }
    }

    /// Progress that can be shown now, ahead of its commit; all other events wait for theirs. Only numbers that are
    /// reserved on disk are used.
    pub fn take_progress(&mut self, reserved: u64) -> Vec<Arc<EventRecord>> {
        let mut progress = Vec::new();
        while let Some(event) = self.unsaved.get(self.shown) {
            let seq = self.next + self.shown as u64;
            if !matches!(event.kind, EventKind::Progress(_)) || seq >= reserved {
                break;
            }
            progress.push(Arc::new(EventRecord { seq, event: event.clone() }));
            self.shown += 1;
        }
        progress
    }
}

#[derive(Default)]
pub struct JobLogs {
    /// Lines that wait for a commit, with the number of the first.
    unsaved: HashMap<JobId, (u64, Vec<LogLine>)>,
    /// The number of a job's next line: of the jobs that wrote lately.
    next: HashMap<JobId, u64>,
}

impl JobLogs {
    /// The number of the first of these lines. A job's log has at most so many lines: those beyond are cut off.
    pub fn number(
        &mut self,
        disk: &impl Disk,
        id: JobId,
        lines: &mut Vec<LogLine>,
        most: u64,
    ) -> Result<u64, DiskError> {
        let first = match self.next.get(&id) {
            Some(next) => *next,
            None => last_line(disk, id)?.map_or(0, |last| last + 1),
        };
        lines.truncate(most.saturating_sub(first) as usize);
        self.next.insert(id, first + lines.len() as u64);
        Ok(first)
    }

    pub fn add(&mut self, id: JobId, first: u64, lines: Vec<LogLine>) {
        self.unsaved.entry(id).or_insert_with(|| (first, Vec::new())).1.extend(lines);
    }

    /// Writes the lines of each job as one row.
    pub fn gather(&mut self, batch: &mut WriteBatch, most: usize) {
        for (id, (first, lines)) in std::mem::take(&mut self.unsaved) {
            let last = first + lines.len() as u64 - 1;
            batch.put(Space::Logs, keys::log(id, last), codec::encode(&(first, lines)));
        }
        if self.next.len() > most {
            self.next.clear();
        }
    }

    pub(crate) fn drop_job(&mut self, id: JobId) {
        self.unsaved.remove(&id);
        self.next.remove(&id);
    }
}

fn last_line(disk: &impl Disk, id: JobId) -> Result<Option<u64>, DiskError> {
    let mut last = None;
    disk.each(Space::Logs, &keys::job(id), &mut |key, _| {
        last = key.last_chunk::<8>().map(|bytes| u64::from_be_bytes(*bytes));
    })?;
    Ok(last)
}
