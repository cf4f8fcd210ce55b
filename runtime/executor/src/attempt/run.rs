//! One attempt, from its admission to the pool to its outcome.
//!
//! The guest runs in a future that yields at every tick; a second future watches for the moment it must stop. A guest
//! is stopped by force by dropping its future, wherever it is: computing, asleep, or in a host call.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::time::sleep;
use wasmtime::{Engine, Store, UpdateDeadline};
use windlass_core::{LimitKind, Notes, Retry, Usage};

use crate::attempt::disk_rate::DiskBudgets;
use crate::attempt::meter::{CpuMeter, Liveness};
use crate::attempt::outcome::{AttemptEnd, Outcome};
use crate::attempt::state::{CpuTimeUsedUp, Parts, State};
use crate::attempt::stop::{ForcedStop, Stop};
use crate::attempt::trap;
use crate::attempt::{Attempt, CancelReason};
use crate::bindings::exports::windlass::job::run as wit;
use crate::bindings::windlass::job::types;
use crate::host::{Host, Uncommitted};
use crate::limits::{BACKTRACE_BYTES, ERROR_BYTES, Limits, TIMEOUT_GRACE, cut};
use crate::outbound::Network;
use crate::permissions::NoFolder;
use crate::plugin::Plugin;
use crate::pool::admission::{Admission, PoolPermit};
use crate::pool::epoch::TickerHandle;
use crate::pool::instances::{IdleInstances, Instance, Key};
use crate::shortage;

/// The parts of the executor that a running guest needs.
#[derive(Clone)]
pub(crate) struct Pool {
    pub(crate) engine: Engine,
    pub(crate) ticker: TickerHandle,
    pub(crate) admission: Admission,
    pub(crate) instances: IdleInstances,
    pub(crate) network: Network,
    pub(crate) disk: DiskBudgets,
}

type Returned = wasmtime::Result<Result<Vec<u8>, wit::Failure>>;

/// Runs one attempt to its end. `cpu` counts the processor time it uses, for the thread pool that polls it.
pub(crate) async fn run(
    pool: Pool,
    plugin: Plugin,
    attempt: Attempt,
    host: Arc<dyn Host>,
    cpu: Arc<CpuMeter>,
) -> AttemptEnd {
    let memory = attempt.limits.memory_bytes;
    let key = attempt
        .reuse
        .as_ref()
        .map(|reuse| Key::new(&attempt.owner, plugin.version(), reuse, memory, &attempt.permissions));
    let times = attempt.reuse.as_ref().map_or(0, |reuse| reuse.times);
    let waiting = Liveness::begin(Instant::now());
    let entered = tokio::select! {
        entered = enter(&pool, &attempt.owner, plugin.shares(), key.as_ref()) => entered,
        forced = Stop::new(attempt.cancel.clone(), None).watch(&waiting, None) => return never_started(forced),
    };
    let Some(entered) = entered else {
        return never_started(ForcedStop::Cancelled(CancelReason::Shutdown));
    };
    let mut running = match RunningGuest::begin(&pool, plugin, entered, attempt, host, cpu) {
        Ok(running) => running,
        Err(missing) => return impossible(&missing),
    };
    let returned = running.drive(&pool.ticker).await;
    let (ended, wait, reusable) = running.conclude(returned);
    let stop = running.stop.clone();
    if let Some(key) = key
        && reusable
        && running.instance.served <= times
        && !pool.admission.anyone_waits()
    {
        pool.instances.put(key, running.instance);
    } else {
        drop(running);
    }
    if !wait.is_zero() {
        // What it writes is worth waiting for, but not while somebody waits for it to stop.
        tokio::select! {
            () = sleep(wait) => {}
            () = stop.asked() => {}
        }
    }
    ended
}

/// A guest that has its instance and runs, or has just returned.
struct RunningGuest {
    plugin: Plugin,
    job: types::Job,
    instance: Instance,
    stop: Stop,
    liveness: Arc<Liveness>,
    cpu: Arc<CpuMeter>,
    stall_timeout: Option<Duration>,
}

impl RunningGuest {
    fn begin(
        pool: &Pool,
        plugin: Plugin,
        entered: Entered,
        attempt: Attempt,
        host: Arc<dyn Host>,
        cpu: Arc<CpuMeter>,
    ) -> Result<RunningGuest, NoFolder> {
        let began = Instant::now();
        let time_up = attempt.limits.attempt_timeout.and_then(|timeout| began.checked_add(timeout));
        let stop = Stop::new(attempt.cancel.clone(), time_up).extended_by(Arc::clone(&host));
        let liveness = Arc::new(Liveness::begin(began));
        let gauge = Arc::clone(&attempt.gauge);
        gauge.begin(Arc::clone(&liveness));
        let job = job(&attempt);
        let stall_timeout = attempt.limits.stall_timeout;
        let parts = Parts {
            host,
            limits: attempt.limits,
            stop: stop.clone(),
            liveness: Arc::clone(&liveness),
            gauge: Arc::clone(&gauge),
            permissions: attempt.permissions,
            children_committed: attempt.children_committed,
            joined: attempt.joined,
            sources: plugin.sources(),
            network: pool.network.clone(),
            disk: pool.disk.of(&attempt.owner, began),
        };
        let instance = instance(&pool.engine, entered, parts)?;
        Ok(RunningGuest { plugin, job, instance, stop, liveness, cpu, stall_timeout })
    }

