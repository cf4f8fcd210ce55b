//! A running attempt that was asked to stop: what it reports last, further requests meanwhile, and what becomes of the
//! job.

use core::time::Duration;

use crate::decide::tests::{Fixture, cancel, complete, fail, hand_back, heartbeat, here, hold, outside, plain, watch};
use crate::{AfterStop, Command, Effect, EventKind, Holder, NewJob, PolicyChoice, Refusal, Reply, Retry, State};

/// A request, how the attempt ends, and the job's state then.
fn check(request: Command, end: fn(Holder) -> Command, expected: Option<State>) {
    for runner in [outside(), here()] {
        let mut fixture = Fixture::with(plain());
        let holder = fixture.start(runner.clone());
        assert_eq!(fixture.ask(request.clone()).expect("it runs"), Reply::Stopping);
        assert_eq!(fixture.state(), State::Active, "until its attempt ends");
        fixture.ask(end(holder)).expect("the attempt holds the job");
        assert_eq!(fixture.job.as_ref().map(|job| job.state), expected, "{request:?} of {runner:?}");
    }
}

#[test]
fn however_the_attempt_ends_the_wish_comes_true() {
    let ends: [fn(Holder) -> Command; 3] = [|holder| fail(holder, Retry::Backoff), hand_back, complete];
    for end in ends {
        check(cancel(), end, Some(State::Cancelled));
        check(Command::Delete, end, None);
    }
    check(hold(), |holder| fail(holder, Retry::Backoff), Some(State::Held));
    check(hold(), hand_back, Some(State::Held));
}

#[test]
fn an_ack_that_comes_after_a_hold_was_done_before_it() {
    check(hold(), complete, Some(State::Completed));
}

#[test]
fn a_lease_that_lapses_or_a_process_that_dies_lets_the_wish_come_true_too() {
    let mut fixture = Fixture::with(plain());
    fixture.start(outside());
    fixture.ask(cancel()).expect("it runs");
    fixture.pass(61);
    fixture.ask(watch()).expect("never refused");
    assert_eq!((fixture.state(), fixture.job().failures), (State::Cancelled, 0), "nobody is charged for a stop");

    let mut fixture = Fixture::with(plain());
    fixture.start(here());
    fixture.ask(cancel()).expect("it runs");
    fixture.ask(Command::Crash).expect("never refused");
    assert_eq!(fixture.state(), State::Cancelled);
}

#[test]
fn a_heavier_wish_replaces_a_lighter_one_and_never_the_other_way_round() {
    let requests = [hold(), cancel(), Command::Expire, Command::Delete];
    for (light, lighter) in requests.iter().enumerate() {
        for (heavy, heavier) in requests.iter().enumerate() {
            let expire_after = Some(core::time::Duration::from_secs(1));
            let policy = PolicyChoice { expire_after, ..PolicyChoice::default() };
            let mut fixture = Fixture::with(NewJob { policy, ..plain() });
            let holder = fixture.start(outside());
            fixture.pass(2);
            fixture.ask(lighter.clone()).expect("it runs");
            fixture.ask(heavier.clone()).expect("it runs");
            fixture.ask(hand_back(holder)).expect("the attempt holds the job");
            let expected = [Some(State::Held), Some(State::Cancelled), Some(State::Dead), None][light.max(heavy)];
            assert_eq!(fixture.job.map(|job| job.state), expected, "{lighter:?}, then {heavier:?}");
        }
    }
}

#[test]
fn an_attempt_outside_hears_of_the_wish_with_its_next_heartbeat() {
    let mut fixture = Fixture::with(plain());
    let holder = fixture.start(outside());
    fixture.ask(cancel()).expect("it runs");
    assert!(fixture.effects.is_empty(), "there is nobody here to be told");
    let Ok(Reply::Heartbeat { stop: Some(AfterStop::Cancel { .. }), .. }) = fixture.ask(heartbeat(holder)) else {
        panic!("it should be told to stop");
    };
}

#[test]
fn an_attempt_here_is_told_once_for_each_heavier_wish() {
    let mut fixture = Fixture::with(plain());
    fixture.start(here());
    for _ in 0..3 {
        fixture.ask(cancel()).expect("it runs");
    }
    fixture.ask(Command::Delete).expect("it runs");
    fixture.ask(cancel()).expect("it runs");
    let told: Vec<_> = fixture.effects.iter().map(|Effect::Stop { why, .. }| why.clone()).collect();
    assert_eq!(told, [AfterStop::Cancel { reason: "not wanted".into() }, AfterStop::Delete]);
    let heard = fixture.events.iter().filter(|kind| **kind == EventKind::Cancelling).count();
    assert_eq!(heard, 1, "watchers hear of it once");
}

#[test]
fn the_grace_of_a_cancellation_reaches_the_attempt_and_may_be_said_again() {
    let mut fixture = Fixture::with(plain());
    fixture.start(here());
    let within = |seconds| Command::Cancel { reason: "stop".into(), grace: Some(Duration::from_secs(seconds)) };
    fixture.ask(within(600)).expect("it runs");
    let before = fixture.job().clone();
    fixture.ask(within(0)).expect("it is asked again");
    assert_eq!(fixture.job(), &before, "only the attempt hears of it");
    let told: Vec<_> =
        fixture.effects.iter().map(|Effect::Stop { grace, .. }| grace.map(|grace| grace.as_secs())).collect();
    assert_eq!(told, [Some(600), Some(0)]);
    let refused = fixture.ask(within(3_601));
    assert!(matches!(refused, Err(Refusal::Invalid { field: "grace", .. })), "{refused:?}");
}
