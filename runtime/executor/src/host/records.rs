//! `records`: what a job notes for others, kept here until the next checkpoint or the result takes it along, and what others
//! have noted.

use bytes::Bytes;

use crate::attempt::state::{Interrupted, State, Superseded};
use crate::bindings::windlass::job::records as wit;
use crate::host::HostError;
use crate::limits::{MARK_BYTES, NOTES, NOTES_BYTES, RECORD_BYTES, RECORD_KEY_BYTES};
use crate::permissions::Refused;

/// What an attempt has noted and not committed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    pub records: Vec<NewRecord>,
    pub marks: Vec<NewMark>,
}

/// A value under a key of the job's own queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRecord {
    pub key: String,
    pub value: Bytes,
}

/// A mark on a record, or none to take it off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMark {
    pub queue: String,
    pub key: String,
    pub mark: Option<String>,
}

/// A record as it is committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub value: Bytes,
    pub mark: Option<String>,
}

impl Notes {
    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && self.marks.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        let records = self.records.iter().map(|record| record.key.len() + record.value.len());
        let marks = self.marks.iter().map(|mark| mark.key.len() + mark.mark.as_ref().map_or(0, String::len));
        records.chain(marks).sum()
    }

    /// Whether so much more has room.
    fn fits(&self, count: usize, bytes: usize) -> Result<(), wit::Refusal> {
        if count >= NOTES {
            return Err(wit::Refusal::TooMany(NOTES as u64));
        }
        if bytes > NOTES_BYTES - self.bytes() {
            return Err(wit::Refusal::TooLarge(NOTES_BYTES as u64));
        }
        Ok(())
    }

    fn put(&mut self, key: String, value: Vec<u8>) -> Result<(), wit::Refusal> {
        check_key(&key)?;
        if value.len() > RECORD_BYTES {
            return Err(wit::Refusal::TooLarge(RECORD_BYTES as u64));
        }
        self.fits(self.records.len(), key.len() + value.len())?;
        self.records.push(NewRecord { key, value: Bytes::from(value) });
        Ok(())
    }

    fn mark(&mut self, mark: NewMark) -> Result<(), wit::Refusal> {
        check_key(&mark.key)?;
        let length = mark.mark.as_ref().map_or(1, String::len);
        if !(1..=MARK_BYTES).contains(&length) {
            return Err(wit::Refusal::Invalid(format!("a mark has 1 to {MARK_BYTES} bytes, not {length}")));
        }
        self.fits(self.marks.len(), mark.key.len() + length)?;
        self.marks.push(mark);
        Ok(())
    }
}

fn check_key(key: &str) -> Result<(), wit::Refusal> {
    if key.is_empty() || key.len() > RECORD_KEY_BYTES {
        let length = key.len();
        return Err(wit::Refusal::Invalid(format!("a key has 1 to {RECORD_KEY_BYTES} bytes, not {length}")));
    }
    Ok(())
}

impl State {
    /// Whether this attempt may read and mark the records of a queue.
    async fn may_see(&mut self, queue: &str) -> Result<(), Denial> {
        if self.permissions.serves(queue) {
            return Ok(());
        }
        // Seldom: most plugins serve the queues they look into.
        let tied = self.host.tied_queues().await?;
        Ok(self.permissions.records(queue, &tied)?)
    }
}

/// Why records of a queue are not shown.
enum Denial {
    Refused(Refused),
    Host(HostError),
}

impl From<Refused> for Denial {
    fn from(refused: Refused) -> Self {
        Denial::Refused(refused)
    }
}

impl From<HostError> for Denial {
    fn from(error: HostError) -> Self {
        Denial::Host(error)
    }
}

impl Denial {
    fn told<T>(self) -> wasmtime::Result<Result<T, wit::Refusal>> {
        match self {
            Denial::Refused(Refused(how)) => Ok(Err(wit::Refusal::Denied(how))),
            Denial::Host(HostError::Invalid(why)) => Ok(Err(wit::Refusal::Invalid(why))),
            Denial::Host(HostError::Unavailable(why)) => Ok(Err(wit::Refusal::Unavailable(why))),
            Denial::Host(HostError::Interrupted(why)) => Err(Interrupted(why).into()),
            Denial::Host(HostError::Ended) => Err(Superseded.into()),
        }
    }
}

impl wit::Host for State {
    fn round(&mut self) -> wasmtime::Result<Option<u32>> {
        self.host_called();
        Ok(self.round)
    }

    fn put(&mut self, key: String, value: Vec<u8>) -> wasmtime::Result<Result<(), wit::Refusal>> {
        self.host_called();
        self.alive();
        Ok(self.notes.put(key, value))
    }

    async fn get(&mut self, queue: String, key: String) -> wasmtime::Result<Result<Option<wit::Entry>, wit::Refusal>> {
        self.host_called();
        self.alive();
        if let Err(refusal) = check_key(&key) {
            return Ok(Err(refusal));
        }
        self.life.pause();
        let found = match self.may_see(&queue).await {
            Ok(()) => self.host.record(&queue, &key).await.map_err(Denial::Host),
            Err(denial) => Err(denial),
        };
        self.alive();
        match found {
            Ok(record) => Ok(Ok(record.map(|record| wit::Entry { value: record.value.to_vec(), mark: record.mark }))),
            Err(denial) => denial.told(),
        }
    }

    async fn mark(
        &mut self,
        queue: String,
        key: String,
        mark: Option<String>,
    ) -> wasmtime::Result<Result<(), wit::Refusal>> {
        self.host_called();
        self.alive();
        self.life.pause();
        let allowed = self.may_see(&queue).await;
        self.alive();
        match allowed {
            Ok(()) => Ok(self.notes.mark(NewMark { queue, key, mark })),
            Err(denial) => denial.told(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(key: &str, mark: Option<&str>) -> NewMark {
        NewMark { queue: "q".to_owned(), key: key.to_owned(), mark: mark.map(str::to_owned) }
    }

    #[test]
    fn notes_are_bounded_in_number_and_size() {
        let mut notes = Notes::default();
        for key in [String::new(), "k".repeat(RECORD_KEY_BYTES + 1)] {
            assert!(matches!(notes.put(key.clone(), Vec::new()), Err(wit::Refusal::Invalid(_))));
            assert!(matches!(notes.mark(mark(&key, None)), Err(wit::Refusal::Invalid(_))));
        }
        assert!(matches!(notes.put("k".to_owned(), vec![0; RECORD_BYTES + 1]), Err(wit::Refusal::TooLarge(65_536))));
        assert!(matches!(notes.mark(mark("k", Some(""))), Err(wit::Refusal::Invalid(_))));
        assert!(notes.is_empty());
        for n in 0..NOTES {
            notes.put(n.to_string(), vec![0; 100]).expect("there is room");
            notes.mark(mark(&n.to_string(), Some("newer"))).expect("there is room");
        }
        assert!(matches!(notes.put("one more".to_owned(), Vec::new()), Err(wit::Refusal::TooMany(256))));
        assert!(matches!(notes.mark(mark("one more", None)), Err(wit::Refusal::TooMany(256))));
    }

    #[test]
    fn notes_together_have_a_bound_of_their_own() {
        let mut notes = Notes::default();
        let full = (0..).take_while(|n: &u32| notes.put(n.to_string(), vec![0; RECORD_BYTES - 10]).is_ok()).count();
        assert_eq!(full, 16);
        assert!(matches!(notes.put("x".to_owned(), vec![0; RECORD_BYTES]), Err(wit::Refusal::TooLarge(1_048_576))));
        notes.put("x".to_owned(), Vec::new()).expect("that little fits");
    }
}
