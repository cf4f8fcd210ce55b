//! Attempts of a plugin whose versions come and go: swaps, canaries, and jobs that stay with what can read their
//! checkpoint.

use core::time::Duration;

use crate::decide::tests::{Fixture, cancel, complete, fail, hand_back, heartbeat, here, plain, queue, watch};
use crate::flow::OnFailure;
use crate::plugin::manifest::{Manifest, Retry as ManifestRetry};
use crate::{
    AfterStop, Blob, Body, Checkpoint, Command, Effect, EventKind, Heartbeat, Holder, NewCanary, Plugin, PluginCommand,
    PluginFacts, PluginHistoryKind, Reply, Retry, Runner, State, Swap, Usage, Wait, change_plugin,
};

/// Does something to the plugin on the desk.
fn ask(fixture: &mut Fixture, command: PluginCommand) {
    let facts = PluginFacts { plugin: fixture.plugin.as_ref(), running: &[], by: None, taken: &|_| None };
    fixture.plugin = change_plugin(&queue("sender"), command, &facts, fixture.now).expect("a valid command").plugin;
}

fn component(version: u8) -> Blob {
    Blob { sha256: [version; 32], len: 10 }
}

fn upload(fixture: &mut Fixture, version: u8, manifest: Manifest, swap: Option<Swap>) {
    let component = component(version);
    let manifest = Some(manifest);
    let command = PluginCommand::Upload { component, imports: Vec::new(), manifest, queues: None, by: None, swap };
    ask(fixture, command);
}

/// A desk with a job, and a plugin of two versions: 1 is active, 2 is there.
fn two_versions() -> Fixture {
    let mut fixture = Fixture::with(plain());
    upload(&mut fixture, 1, Manifest::default(), Some(Swap::Drain));
    upload(&mut fixture, 2, Manifest::default(), None);
    fixture
}

fn plugin(fixture: &Fixture) -> &Plugin {
    fixture.plugin.as_ref().expect("a plugin")
}

fn version_of(fixture: &Fixture) -> u8 {
    let run = fixture.job().run.as_ref().expect("it runs");
    let Runner::Local { version, .. } = &run.runner else { panic!("it runs here") };
    u8::from_str_radix(&version[..2], 16).expect("a digest")
}

fn save(holder: Holder, schema: u32) -> Command {
    let usage = Usage { cpu_ms: 3, ..Usage::default() };
    let checkpoint = Some(Checkpoint { body: Body::Inline("state".into()), schema, usage });
    Command::Heartbeat(Heartbeat { checkpoint, ..Heartbeat::by(holder) })
}

fn canary(
    fixture: &mut Fixture,
    share: u32,
    max_failures_per_mille: u32,
    min_attempts: u32,
    promote_after: Option<u32>,
) {
    let version = [2; 32];
    let new = NewCanary { version, share, max_failures_per_mille, min_attempts, promote_after };
    ask(fixture, PluginCommand::StartCanary(new));
}

#[test]
fn an_attempt_is_handed_over_with_the_checkpoint_it_saves() {
    let mut fixture = two_versions();
    let holder = fixture.start(here());
    ask(&mut fixture, PluginCommand::Activate { version: [2; 32], swap: Swap::Drain });
    let by = Some(fixture.now + Duration::from_secs(30));
    assert_eq!(fixture.ask(Command::Swap { by }), Ok(Reply::Stopping));
    fixture.ask(heartbeat(holder)).expect("a sign of life changes nothing");
    assert_eq!(fixture.state(), State::Active);
    assert_eq!(fixture.ask(save(holder, 0)), Ok(Reply::HandedBack));
    assert_eq!((fixture.state(), fixture.job().failures), (State::Pending, 0));
    assert!(!fixture.job().checkpoint.is_none());
    let ran = fixture.job().timeline.steps.last().and_then(|step| step.ran.clone()).expect("what it took is told");
    assert_eq!((ran.usage.cpu_ms, ran.runner.is_local()), (3, true));
    assert!(fixture.ask(complete(holder)).is_err(), "its attempt is over");
    fixture.start(here());
    assert_eq!(version_of(&fixture), 2);
}

