//! One attempt, from its place in the pool to its end.
//!
//! The guest runs in a future that yields at every tick; beside it runs the watch that ends it. Stopping a guest dead is
//! dropping that future, wherever it is: computing, asleep, or in a host call.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use wasmtime::{Engine, Store, UpdateDeadline};
use windlass_core::{Retry, Usage};

use crate::attempt::meter::{CpuMeter, Life};
use crate::attempt::outcome::{Ended, Outcome};
use crate::attempt::state::{CpuTimeUsedUp, Parts, State};
use crate::attempt::stop::{Dead, Stop};
use crate::attempt::trap;
use crate::attempt::{Attempt, CancelReason};
use crate::bindings::exports::windlass::job::run as wit;
use crate::bindings::windlass::job::types;
use crate::host::{Host, Uncommitted};
use crate::limits::{BACKTRACE_BYTES, ERROR_BYTES, Limits, TIMEOUT_GRACE, cut};
use crate::outbound::Network;
use crate::permissions::NoFolder;
use crate::plugin::Plugin;
use crate::pool::admission::{Gate, Place};
use crate::pool::epoch::Beat;
use crate::pool::instances::{Kept, Key, Live};
use crate::trouble;

/// Where attempts run. Holds nothing of the executor but what a running guest needs.
#[derive(Clone)]
pub(crate) struct Floor {
    pub(crate) engine: Engine,
    pub(crate) beat: Beat,
    pub(crate) gate: Gate,
    pub(crate) kept: Kept,
    pub(crate) network: Network,
}

type Returned = wasmtime::Result<Result<Vec<u8>, wit::Failure>>;

/// Runs one attempt to its end. `cpu` counts the processor time it uses, for the thread pool that polls it.
pub(crate) async fn run(
    floor: Floor,
    plugin: Plugin,
    attempt: Attempt,
    host: Arc<dyn Host>,
    cpu: Arc<CpuMeter>,
) -> Ended {
    let memory = attempt.limits.memory_bytes;
    let key = attempt.reuse.as_ref().map(|reuse| Key::new(plugin.version(), reuse, memory, &attempt.permissions));
    let times = attempt.reuse.as_ref().map_or(0, |reuse| reuse.times);
    let waiting = Life::begin(Instant::now());
    let entered = tokio::select! {
        entered = enter(&floor, &plugin, key.as_ref()) => entered,
        dead = Stop::new(attempt.cancel.clone(), None).watch(&waiting, None) => return never_started(dead),
    };
    let Some(entered) = entered else {
        return never_started(Dead::Cancelled(CancelReason::Shutdown));
    };
    let mut running = match Running::begin(&floor, plugin, entered, attempt, host, cpu) {
        Ok(running) => running,
        Err(missing) => return impossible(&missing),
    };
    let returned = running.drive(&floor.beat).await;
    let (ended, reusable) = running.conclude(returned);
    if let Some(key) = key
        && reusable
        && running.live.served <= times
        && !floor.gate.anyone_waits()
    {
        floor.kept.keep(key, running.live);
    }
    ended
}

/// A guest that has its instance and runs, or has just returned.
struct Running {
    plugin: Plugin,
    job: types::Job,
    live: Live,
    stop: Stop,
    life: Arc<Life>,
    cpu: Arc<CpuMeter>,
    stall_timeout: Option<Duration>,
}

