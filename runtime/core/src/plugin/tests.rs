//! What can be asked of a plugin, as tables.

use crate::Refusal;
use crate::plugin::*;

const NOW: Time = Time(1_000);

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

fn upload(version: u8, manifest: Option<Manifest>, queues: Option<&[&str]>, swap: Option<Swap>) -> PluginCommand {
    let component = Blob { sha256: [version; 32], len: 1 };
    let queues = queues.map(|queues| queues.iter().map(|queue| name(queue)).collect());
    PluginCommand::Upload { component, imports: Vec::new(), manifest, queues, by: Some("ann".into()), swap }
}

/// Does one thing after another to the plugin `mailer`.
fn after(commands: Vec<PluginCommand>, running: &[Digest]) -> Result<PluginChange, Refusal> {
    let mut plugin = None;
    let mut last = Err(Refusal::not_found("plugin", "mailer"));
    for command in commands {
        let taken = |queue: &QueueName| (queue.as_str() == "taken").then(|| name("other"));
        let facts = PluginFacts { plugin: plugin.as_ref(), running, by: None, taken: &taken };
        let changed = change(&name("mailer"), command, &facts, NOW)?;
        plugin.clone_from(&changed.plugin);
        last = Ok(changed);
    }
    last
}

fn plugin_after(commands: Vec<PluginCommand>) -> Plugin {
    after(commands, &[]).expect("all is well").plugin.expect("it is there")
}

fn serving(queues: &[&str]) -> Manifest {
    Manifest { queues: queues.iter().map(|queue| name(queue)).collect(), ..Manifest::default() }
}

fn queues(plugin: &Plugin) -> Vec<&str> {
    plugin.queues.iter().map(QueueName::as_str).collect()
}

const DRAIN: Option<Swap> = Some(Swap::Drain);

#[test]
fn what_it_serves_is_what_the_active_version_says() {
    let first = upload(1, None, None, DRAIN);
    assert_eq!(queues(&plugin_after(vec![first.clone()])), ["mailer"]);
    assert_eq!(queues(&plugin_after(vec![upload(1, None, Some(&["a", "b"]), DRAIN)])), ["a", "b"]);
    assert_eq!(queues(&plugin_after(vec![upload(1, Some(serving(&["m"])), None, DRAIN)])), ["m"]);
    let kept = vec![upload(1, None, Some(&["a"]), DRAIN), upload(2, None, None, DRAIN)];
    assert_eq!(queues(&plugin_after(kept)), ["a"], "new bytes keep the manifest");
    let stored = vec![first.clone(), upload(2, Some(serving(&["b"])), None, None)];
    assert_eq!(queues(&plugin_after(stored)), ["mailer"], "it is not active yet");
    let mut back = vec![upload(1, Some(serving(&["a"])), None, DRAIN), upload(2, Some(serving(&["b"])), None, DRAIN)];
    assert_eq!(queues(&plugin_after(back.clone())), ["b"]);
    back.push(PluginCommand::Rollback { swap: Swap::Drain });
    assert_eq!(queues(&plugin_after(back)), ["a"]);
}

#[test]
fn a_queue_has_one_plugin_and_the_refusal_names_it() {
    let refused = after(vec![upload(1, None, Some(&["free", "taken"]), DRAIN)], &[]);
    assert_eq!(refused, Err(Refusal::Taken { queue: "taken".into(), plugin: "other".into() }));
    let later =
        vec![upload(1, None, None, DRAIN), PluginCommand::SetManifest { version: None, manifest: serving(&["taken"]) }];
    assert!(matches!(after(later, &[]), Err(Refusal::Taken { .. })));
}

#[test]
fn a_manifest_that_is_set_again_is_another_revision_of_the_same_version() {
    let set = PluginCommand::SetManifest { version: None, manifest: Manifest { reuse: 7, ..Manifest::default() } };
    let plugin = plugin_after(vec![upload(1, None, Some(&["a"]), DRAIN), set]);
    let version = &plugin.versions[0];
    assert_eq!((version.revision, version.manifest.reuse, queues(&plugin)), (1, 7, vec!["a"]));
    let same = plugin_after(vec![upload(1, None, None, DRAIN), upload(1, None, None, DRAIN)]);
    assert_eq!((same.versions.len(), same.versions[0].revision), (1, 0));
}

