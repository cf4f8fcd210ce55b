//! The keys that encrypt secrets: a file with a line `ID:KEY` for each. The newest encrypts; those before it decrypt
//! what they have encrypted, until a rotation has encrypted that anew and they are dropped.
//!
//! The store's data keys are encrypted with them as well, so the store needs the file before anything else.
//!
//! A ciphertext begins with the id of its key. One of a server that knew no ids does not, and belongs to key 0: that of
//! a file with a key and nothing else.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard};

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use tracing::warn;
use windlass_store::{DATA_KEY_BYTES, KeyWrap};

use crate::limits;
use crate::secrets::KeyError;

const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;

/// What a ciphertext with the id of its key begins with. One without begins with a random nonce, which is never this.
const WITH_ID: &[u8; 8] = b"\0wl-key\x02";

/// A key of the file.
pub struct SecretKey {
    id: u32,
    bytes: [u8; KEY_BYTES],
    cipher: XChaCha20Poly1305,
}

impl SecretKey {
    fn new(id: u32, bytes: [u8; KEY_BYTES]) -> SecretKey {
        SecretKey { id, bytes, cipher: XChaCha20Poly1305::new(&bytes.into()) }
    }

    pub fn id(&self) -> u32 {
        self.id
    }

    /// Encrypts bytes that only the same associated data decrypts. `None` only if the system has no randomness.
    pub fn encrypt(&self, associated_data: &[u8], bytes: &[u8]) -> Option<Vec<u8>> {
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce).ok()?;
        let payload = Payload { msg: bytes, aad: associated_data };
        let encrypted = self.cipher.encrypt(XNonce::from_slice(&nonce), payload).ok()?;
        Some([&WITH_ID[..], &self.id.to_be_bytes(), &nonce, &encrypted].concat())
    }
}

/// The id of the key that a ciphertext belongs to, and the rest of it.
fn split(encrypted: &[u8]) -> (u32, &[u8]) {
    match encrypted.strip_prefix(WITH_ID).and_then(<[u8]>::split_first_chunk) {
        Some((id, rest)) => (u32::from_be_bytes(*id), rest),
        None => (0, encrypted),
    }
}

/// The id of the key that a ciphertext belongs to.
pub fn key_of(encrypted: &[u8]) -> u32 {
    split(encrypted).0
}

/// The length of what was encrypted; `None` if it is too short to be that.
pub fn plaintext_len(encrypted: &[u8]) -> Option<usize> {
    split(encrypted).1.len().checked_sub(NONCE_BYTES + TAG_BYTES)
}

/// All keys of the file.
pub struct Keyring {
    file: PathBuf,
    /// In the order of their ids; never empty.
    keys: RwLock<Vec<Arc<SecretKey>>>,
}

impl Keyring {
    /// Reads the file. It is created if nothing has been encrypted yet; `ciphertexts` is how much has been.
    pub fn load(file: &Path, ciphertexts: usize) -> Result<Keyring, KeyError> {
        let shown = || file.display().to_string();
        let keys = match std::fs::read_to_string(file) {
            Ok(text) => parse(&text).ok_or_else(|| KeyError::NoKey { file: shown() })?,
            Err(why) if why.kind() == io::ErrorKind::NotFound && ciphertexts == 0 => {
                vec![create(file).map_err(|why| KeyError::Make { file: shown(), why })?]
            }
            Err(why) if why.kind() == io::ErrorKind::NotFound => {
                return Err(KeyError::Missing { file: shown(), count: ciphertexts });
            }
            Err(why) => return Err(KeyError::Read { file: shown(), why }),
        };
        warn_if_readable(file);
        Ok(Keyring { file: file.to_owned(), keys: RwLock::new(keys.into_iter().map(Arc::new).collect()) })
    }

    pub fn file(&self) -> &Path {
        &self.file
    }

