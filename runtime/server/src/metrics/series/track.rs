//! The figures of one queue or namespace: two rings of steps, in which steps without a change take no room.

use std::collections::VecDeque;
use std::time::Duration;

use windlass_core::Time;

use crate::limits;
use crate::metrics::series::{Sum, Window};

#[derive(Default)]
pub struct Track {
    fine: Ring,
    coarse: Ring,
    /// The minute that has not ended, by its number.
    minute: Option<(u64, Sum)>,
    activity: f64,
}

/// Which of the two rings answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    Fine,
    Coarse,
}

/// The steps in which something changed, oldest first. The first one may be from before the window: it says how many
/// jobs were waiting and running when the window began.
#[derive(Default)]
struct Ring(VecDeque<Point>);

struct Point {
    step: u64,
    packed: Box<[u8]>,
}

/// How much of its activity a queue is still credited with in the next step: half of it is forgotten in six minutes.
const FADING: f64 = 0.99;

impl Track {
    /// What happened in a step; each is later than the one before.
    pub fn add(&mut self, step: u64, sum: &Sum) {
        self.activity = self.activity * FADING + sum.events() as f64;
        self.fine.push(step, sum, steps_of(limits::SERIES_FINE, limits::SERIES_STEP));
        let each = steps_of(limits::SERIES_COARSE_STEP, limits::SERIES_STEP);
        let minute = step / each;
        match &mut self.minute {
            Some((number, so_far)) if *number == minute => so_far.then(sum),
            _ => {
                self.end_minute();
                self.minute = Some((minute, sum.clone()));
            }
        }
        if step % each == each - 1 {
            self.end_minute();
        }
    }

    fn end_minute(&mut self) {
        if let Some((number, ended)) = self.minute.take() {
            self.coarse.push(number, &ended, steps_of(limits::SERIES_COARSE, limits::SERIES_COARSE_STEP));
        }
    }

    /// How much happens here, of late.
    pub fn activity(&self) -> f64 {
        self.activity
    }

    #[cfg(test)]
    pub fn points(&self) -> usize {
        self.fine.0.len() + self.coarse.0.len()
    }

    /// Adds its figures to the steps of an answer.
    pub fn add_to(&self, resolution: Resolution, step: Duration, steps: &mut [(Time, Sum)]) {
        let Some((first, _)) = steps.first() else { return };
        let own = resolution.step();
        let (from, each) = (first.millis() / millis(own), steps_of(step, own));
        let ring = match resolution {
            Resolution::Fine => &self.fine,
            Resolution::Coarse => &self.coarse,
        };
        let mut points = ring.0.iter().peekable();
        let mut now = Sum::default();
        while let Some(point) = points.next_if(|point| point.step < from) {
            now = Sum::unpack(&point.packed).idle();
        }
        for (at, (_, sum)) in (0u64..).zip(steps) {
            let until = from + (at + 1) * each;
            let mut here = now.idle();
            while let Some(point) = points.next_if(|point| point.step < until) {
                here.then(&Sum::unpack(&point.packed));
            }
            sum.beside(&here);
            now = here;
        }
    }
}

impl Ring {
    fn push(&mut self, step: u64, sum: &Sum, most: u64) {
        let before = self.0.back().map(|last| Sum::unpack(&last.packed)).unwrap_or_default();
        if *sum == before.idle() {
            return;
        }
        self.0.push_back(Point { step, packed: sum.pack() });
        while self.0.get(1).is_some_and(|second| second.step + most <= step) {
            self.0.pop_front();
        }
    }
}

impl Resolution {
    pub fn of(window: Window) -> Resolution {
        let fine = window.span <= limits::SERIES_FINE && window.step < limits::SERIES_COARSE_STEP;
        if fine { Resolution::Fine } else { Resolution::Coarse }
    }

    fn step(self) -> Duration {
        match self {
            Resolution::Fine => limits::SERIES_STEP,
            Resolution::Coarse => limits::SERIES_COARSE_STEP,
        }
    }

    /// The steps of a window that have ended at `end`, without those before anything was counted.
    pub fn steps(self, window: Window, since: Time, end: Time) -> Vec<(Time, Sum)> {
        let step = millis(window.step);
        let last = end.millis() / step;
        let first = last.saturating_sub(millis(window.span) / step).max(since.millis() / step);
        (first..last).map(|number| (Time(number * step), Sum::default())).collect()
    }
}

fn steps_of(span: Duration, step: Duration) -> u64 {
    millis(span) / millis(step)
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
