//! What people ask of a plugin: a new version, another active one, a canary, a grant, its end.
//!
//! [`change`] decides; the store carries it out in one commit, together with what becomes of the attempts that run.

use core::time::Duration;

use crate::plugin::grant::Grant;
use crate::plugin::manifest::Manifest;
use crate::plugin::{Canary, Digest, Plugin, PluginHistoryKind, Version, short};
use crate::{Blob, Event, Name, QueueName, Refusal, Time, bounds};

#[derive(Clone, Debug, PartialEq)]
pub enum PluginCommand {
    /// A component that has been checked and compiled. Bytes that the plugin has already are no new version.
    Upload {
        component: Blob,
        imports: Vec<String>,
        /// Absent: what the active version has.
        manifest: Option<Manifest>,
        /// Instead of the manifest's.
        queues: Option<Vec<QueueName>>,
        by: Option<String>,
        /// How it takes over; absent: it is stored and not made active.
        swap: Option<Swap>,
    },
    Activate {
        version: Digest,
        swap: Swap,
    },
    /// The version uploaded before the active one.
    Rollback {
        swap: Swap,
    },
    SetManifest {
        /// Absent: the active one.
        version: Option<Digest>,
        manifest: Manifest,
    },
    StartCanary(NewCanary),
    /// Ends the trial: the version becomes the active one, or nothing more starts on it.
    EndCanary {
        promote: bool,
    },
    /// `force` also when it is in use: its attempts are stopped, and their jobs are pending again.
    RemoveVersion {
        version: Digest,
        force: bool,
    },
    Remove {
        force: bool,
    },
    /// What the operator allows. Can be set before the plugin exists, and is deleted with it.
    Grant(Grant),
}

impl PluginCommand {
    /// What the audit log calls it.
    pub fn audit_name(&self) -> &'static str {
        match self {
            PluginCommand::Upload { .. } => "plugin.upload",
            PluginCommand::Activate { .. } => "plugin.activate",
            PluginCommand::Rollback { .. } => "plugin.roll_back",
            PluginCommand::SetManifest { .. } => "plugin.set_manifest",
            PluginCommand::StartCanary(_) => "plugin.start_canary",
            PluginCommand::EndCanary { promote: true } => "plugin.promote_canary",
            PluginCommand::EndCanary { .. } => "plugin.stop_canary",
            PluginCommand::RemoveVersion { .. } => "plugin.remove_version",
            PluginCommand::Remove { .. } => "plugin.remove",
            PluginCommand::Grant(_) => "plugin.grant",
        }
    }
}

/// What becomes of the attempts that run when another version takes over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Swap {
    /// They finish on their version.
    #[default]
    Drain,
    /// Each is handed over at its next checkpoint, and stopped when none came in time.
    Checkpoint { within: Duration },
    /// They are asked to stop, and soon after stopped dead.
    Now,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCanary {
    pub version: Digest,
    pub share: u32,
    pub max_failures_per_mille: u32,
    pub min_attempts: u32,
    pub promote_after: Option<u32>,
}

/// What is known when it is asked.
pub struct PluginFacts<'a> {
    pub plugin: Option<&'a Plugin>,
    /// The versions that its running attempts run on, one entry each.
    pub running: &'a [Digest],
    /// The key or the person that asks.
    pub by: Option<&'a str>,
    /// The other plugin that serves a queue.
    pub taken: &'a dyn Fn(&QueueName) -> Option<Name>,
}

/// What it comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginChange {
    /// As it is now; none when it was removed or never existed.
    pub plugin: Option<Plugin>,
    /// The operator's new grant; `Some(None)` deletes the old one.
    pub grant: Option<Option<Grant>>,
    pub events: Vec<Event>,
    /// Which running attempts make room.
    pub stopped: Option<Stopped>,
}

/// Running attempts that make room for another version, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped {
    pub swap: Swap,
    /// Only those on this version; absent: all that are not on the active one.
    pub only: Option<Digest>,
}

