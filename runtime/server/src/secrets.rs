//! Secrets: encrypted on disk, decrypted in memory, and passed to the attempts of plugins that are granted them. The signing secrets
//! of webhooks, in both directions, are encrypted with the same key, and decrypted by whatever signs or verifies.
//!
//! The cipher is XChaCha20-Poly1305 with a new nonce each time and the secret's name as associated data; the key is in a separate
//! file. A value never appears in a log, an event, an error or a response. A checkpoint that contains one is encrypted as a whole with
//! the same key, see `checkpoints`.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use tracing::warn;
use windlass_core::{Name, Refusal, SigningSecrets, Time};
use windlass_executor::Secret;
use windlass_store::{SecretChange, Store};

use crate::limits;

/// Cheap to clone.
#[derive(Clone)]
pub struct Secrets {
    inner: Arc<Inner>,
}

struct Inner {
    cipher: XChaCha20Poly1305,
    decrypted: RwLock<BTreeMap<Name, Secret>>,
}

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("cannot read the key that encrypts secrets, {file}: {why}. Let the server's user read the file")]
    Read { file: String, why: io::Error },
    #[error(
        "cannot create a key to encrypt secrets, {file}: {why}. Name a file that can be created with --secret-key-file"
    )]
    Make { file: String, why: io::Error },
    #[error("{file} is not a key for secrets: it should contain {} characters 0-9 a-f. {ADVICE}", KEY_BYTES * 2)]
    NoKey { file: String },
    #[error("the key of the stored secrets ({count} of them), {file}, is missing. {ADVICE}")]
    Missing { file: String, count: usize },
    #[error("the key in {file} does not decrypt {what}, which was encrypted with another key. {ADVICE}")]
    Wrong { file: String, what: String },
    #[error("cannot read the secrets: {0}")]
    Store(#[from] windlass_store::Error),
}

const ADVICE: &str = "Restore the original key file, or name it with --secret-key-file";
const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;
impl Secrets {
    /// Decrypts every secret with the key, which is created if there are no secrets yet.
    pub async fn load(store: Store, key_file: &Path) -> Result<Secrets, KeyError> {
        let rows = store.secrets().await?;
        let mut signing = Vec::new();
        for hook in store.webhooks().await?.into_iter().filter(|hook| hook.secrets.newest.is_some()) {
            signing.push((Signer::Webhook(hook.id), hook.secrets));
        }
        for hook in store.inbound_hooks().await? {
            signing.push((Signer::Sender(hook.queue), hook.secrets));
        }
        let count = rows.len() + signing.len();
        let file = key_file.display().to_string();
        let key = match std::fs::read_to_string(key_file) {
            Ok(text) => parse_key(&text).ok_or(KeyError::NoKey { file: file.clone() })?,
            Err(why) if why.kind() == io::ErrorKind::NotFound && count == 0 => {
                create_key(key_file).map_err(|why| KeyError::Make { file: file.clone(), why })?
            }
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Err(KeyError::Missing { file, count }),
            Err(why) => return Err(KeyError::Read { file, why }),
        };
        warn_if_readable(key_file);
        let cipher = XChaCha20Poly1305::new(&key.into());
        let mut decrypted = BTreeMap::new();
        for row in rows {
            match decrypt_text(&cipher, row.name.qualified(), &row.encrypted) {
                Some(value) => drop(decrypted.insert(row.name, Secret::new(value))),
                None => return Err(KeyError::Wrong { file, what: format!("the secret `{}`", row.name) }),
            }
        }
        let secrets = Secrets { inner: Arc::new(Inner { cipher, decrypted: RwLock::new(decrypted) }) };
        match signing.iter().find(|(signer, stored)| secrets.signing(signer, stored).is_none()) {
            Some((signer, _)) => Err(KeyError::Wrong { file, what: format!("the secret of {signer}") }),
            None => Ok(secrets),
        }
    }

