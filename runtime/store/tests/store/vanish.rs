//! A data folder that disappears under an open store: nothing is written into what is left, nothing less is opened, and
//! the store continues by itself when the folder is back.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::time::{Duration, Instant};

use windlass_store::{Error, Store};

use crate::disk_full::{job, until_taken};
use crate::folder::{Acknowledged, copy, files, fill, missing, open, temporary};

/// Waits until the store has noticed by itself, and answers what it says.
async fn until_troubled(store: &Store) -> String {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(why) = store.trouble() {
            return why;
        }
        assert!(Instant::now() < end, "it never noticed");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Asks for more than two of the store's own tries: each time it must refuse, and leave what is there as it is.
async fn assert_refuses_and_leaves_alone(store: &Store, dir: &Path) {
    let before = tree(dir);
    for _ in 0..30 {
        match store.enqueue(vec![job()]).await {
            Err(Error::Unavailable { why }) => assert!(why.contains(&dir.display().to_string()), "{why}"),
            other => panic!("it should be refused, with nothing done: {other:?}"),
        }
        assert!(store.trouble().is_some(), "it says that it is ready");
        assert!(matches!(store.event_bounds().await, Err(Error::Unavailable { .. })), "it is read as if it were there");
        assert_eq!(tree(dir), before);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Every file and its size; none when there is no folder.
fn tree(dir: &Path) -> Option<Vec<(PathBuf, u64)>> {
    let size = |path: &PathBuf| dir.join(path).metadata().map_or(0, |found| found.len());
    dir.exists().then(|| files(dir).into_iter().map(|path| (path.clone(), size(&path))).collect())
}

async fn filled(dir: &Path) -> (Store, Acknowledged) {
    let store = open(dir).expect("opens");
    let acknowledged = fill(&store, (0..30).map(|_| 500)).await;
    (store, acknowledged)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_database_is_noticed_without_a_write_never_recreated_and_not_opened_by_a_restart() {
    let place = temporary();
    let dir = place.path().join("data");
    let (store, _) = filled(&dir).await;
    fs::remove_dir_all(dir.join("store")).expect("removes it");
    let why = until_troubled(&store).await;
    assert!(why.contains("store is not there any more"), "{why}");
    assert_refuses_and_leaves_alone(&store, &dir).await;
    store.close().await;

    for _ in 0..2 {
        let message = open(&dir).err().expect("it would be empty").to_string();
        assert!(message.contains("data/store: the database is not there"), "{message}");
        assert!(message.contains("mounted") && message.contains("backup"), "{message}");
        assert!(!message.contains("witness"), "advice that leads to an empty store: {message}");
        assert!(!dir.join("store").exists(), "the refusal made a new one");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_data_folder_is_not_made_again_by_the_store_that_had_it() {
    let place = temporary();
    let dir = place.path().join("data");
    let (store, _) = filled(&dir).await;
    fs::remove_dir_all(&dir).expect("removes it");
    let why = until_troubled(&store).await;
    assert!(why.contains("data is not there any more"), "{why}");
    assert_refuses_and_leaves_alone(&store, &dir).await;
    fs::create_dir(&dir).expect("an empty one takes its place");
    assert_refuses_and_leaves_alone(&store, &dir).await;
    store.close().await;
    assert_eq!(files(&dir), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_comes_back_is_taken_up_again_and_an_older_copy_is_not() {
    let place = temporary();
    let (dir, aside, older) = (place.path().join("data"), place.path().join("aside"), place.path().join("older"));
    let (store, mut acknowledged) = filled(&dir).await;
    copy(&dir, &older);
    acknowledged.extend(fill(&store, (0..5).map(|_| 700)).await);

    // Moved away and back: the same folder.
    fs::rename(&dir, &aside).expect("moves it away");
    until_troubled(&store).await;
    fs::rename(&aside, &dir).expect("moves it back");
    until_taken(|| store.enqueue(vec![job()])).await;
    assert_eq!(store.trouble(), None);
    assert_eq!(missing(&store, &acknowledged).await, None);

    // A backup from before the last commits: less than was acknowledged.
    fs::rename(&dir, &aside).expect("moves it away");
    until_troubled(&store).await;
    fs::rename(&older, &dir).expect("puts the backup in its place");
    assert_refuses_and_leaves_alone(&store, &dir).await;
    let why = store.trouble().expect("it is not opened");
    assert!(why.contains("is older") && why.contains("commits are missing"), "{why}");

    // A copy of all that there was.
    fs::remove_dir_all(&dir).expect("removes the backup");
    copy(&aside, &dir);
    acknowledged.extend(until_filled(&store).await);
    assert_eq!(missing(&store, &acknowledged).await, None);
    store.close().await;
    let store = open(&dir).expect("the copy is the store now");
    assert_eq!(missing(&store, &acknowledged).await, None);
    store.close().await;
}

/// A few more jobs, as soon as the store takes them.
async fn until_filled(store: &Store) -> Acknowledged {
    until_taken(|| store.enqueue(vec![job()])).await;
    fill(store, (0..5).map(|_| 900)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_short_though_its_witness_is_not_is_opened_once_and_left_alone() {
    let place = temporary();
    let (dir, other) = (place.path().join("data"), place.path().join("other"));
    let (store, _) = filled(&dir).await;
    // Another database under the same path, with a witness that knows as much: only opening it shows what is missing.
    copy(&dir, &other);
    let longer = open(&other).expect("opens");
    fill(&longer, (0..40).map(|_| 100)).await;
    longer.close().await;
    fs::copy(other.join("witness"), place.path().join("witness")).expect("copies");
    fs::remove_dir_all(&other).expect("removes it");
    copy(&dir, &other);
    fill(&store, (0..10).map(|_| 100)).await;
    fs::rename(place.path().join("witness"), other.join("witness")).expect("replaces it");
    fs::rename(&dir, place.path().join("aside")).expect("moves it away");
    fs::rename(&other, &dir).expect("puts the short one in its place");
    let end = Instant::now() + Duration::from_secs(60);
    while !store.trouble().is_some_and(|why| why.contains("is not complete")) {
        assert!(Instant::now() < end, "it says: {:?}", store.trouble());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_refuses_and_leaves_alone(&store, &dir).await;
    store.close().await;
}

/// A folder mounted over another.
struct Bound(PathBuf);

impl Bound {
    /// None where this user may not mount.
    fn mount(from: &Path, at: &Path) -> Option<Bound> {
        let mounted = Process::new("mount").arg("--bind").args([from, at]).output();
        mounted.is_ok_and(|output| output.status.success()).then(|| Bound(at.to_owned()))
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        let _ = Process::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_is_lazily_unmounted_is_noticed_and_taken_up_again_when_it_is_mounted() {
    let place = temporary();
    let (disk, dir) = (place.path().join("disk"), place.path().join("data"));
    fs::create_dir(&disk).and_then(|()| fs::create_dir(&dir)).expect("makes folders");
    let Some(bound) = Bound::mount(&disk, &dir) else {
        println!("skipped: this user may not mount");
        return;
    };
    let (store, mut acknowledged) = filled(&dir).await;
    drop(bound);
    let why = until_troubled(&store).await;
    assert!(why.contains("data is not the one that was opened"), "{why}");
    assert_refuses_and_leaves_alone(&store, &dir).await;
    assert_eq!(files(&dir), Vec::<PathBuf>::new(), "it wrote into the mount point");

    let _bound = Bound::mount(&disk, &dir).expect("it could be mounted before");
    acknowledged.extend(until_filled(&store).await);
    assert_eq!(missing(&store, &acknowledged).await, None);
    store.close().await;
}
