//! The memory: what is on disk, and the one writer that changes it.
//!
//! [`Store`] is the handle that the server holds: changes go to a single-writer engine on fjall, reads to what has been
//! committed. Every change goes through `windlass_core::decide`, and nothing is answered, published or dispatched before
//! the write batch that records it has been committed.
//!
//! Reading order: `store` (the handle), `engine` (one group of requests, decided and committed), `claim` (who gets which job), `flow`
//! (batches, children, rounds), `disk` (what lies where, and what is done when it fails), `read` (what has been committed).

pub mod claim;
pub mod disk;
pub mod engine;
mod error;
pub mod flow;
pub mod idle_thread;
pub mod limits;
mod options;
pub mod read;
mod request;
mod retention;
pub mod search;
pub mod store;
mod timers;

pub use error::{Error, OpenError};
pub use options::{Clock, Durability, Opening, Options};
pub use request::{
    Assignment, BatchMade, By, Claim, DiskUse, Enqueued, EventBounds, EventRecord, JobList, Linked, LogLine, LogRecord,
    QueueView, RoundRow, RoundsView, Running, ScheduleChange, SecretChange, SecretRow, SweepFor, Unreadable,
    WebhookChange,
};
pub use store::Store;