impl Running {
    fn begin(
        floor: &Floor,
        plugin: Plugin,
        entered: Entered,
        attempt: Attempt,
        host: Arc<dyn Host>,
        cpu: Arc<CpuMeter>,
    ) -> Result<Running, NoFolder> {
        let began = Instant::now();
        let time_up = attempt.limits.attempt_timeout.and_then(|timeout| began.checked_add(timeout));
        let stop = Stop::new(attempt.cancel.clone(), time_up).excused_by(Arc::clone(&host));
        let life = Arc::new(Life::begin(began));
        let job = job(&attempt);
        let stall_timeout = attempt.limits.stall_timeout;
        let parts = Parts {
            host,
            limits: attempt.limits,
            stop: stop.clone(),
            life: Arc::clone(&life),
            cpu: Arc::clone(&cpu),
            permissions: attempt.permissions,
            children_committed: attempt.children_committed,
            joined: attempt.joined,
            round: attempt.round,
            sources: plugin.sources(),
            network: floor.network.clone(),
        };
        let live = live(&floor.engine, entered, parts)?;
        Ok(Running { plugin, job, live, stop, life, cpu, stall_timeout })
    }

    /// Polls the guest until it returns, or until it is stopped: then its future is dropped, wherever it is.
    async fn drive(&mut self, beat: &Beat) -> Result<Returned, Dead> {
        let mut guest = pin!(call(&self.plugin, &mut self.live, &self.job));
        let guest = poll_fn(|context| {
            let _on_cpu = beat.enter();
            self.cpu.charge(|| guest.as_mut().poll(context))
        });
        tokio::select! {
            biased;
            returned = guest => Ok(returned),
            dead = self.stop.clone().watch(&self.life, self.stall_timeout) => Err(dead),
        }
    }

    /// How the attempt ended, and whether its instance may serve another one: only after an orderly return that met no limit.
    fn conclude(&mut self, returned: Result<Returned, Dead>) -> (Ended, bool) {
        let state = self.live.store.data_mut();
        state.logbook.finish();
        let orderly = matches!(returned, Ok(Ok(_)));
        let outcome = match returned {
            Ok(returned) => returned_outcome(returned, &self.stop, state),
            Err(dead) => stopped_dead(dead, &state.limits),
        };
        let uncommitted = match outcome {
            Outcome::Completed { .. } | Outcome::Waiting(_) => {
                Uncommitted { children: state.children.take(), notes: std::mem::take(&mut state.notes) }
            }
            Outcome::Failed { .. } | Outcome::Stopped { .. } | Outcome::Interrupted { .. } | Outcome::Superseded => {
                Uncommitted::default()
            }
        };
        let usage = state.used(self.cpu.used());
        let reusable = orderly && !state.memory.refused() && self.stop.request(Instant::now()).is_none();
        (Ended { outcome, uncommitted, usage }, reusable)
    }
}

/// What an attempt begins with.
enum Entered {
    Fresh(Place),
    Kept(Live),
}

/// An instance that was kept, or a place for a new one. Idle instances make room when there is none left.
async fn enter(floor: &Floor, plugin: &Plugin, key: Option<&Key>) -> Option<Entered> {
    if let Some(live) = key.and_then(|key| floor.kept.take(key)) {
        return Some(Entered::Kept(live));
    }
    if let Some(place) = floor.gate.try_enter(plugin.version(), plugin.shares()) {
        return Some(Entered::Fresh(place));
    }
    floor.kept.clear();
    floor.gate.enter(plugin.version(), plugin.shares()).await.map(Entered::Fresh)
}

fn live(engine: &Engine, entered: Entered, parts: Parts) -> Result<Live, NoFolder> {
    let bytes_per_call = parts.limits.bytes_per_call();
    let mut live = match entered {
        Entered::Kept(mut live) => {
            live.store.data_mut().renew(parts);
            live
        }
        Entered::Fresh(place) => {
            let mut store = Store::new(engine, State::new(parts)?);
            store.limiter(|state| &mut state.memory);
            store.epoch_deadline_callback(|context| {
                let State { limits, cpu, .. } = context.data();
                if limits.cpu_time.is_some_and(|limit| cpu.used_within_poll() > limit) {
                    return Err(CpuTimeUsedUp.into());
                }
                Ok(UpdateDeadline::Yield(1))
            });
            Live { store, handler: None, served: 0, _place: place }
        }
    };
    live.served += 1;
    live.store.set_hostcall_fuel(bytes_per_call);
    live.store.set_epoch_deadline(1);
    Ok(live)
}