pub fn change(
    name: &Name,
    command: PluginCommand,
    facts: &PluginFacts<'_>,
    now: Time,
) -> Result<PluginChange, Refusal> {
    let known = || facts.plugin.cloned().ok_or_else(|| Refusal::not_found("plugin", name));
    match command {
        PluginCommand::Upload { component, imports, manifest, queues, by, swap } => {
            let plugin = facts.plugin.cloned().unwrap_or_else(|| Plugin::new(name, now));
            let version = Version {
                component,
                uploaded_at: now,
                uploaded_by: by,
                imports,
                manifest: Manifest::default(),
                revision: 0,
            };
            upload(plugin, Upload { version, manifest, queues, swap }, facts, now)
        }
        PluginCommand::Activate { version, swap } => activate(known()?, version, swap, facts, now),
        PluginCommand::Rollback { swap } => {
            let plugin = known()?;
            let why = || format!("plugin `{name}` has no version from before the active one");
            let version = plugin.before_active().ok_or_else(|| Refusal::invalid("version", why()))?.component.sha256;
            activate(plugin, version, swap, facts, now)
        }
        PluginCommand::SetManifest { version, manifest } => set_manifest(known()?, version, manifest, facts, now),
        PluginCommand::StartCanary(new) => start_canary(known()?, &new, now),
        PluginCommand::EndCanary { promote } => end_canary(known()?, promote, now),
        PluginCommand::RemoveVersion { version, force } => remove_version(known()?, version, force, facts, now),
        PluginCommand::Remove { force } => remove(known()?, force, facts, now),
        PluginCommand::Grant(grant) => {
            grant.check()?;
            let mut plugin = facts.plugin.cloned();
            let events =
                plugin.iter_mut().map(|plugin| plugin.note(now, PluginHistoryKind::Granted, None, "")).collect();
            Ok(PluginChange { plugin, grant: Some(Some(grant)), events, stopped: None })
        }
    }
}

/// A component that arrives, with what is known of it.
struct Upload {
    /// Without its manifest.
    version: Version,
    manifest: Option<Manifest>,
    queues: Option<Vec<QueueName>>,
    /// Whether it becomes the active version, and how.
    swap: Option<Swap>,
}

fn upload(mut plugin: Plugin, upload: Upload, facts: &PluginFacts<'_>, now: Time) -> Result<PluginChange, Refusal> {
    let Upload { version: new, manifest, queues, swap } = upload;
    let digest = new.component.sha256;
    let old = plugin.version(&digest).map(|version| version.manifest.clone());
    let inherited = || plugin.active_version().map(|version| version.manifest.clone());
    let mut wanted = manifest.or_else(|| old.clone()).or_else(inherited).unwrap_or_default();
    if let Some(queues) = queues {
        wanted.queues = queues;
    } else if wanted.queues.is_empty() {
        // It keeps what it serves, at first the queue of its own name; a manifest without queues changes nothing.
        wanted.queues.clone_from(&plugin.queues);
    }
    own_queues(&plugin.name, &mut wanted.queues);
    wanted.check()?;
    let mut events = Vec::new();
    match plugin.versions.iter_mut().find(|version| version.component.sha256 == digest) {
        Some(version) => {
            if version.manifest != wanted {
                version.manifest = wanted;
                version.revision += 1;
                events.push(plugin.note(now, PluginHistoryKind::ManifestSet, Some(digest), "with the same component"));
            }
        }
        None => {
            if plugin.versions.len() >= bounds::VERSIONS {
                let why = format!("a plugin has at most {} versions; remove one that is not in use", bounds::VERSIONS);
                return Err(Refusal::invalid("version", why));
            }
            let by = new.uploaded_by.as_ref().map_or_else(String::new, |by| format!("by {by}"));
            plugin.versions.push(Version { manifest: wanted, ..new });
            plugin.uploaders.extend(facts.by.map(|by| (digest, by.to_owned())));
            events.push(plugin.note(now, PluginHistoryKind::Uploaded, Some(digest), by));
        }
    }
    let mut changed = match swap {
        Some(swap) => activate(plugin, digest, swap, facts, now)?,
        None => {
            refresh(&mut plugin, digest);
            free_queues(&plugin, facts)?;
            PluginChange { plugin: Some(plugin), grant: None, events: Vec::new(), stopped: None }
        }
    };
    events.append(&mut changed.events);
    Ok(PluginChange { events, ..changed })
}

/// The active version's manifest has changed: so may have the queues.
fn refresh(plugin: &mut Plugin, digest: Digest) {
    if plugin.active == Some(digest) {
        plugin.make_active(digest);
    }
}

