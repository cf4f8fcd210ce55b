//! Who may speak for an attempt: the holder of its token, now; not one from before, and not a stranger.

use core::time::Duration;

use crate::decide::tests::{Desk, STRANGER, beat, complete, fail, hand_back, here, outside, plain, policy, watch};
use crate::{Command, NewJob, PolicyChoice, Refusal, Reply, Retry, State, Word};

fn refused(desk: &mut Desk, command: Command) {
    let before = desk.job().clone();
    let answer = desk.ask(command.clone());
    assert!(matches!(answer, Err(Refusal::NotActive { .. })), "{command:?}: {answer:?}");
    assert_eq!(desk.job(), &before);
}

#[test]
fn a_late_word_changes_nothing() {
    let mut desk = Desk::with(plain());
    let late = desk.start(outside());
    desk.ask(hand_back(late)).expect("its own word");
    let making: [fn(Word) -> Command; 4] = [complete, |word| fail(word, Retry::Never), hand_back, beat];
    for make in making {
        refused(&mut desk, make(late));
    }
    let live = desk.start(outside());
    assert_ne!(live, late);
    for make in making {
        refused(&mut desk, make(late));
        refused(&mut desk, make(STRANGER));
    }
    desk.ask(complete(live)).expect("its own word");
}

#[test]
fn the_fence_rises_with_every_claim_and_a_retry_by_hand_does_not_lower_it() {
    let mut desk = Desk::with(plain());
    let first = desk.start(outside());
    desk.ask(complete(first)).expect("its own word");
    desk.ask(Command::Retry).expect("it has ended");
    assert_eq!((desk.job().attempt, desk.job().fence), (0, 1));
    desk.start(outside());
    assert_eq!((desk.job().attempt, desk.job().fence), (1, 2));
    refused(&mut desk, complete(first));
}

#[test]
fn the_ack_that_ended_the_job_is_answered_again_and_another_is_not() {
    let mut desk = Desk::with(plain());
    let word = desk.start(outside());
    desk.ask(complete(word)).expect("its own word");
    for again in [word, Word::Unsigned] {
        assert_eq!(desk.ask(complete(again)).expect("told before"), Reply::Unchanged);
    }
    refused(&mut desk, complete(STRANGER));
    refused(&mut desk, fail(word, Retry::Backoff));
}

#[test]
fn a_word_without_a_token_counts_for_an_attempt_outside_only() {
    let mut desk = Desk::with(plain());
    let word = desk.start(here());
    refused(&mut desk, complete(Word::Unsigned));
    desk.ask(hand_back(word)).expect("its own word");
    desk.start(outside());
    desk.ask(complete(Word::Unsigned)).expect("it is the only lease");
    assert_eq!(desk.state(), State::Completed);
}

#[test]
fn a_heartbeat_moves_the_lease_and_silence_ends_it() {
    let mut desk = Desk::with(plain());
    let word = desk.start(outside());
    for _ in 0..5 {
        desk.pass(50);
        desk.ask(watch()).expect("never refused");
        desk.ask(beat(word)).expect("its own word");
        assert_eq!(desk.state(), State::Active);
    }
    desk.pass(60);
    desk.ask(watch()).expect("never refused");
    assert_eq!(desk.state(), State::Pending);
}

#[test]
fn silence_is_not_counted_while_the_server_was_down() {
    let mut desk = Desk::with(plain());
    desk.start(outside());
    desk.pass(3600);
    let alive_from = desk.now;
    desk.ask(Command::Watch { alive_from }).expect("never refused");
    assert_eq!(desk.state(), State::Active);
    desk.pass(60);
    desk.ask(Command::Watch { alive_from }).expect("never refused");
    assert_eq!(desk.state(), State::Pending);
}

#[test]
fn a_limit_of_the_attempt_ends_it_though_heartbeats_come() {
    let spans = |choice: PolicyChoice| policy(choice);
    let minute = Some(Duration::from_secs(60));
    let cases: [(NewJob, State); 2] = [
        (spans(PolicyChoice { attempt_timeout: minute, ..PolicyChoice::default() }), State::Retrying),
        (spans(PolicyChoice { max_duration: minute, ..PolicyChoice::default() }), State::Dead),
    ];
    for (new, expected) in cases {
        let mut desk = Desk::with(new);
        let word = desk.start(outside());
        desk.pass(59);
        desk.ask(beat(word)).expect("its own word");
        desk.ask(watch()).expect("never refused");
        assert_eq!(desk.state(), State::Active);
        desk.pass(1);
        desk.ask(watch()).expect("never refused");
        assert_eq!(desk.state(), expected);
    }
}

#[test]
fn a_limit_that_passed_while_the_job_waited_is_looked_at_at_once() {
    let mut desk =
        Desk::with(policy(PolicyChoice { max_duration: Some(Duration::from_secs(60)), ..PolicyChoice::default() }));
    let word = desk.start(outside());
    desk.ask(hand_back(word)).expect("its own word");
    desk.pass(3600);
    desk.start(outside());
    let watch_at = desk.job().run.as_ref().and_then(|run| run.watch_at);
    assert_eq!(watch_at, Some(desk.now), "a timer in the past would be lost by a restart");
}
