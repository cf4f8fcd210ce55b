//! Replacing ciphertexts of the server's by those of another key: only where nothing else has been stored meanwhile.

use crate::disk::{Disk, DiskError, Space};
use crate::disk::{codec, keys};
use crate::engine::Engine;
use crate::engine::requests::operation::{Answer, Cost, Operation};
use crate::{DataKeyRow, EncryptedAnew, EncryptedRow, NewCiphertext, SecretRow};

impl<D: Disk> Operation<D> for EncryptedAnew {
    type Answer = usize;

    fn cost(&self) -> Cost {
        let bytes = self.rows.iter().map(|row| row.to.len() + Cost::SMALL.bytes).sum();
        Cost { commands: self.rows.len().max(1), bytes }
    }

    fn audit(&self) -> Option<(&'static str, String)> {
        Some(("secret.rotate", self.note.clone()))
    }

    fn start(self, engine: &mut Engine<D>, answer: Answer<usize>) -> Result<(), DiskError> {
        let mut replaced = 0;
        for row in self.rows {
            replaced += usize::from(engine.replace_ciphertext(row)?);
        }
        // Also if nothing was replaced: with the commit, data keys that were made just now are stored.
        engine.unsaved.require_commit();
        engine.release.push(answer, Ok(replaced));
        Ok(())
    }
}

impl<D: Disk> Engine<D> {
    /// Returns whether it was still the one that was read.
    fn replace_ciphertext(&mut self, NewCiphertext { row, from, to }: NewCiphertext) -> Result<bool, DiskError> {
        match row {
            EncryptedRow::Secret(name) => {
                let key = keys::named(&name);
                let Some(bytes) = self.written(Space::Secrets, key.clone())? else { return Ok(false) };
                let stored: SecretRow = codec::decode(Space::Secrets, &bytes)?;
                if stored.encrypted != from {
                    return Ok(false);
                }
                // Its value is the same, and so is the time at which somebody set it.
                let row = codec::encode(&SecretRow { encrypted: to, ..stored });
                self.unsaved.batch.put(Space::Secrets, key, row);
            }
            EncryptedRow::Webhook(id) => {
                let Ok(mut hook) = self.catalogue.known_webhook(&id) else { return Ok(false) };
                if !hook.secrets.replace(&from, to) {
                    return Ok(false);
                }
                self.catalogue.put_webhook(hook, &mut self.unsaved.batch);
            }
            EncryptedRow::InboundHook(queue) => {
                let Some(mut hook) = self.catalogue.inbound_hook(&queue).cloned() else { return Ok(false) };
                if !hook.secrets.replace(&from, to) {
                    return Ok(false);
                }
                self.catalogue.put_inbound_hook(hook, &mut self.unsaved.batch);
            }
            EncryptedRow::DataKey(id) => {
                let key = keys::data_key(id);
                let Some(bytes) = self.written(Space::Access, key.clone())? else { return Ok(false) };
                let stored: DataKeyRow = codec::decode(Space::Access, &bytes)?;
                if stored.wrapped != from {
                    return Ok(false);
                }
                self.unsaved.batch.put(Space::Access, key, codec::encode(&DataKeyRow { wrapped: to, ..stored }));
            }
        }
        Ok(true)
    }
}
