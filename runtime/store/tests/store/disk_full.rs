//! A full disk: refused in words while it lasts, nothing acknowledged lost, and no hand needed afterwards.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::time::{Duration, Instant};

use windlass_core::{Body, Command, NewJob, Reply, State, Usage, Word};
use windlass_store::{By, Claim, Error, Store};

use crate::folder::{fill, missing, open, temporary};

/// A small file system of its own.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// None where this user may not mount one.
    fn mount(at: &Path, megabytes: u32) -> Option<SmallDisk> {
        let size = format!("size={megabytes}m");
        let mounted = Process::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(at).output();
        mounted.is_ok_and(|output| output.status.success()).then(|| SmallDisk(at.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Process::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// Takes all the room that is left.
fn take_all_room(path: &Path) {
    let mut file = File::create(path).expect("makes a file");
    let block = vec![1u8; 64 * 1024];
    while file.write_all(&block).is_ok() {}
    while file.write_all(&[1]).is_ok() {}
}

fn job() -> NewJob {
    let queue = Some("full".parse().expect("a name"));
    NewJob { queue, payload: Some(Body::Inline(vec![3; 2_000].into())), ..NewJob::default() }
}

/// Asks until the store takes it, or gives up after a minute.
async fn until_taken<T, F: Future<Output = Result<T, Error>>>(mut ask: impl FnMut() -> F) -> T {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        match ask().await {
            Ok(value) => return value,
            Err(error) => assert!(Instant::now() < end, "it never recovered: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn enqueue_until_refused(store: &Store) -> (usize, Error) {
    for stored in 0.. {
        if let Err(error) = store.enqueue(vec![job()]).await {
            return (stored, error);
        }
    }
    unreachable!("the disk is small")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_refused_in_words_loses_nothing_and_is_left_behind_when_there_is_room() {
    let place = temporary();
    let Some(_disk) = SmallDisk::mount(place.path(), 96) else {
        println!("skipped: this user may not mount a small file system");
        return;
    };
    let store = open(&place.path().join("data")).expect("opens");
    let acknowledged = fill(&store, (0..100).map(|_| 3_000)).await;
    let by = By::Worker { worker_id: "w".into(), hostname: "h".into() };
    let claim = Claim { by, queues: vec!["damage".parse().expect("a name")], count: 1, wait: Duration::ZERO };
    let running = store.claim(claim).await.expect("there is a job").remove(0);

    let ballast = place.path().join("ballast");
    take_all_room(&ballast);
    let (_, refused) = enqueue_until_refused(&store).await;
    let words = refused.to_string();
    assert!(words.contains("space") || words.contains("write"), "{words}");
    let (more, again) = enqueue_until_refused(&store).await;
    assert_eq!(more, 0, "it took a job on a full disk");
    assert!(matches!(again, Error::Unavailable { .. } | Error::Unknown { .. }), "{again}");

    fs::remove_file(&ballast).expect("makes room");
    until_taken(|| store.enqueue(vec![job()])).await;
    assert_eq!(missing(&store, &acknowledged).await, None);
    // The attempt that was running all the while ends as if nothing had been.
    let done = Command::Complete {
        word: Word::Of(running.token),
        result: None,
        usage: Usage::default(),
        closing: None,
        notes: None,
    };
    let reply = until_taken(|| store.ask(running.job.id, done.clone(), Vec::new())).await;
    assert!(matches!(reply, Reply::Now { state: State::Completed, .. }), "{reply:?}");
    store.close().await;
}
