//! A disk in memory. Its commits are whole or not at all, like the real one's; and like the real one's, a commit that
//! answers with an error may have happened.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use windlass_core::{Job, JobId};
use windlass_store::disk::codec;
use windlass_store::disk::{Disk, DiskError, Pairs, Space, Value, WriteBatch};

/// What the next commit meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Holds,
    /// The error comes, and nothing was written.
    Lost,
    /// The error comes, though everything was written.
    Written,
}

/// Makes another row of one that is written; none when it leaves it alone.
pub type Fault = fn(Space, &[u8], &[u8]) -> Option<Vec<u8>>;
/// The same for a job's record, of which it also sees what was stored before.
pub type JobFault = fn(before: &Job, after: &mut Job) -> bool;

#[derive(Clone)]
pub struct SimDisk(Rc<RefCell<Inner>>);

struct Inner {
    spaces: BTreeMap<Space, BTreeMap<Vec<u8>, Value>>,
    /// The job records, decoded once when they are written: the checks read all of them after every step.
    jobs: BTreeMap<JobId, Rc<Job>>,
    fate: Fate,
    /// Reads until one fails.
    reads_left: Option<u64>,
    /// Writes another row than it was given: to show that the checks notice.
    fault: Option<Fault>,
    job_fault: Option<JobFault>,
    /// A row that the engine does not find, though it is there.
    hidden: Option<(Space, &'static [u8])>,
    commits: u64,
}

impl Inner {
    /// What is written in place of a row.
    fn changed(&self, space: Space, key: &[u8], value: &[u8]) -> Option<Vec<u8>> {
        if let Some(fault) = self.fault {
            return fault(space, key, value);
        }
        let fault = self.job_fault.filter(|_| space == Space::Jobs)?;
        let mut after: Job = codec::decode(space, value).expect("a job reads back");
        let before = self.jobs.get(&after.id)?;
        fault(before, &mut after).then(|| codec::encode_in(space, &after))
    }
}

impl SimDisk {
    pub fn new() -> SimDisk {
        let spaces = Space::ALL.into_iter().map(|space| (space, BTreeMap::new())).collect();
        SimDisk(Rc::new(RefCell::new(Inner {
            spaces,
            jobs: BTreeMap::new(),
            fate: Fate::Holds,
            reads_left: None,
            fault: None,
            job_fault: None,
            hidden: None,
            commits: 0,
        })))
    }

    pub fn set_fate(&self, fate: Fate, reads_left: Option<u64>) {
        let mut inner = self.0.borrow_mut();
        inner.fate = fate;
        inner.reads_left = reads_left;
    }

    pub fn set_fault(&self, fault: Fault) {
        self.0.borrow_mut().fault = Some(fault);
    }

    pub fn set_job_fault(&self, fault: JobFault) {
        self.0.borrow_mut().job_fault = Some(fault);
    }

    pub fn hide(&self, space: Space, key: &'static [u8]) {
        self.0.borrow_mut().hidden = Some((space, key));
    }

    /// Everything in one space, in key order.
    pub fn all(&self, space: Space) -> Vec<(Vec<u8>, Value)> {
        let inner = self.0.borrow();
        inner.spaces[&space].iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    pub fn jobs(&self) -> BTreeMap<JobId, Rc<Job>> {
        self.0.borrow().jobs.clone()
    }

    pub fn commits(&self) -> u64 {
        self.0.borrow().commits
    }

    fn read(&self) -> Result<(), DiskError> {
        let mut inner = self.0.borrow_mut();
        match &mut inner.reads_left {
            Some(0) => Err(DiskError::Io("the simulated disk does not read".into())),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl Disk for SimDisk {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Value>, DiskError> {
        self.read()?;
        let inner = self.0.borrow();
        let hidden = inner.hidden == Some((space, key));
        Ok(inner.spaces[&space].get(key).filter(|_| !hidden).cloned())
    }

    fn scan(&self, space: Space, from: &[u8], until: &[u8], limit: usize) -> Result<Pairs, DiskError> {
        self.read()?;
        if from >= until {
            return Ok(Vec::new());
        }
        let inner = self.0.borrow();
        let range = inner.spaces[&space].range(from.to_vec()..until.to_vec());
        Ok(range.take(limit).map(|(key, value)| (key.clone().into(), value.clone())).collect())
    }

    fn commit(&mut self, batch: WriteBatch, number: u64) -> Result<(), DiskError> {
        let mut inner = self.0.borrow_mut();
        let fate = std::mem::replace(&mut inner.fate, Fate::Holds);
        if fate != Fate::Lost {
            assert_eq!(number, inner.commits + 1, "commit numbers rise by one");
            inner.commits = number;
            for ((space, key), value) in batch.writes {
                assert!(!key.is_empty() && key.len() < 65_536, "a key fjall would not take in {space:?}");
                let changed = value.as_ref().and_then(|value| inner.changed(space, &key, value));
                let value = changed.or(value);
                if space == Space::Jobs {
                    let id = JobId::from_bytes(key.as_slice().try_into().expect("a job's key is its id"));
                    match &value {
                        Some(value) => {
                            let job: Job = codec::decode(space, value).expect("a job reads back");
                            assert_eq!(job.id, id, "a job lies under its id");
                            inner.jobs.insert(id, Rc::new(job));
                        }
                        None => drop(inner.jobs.remove(&id)),
                    }
                }
                let rows = inner.spaces.get_mut(&space).expect("every space is there");
                match value {
                    Some(value) => drop(rows.insert(key, value.into())),
                    None => drop(rows.remove(&key)),
                }
            }
        }
        match fate {
            Fate::Holds => Ok(()),
            Fate::Lost | Fate::Written => Err(DiskError::Io("the simulated disk failed".into())),
        }
    }
}
