//! Secrets: encrypted on disk, decrypted in memory, and passed to the attempts of plugins that are granted them. The
//! signing secrets of webhooks, in both directions, are encrypted with the same keys, and decrypted by whatever signs
//! or verifies.
//!
//! The cipher is XChaCha20-Poly1305 with a new nonce each time and the secret's name as associated data; the keys are
//! in a separate file, see `keyring`, and are replaced by `rotation`. A value never appears in a log, an event, an
//! error or a response. A checkpoint that contains one is encrypted as a whole, see `checkpoints`.

pub mod keyring;
pub mod rotation;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};

use tracing::warn;
use windlass_core::{Name, Refusal, SigningSecrets, Time};
use windlass_executor::Secret;
use windlass_store::{EncryptedRow, SecretChange, Store};

use crate::limits;
use crate::secrets::keyring::{KeyFile, Keyring, SecretKey};

/// Cheap to clone.
#[derive(Clone)]
pub struct Secrets {
    inner: Arc<Inner>,
}

struct Inner {
    keys: Arc<Keyring>,
    decrypted: RwLock<BTreeMap<Name, Secret>>,
    /// One rotation at a time.
    rotating: tokio::sync::Mutex<()>,
}

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("cannot read the key that encrypts secrets, {file}: {why}. Let the server's user read the file")]
    Read { file: String, why: io::Error },
    #[error(
        "cannot create a key to encrypt secrets, {file}: {why}. Name a file that can be created with --secret-key-file"
    )]
    Make { file: String, why: io::Error },
    #[error(
        "{file} holds no keys for secrets: a line should contain the id of a key, a colon and 64 characters 0-9 a-f, or those characters \
         alone. {ADVICE}"
    )]
    NoKey { file: String },
    #[error("the key of the stored secrets ({count} of them), {file}, is missing. {ADVICE}")]
    Missing { file: String, count: usize },
    #[error("the key in {file} does not decrypt {what}, which was encrypted with another key. {ADVICE}")]
    Wrong { file: String, what: String },
    #[error("cannot read the secrets: {0}")]
    Store(#[from] windlass_store::Error),
}

const ADVICE: &str = "Restore the original key file, or name it with --secret-key-file";

impl Secrets {
    /// Decrypts every secret with the keys, of which the first is created if there are no secrets yet. What was
    /// encrypted with a key before the newest is encrypted anew: a rotation was interrupted, or somebody has added a
    /// key to the file.
    pub async fn load(store: Store, key_file: &KeyFile) -> Result<Secrets, KeyError> {
        let rows = store.secrets().await?;
        let signing = stored_signing(&store).await?;
        let keys = key_file.load(rows.len() + signing.len())?;
        let file = keys.file().display().to_string();
        let mut decrypted = BTreeMap::new();
        for row in rows {
            match decrypt_text(&keys, row.name.qualified(), &row.encrypted) {
                Some(value) => drop(decrypted.insert(row.name, Secret::new(value))),
                None => return Err(KeyError::Wrong { file, what: format!("the secret `{}`", row.name) }),
            }
        }
        let inner = Inner { keys, decrypted: RwLock::new(decrypted), rotating: Default::default() };
        let secrets = Secrets { inner: Arc::new(inner) };
        if let Some((signer, _)) = signing.iter().find(|(signer, stored)| secrets.signing(signer, stored).is_none()) {
            return Err(KeyError::Wrong { file, what: format!("the secret of {signer}") });
        }
        if let Err(why) = secrets.encrypt_anew(&store, &store).await {
            warn!("some secrets are still encrypted with an older key, which stays valid: {why}");
        }
        Ok(secrets)
    }

    /// The key to encrypt with. Whoever stores the ciphertext keeps it until that is stored, so that it is not dropped
    /// meanwhile.
    pub fn key(&self) -> Arc<SecretKey> {
        self.inner.keys.current()
    }

    /// The signing secrets of a signer, newest first. `None` if one of them was encrypted with another key.
    pub fn signing(&self, signer: &Signer, stored: &SigningSecrets) -> Option<Vec<SigningSecret>> {
        let name = signer.associated_data();
        let newest = stored.newest.iter().map(|encrypted| (encrypted, None));
        let previous = stored.previous.iter().map(|previous| (&previous.encrypted, Some(previous.until)));
        let decrypted = newest.chain(previous).map(|(encrypted, until)| {
            let text = decrypt_text(&self.inner.keys, &name, encrypted)?;
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
        let key = self.key();
        let encrypted = key.encrypt(name.qualified().as_bytes(), value.as_bytes()).ok_or_else(no_randomness)?;
        store.change_secret(SecretChange::Put { name: name.clone(), encrypted }).await?;
        self.write(|decrypted| drop(decrypted.insert(name, Secret::new(value))));
        Ok(())
    }

    pub async fn remove(&self, store: &Store, name: Name) -> Result<(), windlass_store::Error> {
        store.change_secret(SecretChange::Remove { name: name.clone() }).await?;
        self.write(|decrypted| drop(decrypted.remove(&name)));
        Ok(())
    }

    /// Bytes that were encrypted with this associated data and one of the keys.
    pub fn decrypt(&self, associated_data: &[u8], encrypted: &[u8]) -> Option<Vec<u8>> {
        self.inner.keys.decrypt(associated_data, encrypted)
    }

    fn write(&self, change: impl FnOnce(&mut BTreeMap<Name, Secret>)) {
        change(&mut self.inner.decrypted.write().unwrap_or_else(PoisonError::into_inner));
    }
}

/// The signing secrets of all webhooks, with whose they are.
async fn stored_signing(store: &Store) -> Result<Vec<(Signer, SigningSecrets)>, windlass_store::Error> {
    let hooks = store.webhooks().await?.into_iter().filter(|hook| hook.secrets.newest.is_some());
    let mut signing: Vec<_> = hooks.map(|hook| (Signer::Webhook(hook.id), hook.secrets)).collect();
    let inbound = store.inbound_hooks().await?.into_iter();
    signing.extend(inbound.map(|hook| (Signer::Sender(hook.queue), hook.secrets)));
    Ok(signing)
}

impl SecretKey {
    /// Encrypts a signing secret; it can be decrypted for this signer only.
    pub fn encrypt_signing(&self, signer: &Signer, value: &str) -> Result<Vec<u8>, windlass_store::Error> {
        self.encrypt(signer.associated_data().as_bytes(), value.as_bytes()).ok_or_else(no_randomness)
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
    /// Where its secret is stored.
    fn row(&self) -> EncryptedRow {
        match self {
            Signer::Webhook(id) => EncryptedRow::Webhook(id.clone()),
            Signer::Sender(queue) => EncryptedRow::InboundHook(queue.clone()),
        }
    }

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

fn decrypt_text(keys: &Keyring, name: &str, encrypted: &[u8]) -> Option<String> {
    String::from_utf8(keys.decrypt(name.as_bytes(), encrypted)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_has_the_associated_data_of_a_webhook_as_its_name() {
        let queue = "hook_1".parse::<Name>().expect("a name");
        for signer in [Signer::Webhook("hook_1".into()), Signer::Sender(queue)] {
            assert!(Name::parse("name", &signer.associated_data()).is_err());
        }
    }
}
