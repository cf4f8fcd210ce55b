//! Bombs: jobs that start jobs that start jobs, and attempts that write as much as they can.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::{Child, Context, Level, Result};

use super::for_so_long;

/// What is written to the disk.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Filling {
    Checkpoints,
    Children,
    Records,
    Log,
}

/// Where a secret is put.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    RecordKey,
    MarkedKey,
    Mark,
    Queue,
    Tag,
    Scope,
    UniqueKey,
}

/// The payload of a child that tries the same as its parent.
#[derive(Serialize)]
struct Descend<'a> {
    r#try: &'static str,
    queue: &'a str,
    width: u32,
}

/// Spawns so many children, each of which does the same.
pub fn descend(ctx: &mut Context, queue: &str, width: u32) -> Result<String> {
    for _ in 0..width {
        ctx.spawn(Child::new(queue, &Descend { r#try: "descend", queue, width })?.max_attempts(1))?;
    }
    Ok(format!("{width} more"))
}

/// Writes for so long. The children it spawns wait for an hour, so that they fill the disk and do nothing else.
pub fn fill(ctx: &mut Context, with: Filling, ms: u64) -> Result<String> {
    let (mut written, mut failed) = (0u64, None);
    for_so_long(ms, || match fill_once(ctx, with, written) {
        Ok(()) => written += 1,
        // The first says what was full; what follows from it is another error.
        Err(error) => {
            failed.get_or_insert(error);
        }
    });
    failed.map_or_else(|| Ok(written.to_string()), Err)
}

fn fill_once(ctx: &mut Context, with: Filling, written: u64) -> Result<()> {
    let queue = ctx.job().queue.clone();
    match with {
        Filling::Checkpoints => return ctx.checkpoint_raw(vec![b'x'; 4 << 20]),
        Filling::Children => {
            for _ in 0..1_000 {
                ctx.spawn(Child::raw(queue.clone(), "{}").delay(Duration::from_secs(3_600)))?;
            }
        }
        Filling::Records => {
            for n in 0..200 {
                ctx.put_record_raw(&format!("{written}/{n}"), vec![b'x'; 4 << 10])?;
            }
        }
        Filling::Log => {
            ctx.log(Level::Info, "x".repeat(8_000));
            return Ok(());
        }
    }
    ctx.checkpoint(&written)
}

/// Puts a secret where others can read it.
pub fn tell_secret_in(ctx: &mut Context, name: &str, place: Place) -> Result<String> {
    let secret = ctx.secret(name)?;
    let queue = ctx.job().queue.clone();
    let child = |queue: &str| Child::raw(queue, "{}").delay(Duration::from_secs(3_600));
    match place {
        Place::RecordKey => ctx.put_record(&format!("a/{secret}"), &1)?,
        Place::MarkedKey => ctx.mark(&queue, &secret, Some("newer"))?,
        Place::Mark => ctx.mark(&queue, "a", Some(&secret))?,
        Place::Queue => drop(ctx.spawn(child(&format!("{queue}.{secret}")))?),
        Place::Tag => drop(ctx.spawn(child(&queue).tag("who", &secret))?),
        Place::Scope => drop(ctx.spawn(child(&queue).scope(format!("user:{secret}")))?),
        Place::UniqueKey => drop(ctx.spawn(child(&queue).unique_key(&secret))?),
    }
    ctx.checkpoint(&1)?;
    Ok("told".to_owned())
}
