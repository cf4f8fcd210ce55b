//! The children of a job, which it reads after it has waited for them: page by page, never all at once.

use std::fmt;
use std::vec;

use serde::de::DeserializeOwned;

use crate::error::{Error, Result};
use crate::server::Server;

/// What happens to a waiting job when one of its children is dead or cancelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// The job is dead at once, and its other children are cancelled.
    #[default]
    Fail,
    /// The other children are cancelled, and the job runs again when all of them have ended.
    Cancel,
    /// The job runs again when all of its children have ended, in whatever state.
    Continue,
}

/// How many children a job has had across all attempts, by the state in which they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChildCounts {
    pub total: u64,
    pub completed: u64,
    pub dead: u64,
    pub cancelled: u64,
}

/// The state of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildState {
    /// It has not ended: the job has not waited for it.
    Open,
    Completed,
    Dead,
    Cancelled,
}

impl fmt::Display for ChildState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ChildState::Open => "open",
            ChildState::Completed => "completed",
            ChildState::Dead => "dead",
            ChildState::Cancelled => "cancelled",
        })
    }
}

/// A child as the server describes it on a page.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    pub(crate) ordinal: u32,
    pub(crate) id: String,
    pub(crate) queue: String,
    pub(crate) state: ChildState,
    /// Absent when there is none, or when it is too large for a page.
    pub(crate) result: Option<Vec<u8>>,
    pub(crate) result_bytes: u64,
    pub(crate) error: Option<String>,
}

/// Some children, and where the next page begins.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) children: Vec<Listed>,
    pub(crate) next: Option<u32>,
}

/// A job that this one has started.
pub struct ChildJob {
    /// As returned by `spawn`.
    pub ordinal: u32,
    pub id: String,
    pub queue: String,
    pub state: ChildState,
    /// Its last error, if there was one.
    pub error: Option<String>,
    result: Option<Vec<u8>>,
    result_bytes: u64,
    server: Box<dyn Server>,
}

impl ChildJob {
    /// The child's result, read as JSON. For a child that did not complete, this is an error that says why.
    pub fn result<T: DeserializeOwned>(&self) -> Result<T> {
        let bytes = self.result_raw()?;
        // No result is read as null.
        serde_json::from_slice(bytes.as_deref().unwrap_or(b"null")).map_err(|error| {
            Error::fatal(format_args!("the result of child {} is not what was expected: {error}", self.ordinal))
        })
    }

    /// The bytes of the child's result, if it has one. A large result is read from the server at each call.
    pub fn result_raw(&self) -> Result<Option<Vec<u8>>> {
        if self.state != ChildState::Completed {
            let (ordinal, state) = (self.ordinal, self.state);
            let why = self.error.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
            return Err(Error::new(format_args!("child {ordinal} has no result, it is {state}{why}")));
        }
        match &self.result {
            Some(bytes) => Ok(Some(bytes.clone())),
            None if self.result_bytes > 0 => self.server.link().child_result(self.ordinal),
            None => Ok(None),
        }
    }

    /// The size of the child's result in bytes.
    pub fn result_bytes(&self) -> u64 {
        self.result_bytes
    }
}

impl fmt::Debug for ChildJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ChildJob");
        shown.field("ordinal", &self.ordinal).field("queue", &self.queue).field("state", &self.state);
        shown.finish_non_exhaustive()
    }
}

/// The children of a job in the order they were spawned. At most one page of them is in memory.
pub struct Children {
    page: vec::IntoIter<Listed>,
    next: Option<u32>,
    server: Box<dyn Server>,
}

impl Children {
    pub(crate) fn new(server: Box<dyn Server>) -> Self {
        Children { page: Vec::new().into_iter(), next: Some(0), server }
    }
}

impl Iterator for Children {
    type Item = Result<ChildJob>;

    fn next(&mut self) -> Option<Result<ChildJob>> {
        loop {
            if let Some(Listed { ordinal, id, queue, state, result, result_bytes, error }) = self.page.next() {
                let server = self.server.link();
                return Some(Ok(ChildJob { ordinal, id, queue, state, error, result, result_bytes, server }));
            }
            match self.server.children(self.next.take()?) {
                Ok(Page { children, next }) => (self.page, self.next) = (children.into_iter(), next),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl fmt::Debug for Children {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Children").field("next", &self.next).finish_non_exhaustive()
    }
}