    /// Encrypts a signing secret; it can be decrypted for this signer only.
    pub fn encrypt_signing(&self, signer: &Signer, value: &str) -> Result<Vec<u8>, windlass_store::Error> {
        let name = signer.associated_data();
        encrypt(&self.inner.cipher, name.as_bytes(), value.as_bytes()).ok_or_else(no_randomness)
    }

    /// The signing secrets of a signer, newest first. `None` if one of them was encrypted with another key.
    pub fn signing(&self, signer: &Signer, stored: &SigningSecrets) -> Option<Vec<SigningSecret>> {
        let name = signer.associated_data();
        let newest = stored.newest.iter().map(|encrypted| (encrypted, None));
        let previous = stored.previous.iter().map(|previous| (&previous.encrypted, Some(previous.until)));
        let decrypted = newest.chain(previous).map(|(encrypted, until)| {
            let text = decrypt_text(&self.inner.cipher, &name, encrypted)?;
            Some(SigningSecret { text, until })
        });
        decrypted.collect()
    }

    /// The value of a secret, for an attempt that may have it.
    pub fn get(&self, name: &Name) -> Option<Secret> {
        self.inner.decrypted.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// `store` is the caller's.
    pub async fn set(&self, store: &Store, name: Name, value: String) -> Result<(), windlass_store::Error> {
        if !(limits::SECRET_LEAST..=limits::SECRET).contains(&value.len()) {
            let (least, most) = (limits::SECRET_LEAST, limits::SECRET);
            let why = format!("a secret has {least} to {most} bytes; a shorter one could not be redacted from logs");
            return Err(Refusal::invalid("value", why).into());
        }
        let bound_to = name.qualified().as_bytes();
        let encrypted = encrypt(&self.inner.cipher, bound_to, value.as_bytes()).ok_or_else(no_randomness)?;
        store.change_secret(SecretChange::Put { name: name.clone(), encrypted }).await?;
        self.write(|decrypted| drop(decrypted.insert(name, Secret::new(value))));
        Ok(())
    }

    pub async fn remove(&self, store: &Store, name: Name) -> Result<(), windlass_store::Error> {
        store.change_secret(SecretChange::Remove { name: name.clone() }).await?;
        self.write(|decrypted| drop(decrypted.remove(&name)));
        Ok(())
    }

    /// Encrypts bytes that only the same associated data decrypts. `None` only if the system has no randomness.
    pub fn encrypt(&self, associated_data: &[u8], bytes: &[u8]) -> Option<Vec<u8>> {
        encrypt(&self.inner.cipher, associated_data, bytes)
    }

    /// Bytes that were encrypted with this associated data and this key.
    pub fn decrypt(&self, associated_data: &[u8], encrypted: &[u8]) -> Option<Vec<u8>> {
        decrypt(&self.inner.cipher, associated_data, encrypted)
    }

    /// The length of what was encrypted; `None` if it is too short to be that.
    pub fn plaintext_len(encrypted: &[u8]) -> Option<usize> {
        encrypted.len().checked_sub(NONCE_BYTES + TAG_BYTES)
    }

    fn write(&self, change: impl FnOnce(&mut BTreeMap<Name, Secret>)) {
        change(&mut self.inner.decrypted.write().unwrap_or_else(PoisonError::into_inner));
    }
}

fn no_randomness() -> windlass_store::Error {
    windlass_store::Error::Unavailable { why: "the system has no randomness to encrypt with; try again".into() }
}

/// Whose signing secret it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signer {
    /// We sign what is sent to the address of this webhook.
    Webhook(String),
    /// Another service signs what it sends to this queue.
    Sender(Name),
}

/// A signing secret in clear.
pub struct SigningSecret {
    pub text: String,
    /// Until when it is valid; none for the newest.
    pub until: Option<Time>,
}

