//! `windlass bench guest`: what the sandbox costs, and what guests do to everybody else.
//!
//! A server is this program, started again, on a folder of its own; the load comes from here. Each figure is held against a limit
//! measured in the same run. Reading order: `durable` (jobs end to end), `beside` (others beside hostile guests), `swap` (a new
//! version under load), `server` (the process that is measured).

mod beside;
mod durable;
mod server;
mod swap;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use windlass_core::figure::Figure;
use windlass_executor::bench;

use crate::clock::SystemClock;

/// What to measure with.
pub struct Setting {
    pub quick: bool,
    /// Where the data folders are made, and removed.
    pub dir: PathBuf,
    /// The plugin `hostile`, from `make plugins`: its payload says what it does.
    pub guest: PathBuf,
}

/// A job that does nothing.
const NOTHING: &str = r#"{"try": "nothing"}"#;

pub fn run(setting: &Setting) -> anyhow::Result<Vec<Figure>> {
    let guest = std::fs::read(&setting.guest).with_context(|| {
        format!("cannot read {}; `make plugins` builds it, or name it with --guest", setting.guest.display())
    })?;
    let guest = Bytes::from(guest);
    let alone =
        bench::Setting { noop: guest.clone(), noop_payload: NOTHING.into(), quick: setting.quick, say: Box::new(say) };
    let mut figures = bench::run(&alone).map_err(anyhow::Error::from_boxed)?;
    figures.push(durable::measure(setting, &alone)?);
    figures.extend(beside::measure(setting, &guest)?);
    figures.push(swap::measure(setting, &guest)?);
    Ok(figures)
}

fn say(line: &str) {
    eprintln!("{line}");
}

/// The store's own bench, quick: its limit is one of ours.
fn store_setting(setting: &Setting) -> windlass_store::bench::Setting {
    windlass_store::bench::Setting {
        dir: setting.dir.clone(),
        clock: Arc::new(SystemClock::start()),
        quick: true,
        victim: Vec::new(),
        say: Box::new(say),
    }
}

/// The value that so many of a hundred do not pass, in milliseconds.
fn percentile(samples: &mut [Duration], percent: usize) -> f64 {
    samples.sort_unstable();
    let at = (samples.len() * percent).div_ceil(100).saturating_sub(1);
    samples.get(at).map_or(f64::NAN, |span| span.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_sample() {
        let mut samples: Vec<Duration> = (1..=200).rev().map(Duration::from_millis).collect();
        assert_eq!(percentile(&mut samples, 99), 198.0);
        assert_eq!(percentile(&mut samples, 50), 100.0);
        assert!(percentile(&mut [], 99).is_nan());
    }
}
