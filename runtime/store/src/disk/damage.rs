//! Which file of the database is damaged. fjall says that something cannot be read, not where it lies; so the files
//! that may hold it are read once more, one by one. Reads only: nothing is changed, and nothing stays open.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use ::fjall::{AbstractTree, Keyspace, LsmError, Slice};
use lsm_tree::{Cache, Checksum, Table};

use crate::disk::DiskError;
use crate::idle_thread::use_idle_priority;
use crate::limits;
use crate::store::store_dir;

/// Rows of a table that are read in search of its damaged block. An iterator is at most a few blocks ahead of the rows
/// it has returned.
const ROWS: usize = 4_096;

/// Whether a file does not hold what was written to it, or is missing; as opposed to a refusal by the operating system,
/// which passes.
pub fn is_damage(error: &::fjall::Error) -> bool {
    match error {
        ::fjall::Error::Io(error) | ::fjall::Error::Storage(LsmError::Io(error)) => is_damage_io(error),
        ::fjall::Error::Poisoned | ::fjall::Error::Locked | ::fjall::Error::KeyspaceDeleted => false,
        _ => true,
    }
}

pub(crate) fn is_damage_io(error: &io::Error) -> bool {
    // A file that is shorter than its own last part is sought before its beginning, which is an invalid argument.
    use ErrorKind::{InvalidData, InvalidInput, NotFound, UnexpectedEof};
    matches!(error.kind(), InvalidData | InvalidInput | NotFound | UnexpectedEof)
}

/// What is wrong with a file of the database, as a message.
pub fn explain(error: &LsmError) -> String {
    match error {
        LsmError::ChecksumMismatch { .. } => "a part of it does not match its checksum".into(),
        LsmError::Io(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::InvalidInput) => {
            "it ends too early".into()
        }
        LsmError::Io(error) if error.kind() == ErrorKind::NotFound => "it is missing".into(),
        LsmError::Io(error) => crate::disk::folder::explain(error),
        LsmError::Unrecoverable => "a part of it is missing or cannot be read".into(),
        LsmError::InvalidVersion(_) => "it has an unknown storage format".into(),
        other => format!("a part of it cannot be decoded ({other:?})"),
    }
}

/// The table with a block that cannot be read, next to where a read ended.
pub fn table(keyspace: &Keyspace, from: Bound<Slice>, until: Bound<Slice>, back: bool) -> Option<PathBuf> {
    let version = keyspace.tree.current_version();
    let found = version.iter_tables().find(|table| {
        let mut rows = table.range((from.clone(), until.clone()));
        if back {
            rows.rev().take(ROWS).any(|row| row.is_err())
        } else {
            rows.by_ref().take(ROWS).any(|row| row.is_err())
        }
    });
    found.map(|table| table.path.to_path_buf())
}

/// The file that prevents a database from being opened, and what is wrong with it. None if all tables and their lists
/// can be read.
pub(crate) fn file_that_prevents_opening(dir: &Path) -> Option<(PathBuf, String)> {
    let cache = Arc::new(Cache::with_capacity_bytes(0));
    let mut keyspaces: Vec<PathBuf> =
        fs::read_dir(store_dir(dir).join("keyspaces")).ok()?.flatten().map(|entry| entry.path()).collect();
    keyspaces.sort();
    for keyspace in keyspaces {
        let tables = match tables_of(&keyspace) {
            Ok(tables) => tables,
            Err((file, error)) => return Some((file, explain(&error))),
        };
        for path in tables {
            // A damaged file may make lsm-tree panic.
            let opened = catch_unwind(AssertUnwindSafe(|| {
                Table::recover(path.clone(), Checksum::from_raw(0), 0, 0, cache.clone(), None, true, true)
            }));
            match opened {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Some((path, explain(&error))),
                Err(_) => return Some((path, "a part of it cannot be decoded".into())),
            }
        }
    }
    None
}

/// Looks for a damaged table by reading all of them, on a thread of its own: what fjall gives up on when it merges
/// tables is only known to its log.
#[derive(Default)]
pub struct Suspicion {
    found: Mutex<Option<String>>,
    looked: Mutex<Option<Instant>>,
}

