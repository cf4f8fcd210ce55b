//! `records`: what a job notes for others, kept here until the next checkpoint or the result takes it along, and what
//! others have noted.

use windlass_core::{Name, NewMark, NewRecord, Notes};

use crate::attempt::state::{Interrupted, State, Superseded};
use crate::bindings::windlass::job::records as wit;
use crate::host::HostError;
use crate::limits::{MARK_BYTES, NOTES, NOTES_BYTES, RECORD_BYTES, RECORD_KEY_BYTES};
use crate::permissions::Refused;

/// Whether so much more fits into one commit.
fn fits(notes: &Notes, count: usize, bytes: usize) -> Result<(), wit::Refusal> {
    if count >= NOTES {
        return Err(wit::Refusal::TooMany(NOTES as u64));
    }
    if bytes > NOTES_BYTES - notes.weight() {
        return Err(wit::Refusal::TooLarge(NOTES_BYTES as u64));
    }
    Ok(())
}

fn put(notes: &mut Notes, key: String, value: Vec<u8>) -> Result<(), wit::Refusal> {
    check_key(&key)?;
    if value.len() > RECORD_BYTES {
        return Err(wit::Refusal::TooLarge(RECORD_BYTES as u64));
    }
    fits(notes, notes.records.len(), key.len() + value.len())?;
    notes.records.push(NewRecord { key, value });
    Ok(())
}

fn mark(notes: &mut Notes, mark: NewMark) -> Result<(), wit::Refusal> {
    check_key(&mark.key)?;
    let length = mark.mark.as_ref().map_or(1, String::len);
    if !(1..=MARK_BYTES).contains(&length) {
        return Err(wit::Refusal::Invalid(format!("a mark has 1 to {MARK_BYTES} bytes, not {length}")));
    }
    fits(notes, notes.marks.len(), mark.key.len() + length)?;
    notes.marks.push(mark);
    Ok(())
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
    fn into_refusal<T>(self) -> wasmtime::Result<Result<T, wit::Refusal>> {
        match self {
            Denial::Refused(Refused { how, .. }) => Ok(Err(wit::Refusal::Denied(how))),
            Denial::Host(HostError::Invalid(why)) => Ok(Err(wit::Refusal::Invalid(why))),
            Denial::Host(HostError::Unavailable(why)) => Ok(Err(wit::Refusal::Unavailable(why))),
            Denial::Host(HostError::Interrupted(why)) => Err(Interrupted(why).into()),
            Denial::Host(HostError::Ended) => Err(Superseded.into()),
        }
    }
}

impl wit::Host for State {
    fn put(&mut self, key: String, value: Vec<u8>) -> wasmtime::Result<Result<(), wit::Refusal>> {
        self.host_called();
        self.alive();
        Ok(put(&mut self.notes, key, value))
    }

    async fn get(&mut self, queue: String, key: String) -> wasmtime::Result<Result<Option<wit::Entry>, wit::Refusal>> {
        self.host_called();
        self.alive();
        if let Err(refusal) = check_key(&key) {
            return Ok(Err(refusal));
        }
        self.liveness.pause();
        let found = match self.may_see(&queue).await {
            Ok(()) => self.host.record(&queue, &key).await.map_err(Denial::Host),
            Err(denial) => Err(denial),
        };
        self.alive();
        match found {
            Ok(record) => Ok(Ok(record.map(|record| wit::Entry { value: record.value, mark: record.mark }))),
            Err(denial) => denial.into_refusal(),
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
        self.liveness.pause();
        let allowed = self.may_see(&queue).await;
        self.alive();
        match allowed {
            Ok(()) => match Name::parse("queue", &queue) {
                Ok(queue) => Ok(self::mark(&mut self.notes, NewMark { queue, key, mark })),
                Err(refusal) => Ok(Err(wit::Refusal::Invalid(refusal.to_string()))),
            },
            Err(denial) => denial.into_refusal(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(key: &str, mark: Option<&str>) -> NewMark {
        NewMark {
            queue: Name::parse("queue", "q").expect("a name"),
            key: key.to_owned(),
            mark: mark.map(str::to_owned),
        }
    }

    #[test]
    fn notes_are_bounded_in_number_and_size() {
        let mut notes = Notes::default();
        for key in [String::new(), "k".repeat(RECORD_KEY_BYTES + 1)] {
            assert!(matches!(put(&mut notes, key.clone(), Vec::new()), Err(wit::Refusal::Invalid(_))));
            assert!(matches!(mark(&mut notes, marked(&key, None)), Err(wit::Refusal::Invalid(_))));
        }
        assert!(matches!(
            put(&mut notes, "k".to_owned(), vec![0; RECORD_BYTES + 1]),
            Err(wit::Refusal::TooLarge(65_536))
        ));
        assert!(matches!(mark(&mut notes, marked("k", Some(""))), Err(wit::Refusal::Invalid(_))));
        assert_eq!(notes, Notes::default());
        for n in 0..NOTES {
            put(&mut notes, n.to_string(), vec![0; 100]).expect("there is room");
            mark(&mut notes, marked(&n.to_string(), Some("newer"))).expect("there is room");
        }
        assert!(matches!(put(&mut notes, "one more".to_owned(), Vec::new()), Err(wit::Refusal::TooMany(256))));
        assert!(matches!(mark(&mut notes, marked("one more", None)), Err(wit::Refusal::TooMany(256))));
    }

    #[test]
    fn notes_together_have_a_bound_of_their_own() {
        let mut notes = Notes::default();
        let full =
            (0..).take_while(|n: &u32| put(&mut notes, n.to_string(), vec![0; RECORD_BYTES - 10]).is_ok()).count();
        assert_eq!(full, 16);
        assert!(matches!(
            put(&mut notes, "x".to_owned(), vec![0; RECORD_BYTES]),
            Err(wit::Refusal::TooLarge(1_048_576))
        ));
        put(&mut notes, "x".to_owned(), Vec::new()).expect("that little fits");
    }
}
