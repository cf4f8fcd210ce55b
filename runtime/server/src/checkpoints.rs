//! The stored form of checkpoints that contain a secret: encrypted as a whole, for one plugin's attempts of one job.
//!
//! A job that is moved to the queue of another plugin keeps its checkpoint, and that plugin may not be granted the
//! secret. So the ciphertext is bound to the job and the plugin that saved it: nothing else decrypts it. The name of
//! the plugin stands before the ciphertext in clear, to be able to say whose it is.

use bytes::Bytes;
use windlass_core::{Digest, Job, JobId, Name, Runner, parse_digest};

use crate::secrets::Secrets;
use crate::secrets::keyring::{self, SecretKey};

/// Whose checkpoint it is.
#[derive(Clone, Copy, Debug)]
pub struct CheckpointOwner<'a> {
    pub job: JobId,
    pub plugin: &'a str,
}

/// Why an attempt does not get a stored checkpoint.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Withheld {
    #[error("it contains a secret and was encrypted with another key than that of --secret-key-file; restore that key")]
    WrongKey,
    /// The attempt runs without it.
    #[error("it contains a secret of the plugin `{plugin}`, and no other plugin gets it")]
    OtherPlugin { plugin: String },
    /// The same, for one that an older server stored without the name of its plugin.
    #[error("it contains a secret, and was stored before the server recorded which plugin's")]
    UnknownPlugin,
}

/// The start of an encrypted checkpoint. Neither form can be the name of a secret. The first form was bound to nothing:
/// this was its associated data.
const UNBOUND: &[u8] = b"\0windlass checkpoint\x01";
const BOUND: &[u8] = b"\0windlass checkpoint\x02";

/// The parts of an encrypted checkpoint.
struct Parts<'a> {
    /// `None` in the first form.
    plugin: Option<&'a str>,
    ciphertext: &'a [u8],
}

fn parts(stored: &[u8]) -> Option<Parts<'_>> {
    if let Some(ciphertext) = stored.strip_prefix(UNBOUND) {
        return Some(Parts { plugin: None, ciphertext });
    }
    let (length, rest) = stored.strip_prefix(BOUND)?.split_first_chunk()?;
    let (plugin, ciphertext) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    Some(Parts { plugin: Some(core::str::from_utf8(plugin).ok()?), ciphertext })
}

/// How many bytes of a body show whether it may be an encrypted checkpoint.
pub const ENCRYPTED_HEAD: usize = 32;

/// Whether a body that begins so may be an encrypted checkpoint.
pub fn may_be_encrypted(head: &[u8]) -> bool {
    head.starts_with(UNBOUND) || head.starts_with(BOUND)
}

/// The length of the plaintext, if this is an encrypted checkpoint.
pub fn plaintext_len(stored: &[u8]) -> Option<usize> {
    keyring::plaintext_len(parts(stored)?.ciphertext)
}

/// How many bytes of an encrypted checkpoint show which key it needs: the name of a plugin and what stands around it.
pub const KEY_HEAD: usize = 1024;

/// The id of the key that a checkpoint which begins so needs, if it is an encrypted one.
pub fn key_of(head: &[u8]) -> Option<u32> {
    Some(keyring::key_of(parts(head)?.ciphertext))
}

impl CheckpointOwner<'_> {
    /// What the ciphertext is bound to. The id of the job has a fixed length, so no two owners have the same.
    fn associated_data(&self) -> Vec<u8> {
        [BOUND, &self.job.to_bytes(), self.plugin.as_bytes()].concat()
    }

    /// A checkpoint as it is stored: encrypted if it contains a secret. `None` only if the system has no randomness.
    pub fn encrypt(&self, key: &SecretKey, state: Bytes, holds_secret: bool) -> Option<Bytes> {
        // One that looks encrypted is encrypted as well, or `decrypt` would not return it unchanged.
        if !holds_secret && plaintext_len(&state).is_none() {
            return Some(state);
        }
        let length = u16::try_from(self.plugin.len()).ok()?;
        let ciphertext = key.encrypt(&self.associated_data(), &state)?;
        Some([BOUND, &length.to_be_bytes(), self.plugin.as_bytes(), &ciphertext].concat().into())
    }

    /// A stored checkpoint as its guest saved it. `saved_it` says whether this plugin saved one of the first form.
    pub fn decrypt(
        &self,
        secrets: &Secrets,
        stored: Bytes,
        saved_it: impl FnOnce() -> bool,
    ) -> Result<Bytes, Withheld> {
        let Some(Parts { plugin, ciphertext }) = parts(&stored).filter(|_| plaintext_len(&stored).is_some()) else {
            return Ok(stored);
        };
        let state = match plugin {
            Some(plugin) if plugin != self.plugin => {
                return Err(Withheld::OtherPlugin { plugin: Name::stored(plugin).to_string() });
            }
            Some(_) => secrets.decrypt(&self.associated_data(), ciphertext),
            None if saved_it() => secrets.decrypt(UNBOUND, ciphertext),
            None => return Err(Withheld::UnknownPlugin),
        };
        state.map(Bytes::from).ok_or(Withheld::WrongKey)
    }
}

