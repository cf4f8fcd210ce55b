//! Brings jobs to their handlers: one claim of the store per free slot, one attempt per claim.
//!
//! Owns the slots and the attempts in them. Decides nothing about a job: what an attempt came to goes to the store as a
//! command, and what the store wants stopped comes back as an order.

mod attempt;
mod patience;
mod redact;
mod reporter;
mod running;

pub(crate) use redact::Redactor;

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{error, warn};
use windlass_core::{AfterStop, Effect, JobId, Token};
use windlass_executor::{Cancel, CancelReason, Executor};
use windlass_store::{Assignment, By, Claim, Error, Store};

use crate::clock::SystemClock;
use crate::registry::{Claimable, Registry};
use crate::{Shutdown, limits};
use attempt::AttemptReport;
use patience::{insist, pause_after};
use running::Running;

pub struct Dispatcher {
    floor: Arc<Floor>,
    slots: usize,
}

/// What every slot works with.
pub(crate) struct Floor {
    store: Store,
    executor: Executor,
    registry: Registry,
    clock: Arc<SystemClock>,
    running: Running,
}

impl Dispatcher {
    pub fn new(
        store: Store,
        executor: Executor,
        registry: Registry,
        clock: Arc<SystemClock>,
        slots: usize,
    ) -> Dispatcher {
        let floor = Floor { store, executor, registry, clock, running: Running::default() };
        Dispatcher { floor: Arc::new(floor), slots }
    }

    /// Works until `shutdown`, then gives the running handlers a grace and hands their jobs back.
    pub async fn run(self, orders: mpsc::UnboundedReceiver<Effect>, shutdown: Shutdown) {
        let listening = tokio::spawn(listen(Arc::clone(&self.floor), orders));
        let mut slots = JoinSet::new();
        for _ in 0..self.slots {
            self.open(&mut slots, &shutdown);
        }
        loop {
            tokio::select! {
                () = shutdown.requested() => break,
                Some(ended) = slots.join_next() => {
                    if let Err(why) = ended {
                        error!("a slot failed and is replaced; its job goes on after the next start: {why}");
                    }
                    self.open(&mut slots, &shutdown);
                }
            }
        }
        self.floor.running.stop_all(Cancel::within(CancelReason::Shutdown, limits::SHUTDOWN_GRACE));
        let drained = timeout(limits::SHUTDOWN_GRACE * 2, async { while slots.join_next().await.is_some() {} });
        if drained.await.is_err() {
            warn!("{} attempts could not be handed back; they count as cut off", slots.len());
        }
        listening.abort();
    }

    /// Slots live on the guests' threads: from the claim to its guest and on to its last word a short attempt changes none.
    fn open(&self, slots: &mut JoinSet<()>, shutdown: &Shutdown) {
        let slot = slot(Arc::clone(&self.floor), shutdown.clone());
        match self.floor.executor.threads() {
            Some(threads) => slots.spawn_on(slot, threads),
            None => slots.spawn(slot),
        };
    }
}

/// One place for one attempt at a time. The last word of an attempt and the claim of the next go to the store together: one commit
/// takes both.
async fn slot(floor: Arc<Floor>, shutdown: Shutdown) {
    let mut last: Option<AttemptReport> = None;
    let mut claimable = floor.registry.claimable();
    while !shutdown.is_requested() {
        let from = claimable.borrow_and_update().clone();
        let said = say(&floor, last.take());
        // Dropping a claim gives back what it would have got.
        let claimed = async {
            tokio::select! {
                biased;
                () = shutdown.requested() => None,
                claimed = claim(&floor, from) => Some(claimed),
                // A plugin is ready again, or no longer: something else is claimed.
                Ok(()) = claimable.changed() => Some(Ok(Vec::new())),
            }
        };
        match tokio::join!(biased; said, claimed) {
            ((), None) => return,
            ((), Some(Ok(assignments))) => {
                for assignment in assignments {
                    say(&floor, last.take()).await;
                    last = Some(attempt::run(&floor, assignment).await);
                }
            }
            ((), Some(Err(error))) => tokio::select! {
                () = shutdown.requested() => return,
                () = sleep(pause_after(&error)) => {}
            },
        }
    }
    say(&floor, last).await;
}

/// Takes a job of a plugin that is ready.
async fn claim(floor: &Floor, from: Claimable) -> Result<Vec<Assignment>, Error> {
    let queues = match from {
        Claimable::Everything => Vec::new(),
        // To name no queue would be to name them all.
        Claimable::Only(queues) if queues.is_empty() => return std::future::pending().await,
        Claimable::Only(queues) => queues,
    };
    floor.store.claim(Claim { by: By::Local, queues, count: 1, wait: limits::CLAIM_WAIT }).await
}

async fn say(floor: &Floor, last: Option<AttemptReport>) {
    if let Some(word) = last {
        word.say(floor).await;
    }
}

/// Carries the store's orders to the attempts they are about.
async fn listen(floor: Arc<Floor>, mut orders: mpsc::UnboundedReceiver<Effect>) {
    let mut stops = JoinSet::new();
    loop {
        tokio::select! {
            order = orders.recv() => match order {
                Some(Effect::Stop { job, token, why }) => {
                    stops.spawn(stop(Arc::clone(&floor), job, token, why));
                }
                None => return,
            },
            Some(_) = stops.join_next() => {}
        }
    }
}

async fn stop(floor: Arc<Floor>, job: JobId, token: Token, why: AfterStop) {
    let reason = match why {
        AfterStop::Swap => CancelReason::Swap,
        AfterStop::Hold { .. } | AfterStop::Cancel { .. } | AfterStop::Delete | AfterStop::Remove => CancelReason::User,
        AfterStop::Expire => CancelReason::Timeout,
    };
    let cancel = Cancel::within(reason, limits::CANCEL_GRACE);
    // The order can be quicker than the claim's answer: then the attempt is alive in the store and not yet here.
    while !floor.running.stop(job, token, cancel) {
        let alive = insist(|| floor.store.job(job)).await.ok().flatten();
        if alive.and_then(|found| found.run).is_none_or(|run| run.token != token) {
            return;
        }
        sleep(limits::STOP_RETRY).await;
    }
}
