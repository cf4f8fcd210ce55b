//! What the engine holds in memory beside the disk: each part with the invariants that it owns. All of it is read again
//! from the disk after a failed commit.

pub mod catalogue;
pub mod job_cache;
pub mod limiters;
pub mod queues;
pub mod quotas;
pub mod row_cache;
pub mod slots;