/// The one call of an attempt, on a fresh instance if there is none yet.
async fn call(plugin: &Plugin, live: &mut Live, job: &types::Job) -> Returned {
    let handler = match &live.handler {
        Some(handler) => handler,
        None => {
            let made = plugin.pre().instantiate_async(&mut live.store).await;
            live.handler.insert(made.map_err(trouble::of_instantiation)?)
        }
    };
    handler.windlass_job_run().call_run(&mut live.store, job).await
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
        created_at_ms: attempt.created_at_ms,
        deadline_ms: attempt
            .limits
            .attempt_timeout
            .map(|timeout| attempt.started_at_ms.saturating_add(millis(timeout))),
    }
}

/// The guest came back by itself, or trapped.
fn returned_outcome(returned: Returned, stop: &Stop, state: &mut State) -> Outcome {
    match returned {
        Ok(Ok(_)) if let Some(wait) = state.wait.take() => Outcome::Waiting(wait),
        Ok(Ok(result)) if result.len() > state.limits.result_bytes => Outcome::Failed {
            error: format!("the result has {} bytes, and the limit is {}", result.len(), state.limits.result_bytes),
            backtrace: None,
            retry: Retry::Backoff,
        },
        Ok(Ok(result)) => Outcome::Completed { result: Bytes::from(result) },
        Ok(Err(failure)) => match stop.obeyed(Instant::now()) {
            Some(reason) => Outcome::Stopped { reason, error: cut(failure.message, ERROR_BYTES), cooperative: true },
            None => explained(failed(failure), state),
        },
        Err(error) => explained(trap::outcome(&error, state), state),
    }
}

/// A failure may come of what was not granted, so it says what that was; or of what the host could not do, and then it is none.
fn explained(outcome: Outcome, state: &State) -> Outcome {
    match outcome {
        Outcome::Failed { error, .. } if let Some(trouble) = state.trouble() => {
            Outcome::Interrupted { reason: cut(format!("{trouble}; the handler then failed: {error}"), ERROR_BYTES) }
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

fn stopped_dead(dead: Dead, limits: &Limits) -> Outcome {
    let (reason, error) = match dead {
        Dead::Cancelled(CancelReason::Timeout) => {
            let timeout = limits.attempt_timeout.unwrap_or_default();
            let error = format!(
                "the attempt took longer than its timeout of {timeout:?}, and did not stop within {TIMEOUT_GRACE:?} of being asked"
            );
            (CancelReason::Timeout, error)
        }
        Dead::Cancelled(reason) => {
            (reason, format!("stopped, because {reason}; the handler did not stop by itself in time"))
        }
        Dead::Silent(stall) => {
            (CancelReason::Timeout, format!("the attempt stalled: no progress, checkpoint or log for {stall:?}"))
        }
    };
    Outcome::Stopped { reason, error, cooperative: false }
}

/// What the attempt was granted cannot be given.
fn impossible(missing: &NoFolder) -> Ended {
    let outcome = match missing.host_is_in_trouble() {
        true => Outcome::Interrupted { reason: missing.to_string() },
        false => Outcome::Failed { error: missing.to_string(), backtrace: None, retry: Retry::Backoff },
    };
    Ended { outcome, uncommitted: Uncommitted::default(), usage: Usage::default() }
}

/// Stopped while it waited for its place: no guest has run.
pub(crate) fn never_started(dead: Dead) -> Ended {
    let reason = match dead {
        Dead::Cancelled(reason) => reason,
        Dead::Silent(_) => CancelReason::Timeout,
    };
    Ended {
        outcome: Outcome::Stopped { reason, error: format!("not started, because {reason}"), cooperative: true },
        uncommitted: Uncommitted::default(),
        usage: Usage::default(),
    }
}
