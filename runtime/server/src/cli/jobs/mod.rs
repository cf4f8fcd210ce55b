//! Commands about jobs: enqueueing, showing, searching, watching, and acting on one or many.

pub mod attempt;
pub mod bulk;
pub mod count;
pub mod dead;
pub mod enqueue;
pub mod filters;
pub mod job;
pub mod job_attempts;
pub mod job_flags;
pub mod job_record;
pub mod search;
pub mod usage;
pub mod watch;
