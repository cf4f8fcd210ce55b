//! Commands about what feeds and limits jobs: queues and schedules.

pub mod queue;
pub mod schedule;