fn activate(
    mut plugin: Plugin,
    digest: Digest,
    swap: Swap,
    facts: &PluginFacts<'_>,
    now: Time,
) -> Result<PluginChange, Refusal> {
    has(&plugin, &digest)?;
    if let Swap::Checkpoint { within } = swap
        && (within.is_zero() || within > bounds::LONGEST)
    {
        return Err(Refusal::invalid("deadline", "more than zero and at most ten years"));
    }
    let changes = plugin.active != Some(digest);
    plugin.make_active(digest);
    free_queues(&plugin, facts)?;
    let mut events = Vec::new();
    if let Some(canary) = plugin.canary.take() {
        let (happening, detail) = if canary.version == digest {
            (PluginHistoryKind::Promoted, "activated by hand".to_owned())
        } else {
            (PluginHistoryKind::CanaryStopped, format!("version {} was activated", short(&digest)))
        };
        events.push(plugin.note(now, happening, Some(canary.version), detail));
    }
    if changes {
        let detail = match swap {
            Swap::Drain => "running attempts finish on their version".to_owned(),
            // The console reads from this until when it waits.
            Swap::Checkpoint { within } => {
                format!("running attempts are handed over at their next checkpoint, within {} s", within.as_secs())
            }
            Swap::Now => "running attempts are stopped and start again".to_owned(),
        };
        events.push(plugin.note(now, PluginHistoryKind::Activated, Some(digest), detail));
    }
    let stopped = (swap != Swap::Drain).then_some(Stopped { swap, only: None });
    Ok(PluginChange { plugin: Some(plugin), grant: None, events, stopped })
}

fn set_manifest(
    mut plugin: Plugin,
    version: Option<Digest>,
    mut manifest: Manifest,
    facts: &PluginFacts<'_>,
    now: Time,
) -> Result<PluginChange, Refusal> {
    let nothing = || Refusal::invalid("version", "no version is active; name one");
    let digest = version.or(plugin.active).ok_or_else(nothing)?;
    has(&plugin, &digest)?;
    if manifest.queues.is_empty() {
        manifest.queues.clone_from(&plugin.queues);
    }
    own_queues(&plugin.name, &mut manifest.queues);
    manifest.check()?;
    if let Some(version) = plugin.versions.iter_mut().find(|version| version.component.sha256 == digest) {
        version.manifest = manifest;
        version.revision += 1;
    }
    refresh(&mut plugin, digest);
    free_queues(&plugin, facts)?;
    let event = plugin.note(now, PluginHistoryKind::ManifestSet, Some(digest), "");
    Ok(PluginChange { plugin: Some(plugin), grant: None, events: vec![event], stopped: None })
}

fn start_canary(mut plugin: Plugin, new: &NewCanary, now: Time) -> Result<PluginChange, Refusal> {
    has(&plugin, &new.version)?;
    if plugin.active.is_none() {
        return Err(Refusal::invalid("version", "no version is active to compare with; activate this one"));
    }
    if plugin.active == Some(new.version) {
        return Err(Refusal::invalid("version", "this is the active version; a canary is another one"));
    }
    let bounded = |field, value: u32, least: u32, most: u32| {
        let why = || Refusal::invalid(field, format!("between {least} and {most}"));
        (least..=most).contains(&value).then_some(()).ok_or_else(why)
    };
    bounded("share", new.share, 1, 100)?;
    if new.max_failures_per_mille > 1_000 {
        return Err(Refusal::invalid("max_failure_rate", "between 0 and 1, such as 0.2"));
    }
    bounded("min_attempts", new.min_attempts, 1, bounds::CANARY_ATTEMPTS)?;
    if let Some(promote_after) = new.promote_after {
        bounded("promote_after", promote_after, new.min_attempts, bounds::CANARY_ATTEMPTS)?;
    }
    let mut events = Vec::new();
    if let Some(old) = plugin.canary.take() {
        events.push(plugin.note(
            now,
            PluginHistoryKind::CanaryStopped,
            Some(old.version),
            "another canary takes its place",
        ));
    }
    plugin.canary = Some(Canary {
        version: new.version,
        share: new.share,
        max_failures_per_mille: new.max_failures_per_mille,
        min_attempts: new.min_attempts,
        promote_after: new.promote_after,
        started_at: now,
        seen: 0,
        given: 0,
        ended: 0,
        failed: 0,
    });
    let detail = format!("{} of 100 new attempts", new.share);
    events.push(plugin.note(now, PluginHistoryKind::CanaryStarted, Some(new.version), detail));
    Ok(PluginChange { plugin: Some(plugin), grant: None, events, stopped: None })
}

