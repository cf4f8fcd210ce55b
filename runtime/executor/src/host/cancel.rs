//! `cancel`: whether this attempt should stop, and how long it has.

use std::time::Instant;

use crate::attempt::CancelReason;
use crate::attempt::state::State;
use crate::bindings::windlass::job::cancel as wit;

impl wit::Host for State {
    fn cancelled(&mut self) -> wasmtime::Result<Option<wit::Request>> {
        self.host_called();
        let now = Instant::now();
        Ok(self.stop.ask(now).map(|request| wit::Request {
            reason: request.reason.into(),
            time_left_ms: request.deadline.saturating_duration_since(now).as_millis().try_into().unwrap_or(u64::MAX),
        }))
    }
}

impl From<CancelReason> for wit::Reason {
    fn from(reason: CancelReason) -> Self {
        match reason {
            CancelReason::User => wit::Reason::User,
            CancelReason::Timeout => wit::Reason::Timeout,
            CancelReason::Shutdown => wit::Reason::Shutdown,
            CancelReason::Swap => wit::Reason::Swap,
        }
    }
}
