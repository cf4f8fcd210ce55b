//! Runs jobs: each free slot claims one job from the store and runs one attempt of it.
//!
//! Owns the slots and the attempts in them. Decides nothing about a job: it sends each attempt's outcome to the store
//! as a command, and receives the attempts to stop as effects.

mod attempt;
mod redact;
mod reporter;
mod running;
mod store_wait;

pub(crate) use redact::Redactor;
pub use running::{RunningAttempt, RunningAttempts};

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{error, warn};
use windlass_core::{AfterStop, Effect, JobId, Token};
use windlass_executor::{Cancel, CancelReason, Executor};
use windlass_store::{Assignment, By, Claim, Error, Store};

use crate::clock::SystemClock;
use crate::metrics::PluginFigures;
use crate::registry::{Claimable, Registry};
use crate::{Shutdown, limits};
use attempt::AttemptReport;
use store_wait::{pause_after, retry_until_answered};

pub struct Dispatcher {
    context: Arc<SlotContext>,
    slots: usize,
}

/// What all slots share.
pub(crate) struct SlotContext {
    store: Store,
    executor: Executor,
    registry: Registry,
    clock: Arc<SystemClock>,
    running: RunningAttempts,
    figures: PluginFigures,
}

impl Dispatcher {
    pub fn new(
        store: Store,
        executor: Executor,
        registry: Registry,
        clock: Arc<SystemClock>,
        (slots, running, figures): (usize, RunningAttempts, PluginFigures),
    ) -> Dispatcher {
        let context = SlotContext { store, executor, registry, clock, running, figures };
        Dispatcher { context: Arc::new(context), slots }
    }

    /// Runs until `shutdown`, then gives the running handlers a grace period and hands their jobs back.
    pub async fn run(self, orders: mpsc::UnboundedReceiver<Effect>, shutdown: Shutdown) {
        let listening = tokio::spawn(listen(Arc::clone(&self.context), orders));
        let mut slots = JoinSet::new();
        for _ in 0..self.slots {
            self.open(&mut slots, &shutdown);
        }
        loop {
            tokio::select! {
                () = shutdown.requested() => break,
                Some(ended) = slots.join_next() => {
                    if let Err(why) = ended {
                        error!("a slot failed and is replaced; its job resumes after the server's next start: {why}");
                    }
                    self.open(&mut slots, &shutdown);
                }
            }
        }
        self.context.running.stop_all(Cancel::within(CancelReason::Shutdown, limits::SHUTDOWN_GRACE));
        let drained = timeout(limits::SHUTDOWN_GRACE * 2, async { while slots.join_next().await.is_some() {} });
        if drained.await.is_err() {
            warn!("{} attempts could not be handed back in time; they count as crashes", slots.len());
        }
        listening.abort();
    }

    /// Slots run on the guests' threads, so that a short attempt needs no thread switch between its claim and its
    /// report.
    fn open(&self, slots: &mut JoinSet<()>, shutdown: &Shutdown) {
        let slot = slot(Arc::clone(&self.context), shutdown.clone());
        match self.context.executor.threads() {
            Some(threads) => slots.spawn_on(slot, threads),
            None => slots.spawn(slot),
        };
    }
}

/// Runs one attempt at a time. The report of an attempt and the claim of the next job are sent to the store together,
/// so that one commit covers both.
async fn slot(context: Arc<SlotContext>, shutdown: Shutdown) {
    let mut last: Option<AttemptReport> = None;
    let mut claimable = context.registry.claimable();
    while !shutdown.is_requested() {
        let from = claimable.borrow_and_update().clone();
        let sent = send(&context, last.take());
        // Dropping a claim releases the job it would have received.
        let claimed = async {
            tokio::select! {
                biased;
                () = shutdown.requested() => None,
                claimed = claim(&context, from) => Some(claimed),
                // A plugin became ready or stopped being ready, so a different set of queues is claimed.
                Ok(()) = claimable.changed() => Some(Ok(Vec::new())),
            }
        };
        match tokio::join!(biased; sent, claimed) {
            ((), None) => return,
            ((), Some(Ok(assignments))) => {
                for assignment in assignments {
                    send(&context, last.take()).await;
                    last = Some(attempt::run(&context, assignment).await);
                }
            }
            ((), Some(Err(error))) => tokio::select! {
                () = shutdown.requested() => return,
                () = sleep(pause_after(&error)) => {}
            },
        }
    }
    send(&context, last).await;
}

/// Claims a job of a plugin that is ready.
async fn claim(context: &SlotContext, from: Claimable) -> Result<Vec<Assignment>, Error> {
    let queues = match from {
        Claimable::Everything => Vec::new(),
        // An empty list would mean every queue.
        Claimable::Only(queues) if queues.is_empty() => return std::future::pending().await,
        Claimable::Only(queues) => queues,
    };
    context.store.claim(Claim { by: By::Local, queues, count: 1, wait: limits::CLAIM_WAIT }).await
}

async fn send(context: &SlotContext, last: Option<AttemptReport>) {
    if let Some(report) = last {
        report.send(context).await;
    }
}

/// Passes the store's requests to stop on to the attempts concerned.
async fn listen(context: Arc<SlotContext>, mut orders: mpsc::UnboundedReceiver<Effect>) {
    let mut stops = JoinSet::new();
    loop {
        tokio::select! {
            order = orders.recv() => match order {
                Some(Effect::Stop { job, token, why, grace }) => {
                    let grace = grace.unwrap_or(limits::CANCEL_GRACE);
                    stops.spawn(stop(Arc::clone(&context), job, token, why, grace));
                }
                None => return,
            },
            Some(_) = stops.join_next() => {}
        }
    }
}

async fn stop(context: Arc<SlotContext>, job: JobId, token: Token, why: AfterStop, grace: Duration) {
    let reason = match why {
        AfterStop::Swap => CancelReason::Swap,
        AfterStop::Hold { .. } | AfterStop::Cancel { .. } | AfterStop::Delete | AfterStop::Remove => CancelReason::User,
        AfterStop::Expire => CancelReason::Timeout,
    };
    let cancel = Cancel::within(reason, grace);
    // The request can overtake the response to the claim: then the attempt exists in the store and not yet here.
    while !context.running.stop(job, token, cancel) {
        let stored = retry_until_answered(|| context.store.job(job)).await.ok().flatten();
        if stored.and_then(|found| found.run).is_none_or(|run| run.token != token) {
            return;
        }
        sleep(limits::STOP_RETRY).await;
    }
}
