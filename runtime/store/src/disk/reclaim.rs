//! Disk space of removed jobs, given back while the server runs.
//!
//! fjall gives space back as a side effect of writing: a journal is removed when every keyspace has written its part of
//! it to tables, and the rows of removed jobs disappear when their table is merged with the one that holds the removal.
//! A store that has become quiet would keep both. So one thread of low priority looks every few seconds whether much of
//! what lies there is of no use, and has it written out and merged: while little is committed, or after some minutes
//! all the same.
//!
//! It never touches what is committed: a crash in between leaves the old files or the new ones.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::thread::{park_timeout, sleep};
use std::time::{Duration, Instant};

use ::fjall::{AbstractTree, Keyspace};

use crate::disk::Space;
use crate::disk::codec;
use crate::disk::counted::CommitStatus;
use crate::disk::damage;
use crate::disk::fjall::{FjallDisk, explain};
use crate::disk::folder::DataFolder;
use crate::engine::thread::shared::Shared;
use crate::idle_thread::lower_priority;
use crate::limits;

pub struct Reclaimer {
    pub commit_status: Arc<CommitStatus>,
    pub folder: Arc<DataFolder>,
    pub shared: Arc<Shared>,
    /// Gone when the store is.
    pub alive: Weak<()>,
}

/// A row of each keyspace that is never read: its key is behind all others. A keyspace from which everything was
/// removed has no row that shows how far it has been written out, and would hold the journals for ever.
const MARKER: [u8; 65] = [u8::MAX; 65];

/// What the thread remembers between two looks.
#[derive(Default)]
struct Memory {
    /// The last change that was looked at.
    seqno: u64,
    /// Since when the store has been too busy.
    busy_since: Option<Instant>,
    /// Keyspaces with a damaged table: merging them fails.
    damaged: [bool; Space::ALL.len()],
    /// After a try that failed or left something, because somebody was reading: not before this, and how long that
    /// pause is.
    not_before: Option<Instant>,
    pause: Duration,
}

/// What is worth doing.
#[derive(Debug, Default, PartialEq, Eq)]
struct Work {
    journals: bool,
    merge: Vec<Space>,
}

impl Work {
    fn is_none(&self) -> bool {
        !self.journals && self.merge.is_empty()
    }
}

impl Reclaimer {
    pub fn run(self) {
        lower_priority();
        let mut memory = Memory::default();
        let mut before = (self.commits(), Instant::now());
        while self.alive.strong_count() > 0 {
            park_timeout(limits::RECLAIM_EVERY);
            let now = (self.commits(), Instant::now());
            let quiet = is_quiet(before.0, now.0, now.1 - before.1);
            before = now;
            if !quiet && memory.busy_since.get_or_insert_with(Instant::now).elapsed() < limits::RECLAIM_LATEST {
                continue;
            }
            memory.busy_since = None;
            if self.alive.strong_count() > 0 && memory.not_before.is_none_or(|at| Instant::now() >= at) {
                self.look(&mut memory);
            }
        }
    }

    /// How many commits there were, and how long they took together.
    fn commits(&self) -> (u64, Duration) {
        let tally = &self.commit_status.commits;
        let took = Duration::from_micros(tally.micros.load(Ordering::Relaxed));
        (tally.count.load(Ordering::Relaxed), took)
    }

    fn look(&self, memory: &mut Memory) {
        let Ok(disk) = self.shared.now() else { return };
        // Tables are written by path, and must come to lie in the folder that was opened.
        if self.shared.trouble().is_some() || self.folder.check().is_err() || disk.seqno() == memory.seqno {
            return;
        }
        memory.seqno = disk.seqno();
        let work = memory.work(&disk);
        if work.is_none() {
            return;
        }
        let (before, began) = (disk.disk_use(), Instant::now());
        let done = memory.carry_out(&disk, &work);
        // What it wrote itself is no news.
        memory.seqno = disk.seqno();
        memory.pause(done.is_ok() && memory.work(&disk).is_none());
        if let Err(error) = done {
            tracing::warn!("disk space could not be given back now: {}", explain(&error));
            return;
        }
        let after = disk.disk_use();
        tracing::info!(
            "gave disk space back in {:.1?}: the database took {} MB and takes {} MB",
            began.elapsed(),
            before.total() / 1_000_000,
            after.total() / 1_000_000
        );
    }
}

