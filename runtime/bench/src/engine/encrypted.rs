//! What encryption costs: the lifecycle of `lifecycle`, on a store that encrypts and on one that does not, in turn.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use windlass_store::{DATA_KEY_BYTES, Durability, Encryption, KeyWrap, Opening, Options, Store};

use crate::engine::lifecycle::drive;
use crate::engine::runtime;
use crate::figure::{Figure, Goal};
use crate::setting::{Setting, SteadyClock, open, say};

/// Wraps nothing: a data key is wrapped once in its life, which is not what is measured.
#[derive(Debug)]
struct Plain;

impl KeyWrap for Plain {
    fn prepare(&self, _: usize) -> Result<(), String> {
        Ok(())
    }

    fn wrap(&self, _: u32, key: &[u8; DATA_KEY_BYTES]) -> Option<Vec<u8>> {
        Some(key.to_vec())
    }

    fn unwrap(&self, _: u32, wrapped: &[u8]) -> Result<[u8; DATA_KEY_BYTES], String> {
        wrapped.try_into().map_err(|_| "this is no data key".to_owned())
    }
}

pub fn measure(setting: &Setting) -> anyhow::Result<Vec<Figure>> {
    let (repeats, span) = if setting.quick { (3, Duration::from_secs(4)) } else { (10, Duration::from_secs(30)) };
    let (plain_dir, encrypted_dir) = (setting.folder("plain")?, setting.folder("encrypted")?);
    let (plain, encrypted) = (open(&plain_dir.0)?, open_encrypted(&encrypted_dir.0)?);
    let (mut with, mut without) = (0.0, 0.0);
    for repeat in 1..=repeats {
        let (ours, ..) = drive(&encrypted, span)?;
        let (bare, ..) = drive(&plain, span)?;
        say(&format!("lifecycle_encrypted {repeat}/{repeats}: {ours:.0}/s, without encryption {bare:.0}/s"));
        with += ours / f64::from(repeats);
        without += bare / f64::from(repeats);
    }
    for store in [plain, encrypted] {
        runtime()?.block_on(store.close());
    }
    Ok(vec![Figure {
        name: "lifecycle_encrypted",
        value: with,
        unit: "jobs/s",
        limit: Some(without),
        ratio: with / without,
        goal: Goal::AtLeast(0.9),
    }])
}

fn open_encrypted(dir: &Path) -> anyhow::Result<Store> {
    let options = Options { dir: dir.to_owned(), durability: Durability::Fsync };
    let encryption = Some(Encryption { wrap: Arc::new(Plain), is_on: true });
    let opening = Opening { encryption, ..Opening::default() };
    Ok(Store::open_with(options, Arc::new(SteadyClock::start()), opening)?)
}
