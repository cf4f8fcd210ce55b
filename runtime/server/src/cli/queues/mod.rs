//! Commands about queues and schedules.

pub mod queue;
pub mod schedule;