    fn keys(&self) -> RwLockReadGuard<'_, Vec<Arc<SecretKey>>> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The key to encrypt with. It is not dropped from the file before it is dropped here: whoever stores what they
    /// have encrypted keeps it until that is stored.
    pub fn current(&self) -> Arc<SecretKey> {
        Arc::clone(self.keys().last().expect("a keyring has a key"))
    }

    pub fn current_id(&self) -> u32 {
        self.keys().last().map_or(0, |key| key.id)
    }

    /// The ids of the keys before the current one.
    pub fn old_ids(&self) -> Vec<u32> {
        let keys = self.keys();
        keys.iter().take(keys.len() - 1).map(|key| key.id).collect()
    }

    /// Whether somebody is about to store what they have encrypted with it.
    pub fn is_in_use(&self, id: u32) -> bool {
        self.keys().iter().any(|key| key.id == id && Arc::strong_count(key) > 1)
    }

    /// Bytes that were encrypted with this associated data and one of the keys.
    pub fn decrypt(&self, associated_data: &[u8], encrypted: &[u8]) -> Option<Vec<u8>> {
        let (id, rest) = split(encrypted);
        let (nonce, ciphertext) = rest.split_at_checked(NONCE_BYTES)?;
        let keys = self.keys();
        let key = keys.iter().find(|key| key.id == id)?;
        key.cipher.decrypt(XNonce::from_slice(nonce), Payload { msg: ciphertext, aad: associated_data }).ok()
    }

    /// Adds a key, which encrypts from now on: on the disk when it returns.
    pub fn add(&self) -> io::Result<u32> {
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        let id = keys.last().map_or(0, |key| key.id).checked_add(1).ok_or(io::ErrorKind::QuotaExceeded)?;
        let mut bytes = [0; KEY_BYTES];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        let key = Arc::new(SecretKey::new(id, bytes));
        replace(&self.file, &text(keys.iter().chain([&key])))?;
        keys.push(key);
        Ok(id)
    }

    /// Drops keys before the current one, from the file first.
    pub fn drop_old(&self, ids: &[u32]) -> io::Result<()> {
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        let current = keys.last().map_or(0, |key| key.id);
        let stays = |key: &Arc<SecretKey>| key.id == current || !ids.contains(&key.id);
        replace(&self.file, &text(keys.iter().filter(|key| stays(key))))?;
        keys.retain(stays);
        Ok(())
    }

    /// Whether there can be another key.
    pub fn is_full(&self) -> bool {
        self.keys().len() >= limits::SECRET_KEYS
    }
}

/// The key file, read when it is known how much its keys have encrypted. Cheap to clone.
#[derive(Clone)]
pub struct KeyFile {
    path: PathBuf,
    keys: Arc<OnceLock<Arc<Keyring>>>,
}

impl KeyFile {
    pub fn new(path: &Path) -> KeyFile {
        KeyFile { path: path.to_owned(), keys: Arc::default() }
    }

    /// Its keys: what the first call has read, for all later ones.
    pub fn load(&self, ciphertexts: usize) -> Result<Arc<Keyring>, KeyError> {
        if let Some(keys) = self.keys.get() {
            return Ok(Arc::clone(keys));
        }
        let keys = Arc::new(Keyring::load(&self.path, ciphertexts)?);
        Ok(Arc::clone(self.keys.get_or_init(|| keys)))
    }
}

impl fmt::Debug for KeyFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyFile({})", self.path.display())
    }
}

/// What a data key is bound to. It cannot be the name of a secret.
pub fn data_of_data_key(id: u32) -> String {
    format!("data key {id}")
}

/// The store's own keys are encrypted like secrets.
impl KeyWrap for KeyFile {
    fn prepare(&self, ciphertexts: usize) -> Result<(), String> {
        self.load(ciphertexts).map(drop).map_err(|error| error.to_string())
    }

    fn wrap(&self, id: u32, key: &[u8; DATA_KEY_BYTES]) -> Option<Vec<u8>> {
        self.keys.get()?.current().encrypt(data_of_data_key(id).as_bytes(), key)
    }