#[test]
fn what_is_in_use_is_removed_by_force_only() {
    let two = || vec![upload(1, None, None, DRAIN), upload(2, None, None, DRAIN)];
    let with = |command: PluginCommand| [two(), vec![command]].concat();
    let version = |version: u8, force| PluginCommand::RemoveVersion { version: [version; 32], force };
    let in_use = |result: Result<PluginChange, Refusal>| matches!(result, Err(Refusal::InUse { .. }));
    assert!(in_use(after(with(version(2, false)), &[])), "active");
    assert!(in_use(after(with(version(1, false)), &[[1; 32]])), "an attempt runs on it");
    let gone = after(with(version(1, false)), &[[2; 32]]).expect("nobody needs it");
    assert_eq!(gone.plugin.map(|plugin| plugin.versions.len()), Some(1));
    let forced = after(with(version(2, true)), &[[2; 32], [1; 32]]).expect("it is forced");
    assert_eq!(forced.stopped, Some(Stopped { swap: Swap::Now, only: Some([2; 32]) }));
    assert_eq!(forced.plugin.expect("the plugin stays").active, None);

    assert!(in_use(after(with(PluginCommand::Remove { force: false }), &[[1; 32]])));
    let removed = after(with(PluginCommand::Remove { force: true }), &[[1; 32]]).expect("it is forced");
    assert_eq!((removed.plugin, removed.grant), (None, Some(None)), "its grant goes with it");
    assert!(removed.stopped.is_some());
    let quiet = after(with(PluginCommand::Remove { force: false }), &[]).expect("nobody needs it");
    assert_eq!(quiet.stopped, None);
}

#[test]
fn a_canary_is_another_version_than_the_active_one_and_within_bounds() {
    let new = |version: u8| NewCanary {
        version: [version; 32],
        share: 10,
        max_failures_per_mille: 200,
        min_attempts: 20,
        promote_after: None,
    };
    let with = |new: NewCanary| {
        after(vec![upload(1, None, None, DRAIN), upload(2, None, None, None), PluginCommand::StartCanary(new)], &[])
    };
    assert!(with(new(2)).is_ok());
    assert!(with(new(1)).is_err(), "the active one");
    assert!(with(new(3)).is_err(), "not there");
    let field = |new: NewCanary| match with(new) {
        Err(Refusal::Invalid { field, .. }) => field,
        other => panic!("{other:?}"),
    };
    assert_eq!(field(NewCanary { share: 0, ..new(2) }), "share");
    assert_eq!(field(NewCanary { share: 101, ..new(2) }), "share");
    assert_eq!(field(NewCanary { max_failures_per_mille: 1_001, ..new(2) }), "max_failure_rate");
    assert_eq!(field(NewCanary { min_attempts: 0, ..new(2) }), "min_attempts");
    assert_eq!(field(NewCanary { promote_after: Some(5), ..new(2) }), "promote_after");
}

#[test]
fn another_activation_ends_the_canary() {
    let version = [2; 32];
    let new = NewCanary { version, share: 10, max_failures_per_mille: 200, min_attempts: 20, promote_after: None };
    let mut commands = vec![upload(1, None, None, DRAIN), upload(2, None, None, None), PluginCommand::StartCanary(new)];
    for (activated, happening) in [(1, PluginHistoryKind::CanaryStopped), (2, PluginHistoryKind::Promoted)] {
        commands.truncate(3);
        commands.push(PluginCommand::Activate { version: [activated; 32], swap: Swap::Drain });
        let plugin = plugin_after(commands.clone());
        assert_eq!((plugin.canary.clone(), plugin.active), (None, Some([activated; 32])));
        assert!(plugin.history.iter().any(|line| line.happening == happening), "{:?}", plugin.history);
    }
}

#[test]
fn a_grant_can_come_before_its_plugin() {
    let granted = after(vec![PluginCommand::Grant(crate::plugin::grant::Grant::default())], &[]).expect("it is taken");
    assert_eq!((granted.plugin, granted.grant), (None, Some(Some(Default::default()))));
}

#[test]
fn a_digest_survives_its_text_form() {
    let blob = Blob { sha256: [0xa7; 32], len: 1 };
    assert_eq!(parse_digest(&blob.hex()), Some(blob.sha256));
    assert_eq!(parse_digest("a7"), None);
    assert_eq!(parse_digest(&"zz".repeat(32)), None);
}

fn canary(version: u8) -> NewCanary {
    NewCanary { version: [version; 32], share: 10, max_failures_per_mille: 200, min_attempts: 20, promote_after: None }
}

/// Version 1 is active, version 2 is stored.
fn two() -> Vec<PluginCommand> {
    vec![upload(1, None, None, DRAIN), upload(2, None, None, None)]
}

