//! The end of a run: goes through what the destination has recorded, folder by folder, adds it up, and puts the list of
//! differences into pages of its own.

use serde::{Deserialize, Serialize};
use windlass::{Context, Error, Result};

use crate::compare::{Counts, Found, What};
use crate::keys::key;
use crate::{DESTINATION, below, chunks};

/// Bytes of the differences on one page.
const PAGE: usize = 48 * 1024;
/// Folders that are gone through between two checkpoints.
const STEP: u64 = 500;
/// Pages that one commit takes along.
const PAGES: u32 = 12;
/// Differences and unread folders that the report itself names.
const NAMED: usize = 100;

/// What the report is to be of.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    pub run: String,
}

/// What a run has found. Entries are files, links and folders.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    pub run: String,
    /// Folders that were compared.
    pub folders: u64,
    /// Folders that could not be read or compared, and all that is in them. None when the comparison is whole.
    pub unread: u64,
    #[serde(flatten)]
    pub counts: Counts,
    /// The first differences; all of them are in the records `{run}/page//{n}` of this queue.
    pub differences: Vec<(What, String)>,
    pub pages: u32,
    /// The first folders that could not be read.
    pub unread_folders: Vec<String>,
}

/// How far the going through has come: a folder on each level, and how many of the folders in it are done.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Progress {
    report: Report,
    levels: Vec<Level>,
    begun: bool,
    /// The folder that is being taken in, and how much of what was found of it has been.
    current: Option<(String, usize)>,
    page: Vec<(What, String)>,
    page_bytes: usize,
    /// Folders and pages when it was saved last.
    saved: (u64, u32),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Level {
    path: String,
    done: usize,
    /// The names of the folders in it. Read again from the record after a break: it need not be in the checkpoint.
    #[serde(skip)]
    folders: Option<Vec<String>>,
}

pub fn add_up(ctx: &mut Context, wanted: Wanted) -> Result<Report> {
    let mut at = ctx.state::<Progress>()?.unwrap_or_default();
    at.report.run = wanted.run;
    if !at.begun {
        at.begun = true;
        at.current = Some((String::new(), 0));
    }
    loop {
        if let Some((path, from)) = at.current.take() {
            at.take_in(ctx, path, from)?;
        }
        at.save_if_due(ctx)?;
        let Some(folder) = at.next(ctx)? else { break };
        at.current = Some((folder, 0));
    }
    at.turn_page(ctx)?;
    Ok(at.report)
}

impl Progress {
    /// The next folder, depth first.
    fn next(&mut self, ctx: &mut Context) -> Result<Option<String>> {
        while let Some(level) = self.levels.last_mut() {
            if level.folders.is_none() {
                let (_, found) = recorded(ctx, &self.report.run, &level.path)?
                    .ok_or_else(|| Error::fatal("a record that was read before is gone"))?;
                level.folders = Some(folders_of(found));
            }
            let name = level.folders.as_ref().and_then(|folders| folders.get(level.done)).cloned();
            match name {
                Some(name) => {
                    level.done += 1;
                    return Ok(Some(below(&level.path, &name)));
                }
                None => drop(self.levels.pop()),
            }
        }
        Ok(None)
    }

    /// Takes in what was found of a folder, from one of the things on.
    fn take_in(&mut self, ctx: &mut Context, path: String, from: usize) -> Result<()> {
        let Some((counts, found)) = recorded(ctx, &self.report.run, &path)? else {
            self.report.unread += 1;
            if self.report.unread_folders.len() < NAMED {
                self.report.unread_folders.push(path);
            }
            return Ok(());
        };
        if from == 0 {
            self.report.folders += 1;
            self.report.counts.add(&counts);
        }
        for (n, item) in found.iter().enumerate().skip(from) {
            if let Found::Differs(what, name, _, _) = item {
                self.differs(ctx, *what, below(&path, name))?;
            }
            if self.report.pages - self.saved.1 >= PAGES {
                // A folder may have more differences than one commit takes.
                self.current = Some((path.clone(), n + 1));
                self.save_if_due(ctx)?;
                self.current = None;
            }
        }
        self.levels.push(Level { path, done: 0, folders: Some(folders_of(found)) });
        Ok(())
    }

    fn save_if_due(&mut self, ctx: &mut Context) -> Result<()> {
        let Report { folders, pages, .. } = self.report;
        if folders - self.saved.0 >= STEP || pages - self.saved.1 >= PAGES {
            ctx.check_cancelled()?;
            ctx.report(windlass::Progress::new("adding up").count(folders, None::<u64>).unit("folders"));
            self.saved = (folders, pages);
            ctx.checkpoint(self)?;
        }
        Ok(())
    }

    fn differs(&mut self, ctx: &mut Context, what: What, path: String) -> Result<()> {
        if self.report.differences.len() < NAMED {
            self.report.differences.push((what, path.clone()));
        }
        let bytes = path.len() * 2 + 16;
        if self.page_bytes + bytes > PAGE {
            self.turn_page(ctx)?;
        }
        self.page_bytes += bytes;
        self.page.push((what, path));
        Ok(())
    }

    /// Notes the page that is full, or the last one.
    fn turn_page(&mut self, ctx: &mut Context) -> Result<()> {
        if self.page.is_empty() {
            return Ok(());
        }
        let number = self.report.pages + 1;
        ctx.put_record(&page_key(&self.report.run, number), &self.page)?;
        self.report.pages = number;
        self.page.clear();
        self.page_bytes = 0;
        Ok(())
    }
}

fn page_key(run: &str, number: u32) -> String {
    key(run, &format!("page//{number:06}"), 0)
}

fn recorded(ctx: &mut Context, run: &str, path: &str) -> Result<Option<(Counts, Vec<Found>)>> {
    chunks::read(ctx, DESTINATION, (run, path))
}

fn folders_of(found: Vec<Found>) -> Vec<String> {
    let name = |found| match found {
        Found::Folder(name) => Some(name),
        Found::Differs(..) => None,
    };
    found.into_iter().filter_map(name).collect()
}
