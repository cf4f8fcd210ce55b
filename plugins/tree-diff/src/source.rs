//! One folder of the source: its listing is recorded under its path, and each folder in it becomes a job of the next
//! round.

use std::path::Path;

use serde::{Deserialize, Serialize};
use windlass::{Child, Context, Error, Result};

use crate::listing::{Entry, list};
use crate::{Folder, SPAWN, below, check_rounds, chunks};

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Walked {
    pub files: u64,
    pub folders: u64,
    pub bytes: u64,
}

/// Folders up to this name have their jobs; none yet when it is absent.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Spawned {
    pub(crate) upto: Option<String>,
}

impl Spawned {
    /// Whether a folder of this name still needs its job. Folders come sorted, so a repeated attempt makes no doubles,
    /// even when the folder has changed in between.
    pub(crate) fn lacks(&self, name: &str) -> bool {
        self.upto.as_deref().is_none_or(|upto| name > upto)
    }
}

pub fn list_folder(ctx: &mut Context, folder: Folder) -> Result<Walked> {
    check_rounds(ctx)?;
    let Folder { run, root, path, .. } = &folder;
    let spawned = ctx.state::<Spawned>()?.unwrap_or_default();
    let entries = read(root, path)?;
    let folders = entries.iter().filter(|entry| entry.is_folder());
    let walked = Walked {
        folders: folders.clone().count() as u64,
        files: entries.iter().filter(|entry| !entry.is_folder()).count() as u64,
        bytes: entries.iter().map(Entry::bytes).sum(),
    };
    if spawned.upto.is_none() {
        chunks::write(ctx, (run, path), &(), &entries, |ctx| ctx.checkpoint(&Spawned::default()))?;
    }
    let names = folders.map(Entry::name).filter(|name| spawned.lacks(name));
    for (n, name) in names.enumerate() {
        let child = Folder { path: below(path, name), ..folder.clone() };
        ctx.spawn(Child::new(crate::SOURCE, &child)?)?;
        if n % SPAWN == SPAWN - 1 {
            ctx.check_cancelled()?;
            ctx.checkpoint(&Spawned { upto: Some(name.to_owned()) })?;
        }
    }
    Ok(walked)
}

/// The listing of a folder; the error says which.
pub(crate) fn read(root: &str, path: &str) -> Result<Vec<Entry>> {
    let folder = if path.is_empty() { root.to_owned() } else { format!("{root}/{path}") };
    list(Path::new(&folder)).map_err(|error| Error::new(format_args!("cannot read the folder {folder}: {error}")))
}
