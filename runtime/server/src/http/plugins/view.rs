//! Plugins in responses.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use windlass_core::plugin::grant::{Grant, effective};
use windlass_core::{Blob, Canary, Denial, Digest, Name, Plugin, PluginHistoryEntry, QueueName, Version};
use windlass_store::LocalAttempt;

use crate::denials;
use crate::denials::grant_command;
use crate::http::Api;
use crate::http::jobs::attempts::DenialView;
use crate::http::transport::error::Result;
use crate::http::wire::{NameText, Rfc3339};
use crate::metrics::figures::{Distribution, SeenDenial, VersionFigures};

#[derive(Debug, Serialize, ToSchema)]
pub struct PluginAnswer {
    name: String,
    #[schema(value_type = Vec<NameText>)]
    queues: Vec<QueueName>,
    /// Whether its jobs can start. If not they wait, and `problem` says why.
    ready: bool,
    /// Why its jobs cannot start, and what to do about it.
    problem: Option<String>,
    /// The version that new attempts use.
    active: Option<String>,
    /// A version that gets a share of the new attempts.
    canary: Option<CanaryAnswer>,
    /// How many of its attempts run now.
    running: usize,
    versions: Vec<VersionAnswer>,
    /// What the operator grants it.
    #[schema(value_type = Object)]
    grant: Value,
    /// The key or the person that granted it.
    #[serde(skip_serializing_if = "Option::is_none")]
    grant_created_by: Option<String>,
    /// What the active version asks for and is not granted, each with the command that grants it.
    denied: Vec<String>,
    /// What its attempts tried since the server's start and were not granted, the latest last.
    denials: Vec<PluginDenial>,
    /// Its recent history, oldest first.
    history: Vec<PluginHistoryAnswer>,
    created_at: Rfc3339,
    updated_at: Rfc3339,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct VersionAnswer {
    /// The SHA-256 of the component.
    version: String,
    size: u64,
    uploaded_at: Rfc3339,
    /// The key or the person that uploaded it.
    #[serde(skip_serializing_if = "Option::is_none")]
    created_by: Option<String>,
    /// The label that came with the upload, which nobody has verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    uploaded_by: Option<String>,
    imports: Vec<String>,
    /// How many attempts still run on it.
    running: usize,
    /// Its attempts that have ended since the server's start.
    figures: FiguresAnswer,
    /// Why this server cannot run it, for example because its component is damaged.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    /// How many times its manifest was replaced.
    manifest_revision: u32,
    /// What it serves, needs and asks for.
    #[schema(value_type = Object)]
    manifest: Value,
}

/// The attempts of a version that have ended since the server's start.
#[derive(Debug, Serialize, ToSchema)]
pub struct FiguresAnswer {
    attempts: u64,
    completed: u64,
    failed_attempts: u64,
    /// How long attempts ran, how much processor time they used, and the most memory they had.
    run_ms: DistributionAnswer,
    cpu_ms: DistributionAnswer,
    memory_bytes: DistributionAnswer,
}

/// Values that so many percent do not exceed, to a quarter of a power of two; `null` without an attempt.
#[derive(Debug, Serialize, ToSchema)]
struct DistributionAnswer {
    count: u64,
    p50: Option<u64>,
    p95: Option<u64>,
    p99: Option<u64>,
    max: Option<u64>,
}

impl From<VersionFigures> for FiguresAnswer {
    fn from(figures: VersionFigures) -> FiguresAnswer {
        let VersionFigures { attempts, completed, failed, run_ms, cpu_ms, memory_bytes } = figures;
        FiguresAnswer {
            attempts,
            completed,
            failed_attempts: failed,
            run_ms: run_ms.into(),
            cpu_ms: cpu_ms.into(),
            memory_bytes: memory_bytes.into(),
        }
    }
}

impl From<Distribution> for DistributionAnswer {
    fn from(values: Distribution) -> DistributionAnswer {
        let [p50, p95, p99] = [50, 95, 99].map(|percent| values.percentile(percent));
        DistributionAnswer { count: values.count(), p50, p95, p99, max: p50.map(|_| values.max) }
    }
}

/// Something that attempts of the plugin tried and were not granted.
#[derive(Debug, Serialize, ToSchema)]
pub struct PluginDenial {
    #[serde(flatten)]
    denial: DenialView,
    /// How many attempts tried it.
    times: u64,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct CanaryAnswer {
    version: String,
    share: u32,
    max_failure_rate: f64,
    min_attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    promote_after: Option<u32>,
    started_at: Rfc3339,
    /// Attempts since the canary started, and how many of them ran on it.
    attempts: u64,
    given: u64,
    /// How many of those have ended, and how many failed.
    ended: u32,
    failed: u32,
    /// `waiting` for more attempts to end, `within` the rate, or `above` it, which takes the canary back.
    verdict: &'static str,
    /// How many more attempts have to end before it is judged, and before it becomes active by itself.
    judged_in: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    promoted_in: Option<u32>,
    /// What it still waits for, as a sentence.
    waits_for: String,
    /// What its attempts used, beside those of the active version in `versions`.
    #[serde(skip_serializing_if = "Option::is_none")]
    figures: Option<FiguresAnswer>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct PluginHistoryAnswer {
    at: Rfc3339,
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    detail: String,
}

/// A manifest with the version it belongs to.
#[derive(Debug, Serialize, ToSchema)]
pub struct ManifestAnswer {
    version: String,
    revision: u32,
    #[schema(value_type = Object)]
    manifest: Value,
}

pub async fn show_plugin(api: &Api, plugin: Plugin) -> Result<PluginAnswer> {
    let running = api.store.running().await?;
    Ok(answer(plugin, api, &running))
}

pub async fn show_plugins(api: &Api, plugins: Vec<Plugin>) -> Result<Vec<PluginAnswer>> {
    let running = api.store.running().await?;
    Ok(plugins.into_iter().map(|plugin| answer(plugin, api, &running)).collect())
}

/// A grant, in the form in which it can be set.
pub fn show_grant(grant: &Grant) -> Value {
    value(grant)
}

fn answer(plugin: Plugin, api: &Api, running: &[LocalAttempt]) -> PluginAnswer {
    let grant = api.registry.granted(&plugin.name);
    let asked = plugin.active_version().map(|version| &version.manifest);
    let denied = asked.map(|asked| effective(asked, &grant).1).unwrap_or_default();
    let (command, hint) = (grant_command(plugin.name.as_str()), api.registry.scope().hint());
    let own: Vec<&LocalAttempt> = running.iter().filter(|attempt| attempt.plugin == plugin.name).collect();
    let version = |version: Version| VersionAnswer {
        running: own.iter().filter(|attempt| attempt.version == version.digest()).count(),
        figures: api.figures.of_version(&plugin.name, &version.digest()).into(),
        version: version.digest(),
        size: version.component.len,
        uploaded_at: Rfc3339(version.uploaded_at),
        created_by: plugin.uploaders.get(&version.component.sha256).cloned(),
        uploaded_by: version.uploaded_by,
        imports: version.imports,
        problem: api.registry.problem(&version.component.sha256),
        manifest_revision: version.revision,
        manifest: value(&version.manifest),
    };
    let problem = api.registry.not_ready(&plugin);
    let canary = plugin.canary.clone().map(|canary| {
        let figures = api.figures.of_version(&plugin.name, &hex(&canary.version));
        CanaryAnswer { figures: Some(figures.into()), ..CanaryAnswer::from(canary) }
    });
    PluginAnswer {
        ready: problem.is_none(),
        problem,
        active: plugin.active.as_ref().map(hex),
        denied: denied.iter().map(|denied| denials::sentence(denied, &command, hint.as_deref())).collect(),
        denials: denials(api, &plugin.name, &grant),
        grant: value(&grant),
        grant_created_by: api.registry.granted_by(&plugin.name),
        running: own.len(),
        versions: plugin.versions.into_iter().map(version).collect(),
        name: plugin.name.to_string(),
        queues: plugin.queues,
        canary,
        history: plugin.history.into_iter().map(PluginHistoryAnswer::from).collect(),
        created_at: Rfc3339(plugin.created_at),
        updated_at: Rfc3339(plugin.updated_at),
    }
}

/// What attempts tried and were not granted, without what has been granted since.
fn denials(api: &Api, plugin: &Name, grant: &Grant) -> Vec<PluginDenial> {
    let seen = api.figures.denials(plugin).into_iter().filter(|seen| !is_granted(grant, &seen.denial));
    seen.map(|SeenDenial { denial, job, times }| PluginDenial {
        denial: DenialView::of(denial, &job, Some(plugin.as_str())),
        times,
    })
    .collect()
}

fn is_granted(grant: &Grant, denial: &Denial) -> bool {
    let wanted = denial.grant.as_str();
    match &*denial.capability {
        "secrets" => grant.secrets.contains(wanted),
        "http" => grant.http.iter().any(|host| host.to_string() == wanted),
        "private_http" => grant.private_http.iter().any(|host| host.to_string() == wanted),
        _ => grant.spawn.iter().any(|queue| queue.to_string() == wanted),
    }
}

/// These types always serialize.
fn value(data: &impl Serialize) -> Value {
    serde_json::to_value(data).unwrap_or_default()
}

fn hex(digest: &Digest) -> String {
    Blob { sha256: *digest, len: 0 }.hex()
}

impl From<&Version> for ManifestAnswer {
    fn from(version: &Version) -> ManifestAnswer {
        let manifest = value(&version.manifest);
        ManifestAnswer { version: version.digest(), revision: version.revision, manifest }
    }
}

impl From<Canary> for CanaryAnswer {
    fn from(canary: Canary) -> CanaryAnswer {
        let judged_in = canary.min_attempts.saturating_sub(canary.ended);
        let promoted_in = canary.promote_after.map(|after| after.saturating_sub(canary.ended));
        let is_above = canary.is_above_rate();
        let waits_for = match (is_above, judged_in, promoted_in) {
            (true, _, _) => "more failed than its rate allows: it is being rolled back".to_owned(),
            (false, 1.., _) => format!("{judged_in} more of its attempts have to end before it is judged"),
            (false, 0, Some(more)) => format!("it becomes active after {more} more of its attempts within the rate"),
            (false, 0, None) => "it stays a canary until somebody promotes or stops it".to_owned(),
        };
        CanaryAnswer {
            version: hex(&canary.version),
            share: canary.share,
            max_failure_rate: f64::from(canary.max_failures_per_mille) / 1_000.0,
            min_attempts: canary.min_attempts,
            promote_after: canary.promote_after,
            started_at: Rfc3339(canary.started_at),
            attempts: canary.seen,
            given: canary.given,
            ended: canary.ended,
            failed: canary.failed,
            verdict: if is_above {
                "above"
            } else if judged_in > 0 {
                "waiting"
            } else {
                "within"
            },
            judged_in,
            promoted_in,
            waits_for,
            figures: None,
        }
    }
}

impl CanaryAnswer {
    pub fn version(&self) -> &str {
        &self.version
    }
}

impl From<PluginHistoryEntry> for PluginHistoryAnswer {
    fn from(happened: PluginHistoryEntry) -> PluginHistoryAnswer {
        PluginHistoryAnswer {
            at: Rfc3339(happened.at),
            kind: happened.happening.as_str(),
            version: happened.version.as_ref().map(hex),
            detail: happened.detail,
        }
    }
}