fn happenings(changed: &PluginChange) -> Vec<PluginHistoryKind> {
    let of = |event: &Event| match &event.kind {
        EventKind::Plugin(event) => event.happening,
        other => panic!("{other:?}"),
    };
    changed.events.iter().map(of).collect()
}

#[test]
fn an_activation_says_what_becomes_of_running_attempts() {
    use core::time::Duration;
    let checkpoint = |within| Swap::Checkpoint { within };
    let activate = |version: u8, swap| {
        after([two(), vec![PluginCommand::Activate { version: [version; 32], swap }]].concat(), &[])
    };
    let longest = checkpoint(bounds::LONGEST);
    for (swap, stops) in [(Swap::Drain, false), (longest, true), (Swap::Now, true)] {
        let changed = activate(2, swap).expect("a good version");
        assert_eq!(changed.stopped, stops.then_some(Stopped { swap, only: None }));
        assert_eq!(happenings(&changed), [PluginHistoryKind::Activated]);
    }
    assert_eq!(happenings(&activate(1, Swap::Now).expect("a good version")), [], "it is the active one already");
    for within in [Duration::ZERO, bounds::LONGEST + Duration::from_millis(1)] {
        let refused = activate(2, checkpoint(within));
        assert!(matches!(refused, Err(Refusal::Invalid { field: "deadline", .. })), "{refused:?}");
    }
    assert!(matches!(activate(3, Swap::Drain), Err(Refusal::NotFound { .. })));
}

#[test]
fn only_a_version_from_before_the_active_one_can_be_rolled_back_to() {
    let rollback = PluginCommand::Rollback { swap: Swap::Drain };
    let refused = after(vec![upload(1, None, None, DRAIN), rollback.clone()], &[]);
    assert!(matches!(refused, Err(Refusal::Invalid { field: "version", .. })), "{refused:?}");
    let plugin = plugin_after([two(), vec![upload(3, None, None, DRAIN), rollback]].concat());
    assert_eq!(plugin.active, Some([2; 32]));
}

#[test]
fn the_same_component_with_another_manifest_is_another_revision_and_takes_effect_if_active() {
    let again =
        |version: u8| after([two(), vec![upload(version, Some(serving(&["b", "b"])), None, None)]].concat(), &[]);
    for (version, served) in [(1, "b"), (2, "mailer")] {
        let changed = again(version).expect("a good manifest");
        assert_eq!(happenings(&changed), [PluginHistoryKind::ManifestSet]);
        let plugin = changed.plugin.expect("it is there");
        let stored = plugin.version(&[version; 32]).expect("the version");
        assert_eq!((plugin.versions.len(), stored.revision, queues(&plugin)), (2, 1, vec![served]));
        assert_eq!(stored.manifest.queues.len(), 1, "a queue is served once, however often it is named");
    }
    assert!(matches!(
        after([two(), vec![upload(1, Some(serving(&["taken"])), None, None)]].concat(), &[]),
        Err(Refusal::Taken { .. })
    ));
    let stored = after(vec![upload(1, Some(serving(&["taken"])), None, None)], &[]);
    assert!(stored.is_ok(), "what is not active serves nothing yet");
}

#[test]
fn a_manifest_can_be_set_for_one_version_and_the_active_one_is_meant_otherwise() {
    let set = |version: Option<u8>| PluginCommand::SetManifest {
        version: version.map(|version| [version; 32]),
        manifest: Manifest { reuse: 7, ..Manifest::default() },
    };
    for (version, revisions) in [(None, [1, 0]), (Some(1), [1, 0]), (Some(2), [0, 1])] {
        let plugin = plugin_after([two(), vec![set(version)]].concat());
        assert_eq!([plugin.versions[0].revision, plugin.versions[1].revision], revisions, "{version:?}");
    }
    assert!(after(vec![upload(1, None, None, None), set(None)], &[]).is_err(), "no version is active");
    assert!(after([two(), vec![set(Some(3))]].concat(), &[]).is_err(), "there is no such version");
}