impl Suspicion {
    /// What was found to be damaged, and what to do about it.
    pub fn found(&self) -> Option<String> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Begins to look, unless that was done lately.
    pub fn look(self: &Arc<Suspicion>, keyspaces: Vec<(PathBuf, &'static str)>) {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if looked.is_some_and(|at| at.elapsed() < limits::SUSPECT_EVERY) {
            return;
        }
        *looked = Some(Instant::now());
        let suspicion = Arc::clone(self);
        let look = move || {
            use_idle_priority();
            let damaged = damaged_among(&keyspaces);
            if let Some(damaged) = &damaged {
                tracing::error!("{damaged}");
            }
            let advice = "and the database cannot write beside it; stop the server and restore the whole data folder from a backup";
            *suspicion.found.lock().unwrap_or_else(PoisonError::into_inner) =
                damaged.map(|damaged| format!("{damaged}, {advice}"));
        };
        if let Err(error) = std::thread::Builder::new().name("windlass-suspect".into()).spawn(look) {
            tracing::warn!("cannot look for damaged tables: {error}");
        }
    }
}

/// The first damaged table of a database, whose keyspaces lie there and hold this: all of it is read.
pub(crate) fn damaged_among(keyspaces: &[(PathBuf, &'static str)]) -> Option<DiskError> {
    keyspaces.iter().find_map(|(keyspace, holds)| damaged_table(keyspace, holds))
}

/// The first table of a keyspace that cannot be read to its end.
fn damaged_table(keyspace: &Path, holds: &'static str) -> Option<DiskError> {
    // A list that cannot be read is being replaced: an open database has been read with it.
    for file in tables_of(keyspace).ok()? {
        let read = catch_unwind(AssertUnwindSafe(|| {
            let cache = Arc::new(Cache::with_capacity_bytes(0));
            let table = Table::recover(file.clone(), Checksum::from_raw(0), 0, 0, cache, None, true, true)?;
            table.iter().try_for_each(|row| row.map(drop))
        }));
        let why = match read {
            Ok(Ok(())) => continue,
            Ok(Err(error)) => {
                let why = explain(&error);
                // It may have been merged meanwhile, or refused by the system.
                if !is_damage(&::fjall::Error::Storage(error)) || !file.exists() {
                    continue;
                }
                why
            }
            Err(_) => "a part of it cannot be decoded".into(),
        };
        return Some(DiskError::Damaged { file, holds, why });
    }
    None
}

/// The tables that a keyspace consists of, as its list of tables (`v` and a number) has them: a crash may have left
/// others beside them.
fn tables_of(keyspace: &Path) -> Result<Vec<PathBuf>, (PathBuf, LsmError)> {
    let current = keyspace.join("current");
    let number = File::open(&current).and_then(|mut file| number::<8>(&mut file).map(u64::from_le_bytes));
    let number = number.map_err(|error| (current, error.into()))?;
    let list = keyspace.join(format!("v{number}"));
    let ids = listed(&list).map_err(|error| (list, error))?;
    Ok(ids.into_iter().map(|id| keyspace.join("tables").join(id.to_string())).collect())
}

/// The ids in a list of tables: levels of runs of tables, each with its id, a checksum and a sequence number.
fn listed(list: &Path) -> Result<Vec<u64>, LsmError> {
    let reader = sfa::Reader::new(list)?;
    let section = reader.toc().section(b"tables").ok_or(LsmError::Unrecoverable)?;
    let mut bytes = section.buf_reader(list)?;
    let mut ids = Vec::new();
    let [levels] = number::<1>(&mut bytes)?;
    for _ in 0..levels {
        let [runs] = number::<1>(&mut bytes)?;
        for _ in 0..runs {
            for _ in 0..u32::from_le_bytes(number(&mut bytes)?) {
                ids.push(u64::from_le_bytes(number(&mut bytes)?));
                // The kind of the checksum, the checksum, and the sequence number.
                number::<{ 1 + 16 + 8 }>(&mut bytes)?;
            }
        }
    }
    Ok(ids)
}

fn number<const SIZE: usize>(bytes: &mut impl Read) -> io::Result<[u8; SIZE]> {
    let mut number = [0; SIZE];
    bytes.read_exact(&mut number)?;
    Ok(number)
}
