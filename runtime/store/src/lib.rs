//! The memory: what is on disk, and the one writer that changes it.
//!
//! [`Store`] is the handle that the server holds: changes go to a single-writer engine on fjall, reads to what has been
//! committed. Every change goes through `windlass_core::decide`, and nothing is answered, published or dispatched before
//! the write batch that records it has been committed.

pub mod bench;
pub mod embedded;
mod error;
pub mod limits;
mod options;
mod request;
pub mod search;
pub mod thread;

pub use embedded::Store;
pub use error::{Error, OpenError};
pub use options::{Clock, Durability, Opening, Options};
pub use request::{
    Assignment, BatchMade, By, Claim, DiskUse, Enqueued, EventBounds, EventRecord, JobList, Linked, LogLine, LogRecord,
    QueueView, RoundRow, RoundsView, Running, ScheduleChange, SecretChange, SecretRow, SweepFor, Unreadable,
    WebhookChange,
};
