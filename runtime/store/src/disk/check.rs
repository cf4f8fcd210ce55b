//! What must be true of a data folder before it is opened: no other process has it open, its format is known, and
//! everything that was ever acknowledged is in it. Otherwise it is refused, with advice on what to do, and none that
//! would lead to a store with less.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::OpenError;
use crate::disk::fjall;
use crate::disk::fjall::FjallDisk;
use crate::disk::folder;
use crate::disk::folder::marker;
use crate::disk::{Disk, DiskError, Space};
use crate::disk::{blobs, codec, damage};
use crate::engine::{META_KEY, Meta};
use crate::store::store_dir;

/// The layout of the data folder as a whole.
const FOLDER_FORMAT: u32 = 1;

/// For a part that is not there.
const MISSING: &str = "Nothing was changed. If the data folder or a part of it is on a disk of its own, check that the disk is \
     mounted. If it is, restore the whole data folder from a backup. To begin with an empty store, choose another data folder, \
     and keep this one: what can still be read may be rescued.";
/// For a part that cannot be read, or lacks something.
pub const DAMAGED: &str = "Restore the whole data folder from a backup. To begin with an empty store, choose another data \
     folder, and keep this one: what can still be read may be rescued.";

/// An error of the system, distinguished from damage: a full disk is no reason to restore anything.
pub fn refused(dir: &Path, error: &io::Error) -> OpenError {
    OpenError::Folder { dir: dir.to_owned(), why: folder::explain(error) }
}

/// Two writers on one folder would be the end of it.
pub fn take_lock(dir: &Path) -> Result<File, OpenError> {
    let path = dir.join("lock");
    let file = File::options().create(true).truncate(false).write(true).open(path).map_err(|why| refused(dir, &why))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse(dir.to_owned())),
        Err(TryLockError::Error(error)) => Err(refused(dir, &error)),
    }
}

/// Checks the format of the folder, and notes it in a new one.
pub(crate) fn check_format(dir: &Path) -> Result<(), OpenError> {
    let path = dir.join("format");
    if read_format(dir)? {
        return Ok(());
    }
    let advice = format!(
        "Nothing was changed. If this is a windlass data folder of this version, create the file and write `{FOLDER_FORMAT}` into it."
    );
    if store_dir(dir).exists() {
        let what = "it is missing, though there is a database beside it".into();
        return Err(OpenError::Damaged { file: path, what, advice });
    }
    write_whole(dir, "format", &format!("{FOLDER_FORMAT}\n")).map_err(|error| refused(dir, &error))
}

/// Whether the folder names a format that we know; false when it names none.
fn read_format(dir: &Path) -> Result<bool, OpenError> {
    let path = dir.join("format");
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(refused(dir, &error)),
    };
    match text.trim().parse::<u32>() {
        Ok(found) if found <= FOLDER_FORMAT => Ok(true),
        Ok(found) => Err(OpenError::Newer { dir: dir.to_owned(), found, known: FOLDER_FORMAT }),
        Err(_) => {
            let what = "it should hold a format number and does not".into();
            let advice = format!(
                "Nothing was changed. If this is a windlass data folder of this version, write `{FOLDER_FORMAT}` into it."
            );
            Err(OpenError::Damaged { file: path, what, advice })
        }
    }
}

/// What a folder with acknowledged commits must have. fjall would create it where it is missing, and begin empty
/// without an error.
pub(crate) fn check_there(dir: &Path, acknowledged: u64) -> Result<(), OpenError> {
    let missing = |file: PathBuf, what: String| Err(OpenError::Damaged { file, what, advice: MISSING.into() });
    if acknowledged > 0 && !marker(dir).is_file() {
        let what = format!("the database is not there, though {acknowledged} commits of it were acknowledged");
        return missing(store_dir(dir), what);
    }
    if acknowledged > 0 && journals(dir).is_empty() {
        return missing(store_dir(dir), "the journal (*.jnl) is not there, and with it the latest commits".into());
    }
    let Ok(list) = fs::read_to_string(dir.join("parts")) else { return Ok(()) };
    for name in list.lines() {
        let current = store_dir(dir).join("keyspaces").join(name).join("current");
        if current.metadata().map_or(true, |found| found.len() == 0) {
            let what = "it is missing or empty, and with it all that this part of the database held".into();
            return missing(current, what);
        }
    }
    Ok(())
}

/// Whether there is a whole data folder of ours, as far as can be seen without opening it. Creates nothing.
pub(crate) fn check_whole(dir: &Path, acknowledged: u64) -> Result<(), OpenError> {
    if !read_format(dir)? {
        let what = "it is not there, so this is no windlass data folder".into();
        return Err(OpenError::Damaged { file: dir.join("format"), what, advice: MISSING.into() });
    }
    check_there(dir, acknowledged.max(1))
}

