//! Who may report for an attempt: the current holder of its token; no earlier holder, and nobody without a token.

use core::time::Duration;

use crate::decide::tests::{
    Fixture, STRANGER, complete, fail, hand_back, heartbeat, here, outside, plain, policy, watch,
};
use crate::{Command, Holder, NewJob, PolicyChoice, Refusal, Reply, Retry, State};

fn refused(fixture: &mut Fixture, command: Command) {
    let before = fixture.job().clone();
    let answer = fixture.ask(command.clone());
    assert!(matches!(answer, Err(Refusal::NotActive { .. })), "{command:?}: {answer:?}");
    assert_eq!(fixture.job(), &before);
}

#[test]
fn a_late_word_changes_nothing() {
    let mut fixture = Fixture::with(plain());
    let late = fixture.start(outside());
    fixture.ask(hand_back(late)).expect("the attempt holds the job");
    let making: [fn(Holder) -> Command; 4] = [complete, |holder| fail(holder, Retry::Never), hand_back, heartbeat];
    for make in making {
        refused(&mut fixture, make(late));
    }
    let live = fixture.start(outside());
    assert_ne!(live, late);
    for make in making {
        refused(&mut fixture, make(late));
        refused(&mut fixture, make(STRANGER));
    }
    fixture.ask(complete(live)).expect("the attempt holds the job");
}

#[test]
fn the_fence_rises_with_every_claim_and_a_retry_by_hand_does_not_lower_it() {
    let mut fixture = Fixture::with(plain());
    let first = fixture.start(outside());
    fixture.ask(complete(first)).expect("the attempt holds the job");
    fixture.ask(Command::Retry).expect("it has ended");
    assert_eq!((fixture.job().attempt, fixture.job().fence), (0, 1));
    fixture.start(outside());
    assert_eq!((fixture.job().attempt, fixture.job().fence), (1, 2));
    refused(&mut fixture, complete(first));
}

#[test]
fn the_ack_that_ended_the_job_is_answered_again_and_another_is_not() {
    let mut fixture = Fixture::with(plain());
    let holder = fixture.start(outside());
    fixture.ask(complete(holder)).expect("the attempt holds the job");
    for again in [holder, Holder::Unsigned] {
        assert_eq!(fixture.ask(complete(again)).expect("answered before"), Reply::Unchanged);
    }
    refused(&mut fixture, complete(STRANGER));
    refused(&mut fixture, fail(holder, Retry::Backoff));
}

#[test]
fn a_word_without_a_token_counts_for_an_attempt_outside_only() {
    let mut fixture = Fixture::with(plain());
    let holder = fixture.start(here());
    refused(&mut fixture, complete(Holder::Unsigned));
    fixture.ask(hand_back(holder)).expect("the attempt holds the job");
    fixture.start(outside());
    fixture.ask(complete(Holder::Unsigned)).expect("it is the only lease");
    assert_eq!(fixture.state(), State::Completed);
}

#[test]
fn a_heartbeat_moves_the_lease_and_silence_ends_it() {
    let mut fixture = Fixture::with(plain());
    let holder = fixture.start(outside());
    for _ in 0..5 {
        fixture.pass(50);
        fixture.ask(watch()).expect("never refused");
        fixture.ask(heartbeat(holder)).expect("the attempt holds the job");
        assert_eq!(fixture.state(), State::Active);
    }
    fixture.pass(60);
    fixture.ask(watch()).expect("never refused");
    assert_eq!(fixture.state(), State::Pending);
}

#[test]
fn silence_is_not_counted_while_the_server_was_down() {
    let mut fixture = Fixture::with(plain());
    fixture.start(outside());
    fixture.pass(3600);
    let alive_from = fixture.now;
    fixture.ask(Command::Watch { alive_from }).expect("never refused");
    assert_eq!(fixture.state(), State::Active);
    fixture.pass(60);
    fixture.ask(Command::Watch { alive_from }).expect("never refused");
    assert_eq!(fixture.state(), State::Pending);
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
        let mut fixture = Fixture::with(new);
        let holder = fixture.start(outside());
        fixture.pass(59);
        fixture.ask(heartbeat(holder)).expect("the attempt holds the job");
        fixture.ask(watch()).expect("never refused");
        assert_eq!(fixture.state(), State::Active);
        fixture.pass(1);
        fixture.ask(watch()).expect("never refused");
        assert_eq!(fixture.state(), expected);
    }
}

#[test]
fn a_limit_that_passed_while_the_job_waited_is_looked_at_at_once() {
    let mut fixture =
        Fixture::with(policy(PolicyChoice { max_duration: Some(Duration::from_secs(60)), ..PolicyChoice::default() }));
    let holder = fixture.start(outside());
    fixture.ask(hand_back(holder)).expect("the attempt holds the job");
    fixture.pass(3600);
    fixture.start(outside());
    let watch_at = fixture.job().run.as_ref().and_then(|run| run.watch_at);
    assert_eq!(watch_at, Some(fixture.now), "a timer in the past would be lost by a restart");
}