#[test]
fn a_swap_that_waits_too_long_stops_the_attempt_and_charges_nobody() {
    let mut fixture = two_versions();
    let holder = fixture.start(here());
    let by = fixture.now + Duration::from_secs(30);
    fixture.ask(Command::Swap { by: Some(by) }).expect("it runs here");
    assert_eq!(fixture.job().run.as_ref().and_then(|run| run.watch_at), Some(by));
    fixture.ask(watch()).expect("never refused");
    assert!(fixture.effects.is_empty(), "it has time left");
    fixture.pass(30);
    fixture.ask(watch()).expect("never refused");
    assert!(matches!(&fixture.effects[..], [Effect::Stop { why: AfterStop::Swap, .. }]), "{:?}", fixture.effects);
    assert_eq!(fixture.job().run.as_ref().and_then(|run| run.watch_at), None, "no timer is left behind");
    assert!(!fixture.events.contains(&EventKind::Cancelling), "nobody cancels it");
    fixture.ask(hand_back(holder)).expect("the attempt holds the job");
    assert_eq!((fixture.state(), fixture.job().failures, fixture.errors), (State::Pending, 0, 0));
}

#[test]
fn what_ends_by_itself_during_a_swap_ends_as_it_would() {
    type MakeCommand = fn(Holder) -> Command;
    let table: [(MakeCommand, State); 4] = [
        (
            |holder| {
                Command::Wait(Wait {
                    holder,
                    on_child_failure: OnFailure::Fail,
                    checkpoint: None,
                    usage: Usage::default(),
                    notes: None,
                })
            },
            State::Blocked,
        ),
        (complete, State::Completed),
        (|holder| fail(holder, Retry::Never), State::Dead),
        (|holder| fail(holder, Retry::Backoff), State::Retrying),
    ];
    for (make, expected) in table {
        let mut fixture = two_versions();
        let holder = fixture.start(here());
        fixture.ask(Command::Swap { by: None }).expect("it runs here");
        fixture.ask(make(holder)).expect("the attempt holds the job");
        assert_eq!(fixture.state(), expected);
    }
}

#[test]
fn a_cancel_weighs_more_than_a_swap_and_is_told() {
    let mut fixture = two_versions();
    let holder = fixture.start(here());
    fixture.ask(Command::Swap { by: None }).expect("it runs here");
    fixture.ask(cancel()).expect("it runs");
    assert!(fixture.events.contains(&EventKind::Cancelling));
    fixture.ask(Command::Swap { by: None }).expect("changes nothing");
    fixture.ask(hand_back(holder)).expect("the attempt holds the job");
    assert_eq!(fixture.state(), State::Cancelled);
}

#[test]
fn a_job_stays_with_the_version_that_reads_its_checkpoint_and_says_so() {
    let mut fixture = Fixture::with(plain());
    upload(&mut fixture, 1, Manifest::default(), Some(Swap::Drain));
    let holder = fixture.start(here());
    fixture.ask(save(holder, 3)).expect("the attempt holds the job");
    upload(&mut fixture, 2, Manifest { schemas: Some(vec![4]), ..Manifest::default() }, Some(Swap::Drain));
    // Neither at once nor at its next checkpoint.
    assert_eq!(fixture.ask(Command::Swap { by: None }), Ok(Reply::Unchanged));
    fixture.ask(hand_back(holder)).expect("the attempt holds the job");
    let holder = fixture.start(here());
    assert_eq!(version_of(&fixture), 1);
    assert!(fixture.job().pinned.is_some() && fixture.reason().contains("schema 3"), "{}", fixture.reason());
    // Once it saves a checkpoint that the new version reads, it is handed over.
    fixture.ask(save(holder, 4)).expect("the attempt holds the job");
    fixture.ask(hand_back(holder)).expect("the attempt holds the job");
    fixture.start(here());
    assert_eq!((version_of(&fixture), &fixture.job().pinned), (2, &None));
}

#[test]
fn an_attempt_asked_for_its_checkpoint_goes_on_when_the_new_version_cannot_read_it() {
    let mut fixture = Fixture::with(plain());
    upload(&mut fixture, 1, Manifest::default(), Some(Swap::Drain));
    let holder = fixture.start(here());
    upload(&mut fixture, 2, Manifest { schemas: Some(vec![4]), ..Manifest::default() }, Some(Swap::Drain));
    fixture.ask(Command::Swap { by: Some(fixture.now + Duration::from_secs(9)) }).expect("it has saved nothing yet");
    assert!(matches!(fixture.ask(save(holder, 3)), Ok(Reply::Heartbeat { .. })));
    assert_eq!((fixture.state(), fixture.job().run.as_ref().and_then(|run| run.watch_at)), (State::Active, None));
    assert!(fixture.job().pinned.is_some() && fixture.reason().contains("schema 3"), "{}", fixture.reason());
}

