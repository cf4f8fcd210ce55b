//! The one place where a manifest and a grant become the permissions and limits of an attempt.
//!
//! The registry calls it for every attempt, and `windlass run` for its single one.

use std::path::PathBuf;
use std::time::Duration;

use windlass_core::QueueName;
use windlass_core::plugin::grant::{Allowed, AllowedHttp, AllowedLimits, Grant, effective};
use windlass_core::plugin::manifest::Manifest;
use windlass_core::quantity::{Size, Span};
use windlass_executor::{Folder, FolderScope, Limits, Permissions, RequestLimits, Secret};

use crate::denials;

/// What one attempt of a plugin's version gets.
#[derive(Clone, Debug)]
pub struct AttemptSetup {
    pub permissions: Permissions,
    pub limits: Limits,
    /// How many more attempts an instance may serve after its first.
    pub reuse: u32,
}

/// What an attempt gets besides what its manifest and its grant say.
pub struct Surroundings<'a> {
    /// The queues that its plugin serves, including the job's own.
    pub served: &'a [QueueName],
    /// Where its folders may be.
    pub scope: FolderScope,
    /// The value of a granted secret.
    pub secret: &'a dyn Fn(&str) -> Option<Secret>,
    /// The start of the command that grants what was denied.
    pub command: &'a str,
    /// The limit of a checkpoint or a result when neither the manifest nor the grant sets one.
    pub max_body: usize,
}

/// The setup of an attempt.
pub fn setup(manifest: &Manifest, granted: &Grant, surroundings: Surroundings<'_>) -> AttemptSetup {
    let Surroundings { served, scope, secret, command, max_body } = surroundings;
    let (allowed, denied) = effective(manifest, granted);
    let limits = limits(&allowed.limits, max_body);
    let hint = scope.hint();
    let Allowed { limits: _, http, folders, environment, secrets, spawn } = allowed;
    let folder = |folder: windlass_core::plugin::grant::Folder| Folder {
        host: PathBuf::from(folder.host),
        guest: folder.guest,
        write: folder.write,
    };
    let permissions = Permissions {
        config: manifest.config.clone(),
        secrets: secrets.into_iter().map(|name| (secret(&name), name)).map(|(value, name)| (name, value)).collect(),
        environment,
        folders: folders.into_iter().map(folder).collect(),
        denied: denied.iter().map(|denied| denials::sentence(denied, command, hint.as_deref())).collect(),
        scope,
        http,
        spawn,
        asked: manifest.capabilities.clone(),
        wording: denials::wording(command),
        queues: served.iter().map(ToString::to_string).collect(),
    };
    AttemptSetup { permissions, limits, reuse: manifest.reuse }
}

fn limits(allowed: &AllowedLimits, max_body: usize) -> Limits {
    let default = AllowedLimits::default();
    let bytes = |size: Size| usize::try_from(size.0).unwrap_or(usize::MAX);
    let body = |size: Size, default: Size| if size == default { max_body } else { bytes(size) };
    let span = |span: Option<Span>| span.map(|span| span.0);
    Limits {
        memory_bytes: bytes(allowed.memory),
        attempt_timeout: span(allowed.attempt_timeout),
        stall_timeout: span(allowed.stall_timeout),
        cpu_time: span(allowed.cpu_time),
        log_bytes: bytes(allowed.log),
        checkpoint_bytes: body(allowed.checkpoint, default.checkpoint),
        result_bytes: body(allowed.result, default.result),
        children_bytes: max_body,
        http: http(&allowed.http),
        ..Limits::default()
    }
}

fn http(allowed: &AllowedHttp) -> RequestLimits {
    RequestLimits {
        connect: allowed.connect.0,
        first_byte: allowed.first_byte.0,
        between_bytes: allowed.between_bytes.0,
        total: allowed.total.0,
        request_bytes: allowed.request.0,
        response_bytes: allowed.response.0,
        at_once: usize::try_from(allowed.at_once).unwrap_or(usize::MAX),
    }
}

/// The shortest of several limits; `None` when none is set.
pub fn shortest<const N: usize>(spans: [Option<Duration>; N]) -> Option<Duration> {
    spans.into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const MAX_BODY: usize = 7_000_000;

    fn attempt_setup(manifest: &Manifest, granted: &Grant) -> AttemptSetup {
        let surroundings = Surroundings {
            served: &[],
            scope: FolderScope::default(),
            secret: &|name| Some(Secret::new(name)),
            command: "windlass plugin grant mailer",
            max_body: MAX_BODY,
        };
        setup(manifest, granted, surroundings)
    }

    #[test]
    fn an_attempt_gets_what_both_manifest_and_grant_allow() {
        let mut manifest = Manifest { reuse: 3, ..Manifest::default() };
        manifest.config.insert("region".into(), "eu".into());
        manifest.capabilities.secrets = vec!["token".into(), "other".into()];
        manifest.capabilities.read = vec!["/data".into()];
        manifest.limits.memory = Some(Size(1 << 20));
        manifest.limits.checkpoint = Some(Size(1_000));
        let folder = windlass_core::plugin::grant::FolderGrant { path: "/srv".into(), write: true };
        let granted = Grant {
            secrets: BTreeSet::from(["token".to_owned()]),
            folders: [("/data".to_owned(), folder)].into(),
            ..Grant::default()
        };
        let setup = attempt_setup(&manifest, &granted);
        assert_eq!(setup.permissions.secrets.keys().collect::<Vec<_>>(), ["token"]);
        assert_eq!(setup.permissions.config["region"], "eu");
        assert_eq!((&*setup.permissions.folders[0].guest, setup.permissions.folders[0].write), ("/data", false));
        assert_eq!(setup.permissions.denied.len(), 1);
        assert!(setup.permissions.denied[0].ends_with("windlass plugin grant mailer --secret other"));
        assert_eq!((setup.limits.memory_bytes, setup.limits.checkpoint_bytes, setup.reuse), (1 << 20, 1_000, 3));
        assert_eq!(setup.limits.result_bytes, MAX_BODY);
    }

    #[test]
    fn a_plugin_with_an_empty_manifest_has_the_defaults_and_leaves_the_time_limit_to_its_jobs() {
        let setup = attempt_setup(&Manifest::default(), &Grant::default());
        assert_eq!((setup.limits.attempt_timeout, setup.limits.checkpoint_bytes), (None, MAX_BODY));
        assert_eq!(setup.permissions, Permissions::default());
        assert_eq!(setup.limits.http, RequestLimits::default(), "the two lists of defaults agree");
    }
}
