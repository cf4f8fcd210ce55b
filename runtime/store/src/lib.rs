//! The memory: what is on disk, and the one writer that changes it.
//!
//! [`Store`] is the seam. The server asks it for everything; behind it stands a backend. Today that is [`embedded`]: a
//! single-writer engine on fjall. Every change goes through `windlass_core::decide`, and nothing is answered, published
//! or dispatched before the batch that records it has been committed.

pub mod bench;
pub mod embedded;
mod error;
pub mod limits;
mod request;
pub mod search;
mod store;
pub mod thread;

pub use error::{Error, OpenError};
pub use request::{
    Assignment, BatchMade, By, Claim, DiskUse, Enqueued, EventBounds, EventRecord, JobList, Linked, LogLine, LogRecord,
    QueueView, RoundRow, RoundsView, Running, ScheduleChange, SecretChange, SecretRow, SweepFor, Unreadable,
    WebhookChange,
};
pub use store::{Clock, Durability, Opening, Options, Store};
