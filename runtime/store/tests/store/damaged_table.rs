//! Damaged tables: a start that they prevent names the file that is damaged. A damaged block that is met later costs
//! the jobs in it and no others: these are read, listed, searched, claimed and changed as before, and answers say which
//! ones are missing.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fjall::{Database, KeyspaceCreateOptions};
use tempfile::TempDir;
use windlass_core::{BodyKind, Command, Job, JobId, State};
use windlass_store::search::{Filter, Search};
use windlass_store::{By, Claim, Error, JobList, OpenError, Store, Unreadable};

use crate::folder::{Acknowledged, fill, open, temporary};

const JOBS: usize = 300;

/// A folder with a few hundred jobs, all of it in tables.
async fn in_tables() -> (TempDir, Acknowledged) {
    let dir = temporary();
    let store = open(dir.path()).expect("opens");
    let acknowledged = fill(&store, (0..JOBS).map(|index| 40 + index % 60)).await;
    store.close().await;
    let db = Database::builder(dir.path().join("store")).open().expect("opens");
    for name in db.list_keyspace_names() {
        let keyspace = db.keyspace(&name, KeyspaceCreateOptions::default).expect("exists");
        keyspace.rotate_memtable_and_wait().expect("flushes");
    }
    (dir, acknowledged)
}

/// The one table of a keyspace.
fn table(dir: &Path, keyspace: &str) -> PathBuf {
    let db = Database::builder(dir.join("store")).open().expect("opens");
    let keyspace = db.keyspace(keyspace, KeyspaceCreateOptions::default).expect("exists");
    let tables: Vec<_> = fs::read_dir(keyspace.path().join("tables")).expect("lists").collect();
    assert_eq!(tables.len(), 1, "{tables:?}");
    tables.into_iter().flatten().next().expect("a table").path()
}

/// Turns over a byte.
fn flip(file: &Path, at: impl Fn(usize) -> usize) {
    let mut bytes = fs::read(file).expect("reads");
    let at = at(bytes.len());
    bytes[at] ^= 0xff;
    fs::write(file, bytes).expect("writes");
}

fn ids(acknowledged: &Acknowledged) -> BTreeSet<JobId> {
    acknowledged.iter().map(|(id, _)| *id).collect()
}

/// What came back and what did not make up the whole, and only the damaged ones are missing.
#[track_caller]
fn check(what: &str, found: &[JobId], unreadable: &Unreadable, all: &BTreeSet<JobId>, lost: &BTreeSet<JobId>) {
    let found: BTreeSet<JobId> = found.iter().copied().collect();
    assert_eq!(found, all - lost, "{what}");
    assert_eq!(&unreadable.ids.iter().copied().collect::<BTreeSet<_>>(), lost, "{what}");
    assert_eq!(unreadable.count, lost.len() as u64, "{what}");
    assert_eq!(unreadable.why.is_some(), !lost.is_empty(), "{what}");
}

/// Every way of a search: short and long, by records and by payloads.
async fn searches(store: &Store) -> Vec<(String, Vec<JobId>, Unreadable)> {
    let mut found = Vec::new();
    for few in [5_000, 1] {
        store.set_few_rows(few);
        let pending = Filter { states: vec![State::Pending], ..Filter::default() };
        // Payloads are random bytes; one of them is in nearly all.
        let payload = Filter { payload_contains: Some(String::new()), ..Filter::default() };
        for (name, filter) in [("all", Filter::default()), ("pending", pending), ("payload", payload)] {
            let page = store.search(Search::of(filter, 1_000)).await.expect("what can be read is found");
            found.push((
                format!("{name}, {few} rows are few"),
                page.jobs.iter().map(|found| found.job.id).collect(),
                page.unreadable,
            ));
        }
    }
    found
}

async fn list(store: &Store) -> (Vec<JobId>, Unreadable) {
    let (jobs, unreadable) = store.list(JobList { limit: 1_000, ..JobList::default() }).await.expect("a list");
    (jobs.iter().map(|job: &Job| job.id).collect(), unreadable)
}

