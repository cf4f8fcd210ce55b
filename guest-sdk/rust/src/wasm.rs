//! The component side: bindings generated from `wit/`, and a `Server` that calls them.

use std::panic;
use std::time::Duration;

use crate::child::{Child, Priority};
use crate::children::{ChildCounts, ChildState, Listed, OnFailure, Page};
use crate::context::{Context, Saved};
use crate::error::{Error, Next, Result};
use crate::job::{Cancel, Job, Level, Reason, Recorded};
use crate::progress::{Amount, Progress};
use crate::server::Server;

/// Generated code is not held to our lints.
#[allow(unsafe_code, clippy::all, missing_docs)]
pub mod bindings {
    wit_bindgen::generate!({
        path: "../wit",
        world: "handler-http",
        generate_all,
        pub_export_macro: true,
        default_bindings_module: "::windlass::wasm::bindings",
    });
}

use bindings::exports::windlass::job::run::Retry;
pub use bindings::exports::windlass::job::run::{Failure, Guest};
pub use bindings::windlass::job::types::Job as WitJob;
use bindings::windlass::job::{cancel, checkpoint, children, config, log, progress, records, secrets, spawn, types};

/// Exports `run` with the given dispatch function.
#[doc(hidden)]
#[macro_export]
macro_rules! __component {
    ($dispatch:path) => {
        struct WindlassComponent;

        impl $crate::wasm::Guest for WindlassComponent {
            fn run(job: $crate::wasm::WitJob) -> ::std::result::Result<Vec<u8>, $crate::wasm::Failure> {
                $crate::wasm::attempt(job, $dispatch)
            }
        }

        $crate::wasm::bindings::export!(WindlassComponent with_types_in $crate::wasm::bindings);
    };
}

/// Runs one attempt.
pub fn attempt(job: WitJob, dispatch: fn(&mut Context) -> Result<Vec<u8>>) -> Result<Vec<u8>, Failure> {
    // A panic ends in a trap, which carries no message. So the message is logged first, and the server adds it to the
    // error.
    panic::set_hook(Box::new(|panic| log::write(types::Level::Error, &panic.to_string())));
    let saved = job.checkpoint.map(|saved| Saved { schema: saved.schema, state: saved.state });
    let job = Job {
        id: job.id,
        queue: job.queue,
        payload: job.payload,
        attempt: job.attempt,
        max_attempts: job.max_attempts,
        tags: job.tags,
        scope: job.scope,
        round: job.round,
        created_at_ms: job.created_at_ms,
        deadline_ms: job.deadline_ms,
    };
    let mut ctx = Context::new(job, saved, Box::new(Imports));
    match dispatch(&mut ctx) {
        // The server knows that the job waits, and ignores its result.
        Err(error) if error.is_waiting() => Ok(Vec::new()),
        answer => answer.map_err(failure),
    }
}

fn failure(error: Error) -> Failure {
    let (message, detail, next) = error.into_parts();
    let retry = match next {
        // The server knows that it asked, and why; to it this is no failure.
        Next::Retry | Next::Cancelled(_) | Next::Waiting => Retry::Backoff,
        Next::RetryAfter(delay) => Retry::AfterMs(millis(delay)),
        Next::Never => Retry::Never,
    };
    Failure { message, detail, retry }
}

fn millis(time: Duration) -> u64 {
    time.as_millis().try_into().unwrap_or(u64::MAX)
}

/// The real server, behind the imports.
struct Imports;

impl Server for Imports {
    fn progress(&mut self, event: Progress) {
        progress::report(&progress::Event {
            phase: event.phase,
            message: event.message,
            level: level(event.level),
            detail: event.detail,
            amount: event.amount.map(|amount| match amount {
                Amount::Percent(percent) => progress::Amount::Percent(percent),
                Amount::Count { current, total, unit, weight } => {
                    progress::Amount::Count(progress::Count { current, total, unit, weight })
                }
            }),
        });
    }

    fn checkpoint(&mut self, schema: u32, state: Vec<u8>) -> Result<()> {
        checkpoint::save(schema, &state).map_err(|refusal| match refusal {
            checkpoint::Refusal::TooLarge(limit) => {
                Error::fatal(format_args!("the state has {} bytes, and a checkpoint may have {limit}", state.len()))
            }
            checkpoint::Refusal::Unavailable(reason) => {
                Error::new(format_args!("the checkpoint was not saved: {reason}"))
            }
        })
    }

    fn cancelled(&mut self) -> Option<Cancel> {
        cancel::cancelled().map(|request| Cancel {
            reason: match request.reason {
                cancel::Reason::User => Reason::User,
                cancel::Reason::Timeout => Reason::Timeout,
                cancel::Reason::Shutdown => Reason::Shutdown,
                cancel::Reason::Swap => Reason::Swap,
            },
            time_left: Duration::from_millis(request.time_left_ms),
        })
    }

    fn log(&mut self, severity: Level, message: &str) {
        log::write(level(severity), message);
    }

