//! Damaged data folders: each opens with everything that was acknowledged, or is refused with a message that names the
//! place and what to do. Never a panic, never a silent loss. Damage inside a table is found when the record is read,
//! not at the start: a job that then answers with an error counts as noticed here.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use windlass_store::OpenError;

use crate::folder::{Acknowledged, copy, files, fill, missing, open, temporary};

/// Ways to damage a file.
#[derive(Clone, Copy, Debug)]
enum Damage {
    /// A page of zeroes at this share of the file.
    Zeroed(f64),
    /// One byte flipped at this share of the file.
    Flipped(f64),
    /// Cut at this share of the file.
    Cut(f64),
    Deleted,
}

const WAYS: [Damage; 9] = [
    Damage::Zeroed(0.0),
    Damage::Zeroed(0.5),
    Damage::Zeroed(1.0),
    Damage::Flipped(0.0),
    Damage::Flipped(0.5),
    Damage::Flipped(1.0),
    Damage::Cut(0.5),
    Damage::Cut(0.999),
    Damage::Deleted,
];

fn damage(path: &Path, way: Damage) {
    if let Damage::Deleted = way {
        return fs::remove_file(path).expect("deletes");
    }
    let mut bytes = fs::read(path).expect("reads");
    if bytes.is_empty() {
        return;
    }
    let place = |share: f64| ((bytes.len() - 1) as f64 * share) as usize;
    match way {
        Damage::Zeroed(share) => {
            let begin = place(share).min(bytes.len().saturating_sub(4096));
            let end = (begin + 4096).min(bytes.len());
            bytes[begin..end].fill(0);
        }
        Damage::Flipped(share) => {
            let at = place(share);
            bytes[at] ^= 0xff;
        }
        Damage::Cut(share) => bytes.truncate(place(share)),
        Damage::Deleted => {}
    }
    fs::write(path, bytes).expect("writes");
}

/// A folder as a process that is killed leaves it, and what was acknowledged in it.
struct Victim {
    dir: TempDir,
    acknowledged: Acknowledged,
}

async fn victim(sizes: impl Iterator<Item = usize>) -> Victim {
    let alive = temporary();
    let store = open(alive.path()).expect("opens");
    let acknowledged = fill(&store, sizes).await;
    let dir = temporary();
    copy(alive.path(), dir.path());
    store.close().await;
    Victim { dir, acknowledged }
}

/// Damages a copy in one way and looks what becomes of it.
async fn check(victim: &Victim, file: &PathBuf, way: Damage, report: &mut Report) {
    let dir = temporary();
    copy(victim.dir.path(), dir.path());
    damage(&dir.path().join(file), way);
    match open(dir.path()) {
        Ok(store) => {
            report.opened += 1;
            let lost = missing(&store, &victim.acknowledged).await;
            assert!(
                lost.is_none(),
                "{} {way:?}: opened without an error, but {}",
                file.display(),
                lost.unwrap_or_default()
            );
            store.close().await;
        }
        Err(error) => {
            report.refused += 1;
            let message = error.to_string();
            assert!(
                message.contains(&dir.path().display().to_string()),
                "{} {way:?} names no place: {message}",
                file.display()
            );
            if let OpenError::Damaged { advice, .. } = error {
                assert!(!advice.is_empty(), "{} {way:?} does not say what to do: {message}", file.display());
            }
        }
    }
}

#[derive(Default)]
struct Report {
    opened: usize,
    refused: usize,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_young_folder_damaged_anywhere_opens_whole_or_is_refused_with_advice() {
    let victim = victim((0..200).map(|index| 64 + index * 8)).await;
    let mut report = Report::default();
    for (index, file) in files(victim.dir.path()).iter().enumerate() {
        // What everything hangs on is damaged in every way; of the rest, each way takes its turn.
        let vital = !file.to_string_lossy().contains("keyspaces");
        for (turn, way) in WAYS.into_iter().enumerate() {
            if vital || index % 3 == turn % 3 {
                check(&victim, file, way, &mut report).await;
            }
        }
    }
    println!("{} opened whole, {} refused", report.opened, report.refused);
    assert!(report.refused > 0, "the damage did not reach anything that matters");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_with_tables_and_blobs_damaged_anywhere_opens_whole_or_is_refused_with_advice() {
    // Enough for the database to have written tables, and some bodies that are files.
    let sizes = (0..420).map(|index| if index % 100 == 99 { 100_000 } else { 60_000 });
    let victim = victim(sizes).await;
    let all = files(victim.dir.path());
    assert!(all.iter().any(|file| file.to_string_lossy().contains("tables")), "there are no tables: {all:?}");
    let mut report = Report::default();
    for (index, file) in all.iter().enumerate() {
        // Copying is expensive here: the ways take turns.
        check(&victim, file, WAYS[index % WAYS.len()], &mut report).await;
    }
    println!("{} opened whole, {} refused", report.opened, report.refused);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_torn_witness_is_no_reason_to_refuse_a_whole_database() {
    let victim = victim((0..20).map(|_| 100)).await;
    fs::write(victim.dir.path().join("witness"), [7; 5]).expect("tears it");
    let store = open(victim.dir.path()).expect("opens");
    assert_eq!(missing(&store, &victim.acknowledged).await, None);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_that_never_reached_the_disk_take_nothing_acknowledged_with_them() {
    let alive = temporary();
    let store = open(alive.path()).expect("opens");
    let acknowledged = fill(&store, (0..50).map(|_| 500)).await;
    // Everything acknowledged has been synced: this is what the disk surely holds.
    let synced = temporary();
    copy(alive.path(), synced.path());
    // More is written; of these later pages, some reach the disk and some do not.
    fill(&store, (50..90).map(|_| 500)).await;
    let later = temporary();
    copy(alive.path(), later.path());
    store.close().await;
    for seed in 0..12u64 {
        let dir = temporary();
        copy(later.path(), dir.path());
        for file in files(dir.path()) {
            lose_pages(&synced.path().join(&file), &dir.path().join(&file), seed);
        }
        match open(dir.path()) {
            Ok(store) => {
                let lost = missing(&store, &acknowledged).await;
                assert!(lost.is_none(), "seed {seed}: {}", lost.unwrap_or_default());
                store.close().await;
            }
            // The witness may have reached the disk ahead of the pages: then it is refused, never opened with less.
            Err(error) => assert!(error.to_string().contains("acknowledged") || error.to_string().contains("database")),
        }
    }
}

/// Puts back the older content of a random half of the pages that differ.
fn lose_pages(older: &Path, newer: &Path, seed: u64) {
    const PAGE: usize = 4096;
    let Ok(old) = fs::read(older) else { return };
    let mut new = fs::read(newer).expect("reads");
    for (index, page) in new.chunks_mut(PAGE).enumerate() {
        if windlass_core::retry::mix(seed ^ (index as u64) << 20).is_multiple_of(2) {
            let begin = (index * PAGE).min(old.len());
            let kept = &old[begin..(begin + page.len()).min(old.len())];
            page[..kept.len()].copy_from_slice(kept);
            page[kept.len()..].fill(0);
        }
    }
    fs::write(newer, new).expect("writes");
}
