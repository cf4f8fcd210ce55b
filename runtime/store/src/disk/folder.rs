//! The data folder as it was opened. A folder that was removed, unmounted or replaced under a running server is noticed
//! here, so that nothing is ever written into what lies under its path instead.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::RwLock;

use crate::disk::check;
use crate::limits;
use crate::store::store_dir;

/// Which file or folder a path leads to, whatever it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    fn of(path: &Path) -> io::Result<Identity> {
        let found = fs::metadata(path)?;
        Ok(Identity { device: found.dev(), inode: found.ino() })
    }
}

/// What the folder is made of when it is opened.
pub struct DataFolder {
    dir: PathBuf,
    parts: RwLock<Vec<(PathBuf, Identity)>>,
}

/// What can be seen of a folder's content without reading it: as long as this is the same, so is what opening it shows.
#[derive(Debug, PartialEq, Eq)]
pub struct FolderFingerprint(Vec<(PathBuf, Identity, u64, i64, i64)>);

impl FolderFingerprint {
    pub fn of(dir: &Path) -> io::Result<FolderFingerprint> {
        let files = [dir.join("witness"), marker(dir)].into_iter().chain(check::journals(dir));
        let seen = files.map(|path| {
            let found = fs::metadata(&path)?;
            let identity = Identity { device: found.dev(), inode: found.ino() };
            Ok((path, identity, found.len(), found.mtime(), found.mtime_nsec()))
        });
        seen.collect::<io::Result<_>>().map(FolderFingerprint)
    }
}

/// Whether two open files are one.
pub(crate) fn is_same(one: &File, other: &File) -> bool {
    let identity = |file: &File| file.metadata().map(|found| (found.dev(), found.ino()));
    matches!((identity(one), identity(other)), (Ok(one), Ok(other)) if one == other)
}

/// The file whose presence makes fjall recover a database instead of creating one.
pub fn marker(dir: &Path) -> PathBuf {
    store_dir(dir).join("version")
}

impl DataFolder {
    /// Remembers what lies in the folder now, with an open database in it.
    pub fn of(dir: &Path) -> io::Result<DataFolder> {
        Ok(DataFolder { dir: dir.to_owned(), parts: RwLock::new(identify(dir)?) })
    }

    /// From now on this is the folder: it has been found to hold all that the last one held.
    pub fn remember(&self) -> io::Result<()> {
        *self.parts.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = identify(&self.dir)?;
        Ok(())
    }

    /// Whether the database's own marker is where it was: cheap enough for every commit. Its path leads through the
    /// folder and the database, so it is another file as soon as one of them is.
    pub(crate) fn is_here(&self) -> Result<(), String> {
        let parts = self.parts.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        parts.last().map_or(Ok(()), |(path, identity)| same(path, *identity))
    }

    /// Whether every part is where it was. Says which is not, the outermost first.
    pub fn check(&self) -> Result<(), String> {
        let parts = self.parts.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        parts.iter().try_for_each(|(path, identity)| same(path, *identity))
    }

    /// Whether the disk has room for a large commit: asked before a database that can still be read is given up. The
    /// file is made where the journal lies, which may be another disk than the folder's.
    pub fn probe(&self) -> io::Result<()> {
        let path = store_dir(&self.dir).join("probe");
        let taken = take_room(&path);
        let removed = fs::remove_file(&path);
        taken.and(removed)
    }
}

/// The outermost first, the marker last.
fn identify(dir: &Path) -> io::Result<Vec<(PathBuf, Identity)>> {
    let store = store_dir(dir);
    let paths =
        [dir.to_owned(), dir.join("witness"), store.clone(), store.join("keyspaces"), store.join("lock"), marker(dir)];
    paths.into_iter().map(|path| Identity::of(&path).map(|identity| (path, identity))).collect()
}

fn same(path: &Path, identity: Identity) -> Result<(), String> {
    match Identity::of(path) {
        Ok(found) if found == identity => Ok(()),
        Ok(_) => Err(format!("{} is not the one that was opened: it was replaced or unmounted", path.display())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(format!("{} is not there any more: it was removed or unmounted", path.display()))
        }
        Err(error) => Err(format!("{} cannot be reached: {error}", path.display())),
    }
}

fn take_room(path: &Path) -> io::Result<()> {
    let mut file = File::create(path)?;
    let block = [0; 64 * 1024];
    for _ in 0..limits::ROOM_TO_WRITE / block.len() {
        file.write_all(&block)?;
    }
    file.sync_all()
}

/// What the system refused, and what can be done about it.
pub fn explain(error: &io::Error) -> String {
    const TOO_MANY_OF_THE_PROCESS: i32 = 24;
    const TOO_MANY_OF_THE_MACHINE: i32 = 23;
    match (error.kind(), error.raw_os_error()) {
        (io::ErrorKind::StorageFull, _) => format!("the disk is full ({error}); make room on it"),
        (io::ErrorKind::QuotaExceeded, _) => format!("the disk quota is used up ({error}); make room"),
        (io::ErrorKind::ReadOnlyFilesystem, _) => format!("the disk can only be read ({error}); mount it writable"),
        (_, Some(TOO_MANY_OF_THE_PROCESS | TOO_MANY_OF_THE_MACHINE)) => {
            format!("no file descriptors are left ({error}); raise the limit with `ulimit -n`")
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As much of a data folder as its identity needs.
    fn make(dir: &Path) {
        fs::create_dir_all(store_dir(dir).join("keyspaces")).expect("makes folders");
        for file in [dir.join("witness"), store_dir(dir).join("lock"), marker(dir)] {
            fs::write(file, b"x").expect("makes a file");
        }
    }

    #[test]
    fn a_folder_that_went_away_or_was_replaced_is_named_and_the_same_one_is_known_again() {
        let place = tempfile::tempdir().expect("a folder");
        let (dir, aside) = (place.path().join("data"), place.path().join("aside"));
        make(&dir);
        let folder = DataFolder::of(&dir).expect("it is there");
        assert_eq!((folder.check(), folder.is_here()), (Ok(()), Ok(())));

        fs::rename(&dir, &aside).expect("moves it");
        assert!(folder.check().expect_err("it is gone").contains("data is not there any more"));
        assert!(folder.is_here().is_err());
        make(&dir);
        assert!(folder.check().expect_err("it is another").contains("data is not the one that was opened"));
        assert!(folder.is_here().is_err());

        fs::remove_dir_all(&dir).expect("removes the other");
        fs::rename(&aside, &dir).expect("moves it back");
        assert_eq!((folder.check(), folder.is_here()), (Ok(()), Ok(())));
        fs::remove_dir_all(store_dir(&dir)).expect("removes the database");
        assert!(folder.check().expect_err("it is gone").contains("store is not there any more"));
        assert!(folder.probe().is_err(), "nothing is made where the database was");
        assert!(!store_dir(&dir).exists());
    }
}
