//! The keys that encrypt what users store: one for each namespace, and one for rows that several namespaces share.
//!
//! Data keys are stored in the database, each encrypted ("wrapped") by the server, which alone knows key files. The
//! cipher is AES-256-GCM. No nonce is used twice: each opening of the store derives its own key from a data key and a
//! random salt, and counts. A restored copy of a folder therefore never repeats what the original has done. A
//! ciphertext names its data key and its salt.
//!
//! Which rows are encrypted, and with whose key, is in `encrypted`.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};

use crate::disk::fjall::FjallDisk;
use crate::disk::{Disk, DiskError, Space};
use crate::disk::{check, codec, keys};
use crate::{Encryption, OpenError};

pub const DATA_KEY_BYTES: usize = 32;
const SALT_BYTES: usize = 16;
const TAG_BYTES: usize = 16;
/// The first byte of a ciphertext: that of no other row.
pub const ENCRYPTED: u8 = 0xe5;
/// That byte, the id of the data key, the salt and the number of the message.
const HEADER: usize = 1 + 4 + SALT_BYTES + 8;
/// How much longer a ciphertext is than its text.
pub const OVERHEAD: usize = HEADER + TAG_BYTES;
/// Whose the key is for rows of several namespaces. No namespace has this name.
pub const SHARED: &str = "*";
/// How many derived keys are kept for reading: one for each opening of the store and data key.
const READERS: usize = 1024;

/// Encrypts and decrypts data keys.
pub trait KeyWrap: fmt::Debug + Send + Sync {
    /// Called before the others, with how much is stored that the server's keys have encrypted. The error says what to
    /// do.
    fn prepare(&self, ciphertexts: usize) -> Result<(), String>;

    /// `None` only if the system has no randomness.
    fn wrap(&self, id: u32, key: &[u8; DATA_KEY_BYTES]) -> Option<Vec<u8>>;

    /// The error says what to do.
    fn unwrap(&self, id: u32, wrapped: &[u8]) -> Result<[u8; DATA_KEY_BYTES], String>;
}

/// A data key as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataKeyRow {
    pub id: u32,
    /// The name of its namespace, or [`SHARED`].
    pub namespace: String,
    /// Empty once the namespace was removed: what it encrypted cannot be read by anybody any more.
    pub wrapped: Vec<u8>,
}

/// The data key and the salt of the opening that wrote a row.
type ReaderId = (u32, [u8; SALT_BYTES]);

pub struct DataKeys {
    wrap: Arc<dyn KeyWrap>,
    /// Whether what is written is encrypted. What is stored is decrypted in any case.
    is_on: bool,
    random: SystemRandom,
    state: RwLock<State>,
    readers: RwLock<HashMap<ReaderId, Arc<LessSafeKey>>>,
}

#[derive(Default)]
struct State {
    keys: HashMap<u32, DataKey>,
    /// The key of each namespace that has one.
    current: HashMap<String, Arc<Writer>>,
    /// Those that are to be stored with the next commit.
    unsaved: Vec<DataKeyRow>,
    last_id: u32,
}

enum DataKey {
    Known([u8; DATA_KEY_BYTES]),
    Removed,
}

/// What encrypts while the store is open.
struct Writer {
    id: u32,
    salt: [u8; SALT_BYTES],
    key: Arc<LessSafeKey>,
    messages: AtomicU64,
}

impl DataKeys {
    /// The keys of a store; none if nothing of it is encrypted nor is to be.
    pub fn load(disk: &FjallDisk, encryption: Option<&Encryption>) -> Result<Option<Arc<DataKeys>>, OpenError> {
        let unreadable = |error: DiskError| check::unreadable(disk.dir(), &error);
        let rows = stored(disk).map_err(unreadable)?;
        let Some(Encryption { wrap, is_on }) = encryption.filter(|wanted| wanted.is_on || !rows.is_empty()) else {
            return match rows.is_empty() {
                true => Ok(None),
                false => Err(OpenError::Key { why: "the data is encrypted, and no key was given to open it".into() }),
            };
        };
        let ciphertexts = rows.len() + count_ciphertexts(disk).map_err(unreadable)?;
        wrap.prepare(ciphertexts).map_err(|why| OpenError::Key { why })?;
        let keys = DataKeys {
            wrap: Arc::clone(wrap),
            is_on: *is_on,
            random: SystemRandom::new(),
            state: RwLock::default(),
            readers: RwLock::default(),
        };
        for row in rows {
            keys.add(row).map_err(|why| OpenError::Key { why })?;
        }
        Ok(Some(Arc::new(keys)))
    }

