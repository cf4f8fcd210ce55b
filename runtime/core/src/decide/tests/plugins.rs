//! Attempts of a plugin whose versions come and go: swaps, canaries, and jobs that stay with what can read their checkpoint.

use core::time::Duration;

use crate::decide::tests::{Desk, beat, cancel, complete, fail, hand_back, here, plain, queue, watch};
use crate::flow::OnFailure;
use crate::plugin::manifest::{Manifest, Retry as ManifestRetry};
use crate::{
    AfterStop, Blob, Body, Checkpoint, Command, Effect, EventKind, Happening, NewCanary, Plugin, PluginCommand,
    PluginFacts, Reply, Retry, Runner, State, Swap, Usage, Word, change_plugin,
};

/// Does something to the plugin on the desk.
fn ask(desk: &mut Desk, command: PluginCommand) {
    let facts = PluginFacts { plugin: desk.plugin.as_ref(), running: &[], taken: &|_| None };
    desk.plugin = change_plugin(&queue("sender"), command, &facts, desk.now).expect("a good wish").plugin;
}

fn component(version: u8) -> Blob {
    Blob { sha256: [version; 32], len: 10 }
}

fn upload(desk: &mut Desk, version: u8, manifest: Manifest, swap: Option<Swap>) {
    let component = component(version);
    let manifest = Some(manifest);
    let command = PluginCommand::Upload { component, imports: Vec::new(), manifest, queues: None, by: None, swap };
    ask(desk, command);
}

/// A desk with a job, and a plugin of two versions: 1 is active, 2 is there.
fn two_versions() -> Desk {
    let mut desk = Desk::with(plain());
    upload(&mut desk, 1, Manifest::default(), Some(Swap::Drain));
    upload(&mut desk, 2, Manifest::default(), None);
    desk
}

fn plugin(desk: &Desk) -> &Plugin {
    desk.plugin.as_ref().expect("a plugin")
}

fn version_of(desk: &Desk) -> u8 {
    let run = desk.job().run.as_ref().expect("it runs");
    let Runner::Local { version, .. } = &run.runner else { panic!("it runs here") };
    u8::from_str_radix(&version[..2], 16).expect("a digest")
}

fn save(word: Word, schema: u32) -> Command {
    let usage = Usage { cpu_ms: 3, ..Usage::default() };
    let checkpoint = Some(Checkpoint { body: Body::Inline("state".into()), schema, usage });
    Command::Beat { word, progress: None, checkpoint, spent: None, notes: None }
}

fn canary(desk: &mut Desk, share: u32, max_failures_per_mille: u32, min_attempts: u32, promote_after: Option<u32>) {
    let version = [2; 32];
    let new = NewCanary { version, share, max_failures_per_mille, min_attempts, promote_after };
    ask(desk, PluginCommand::StartCanary(new));
}

#[test]
fn an_attempt_is_handed_over_with_the_checkpoint_it_saves() {
    let mut desk = two_versions();
    let word = desk.start(here());
    ask(&mut desk, PluginCommand::Activate { version: [2; 32], swap: Swap::Drain });
    let by = Some(desk.now + Duration::from_secs(30));
    assert_eq!(desk.ask(Command::Swap { by }), Ok(Reply::Stopping));
    desk.ask(beat(word)).expect("a sign of life changes nothing");
    assert_eq!(desk.state(), State::Active);
    assert_eq!(desk.ask(save(word, 0)), Ok(Reply::HandedBack));
    assert_eq!((desk.state(), desk.job().failures), (State::Pending, 0));
    assert!(!desk.job().checkpoint.is_none());
    let ran = desk.job().timeline.steps.last().and_then(|step| step.ran.clone()).expect("what it took is told");
    assert_eq!((ran.usage.cpu_ms, ran.runner.is_local()), (3, true));
    assert!(desk.ask(complete(word)).is_err(), "its attempt is over");
    desk.start(here());
    assert_eq!(version_of(&desk), 2);
}