/// Whether there is time for this: few commits, and the disk is not busy with them.
fn is_quiet(before: (u64, Duration), now: (u64, Duration), span: Duration) -> bool {
    let (commits, took) = (now.0 - before.0, now.1.saturating_sub(before.1));
    commits as f64 <= span.as_secs_f64() * limits::RECLAIM_COMMITS && took <= span.mul_f64(limits::RECLAIM_BUSY)
}

impl Memory {
    /// Tries again a while later if something is left, each time a longer one.
    fn pause(&mut self, nothing_is_left: bool) {
        if nothing_is_left {
            (self.not_before, self.pause) = (None, Duration::ZERO);
            return;
        }
        self.pause = (self.pause * 2).clamp(limits::RECLAIM_PAUSE, limits::RECLAIM_PAUSE_MOST);
        self.not_before = Some(Instant::now() + self.pause);
        self.seqno = 0;
    }

    fn work(&self, disk: &FjallDisk) -> Work {
        let free = free_space(disk.dir());
        let merge = Space::ALL.into_iter().filter(|space| {
            let keyspace = disk.space(*space);
            let size = keyspace.disk_space();
            if self.damaged[*space as usize] || !(limits::RECLAIM_TABLES..=limits::RECLAIM_MOST).contains(&size) {
                return false;
            }
            // While it is merged, both the old tables and the new ones are there.
            if free.is_some_and(|free| free < size + limits::RECLAIM_ROOM) {
                return false;
            }
            removals(keyspace) * limits::RECLAIM_PART >= keyspace.approximate_len() as u64
        });
        let merge = merge.collect();
        Work { journals: disk.has_spare_journal(), merge }
    }

    fn carry_out(&mut self, disk: &FjallDisk, work: &Work) -> Result<(), ::fjall::Error> {
        for space in &work.merge {
            let keyspace = disk.space(*space);
            write_out(disk, keyspace)?;
            // fjall's own merges first: one of the same keyspace would wait for ours with a thread that others need.
            wait_until(disk, || disk.merges() == 0)?;
            match keyspace.major_compact() {
                Err(error) if damage::is_damage(&error) => {
                    tracing::error!("`{}` cannot be merged: {}", space.name(), explain(&error));
                    self.damaged[*space as usize] = true;
                    continue;
                }
                merged => merged?,
            }
            // It also lets go of the old tables.
            mark(disk, keyspace)?;
        }
        if disk.has_spare_journal() {
            for space in Space::ALL {
                write_out(disk, disk.space(space))?;
            }
        }
        if disk.has_spare_journal() {
            for space in Space::ALL {
                mark(disk, disk.space(space))?;
            }
        }
        Ok(())
    }
}

/// How many rows of a keyspace only say that another is removed.
fn removals(keyspace: &Keyspace) -> u64 {
    let in_memory = keyspace.tree.active_memtable().iter().filter(|row| row.is_tombstone()).count();
    keyspace.tree.tombstone_count() + in_memory as u64
}

/// Writes what a keyspace has in memory to a table, and waits for it.
fn write_out(disk: &FjallDisk, keyspace: &Keyspace) -> Result<(), ::fjall::Error> {
    if !keyspace.tree.active_memtable().is_empty() {
        keyspace.rotate_memtable()?;
    }
    wait_until(disk, || keyspace.sealed_memtable_count() == 0)
}

/// Waits for fjall's threads; not for long, and not when they have given up: then the database is to be reopened, and
/// must not be held.
fn wait_until(disk: &FjallDisk, done: impl Fn() -> bool) -> Result<(), ::fjall::Error> {
    let until = Instant::now() + limits::RECLAIM_WAIT;
    while !done() {
        if disk.takes_writes().is_err() {
            return Err(::fjall::Error::Poisoned);
        }
        if Instant::now() > until {
            return Err(::fjall::Error::Io(std::io::ErrorKind::TimedOut.into()));
        }
        sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Has the keyspace show that all up to now is in tables.
fn mark(disk: &FjallDisk, keyspace: &Keyspace) -> Result<(), ::fjall::Error> {
    keyspace.insert(MARKER, [codec::FORMAT])?;
    write_out(disk, keyspace)
}

/// None where the system does not say.
fn free_space(dir: &Path) -> Option<u64> {
    rustix::fs::statvfs(dir).ok().map(|found| found.f_bavail.saturating_mul(found.f_frsize))
}
