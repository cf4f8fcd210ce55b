//! Actions on many jobs: rows that count what was done for them. They come alone in their group, so that the model
//! knows what a step found.

use std::collections::BTreeMap;

use windlass_core::{Action, Blob, Bulk, BulkId, BulkStatus, Guard, JobId, Namespace, Priority, State};
use windlass_store::engine::requests::bulk::BulkChange;

use super::answers::allowed;
use super::causes::Causes;
use super::check::Stored;
use super::commands::{Asked, Receiver, Request, queue};
use super::model::Model;
use super::world::World;

/// What was asked of an operation.
#[derive(Clone, Debug)]
pub enum BulkAsk {
    Begin { action: Action, jobs: Vec<JobId> },
    Step { id: BulkId, from: u64, jobs: Vec<JobId> },
    Cancel { id: BulkId },
    Fail { id: BulkId },
}

#[derive(Debug)]
pub struct ModelBulk {
    action: Action,
    jobs: Vec<JobId>,
    processed: u64,
    affected: u64,
    errors: u64,
    stopped: bool,
}

#[derive(Default)]
pub struct Hands {
    bulks: BTreeMap<BulkId, ModelBulk>,
}

impl World {
    pub fn bulk(&mut self) -> (Request, Asked) {
        let open: Vec<BulkId> = self.model.hands.open().collect();
        let ask = match (self.rng.below(100), self.rng.pick(&open).copied()) {
            (0..30, _) | (_, None) => self.begin_bulk(),
            (30..35, Some(id)) => BulkAsk::Cancel { id },
            (35..38, Some(id)) => BulkAsk::Fail { id },
            (_, Some(id)) => self.step_bulk(id),
        };
        let change = match ask.clone() {
            BulkAsk::Begin { action, jobs } => {
                let blob = Blob { sha256: [9; 32], len: jobs.len() as u64 * 16 };
                BulkChange::Begin { namespace: Namespace::default(), action, guard: Guard::default(), jobs: blob }
            }
            BulkAsk::Step { id, from, jobs } => BulkChange::Step { id, from, jobs },
            BulkAsk::Cancel { id } => BulkChange::Cancel { id },
            BulkAsk::Fail { id } => BulkChange::Fail { id, why: "its list is gone".into() },
        };
        let (request, answer) = Request::new(change);
        (request, Asked::Bulk { ask, answer })
    }

    fn begin_bulk(&mut self) -> BulkAsk {
        let jobs = (0..self.rng.below(7)).map(|_| self.some_job()).collect();
        let rng = &mut self.rng;
        let action = match rng.below(11) {
            0 => Action::Retry,
            1 => Action::Rebuild,
            2 => Action::Requeue,
            3 => Action::Cancel { reason: "many".into() },
            4 => Action::Move { queue: queue(rng) },
            5 => Action::ChangePriority { priority: Priority::ALL[rng.below(4) as usize] },
            6 => Action::Hold { reason: "many".into() },
            7 => Action::Approve,
            8 => Action::Reject { reason: "many".into() },
            9 => Action::RunNow,
            _ => Action::Delete,
        };
        BulkAsk::Begin { action, jobs }
    }

    /// The next jobs of its list; now and then a step that was made already.
    fn step_bulk(&mut self, id: BulkId) -> BulkAsk {
        let bulk = &self.model.hands.bulks[&id];
        let from = if self.rng.chance(10) { bulk.processed.saturating_sub(1) } else { bulk.processed };
        let count = 1 + self.rng.below(3) as usize;
        let jobs = bulk.jobs.iter().skip(from as usize).take(count).copied().collect();
        BulkAsk::Step { id, from, jobs }
    }

    pub fn check_bulk(&self, ask: &BulkAsk, mut answer: Receiver<Bulk>) {
        let told = answer.try_recv().expect("an answer").unwrap_or_else(|error| panic!("{ask:?}: {error}"));
        let model = &self.model.hands.bulks[&told.id];
        assert_eq!(
            (told.processed, told.affected, told.errors),
            (model.processed, model.affected, model.errors),
            "what was told of {ask:?} is stored"
        );
        if let BulkAsk::Step { from, .. } = ask {
            assert!(told.processed > *from || told.status.is_over(), "{ask:?} was answered with {told:?}");
        }
    }
}

impl Hands {
    pub fn open(&self) -> impl Iterator<Item = BulkId> {
        let open = |bulk: &ModelBulk| !bulk.stopped && bulk.processed < bulk.jobs.len() as u64;
        self.bulks.iter().filter(move |(_, bulk)| open(bulk)).map(|(id, _)| *id)
    }

    pub fn action(&self, id: BulkId) -> Option<&Action> {
        self.bulks.get(&id).map(|bulk| &bulk.action)
    }
}

impl Model {
    /// What was asked either happened or, when the commit failed, did not; nothing else changes these rows.
    pub fn adopt_hands(&mut self, stored: &Stored, causes: &Causes) {
        for (id, row) in &stored.bulks {
            if !self.hands.bulks.contains_key(id) {
                let Some(BulkAsk::Begin { action, jobs }) = &causes.bulk else { panic!("nobody began {row:?}") };
                let (action, jobs) = (action.clone(), jobs.clone());
                let new = ModelBulk { action, jobs, processed: 0, affected: 0, errors: 0, stopped: false };
                self.hands.bulks.insert(*id, new);
            }
            self.adopt_bulk(row, causes);
        }
        let lost = self.hands.bulks.keys().find(|id| !stored.bulks.contains_key(id));
        assert!(lost.is_none(), "{lost:?} is lost");
    }

    fn adopt_bulk(&mut self, row: &Bulk, causes: &Causes) {
        let model = &self.hands.bulks[&row.id];
        let ended = model.stopped || model.processed >= model.jobs.len() as u64;
        let mut processed = model.processed;
        let (mut could, mut must) = (0, 0);
        match &causes.bulk {
            Some(BulkAsk::Step { id, from, jobs }) if *id == row.id && !ended && *from == processed => {
                if row.processed != processed {
                    processed += jobs.len() as u64;
                }
                let command = model.action.command();
                for job in jobs.iter().filter(|_| row.processed != model.processed) {
                    let now = self.jobs.get(job).map(|job| job.state);
                    let seen: Vec<State> = self.seen.get(job).cloned().unwrap_or_else(|| now.into_iter().collect());
                    could += u64::from(seen.iter().any(|state| allowed(&command, *state)));
                    // If nothing else happened in the group, it must have been done.
                    must += u64::from(seen.len() == 1 && now.is_some_and(|now| allowed(&command, now)));
                }
            }
            _ => {}
        }
        let model = self.hands.bulks.get_mut(&row.id).expect("it was just there");
        let (affected, errors) = (row.affected - model.affected, row.errors - model.errors);
        assert!(affected + errors <= could, "{affected} affected and {errors} errors, of {could}: {row:?}");
        assert!(affected + errors >= must, "{affected} affected and {errors} errors, and {must} must be: {row:?}");
        model.processed = processed;
        model.affected = row.affected;
        model.errors = row.errors;
        if let Some(BulkAsk::Cancel { id } | BulkAsk::Fail { id }) = &causes.bulk
            && *id == row.id
        {
            model.stopped |= row.status.is_over();
        }
        assert_eq!(
            (row.total, row.processed),
            (model.jobs.len() as u64, model.processed),
            "{row:?} should be {model:?}"
        );
        let done = row.processed >= row.total;
        assert_eq!(row.status.is_over(), done || model.stopped, "{row:?} should be {model:?}");
        assert!(row.status != BulkStatus::Completed || done, "{row:?} is not done");
    }
}
