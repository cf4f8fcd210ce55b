//! A data folder to experiment on: filled with acknowledged jobs, copied as a dying process leaves it, and looked at.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use windlass_core::{BodyKind, JobId, NewJob, Time};
use windlass_store::{Clock, Durability, OpenError, Options, Store};

/// A clock that a test moves by hand.
#[derive(Default)]
pub struct HandClock(AtomicU64);

impl HandClock {
    pub fn at(millis: u64) -> Arc<HandClock> {
        Arc::new(HandClock(AtomicU64::new(millis)))
    }

    pub fn advance(&self, span: std::time::Duration) {
        self.0.fetch_add(span.as_millis() as u64, Ordering::Relaxed);
    }
}

impl Clock for HandClock {
    fn now(&self) -> Time {
        Time(self.0.load(Ordering::Relaxed))
    }
}

pub fn open(dir: &Path) -> Result<Store, OpenError> {
    let options = Options { dir: dir.to_owned(), durability: Durability::Fsync };
    Store::open(options, HandClock::at(1_800_000_000_000))
}

/// What was acknowledged: each job and the payload it must still have.
pub type Acknowledged = Vec<(JobId, Bytes)>;

/// Enqueues jobs one by one, each acknowledged by itself. `sizes` are the sizes of their payloads.
pub async fn fill(store: &Store, sizes: impl Iterator<Item = usize>) -> Acknowledged {
    let mut acknowledged = Vec::new();
    for (index, size) in sizes.enumerate() {
        let payload = payload(index, size);
        let body = store.keep(payload.clone()).await.expect("there is room");
        let queue = Some("damage".parse().expect("a name"));
        let stored = store.enqueue(vec![NewJob { queue, payload: Some(body), ..NewJob::default() }]).await;
        acknowledged.push((stored.expect("accepted")[0].id, payload));
    }
    acknowledged
}

/// Bytes that compress badly, so that they take the room they seem to.
fn payload(index: usize, size: usize) -> Bytes {
    let mut seed = index as u64 + 1;
    let mut bytes = Vec::with_capacity(size + 8);
    while bytes.len() < size {
        seed = windlass_core::retry::mix(seed);
        bytes.extend(seed.to_be_bytes());
    }
    bytes.truncate(size);
    bytes.into()
}

/// Are they all there, whole? The first that is not is named; an error from the store counts as noticed.
pub async fn missing(store: &Store, acknowledged: &Acknowledged) -> Option<String> {
    for (id, payload) in acknowledged {
        let job = match store.job(*id).await {
            Ok(Some(job)) => job,
            Ok(None) => return Some(format!("{id} is gone")),
            Err(_) => continue,
        };
        match store.body(&job, BodyKind::Payload).await {
            Ok(Some(found)) if found == *payload => {}
            Ok(found) => {
                return Some(format!("{id} has another payload: {} bytes", found.map_or(0, |body| body.len())));
            }
            Err(_) => {}
        }
    }
    None
}

/// A folder that goes with the test; in memory where there is such a place, since these tests copy a great deal.
pub fn temporary() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        return tempfile::tempdir_in(memory).expect("a folder");
    }
    tempfile::tempdir().expect("a folder")
}

pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("lists") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).expect("copies");
        }
    }
}

/// Every file below, by its path relative to the folder.
pub fn files(dir: &Path) -> Vec<PathBuf> {
    fn walk(dir: &Path, below: &Path, out: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).expect("lists") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                walk(&path, below, out);
            } else {
                out.push(path.strip_prefix(below).expect("below").to_owned());
            }
        }
    }
    let mut out = Vec::new();
    walk(dir, dir, &mut out);
    out.sort();
    out
}
