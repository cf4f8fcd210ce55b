//! Looking for jobs: what can be asked, and in which order it is answered. How it is found is each backend's own
//! matter.

mod filter;
mod group;
mod order;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use windlass_core::Job;

use crate::Unreadable;

pub use filter::{Filter, Span};
pub use group::{Counted, GroupBy};
pub use order::{Cursor, Order, Sort, SortKey};

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
    pub payload_filter: Option<Arc<dyn PayloadFilter>>,
    /// How much of the payloads of those that are found is read with them.
    pub payload: PayloadPart,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PayloadPart {
    None,
    /// All of it, unless it is a file of its own.
    #[default]
    Small,
    /// So many of its first bytes, wherever it is.
    Head(usize),
}

impl Search {
    /// The newest jobs that pass the filter.
    pub fn of(filter: Filter, limit: usize) -> Search {
        let (sort, order, payload) = (Sort::CreatedAt, Order::Desc, PayloadPart::default());
        Search { filter, sort, order, limit, after: None, payload_filter: None, payload }
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
    /// Jobs that could not be read: whether they pass the filter is not known.
    pub unreadable: Unreadable,
}

#[derive(Clone, Debug)]
pub struct Found {
    pub job: Job,
    /// As much of it as was asked for.
    pub payload: Option<Bytes>,
}

/// A test of payloads, made once for a search and used by several threads.
pub trait PayloadFilter: Send + Sync + fmt::Debug {
    /// Only payloads that hold all of these, or a backslash, can pass. A cheap test that spares most of the dear ones.
    fn needles(&self) -> &[Vec<u8>];

    /// One for each thread.
    fn thread(&self) -> Result<Box<dyn PayloadTest>, PayloadFilterError>;
}

pub trait PayloadTest {
    /// Which of these payloads pass, in their order.
    fn sift(&mut self, payloads: &Payloads) -> Result<Vec<bool>, PayloadFilterError>;
}

/// Payloads one behind the other in one piece of memory, so that very many small ones cost neither an allocation nor a
/// write each.
#[derive(Clone, Debug, Default)]
pub struct Payloads {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl Payloads {
    /// False when it does not fit.
    #[must_use]
    pub fn push(&mut self, payload: &[u8]) -> bool {
        let Ok(end) = u32::try_from(self.bytes.len() + payload.len()) else { return false };
        self.bytes.extend_from_slice(payload);
        self.ends.push(end);
        true
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// All of them, and where each ends.
    pub fn parts(&self) -> (&[u8], &[u32]) {
        (&self.bytes, &self.ends)
    }

    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(from, until)| &self.bytes[from as usize..*until as usize])
    }
}

/// The test itself failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PayloadFilterError {
    /// It is wrong, or took too long or too much memory: whoever wrote it can change it.
    #[error("{0}")]
    Filter(String),
    /// This machine could not run it: no process, descriptor or memory was left.
    #[error("{0}")]
    Host(String),
}