fn end_canary(mut plugin: Plugin, promote: bool, now: Time) -> Result<PluginChange, Refusal> {
    let Some(canary) = plugin.canary.take() else {
        return Err(Refusal::not_found("canary of plugin", &plugin.name));
    };
    let happening = if promote { PluginHistoryKind::Promoted } else { PluginHistoryKind::CanaryStopped };
    if promote {
        // A canary takes over what the plugin serves, and changes nothing about that.
        plugin.active = Some(canary.version);
    }
    let detail = format!("by hand, after {} attempts with {} failures", canary.ended, canary.failed);
    let event = plugin.note(now, happening, Some(canary.version), detail);
    Ok(PluginChange { plugin: Some(plugin), grant: None, events: vec![event], stopped: None })
}

fn remove_version(
    mut plugin: Plugin,
    digest: Digest,
    force: bool,
    facts: &PluginFacts<'_>,
    now: Time,
) -> Result<PluginChange, Refusal> {
    has(&plugin, &digest)?;
    let running = facts.running.iter().filter(|version| **version == digest).count();
    let is_canary = plugin.canary.as_ref().is_some_and(|canary| canary.version == digest);
    let what = format!("version {} of plugin", short(&digest));
    if !force {
        let used_by = match (plugin.active == Some(digest), is_canary, running) {
            (true, _, _) => "it is the active one".to_owned(),
            (_, true, _) => "it is the canary".to_owned(),
            (_, _, 0) => String::new(),
            (_, _, running) => attempts(running),
        };
        if !used_by.is_empty() {
            return Err(Refusal::InUse { what, name: plugin.name.to_string(), used_by });
        }
    }
    plugin.versions.retain(|version| version.component.sha256 != digest);
    plugin.uploaders.remove(&digest);
    plugin.canary.take_if(|canary| canary.version == digest);
    plugin.active.take_if(|active| *active == digest);
    let event = plugin.note(now, PluginHistoryKind::VersionRemoved, Some(digest), if force { "by force" } else { "" });
    let stopped = (running > 0).then_some(Stopped { swap: Swap::Now, only: Some(digest) });
    Ok(PluginChange { plugin: Some(plugin), grant: None, events: vec![event], stopped })
}

fn remove(mut plugin: Plugin, force: bool, facts: &PluginFacts<'_>, now: Time) -> Result<PluginChange, Refusal> {
    let running = facts.running.len();
    if running > 0 && !force {
        let used_by = attempts(running);
        return Err(Refusal::InUse { what: "plugin".to_owned(), name: plugin.name.to_string(), used_by });
    }
    let event = plugin.note(now, PluginHistoryKind::Removed, None, if running > 0 { "by force" } else { "" });
    let stopped = (running > 0).then_some(Stopped { swap: Swap::Now, only: None });
    Ok(PluginChange { plugin: None, grant: Some(None), events: vec![event], stopped })
}

/// Queues of the plugin's namespace, whatever the manifest was written for, each once.
fn own_queues(plugin: &Name, queues: &mut Vec<QueueName>) {
    let namespace = plugin.namespace();
    queues.iter_mut().for_each(|queue| *queue = queue.within(&namespace));
    let mut seen = Vec::new();
    queues.retain(|queue| {
        !seen.contains(queue) && {
            seen.push(queue.clone());
            true
        }
    });
}

fn attempts(running: usize) -> String {
    format!("{running} attempt{} on it", if running == 1 { " runs" } else { "s run" })
}

fn has(plugin: &Plugin, digest: &Digest) -> Result<(), Refusal> {
    match plugin.version(digest) {
        Some(_) => Ok(()),
        None => Err(Refusal::not_found("version", format!("{} of plugin {}", short(digest), plugin.name))),
    }
}

/// One queue, one plugin.
fn free_queues(plugin: &Plugin, facts: &PluginFacts<'_>) -> Result<(), Refusal> {
    let taken = plugin.queues.iter().find_map(|queue| (facts.taken)(queue).map(|other| (queue, other)));
    match taken.filter(|_| plugin.active.is_some()) {
        Some((queue, plugin)) => Err(Refusal::Taken { queue: queue.to_string(), plugin: plugin.to_string() }),
        None => Ok(()),
    }
}