    fn unwrap(&self, id: u32, wrapped: &[u8]) -> Result<[u8; DATA_KEY_BYTES], String> {
        let data = data_of_data_key(id);
        let key = self.keys.get().and_then(|keys| keys.decrypt(data.as_bytes(), wrapped));
        let wrong = || KeyError::Wrong {
            file: self.path.display().to_string(),
            what: "a data key of the stored jobs".to_owned(),
        };
        key.and_then(|key| key.try_into().ok()).ok_or_else(|| wrong().to_string())
    }
}

fn line(key: &SecretKey) -> String {
    let hex: String = key.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}:{hex}\n", key.id)
}

fn text<'a>(keys: impl Iterator<Item = &'a Arc<SecretKey>>) -> String {
    keys.map(|key| line(key)).collect()
}

/// The keys of a file, in the order of their ids. `None` if it is not such a file.
fn parse(text: &str) -> Option<Vec<SecretKey>> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let key = |line: &str| {
        let (id, hex) = line.split_once(':').unwrap_or(("0", line));
        Some(SecretKey::new(id.parse().ok()?, windlass_core::parse_digest(hex)?))
    };
    let mut keys = lines.map(key).collect::<Option<Vec<_>>>().filter(|keys| !keys.is_empty())?;
    keys.sort_by_key(|key| key.id);
    let is_once = keys.windows(2).all(|pair| pair[0].id < pair[1].id);
    is_once.then_some(keys)
}

/// Creates a file with a key that only this user can read; never overwrites one.
fn create(path: &Path) -> io::Result<SecretKey> {
    let mut bytes = [0; KEY_BYTES];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    let key = SecretKey::new(1, bytes);
    write_new(path, &line(&key))?;
    Ok(key)
}

/// Writes the file anew, so that there is either the old or the new one, whatever happens.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    // The file may be a link, which stays.
    let path = std::fs::canonicalize(path)?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    // What an interrupted rotation has left.
    match std::fs::remove_file(&new) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(why),
        Ok(()) | Err(_) => {}
    }
    write_new(&new, text)?;
    std::fs::rename(&new, &path)?;
    sync_folder(&path)
}

fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    sync_folder(path)
}

