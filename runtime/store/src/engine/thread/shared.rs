//! What the engine thread shares with readers: the database, and whether the store accepts writes.

use std::sync::Mutex;

use tokio::sync::watch;
use tokio::time::timeout;

use crate::disk::fjall::FjallDisk;
use crate::{Error, limits};

/// The database, as readers find it.
#[derive(Clone)]
pub enum Reads {
    Open(FjallDisk),
    /// It is being opened again and will be there in a moment: a read waits for it.
    Reopening,
    /// It cannot be read, for this reason.
    Unavailable(String),
    Closed,
}

pub struct Shared {
    reads: watch::Sender<Reads>,
    /// Why nothing can be written: from the first commit that failed until one has succeeded.
    trouble: Mutex<Option<String>>,
}

impl Shared {
    pub fn new(disk: FjallDisk) -> Shared {
        Shared { reads: watch::Sender::new(Reads::Open(disk)), trouble: Mutex::new(None) }
    }

    pub(crate) fn set_reads(&self, reads: Reads) {
        self.reads.send_replace(reads);
    }

    /// The database, if it is open at this moment.
    pub fn now(&self) -> Result<FjallDisk, Error> {
        match &*self.reads.borrow() {
            Reads::Open(disk) => Ok(disk.clone()),
            Reads::Reopening => Err(Error::Unavailable { why: "the database is being reopened".into() }),
            Reads::Unavailable(why) => Err(Error::Unavailable { why: why.clone() }),
            Reads::Closed => Err(Error::Closed),
        }
    }

    /// The database; waits a while for one that is being reopened.
    pub async fn open(&self) -> Result<FjallDisk, Error> {
        if !matches!(*self.reads.borrow(), Reads::Reopening) {
            return self.now();
        }
        let mut reads = self.reads.subscribe();
        // Whatever has become of it is in `now`.
        let _ = timeout(limits::READ_WAITS, reads.wait_for(|reads| !matches!(reads, Reads::Reopening))).await;
        self.now()
    }

    /// Why nothing can be written; none while all is well.
    pub fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// Answers whether this is news.
    pub(crate) fn set_trouble(&self, why: Option<String>) -> bool {
        let mut trouble = self.trouble.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let news = *trouble != why;
        *trouble = why;
        news
    }
}
