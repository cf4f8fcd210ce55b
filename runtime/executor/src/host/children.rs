//! `children`: waiting for the jobs that this one has started, and reading what came of them, page by page.

use bytes::Bytes;
use windlass_core::flow::OnFailure;
use windlass_core::{JobId, QueueName, State as JobState};

use crate::attempt::SavedState;
use crate::attempt::state::{Interrupted, State, Superseded};
use crate::bindings::windlass::job::{children as wit, types};
use crate::host::HostError;
use crate::limits::{CHILDREN_PAGE, CHILDREN_PAGE_BYTES};

/// One child, as its parent reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildRead {
    pub ordinal: u32,
    pub id: JobId,
    pub queue: QueueName,
    pub state: JobState,
    /// Absent when there is none, or when it is too large for a page.
    pub result: Option<Bytes>,
    pub result_bytes: u64,
    pub error: Option<String>,
}

/// What a page of children may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLimits {
    pub children: usize,
    /// Of all results together. The first child is given whatever it has.
    pub bytes: usize,
}

/// Some of the children, by their numbers, and where the next page begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChildPage {
    pub children: Vec<ChildRead>,
    pub next: Option<u32>,
}

/// A wait that the guest has asked for. It takes effect when the guest returns ok.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedWait {
    pub on_failure: OnFailure,
    /// Replaces the saved state, if there is one.
    pub state: Option<SavedState>,
}

impl wit::Host for State {
    fn joined(&mut self) -> wasmtime::Result<Option<wit::Counts>> {
        self.host_called();
        Ok(self.joined.map(|counts| wit::Counts {
            total: counts.total,
            completed: counts.completed,
            dead: counts.dead,
            cancelled: counts.cancelled,
        }))
    }

    async fn read(&mut self, start: u32, limit: u32) -> wasmtime::Result<Result<wit::Page, wit::Refusal>> {
        self.host_called();
        self.alive();
        let children = usize::try_from(limit).unwrap_or(CHILDREN_PAGE).clamp(1, CHILDREN_PAGE);
        let limits = PageLimits { children, bytes: CHILDREN_PAGE_BYTES };
        self.liveness.pause();
        let page = self.host.children(start, limits).await;
        self.alive();
        answered(page.map(|page| wit::Page {
            children: page.children.into_iter().map(wit::Child::from).collect(),
            next: page.next,
        }))
    }

    async fn result(&mut self, ordinal: u32) -> wasmtime::Result<Result<Option<Vec<u8>>, wit::Refusal>> {
        self.host_called();
        self.alive();
        self.liveness.pause();
        let result = self.host.child_result(ordinal).await;
        self.alive();
        answered(result.map(|bytes| bytes.map(|bytes| bytes.to_vec())))
    }

    fn wait(
        &mut self,
        on_failure: wit::OnFailure,
        state: Option<types::SavedState>,
    ) -> wasmtime::Result<Result<(), wit::Refusal>> {
        self.host_called();
        self.alive();
        let limit = self.limits.checkpoint_bytes;
        if state.as_ref().is_some_and(|saved| saved.state.len() > limit) {
            return Ok(Err(wit::Refusal::TooLarge(limit as u64)));
        }
        let state = state.map(|saved| SavedState { schema: saved.schema, bytes: Bytes::from(saved.state) });
        let on_failure = match on_failure {
            wit::OnFailure::Fail => OnFailure::Fail,
            wit::OnFailure::Cancel => OnFailure::Cancel,
            wit::OnFailure::Continue => OnFailure::Continue,
        };
        self.wait = Some(RequestedWait { on_failure, state });
        Ok(Ok(()))
    }
}

/// The host's answer in the types of the interface.
fn answered<T>(answer: Result<T, HostError>) -> wasmtime::Result<Result<T, wit::Refusal>> {
    match answer {
        Ok(value) => Ok(Ok(value)),
        Err(HostError::Invalid(reason)) => Ok(Err(wit::Refusal::Invalid(reason))),
        Err(HostError::Unavailable(reason)) => Ok(Err(wit::Refusal::Unavailable(reason))),
        Err(HostError::Interrupted(reason)) => Err(Interrupted(reason).into()),
        Err(HostError::Ended) => Err(Superseded.into()),
    }
}

impl From<ChildRead> for wit::Child {
    fn from(child: ChildRead) -> Self {
        wit::Child {
            ordinal: child.ordinal,
            id: child.id.to_string(),
            queue: child.queue.to_string(),
            state: match child.state {
                JobState::Completed => wit::ChildState::Completed,
                JobState::Dead => wit::ChildState::Dead,
                JobState::Cancelled => wit::ChildState::Cancelled,
                JobState::Scheduled
                | JobState::Pending
                | JobState::Active
                | JobState::Retrying
                | JobState::Held
                | JobState::Blocked => wit::ChildState::Open,
            },
            result: child.result.map(|bytes| bytes.to_vec()),
            result_bytes: child.result_bytes,
            error: child.error,
        }
    }
}
