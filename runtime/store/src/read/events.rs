//! Stored events and log lines, as they are read.

use windlass_core::Event;

use crate::disk::codec;
use crate::disk::{DiskError, Space};
use crate::{EventRecord, LogLine};

/// The events of one stored row after `seq`.
pub fn read_chunk(value: &[u8], after: u64) -> Result<Vec<EventRecord>, DiskError> {
    let (first, events): (u64, Vec<Event>) = codec::decode(Space::Events, value)?;
    Ok(events
        .into_iter()
        .enumerate()
        .map(|(offset, event)| EventRecord { seq: first + offset as u64, event })
        .filter(|record| record.seq > after)
        .collect())
}

pub(crate) fn read_lines(value: &[u8], from: u64) -> Result<Vec<(u64, LogLine)>, DiskError> {
    let (first, lines): (u64, Vec<LogLine>) = codec::decode(Space::Logs, value)?;
    Ok(lines
        .into_iter()
        .enumerate()
        .map(|(offset, line)| (first + offset as u64, line))
        .filter(|(number, _)| *number >= from)
        .collect())
}
