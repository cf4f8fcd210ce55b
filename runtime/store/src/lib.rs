//! The memory: what is on disk, and the one writer that changes it.
//!
//! [`Store`] is the handle that the server holds. Changes go to a single-writer engine on fjall; reads see what has
//! been committed. Every change is decided by [`windlass_core::decide`], and nothing is answered, published or
//! dispatched before the write batch that records it is durable. A job that was acknowledged is therefore there after a
//! crash:
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use windlass_core::{NewJob, State, Time};
//! use windlass_store::{By, Claim, Clock, Durability, Options, Store};
//!
//! /// The store does not read the system's clock; the server passes one in.
//! struct Noon;
//! impl Clock for Noon {
//!     fn now(&self) -> Time {
//!         Time(1_794_830_400_000)
//!     }
//! }
//!
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! let folder = tempfile::tempdir()?;
//! let options = Options { dir: folder.path().join("data"), durability: Durability::Fsync };
//!
//! let store = Store::open(options.clone(), Arc::new(Noon))?;
//! let new = NewJob { queue: Some("mail".parse()?), ..NewJob::default() };
//! let stored = store.enqueue(vec![new]).await?;
//! assert_eq!(stored[0].state, State::Pending);
//! store.close().await;
//!
//! // Another process opens the folder later: the job is still waiting, and a worker can claim it.
//! let store = Store::open(options, Arc::new(Noon))?;
//! let by = By::Worker { worker_id: "w1".into(), hostname: "build-3".into() };
//! let claim = Claim { by, queues: vec!["mail".parse()?], count: 1, wait: Duration::ZERO };
//! let claimed = store.claim(claim).await?;
//! assert_eq!(claimed[0].job.id, stored[0].id);
//! store.close().await;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Where to read on: `store` (the handle), `engine` (a group of requests, decided and committed), `claim` (who gets
//! which job), `flow` (batches, children, rounds), `disk` (what is stored where, and what happens when the disk fails),
//! `read` (views of what has been committed).

mod caller;
mod claim;
pub mod disk;
pub mod engine;
mod error;
mod flow;
pub mod idle_thread;
pub mod limits;
mod options;
pub mod read;
mod request;
mod retention;
pub mod search;
pub mod store;
mod timers;

pub use caller::Caller;
pub use disk::data_keys::{DATA_KEY_BYTES, DataKeyRow, KeyWrap};
pub use engine::requests::access::AccessChange;
pub use error::{Error, OpenError};
pub use options::{AuditRetention, Clock, Durability, Encryption, FairUse, Opening, Options};
pub use read::search::Survey;
pub use read::{AuditFilter, AuditPage, FlowCursor, FlowPage, ListedFlow};
pub use request::{
    Assignment, AttemptRow, BatchMade, By, Claim, DiskUse, EncryptedAnew, EncryptedRow, Enqueued, EventBounds,
    EventRecord, InboundChange, JobList, Linked, LocalAttempt, LogLine, LogRecord, NewCiphertext, QueueView, RoundRow,
    RoundsView, ScheduleChange, SecretChange, SecretRow, SweepFor, Unreadable, WebhookChange,
};
pub use store::Store;
