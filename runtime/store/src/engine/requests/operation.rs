//! How anything is asked of the engine, and how answers leave it.
//!
//! An [`Operation`] says once what it brings into a commit, what it does and what it answers; `operations` declares
//! them all. The engine's thread knows them only as [`Request`]s, and their answers wait in the [`Release`] until they
//! are durable.
//!
//! [`Release`]: crate::engine::commit::release::Release

use std::ops::AddAssign;

use tokio::sync::oneshot;
use windlass_core::Time;

use crate::disk::{Disk, DiskError};
use crate::engine::Engine;
use crate::{Assignment, Claim, Error};

/// Where an answer is sent.
pub type Answer<T> = oneshot::Sender<Result<T, Error>>;

/// What a request brings into a commit; groups are bounded by both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    pub commands: usize,
    pub bytes: usize,
}

impl Cost {
    /// A change of a row or two.
    pub const SMALL: Cost = Cost { commands: 1, bytes: 256 };
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Cost) {
        self.commands += other.commands;
        self.bytes += other.bytes;
    }
}

/// One thing that can be asked of the engine.
pub trait Operation<D: Disk>: Send + 'static {
    type Answer: Send + 'static;

    fn cost(&self) -> Cost {
        Cost::SMALL
    }

    /// What the audit log calls it, and what it is about; none for what is not a change that somebody answers for.
    fn audit(&self) -> Option<(&'static str, String)> {
        None
    }

    /// Does it, or begins to. The answer is part of a release, of this group or of the one in which it ends.
    fn start(self, engine: &mut Engine<D>, answer: Answer<Self::Answer>) -> Result<(), DiskError>;
}

/// What travels to the engine's thread.
pub enum Request<D: Disk> {
    Operation(Box<dyn Call<D>>),
    /// `ticket` names the claim while it waits, so that it can be taken back.
    Claim {
        ticket: u64,
        claim: Claim,
        /// The key or the person that asks.
        caller: Option<String>,
        deadline: Time,
        answer: Answer<Vec<Assignment>>,
    },
    /// The caller of a claim has disconnected.
    Forget {
        ticket: u64,
    },
    /// Claims whose caller went away after they were made.
    GiveBack {
        assignments: Vec<Assignment>,
    },
    /// Check that the folder still exists and the database accepts writes.
    Check,
    /// Commit what there is, then stop.
    Close {
        answer: oneshot::Sender<()>,
    },
}

impl<D: Disk> Request<D> {
    /// An operation, and where its answer will be.
    pub fn new<O: Operation<D>>(operation: O) -> (Request<D>, oneshot::Receiver<Result<O::Answer, Error>>) {
        let (answer, receiver) = oneshot::channel();
        (Request::Operation(Box::new(Asked { operation, answer })), receiver)
    }

    pub fn cost(&self) -> Cost {
        match self {
            Request::Operation(call) => call.cost(),
            _ => Cost::SMALL,
        }
    }

    /// Answers that nothing was done.
    pub fn refuse(self, error: Error) {
        match self {
            Request::Operation(call) => call.refuse(error),
            Request::Claim { answer, .. } => drop(answer.send(Err(error))),
            Request::Close { answer } => drop(answer.send(())),
            Request::Forget { .. } | Request::GiveBack { .. } | Request::Check => {}
        }
    }
}

/// An operation whose type the engine's thread need not know.
pub trait Call<D: Disk>: Send {
    fn cost(&self) -> Cost;
    fn start(self: Box<Self>, engine: &mut Engine<D>) -> Result<(), DiskError>;
    fn refuse(self: Box<Self>, error: Error);
}

struct Asked<O, T> {
    operation: O,
    answer: Answer<T>,
}

impl<D: Disk, O: Operation<D>> Call<D> for Asked<O, O::Answer> {
    fn cost(&self) -> Cost {
        self.operation.cost()
    }

    fn start(self: Box<Self>, engine: &mut Engine<D>) -> Result<(), DiskError> {
        self.operation.start(engine, self.answer)
    }

    fn refuse(self: Box<Self>, error: Error) {
        // A caller that has disconnected needs no answer, here and below.
        let _ = self.answer.send(Err(error));
    }
}