    fn spawn(&mut self, child: Child) -> Result<u32> {
        let child = spawn::Child {
            queue: child.queue,
            payload: child.payload,
            priority: child.priority.map(|priority| match priority {
                Priority::Critical => spawn::Priority::Critical,
                Priority::High => spawn::Priority::High,
                Priority::Normal => spawn::Priority::Normal,
                Priority::Low => spawn::Priority::Low,
            }),
            delay_ms: child.delay.map(millis),
            max_attempts: child.max_attempts,
            unique_key: child.unique_key,
            unique_period_ms: child.unique_period.map(millis),
            tags: child.tags,
            scope: child.scope,
        };
        spawn::start(&child).map_err(|refusal| match refusal {
            spawn::Refusal::TooMany(limit) => {
                Error::fatal(format_args!("more than {limit} children wait for a checkpoint; save one in between"))
            }
            spawn::Refusal::TooLarge(limit) => Error::fatal(format_args!(
                "the children that wait for a checkpoint have more than {limit} bytes; save one in between"
            )),
            spawn::Refusal::Invalid(reason) | spawn::Refusal::Denied(reason) => Error::fatal(reason),
        })
    }

    fn joined(&mut self) -> Option<ChildCounts> {
        children::joined().map(|counts| ChildCounts {
            total: counts.total,
            completed: counts.completed,
            dead: counts.dead,
            cancelled: counts.cancelled,
        })
    }

    fn children(&mut self, start: u32) -> Result<Page> {
        let page = children::read(start, u32::MAX).map_err(not_read)?;
        Ok(Page { children: page.children.into_iter().map(listed).collect(), next: page.next })
    }

    fn child_result(&mut self, ordinal: u32) -> Result<Option<Vec<u8>>> {
        children::result(ordinal).map_err(not_read)
    }

    fn wait(&mut self, on_failure: OnFailure, state: Option<(u32, Vec<u8>)>) -> Result<()> {
        let on_failure = match on_failure {
            OnFailure::Fail => children::OnFailure::Fail,
            OnFailure::Cancel => children::OnFailure::Cancel,
            OnFailure::Continue => children::OnFailure::Continue,
        };
        let state = state.map(|(schema, state)| types::SavedState { schema, state });
        let bytes = state.as_ref().map_or(0, |saved| saved.state.len());
        children::wait(on_failure, state.as_ref()).map_err(|refusal| match refusal {
            children::Refusal::TooLarge(limit) => {
                Error::fatal(format_args!("the state has {bytes} bytes, and a checkpoint may have {limit}"))
            }
            other => not_read(other),
        })
    }

    fn put_record(&mut self, key: &str, value: Vec<u8>) -> Result<()> {
        records::put(key, &value).map_err(not_recorded)
    }

    fn get_record(&mut self, queue: &str, key: &str) -> Result<Option<Recorded<Vec<u8>>>> {
        let found = records::get(queue, key).map_err(not_recorded)?;
        Ok(found.map(|entry| Recorded { value: entry.value, mark: entry.mark }))
    }

    fn mark(&mut self, queue: &str, key: &str, mark: Option<&str>) -> Result<()> {
        records::mark(queue, key, mark).map_err(not_recorded)
    }

    fn config(&mut self, name: &str) -> Option<String> {
        config::get(name)
    }

    fn secret(&mut self, name: &str) -> Result<String> {
        secrets::get(name).map_err(|refusal| match refusal {
            secrets::Refusal::Denied(how) | secrets::Refusal::Missing(how) => Error::fatal(how),
        })
    }

    fn link(&self) -> Box<dyn Server> {
        Box::new(Imports)
    }
}

fn listed(child: children::Child) -> Listed {
    Listed {
        ordinal: child.ordinal,
        id: child.id,
        queue: child.queue,
        state: match child.state {
            children::ChildState::Open => ChildState::Open,
            children::ChildState::Completed => ChildState::Completed,
            children::ChildState::Dead => ChildState::Dead,
            children::ChildState::Cancelled => ChildState::Cancelled,
        },
        result: child.result,
        result_bytes: child.result_bytes,
        error: child.error,
    }
}

fn not_read(refusal: children::Refusal) -> Error {
    match refusal {
        children::Refusal::Invalid(reason) => Error::fatal(reason),
        children::Refusal::TooLarge(limit) => Error::fatal(format_args!("it has more than {limit} bytes")),
        children::Refusal::Unavailable(reason) => Error::new(format_args!("the children were not read: {reason}")),
    }
}

fn not_recorded(refusal: records::Refusal) -> Error {
    match refusal {
        records::Refusal::TooMany(limit) => {
            Error::fatal(format_args!("more than {limit} records wait for a checkpoint; save one in between"))
        }
        records::Refusal::TooLarge(limit) => Error::fatal(format_args!(
            "the record has more than {limit} bytes, alone or with those that wait for a checkpoint"
        )),
        records::Refusal::Invalid(reason) | records::Refusal::Denied(reason) => Error::fatal(reason),
        records::Refusal::Unavailable(reason) => Error::new(format_args!("the record was not read: {reason}")),
    }
}

fn level(level: Level) -> types::Level {
    match level {
        Level::Debug => types::Level::Debug,
        Level::Info => types::Level::Info,
        Level::Warn => types::Level::Warn,
        Level::Error => types::Level::Error,
    }
}
