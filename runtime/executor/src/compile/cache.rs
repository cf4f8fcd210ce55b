//! Compiled code on disk, so that a restart does not compile again.
//!
//! Loaded code runs in the server, so anything that can write a file here could run any code. Each file therefore
//! carries a message authentication code (HMAC-SHA-256) over its name and all its bytes, under a key outside this
//! folder, and a file that does not verify is ignored.

use std::fs;
use std::hash::{Hash, Hasher};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::error::Error;

type Code = Hmac<Sha256>;

const KEY_BYTES: usize = 32;
const CODE_BYTES: usize = 32;

pub(crate) struct Cache {
    folder: PathBuf,
    key: [u8; KEY_BYTES],
    /// Which engine the code is for: wasmtime's version, the processor's features and our settings.
    engine: String,
}

impl Cache {
    pub(crate) fn open(folder: &Path, key_file: &Path, engine: &Engine) -> Result<Self, Error> {
        fs::create_dir_all(folder).map_err(|source| Error::Cache { path: folder.to_owned(), source })?;
        let key = key(folder, key_file).map_err(|reason| Error::Key { path: key_file.to_owned(), reason })?;
        let mut hash = Sha256Hasher(Sha256::new());
        engine.precompile_compatibility_hash().hash(&mut hash);
        let engine = hex(&hash.0.finalize()[..8]);
        Ok(Cache { folder: folder.to_owned(), key, engine })
    }

    /// The code of the component with this digest, if it is cached and verifies.
    pub(crate) fn load(&self, engine: &Engine, digest: &str) -> Option<Component> {
        let name = self.name(digest);
        let file = match fs::read(self.folder.join(&name)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                tracing::warn!(%name, %error, "cannot read compiled code, compiling again");
                return None;
            }
        };
        let verified = file
            .split_at_checked(CODE_BYTES)
            .filter(|(code, bytes)| self.code(&name, bytes).verify_slice(code).is_ok());
        let Some((_, bytes)) = verified else {
            tracing::warn!(%name, "compiled code does not verify, compiling again");
            return None;
        };
        // Exactly these bytes, in memory, have just been verified to be written by a holder of the key: by `store`
        // below.
        load(engine, bytes)
            .inspect_err(|error| tracing::warn!(%name, %error, "compiled code does not load, compiling again"))
            .ok()
    }

    /// Caches the code. Without it the next start is only slower, so a failure is a warning.
    pub(crate) fn store(&self, digest: &str, bytes: &[u8]) {
        let name = self.name(digest);
        let code = self.code(&name, bytes).finalize().into_bytes();
        if let Err(error) = self.write(&name, &code, bytes) {
            tracing::warn!(%name, %error, "cannot cache compiled code; the next start compiles it again");
        }
    }

    /// Writes to a temporary file first, so that no reader ever sees half a file.
    fn write(&self, name: &str, code: &[u8], bytes: &[u8]) -> io::Result<()> {
        let mut part = tempfile::NamedTempFile::new_in(&self.folder)?;
        part.write_all(code)?;
        part.write_all(bytes)?;
        part.persist(self.folder.join(name))?;
        Ok(())
    }

    fn name(&self, digest: &str) -> String {
        format!("{digest}-{}.compiled", self.engine)
    }

    fn code(&self, name: &str, bytes: &[u8]) -> Code {
        let mut code = Code::new_from_slice(&self.key).expect("HMAC takes a key of any length");
        code.update(&(name.len() as u64).to_le_bytes());
        code.update(name.as_bytes());
        code.update(bytes);
        code
    }
}

/// Loads code that the compiler wrote. Only for bytes that are known to come from it: from `Cache::load`, from the
/// compiler's child process, or from this process.
pub(crate) fn load(engine: &Engine, bytes: &[u8]) -> wasmtime::Result<Component> {
    // SAFETY: `deserialize` trusts its input to be wasmtime's own output, and every caller passes exactly that.
    #[allow(unsafe_code)]
    unsafe {
        Component::deserialize(engine, bytes)
    }
}

/// Reads the key, or creates it.
fn key(folder: &Path, key_file: &Path) -> Result<[u8; KEY_BYTES], String> {
    let parent = match key_file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    fs::create_dir_all(parent).map_err(|error| error.to_string())?;
    let inside = |parent: &Path| -> io::Result<bool> { Ok(parent.canonicalize()?.starts_with(folder.canonicalize()?)) };
    if inside(parent).map_err(|error| error.to_string())? {
        return Err("it is inside the folder that it protects; keep it outside".to_owned());
    }
    match fs::read(key_file) {
        Ok(bytes) => bytes.try_into().map_err(|bytes: Vec<u8>| {
            format!("it has {} bytes instead of {KEY_BYTES}; delete it, and the server creates a new one", bytes.len())
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            new_key(parent, key_file).map_err(|error| error.to_string())
        }
        Err(error) => Err(error.to_string()),
    }
}

/// A temporary file is readable only by its owner, and stays so when it is renamed.
fn new_key(parent: &Path, key_file: &Path) -> io::Result<[u8; KEY_BYTES]> {
    let mut key = [0; KEY_BYTES];
    getrandom::fill(&mut key).map_err(io::Error::other)?;
    let mut part = tempfile::NamedTempFile::new_in(parent)?;
    part.write_all(&key)?;
    part.as_file().sync_all()?;
    part.persist_noclobber(key_file)?;
    Ok(key)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Wasmtime describes its engine as a value to hash; a hash that does not change between builds keeps the cache valid.
struct Sha256Hasher(Sha256);

impl Hasher for Sha256Hasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        let hash: [u8; 32] = self.0.clone().finalize().into();
        hash.first_chunk().map_or(0, |head| u64::from_le_bytes(*head))
    }
}