/// Whether a checkpoint of the first form is this plugin's own (by its qualified name), as far as the job's record
/// says: one of its versions saved it, and the plugin ran the job last.
pub fn was_saved_by(plugin: &str, job: &Job, has_version: impl FnOnce(&Digest) -> bool) -> bool {
    let ran_last = matches!(&job.ran_by, Some(Runner::Local { plugin: name, .. }) if name.qualified() == plugin);
    ran_last && job.checkpoint_by.as_deref().and_then(parse_digest).is_some_and(|version| has_version(&version))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use windlass_core::Time;
    use windlass_store::{Durability, Options, Store};

    use super::*;
    use crate::secrets::keyring::KeyFile;

    const STATE: Bytes = Bytes::from_static(b"{\"token\":\"s3cret\"}");

    async fn secrets(dir: &tempfile::TempDir, key: &str) -> Secrets {
        let options = Options { dir: dir.path().join(format!("data of {key}")), durability: Durability::Os };
        let clock = Arc::new(crate::clock::SystemClock::start());
        let store = Store::open(options, clock).expect("a fresh folder");
        Secrets::load(store, &KeyFile::new(&dir.path().join(key))).await.expect("a new key")
    }

    fn owner(job: u128, plugin: &str) -> CheckpointOwner<'_> {
        CheckpointOwner { job: JobId::new(Time(1), job), plugin }
    }

    fn never() -> bool {
        panic!("the form says whose it is")
    }

    #[tokio::test]
    async fn a_checkpoint_is_returned_unchanged_and_is_encrypted_when_it_must_be() {
        let dir = tempfile::tempdir().expect("a folder");
        let secrets = secrets(&dir, "key").await;
        let mailer = owner(1, "mailer");
        assert_eq!(mailer.encrypt(&secrets.key(), STATE, false), Some(STATE));
        assert_eq!(mailer.decrypt(&secrets, STATE, never), Ok(STATE));
        let encrypted = mailer.encrypt(&secrets.key(), STATE, true).expect("randomness");
        assert!(!encrypted.windows(6).any(|part| part == b"s3cret"));
        assert_eq!(plaintext_len(&encrypted), Some(STATE.len()));
        assert_eq!(mailer.decrypt(&secrets, encrypted.clone(), never), Ok(STATE));
        // A guest whose own checkpoint looks encrypted gets it back unchanged.
        for forged in [encrypted, Bytes::from([UNBOUND, &[7; 60]].concat())] {
            let stored = mailer.encrypt(&secrets.key(), forged.clone(), false).expect("randomness");
            assert_eq!(mailer.decrypt(&secrets, stored, never), Ok(forged));
        }
    }

    #[tokio::test]
    async fn an_encrypted_checkpoint_is_decrypted_only_for_its_job_its_plugin_and_its_key() {
        let dir = tempfile::tempdir().expect("a folder");
        let (own, others) = (secrets(&dir, "key").await, secrets(&dir, "other key").await);
        let encrypted = owner(1, "mailer").encrypt(&own.key(), STATE, true).expect("randomness");
        let other = Err(Withheld::OtherPlugin { plugin: "mailer".to_owned() });
        assert_eq!(owner(1, "spy").decrypt(&own, encrypted.clone(), never), other);
        assert_eq!(owner(2, "mailer").decrypt(&own, encrypted.clone(), never), Err(Withheld::WrongKey));
        assert_eq!(owner(1, "mailer").decrypt(&others, encrypted.clone(), never), Err(Withheld::WrongKey));
        // Another name put before the ciphertext does not help.
        let length = BOUND.len() + 2;
        let renamed = [&encrypted[..length], b"spying", &encrypted[length + 6..]].concat();
        assert_eq!(owner(1, "spying").decrypt(&own, renamed.into(), never), Err(Withheld::WrongKey));
        for cut in [BOUND.len(), length, length + 3, length + 6] {
            assert_eq!(plaintext_len(&encrypted[..cut]), None, "too short to be one");
        }
    }

    #[tokio::test]
    async fn one_of_the_first_form_is_decrypted_only_for_the_plugin_that_saved_it() {
        let dir = tempfile::tempdir().expect("a folder");
        let secrets = secrets(&dir, "key").await;
        let ciphertext = secrets.key().encrypt(UNBOUND, &STATE).expect("randomness");
        let old = Bytes::from([UNBOUND, &ciphertext].concat());
        assert_eq!(plaintext_len(&old), Some(STATE.len()));
        assert_eq!(owner(1, "mailer").decrypt(&secrets, old.clone(), || true), Ok(STATE));
        assert_eq!(owner(1, "mailer").decrypt(&secrets, old, || false), Err(Withheld::UnknownPlugin));
    }
}