    /// Polls the guest until it returns, or until it is stopped: then its future is dropped, wherever it is.
    async fn drive(&mut self, ticker: &TickerHandle) -> Result<Returned, ForcedStop> {
        let mut guest = pin!(call(&self.plugin, &mut self.instance, &self.job));
        let guest = poll_fn(|context| {
            let _on_cpu = ticker.enter();
            self.cpu.charge(|| guest.as_mut().poll(context))
        });
        tokio::select! {
            biased;
            returned = guest => Ok(returned),
            forced = self.stop.clone().watch(&self.liveness, self.stall_timeout) => Err(forced),
        }
    }

    /// How the attempt ended, how long what it has written must wait, and whether its instance may serve another one:
    /// only after an orderly return that met no limit.
    fn conclude(&mut self, returned: Result<Returned, ForcedStop>) -> (AttemptEnd, Duration, bool) {
        let state = self.instance.store.data_mut();
        state.log.finish();
        let orderly = matches!(returned, Ok(Ok(_)));
        let forced = returned.as_ref().err().copied();
        let outcome = match returned {
            Ok(returned) => returned_outcome(returned, &self.stop, state),
            Err(forced) => forced_outcome(forced, &state.limits),
        };
        match (&outcome, forced) {
            (_, Some(ForcedStop::Stalled(_))) => state.gauge.hit(LimitKind::StallTimeout),
            (Outcome::Stopped { reason: CancelReason::Timeout, .. }, _) => state.gauge.hit(LimitKind::AttemptTimeout),
            _ => {}
        }
        let body = match &outcome {
            Outcome::Completed { result } => Some(result.len()),
            Outcome::Waiting(wait) => Some(wait.state.as_ref().map_or(0, |state| state.bytes.len())),
            Outcome::Failed { .. } | Outcome::Stopped { .. } | Outcome::Interrupted { .. } | Outcome::Superseded => {
                None
            }
        };
        if body.is_none() {
            // They are dropped.
            state.children.take();
            state.notes = Notes::default();
        }
        let wait = state.charge_disk(body.unwrap_or_default());
        let uncommitted = Uncommitted { children: state.children.take(), notes: std::mem::take(&mut state.notes) };
        let usage = state.used(self.cpu.used());
        let reusable = orderly && !state.memory.refused() && self.stop.request(Instant::now()).is_none();
        (AttemptEnd { outcome, uncommitted, usage }, wait, reusable)
    }
}

/// What an attempt starts with.
enum Entered {
    Fresh(PoolPermit),
    Reused(Instance),
}

/// An idle instance, or a permit for a new one. When the pool is full, idle instances are dropped.
async fn enter(pool: &Pool, owner: &Arc<str>, shares: u32, key: Option<&Key>) -> Option<Entered> {
    if let Some(instance) = key.and_then(|key| pool.instances.take(key)) {
        return Some(Entered::Reused(instance));
    }
    if let Some(permit) = pool.admission.try_enter(owner, shares) {
        return Some(Entered::Fresh(permit));
    }
    pool.instances.drop_all();
    pool.admission.enter(owner, shares).await.map(Entered::Fresh)
}

fn instance(engine: &Engine, entered: Entered, parts: Parts) -> Result<Instance, NoFolder> {
    let bytes_per_call = parts.limits.bytes_per_call();
    let mut instance = match entered {
        Entered::Reused(mut instance) => {
            instance.store.data_mut().renew(parts);
            instance
        }
        Entered::Fresh(permit) => {
            let mut store = Store::new(engine, State::new(parts)?);
            store.limiter(|state| &mut state.memory);
            store.epoch_deadline_callback(|context| {
                let State { limits, cpu, gauge, .. } = context.data();
                if limits.cpu_time.is_some_and(|limit| cpu.used_within_poll() > limit) {
                    gauge.hit(LimitKind::CpuTime);
                    return Err(CpuTimeUsedUp.into());
                }
                Ok(UpdateDeadline::Yield(1))
            });
            Instance { store, handler: None, served: 0, _permit: permit }
        }
    };
    instance.served += 1;
    instance.store.set_hostcall_fuel(bytes_per_call);
    instance.store.set_epoch_deadline(1);
    Ok(instance)
}

/// Calls the handler, after creating the instance if there is none yet.
async fn call(plugin: &Plugin, instance: &mut Instance, job: &types::Job) -> Returned {
    let handler = match &instance.handler {
        Some(handler) => handler,
        None => {
            let made = plugin.pre().instantiate_async(&mut instance.store).await;
            instance.handler.insert(made.map_err(shortage::of_instantiation)?)
        }
    };
    handler.windlass_job_run().call_run(&mut instance.store, job).await
}