#[test]
fn a_swap_that_waits_too_long_stops_the_attempt_and_charges_nobody() {
    let mut desk = two_versions();
    let word = desk.start(here());
    let by = desk.now + Duration::from_secs(30);
    desk.ask(Command::Swap { by: Some(by) }).expect("it runs here");
    assert_eq!(desk.job().run.as_ref().and_then(|run| run.watch_at), Some(by));
    desk.ask(watch()).expect("never refused");
    assert!(desk.effects.is_empty(), "it has time left");
    desk.pass(30);
    desk.ask(watch()).expect("never refused");
    assert!(matches!(&desk.effects[..], [Effect::Stop { why: AfterStop::Swap, .. }]), "{:?}", desk.effects);
    assert_eq!(desk.job().run.as_ref().and_then(|run| run.watch_at), None, "no timer is left behind");
    assert!(!desk.events.contains(&EventKind::Cancelling), "nobody cancels it");
    desk.ask(hand_back(word)).expect("its own word");
    assert_eq!((desk.state(), desk.job().failures, desk.errors), (State::Pending, 0, 0));
}

#[test]
fn what_ends_by_itself_during_a_swap_ends_as_it_would() {
    type Making = fn(Word) -> Command;
    let table: [(Making, State); 4] = [
        (
            |word| Command::Wait {
                word,
                on_child_failure: OnFailure::Fail,
                checkpoint: None,
                usage: Usage::default(),
                notes: None,
            },
            State::Blocked,
        ),
        (complete, State::Completed),
        (|word| fail(word, Retry::Never), State::Dead),
        (|word| fail(word, Retry::Backoff), State::Retrying),
    ];
    for (make, expected) in table {
        let mut desk = two_versions();
        let word = desk.start(here());
        desk.ask(Command::Swap { by: None }).expect("it runs here");
        desk.ask(make(word)).expect("its own word");
        assert_eq!(desk.state(), expected);
    }
}

#[test]
fn a_cancel_weighs_more_than_a_swap_and_is_told() {
    let mut desk = two_versions();
    let word = desk.start(here());
    desk.ask(Command::Swap { by: None }).expect("it runs here");
    desk.ask(cancel()).expect("it runs");
    assert!(desk.events.contains(&EventKind::Cancelling));
    desk.ask(Command::Swap { by: None }).expect("changes nothing");
    desk.ask(hand_back(word)).expect("its own word");
    assert_eq!(desk.state(), State::Cancelled);
}

#[test]
fn a_job_stays_with_the_version_that_reads_its_checkpoint_and_says_so() {
    let mut desk = Desk::with(plain());
    upload(&mut desk, 1, Manifest::default(), Some(Swap::Drain));
    let word = desk.start(here());
    desk.ask(save(word, 3)).expect("its own word");
    upload(&mut desk, 2, Manifest { schemas: Some(vec![4]), ..Manifest::default() }, Some(Swap::Drain));
    // Neither at once nor at its next checkpoint.
    assert_eq!(desk.ask(Command::Swap { by: None }), Ok(Reply::Unchanged));
    desk.ask(hand_back(word)).expect("its own word");
    let word = desk.start(here());
    assert_eq!(version_of(&desk), 1);
    assert!(desk.job().pinned.is_some() && desk.reason().contains("schema 3"), "{}", desk.reason());
    // Once it saves what the new one reads, it goes over.
    desk.ask(save(word, 4)).expect("its own word");
    desk.ask(hand_back(word)).expect("its own word");
    desk.start(here());
    assert_eq!((version_of(&desk), &desk.job().pinned), (2, &None));
}

#[test]
fn an_attempt_asked_for_its_checkpoint_goes_on_when_the_new_version_cannot_read_it() {
    let mut desk = Desk::with(plain());
    upload(&mut desk, 1, Manifest::default(), Some(Swap::Drain));
    let word = desk.start(here());
    upload(&mut desk, 2, Manifest { schemas: Some(vec![4]), ..Manifest::default() }, Some(Swap::Drain));
    desk.ask(Command::Swap { by: Some(desk.now + Duration::from_secs(9)) }).expect("it has saved nothing yet");
    assert!(matches!(desk.ask(save(word, 3)), Ok(Reply::Beat { .. })));
    assert_eq!((desk.state(), desk.job().run.as_ref().and_then(|run| run.watch_at)), (State::Active, None));
    assert!(desk.job().pinned.is_some() && desk.reason().contains("schema 3"), "{}", desk.reason());
}

