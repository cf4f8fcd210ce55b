//! One attempt, from its place in the pool to its end.
//!
//! The guest runs in a future that yields at every tick; beside it runs the watch that ends it. Stopping a guest dead is
//! dropping that future, wherever it is: computing, asleep, or in a host call.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::Semaphore;
use wasmtime::{Engine, Store, UpdateDeadline};

use crate::attempt::{Attempt, CancelReason};
use crate::bindings::exports::windlass::job::run as wit;
use crate::bindings::windlass::job::types;
use crate::capability::Grants;
use crate::ended::{Ended, Outcome, Retry, Usage};
use crate::host::Host;
use crate::limits::{BACKTRACE_BYTES, ERROR_BYTES, Limits, TIMEOUT_GRACE, cut};
use crate::meter::{CpuMeter, Life};
use crate::plugin::Plugin;
use crate::state::{CpuTimeUsedUp, Parts, State};
use crate::stop::{Dead, Stop};
use crate::ticker::Beat;
use crate::trap;

/// Where attempts run. Holds nothing of the executor but what a running guest needs.
#[derive(Clone)]
pub(crate) struct Floor {
    pub(crate) engine: Engine,
    pub(crate) beat: Beat,
    /// Shares of the instance pool. The pool answers with an error when it is exhausted, so attempts wait here instead.
    pub(crate) shares: Arc<Semaphore>,
}

type Returned = wasmtime::Result<Result<Vec<u8>, wit::Failure>>;

/// Runs one attempt to its end.
pub(crate) async fn run(floor: Floor, plugin: Plugin, attempt: Attempt, host: Arc<dyn Host>) -> Ended {
    let waiting = Stop::new(attempt.cancel.clone(), None);
    let waiting_life = Life::begin(Instant::now());
    let place = tokio::select! {
        place = Arc::clone(&floor.shares).acquire_many_owned(plugin.shares()) => place,
        dead = waiting.watch(&waiting_life, None) => return never_started(dead),
    };
    let Ok(_place) = place else {
        return never_started(Dead::Cancelled(CancelReason::Shutdown));
    };

    let began = Instant::now();
    let time_up = attempt.limits.attempt_timeout.and_then(|timeout| began.checked_add(timeout));
    let stop = Stop::new(attempt.cancel.clone(), time_up);
    let life = Arc::new(Life::begin(began));
    let cpu = Arc::new(CpuMeter::default());
    let job = job(&attempt);
    let stall_timeout = attempt.limits.stall_timeout;
    let parts = Parts {
        host,
        limits: attempt.limits,
        stop: stop.clone(),
        life: Arc::clone(&life),
        cpu: Arc::clone(&cpu),
        children_committed: attempt.children_committed,
    };
    let mut store = store(&floor.engine, State::new(parts, Grants::new(attempt.config, attempt.secrets)));

    let ended = {
        let mut guest = pin!(call(&plugin, &mut store, &job));
        let guest = poll_fn(|context| {
            let _on_cpu = floor.beat.enter();
            cpu.charge(|| guest.as_mut().poll(context))
        });
        tokio::select! {
            biased;
            returned = guest => Ok(returned),
            dead = stop.clone().watch(&life, stall_timeout) => Err(dead),
        }
    };

    store.data().logbook.finish();
    let outcome = match ended {
        Ok(returned) => returned_outcome(returned, &stop, store.data()),
        Err(dead) => stopped_dead(dead, &store.data().limits),
    };
    let state = store.data_mut();
    let children = match outcome {
        Outcome::Completed { .. } => state.children.take(),
        Outcome::Failed { .. } | Outcome::Stopped { .. } | Outcome::Superseded => Vec::new(),
    };
    let usage = Usage {
        cpu: cpu.used(),
        wall: began.elapsed(),
        peak_memory: state.memory.peak() as u64,
        host_calls: state.host_calls,
        log_bytes: state.logbook.written(),
    };
    Ended { outcome, children, usage }
}

/// A fresh instance, and its one call.
async fn call(plugin: &Plugin, store: &mut Store<State>, job: &types::Job) -> Returned {
    let handler = plugin.pre().instantiate_async(&mut *store).await?;
    handler.windlass_job_run().call_run(&mut *store, job).await
}

fn store(engine: &Engine, state: State) -> Store<State> {
    let cpu_time = state.limits.cpu_time;
    let bytes_per_call = state.limits.bytes_per_call();
    let mut store = Store::new(engine, state);
    store.limiter(|state| &mut state.memory);
    store.set_hostcall_fuel(bytes_per_call);
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(move |context| {
        if cpu_time.is_some_and(|limit| context.data().cpu.used_within_poll() > limit) {
            return Err(CpuTimeUsedUp.into());
        }
        Ok(UpdateDeadline::Yield(1))
    });
    store
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
fn returned_outcome(returned: Returned, stop: &Stop, state: &State) -> Outcome {
    match returned {
        Ok(Ok(result)) if result.len() > state.limits.result_bytes => Outcome::Failed {
            error: format!("the result has {} bytes, and the limit is {}", result.len(), state.limits.result_bytes),
            backtrace: None,
            retry: Retry::Backoff,
        },
        Ok(Ok(result)) => Outcome::Completed { result: Bytes::from(result) },
        Ok(Err(failure)) => match stop.obeyed(Instant::now()) {
            Some(reason) => Outcome::Stopped { reason, error: cut(failure.message, ERROR_BYTES), cooperative: true },
            None => failed(failure),
        },
        Err(error) => trap::outcome(&error, state),
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

/// Stopped while it waited for its place: no guest has run.
pub(crate) fn never_started(dead: Dead) -> Ended {
    let reason = match dead {
        Dead::Cancelled(reason) => reason,
        Dead::Silent(_) => CancelReason::Timeout,
    };
    Ended {
        outcome: Outcome::Stopped { reason, error: format!("not started, because {reason}"), cooperative: true },
        children: Vec::new(),
        usage: Usage::default(),
    }
}
