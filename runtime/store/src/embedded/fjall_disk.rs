//! The real disk: fjall, with its memory fixed on the day a keyspace is made.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable, Snapshot};
use rustix::process::{Resource, getrlimit};

use super::disk::{Batch, Disk, DiskError, Pairs, Space, Value, after_prefix};
use super::folder;
use crate::{Durability, limits};

const MIB: u64 = 1024 * 1024;
/// Memory for blocks that were read.
const CACHE: u64 = 64 * MIB;
/// The journal is cut down when it passes this: it bounds how long a reopen takes.
const JOURNAL: u64 = 128 * MIB;
const WORKERS: usize = 2;

#[derive(Clone)]
pub struct FjallDisk {
    db: Database,
    /// In the order of `Space::ALL`.
    spaces: Arc<[Keyspace]>,
    persist: PersistMode,
}

impl FjallDisk {
    /// fjall may panic on a damaged file; to our callers that is an error like any other.
    pub fn open(dir: &Path, durability: Durability) -> Result<FjallDisk, fjall::Error> {
        let opened = catch_unwind(AssertUnwindSafe(|| FjallDisk::open_unguarded(dir, durability)));
        opened.unwrap_or(Err(fjall::Error::Unrecoverable))
    }

    /// The same for a database that was open before: nothing of it is created.
    pub fn reopen(dir: &Path, durability: Durability) -> Result<FjallDisk, fjall::Error> {
        let opened = catch_unwind(AssertUnwindSafe(|| {
            let db = Database::recover(config(dir))?;
            if !Space::ALL.into_iter().all(|space| db.keyspace_exists(space.name())) {
                return Err(fjall::Error::Unrecoverable);
            }
            FjallDisk::of(db, durability)
        }));
        opened.unwrap_or(Err(fjall::Error::Unrecoverable))
    }

    fn open_unguarded(dir: &Path, durability: Durability) -> Result<FjallDisk, fjall::Error> {
        FjallDisk::of(Database::open(config(dir))?, durability)
    }

    fn of(db: Database, durability: Durability) -> Result<FjallDisk, fjall::Error> {
        let mut spaces = Vec::with_capacity(Space::ALL.len());
        for space in Space::ALL {
            spaces.push(db.keyspace(space.name(), || options(space))?);
        }
        let persist = match durability {
            Durability::Fsync => PersistMode::SyncData,
            Durability::Os => PersistMode::Buffer,
        };
        Ok(FjallDisk { db, spaces: spaces.into(), persist })
    }

    /// Whether it takes writes. After one that failed, also in the background, fjall takes none until it is reopened.
    pub fn takes_writes(&self) -> Result<(), DiskError> {
        self.db.persist(PersistMode::Buffer).map_err(io)
    }

    /// Whether anybody else holds it, or a view of it.
    pub fn is_read(&self) -> bool {
        Arc::strong_count(&self.spaces) > 1
    }

    /// What is stored at this moment. Reads for callers go through one: outside it, `get` sees a commit part by part as it
    /// is written. Not to be kept: what it sees cannot be cleared away.
    pub fn view(&self) -> View {
        View { snapshot: self.db.snapshot(), spaces: Arc::clone(&self.spaces) }
    }

    fn space(&self, space: Space) -> &Keyspace {
        &self.spaces[space as usize]
    }
}

fn config(dir: &Path) -> fjall::Config {
    Database::builder(dir)
        .cache_size(CACHE)
        .max_journaling_size(JOURNAL)
        .worker_threads(WORKERS)
        .max_cached_files(Some(open_tables()))
        .into_config()
}

/// How many table files stay open: fewer where the process may open few, since others need some as well.
fn open_tables() -> usize {
    let files = getrlimit(Resource::Nofile).current.and_then(|files| usize::try_from(files).ok());
    files.map_or(limits::OPEN_TABLES, |files| limits::OPEN_TABLES.min(files / limits::OPEN_TABLES_PART))
}