fn job(attempt: &Attempt) -> types::Job {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    types::Job {
        id: attempt.job_id.clone(),
        queue: attempt.queue.clone(),
        payload: attempt.payload.to_vec(),
        attempt: attempt.attempt,
        max_attempts: attempt.max_attempts,
        checkpoint: attempt
            .checkpoint
            .as_ref()
            .map(|saved| types::SavedState { schema: saved.schema, state: saved.bytes.to_vec() }),
        tags: attempt.tags.clone(),
        scope: attempt.scope.clone(),
        round: attempt.round,
        created_at_ms: attempt.created_at_ms,
        deadline_ms: attempt
            .limits
            .attempt_timeout
            .map(|timeout| attempt.started_at_ms.saturating_add(millis(timeout))),
    }
}

/// The outcome of a guest that returned or trapped.
fn returned_outcome(returned: Returned, stop: &Stop, state: &mut State) -> Outcome {
    match returned {
        Ok(Ok(_)) if let Some(wait) = state.wait.take() => Outcome::Waiting(wait),
        Ok(Ok(result)) if result.len() > state.limits.result_bytes => {
            state.gauge.hit(LimitKind::Result);
            Outcome::Failed {
                error: format!("the result has {} bytes, and the limit is {}", result.len(), state.limits.result_bytes),
                backtrace: None,
                retry: Retry::Backoff,
            }
        }
        Ok(Ok(result)) => Outcome::Completed { result: Bytes::from(result) },
        Ok(Err(failure)) => match stop.obeyed(Instant::now()) {
            Some(reason) => Outcome::Stopped { reason, error: cut(failure.message, ERROR_BYTES), cooperative: true },
            None => explained(failed(failure), state),
        },
        Err(error) => explained(trap::outcome(&error, state), state),
    }
}

/// Adds denied capabilities to the error of a failure, since they may be its cause. If the host itself failed, the
/// attempt counts as interrupted, not failed.
fn explained(outcome: Outcome, state: &State) -> Outcome {
    match outcome {
        Outcome::Failed { error, .. } if let Some(reason) = state.host_failure() => {
            Outcome::Interrupted { reason: cut(format!("{reason}; the handler then failed: {error}"), ERROR_BYTES) }
        }
        Outcome::Failed { error, backtrace, retry } => {
            Outcome::Failed { error: state.permissions.explain(error, &state.refused()), backtrace, retry }
        }
        other @ (Outcome::Completed { .. }
        | Outcome::Waiting(_)
        | Outcome::Stopped { .. }
        | Outcome::Interrupted { .. }
        | Outcome::Superseded) => other,
    }
}

fn failed(failure: wit::Failure) -> Outcome {
    Outcome::Failed {
        error: cut(failure.message, ERROR_BYTES),
        backtrace: failure.detail.map(|detail| cut(detail, BACKTRACE_BYTES)),
        retry: match failure.retry {
            wit::Retry::Backoff => Retry::Backoff,
            wit::Retry::AfterMs(delay) => Retry::After(Duration::from_millis(delay)),
            wit::Retry::Never => Retry::Never,
        },
    }
}

fn forced_outcome(forced: ForcedStop, limits: &Limits) -> Outcome {
    let (reason, error) = match forced {
        ForcedStop::Cancelled(CancelReason::Timeout) => {
            let timeout = limits.attempt_timeout.unwrap_or_default();
            let error = format!(
                "the attempt took longer than its timeout of {timeout:?}, and did not stop within {TIMEOUT_GRACE:?} of being asked"
            );
            (CancelReason::Timeout, error)
        }
        ForcedStop::Cancelled(reason) => {
            (reason, format!("stopped, because {reason}; the handler did not stop by itself in time"))
        }
        ForcedStop::Stalled(stall) => {
            (CancelReason::Timeout, format!("the attempt stalled: no progress, checkpoint or log for {stall:?}"))
        }
    };
    Outcome::Stopped { reason, error, cooperative: false }
}

/// A granted folder cannot be opened.
fn impossible(missing: &NoFolder) -> AttemptEnd {
    let outcome = match missing.is_shortage() {
        true => Outcome::Interrupted { reason: missing.to_string() },
        false => Outcome::Failed { error: missing.to_string(), backtrace: None, retry: Retry::Backoff },
    };
    AttemptEnd { outcome, uncommitted: Uncommitted::default(), usage: Usage::default() }
}

/// The attempt was stopped while it waited for admission; no guest has run.
pub(crate) fn never_started(forced: ForcedStop) -> AttemptEnd {
    let reason = match forced {
        ForcedStop::Cancelled(reason) => reason,
        ForcedStop::Stalled(_) => CancelReason::Timeout,
    };
    AttemptEnd {
        outcome: Outcome::Stopped { reason, error: format!("not started, because {reason}"), cooperative: true },
        uncommitted: Uncommitted::default(),
        usage: Usage::default(),
    }
}