    fn add(&self, row: DataKeyRow) -> Result<(), String> {
        let mut state = self.write();
        state.last_id = state.last_id.max(row.id);
        if row.wrapped.is_empty() {
            state.keys.insert(row.id, DataKey::Removed);
            return Ok(());
        }
        let key = self.wrap.unwrap(row.id, &row.wrapped)?;
        let writer = self.writer(row.id, &key).ok_or(NO_RANDOMNESS)?;
        state.keys.insert(row.id, DataKey::Known(key));
        state.current.insert(row.namespace, Arc::new(writer));
        Ok(())
    }

    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Encrypts with the key of a namespace, which is made if it has none. Only the same associated data decrypts it.
    pub fn encrypt(&self, namespace: &str, associated_data: &[u8], text: &[u8]) -> Result<Vec<u8>, String> {
        let known = self.read().current.get(namespace).cloned();
        let writer = match known {
            Some(writer) => writer,
            None => self.make(namespace)?,
        };
        let number = writer.messages.fetch_add(1, Ordering::Relaxed);
        let mut out = Vec::with_capacity(text.len() + OVERHEAD);
        out.push(ENCRYPTED);
        out.extend(writer.id.to_be_bytes());
        out.extend(writer.salt);
        out.extend(number.to_be_bytes());
        out.extend_from_slice(text);
        let sealed =
            writer.key.seal_in_place_separate_tag(nonce(number), Aad::from(associated_data), &mut out[HEADER..]);
        out.extend(sealed.map_err(|_| "a text is too long to be encrypted")?.as_ref());
        Ok(out)
    }

    /// What was encrypted; none if its namespace was removed, and its key with it.
    pub fn decrypt(&self, associated_data: &[u8], ciphertext: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let parts = || {
            let (id, rest) = ciphertext.strip_prefix(&[ENCRYPTED])?.split_first_chunk::<4>()?;
            let (salt, rest) = rest.split_first_chunk::<SALT_BYTES>()?;
            let (number, rest) = rest.split_first_chunk::<8>()?;
            Some((u32::from_be_bytes(*id), *salt, u64::from_be_bytes(*number), rest))
        };
        let (id, salt, number, rest) = parts().ok_or("it is too short to be a ciphertext")?;
        let Some(key) = self.reader(id, salt)? else { return Ok(None) };
        let mut text = rest.to_vec();
        let opened = key.open_in_place(nonce(number), Aad::from(associated_data), &mut text);
        let length = opened.map_err(|_| "it is not what was encrypted")?.len();
        text.truncate(length);
        Ok(Some(text))
    }

    /// The key that this opening of the store or another one has derived.
    fn reader(&self, id: u32, salt: [u8; SALT_BYTES]) -> Result<Option<Arc<LessSafeKey>>, String> {
        if let Some(key) = self.readers.read().unwrap_or_else(PoisonError::into_inner).get(&(id, salt)) {
            return Ok(Some(Arc::clone(key)));
        }
        let key = match self.read().keys.get(&id) {
            Some(DataKey::Known(key)) => Arc::new(derive(key, &salt)),
            Some(DataKey::Removed) => return Ok(None),
            None => return Err(format!("its data key {id} is not there")),
        };
        let mut readers = self.readers.write().unwrap_or_else(PoisonError::into_inner);
        if readers.len() >= READERS {
            readers.clear();
        }
        readers.insert((id, salt), Arc::clone(&key));
        Ok(Some(key))
    }

