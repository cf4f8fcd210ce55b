//! What leaves no event: settings, priorities and tokens are read from the records, and must be what somebody asked
//! for.

use windlass_core::plugin::grant::effective;
use windlass_core::{AfterStop, Name, Plugin, Run, Runner, Time};

use super::causes::Causes;
use super::check::Stored;
use super::model::{Model, ModelQueue};

impl Model {
    /// A pause begins and ends when somebody asks for it, and outlasts everything else.
    pub fn adopt_pause(&mut self, stored: &Stored, causes: &Causes, now: Time) {
        let was = std::mem::replace(&mut self.paused, stored.paused);
        if was.is_some() != self.paused.is_some() {
            let asked = causes.paused == Some(self.paused.is_some());
            assert!(asked, "nobody asked for it: paused since {was:?}, and then {:?}", self.paused);
        }
        if was.is_some() && self.paused.is_none() {
            self.alive_from = now;
        }
        assert!(was.is_none() || self.paused.is_none_or(|since| Some(since) == was), "a pause goes on as it began");
        self.still = was.is_some() && self.paused.is_some();
    }

    /// Settings leave no event: what is on disk must be what was, or what was asked for.
    pub fn adopt_settings(&mut self, stored: &Stored, causes: &Causes) {
        for row in stored.queues.values() {
            let queue = self.queues.entry(row.name.clone()).or_default();
            if queue.id != row.id {
                let removed = queue.id == 0 || self.clearing.contains(&row.name);
                assert!(removed, "{} is another queue of that name, and nobody removed the first", row.name);
                *queue = ModelQueue { id: row.id, ..ModelQueue::default() };
            }
            if row.settings == queue.settings {
                continue;
            }
            let asked =
                causes.configured.as_ref().is_some_and(|(name, wanted)| *name == row.name && *wanted == row.settings);
            let mut as_before = row.settings.clone();
            as_before.paused = queue.settings.paused;
            let going = as_before == queue.settings && self.clearing.contains(&row.name);
            assert!(asked || going, "nobody set {row:?}; it was {:?}", queue.settings);
            if row.settings.rate != queue.settings.rate {
                queue.starts.counted.clear();
            }
            if row.settings.key_rate != queue.settings.key_rate {
                queue.by_key.values_mut().for_each(|starts| starts.counted.clear());
            }
            queue.before = Some(std::mem::replace(&mut queue.settings, row.settings.clone()));
        }
        let clearing = &self.clearing;
        self.queues.retain(|name, _| {
            let there = stored.queues.contains_key(name.as_str());
            assert!(there || clearing.contains(name), "the queue {name} is gone, and nobody removed it");
            there
        });
    }

    /// Plugins are what is on disk; what each may run at once follows from both sides.
    pub fn adopt_plugins(&mut self, stored: &Stored) {
        let ceiling = |plugin: &Plugin| {
            let granted = stored.grants.get(&plugin.name).cloned().unwrap_or_default();
            effective(&plugin.active_version()?.manifest, &granted).0.limits.concurrency
        };
        self.plugins = stored.plugins.iter().map(|plugin| (plugin.name.clone(), plugin.clone())).collect();
        let now = stored.plugins.iter().filter_map(|plugin| Some((plugin.name.clone(), ceiling(plugin)?))).collect();
        self.ceilings_before = std::mem::replace(&mut self.ceilings, now);
        let serving =
            stored.plugins.iter().filter(|plugin| plugin.active.is_some() && !plugin.queues.is_empty()).count();
        self.serving_before = std::mem::replace(&mut self.serving, serving);
    }

    /// A changed priority leaves no event, and a token is nobody's but its holder's: both are read from the record.
    pub fn adopt_silent(&mut self, stored: &Stored, causes: &Causes) {
        let mut again = Vec::new();
        for (id, job) in &mut self.jobs {
            let Some(stored) = stored.jobs.get(id) else { continue };
            if stored.priority != job.priority && causes.reordered(*id) {
                job.priority = stored.priority;
                again.push(*id);
            } else if causes.reprioritised(*id) > 1 {
                // There and back again within one group: whether it has a new place in line, nobody can tell.
                job.vague = true;
            }
            if let Some(run) = &stored.run {
                let same = job.token.is_none_or(|token| token == run.token);
                assert!(same, "another attempt lives: {stored:?} should be {job:?}");
                job.token = Some(run.token);
                job.local = run.runner.is_local();
                job.plugin = local_plugin(run);
                job.swapping =
                    run.swap_by.is_some() || run.stop.as_ref().is_some_and(|stop| stop.then == AfterStop::Swap);
            }
            assert!(stored.children >= job.children, "children are never forgotten: {stored:?}");
            job.children = stored.children;
            job.removing = stored.removing();
        }
        for id in again {
            self.place_again(id);
            self.jobs.get_mut(&id).expect("it is there").loose = true;
        }
    }
}

/// The plugin of an attempt in this process.
pub fn local_plugin(run: &Run) -> Option<Name> {
    match &run.runner {
        Runner::Local { plugin, .. } => Some(plugin.clone()),
        Runner::External { .. } => None,
    }
}
