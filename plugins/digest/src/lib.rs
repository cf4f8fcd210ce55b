//! Hashes and counts a large body of text in steps.
//!
//! It is the demo of what a handler can do: after each step it reports progress and saves a checkpoint, which holds the
//! hash in the middle of the stream, so that a later attempt resumes at the next byte. Between steps it stops when
//! asked. The result tells which attempt ran which steps.

mod source;
mod tally;

use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::{Context, Error, Progress, Result};

use source::Source;
use tally::Tally;

/// What to hash: exactly one of `text` and `generate_mb`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Order {
    /// The text itself.
    pub text: Option<String>,
    /// This many MiB of made-up text, the same for the same seed.
    pub generate_mb: Option<u64>,
    pub seed: u64,
    /// How much is done in one step. 1,024 when absent.
    pub step_kb: Option<u64>,
    /// A pause after each step, so that one can watch.
    pub pause_ms: u64,
    /// Save at most this often. By default after each step.
    pub checkpoint_ms: u64,
}

/// What came out.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
pub struct Summary {
    /// SHA-256, in hex.
    pub sha256: String,
    pub bytes: u64,
    pub lines: u64,
    pub words: u64,
    /// How many steps the whole work has.
    pub steps: u64,
    /// How many of them the attempt ran that finished it.
    pub steps_run: u64,
    /// Which attempt ran which steps, as far as they counted: steps after the last checkpoint of an attempt that died
    /// are run again, and belong to the one that ran them last.
    pub attempts: Vec<Share>,
}

/// The steps that one attempt ran, counted from 1.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
pub struct Share {
    pub attempt: u32,
    pub first_step: u64,
    pub last_step: u64,
}

/// Where the work stands: what a checkpoint holds.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct Standing {
    steps_done: u64,
    tally: Tally,
    attempts: Vec<Share>,
}

impl Standing {
    fn record(&mut self, attempt: u32, step: u64) {
        match self.attempts.last_mut() {
            Some(share) if share.attempt == attempt => share.last_step = step,
            _ => self.attempts.push(Share { attempt, first_step: step, last_step: step }),
        }
    }
}

/// The handler.
pub fn digest(ctx: &mut Context, order: Order) -> Result<Summary> {
    let source = source(&order)?;
    let step_bytes = step_bytes(&order)?;
    let steps = source.len().div_ceil(step_bytes);
    let attempt = ctx.job().attempt;
    let mut standing = ctx.state::<Standing>()?.unwrap_or_default();
    if standing.steps_done > 0 {
        println!("going on after step {} of {steps}", standing.steps_done);
    }

    let mut buffer = Vec::new();
    let mut steps_run = 0;
    while standing.steps_done < steps {
        if let Some(cancel) = ctx.cancelled() {
            ctx.checkpoint(&standing)?;
            ctx.check_cancelled()?;
            println!("no longer asked to stop ({})", cancel.reason);
        }
        source.read(standing.steps_done * step_bytes, step_bytes, &mut buffer);
        standing.tally.add(&buffer)?;
        standing.steps_done += 1;
        standing.record(attempt, standing.steps_done);
        steps_run += 1;
        ctx.report(
            Progress::new(format!("step {} of {steps}", standing.steps_done))
                .phase("hash")
                .count(standing.tally.bytes, source.len())
                .unit("bytes"),
        );
        ctx.checkpoint_every(Duration::from_millis(order.checkpoint_ms), &standing)?;
        if order.pause_ms > 0 {
            thread::sleep(Duration::from_millis(order.pause_ms));
        }
    }
    Ok(Summary {
        sha256: standing.tally.sha256()?,
        bytes: standing.tally.bytes,
        lines: standing.tally.lines,
        words: standing.tally.words,
        steps,
        steps_run,
        attempts: standing.attempts,
    })
}

fn source(order: &Order) -> Result<Source<'_>> {
    const MAX_MB: u64 = 1 << 20;
    match (&order.text, order.generate_mb) {
        (Some(text), None) => Ok(Source::Given(text.as_bytes())),
        (None, Some(mb)) if mb <= MAX_MB => Ok(Source::Generated { bytes: mb << 20, seed: order.seed }),
        (None, Some(_)) => Err(Error::fatal(format_args!("generate_mb can be {MAX_MB} at most"))),
        (None, None) => Err(Error::fatal("nothing to hash: give `text` or `generate_mb`")),
        (Some(_), Some(_)) => Err(Error::fatal("give either `text` or `generate_mb`, not both")),
    }
}

fn step_bytes(order: &Order) -> Result<u64> {
    const MAX_KB: u64 = 16 << 10;
    match order.step_kb.unwrap_or(1024) {
        kb @ 1..=MAX_KB => Ok(kb << 10),
        _ => Err(Error::fatal(format_args!("step_kb must be from 1 to {MAX_KB}"))),
    }
}

// One handler, whatever the queue is called.
windlass::handlers! { _ => digest }
