//! The witness: a file beside the database with the number of the last acknowledged commit.
//!
//! fjall cuts its journal at the first record it cannot read, and opens with what came before, silently. So the last
//! acknowledged commit is written here after every commit (which costs no sync: it survives the process) and made
//! durable about once a second (so it survives the machine). A database that opens below it has lost something, and is
//! refused.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::RwLock;

use crate::Durability;

pub struct Witness {
    file: RwLock<File>,
    durability: Durability,
}

/// What a witness contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub commit: u64,
    /// Whether the commit was promised to survive the machine.
    pub promised: bool,
}

/// The number, whether it promises durability, and a check over both.
const SIZE: usize = 17;

impl Witness {
    pub fn open(path: &Path, durability: Durability) -> io::Result<Witness> {
        let file = File::options().create(true).truncate(false).read(true).write(true).open(path)?;
        Ok(Witness { file: RwLock::new(file), durability })
    }

    /// The last acknowledged commit; none where there is none yet, or it was torn by a crash.
    pub fn read(&self) -> io::Result<Option<Seen>> {
        self.with(read)
    }

    pub fn write(&self, commit: u64) -> io::Result<()> {
        let bytes = encode(commit, self.durability == Durability::Fsync);
        self.with(|file| file.write_all_at(&bytes, 0))
    }

    pub fn sync(&self) -> io::Result<()> {
        self.with(File::sync_data)
    }

    /// Goes on in another file: the one of a folder that has come back.
    pub fn replace(&self, file: File) {
        *self.file.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = file;
    }

    fn with<T>(&self, work: impl FnOnce(&File) -> T) -> T {
        work(&self.file.read().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }
}

/// What a witness's file contains; none when it is torn.
pub fn read(file: &File) -> io::Result<Option<Seen>> {
    let mut bytes = [0; SIZE];
    match file.read_exact_at(&mut bytes, 0) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let commit = u64::from_be_bytes(bytes[..8].try_into().expect("eight bytes"));
    let promised = bytes[8] == 1;
    Ok((bytes == encode(commit, promised)).then_some(Seen { commit, promised }))
}

fn encode(commit: u64, promised: bool) -> [u8; SIZE] {
    let mut bytes = [0; SIZE];
    bytes[..8].copy_from_slice(&commit.to_be_bytes());
    bytes[8] = u8::from(promised);
    bytes[9..].copy_from_slice(&windlass_core::retry::mix(commit ^ u64::from(promised)).to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_back_what_was_written_and_nothing_from_garbage() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("witness");
        let witness = Witness::open(&path, Durability::Fsync).expect("opens");
        assert_eq!(witness.read().expect("reads"), None);
        witness.write(7).expect("writes");
        assert_eq!(witness.read().expect("reads"), Some(Seen { commit: 7, promised: true }));
        std::fs::write(&path, [9; SIZE]).expect("damages");
        let witness = Witness::open(&path, Durability::Fsync).expect("opens");
        assert_eq!(witness.read().expect("reads"), None);
    }
}
