//! Large bodies and components: content-addressed files, durable before the command that names them is sent.
//!
//! A body may be encrypted with the key of its namespace. Its file is then named by the digest of the ciphertext, so
//! the row of the job, which names the file, also says which ciphertext it is; and equal bodies are different files.
//! Its length is that of the text.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use sha2::{Digest, Sha256};
use windlass_core::{Blob, Namespace};

use crate::disk::DiskError;
use crate::disk::data_keys::DataKeys;

pub struct Blobs {
    dir: PathBuf,
    unique: AtomicU64,
    /// What encrypts and decrypts bodies, if any are encrypted.
    keys: Option<Arc<DataKeys>>,
}

/// What an encrypted body is bound to: its file is found by the row of its job only.
const BODY: &[u8] = b"blob";

impl Blobs {
    pub fn open(dir: PathBuf) -> io::Result<Blobs> {
        fs::create_dir_all(&dir)?;
        // A file that was being written when the process ended is of no use.
        for entry in fs::read_dir(&dir)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "part") {
                fs::remove_file(path)?;
            }
        }
        Ok(Blobs { dir, unique: AtomicU64::new(0), keys: None })
    }

    pub fn with_keys(self, keys: Option<Arc<DataKeys>>) -> Blobs {
        Blobs { keys, ..self }
    }

    /// Stores a body of a job of this namespace, encrypted if bodies are. Durable when it returns.
    pub fn put_body(&self, bytes: &Bytes, namespace: &Namespace) -> io::Result<Blob> {
        match self.keys.as_ref().filter(|keys| keys.is_on()) {
            Some(keys) => {
                let encrypted = keys.encrypt(namespace.as_str(), BODY, bytes).map_err(io::Error::other)?;
                Ok(Blob { len: bytes.len() as u64, ..self.put(&encrypted.into())? })
            }
            None => self.put(bytes),
        }
    }

    /// Stores the bytes, or finds them stored already. Durable when it returns. A file that no longer holds what it
    /// should is written again.
    pub fn put(&self, bytes: &Bytes) -> io::Result<Blob> {
        let blob = Blob { sha256: Sha256::digest(bytes).into(), len: bytes.len() as u64 };
        let path = self.path(&blob);
        let same_length = path.metadata().is_ok_and(|found| found.len() == blob.len);
        if same_length && fs::read(&path)? == *bytes {
            // Fresh again, so that a collection that is under way does not delete it.
            File::options().append(true).open(&path)?.set_modified(std::time::SystemTime::now())?;
            return Ok(blob);
        }
        let part = self.dir.join(format!("{}-{}.part", blob.hex(), self.unique.fetch_add(1, Ordering::Relaxed)));
        let written =
            write_durably(&part, bytes).and_then(|()| fs::rename(&part, &path)).and_then(|()| sync(&self.dir));
        if written.is_err() {
            let _ = fs::remove_file(&part);
        }
        written.map(|()| blob)
    }

    /// The bytes, decrypted, of a file that was checked against its name.
    pub fn get(&self, blob: &Blob) -> io::Result<Bytes> {
        let bytes = fs::read(self.path(blob))?;
        if <[u8; 32]>::from(Sha256::digest(&bytes)) != blob.sha256 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "its bytes are not those that were stored"));
        }
        if bytes.len() as u64 == blob.len {
            return Ok(bytes.into());
        }
        let damaged = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
        let keys = self.keys.as_ref().ok_or_else(|| damaged("it is encrypted, and there is no key".into()))?;
        let text = keys.decrypt(BODY, &bytes).map_err(damaged)?;
        text.map(Bytes::from).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// The first bytes; unchecked, unless the file is encrypted.
    pub fn head(&self, blob: &Blob, most: usize) -> io::Result<Bytes> {
        let file = File::open(self.path(blob))?;
        if file.metadata()?.len() != blob.len {
            let whole = self.get(blob)?;
            return Ok(whole.slice(..most.min(whole.len())));
        }
        let mut head = Vec::with_capacity(most.min(usize::try_from(blob.len).unwrap_or(most)));
        file.take(most as u64).read_to_end(&mut head)?;
        Ok(head.into())
    }

    /// Removes files that `is_held` knows no holder of and that are older than `grace`: a younger one may belong to a
    /// command that is on its way.
    pub fn collect(&self, grace: std::time::Duration, mut is_held: impl FnMut(&[u8; 32]) -> bool) -> io::Result<usize> {
        let mut removed = 0;
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let Some(sha256) = entry.file_name().to_str().and_then(read_hex) else { continue };
            let age = entry.metadata()?.modified()?.elapsed().unwrap_or_default();
            if age > grace && !is_held(&sha256) {
                fs::remove_file(entry.path())?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Why a file could not be read: it is damaged, or the system refused and may not do so a little later.
    pub fn unread(&self, blob: &Blob, error: &io::Error) -> DiskError {
        let file = self.path(blob);
        let why = match error.kind() {
            io::ErrorKind::NotFound => "it is missing".to_owned(),
            io::ErrorKind::InvalidData => error.to_string(),
            _ => return DiskError::Io(format!("{}: {}", file.display(), crate::disk::folder::explain(error))),
        };
        DiskError::Damaged { file, holds: "a component or a large payload, checkpoint or result", why }
    }

    pub fn path(&self, blob: &Blob) -> PathBuf {
        self.dir.join(blob.hex())
    }
}

fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Makes a rename inside the folder durable.
pub fn sync(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

fn read_hex(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    let mut out = [0; 32];
    for (byte, pair) in out.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_same_bytes_are_one_file_and_damage_is_noticed() {
        let dir = tempfile::tempdir().expect("a folder");
        let blobs = Blobs::open(dir.path().join("blobs")).expect("opens");
        let blob = blobs.put(&Bytes::from_static(b"hello")).expect("stores");
        assert_eq!(blobs.put(&Bytes::from_static(b"hello")).expect("stores"), blob);
        assert_eq!(blobs.get(&blob).expect("reads"), "hello");
        assert_eq!(blobs.head(&blob, 3).expect("reads"), "hel");
        assert_eq!(blobs.head(&blob, 99).expect("reads"), "hello");
        fs::write(blobs.path(&blob), b"hellO").expect("damages");
        assert!(blobs.get(&blob).is_err());
        assert_eq!(blobs.put(&Bytes::from_static(b"hello")).expect("stores"), blob);
        assert_eq!(blobs.get(&blob).expect("is whole again"), "hello");
    }

    #[test]
    fn only_blobs_that_no_job_holds_are_collected() {
        let dir = tempfile::tempdir().expect("a folder");
        let blobs = Blobs::open(dir.path().join("blobs")).expect("opens");
        let held = blobs.put(&Bytes::from_static(b"held")).expect("stores");
        let orphan = blobs.put(&Bytes::from_static(b"orphan")).expect("stores");
        assert_eq!(blobs.collect(Duration::from_secs(3600), |_| false).expect("collects"), 0, "all are young");
        assert_eq!(blobs.collect(Duration::ZERO, |sha| *sha == held.sha256).expect("collects"), 1);
        assert!(blobs.get(&held).is_ok());
        assert!(blobs.get(&orphan).is_err());
    }
}