    /// Makes the key of a namespace, unless somebody else just has.
    fn make(&self, namespace: &str) -> Result<Arc<Writer>, String> {
        // Held while it is wrapped: whoever replaces the server's key finds it stored or unsaved, and misses none in
        // between.
        let mut state = self.write();
        if let Some(writer) = state.current.get(namespace) {
            return Ok(Arc::clone(writer));
        }
        let id = state.last_id + 1;
        let mut key = [0; DATA_KEY_BYTES];
        self.random.fill(&mut key).map_err(|_| NO_RANDOMNESS)?;
        let wrapped = self.wrap.wrap(id, &key).ok_or(NO_RANDOMNESS)?;
        let writer = Arc::new(self.writer(id, &key).ok_or(NO_RANDOMNESS)?);
        state.last_id = id;
        state.keys.insert(id, DataKey::Known(key));
        state.current.insert(namespace.to_owned(), Arc::clone(&writer));
        state.unsaved.push(DataKeyRow { id, namespace: namespace.to_owned(), wrapped });
        Ok(writer)
    }

    fn writer(&self, id: u32, key: &[u8; DATA_KEY_BYTES]) -> Option<Writer> {
        let mut salt = [0; SALT_BYTES];
        self.random.fill(&mut salt).ok()?;
        Some(Writer { id, salt, key: Arc::new(derive(key, &salt)), messages: AtomicU64::new(0) })
    }

    /// The keys that must be part of the next commit: what they have encrypted cannot be read without them.
    pub fn unsaved(&self) -> Vec<DataKeyRow> {
        self.read().unsaved.clone()
    }

    /// These have been committed.
    pub fn saved(&self, rows: &[DataKeyRow]) {
        if !rows.is_empty() {
            self.write().unsaved.retain(|row| !rows.contains(row));
        }
    }