#[test]
fn a_failure_on_a_canary_is_not_the_jobs_whatever_it_says() {
    for retry in [Retry::Never, Retry::Backoff] {
        let mut desk = two_versions();
        canary(&mut desk, 100, 1_000, 20, None);
        let word = desk.start(here());
        assert_eq!(version_of(&desk), 2);
        // The trial may end while the attempt runs.
        ask(&mut desk, PluginCommand::EndCanary { promote: false });
        desk.ask(fail(word, retry)).expect("its own word");
        assert_eq!((desk.state(), desk.job().failures, desk.errors), (State::Pending, 0, 1));
        desk.start(here());
        assert_eq!(version_of(&desk), 1, "tried again on the version that is known to work");
    }
}

#[test]
fn a_job_that_failed_on_the_canary_goes_to_the_active_version_while_the_canary_goes_on() {
    let mut desk = two_versions();
    canary(&mut desk, 100, 1_000, 20, None);
    let word = desk.start(here());
    desk.ask(fail(word, Retry::Backoff)).expect("its own word");
    let word = desk.start(here());
    assert_eq!(version_of(&desk), 1);
    desk.ask(fail(word, Retry::Never)).expect("its own word");
    assert_eq!(desk.state(), State::Dead, "there its word counts");
}

/// Runs attempts of fresh jobs until there are no more outcomes; `x` fails.
fn run(desk: &mut Desk, outcomes: &str) -> Vec<u8> {
    let mut versions = Vec::new();
    for outcome in outcomes.chars() {
        desk.ask(Command::Enqueue(Box::new(plain()))).expect("a good job");
        let word = desk.start(here());
        versions.push(version_of(desk));
        let end = if outcome == 'x' { fail(word, Retry::Backoff) } else { complete(word) };
        desk.ask(end).expect("its own word");
    }
    versions
}

#[test]
fn a_canary_gets_its_share_of_attempts_exactly() {
    for (share, expected) in [(10, 10), (33, 33), (1, 1), (100, 100)] {
        let mut desk = two_versions();
        canary(&mut desk, share, 1_000, 20, None);
        let versions = run(&mut desk, &"o".repeat(100));
        assert_eq!(versions.iter().filter(|version| **version == 2).count(), expected);
        let canary = plugin(&desk).canary.clone().expect("it goes on");
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
        ("xx", 4, None, Some(Happening::RolledBack)),
        ("ooxoxo", 4, None, Some(Happening::RolledBack)),
        ("oooo", 4, Some(4), Some(Happening::Promoted)),
        ("ooox", 4, Some(4), Some(Happening::Promoted)),
    ];
    for (outcomes, min_attempts, promote_after, expected) in table {
        let mut desk = two_versions();
        canary(&mut desk, 100, 250, min_attempts, promote_after);
        run(&mut desk, outcomes);
        let last = plugin(&desk).history.last().expect("a history").happening;
        let over = plugin(&desk).canary.is_none().then_some(last);
        assert_eq!(over, expected, "{outcomes}: {:?}", plugin(&desk).history);
        let active = if expected == Some(Happening::Promoted) { [2; 32] } else { [1; 32] };
        assert_eq!(plugin(&desk).active, Some(active), "{outcomes}");
        let told = desk
            .events
            .iter()
            .any(|kind| matches!(kind, EventKind::Plugin(event) if Some(event.happening) == expected));
        assert_eq!(told, expected.is_some(), "{outcomes}");
    }
}

#[test]
fn a_plugins_retry_policy_is_below_the_jobs_and_the_queues() {
    let retry = ManifestRetry { max_retries: Some(9), ..ManifestRetry::default() };
    let mut desk = Desk::new();
    upload(&mut desk, 1, Manifest { retry, ..Manifest::default() }, Some(Swap::Drain));
    desk.ask(Command::Enqueue(Box::new(plain()))).expect("a good job");
    assert_eq!(desk.job().policy.max_retries, 9);
    desk.settings.defaults.max_retries = Some(5);
    desk.ask(Command::Enqueue(Box::new(plain()))).expect("a good job");
    assert_eq!(desk.job().policy.max_retries, 5);
    let mut own = plain();
    own.policy.max_retries = Some(2);
    desk.ask(Command::Enqueue(Box::new(own))).expect("a good job");
    assert_eq!(desk.job().policy.max_retries, 2);
}
