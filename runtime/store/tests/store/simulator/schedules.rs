//! No run of a schedule is lost without a trace: each instant that passed has a job, or is among the skipped ones.

use windlass_core::schedule::Schedule;
use windlass_core::{JobId, Time, bounds};

use super::causes::Causes;
use super::check::Stored;
use super::model::Model;

impl Model {
    /// Holds the schedules on disk against those before this group, and takes them over.
    pub fn adopt_schedules(&mut self, stored: &Stored, causes: &Causes) {
        for schedule in &stored.schedules {
            let changed = causes.changed_schedule.as_ref() == Some(&schedule.name);
            let before = self.schedules.get(&schedule.name);
            if let Some(before) = before.filter(|_| !changed && self.blurred != self.group) {
                self.check_instants(before, schedule);
            }
        }
        self.schedules = stored.schedules.iter().map(|one| (one.name.clone(), one.clone())).collect();
        assert!(
            self.told.schedules().iter().eq(self.schedules.keys()),
            "events tell of other schedules than there are"
        );
    }

    fn check_instants(&self, before: &Schedule, now: &Schedule) {
        let (Some(from), Some(to)) = (before.next_run, now.next_run) else { return };
        let mut passed = Vec::new();
        let mut instant = from;
        while instant < to {
            passed.push(instant);
            instant = before.next_after(instant).expect("a good cron").expect("there is always a next one");
        }
        // More than these are not counted.
        if passed.len() > bounds::MISSED_RUNS {
            return;
        }
        let has_run = |instant: &&Time| self.instants.contains(&JobId::of_schedule(&now.name, **instant));
        let (ran, skipped) = (passed.iter().filter(has_run).count(), now.skipped.total - before.skipped.total);
        assert_eq!(
            ran as u64 + skipped,
            passed.len() as u64,
            "runs are lost without a trace: {before:?} became {now:?}"
        );
        let noted: u64 = now.skipped.latest.iter().filter(|one| one.last >= from).map(|one| one.count).sum();
        assert!(noted >= skipped, "{skipped} runs were skipped, and these are noted: {:?}", now.skipped);
    }
}
