//! `progress`: events for the job's watchers.

use windlass_core::Progress;

use crate::attempt::state::State;
use crate::bindings::windlass::job::progress as wit;
use crate::host::log::Level;
use crate::limits::{self, cut};

impl wit::Host for State {
    fn report(&mut self, event: wit::Event) -> wasmtime::Result<()> {
        self.host_called();
        self.alive();
        self.host.progress(bounded(event));
        Ok(())
    }
}

/// The event as the rules know it, with every text cut to its limit. The commit gives it its time.
fn bounded(event: wit::Event) -> Progress {
    let mut progress = Progress {
        phase: event.phase.map(|text| cut(text, limits::NAME_BYTES)),
        message: event.message.map(|text| cut(text, limits::MESSAGE_BYTES)),
        level: Some(Level::from(event.level).as_str().to_owned()),
        detail: event.detail.map(|text| cut(text, limits::DETAIL_BYTES)),
        ..Progress::default()
    };
    match event.amount {
        // NaN and infinities have no form in JSON.
        Some(wit::Amount::Percent(percent)) if percent.is_nan() => {}
        Some(wit::Amount::Percent(percent)) => progress.percent = Some(percent.clamp(0.0, 100.0)),
        Some(wit::Amount::Count(count)) => {
            progress.current = Some(count.current);
            progress.total = count.total;
            progress.unit = count.unit.map(|text| cut(text, limits::NAME_BYTES));
            progress.weight = count.weight.filter(|weight| weight.is_finite() && *weight >= 0.0);
        }
        None => {}
    }
    progress
}
