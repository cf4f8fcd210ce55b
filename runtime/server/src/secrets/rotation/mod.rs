//! Replacing the key that encrypts secrets, while the server runs.
//!
//! A rotation adds a key to the file, then encrypts anew what older keys have encrypted, in steps that each leave
//! everything readable with the keys of the file: an interruption between any two of them harms nothing, and the next
//! start or rotation goes on. Encrypted checkpoints are not encrypted anew, since only an attempt may decrypt them; an
//! old key is dropped when none of them needs it.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use tracing::info;
use windlass_store::{EncryptedAnew, EncryptedRow, Error, NewCiphertext, Store};

use crate::checkpoints;
use crate::secrets::keyring::data_of_data_key;
use crate::secrets::{Secrets, keyring, stored_signing};

/// How many ciphertexts one step replaces.
const STEP: usize = 100;

/// What a rotation has done.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Rotated {
    /// The id of the key that encrypts now.
    pub current: u32,
    /// How many secrets, signing secrets and data keys were encrypted anew.
    pub encrypted_anew: usize,
    pub dropped: Vec<u32>,
    /// The older keys that are still needed.
    pub kept: Vec<OldKey>,
}

/// A key before the current one.
#[derive(Debug, PartialEq, Eq)]
pub struct OldKey {
    pub id: u32,
    /// How many encrypted checkpoints need it; none if they were not counted.
    pub checkpoints: Option<u64>,
}

#[derive(Debug, thiserror::Error)]
pub enum RotateError {
    #[error("there are as many keys as there can be; drop old ones first, with `windlass secret rotate --drop-old`")]
    Full,
    #[error(
        "the key file {file} cannot be written: {why}. Nothing was changed; let the server's user write the file and its folder, or add a \
         line with a new id and key to it yourself and restart the server"
    )]
    File { file: String, why: io::Error },
    #[error(transparent)]
    Store(#[from] Error),
}

impl Secrets {
    /// Adds a key and encrypts anew with it. `caller` is the store of whoever asks, which the audit log names; `store`
    /// has everything.
    pub async fn rotate(&self, caller: &Store, store: &Store) -> Result<Rotated, RotateError> {
        let _alone = self.inner.rotating.lock().await;
        if self.inner.keys.is_full() {
            return Err(RotateError::Full);
        }
        let id = self.write_file(|secrets| secrets.inner.keys.add()).await?;
        info!("key {id} encrypts secrets from now on");
        caller.encrypt_anew(EncryptedAnew::note(format!("key {id} added"))).await?;
        let encrypted_anew = self.encrypt_anew(caller, store).await?;
        let kept = self.inner.keys.old_ids().into_iter().map(|id| OldKey { id, checkpoints: None }).collect();
        Ok(Rotated { current: id, encrypted_anew, dropped: Vec::new(), kept })
    }

    /// Drops the older keys that nothing needs any more.
    pub async fn drop_old_keys(&self, caller: &Store, store: &Store) -> Result<Rotated, RotateError> {
        let _alone = self.inner.rotating.lock().await;
        // Before anything is counted: what they are about to store is counted after it.
        let (in_use, unused): (Vec<u32>, Vec<u32>) =
            self.inner.keys.old_ids().into_iter().partition(|id| self.inner.keys.is_in_use(*id));
        // With this commit every data key is stored that one of them has encrypted.
        store.encrypt_anew(EncryptedAnew::note(String::new())).await?;
        let encrypted_anew = self.encrypt_anew(caller, store).await?;
        let checkpoints = if unused.is_empty() { BTreeMap::new() } else { count_checkpoints(store).await? };
        let (needed, dropped): (Vec<u32>, Vec<u32>) = unused.into_iter().partition(|id| checkpoints.contains_key(id));
        if !dropped.is_empty() {
            let ids = dropped.clone();
            self.write_file(move |secrets| secrets.inner.keys.drop_old(&ids)).await?;
            let said: Vec<_> = dropped.iter().map(u32::to_string).collect();
            info!("dropped the old keys of secrets: {}", said.join(", "));
            caller.encrypt_anew(EncryptedAnew::note(format!("key {} dropped", said.join(", ")))).await?;
        }
        let kept = in_use.into_iter().map(|id| OldKey { id, checkpoints: None });
        let needed = needed.into_iter().map(|id| OldKey { id, checkpoints: checkpoints.get(&id).copied() });
        let current = self.inner.keys.current_id();
        Ok(Rotated { current, encrypted_anew, dropped, kept: needed.chain(kept).collect() })
    }