    /// Forgets the key of a namespace that is removed. Returns the row that takes the place of its key.
    pub fn remove(&self, namespace: &str) -> Option<DataKeyRow> {
        let mut state = self.write();
        let id = state.current.remove(namespace)?.id;
        state.keys.insert(id, DataKey::Removed);
        state.unsaved.retain(|row| row.id != id);
        self.readers.write().unwrap_or_else(PoisonError::into_inner).retain(|(of, _), _| *of != id);
        Some(DataKeyRow { id, namespace: namespace.to_owned(), wrapped: Vec::new() })
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

const NO_RANDOMNESS: &str = "the system has no randomness to encrypt with";

fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

fn derive(key: &[u8; DATA_KEY_BYTES], salt: &[u8; SALT_BYTES]) -> LessSafeKey {
    let secret = Salt::new(HKDF_SHA256, salt).extract(key);
    let derived = secret.expand(&[b"windlass rows"], &AES_256_GCM).map(UnboundKey::from);
    LessSafeKey::new(derived.expect("HKDF makes keys of this length"))
}

/// The data keys of a store.
fn stored(disk: &impl Disk) -> Result<Vec<DataKeyRow>, DiskError> {
    let mut rows = Vec::new();
    disk.each(Space::Access, &keys::data_keys(), &mut |_, value| rows.push(codec::decode(Space::Access, value)))?;
    rows.into_iter().collect()
}

/// What else the server has encrypted, which tells a key file that is missing from one that is not needed yet.
fn count_ciphertexts(disk: &impl Disk) -> Result<usize, DiskError> {
    let mut count = 0;
    for space in [Space::Secrets, Space::InboundHooks] {
        disk.each(space, &[], &mut |_, _| count += 1)?;
    }
    let mut hooks = Vec::new();
    disk.each(Space::Webhooks, &[], &mut |_, value| hooks.push(value.to_vec()))?;
    for hook in hooks {
        let hook: windlass_core::Webhook = codec::decode(Space::Webhooks, &hook)?;
        count += usize::from(hook.secrets.newest.is_some());
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wraps nothing.
    #[derive(Debug)]
    struct Plain;

    impl KeyWrap for Plain {
        fn prepare(&self, _: usize) -> Result<(), String> {
            Ok(())
        }
        fn wrap(&self, _: u32, key: &[u8; DATA_KEY_BYTES]) -> Option<Vec<u8>> {
            Some(key.to_vec())
        }
        fn unwrap(&self, _: u32, wrapped: &[u8]) -> Result<[u8; DATA_KEY_BYTES], String> {
            wrapped.try_into().map_err(|_| "it is no key".to_owned())
        }
    }

    fn with(rows: Vec<DataKeyRow>) -> DataKeys {
        let keys = DataKeys {
            wrap: Arc::new(Plain),
            is_on: true,
            random: SystemRandom::new(),
            state: RwLock::default(),
            readers: RwLock::default(),
        };
        rows.into_iter().for_each(|row| keys.add(row).expect("a key"));
        keys
    }

    #[test]
    fn a_text_is_decrypted_only_with_what_it_is_bound_to_and_as_it_was_encrypted() {
        let keys = with(Vec::new());
        let encrypted = keys.encrypt("default", b"job 1 payload", b"hello").expect("encrypts");
        assert_eq!(encrypted.len(), 5 + OVERHEAD);
        assert_eq!(keys.decrypt(b"job 1 payload", &encrypted), Ok(Some(b"hello".to_vec())));
        assert!(keys.decrypt(b"job 2 payload", &encrypted).is_err(), "the row of another job");
        assert!(keys.decrypt(b"job 1 result", &encrypted).is_err(), "another kind");
        for at in 0..encrypted.len() {
            let mut damaged = encrypted.clone();
            damaged[at] ^= 1;
            assert!(keys.decrypt(b"job 1 payload", &damaged).is_err(), "byte {at}");
            assert!(keys.decrypt(b"job 1 payload", &encrypted[..at]).is_err(), "{at} bytes");
        }
        assert_ne!(keys.encrypt("default", b"job 1 payload", b"hello"), Ok(encrypted), "never the same twice");
    }

    #[test]
    fn another_opening_reads_what_was_encrypted_and_derives_another_key() {
        let keys = with(Vec::new());
        let encrypted = keys.encrypt("default", b"", b"hello").expect("encrypts");
        let rows = keys.unsaved();
        keys.saved(&rows);
        assert!(keys.unsaved().is_empty());
        let later = with(rows.clone());
        assert_eq!(later.decrypt(b"", &encrypted), Ok(Some(b"hello".to_vec())));
        let anew = later.encrypt("default", b"", b"hello").expect("encrypts");
        // Both are the first message of their opening, with the same data key and number.
        assert_eq!(anew[..5], encrypted[..5]);
        assert_eq!(anew[HEADER - 8..HEADER], encrypted[HEADER - 8..HEADER]);
        assert_ne!(anew[5..5 + SALT_BYTES], encrypted[5..5 + SALT_BYTES]);
        assert!(later.unsaved().is_empty(), "there is a key already");
        assert!(with(Vec::new()).decrypt(b"", &encrypted).is_err_and(|why| why.contains("data key 1")));
    }

    #[test]
    fn each_namespace_has_a_key_of_its_own_and_with_it_goes_what_it_encrypted() {
        let keys = with(Vec::new());
        let [acme, globex] = ["acme", "globex"].map(|of| keys.encrypt(of, b"", b"hello").expect("encrypts"));
        assert_ne!(acme[1..5], globex[1..5]);
        assert!(keys.decrypt(b"", &acme).is_ok_and(|text| text.is_some()));
        let removed = keys.remove("acme").expect("it had a key");
        assert!(removed.wrapped.is_empty() && keys.unsaved().len() == 1);
        assert_eq!(keys.remove("acme"), None);
        assert_eq!(keys.decrypt(b"", &acme), Ok(None));
        assert_eq!(keys.decrypt(b"", &globex), Ok(Some(b"hello".to_vec())));
        // A namespace of the same name that is made later has nothing in common with it.
        let again = keys.encrypt("acme", b"", b"hello").expect("encrypts");
        assert_eq!(again[1..5], 3u32.to_be_bytes());
        let later = with(keys.unsaved().into_iter().chain([removed]).collect());
        assert_eq!(later.decrypt(b"", &acme), Ok(None));
        assert_eq!(later.decrypt(b"", &again), Ok(Some(b"hello".to_vec())));
    }
}
