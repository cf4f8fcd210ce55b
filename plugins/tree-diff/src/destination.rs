//! One folder of the destination: compared with what the source has recorded for the same path.
//!
//! A folder that only one side has is walked too, so that all that is in it counts as missing or extra.

use serde::{Deserialize, Serialize};
use windlass::{Child, Context, Error, Result};

use crate::compare::{Counts, compare, pairs};
use crate::keys::key;
use crate::listing::Entry;
use crate::source::{Spawned, read};
use crate::{DESTINATION, Folder, SOURCE, SPAWN, below, check_rounds, chunks};

/// The mark on the records of folders in which something differs.
pub const DIFFERS: &str = "differs";

/// Which side has a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    Both,
    Source,
    Destination,
}

impl Side {
    fn has_source(self) -> bool {
        self != Side::Destination
    }

    /// Who has a folder in a folder that this side has.
    fn of(ours: Option<&Entry>, theirs: Option<&Entry>) -> Option<Side> {
        let folder = |entry: Option<&Entry>| entry.is_some_and(Entry::is_folder);
        match (folder(ours), folder(theirs)) {
            (true, true) => Some(Side::Both),
            (true, false) => Some(Side::Source),
            (false, true) => Some(Side::Destination),
            (false, false) => None,
        }
    }
}

/// What the comparison of one folder came to.
pub type Compared = Counts;

pub fn compare_folder(ctx: &mut Context, folder: Folder) -> Result<Compared> {
    check_rounds(ctx)?;
    let Folder { run, root, path, side } = &folder;
    let side = side.unwrap_or(Side::Both);
    let spawned = ctx.state::<Spawned>()?.unwrap_or_default();
    let source = if side.has_source() { recorded(ctx, run, path)? } else { Vec::new() };
    let destination = if side == Side::Source { Vec::new() } else { read(root, path)? };
    let (counts, found) = compare(&source, &destination);
    if spawned.upto.is_none() {
        chunks::write(ctx, (run, path), &counts, &found, |ctx| ctx.checkpoint(&Spawned::default()))?;
        if counts.differ() {
            let place = key(run, path, 0);
            ctx.mark(DESTINATION, &place, Some(DIFFERS))?;
            if side.has_source() {
                ctx.mark(SOURCE, &place, Some(DIFFERS))?;
            }
        }
    }
    let mut fresh = 0;
    for (ours, theirs) in pairs(&source, &destination) {
        let Some(side) = Side::of(ours, theirs) else { continue };
        let name = ours.or(theirs).map_or("", Entry::name);
        if !spawned.lacks(name) {
            continue;
        }
        let child = Folder { path: below(path, name), side: Some(side), ..folder.clone() };
        ctx.spawn(Child::new(DESTINATION, &child)?)?;
        fresh += 1;
        if fresh % SPAWN == 0 {
            ctx.check_cancelled()?;
            ctx.checkpoint(&Spawned { upto: Some(name.to_owned()) })?;
        }
    }
    Ok(counts)
}

/// What the source has recorded. Its round is over before this one starts, so what is not there will not come by
/// itself.
fn recorded(ctx: &mut Context, run: &str, path: &str) -> Result<Vec<Entry>> {
    match chunks::read::<(), Entry>(ctx, SOURCE, (run, path))? {
        Some(((), entries)) => Ok(entries),
        None => Err(Error::fatal(format_args!(
            "the source has not listed `{path}`: its own job failed; sweep `{SOURCE}`, then `{DESTINATION}`"
        ))),
    }
}