    /// Encrypts with the current key what older ones have encrypted; returns how much that was. Somebody may change a
    /// secret meanwhile: the store replaces a ciphertext only if it is still the one that was read.
    pub(super) async fn encrypt_anew(&self, caller: &Store, store: &Store) -> Result<usize, Error> {
        let mut done = 0;
        loop {
            let old = self.ciphertexts_of_old_keys(store).await?;
            if old.is_empty() {
                return Ok(done);
            }
            let key = self.key();
            for step in old.chunks(STEP) {
                let anew = |(row, data, from): &(EncryptedRow, String, Vec<u8>)| {
                    let plain = self.decrypt(data.as_bytes(), from).ok_or_else(|| unreadable(row))?;
                    let to = key.encrypt(data.as_bytes(), &plain).ok_or_else(super::no_randomness)?;
                    Ok(NewCiphertext { row: row.clone(), from: from.clone(), to })
                };
                let rows = step.iter().map(anew).collect::<Result<Vec<_>, Error>>()?;
                let note = format!("{} encrypted anew with key {}", rows.len(), key.id());
                done += caller.encrypt_anew(EncryptedAnew { note, rows }).await?;
            }
        }
    }

    /// What older keys have encrypted, each with what it is bound to.
    async fn ciphertexts_of_old_keys(&self, store: &Store) -> Result<Vec<(EncryptedRow, String, Vec<u8>)>, Error> {
        let secrets = store.secrets().await?.into_iter().map(|row| {
            let data = row.name.qualified().to_owned();
            (EncryptedRow::Secret(row.name), data, row.encrypted)
        });
        let mut all: Vec<_> = secrets.collect();
        for (signer, stored) in stored_signing(store).await? {
            let ciphertexts = stored.all().map(<[u8]>::to_vec);
            all.extend(ciphertexts.map(|encrypted| (signer.row(), signer.associated_data(), encrypted)));
        }
        let data_keys = store.data_keys().await?.into_iter();
        all.extend(data_keys.map(|row| (EncryptedRow::DataKey(row.id), data_of_data_key(row.id), row.wrapped)));
        let current = self.inner.keys.current_id();
        all.retain(|(_, _, encrypted)| keyring::key_of(encrypted) != current);
        Ok(all)
    }

    /// Off the threads that answer requests: the file is synced.
    async fn write_file<T: Send + 'static>(
        &self,
        write: impl FnOnce(&Secrets) -> io::Result<T> + Send + 'static,
    ) -> Result<T, RotateError> {
        let secrets = self.clone();
        let written = tokio::task::spawn_blocking(move || write(&secrets)).await.map_err(io::Error::other).flatten();
        written.map_err(|why| RotateError::File { file: self.inner.keys.file().display().to_string(), why })
    }
}

fn unreadable(row: &EncryptedRow) -> Error {
    Error::Damaged { what: format!("the ciphertext of {row}") }
}

/// How many encrypted checkpoints need each key.
async fn count_checkpoints(store: &Store) -> Result<BTreeMap<u32, u64>, Error> {
    let counts = Arc::new(std::sync::Mutex::new(BTreeMap::new()));
    let count = {
        let counts = Arc::clone(&counts);
        move |head: &[u8]| {
            if let Some(key) = checkpoints::key_of(head) {
                let mut counts = counts.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                *counts.entry(key).or_default() += 1;
            }
        }
    };
    store.each_checkpoint(checkpoints::KEY_HEAD, count).await?;
    let mut counts = counts.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    Ok(std::mem::take(&mut *counts))
}

#[cfg(test)]
mod tests;
