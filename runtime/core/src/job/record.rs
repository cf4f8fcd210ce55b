//! Records: what a handler notes under a key of its queue, for others to read and to mark.
//!
//! A record belongs to the job that wrote it and is deleted with it. It is written, or marked, in the commit of the
//! result or the checkpoint it comes with.

use serde::{Deserialize, Serialize};

use crate::{JobId, QueueName, Refusal, Time, bounds};

/// A record as it is stored, under its queue and its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub queue: QueueName,
    pub key: String,
    pub value: Vec<u8>,
    /// A mark that somebody has put on it. Marked records can be listed, and a sweep rebuilds their jobs.
    pub mark: Option<String>,
    /// The job that wrote it.
    pub job: JobId,
    pub updated_at: Time,
}

/// A record that an attempt wants written under its own queue. One that is there is replaced, and loses its mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRecord {
    pub key: String,
    pub value: Vec<u8>,
}

/// A mark that an attempt wants on a record of any queue, or taken off. On a record that is not there it means nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMark {
    pub queue: QueueName,
    pub key: String,
    pub mark: Option<String>,
}

/// What comes with a result or a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    pub records: Vec<NewRecord>,
    pub marks: Vec<NewMark>,
}

impl Notes {
    /// None when there is nothing in it.
    pub fn new(records: Vec<NewRecord>, marks: Vec<NewMark>) -> Option<Box<Notes>> {
        let empty = records.is_empty() && marks.is_empty();
        (!empty).then(|| Box::new(Notes { records, marks }))
    }

    /// Bytes it brings into a commit.
    pub fn weight(&self) -> usize {
        let records = self.records.iter().map(|record| record.key.len() + record.value.len());
        let marks = self.marks.iter().map(|mark| mark.key.len() + mark.mark.as_ref().map_or(0, String::len));
        records.chain(marks).sum()
    }

    /// `written` is how many the job has written before.
    pub fn check(&self, written: u32) -> Result<(), Refusal> {
        let most = bounds::NOTES;
        for (field, count) in [("records", self.records.len()), ("marks", self.marks.len())] {
            if count > most {
                let why = format!("at most {most} come with one result or checkpoint, not {count}; save more often");
                return Err(Refusal::invalid(field, why));
            }
        }
        if written as usize + self.records.len() > bounds::RECORDS_OF_A_JOB {
            let why = format!("one job writes at most {}; spread them over more jobs", bounds::RECORDS_OF_A_JOB);
            return Err(Refusal::invalid("records", why));
        }
        let keys = self.records.iter().map(|record| ("records", &record.key));
        for (field, key) in keys.chain(self.marks.iter().map(|mark| ("marks", &mark.key))) {
            check_key(field, key)?;
        }
        if let Some(large) = self.records.iter().find(|record| record.value.len() > bounds::RECORD_BYTES) {
            let why = format!(
                "a value has at most {} bytes, and that of `{}` has {}; put it under several keys",
                bounds::RECORD_BYTES,
                large.key,
                large.value.len()
            );
            return Err(Refusal::invalid("records", why));
        }
        let marks = self.marks.iter().filter_map(|mark| mark.mark.as_ref());
        if marks.clone().any(|mark| mark.is_empty() || mark.len() > bounds::MARK_BYTES) {
            return Err(Refusal::invalid("marks", format!("a mark has 1 to {} bytes", bounds::MARK_BYTES)));
        }
        let weight = self.weight();
        if weight > bounds::NOTES_BYTES {
            let why = format!("at most {} bytes come with one result or checkpoint, not {weight}", bounds::NOTES_BYTES);
            return Err(Refusal::invalid("records", why));
        }
        Ok(())
    }
}

/// Whether a record can have this key.
pub fn check_key(field: &'static str, key: &str) -> Result<(), Refusal> {
    if key.is_empty() || key.len() > bounds::RECORD_KEY_BYTES {
        return Err(Refusal::invalid(field, format!("a key has 1 to {} bytes", bounds::RECORD_KEY_BYTES)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(key: &str, bytes: usize) -> NewRecord {
        NewRecord { key: key.into(), value: vec![7; bytes] }
    }

    fn mark(key: &str, mark: Option<&str>) -> NewMark {
        NewMark { queue: "src".parse().expect("a name"), key: key.into(), mark: mark.map(str::to_owned) }
    }

    #[test]
    fn what_is_too_much_is_refused_in_words() {
        let check = |records: Vec<NewRecord>, marks: Vec<NewMark>, written: u32, expected: Option<&str>| {
            let told = Notes { records, marks }.check(written).err().map(|refusal| refusal.to_string());
            match expected {
                None => assert_eq!(told, None),
                Some(words) => assert!(told.as_ref().is_some_and(|told| told.contains(words)), "{told:?}: {words}"),
            }
        };
        let many = |count: usize, bytes: usize| vec![record("a/b", bytes); count];
        check(many(256, 10), vec![mark("a", None), mark("b", Some("newer"))], 0, None);
        check(many(257, 0), Vec::new(), 0, Some("at most 256"));
        check(Vec::new(), vec![mark("a", None); 257], 0, Some("at most 256"));
        check(many(1, 65_536), Vec::new(), 0, None);
        check(many(1, 65_537), Vec::new(), 0, Some("`a/b` has 65537"));
        check(many(17, 65_536), Vec::new(), 0, Some("at most 1048576 bytes"));
        check(vec![record("", 1)], Vec::new(), 0, Some("1 to 1024"));
        check(vec![record(&"x".repeat(1_025), 1)], Vec::new(), 0, Some("1 to 1024"));
        check(Vec::new(), vec![mark("", None)], 0, Some("1 to 1024"));
        check(Vec::new(), vec![mark("a", Some(""))], 0, Some("1 to 256"));
        check(many(1, 1), Vec::new(), bounds::RECORDS_OF_A_JOB as u32, Some("at most 10000"));
    }

    #[test]
    fn what_is_just_within_a_bound_is_taken() {
        let check = |records: Vec<NewRecord>, marks: Vec<NewMark>, written: usize| {
            Notes { records, marks }.check(written as u32).map_err(|refusal| refusal.to_string())
        };
        assert_eq!(check(vec![record("a", 1)], Vec::new(), bounds::RECORDS_OF_A_JOB - 1), Ok(()));
        assert_eq!(check(vec![record(&"x".repeat(bounds::RECORD_KEY_BYTES), 1)], Vec::new(), 0), Ok(()));
        let marked = |bytes: usize| vec![mark("a", Some(&"m".repeat(bytes)))];
        assert_eq!(check(Vec::new(), marked(bounds::MARK_BYTES), 0), Ok(()));
        assert!(check(Vec::new(), marked(bounds::MARK_BYTES + 1), 0).is_err());
        // Keys, values and marks count together.
        let full = || vec![record("abc", bounds::RECORD_BYTES - 3); bounds::NOTES_BYTES / bounds::RECORD_BYTES - 1];
        let rest = |bytes: usize| [full(), vec![record("abcd", bytes - 4)]].concat();
        assert_eq!(check(rest(bounds::RECORD_BYTES - 5), vec![mark("ab", Some("new"))], 0), Ok(()));
        assert!(check(rest(bounds::RECORD_BYTES - 4), vec![mark("ab", Some("new"))], 0).is_err());
    }
}
