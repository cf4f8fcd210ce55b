//! Commands about jobs that belong together: flows and batches.

pub mod batch;
pub mod flow;
