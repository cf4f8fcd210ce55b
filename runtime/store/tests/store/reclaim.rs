//! Disk space of removed jobs comes back while the store runs, and what is not removed stays.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use windlass_core::{Body, JobId, NewJob, QueueName};
use windlass_store::{OpenError, Store};

use crate::folder::{Acknowledged, fill, missing, open, temporary};

const JOBS: usize = 2_500;
const PAYLOAD: usize = 60_000;
/// The journal that is being written to is up to 64 MiB; the rest is what tables and their lists take without any jobs.
const BOUND: u64 = 75_000_000;

/// What a folder really takes on disk.
fn disk_use(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    let sizes = entries.flatten().map(|entry| {
        // A file may be gone by now.
        let path = entry.path();
        if path.is_dir() { disk_use(&path) } else { fs::metadata(&path).map_or(0, |found| found.blocks() * 512) }
    });
    sizes.sum()
}

fn queue() -> QueueName {
    "removed".parse().expect("a name")
}

/// Jobs with payloads that compress badly, so that they take the room they seem to.
async fn fill_many(store: &Store) -> Vec<JobId> {
    let mut ids = Vec::with_capacity(JOBS);
    for first in (0..JOBS).step_by(100) {
        let jobs = (first..first + 100).map(|index| {
            let mut seed = index as u64;
            let mut bytes = Vec::with_capacity(PAYLOAD + 8);
            while bytes.len() < PAYLOAD {
                seed = windlass_core::retry::mix(seed);
                bytes.extend(seed.to_be_bytes());
            }
            NewJob { queue: Some(queue()), payload: Some(Body::Inline(bytes.into())), ..NewJob::default() }
        });
        let stored = store.enqueue(jobs.collect()).await.expect("accepted");
        ids.extend(stored.iter().map(|job| job.id));
    }
    ids
}

/// Waits until the folder is as small as it should be; meanwhile jobs are stored and read.
async fn until_small(store: &Store, dir: &Path, acknowledged: &mut Acknowledged) {
    let end = Instant::now() + Duration::from_secs(120);
    loop {
        acknowledged.extend(fill(store, std::iter::once(2_000)).await);
        assert_eq!(missing(store, acknowledged).await, None);
        let now = disk_use(dir);
        if now < BOUND {
            return;
        }
        assert!(Instant::now() < end, "{} MB are still taken: {:?}", now / 1_000_000, store.disk_use());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// The thread that reclaims space may have the database open for a moment longer than the store.
async fn reopen(dir: &Path) -> Store {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        match open(dir) {
            Ok(store) => return store,
            Err(error @ (OpenError::Damaged { .. } | OpenError::Newer { .. })) => panic!("{error}"),
            Err(error) => assert!(Instant::now() < end, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn filled() -> (TempDir, Store, Acknowledged, Vec<JobId>) {
    let dir = temporary();
    let store = open(dir.path()).expect("opens");
    let kept = fill(&store, (0..200).map(|index| 100 + index * 10)).await;
    let removed = fill_many(&store).await;
    assert!(disk_use(dir.path()) > 2 * BOUND, "there is much to give back: {}", disk_use(dir.path()));
    (dir, store, kept, removed)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_disk_space_of_a_cleared_queue_comes_back_while_the_store_runs() {
    let (dir, store, mut kept, removed) = filled().await;
    assert_eq!(store.clear(queue()).await.expect("clears"), JOBS as u64);
    until_small(&store, dir.path(), &mut kept).await;
    for id in &removed {
        assert_eq!(store.job(*id).await.expect("reads"), None, "removed is removed");
    }
    store.close().await;
    drop(store);
    let store = reopen(dir.path()).await;
    assert_eq!(missing(&store, &kept).await, None);
    for id in &removed {
        assert_eq!(store.job(*id).await.expect("reads"), None, "and stays so");
    }
    // It works a second time, on what the first has left.
    fill_many(&store).await;
    store.clear(queue()).await.expect("clears");
    until_small(&store, dir.path(), &mut kept).await;
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_removed_before_a_restart_is_given_back_after_it() {
    let (dir, store, mut kept, _) = filled().await;
    store.clear(queue()).await.expect("clears");
    store.close().await;
    drop(store);
    let store = reopen(dir.path()).await;
    until_small(&store, dir.path(), &mut kept).await;
    store.close().await;
}
