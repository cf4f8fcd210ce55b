//! `progress`: events for the job's watchers.

use crate::attempt::state::State;
use crate::bindings::windlass::job::progress as wit;
use crate::host::log::Level;
use crate::limits::{self, cut};

/// One progress event.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    pub phase: Option<String>,
    pub message: Option<String>,
    pub level: Level,
    pub detail: Option<String>,
    pub amount: Option<Amount>,
}

/// How far the work has come.
#[derive(Clone, Debug, PartialEq)]
pub enum Amount {
    /// From 0 to 100.
    Percent(f64),
    Count {
        current: u64,
        total: Option<u64>,
        unit: Option<String>,
        /// Finite and not negative.
        weight: Option<f64>,
    },
}

impl wit::Host for State {
    fn report(&mut self, event: wit::Event) -> wasmtime::Result<()> {
        self.host_called();
        self.alive();
        self.host.progress(event.into());
        Ok(())
    }
}

impl From<wit::Event> for Progress {
    fn from(event: wit::Event) -> Self {
        Progress {
            phase: event.phase.map(|text| cut(text, limits::NAME_BYTES)),
            message: event.message.map(|text| cut(text, limits::MESSAGE_BYTES)),
            level: event.level.into(),
            detail: event.detail.map(|text| cut(text, limits::DETAIL_BYTES)),
            amount: event.amount.and_then(amount),
        }
    }
}

/// A number that is no number says nothing, and must not reach JSON.
fn amount(amount: wit::Amount) -> Option<Amount> {
    match amount {
        wit::Amount::Percent(percent) if percent.is_nan() => None,
        wit::Amount::Percent(percent) => Some(Amount::Percent(percent.clamp(0.0, 100.0))),
        wit::Amount::Count(count) => Some(Amount::Count {
            current: count.current,
            total: count.total,
            unit: count.unit.map(|text| cut(text, limits::NAME_BYTES)),
            weight: count.weight.filter(|weight| weight.is_finite() && *weight >= 0.0),
        }),
    }
}
