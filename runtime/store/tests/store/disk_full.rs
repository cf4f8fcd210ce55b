//! A full disk: refused with a reason while it lasts, nothing acknowledged is lost, and no manual step is needed
//! afterwards.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::time::{Duration, Instant};

use windlass_core::{Body, BodyKind, Command, Complete, Holder, NewJob, Reply, State};
use windlass_store::{By, Claim, Error, Store};

use crate::folder::{fill, missing, open, temporary};

/// A small file system of its own.
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// None where this user may not mount one.
    pub fn mount(at: &Path, megabytes: u32) -> Option<SmallDisk> {
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
pub fn take_all_room(path: &Path) {
    let mut file = File::create(path).expect("makes a file");
    let block = vec![1u8; 64 * 1024];
    while file.write_all(&block).is_ok() {}
    while file.write_all(&[1]).is_ok() {}
}

/// Gives some of it back.
fn leave_room(path: &Path, bytes: u64) {
    let file = File::options().write(true).open(path).expect("opens");
    let size = file.metadata().expect("looks").len();
    file.set_len(size.saturating_sub(bytes)).expect("cuts it");
}

pub fn job() -> NewJob {
    let queue = Some("full".parse().expect("a name"));
    NewJob { queue, payload: Some(Body::Inline(vec![3; 2_000].into())), ..NewJob::default() }
}

/// Asks until the store takes it, or gives up after a minute.
pub async fn until_taken<T, F: Future<Output = Result<T, Error>>>(mut ask: impl FnMut() -> F) -> T {
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
async fn a_full_disk_is_refused_with_the_reason_loses_nothing_and_writes_continue_when_there_is_room() {
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
    let message = refused.to_string();
    assert!(message.contains("space") || message.contains("write"), "{message}");
    // For longer than the store's own tries take: every read is answered, every write refused, and it never says ready.
    for _ in 0..30 {
        let (more, again) = enqueue_until_refused(&store).await;
        assert_eq!(more, 0, "it took a job on a full disk");
        assert!(matches!(again, Error::Unavailable { .. }), "nothing was done: {again}");
        assert!(store.trouble().is_some_and(|why| why.contains("the disk is full")), "{:?}", store.trouble());
        for (id, payload) in &acknowledged {
            let job = store.job(*id).await.expect("reads go on").expect("it was acknowledged");
            assert_eq!(store.body(&job, BodyKind::Payload).await.expect("reads go on").as_ref(), Some(payload));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    fs::remove_file(&ballast).expect("makes room");
    until_taken(|| store.enqueue(vec![job()])).await;
    assert_eq!(store.trouble(), None, "it takes writes again");
    assert_eq!(missing(&store, &acknowledged).await, None);
    // The attempt that was running all the while ends as if nothing had been.
    let done = Command::Complete(Complete::by(Holder::Token(running.token)));
    let reply = until_taken(|| store.ask(running.job.id, done.clone(), Vec::new())).await;
    assert!(matches!(reply, Reply::Now { state: State::Completed, .. }), "{reply:?}");
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_on_a_full_disk_says_that_it_is_full_and_works_when_there_is_room() {
    let place = temporary();
    let Some(_disk) = SmallDisk::mount(place.path(), 96) else {
        println!("skipped: this user may not mount a small file system");
        return;
    };
    let (data, ballast) = (place.path().join("data"), place.path().join("ballast"));
    let refused = |message: String| {
        assert!(message.contains("the disk is full") && message.contains("make room"), "{message}");
        assert!(message.contains(&data.display().to_string()), "it does not say which: {message}");
        assert!(!message.contains("backup") && !message.contains("damaged"), "{message}");
    };
    // A new folder, with room for a little more each time: it fails a step later.
    let mut refusals = 0;
    for pages in 0.. {
        take_all_room(&ballast);
        leave_room(&ballast, pages * 4096);
        match open(&data) {
            Ok(store) => {
                store.close().await;
                break;
            }
            Err(error) => refused(error.to_string()),
        }
        refusals += 1;
        fs::remove_file(&ballast).expect("makes room");
    }
    assert!(refusals > 3, "it was never full");
    fs::remove_file(&ballast).expect("makes room");
    let store = open(&data).expect("opens");
    let acknowledged = fill(&store, (0..100).map(|_| 3_000)).await;
    store.close().await;
    // One with jobs in it: it starts as long as the last page of the journal has room for what a start writes.
    take_all_room(&ballast);
    let mut message = None;
    for _ in 0..200 {
        match open(&data) {
            Ok(store) => store.close().await,
            Err(error) => {
                message = Some(error.to_string());
                break;
            }
        }
    }
    refused(message.expect("the journal is full at some time"));
    fs::remove_file(&ballast).expect("makes room");
    let store = open(&data).expect("opens");
    assert_eq!(missing(&store, &acknowledged).await, None);
    store.close().await;
}
