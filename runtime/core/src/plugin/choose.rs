//! Which version an attempt takes, and what its end means for a version that is on trial.

use crate::plugin::{Canary, Digest, Plugin, PluginHistoryKind, Version, short};
use crate::{Event, Job, Run, Runner, Time};

/// The version that an attempt takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The digest in hexadecimal.
    pub version: String,
    pub why: Why,
    /// The plugin, when the choice was counted.
    pub counted: Option<Box<Plugin>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    Active,
    Canary,
    /// The active version cannot continue from the job's checkpoint; the one that saved it can.
    Pinned,
}

impl Plugin {
    /// The version that the job's next attempt takes; none when no version is active.
    pub fn choose(&self, job: &Job) -> Option<Choice> {
        let active = self.active_version()?;
        if let Some(old) = self.pins(job) {
            return Some(Choice { version: old.digest(), why: Why::Pinned, counted: None });
        }
        let Some(canary) = self.canary.as_ref().and_then(|canary| self.version(&canary.version)) else {
            return Some(Choice { version: active.digest(), why: Why::Active, counted: None });
        };
        let name = canary.digest();
        // What failed there is tried again on the version that is known to work.
        let was_there = matches!(&job.ran_by, Some(Runner::Local { version, .. }) if *version == name);
        let reads = job.checkpoint.is_none() || canary.reads(job.checkpoint_schema);
        if was_there || !reads {
            return Some(Choice { version: active.digest(), why: Why::Active, counted: None });
        }
        let mut counted = self.clone();
        let takes = counted.canary.as_mut().is_some_and(Canary::share_out);
        let (version, why) = if takes { (name, Why::Canary) } else { (active.digest(), Why::Active) };
        Some(Choice { version, why, counted: Some(Box::new(counted)) })
    }

    /// The old version that the job must stay with, because the active one does not read its checkpoint.
    pub(crate) fn pins(&self, job: &Job) -> Option<&Version> {
        let active = self.active_version()?;
        if job.checkpoint.is_none() || active.reads(job.checkpoint_schema) {
            return None;
        }
        let by = job.checkpoint_by.as_ref()?;
        self.versions.iter().find(|version| version.digest() == *by && version.component != active.component)
    }

    /// Counts the end of an attempt on the canary. Answers with the plugin and what happened to it, when it was one.
    pub fn count(&self, run: &Run, failed: bool, now: Time) -> Option<(Plugin, Vec<Event>)> {
        // One that began before belongs to an earlier trial of the same version.
        let canary = self.canary.as_ref().filter(|canary| run.canary && run.started_at >= canary.started_at)?;
        let Runner::Local { version, .. } = &run.runner else { return None };
        let digest = canary.version;
        if self.version(&digest)?.digest() != *version {
            return None;
        }
        let mut plugin = self.clone();
        let canary = plugin.canary.as_mut()?;
        canary.ended += 1;
        canary.failed += u32::from(failed);
        let Canary { ended, failed, .. } = *canary;
        let verdict = canary.verdict();
        let mut events = Vec::new();
        match verdict {
            Verdict::Open => {}
            Verdict::Bad => {
                plugin.canary = None;
                let stays = plugin.active.as_ref().map(short).unwrap_or_default();
                let detail = format!("{failed} of {ended} attempts failed; version {stays} takes all again");
                events.push(plugin.note(now, PluginHistoryKind::RolledBack, Some(digest), detail));
            }
            Verdict::Good => {
                plugin.canary = None;
                plugin.active = Some(digest);
                let detail = format!("after {ended} attempts with {failed} failures");
                events.push(plugin.note(now, PluginHistoryKind::Promoted, Some(digest), detail));
            }
        }
        Some((plugin, events))
    }
}

enum Verdict {
    Open,
    Bad,
    Good,
}

impl Canary {
    /// Counts an attempt, and says whether it is the canary's: the hundredths add up, so that of any n attempts exactly
    /// the share of n, rounded down, are.
    fn share_out(&mut self) -> bool {
        let share = u64::from(self.share);
        let before = self.seen * share / 100;
        self.seen += 1;
        let takes = self.seen * share / 100 > before;
        self.given += u64::from(takes);
        takes
    }

    /// Whether more have failed than the rate allows, of those that have ended or will have ended when it begins to
    /// count.
    pub fn is_above_rate(&self) -> bool {
        let counted = u64::from(self.ended.max(self.min_attempts));
        u64::from(self.failed) * 1_000 > counted * u64::from(self.max_failures_per_mille)
    }

    /// What that means for it.
    fn verdict(&self) -> Verdict {
        if self.is_above_rate() {
            return Verdict::Bad;
        }
        match self.promote_after {
            Some(after) if self.ended >= after => Verdict::Good,
            Some(_) | None => Verdict::Open,
        }
    }
}

/// Reads a digest in hexadecimal.
pub fn parse_digest(text: &str) -> Option<Digest> {
    let mut digest = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (byte, pair) in digest.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(core::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(digest)
}