impl Signer {
    /// What the ciphertext is bound to. It cannot be the name of a secret.
    fn associated_data(&self) -> String {
        match self {
            Signer::Webhook(id) => format!("webhook {id}"),
            Signer::Sender(queue) => format!("inbound webhook {}", queue.qualified()),
        }
    }
}

impl fmt::Display for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Signer::Webhook(id) => write!(f, "the webhook `{id}`"),
            Signer::Sender(queue) => write!(f, "the inbound webhook of queue `{queue}`"),
        }
    }
}

/// The nonce and the ciphertext. `None` only if the system has no randomness.
fn encrypt(cipher: &XChaCha20Poly1305, name: &[u8], value: &[u8]) -> Option<Vec<u8>> {
    let mut nonce = [0; NONCE_BYTES];
    getrandom::fill(&mut nonce).ok()?;
    let payload = Payload { msg: value, aad: name };
    let encrypted = cipher.encrypt(XNonce::from_slice(&nonce), payload).ok()?;
    Some([&nonce[..], &encrypted].concat())
}

fn decrypt(cipher: &XChaCha20Poly1305, name: &[u8], encrypted: &[u8]) -> Option<Vec<u8>> {
    let (nonce, encrypted) = encrypted.split_at_checked(NONCE_BYTES)?;
    cipher.decrypt(XNonce::from_slice(nonce), Payload { msg: encrypted, aad: name }).ok()
}

fn decrypt_text(cipher: &XChaCha20Poly1305, name: &str, encrypted: &[u8]) -> Option<String> {
    String::from_utf8(decrypt(cipher, name.as_bytes(), encrypted)?).ok()
}

/// Creates a key that only this user can read; never overwrites a file.
fn create_key(path: &Path) -> io::Result<[u8; KEY_BYTES]> {
    let mut key = [0; KEY_BYTES];
    getrandom::fill(&mut key).map_err(io::Error::other)?;
    let text: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(format!("{text}\n").as_bytes())?;
    file.sync_all()?;
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::File::open(folder)?.sync_all()?;
    }
    Ok(key)
}

fn parse_key(text: &str) -> Option<[u8; KEY_BYTES]> {
    windlass_core::parse_digest(text.trim())
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

    #[test]
    fn a_secret_is_decrypted_only_with_its_own_name_and_key() {
        let cipher = XChaCha20Poly1305::new(&[7; KEY_BYTES].into());
        let encrypted = encrypt(&cipher, b"token", b"s3cret").expect("randomness");
        assert_eq!(decrypt(&cipher, b"token", &encrypted).as_deref(), Some(&b"s3cret"[..]));
        assert_eq!(decrypt(&cipher, b"other", &encrypted), None, "a row moved to another name");
        assert_eq!(decrypt(&XChaCha20Poly1305::new(&[8; KEY_BYTES].into()), b"token", &encrypted), None);
        for at in 0..encrypted.len() {
            let mut damaged = encrypted.clone();
            damaged[at] ^= 1;
            assert_eq!(decrypt(&cipher, b"token", &damaged), None, "byte {at}");
        }
        assert_eq!(decrypt(&cipher, b"token", b"short"), None);
        assert_ne!(encrypt(&cipher, b"token", b"s3cret"), Some(encrypted), "the nonce differs each time");
    }

    #[test]
    fn no_secret_has_the_associated_data_of_a_webhook_as_its_name() {
        let queue = "hook_1".parse::<Name>().expect("a name");
        for signer in [Signer::Webhook("hook_1".into()), Signer::Sender(queue)] {
            assert!(Name::parse("name", &signer.associated_data()).is_err());
        }
    }

    #[test]
    fn a_key_is_readable_only_by_its_owner_and_never_overwritten() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("secrets.key");
        let key = create_key(&path).expect("it is created");
        assert_eq!(path.metadata().expect("it exists").permissions().mode() & 0o777, 0o600);
        assert_eq!(parse_key(&std::fs::read_to_string(&path).expect("it reads")), Some(key));
        assert!(create_key(&path).is_err());
    }
}
