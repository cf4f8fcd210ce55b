//! A measured number and its goal: what `windlass-bench` prints, whichever part it measures.

/// One measured number and its goal.
#[derive(Clone, Debug)]
pub struct Figure {
    pub name: &'static str,
    pub value: f64,
    pub unit: &'static str,
    /// What it is measured against, in the same unit, if anything.
    pub limit: Option<f64>,
    /// What is compared with the goal: the value divided by the limit, or the value itself.
    pub ratio: f64,
    pub goal: Goal,
}

#[derive(Clone, Copy, Debug)]
pub enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

impl Figure {
    pub fn holds(&self) -> bool {
        match self.goal {
            Goal::AtLeast(least) => self.ratio >= least,
            Goal::AtMost(most) => self.ratio <= most,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_holds_when_it_meets_its_goal_exactly_or_better() {
        let figure = |ratio, goal| Figure { name: "f", value: 1.0, unit: "s", limit: None, ratio, goal };
        assert!(figure(0.5, Goal::AtLeast(0.5)).holds() && !figure(0.4, Goal::AtLeast(0.5)).holds());
        assert!(figure(2.0, Goal::AtMost(2.0)).holds() && !figure(2.1, Goal::AtMost(2.0)).holds());
        assert!(!figure(f64::NAN, Goal::AtMost(2.0)).holds(), "a figure without a measurement does not hold");
    }
}
