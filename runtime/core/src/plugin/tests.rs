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
        let taken = |queue: &QueueName| (queue.as_str() == "taken").then(|| "other".to_owned());
        let facts = PluginFacts { plugin: plugin.as_ref(), running, taken: &taken };
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
