//! The real disk: fjall, with its memory fixed on the day a keyspace is made.

use std::ops::Bound;
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable, Snapshot};
use rustix::process::{Resource, getrlimit};

use crate::disk::data_keys::DataKeys;
use crate::disk::encrypted::decrypted;
use crate::disk::{Disk, DiskError, Pairs, Space, Value, WriteBatch, after_prefix};
use crate::disk::{damage, folder};
use crate::{DiskUse, Durability, limits};

const MIB: u64 = 1024 * 1024;
/// Memory for blocks that were read.
const CACHE: u64 = 64 * MIB;
/// The journal is cut down when it passes this: it bounds how long a reopen takes.
const JOURNAL: u64 = 128 * MIB;
/// The size that fjall gives a new journal.
const JOURNAL_FULL: u64 = 64 * MIB;
const WORKERS: usize = 2;

#[derive(Clone)]
pub struct FjallDisk {
    db: Database,
    /// In the order of `Space::ALL`.
    spaces: Arc<[Keyspace]>,
    persist: PersistMode,
    /// Where the database lies.
    dir: Arc<Path>,
    /// What decrypts its rows, if any are encrypted.
    keys: Option<Arc<DataKeys>>,
}

impl FjallDisk {
    /// fjall may panic on a damaged file; to our callers that is an error like any other.
    pub fn open(dir: &Path, durability: Durability) -> Result<FjallDisk, ::fjall::Error> {
        let opened = catch_unwind(AssertUnwindSafe(|| FjallDisk::open_unguarded(dir, durability)));
        opened.unwrap_or(Err(::fjall::Error::Unrecoverable))
    }

    /// The same for a database that was open before: nothing of it is created.
    pub fn reopen(dir: &Path, durability: Durability) -> Result<FjallDisk, ::fjall::Error> {
        let opened = catch_unwind(AssertUnwindSafe(|| {
            let db = Database::recover(config(dir))?;
            if !Space::ALL.into_iter().all(|space| db.keyspace_exists(space.name())) {
                return Err(::fjall::Error::Unrecoverable);
            }
            FjallDisk::of(db, dir, durability)
        }));
        opened.unwrap_or(Err(::fjall::Error::Unrecoverable))
    }

    fn open_unguarded(dir: &Path, durability: Durability) -> Result<FjallDisk, ::fjall::Error> {
        FjallDisk::of(Database::open(config(dir))?, dir, durability)
    }

    fn of(db: Database, dir: &Path, durability: Durability) -> Result<FjallDisk, ::fjall::Error> {
        let mut spaces = Vec::with_capacity(Space::ALL.len());
        for space in Space::ALL {
            spaces.push(db.keyspace(space.name(), || options(space))?);
        }
        let persist = match durability {
            Durability::Fsync => PersistMode::SyncData,
            Durability::Os => PersistMode::Buffer,
        };
        Ok(FjallDisk { db, spaces: spaces.into(), persist, dir: dir.into(), keys: None })
    }

    /// The same database, with what decrypts its rows.
    pub(crate) fn with_keys(self, keys: Option<Arc<DataKeys>>) -> FjallDisk {
        FjallDisk { keys, ..self }
    }

    /// Whether it accepts writes. After one that failed, also in the background, fjall accepts none until it is
    /// reopened.
    pub(crate) fn takes_writes(&self) -> Result<(), DiskError> {
        self.db.persist(PersistMode::Buffer).map_err(|error| DiskError::Io(explain(&error)))
    }

    /// Whether anybody else holds it, or a view of it.
    pub(crate) fn is_read(&self) -> bool {
        Arc::strong_count(&self.spaces) > 1
    }

    /// What is stored at this moment. Reads for callers go through one: outside it, `get` sees a commit part by part as
    /// it is written. Not to be held for long: what it sees cannot be reclaimed.
    pub fn view(&self) -> View {
        View { snapshot: self.db.snapshot(), spaces: Arc::clone(&self.spaces), keys: self.keys.clone() }
    }

    pub(crate) fn space(&self, space: Space) -> &Keyspace {
        &self.spaces[space as usize]
    }

    /// Where each keyspace lies, and what it holds.
    pub(crate) fn places(&self) -> Vec<(PathBuf, &'static str)> {
        Space::ALL.into_iter().map(|space| (self.space(space).path().to_owned(), space.holds())).collect()
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Rises with every write.
    pub(crate) fn seqno(&self) -> u64 {
        self.db.seqno()
    }

    /// Whether there are journals besides the one that is written to, or that one has the size at which fjall begins
    /// another with the next table it writes.
    pub(crate) fn has_spare_journal(&self) -> bool {
        self.db.journal_count() > 1 || self.db.journal_disk_space().is_ok_and(|bytes| bytes > JOURNAL_FULL)
    }

    /// How many merges of tables run.
    pub(crate) fn merges(&self) -> usize {
        self.db.active_compactions()
    }

    /// What the database takes on disk now.
    pub fn disk_use(&self) -> DiskUse {
        let files = std::fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let journals = files.filter(|file| file.path().extension().is_some_and(|extension| extension == "jnl"));
        // A journal is made with the size that it may come to: only its blocks are taken.
        let journals = journals.filter_map(|file| file.metadata().ok()).map(|found| found.blocks() * 512).sum();
        DiskUse { tables: self.spaces.iter().map(Keyspace::disk_space).sum(), journals }
    }
}

fn config(dir: &Path) -> ::fjall::Config {
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
    keys: Option<Arc<DataKeys>>,
}

impl View {
    pub fn get(&self, space: Space, key: &[u8]) -> Result<Option<Value>, DiskError> {
        let keyspace = &self.spaces[space as usize];
        match self.snapshot.get(keyspace, key).map_err(|error| at(keyspace, space, key, error))? {
            Some(value) => decrypted(self.keys.as_deref(), space, key, value),
            None => Ok(None),
        }
    }