fn sync_folder(path: &Path) -> io::Result<()> {
    match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => std::fs::File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

fn warn_if_readable(path: &Path) {
    let others = path.metadata().is_ok_and(|found| found.permissions().mode() & 0o077 != 0);
    if others {
        warn!("{0} can be read by other users of this machine; run: chmod 600 {0}", path.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BARE: &str = "0707070707070707070707070707070707070707070707070707070707070707";

    fn ring_of(text: &str) -> (tempfile::TempDir, Keyring) {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("secrets.key");
        write_new(&path, text).expect("a file");
        let ring = Keyring::load(&path, 1).expect("keys");
        (dir, ring)
    }

    /// As a server that knew no ids has encrypted it.
    fn encrypted_without_id(name: &[u8], value: &[u8]) -> Vec<u8> {
        let cipher = XChaCha20Poly1305::new(&[7; KEY_BYTES].into());
        let nonce = [9; NONCE_BYTES];
        let ciphertext =
            cipher.encrypt(XNonce::from_slice(&nonce), Payload { msg: value, aad: name }).expect("encrypts");
        [&nonce[..], &ciphertext].concat()
    }

    #[test]
    fn a_secret_is_decrypted_only_with_its_own_name_and_key() {
        let (_dir, ring) = ring_of(BARE);
        let encrypted = ring.current().encrypt(b"token", b"s3cret").expect("randomness");
        assert_eq!(ring.decrypt(b"token", &encrypted).as_deref(), Some(&b"s3cret"[..]));
        assert_eq!(plaintext_len(&encrypted), Some(6));
        assert_eq!(ring.decrypt(b"other", &encrypted), None, "a row moved to another name");
        let (_dir, others) = ring_of(&"08".repeat(KEY_BYTES));
        assert_eq!(others.decrypt(b"token", &encrypted), None);
        for at in 0..encrypted.len() {
            let mut damaged = encrypted.clone();
            damaged[at] ^= 1;
            assert_eq!(ring.decrypt(b"token", &damaged), None, "byte {at}");
        }
        assert_eq!(ring.decrypt(b"token", b"short"), None);
        assert_ne!(ring.current().encrypt(b"token", b"s3cret"), Some(encrypted), "the nonce differs each time");
    }

    #[test]
    fn a_file_with_a_key_and_nothing_else_is_key_0_and_decrypts_what_has_no_id() {
        let (dir, ring) = ring_of(BARE);
        let old = encrypted_without_id(b"token", b"s3cret");
        assert_eq!((ring.current_id(), key_of(&old), plaintext_len(&old)), (0, 0, Some(6)));
        assert_eq!(ring.decrypt(b"token", &old).as_deref(), Some(&b"s3cret"[..]));
        assert_eq!(ring.add().expect("another key"), 1);
        assert_eq!(ring.decrypt(b"token", &old).as_deref(), Some(&b"s3cret"[..]));
        let read = Keyring::load(&dir.path().join("secrets.key"), 1).expect("keys");
        assert_eq!((read.current_id(), read.old_ids()), (1, vec![0]));
        assert_eq!(read.decrypt(b"token", &old).as_deref(), Some(&b"s3cret"[..]));
    }

    #[test]
    fn the_newest_key_encrypts_and_a_dropped_one_is_gone_from_the_file_too() {
        let (dir, ring) = ring_of(BARE);
        let first = ring.current().encrypt(b"token", b"s3cret").expect("randomness");
        ring.add().expect("another key");
        let second = ring.current().encrypt(b"token", b"s3cret").expect("randomness");
        assert_eq!((key_of(&first), key_of(&second)), (0, 1));
        ring.drop_old(&[0, 1]).expect("writes the file");
        assert_eq!(ring.old_ids(), Vec::<u32>::new(), "the current one stays");
        assert_eq!(ring.decrypt(b"token", &first), None);
        let path = dir.path().join("secrets.key");
        let text = std::fs::read_to_string(&path).expect("the file");
        assert!(text.starts_with("1:") && !text.contains(BARE), "{text}");
        assert_eq!(path.metadata().expect("it exists").permissions().mode() & 0o777, 0o600);
        let read = Keyring::load(&path, 1).expect("keys");
        assert_eq!(read.decrypt(b"token", &second).as_deref(), Some(&b"s3cret"[..]));
    }

    #[test]
    fn a_key_is_in_use_while_somebody_stores_what_it_has_encrypted() {
        let (_dir, ring) = ring_of(BARE);
        let held = ring.current();
        ring.add().expect("another key");
        assert!(ring.is_in_use(0));
        drop(held);
        assert!(!ring.is_in_use(0));
    }

    #[test]
    fn a_file_that_is_no_keyring_is_refused() {
        let twice = format!("1:{BARE}\n1:{BARE}\n");
        for text in ["", "\n", "not a key", "1:", &BARE[1..], &format!("x:{BARE}"), &format!("{BARE}\n{BARE}"), &twice]
        {
            assert!(parse(text).is_none(), "{text:?}");
        }
        let shuffled = format!("\n7:{BARE}\n{BARE}\n 3:{BARE} \n");
        let ids = parse(&shuffled).map(|keys| keys.iter().map(|key| key.id).collect::<Vec<_>>());
        assert_eq!(ids, Some(vec![0, 3, 7]));
    }

    #[test]
    fn a_key_is_readable_only_by_its_owner_and_made_only_where_nothing_is_encrypted() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("secrets.key");
        assert!(matches!(Keyring::load(&path, 1), Err(KeyError::Missing { count: 1, .. })));
        let key = Keyring::load(&path, 0).expect("it is created").current().bytes;
        assert_eq!(path.metadata().expect("it exists").permissions().mode() & 0o777, 0o600);
        assert_eq!(Keyring::load(&path, 1).expect("it reads").current().bytes, key);
        assert!(create(&path).is_err());
    }
}
