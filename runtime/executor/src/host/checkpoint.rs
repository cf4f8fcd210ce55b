//! `checkpoint`: durable state, and the children that commit with it.

use bytes::Bytes;
use windlass_core::{LimitKind, Notes};

use crate::attempt::SavedState;
use crate::attempt::state::{Interrupted, State, Superseded};
use crate::bindings::windlass::job::checkpoint as wit;
use crate::host::Uncommitted;

/// Why the host did not store or read something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// What was asked for cannot be, and why. The guest is told, and decides.
    #[error("{0}")]
    Invalid(String),
    /// It was not stored or cannot be read, and waiting would not help. The guest is told, and decides.
    #[error("{0}")]
    Unavailable(String),
    /// The host itself is in trouble (a full disk, say) and has waited for long enough. That is not the guest's
    /// failure, so it is not told: the attempt ends here as `Outcome::Interrupted`.
    #[error("{0}")]
    Interrupted(String),
    /// This attempt is over: another one has taken its place, or the checkpoint was stored together with a hand-back.
    /// The guest gets no further word.
    #[error("the attempt is over")]
    Ended,
}

impl HostError {
    /// What to say of a child that is not there.
    pub fn no_child(ordinal: u32) -> HostError {
        HostError::Invalid(format!("this job has no child number {ordinal}, or has it no longer"))
    }
}

impl wit::Host for State {
    async fn save(&mut self, schema: u32, state: Vec<u8>) -> wasmtime::Result<Result<(), wit::Refusal>> {
        self.host_called();
        self.alive();
        let limit = self.limits.checkpoint_bytes;
        if state.len() > limit {
            self.gauge.hit(LimitKind::Checkpoint);
            return Ok(Err(wit::Refusal::TooLarge(limit as u64)));
        }
        let saved = SavedState { schema, bytes: Bytes::from(state) };
        let used = self.used(self.cpu.used_within_poll());
        self.liveness.pause();
        let wait = self.charge_disk(saved.bytes.len());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        let uncommitted = Uncommitted { children: self.children.uncommitted(), notes: self.notes.clone() };
        let stored = self.host.checkpoint(saved, uncommitted, used).await;
        self.alive();
        match stored {
            Ok(()) => {
                self.children.committed();
                self.notes = Notes::default();
                Ok(Ok(()))
            }
            Err(HostError::Unavailable(reason) | HostError::Invalid(reason)) => {
                Ok(Err(wit::Refusal::Unavailable(reason)))
            }
            Err(HostError::Interrupted(reason)) => Err(Interrupted(reason).into()),
            Err(HostError::Ended) => Err(Superseded.into()),
        }
    }
}