    /// Pairs from `from` (inclusive) to `until` (exclusive); can be iterated from either end.
    pub fn range(&self, space: Space, from: &[u8], until: &[u8]) -> Range {
        // An empty range the wrong way round would be a panic inside fjall.
        let until = until.max(from);
        let keyspace = &self.spaces[space as usize];
        Range {
            rows: self.snapshot.range(keyspace, from..until),
            space,
            keyspace: keyspace.clone(),
            keys: self.keys.clone(),
            from: Bound::Included(from.into()),
            until: Bound::Excluded(until.into()),
        }
    }

    pub fn under(&self, space: Space, prefix: &[u8]) -> Range {
        self.range(space, prefix, &after_prefix(prefix))
    }
}

/// A run of pairs of a view.
pub struct Range {
    rows: ::fjall::Iter,
    space: Space,
    keyspace: Keyspace,
    keys: Option<Arc<DataKeys>>,
    /// What has not been read yet lies between these.
    from: Bound<Value>,
    until: Bound<Value>,
}

impl Range {
    fn failed(&self, error: ::fjall::Error, back: bool) -> DiskError {
        unread(&self.keyspace, self.space, self.from.clone(), self.until.clone(), back, error)
    }

    /// The pair as it was written; none if the key of its namespace is gone.
    fn decrypted(&self, key: Value, value: Value) -> Result<Option<(Value, Value)>, DiskError> {
        Ok(decrypted(self.keys.as_deref(), self.space, &key, value)?.map(|value| (key, value)))
    }
}

impl Iterator for Range {
    type Item = Result<(Value, Value), DiskError>;
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (key, value) = match self.rows.next()?.into_inner() {
                Ok(pair) => pair,
                Err(error) => return Some(Err(self.failed(error, false))),
            };
            self.from = Bound::Excluded(key.clone());
            if let Some(pair) = self.decrypted(key, value).transpose() {
                return Some(pair);
            }
        }
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Self::Item> {
        loop {
            let (key, value) = match self.rows.next_back()?.into_inner() {
                Ok(pair) => pair,
                Err(error) => return Some(Err(self.failed(error, true))),
            };
            self.until = Bound::Excluded(key.clone());
            if let Some(pair) = self.decrypted(key, value).transpose() {
                return Some(pair);
            }
        }
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
        let keyspace = self.space(space);
        match keyspace.get(key).map_err(|error| at(keyspace, space, key, error))? {
            Some(value) => decrypted(self.keys.as_deref(), space, key, value),
            None => Ok(None),
        }
    }

    fn scan(&self, space: Space, from: &[u8], until: &[u8], limit: usize) -> Result<Pairs, DiskError> {
        if from >= until {
            return Ok(Vec::new());
        }
        let keyspace = self.space(space);
        let mut pairs = Pairs::new();
        for guard in keyspace.range(from..until) {
            if pairs.len() >= limit {
                break;
            }
            let (key, value) = guard.into_inner().map_err(|error| {
                let from = pairs.last().map_or(Bound::Included(from.into()), |(key, _)| Bound::Excluded(key.clone()));
                unread(keyspace, space, from, Bound::Excluded(until.into()), false, error)
            })?;
            pairs.extend(decrypted(self.keys.as_deref(), space, &key, value)?.map(|value| (key, value)));
        }
        Ok(pairs)
    }

    fn data_keys(&self) -> Option<&Arc<DataKeys>> {
        self.keys.as_ref()
    }

    fn commit(&mut self, batch: WriteBatch, _number: u64) -> Result<(), DiskError> {
        let mut writes = self.db.batch().durability(Some(self.persist));
        for ((space, key), value) in batch.writes {
            match value {
                Some(value) => writes.insert(self.space(space), key, value),
                None => writes.remove(self.space(space), key),
            }
        }
        writes.commit().map_err(|error| match error {
            // Refused before anything was written.
            ::fjall::Error::Poisoned => DiskError::Io(explain(&error)),
            _ => DiskError::Commit(explain(&error)),
        })
    }
}

/// A row that could not be read.
fn at(keyspace: &Keyspace, space: Space, key: &[u8], error: ::fjall::Error) -> DiskError {
    unread(keyspace, space, Bound::Included(key.into()), Bound::Included(key.into()), false, error)
}

/// Rows that could not be read: a damaged file is named.
fn unread(
    keyspace: &Keyspace,
    space: Space,
    from: Bound<Value>,
    until: Bound<Value>,
    back: bool,
    error: ::fjall::Error,
) -> DiskError {
    let why = explain(&error);
    if !damage::is_damage(&error) {
        return DiskError::Io(why);
    }
    let file = damage::table(keyspace, from, until, back).unwrap_or_else(|| keyspace.path().to_owned());
    DiskError::Damaged { file, holds: space.holds(), why }
}

/// What went wrong, as a message.
pub fn explain(error: &::fjall::Error) -> String {
    match error {
        ::fjall::Error::Io(error) => folder::explain(error),
        ::fjall::Error::Storage(error) => damage::explain(error),
        ::fjall::Error::Locked => "another process has it open".into(),
        ::fjall::Error::Poisoned => "an earlier write failed, and no more are taken until it is reopened".into(),
        ::fjall::Error::JournalRecovery(error) => format!("the journal cannot be read: {error:?}"),
        ::fjall::Error::InvalidVersion(_) => "it has an unknown storage format".into(),
        ::fjall::Error::Unrecoverable => "a part of it is missing or cannot be read".into(),
        other => format!("{other:?}"),
    }
}
