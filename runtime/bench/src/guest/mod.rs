//! `windlass-bench guest`: what the sandbox costs, and how guests affect other work.
//!
//! The server is a separate process with its own data folder; the load comes from this one. Each figure is compared
//! with a limit measured in the same run. Reading order: `durable` (jobs end to end), `neighbours` (other work next to
//! hostile guests), `swap` (a new version under load).

mod durable;
mod neighbours;
mod swap;

use std::path::Path;

use anyhow::Context;
use bytes::Bytes;

use crate::figure::Figure;
use crate::sandbox;
use crate::setting::Setting;

/// A job that does nothing.
const NOTHING: &str = r#"{"try": "nothing"}"#;

/// `guest` is the plugin `hostile`, from `make plugins`: the payload selects what it does.
pub fn run(setting: &Setting, guest: &Path) -> anyhow::Result<Vec<Figure>> {
    let guest = std::fs::read(guest).with_context(|| {
        format!("cannot read {}; `make plugins` builds it, or name it with --guest", guest.display())
    })?;
    let guest = Bytes::from(guest);
    let alone = sandbox::Setting { noop: guest.clone(), noop_payload: NOTHING.into(), quick: setting.quick };
    let mut figures = sandbox::run(&alone)?;
    figures.push(durable::measure(setting, &alone)?);
    figures.extend(neighbours::measure(setting, &guest)?);
    figures.push(swap::measure(setting, &guest)?);
    Ok(figures)
}
