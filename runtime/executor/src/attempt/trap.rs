//! Turns the error that ended a guest into a message for its author.

use wasmtime::{Error, Trap, WasmBacktrace};
use wasmtime_wasi::I32Exit;

use windlass_core::Retry;

use crate::attempt::outcome::Outcome;
use crate::attempt::state::{CpuTimeUsedUp, Interrupted, State, Superseded};
use crate::limits::{BACKTRACE_BYTES, ERROR_BYTES, cut};

/// The outcome of a guest that ended with an error instead of a result.
pub(crate) fn outcome(error: &Error, state: &State) -> Outcome {
    if error.downcast_ref::<Superseded>().is_some() {
        return Outcome::Superseded;
    }
    if let Some(Interrupted(reason)) = error.downcast_ref::<Interrupted>() {
        return Outcome::Interrupted { reason: reason.clone() };
    }
    let backtrace = error.downcast_ref::<WasmBacktrace>().filter(|trace| !trace.frames().is_empty());
    Outcome::Failed {
        error: cut(sentence(error, state), ERROR_BYTES),
        backtrace: backtrace.map(frames),
        retry: Retry::Backoff,
    }
}

/// The frames without the heading that wasmtime puts before them.
fn frames(trace: &WasmBacktrace) -> String {
    let text = trace.to_string();
    let frames = text.split_once("wasm backtrace:\n").map_or(text.as_str(), |(_, frames)| frames);
    cut(frames.to_owned(), BACKTRACE_BYTES)
}

fn sentence(error: &Error, state: &State) -> String {
    if error.downcast_ref::<CpuTimeUsedUp>().is_some() {
        let limit = state.limits.cpu_time.unwrap_or_default();
        return format!("the handler used up its processor time of {limit:?}");
    }
    if let Some(exit) = error.downcast_ref::<I32Exit>() {
        return format!("the handler called exit({}) instead of returning{}", exit.0, last_output(state));
    }
    let trap = error.downcast_ref::<Trap>();
    // A guest whose allocation fails usually aborts, which looks like any other trap.
    if state.memory.refused() {
        return format!(
            "the handler ran out of memory: an attempt may use {} bytes{}",
            state.memory.limit(),
            last_output(state)
        );
    }
    match trap {
        Some(Trap::UnreachableCodeReached) => match panic_message(&state.log.last_output()) {
            Some(message) => format!("the handler panicked: {message}"),
            None => format!("the handler trapped: it reached code that must not be reached{}", last_output(state)),
        },
        Some(Trap::StackOverflow) => "the handler trapped: its stack overflowed".to_owned(),
        Some(trap) => format!("the handler trapped: {trap}{}", last_output(state)),
        None if over_call_limit(error) => {
            let limit = state.limits.bytes_per_call();
            format!("the handler passed too many bytes in one call: the limit is {limit}; pass less at a time")
        }
        // Not a trap: a host call failed in a way that the guest cannot handle, or instantiation failed. The root cause
        // says why.
        None => format!("the handler could not continue: {}{}", error.root_cause(), last_output(state)),
    }
}

/// The type of this error is private to wasmtime, so it is recognised by its text; a test notices when that changes.
fn over_call_limit(error: &Error) -> bool {
    error.root_cause().to_string().contains("fuel allocated for hostcalls")
}

/// The message of a Rust panic, as written by the SDK's hook and by the standard one.
fn panic_message(output: &str) -> Option<String> {
    const MARK: &str = "panicked at ";
    let message = &output[output.rfind(MARK)? + MARK.len()..];
    let message = message.split("\nnote: run with").next().unwrap_or(message);
    Some(format!("at {}", message.trim_end()))
}

fn last_output(state: &State) -> String {
    let output = state.log.last_output();
    if output.is_empty() { String::new() } else { format!("; its last output was: {output}") }
}

#[cfg(test)]
mod tests {
    use super::panic_message;

    #[test]
    fn a_panic_message_is_found_in_what_the_standard_hook_writes() {
        let output =
            "warming up\n\nthread 'main' panicked at src/lib.rs:3:5:\nno such row\nnote: run with `RUST_BACKTRACE=1`";
        assert_eq!(panic_message(output).as_deref(), Some("at src/lib.rs:3:5:\nno such row"));
        assert_eq!(panic_message("all is well"), None);
    }
}