#[test]
fn a_plugin_has_no_more_versions_than_its_bound_and_a_history_as_long_as_its_own() {
    let versions =
        |count: usize| (0..count).map(|version| upload(version as u8, None, None, DRAIN)).collect::<Vec<_>>();
    let plugin = plugin_after(versions(bounds::VERSIONS));
    assert_eq!((plugin.versions.len(), plugin.history.len()), (bounds::VERSIONS, bounds::PLUGIN_HISTORY));
    let last = plugin.history.last().map(|line| (line.happening, line.version));
    assert_eq!(last, Some((PluginHistoryKind::Activated, plugin.active)), "the latest are kept");
    let refused = after(versions(bounds::VERSIONS + 1), &[]);
    assert!(matches!(refused, Err(Refusal::Invalid { field: "version", .. })), "{refused:?}");
    let same = [versions(bounds::VERSIONS), vec![upload(0, None, None, DRAIN)]].concat();
    assert!(after(same, &[]).is_ok(), "it is there already");
}

#[test]
fn a_canary_is_taken_at_its_bounds() {
    let most = bounds::CANARY_ATTEMPTS;
    for new in [
        NewCanary { share: 1, ..canary(2) },
        NewCanary { share: 100, max_failures_per_mille: 1_000, ..canary(2) },
        NewCanary { min_attempts: 1, promote_after: Some(1), ..canary(2) },
        NewCanary { min_attempts: most, promote_after: Some(most), ..canary(2) },
    ] {
        let started = after([two(), vec![PluginCommand::StartCanary(new.clone())]].concat(), &[]);
        assert!(started.is_ok(), "{new:?}: {started:?}");
    }
    let inactive = vec![upload(2, None, None, None), PluginCommand::StartCanary(canary(2))];
    assert!(after(inactive, &[]).is_err(), "there is nothing to compare it with");
}

#[test]
fn a_canary_ends_by_hand_or_when_another_takes_its_place() {
    let begin = |version| PluginCommand::StartCanary(canary(version));
    for (promote, happening, active) in
        [(true, PluginHistoryKind::Promoted, [2; 32]), (false, PluginHistoryKind::CanaryStopped, [1; 32])]
    {
        let ended =
            after([two(), vec![begin(2), PluginCommand::EndCanary { promote }]].concat(), &[]).expect("it ends");
        assert_eq!(happenings(&ended), [happening]);
        let plugin = ended.plugin.expect("it is there");
        assert_eq!((plugin.canary, plugin.active), (None, Some(active)));
    }
    let another = [two(), vec![upload(3, None, None, None), begin(2), begin(3)]].concat();
    let changed = after(another, &[]).expect("another canary");
    assert_eq!(happenings(&changed), [PluginHistoryKind::CanaryStopped, PluginHistoryKind::CanaryStarted]);
    assert!(after([two(), vec![PluginCommand::EndCanary { promote: true }]].concat(), &[]).is_err(), "there is none");
}

#[test]
fn a_version_in_use_is_refused_with_what_uses_it_and_leaves_no_trace_when_removed() {
    let begin = || [two(), vec![upload(3, None, None, None), PluginCommand::StartCanary(canary(2))]].concat();
    let remove = |version: u8, force, running: &[Digest]| {
        after([begin(), vec![PluginCommand::RemoveVersion { version: [version; 32], force }]].concat(), running)
    };
    for (version, running, words) in [
        (1, &[][..], "it is the active one"),
        (2, &[], "it is the canary"),
        (3, &[[3; 32], [1; 32]], "1 attempt runs on it"),
        (3, &[[3; 32], [3; 32]], "2 attempts run on it"),
    ] {
        let Err(Refusal::InUse { used_by, .. }) = remove(version, false, running) else { panic!("{words}") };
        assert_eq!(used_by, words);
    }
    for (version, active, has_canary) in [(1, None, true), (2, Some([1; 32]), false), (3, Some([1; 32]), true)] {
        let removed = remove(version, true, &[]).expect("it is forced");
        assert_eq!((removed.stopped.clone(), happenings(&removed)), (None, vec![PluginHistoryKind::VersionRemoved]));
        let plugin = removed.plugin.expect("the plugin stays");
        assert_eq!((plugin.active, plugin.canary.is_some()), (active, has_canary), "version {version}");
    }
}

#[test]
fn a_grant_is_an_event_of_a_plugin_that_exists() {
    let grant = || PluginCommand::Grant(crate::plugin::grant::Grant::default());
    let granted = after(vec![upload(1, None, None, DRAIN), grant()], &[]).expect("it is taken");
    assert_eq!(happenings(&granted), [PluginHistoryKind::Granted]);
}

#[test]
fn text_that_is_no_digest_is_none() {
    for text in ["a".repeat(63), "a".repeat(65), "ä".repeat(32), "g".repeat(64)] {
        assert_eq!(parse_digest(&text), None, "{text}");
    }
    assert_eq!(parse_digest(&"0f".repeat(32)), Some([15; 32]));
}
