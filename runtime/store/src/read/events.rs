//! The event stream and the logs: appended in the commit of what they tell of, bounded by count and age.

use std::sync::Arc;

use windlass_core::{Event, EventKind, JobId};

use crate::disk::{Disk, DiskError, Space};
use crate::disk::{codec, keys};
use crate::engine::Engine;
use crate::{EventRecord, LogLine, LogRecord, limits};

impl<D: Disk> Engine<D> {
    /// Writes the group's events as one record, and drops the oldest beyond the bound.
    pub(crate) fn gather_events(&mut self) {
        let events = std::mem::take(&mut self.events);
        let shown = std::mem::take(&mut self.shown);
        if !events.is_empty() {
            let first = self.next_event;
            let last = first + events.len() as u64 - 1;
            self.next_event = last + 1;
            self.batch.put(Space::Events, keys::event(last), codec::encode(&(first, &events)));
            self.event_chunks.push_back((last, events.len() as u32, self.now));
            self.events_stored += events.len() as u64;
            for (offset, event) in events.into_iter().enumerate().skip(shown) {
                self.to_show.push(Arc::new(EventRecord { seq: first + offset as u64, event }));
            }
        }
        while let Some((last, count, at)) = self.event_chunks.front().copied() {
            let too_many = self.events_stored - u64::from(count) >= self.tuning.events;
            let too_old = self.now.since(at) > limits::EVENT_AGE && self.paused.is_none();
            if !too_many && !too_old {
                break;
            }
            self.event_chunks.pop_front();
            self.events_stored -= u64::from(count);
            self.meta.events_from = last + 1;
            self.batch.delete(Space::Events, keys::event(last));
        }
        // Numbers shown ahead of their commit must not be given again after a crash.
        if self.next_event + self.tuning.event_reserve / 2 > self.meta.events_reserved {
            self.meta.events_reserved = self.next_event + self.tuning.event_reserve;
        }
    }

    /// Progress is shown at once, ahead of its commit; everything else waits for it.
    pub(crate) fn show_soft_events(&mut self) {
        while let Some(event) = self.events.get(self.shown) {
            let seq = self.next_event + self.shown as u64;
            if !matches!(event.kind, EventKind::Progress(_)) || seq >= self.meta.events_reserved {
                return;
            }
            self.to_show.push(Arc::new(EventRecord { seq, event: event.clone() }));
            self.shown += 1;
            self.soft();
        }
    }

    /// Numbers new lines of a job's log, as many as there is room for, and shows them ahead of their commit.
    pub(crate) fn add_lines(&mut self, id: JobId, mut lines: Vec<LogLine>) -> Result<(), DiskError> {
        let first = match self.log_next.get(&id) {
            Some(next) => *next,
            None => self.last_line(id)?.map_or(0, |last| last + 1),
        };
        lines.truncate(self.tuning.log_lines.saturating_sub(first) as usize);
        self.log_next.insert(id, first + lines.len() as u64);
        if lines.is_empty() {
            return Ok(());
        }
        if self.log_hub.receiver_count() > 0 {
            let _ = self.log_hub.send(Arc::new(LogRecord { job: id, first, lines: lines.clone() }));
        }
        self.logs.entry(id).or_insert_with(|| (first, Vec::new())).1.extend(lines);
        self.soft();
        Ok(())
    }

    /// Writes waiting log lines, each job's as one record.
    pub(crate) fn gather_logs(&mut self) -> Result<(), DiskError> {
        for (id, (first, lines)) in std::mem::take(&mut self.logs) {
            let last = first + lines.len() as u64 - 1;
            self.batch.put(Space::Logs, keys::log(id, last), codec::encode(&(first, lines)));
        }
        if self.log_next.len() > self.tuning.cached_jobs {
            self.log_next.clear();
        }
        Ok(())
    }

    fn last_line(&self, id: JobId) -> Result<Option<u64>, DiskError> {
        let mut last = None;
        self.disk.each(Space::Logs, &keys::job(id), &mut |key, _| {
            last = key.last_chunk::<8>().map(|bytes| u64::from_be_bytes(*bytes));
        })?;
        Ok(last)
    }
}

/// The events of one stored record after `seq`.
pub fn read_chunk(value: &[u8], after: u64) -> Result<Vec<EventRecord>, DiskError> {
    let (first, events): (u64, Vec<Event>) = codec::decode(Space::Events, value)?;
    Ok(events
        .into_iter()
        .enumerate()
        .map(|(offset, event)| EventRecord { seq: first + offset as u64, event })
        .filter(|record| record.seq > after)
        .collect())
}

pub fn read_lines(value: &[u8], from: u64) -> Result<Vec<(u64, LogLine)>, DiskError> {
    let (first, lines): (u64, Vec<LogLine>) = codec::decode(Space::Logs, value)?;
    Ok(lines
        .into_iter()
        .enumerate()
        .map(|(offset, line)| (first + offset as u64, line))
        .filter(|(number, _)| *number >= from)
        .collect())
}
