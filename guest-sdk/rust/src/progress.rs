//! Progress events.

use crate::job::Level;

/// A progress event. `ctx.progress(current, total, message)` is the short form.
///
/// ```
/// # use windlass::Progress;
/// let progress = Progress::new("parsing").phase("import").count(20, 300).unit("rows");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    pub message: Option<String>,
    pub phase: Option<String>,
    pub level: Level,
    pub detail: Option<String>,
    pub amount: Option<Amount>,
}

/// How much of the work is done.
#[derive(Clone, Debug, PartialEq)]
pub enum Amount {
    /// From 0 to 100.
    Percent(f64),
    Count {
        current: u64,
        total: Option<u64>,
        unit: Option<String>,
        weight: Option<f64>,
    },
}

impl Progress {
    /// What is happening, in a few words.
    pub fn new(message: impl Into<String>) -> Self {
        Progress { message: Some(message.into()), ..Progress::default() }
    }

    /// The current phase of the work.
    #[must_use]
    pub fn phase(mut self, phase: impl Into<String>) -> Self {
        self.phase = Some(phase.into());
        self
    }

    /// The severity, which is `Info` unless set.
    #[must_use]
    pub fn level(mut self, level: Level) -> Self {
        self.level = level;
        self
    }

    /// Further details. By convention, JSON.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// A percentage, from 0 to 100.
    #[must_use]
    pub fn percent(mut self, percent: f64) -> Self {
        self.amount = Some(Amount::Percent(percent));
        self
    }

    /// A count: `current` of `total`, which is `None` when it is not known.
    #[must_use]
    pub fn count(mut self, current: u64, total: impl Into<Option<u64>>) -> Self {
        let total = total.into();
        self.amount = Some(match self.amount {
            Some(Amount::Count { unit, weight, .. }) => Amount::Count { current, total, unit, weight },
            _ => Amount::Count { current, total, unit: None, weight: None },
        });
        self
    }

    /// What is counted: `rows`, `bytes`.
    #[must_use]
    pub fn unit(mut self, name: impl Into<String>) -> Self {
        if let Some(Amount::Count { unit, .. }) = self.counted() {
            *unit = Some(name.into());
        }
        self
    }

    /// The weight of this phase among the job's phases.
    #[must_use]
    pub fn weight(mut self, share: f64) -> Self {
        if let Some(Amount::Count { weight, .. }) = self.counted() {
            *weight = Some(share);
        }
        self
    }

    /// Units and weights belong to a count; whichever is named first, the count is there for it.
    fn counted(&mut self) -> Option<&mut Amount> {
        if !matches!(self.amount, Some(Amount::Count { .. })) {
            self.amount = Some(Amount::Count { current: 0, total: None, unit: None, weight: None });
        }
        self.amount.as_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_the_builder_does_not_matter() {
        let one = Progress::new("go").unit("rows").weight(2.0).count(1, 9);
        let two = Progress::new("go").count(1, 9).weight(2.0).unit("rows");
        assert_eq!(one, two);
    }
}
