//! Compares two folder trees, breadth first, one job per folder: what is missing on the destination, what is newer on
//! the source, and what is extra on the destination.
//!
//! `tree-diff.src` walks the source and records each listing under the folder's path. `tree-diff.dst` walks the
//! destination a round behind it, reads what the source recorded for the same path, compares, and records the
//! differences. `tree-diff.report` starts when the destination has completed, and adds everything up. `tree-diff`
//! starts the three and returns the report.
//!
//! No job ever holds more than one folder: what is found goes into records, in chunks, with the commit of the job that
//! found it.

mod chunks;
pub mod compare;
mod destination;
mod keys;
mod listing;
mod report;
mod source;

use serde::{Deserialize, Serialize};
use windlass::{Child, Context, Error, Job, OnFailure, Result};

pub use destination::{Compared, Side, compare_folder};
pub use report::{Report, Wanted, add_up};
pub use source::{Walked, list_folder};

pub const SOURCE: &str = "tree-diff.src";
pub const DESTINATION: &str = "tree-diff.dst";
pub const REPORT: &str = "tree-diff.report";

/// Children that wait for one checkpoint, at most.
const SPAWN: usize = 500;

/// What is compared: two granted folders, or folders in them.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trees {
    #[serde(default = "source")]
    pub source: String,
    #[serde(default = "destination")]
    pub destination: String,
}

fn source() -> String {
    "/source".to_owned()
}

fn destination() -> String {
    "/destination".to_owned()
}

/// One folder of a run: the run's id, the folder it began at, and the path from there.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Folder {
    pub run: String,
    pub root: String,
    pub path: String,
    /// Of the destination: which side has this folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side: Option<Side>,
}

/// Starts a run, waits for it, and returns its report.
pub fn compare_trees(ctx: &mut Context, trees: Trees) -> Result<Report> {
    if ctx.joined().is_none() {
        let run = ctx.job().id.clone();
        let folder = |root: &str, side| Folder { run: run.clone(), root: root.to_owned(), path: String::new(), side };
        ctx.spawn(Child::new(SOURCE, &folder(&trees.source, None))?)?;
        ctx.spawn(Child::new(DESTINATION, &folder(&trees.destination, Some(Side::Both)))?)?;
        ctx.spawn(Child::new(REPORT, &Wanted { run: run.clone() })?)?;
        return ctx.wait_for_children(OnFailure::Fail, &());
    }
    for child in ctx.children() {
        let child = child?;
        if child.queue == REPORT {
            return child.result();
        }
    }
    Err(Error::fatal("the report is no longer kept; start the comparison again"))
}

/// The walk goes by rounds, and without them nothing says when a folder can be compared.
fn check_rounds(ctx: &Context) -> Result<()> {
    let Job { queue, round, .. } = ctx.job();
    match round {
        Some(_) => Ok(()),
        None => Err(Error::fatal(format_args!(
            "the queue `{queue}` has no rounds; README.md says how to set the queues up"
        ))),
    }
}

/// A path below another, as a job names it: parts joined by slashes, nothing for the root.
fn below(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") }
}

windlass::handlers! {
    "tree-diff" => compare_trees,
    "tree-diff.src" => list_folder,
    "tree-diff.dst" => compare_folder,
    "tree-diff.report" => add_up,
}
