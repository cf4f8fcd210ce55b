//! Looking for jobs: what can be asked, and in which order it is answered. How it is found is each backend's own matter.

mod filter;
mod order;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use windlass_core::Job;

pub use filter::{Filter, Span};
pub use order::{Cursor, Order, Place, Sort};

/// One page of what a filter finds.
#[derive(Clone, Debug)]
pub struct Search {
    pub filter: Filter,
    pub sort: Sort,
    pub order: Order,
    pub limit: usize,
    /// Where the page before ended.
    pub after: Option<Cursor>,
    /// A test of payloads that this crate knows nothing of.
    pub sieve: Option<Arc<dyn Sieve>>,
}

impl Search {
    /// The newest jobs that pass the filter.
    pub fn of(filter: Filter, limit: usize) -> Search {
        Search { filter, sort: Sort::CreatedAt, order: Order::Desc, limit, after: None, sieve: None }
    }
}

/// A page, as one moment saw it.
#[derive(Clone, Debug)]
pub struct Page {
    pub jobs: Vec<Found>,
    /// All that pass the filter; on later pages, as many as there were when the first was read.
    pub total: u64,
    /// Where the next page begins; none when this was the last.
    pub next: Option<Cursor>,
}

#[derive(Clone, Debug)]
pub struct Found {
    pub job: Job,
    /// Left out when it is a file of its own.
    pub payload: Option<Bytes>,
}

/// A test of payloads, made once for a search and used by several threads.
pub trait Sieve: Send + Sync + fmt::Debug {
    /// Only payloads that hold all of these, or a backslash, can pass. A cheap test that spares most of the dear ones.
    fn needles(&self) -> &[Vec<u8>];

    /// One for each thread.
    fn thread(&self) -> Result<Box<dyn Sift>, SieveError>;
}

pub trait Sift {
    /// Which of these payloads pass, in their order.
    fn sift(&mut self, payloads: &[Bytes]) -> Result<Vec<bool>, SieveError>;
}

/// The test itself failed: it took too long, or too much memory.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct SieveError(pub String);