/// All of the database as it was at one moment.
#[derive(Clone)]
pub struct View {
    snapshot: Snapshot,
    spaces: Arc<[Keyspace]>,
}

impl View {
    pub fn get(&self, space: Space, key: &[u8]) -> Result<Option<Value>, DiskError> {
        self.snapshot.get(&self.spaces[space as usize], key).map_err(io)
    }

    /// Pairs from `from` (inclusive) to `until` (exclusive); can be gone through from either end.
    pub fn range(&self, space: Space, from: &[u8], until: &[u8]) -> Range {
        // An empty range the wrong way round would be a panic inside fjall.
        let until = until.max(from);
        Range(self.snapshot.range(&self.spaces[space as usize], from..until))
    }

    pub fn under(&self, space: Space, prefix: &[u8]) -> Range {
        self.range(space, prefix, &after_prefix(prefix))
    }
}

/// A run of pairs of a view.
pub struct Range(fjall::Iter);

impl Iterator for Range {
    type Item = Result<(Value, Value), DiskError>;
    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|guard| guard.into_inner().map_err(io))
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(|guard| guard.into_inner().map_err(io))
    }
}

fn options(space: Space) -> KeyspaceCreateOptions {
    let memtable = match space {
        Space::Jobs | Space::Bodies => 16 * MIB,
        Space::Ready | Space::States | Space::Events | Space::Logs => 8 * MIB,
        _ => 4 * MIB,
    };
    KeyspaceCreateOptions::default().max_memtable_size(memtable)
}

impl Disk for FjallDisk {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Value>, DiskError> {
        self.space(space).get(key).map_err(io)
    }

    fn scan(&self, space: Space, from: &[u8], until: &[u8], limit: usize) -> Result<Pairs, DiskError> {
        if from >= until {
            return Ok(Vec::new());
        }
        self.space(space).range(from..until).take(limit).map(|guard| guard.into_inner().map_err(io)).collect()
    }

    fn commit(&mut self, batch: Batch, _number: u64) -> Result<(), DiskError> {
        let mut writes = self.db.batch().durability(Some(self.persist));
        for ((space, key), value) in batch.writes {
            match value {
                Some(value) => writes.insert(self.space(space), key, value),
                None => writes.remove(self.space(space), key),
            }
        }
        writes.commit().map_err(|error| match error {
            // Refused before anything was written.
            fjall::Error::Poisoned => io(error),
            _ => DiskError::Commit(explain(&error)),
        })
    }
}

fn io(error: fjall::Error) -> DiskError {
    let why = explain(&error);
    if is_damage(&error) { DiskError::Damaged { what: why } } else { DiskError::Io(why) }
}

/// Whether a file is there and does not hold what was written to it; or is not there.
fn is_damage(error: &fjall::Error) -> bool {
    use std::io::ErrorKind::{InvalidData, NotFound, UnexpectedEof};
    match error {
        fjall::Error::Io(error) | fjall::Error::Storage(fjall::LsmError::Io(error)) => {
            matches!(error.kind(), InvalidData | NotFound | UnexpectedEof)
        }
        fjall::Error::Poisoned | fjall::Error::Locked | fjall::Error::KeyspaceDeleted => false,
        _ => true,
    }
}

/// What went wrong, in words.
pub fn explain(error: &fjall::Error) -> String {
    match error {
        fjall::Error::Io(error) | fjall::Error::Storage(fjall::LsmError::Io(error)) => folder::explain(error),
        fjall::Error::Locked => "another process has it open".into(),
        fjall::Error::Poisoned => "an earlier write failed, and no more are taken until it is reopened".into(),
        fjall::Error::JournalRecovery(error) => format!("the journal cannot be read: {error:?}"),
        fjall::Error::InvalidVersion(_) => "it is of another storage format".into(),
        other => format!("{other:?}"),
    }
}