#[test]
fn a_failure_on_a_canary_is_not_the_jobs_whatever_it_says() {
    for retry in [Retry::Never, Retry::Backoff] {
        let mut fixture = two_versions();
        canary(&mut fixture, 100, 1_000, 20, None);
        let holder = fixture.start(here());
        assert_eq!(version_of(&fixture), 2);
        // The trial may end while the attempt runs.
        ask(&mut fixture, PluginCommand::EndCanary { promote: false });
        fixture.ask(fail(holder, retry)).expect("the attempt holds the job");
        assert_eq!((fixture.state(), fixture.job().failures, fixture.errors), (State::Pending, 0, 1));
        fixture.start(here());
        assert_eq!(version_of(&fixture), 1, "tried again on the version that is known to work");
    }
}

#[test]
fn a_job_that_failed_on_the_canary_goes_to_the_active_version_while_the_canary_goes_on() {
    let mut fixture = two_versions();
    canary(&mut fixture, 100, 1_000, 20, None);
    let holder = fixture.start(here());
    fixture.ask(fail(holder, Retry::Backoff)).expect("the attempt holds the job");
    let holder = fixture.start(here());
    assert_eq!(version_of(&fixture), 1);
    fixture.ask(fail(holder, Retry::Never)).expect("the attempt holds the job");
    assert_eq!(fixture.state(), State::Dead, "there its holder counts");
}

/// Runs attempts of fresh jobs until there are no more outcomes; `x` fails.
fn run(fixture: &mut Fixture, outcomes: &str) -> Vec<u8> {
    let mut versions = Vec::new();
    for outcome in outcomes.chars() {
        fixture.enqueue(plain()).expect("a good job");
        let holder = fixture.start(here());
        versions.push(version_of(fixture));
        let end = if outcome == 'x' { fail(holder, Retry::Backoff) } else { complete(holder) };
        fixture.ask(end).expect("the attempt holds the job");
    }
    versions
}

#[test]
fn a_canary_gets_its_share_of_attempts_exactly() {
    for (share, expected) in [(10, 10), (33, 33), (1, 1), (100, 100)] {
        let mut fixture = two_versions();
        canary(&mut fixture, share, 1_000, 20, None);
        let versions = run(&mut fixture, &"o".repeat(100));
        assert_eq!(versions.iter().filter(|version| **version == 2).count(), expected);
        let canary = plugin(&fixture).canary.clone().expect("it goes on");
        assert_eq!((canary.seen, canary.ended, canary.failed), (100, expected as u32, 0));
    }
}

#[test]
fn a_canary_is_taken_back_or_promoted_by_its_failures() {
    // outcomes, min_attempts, promote_after, what becomes of it after them all
    let table = [
        ("oooo", 4, None, None),
        ("xooo", 4, None, None),
        // Two of four is more than the quarter, and no later success could change it.
        ("xx", 4, None, Some(PluginHistoryKind::RolledBack)),
        ("ooxoxo", 4, None, Some(PluginHistoryKind::RolledBack)),
        ("oooo", 4, Some(4), Some(PluginHistoryKind::Promoted)),
        ("ooox", 4, Some(4), Some(PluginHistoryKind::Promoted)),
    ];
    for (outcomes, min_attempts, promote_after, expected) in table {
        let mut fixture = two_versions();
        canary(&mut fixture, 100, 250, min_attempts, promote_after);
        run(&mut fixture, outcomes);
        let last = plugin(&fixture).history.last().expect("a history").happening;
        let over = plugin(&fixture).canary.is_none().then_some(last);
        assert_eq!(over, expected, "{outcomes}: {:?}", plugin(&fixture).history);
        let active = if expected == Some(PluginHistoryKind::Promoted) { [2; 32] } else { [1; 32] };
        assert_eq!(plugin(&fixture).active, Some(active), "{outcomes}");
        let told = fixture
            .events
            .iter()
            .any(|kind| matches!(kind, EventKind::Plugin(event) if Some(event.happening) == expected));
        assert_eq!(told, expected.is_some(), "{outcomes}");
    }
}

#[test]
fn a_plugins_retry_policy_is_below_the_jobs_and_the_queues() {
    let retry = ManifestRetry { max_attempts: Some(9), ..ManifestRetry::default() };
    let mut fixture = Fixture::new();
    upload(&mut fixture, 1, Manifest { retry, ..Manifest::default() }, Some(Swap::Drain));
    fixture.enqueue(plain()).expect("a good job");
    assert_eq!(fixture.job().policy.max_attempts, 9);
    fixture.settings.defaults.max_attempts = Some(5);
    fixture.enqueue(plain()).expect("a good job");
    assert_eq!(fixture.job().policy.max_attempts, 5);
    let mut own = plain();
    own.policy.max_attempts = Some(2);
    fixture.enqueue(own).expect("a good job");
    assert_eq!(fixture.job().policy.max_attempts, 2);
}
