//! Compiled code on disk, so that a restart does not compile again.
//!
//! Loading compiled code is running it: whoever can write a file here could run anything in the server. So each file carries
//! a code (HMAC-SHA-256) over its name and all its bytes, under a key that is kept outside this folder, and a file that does
//! not verify is treated as if it were not there.

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

    /// The code of the component with this digest, if it is here and ours.
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
        // These very bytes, in memory, were just verified to have been written by a holder of our key: by `store` below.
        load(engine, bytes)
            .inspect_err(|error| tracing::warn!(%name, %error, "compiled code does not load, compiling again"))
            .ok()
    }

    /// Keeps the code. Without it the next start is slower, so a failure is only worth a warning.
    pub(crate) fn store(&self, digest: &str, bytes: &[u8]) {
        let name = self.name(digest);
        let code = self.code(&name, bytes).finalize().into_bytes();
        if let Err(error) = self.write(&name, &code, bytes) {
            tracing::warn!(%name, %error, "cannot keep compiled code");
        }
    }

    /// Under a name of its own first: nobody ever sees half a file.
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

/// Makes a component of code that the compiler wrote. Only for bytes that are known to come from there: from `Cache::load`, from
/// a child of ours, or from this very process.
pub(crate) fn load(engine: &Engine, bytes: &[u8]) -> wasmtime::Result<Component> {
    // SAFETY: `deserialize` trusts its input to be what wasmtime has written. Every caller has it from there.
    #[allow(unsafe_code)]
    unsafe {
        Component::deserialize(engine, bytes)
    }
}

/// Reads the key, or makes one if there is none yet.
fn key(folder: &Path, key_file: &Path) -> Result<[u8; KEY_BYTES], String> {
    let parent = match key_file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    fs::create_dir_all(parent).map_err(|error| error.to_string())?;
    let inside = |parent: &Path| -> io::Result<bool> { Ok(parent.canonicalize()?.starts_with(folder.canonicalize()?)) };
    if inside(parent).map_err(|error| error.to_string())? {
        return Err("it lies in the folder it protects; keep it outside".to_owned());
    }
    match fs::read(key_file) {
        Ok(bytes) => bytes.try_into().map_err(|bytes: Vec<u8>| {
            format!("it has {} bytes instead of {KEY_BYTES}; delete it to get a new one", bytes.len())
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            new_key(parent, key_file).map_err(|error| error.to_string())
        }
        Err(error) => Err(error.to_string()),
    }
}

/// A temporary file is readable by its owner only, and stays so when it gets its name.
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

/// Wasmtime describes its engine as something to hash; a hash that is the same in every build of ours keeps the cache alive.
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