#[track_caller]
fn is_damage(error: &Error, file: &Path, holds: &str) {
    assert!(matches!(error, Error::Damaged { .. }), "{error:?}");
    let message = error.to_string();
    assert!(message.contains(&file.display().to_string()) && message.contains(holds), "{message}");
    assert!(message.contains("checksum") && message.contains("backup") && !message.contains("write"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_block_of_jobs_costs_only_the_jobs_in_it() {
    let (dir, acknowledged) = in_tables().await;
    let file = table(dir.path(), "jobs");
    flip(&file, |size| size * 2 / 5);
    let store = open(dir.path()).expect("opens");
    let mut lost = BTreeSet::new();
    for (id, _) in &acknowledged {
        match store.job(*id).await {
            Ok(job) => assert!(job.is_some()),
            Err(error) => {
                is_damage(&error, &file, "jobs");
                lost.insert(*id);
            }
        }
    }
    assert!((1..100).contains(&lost.len()), "one block of many: {}", lost.len());
    let all = ids(&acknowledged);
    let (found, unreadable) = list(&store).await;
    check("a list", &found, &unreadable, &all, &lost);
    for (what, found, unreadable) in searches(&store).await {
        check(&what, &found, &unreadable, &all, &lost);
    }

    let first = *lost.first().expect("one is lost");
    let refused = store.ask(first, Command::Cancel { reason: "test".into(), grace: None }, Vec::new()).await;
    is_damage(&refused.expect_err("it cannot be changed"), &file, "jobs");
    // All the others are worked on.
    let claim = Claim {
        by: By::Worker { worker_id: "w".into(), hostname: "h".into() },
        queues: vec!["damage".parse().expect("a name")],
        count: JOBS,
        wait: Duration::ZERO,
    };
    let claimed: BTreeSet<JobId> =
        store.claim(claim).await.expect("claims").iter().map(|assignment| assignment.job.id).collect();
    assert_eq!(claimed, &all - &lost);
    let more = fill(&store, std::iter::repeat_n(100, 3)).await;
    assert!(store.job(more[2].0).await.expect("reads").is_some());
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_block_of_payloads_leaves_the_jobs_readable() {
    let (dir, acknowledged) = in_tables().await;
    let file = table(dir.path(), "bodies");
    flip(&file, |size| size * 2 / 5);
    let store = open(dir.path()).expect("opens");
    let mut lost = BTreeSet::new();
    for (id, payload) in &acknowledged {
        let job = store.job(*id).await.expect("its record is whole").expect("it is there");
        match store.body(&job, BodyKind::Payload).await {
            Ok(body) => assert_eq!(body.as_ref(), Some(payload)),
            Err(error) => {
                is_damage(&error, &file, "payloads");
                lost.insert(*id);
            }
        }
    }
    assert!((1..100).contains(&lost.len()), "one block of many: {}", lost.len());
    let all = ids(&acknowledged);
    let (found, unreadable) = list(&store).await;
    check("a list", &found, &unreadable, &all, &BTreeSet::new());
    // A search shows payloads.
    for (what, found, unreadable) in searches(&store).await {
        check(&what, &found, &unreadable, &all, &lost);
    }
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_index_costs_nothing_but_time() {
    for index in ["born", "ready"] {
        let (dir, acknowledged) = in_tables().await;
        flip(&table(dir.path(), index), |size| size / 5);
        let store = open(dir.path()).expect("opens");
        let all = ids(&acknowledged);
        let (found, unreadable) = list(&store).await;
        check(index, &found, &unreadable, &all, &BTreeSet::new());
        for (what, found, unreadable) in searches(&store).await {
            check(&format!("{index}: {what}"), &found, &unreadable, &all, &BTreeSet::new());
        }
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_a_damaged_file_prevents_names_that_file() {
    for keyspace in ["jobs", "bodies", "meta"] {
        let (dir, _) = in_tables().await;
        let file = table(dir.path(), keyspace);
        // Another file that a crash has left and that nobody needs is not blamed.
        fs::write(file.with_file_name("999"), b"half").expect("writes");
        let list = fs::read_dir(file.parent().and_then(Path::parent).expect("a keyspace")).expect("lists").flatten();
        let list = list
            .map(|entry| entry.path())
            .find(|path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"v")));
        let list = list.expect("a list of tables");
        let whole = fs::read(&file).expect("reads");
        let whole_list = fs::read(&list).expect("reads");
        for (way, damaged) in [("flipped", &file), ("cut", &file), ("missing", &file), ("cut", &list)] {
            match way {
                "flipped" => flip(damaged, |size| size - 20),
                "cut" => fs::write(damaged, &fs::read(damaged).expect("reads")[..20]).expect("cuts"),
                _ => fs::remove_file(damaged).expect("removes"),
            }
            match open(dir.path()) {
                Err(OpenError::Damaged { file: named, what, advice }) => {
                    assert_eq!(named, *damaged, "{keyspace}, {way}: {what}");
                    assert!(advice.contains("backup"), "{advice}");
                }
                other => panic!("{keyspace}, {way}: {:?}", other.err()),
            }
            fs::write(&file, &whole).expect("heals it");
            fs::write(&list, &whole_list).expect("heals it");
        }
        // Healed, it opens: nothing was changed by the refusals.
        open(dir.path()).expect("opens").close().await;
    }
}

/// A damaged table with as many others above it as make the database merge them.
async fn to_be_merged() -> (TempDir, Acknowledged, PathBuf) {
    let (dir, acknowledged) = in_tables().await;
    let file = table(dir.path(), "jobs");
    flip(&file, |size| size * 2 / 5);
    for _ in 0..4 {
        let store = open(dir.path()).expect("opens");
        for (id, _) in acknowledged.iter().step_by(7) {
            // Those that are damaged refuse.
            let _ = store.ask(*id, Command::Hold { reason: "test".into() }, Vec::new()).await;
            let _ = store.ask(*id, Command::Approve, Vec::new()).await;
        }
        store.close().await;
        drop(store);
        let db = Database::builder(dir.path().join("store")).open().expect("opens");
        let keyspace = db.keyspace("jobs", KeyspaceCreateOptions::default).expect("exists");
        keyspace.rotate_memtable().expect("begins to flush");
        let end = Instant::now() + Duration::from_secs(60);
        while keyspace.sealed_memtable_count() > 0 {
            assert!(Instant::now() < end, "it is never flushed");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    (dir, acknowledged, file)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_cannot_merge_a_damaged_table_says_which_one_and_is_read_as_before() {
    let (dir, acknowledged, file) = to_be_merged().await;
    let store = match open(dir.path()) {
        Ok(store) => store,
        // The merge may come before the first commit of the start.
        Err(OpenError::Damaged { file: named, .. }) => return assert_eq!(named, file),
        Err(other) => panic!("{other}"),
    };
    let end = Instant::now() + Duration::from_secs(60);
    let message = loop {
        match store.trouble() {
            Some(message) if message.contains(&file.display().to_string()) => break message,
            trouble => assert!(Instant::now() < end, "it never says which: {trouble:?}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!(message.contains("holds jobs") && message.contains("backup"), "{message}");
    let mut readable = 0;
    for (id, _) in &acknowledged {
        readable += usize::from(store.job(*id).await.is_ok_and(|job| job.is_some()));
    }
    assert!(readable > JOBS / 2, "the others are read: {readable}");
    store.close().await;
}
