//! Jobs that belong together: dependencies, batches, children, chains and rounds.

mod linked_jobs;
mod lists;
mod rounds;
mod waiting_parents;