/// The files by which fjall knows its keyspaces.
fn parts(dir: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(store_dir(dir).join("keyspaces"))? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// Writes down which parts the database has, so that the next start can find out whether one is missing.
pub(crate) fn list_parts(dir: &Path) -> io::Result<()> {
    let list = parts(dir)?.join("\n");
    if fs::read_to_string(dir.join("parts")).is_ok_and(|known| known == list) {
        return Ok(());
    }
    write_whole(dir, "parts", &list)
}

/// Writes a small file, durable and whole or not at all.
fn write_whole(dir: &Path, name: &str, text: &str) -> io::Result<()> {
    let new = dir.join(format!("{name}.new"));
    let written = fs::write(&new, text).and_then(|()| File::open(&new)?.sync_all());
    if let Err(error) = written.and_then(|()| fs::rename(&new, dir.join(name))) {
        let _ = fs::remove_file(&new);
        return Err(error);
    }
    blobs::sync(dir)
}

/// Clears away a database whose creation was interrupted, which fjall cannot take up again. Only one that never held
/// anything: nothing was acknowledged, its parts were not listed, its journal is blank and none of its keyspaces has a
/// table.
pub(crate) fn clear_unfinished(dir: &Path) -> io::Result<()> {
    let acknowledged = fs::metadata(dir.join("witness")).map_or(true, |found| found.len() > 0);
    if acknowledged || dir.join("parts").exists() || !store_dir(dir).exists() {
        return Ok(());
    }
    for journal in journals(dir) {
        let mut first = [0];
        if File::open(journal)?.read(&mut first)? > 0 && first != [0] {
            return Ok(());
        }
    }
    for name in parts(dir).unwrap_or_default().into_iter().filter(|name| name != KEYSPACES_OF_FJALL) {
        let tables = store_dir(dir).join("keyspaces").join(name).join("tables");
        if fs::read_dir(tables).is_ok_and(|mut tables| tables.next().is_some()) {
            return Ok(());
        }
    }
    fs::remove_dir_all(store_dir(dir))
}

/// The folder in which fjall stores the names of the others.
const KEYSPACES_OF_FJALL: &str = "0";

/// What was acknowledged must all be there, except as many commits as the operator declared lost.
pub(crate) fn check_complete(dir: &Path, disk: &FjallDisk, acknowledged: u64, lost: u64) -> Result<(), OpenError> {
    let found = last_commit(disk).map_err(|error| unreadable(dir, &error))?;
    if found >= acknowledged {
        return Ok(());
    }
    if acknowledged - found == lost {
        tracing::warn!(
            "{}; it was told to go on without them, and they are lost",
            commits_missing(found, acknowledged)
        );
        return Ok(());
    }
    Err(OpenError::Damaged {
        file: journals(dir).pop().unwrap_or_else(|| store_dir(dir)),
        what: format!("{}, so a part of the journal is damaged", commits_missing(found, acknowledged)),
        advice: DAMAGED.into(),
    })
}

/// The number of the last commit in the database.
pub(crate) fn last_commit(disk: &FjallDisk) -> Result<u64, DiskError> {
    match disk.get(Space::Meta, META_KEY)? {
        Some(bytes) => Ok(codec::decode::<Meta>(Space::Meta, &bytes)?.commit),
        None => Ok(0),
    }
}

pub(crate) fn commits_missing(found: u64, acknowledged: u64) -> String {
    let missing = acknowledged - found;
    let are = if missing == 1 { "commit is" } else { "commits are" };
    format!("the database ends at commit {found}, but commit {acknowledged} was acknowledged: {missing} {are} missing")
}

/// A database that cannot be opened.
pub(crate) fn not_opened(dir: &Path, error: &::fjall::Error) -> OpenError {
    if let ::fjall::Error::Io(io) | ::fjall::Error::Storage(::fjall::LsmError::Io(io)) = error
        && !damage::is_damage_io(io)
    {
        return refused(dir, io);
    }
    let (file, why) = match error {
        ::fjall::Error::JournalRecovery(_) => (only_journal(dir), fjall::explain(error)),
        ::fjall::Error::InvalidVersion(_) => (marker(dir), fjall::explain(error)),
        _ => damage::file_that_prevents_opening(dir).unwrap_or_else(|| (store_dir(dir), fjall::explain(error))),
    };
    OpenError::Damaged { file, what: format!("the database cannot be opened: {why}"), advice: DAMAGED.into() }
}

/// The journal, where there is only one: fjall does not say which of several it could not read.
fn only_journal(dir: &Path) -> PathBuf {
    match <[PathBuf; 1]>::try_from(journals(dir)) {
        Ok([journal]) => journal,
        Err(_) => store_dir(dir),
    }
}

/// A database that was opened, and does not take the first commit. It may have met a damaged table in the background by
/// then.
pub(crate) fn not_written(dir: &Path, disk: &FjallDisk, error: DiskError) -> OpenError {
    let damaged = match error {
        DiskError::Io(_) if disk.takes_writes().is_err() => damage::damaged_among(&disk.places()),
        _ => None,
    };
    unreadable(dir, &damaged.unwrap_or(error))
}

/// A database that was opened, and cannot be read or written.
pub fn unreadable(dir: &Path, error: &DiskError) -> OpenError {
    match error {
        DiskError::Io(why) | DiskError::Commit(why) | DiskError::Gone(why) => {
            OpenError::Folder { dir: dir.to_owned(), why: why.clone() }
        }
        DiskError::Damaged { file, holds, why } => OpenError::Damaged {
            file: file.clone(),
            what: format!("it holds {holds} and is damaged: {why}"),
            advice: DAMAGED.into(),
        },
        DiskError::Row { .. } => {
            OpenError::Damaged { file: store_dir(dir), what: error.to_string(), advice: DAMAGED.into() }
        }
    }
}

/// The journals of the database, the newest last.
pub fn journals(dir: &Path) -> Vec<PathBuf> {
    let Ok(files) = fs::read_dir(store_dir(dir)) else { return Vec::new() };
    let number = |path: &PathBuf| path.file_stem().and_then(|stem| stem.to_str()?.parse::<u64>().ok());
    let mut journals: Vec<PathBuf> = files.flatten().map(|entry| entry.path()).collect();
    journals.retain(|path| path.extension().is_some_and(|extension| extension == "jnl"));
    journals.sort_by_key(number);
    journals
}
