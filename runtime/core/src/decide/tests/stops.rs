//! A running attempt that somebody wants stopped: what it says last, who wished for more, and what becomes of the job.

use crate::decide::tests::{Desk, beat, cancel, complete, fail, hand_back, here, hold, outside, plain, watch};
use crate::{AfterStop, Command, Effect, EventKind, NewJob, PolicyChoice, Reply, Retry, State, Word};

/// A wish, how the attempt ends, and where the job stands then.
fn check(wish: Command, end: fn(Word) -> Command, expected: Option<State>) {
    for runner in [outside(), here()] {
        let mut desk = Desk::with(plain());
        let word = desk.start(runner.clone());
        assert_eq!(desk.ask(wish.clone()).expect("it runs"), Reply::Stopping);
        assert_eq!(desk.state(), State::Active, "until its attempt ends");
        desk.ask(end(word)).expect("its own word");
        assert_eq!(desk.job.as_ref().map(|job| job.state), expected, "{wish:?} of {runner:?}");
    }
}

#[test]
fn however_the_attempt_ends_the_wish_comes_true() {
    let ends: [fn(Word) -> Command; 3] = [|word| fail(word, Retry::Backoff), hand_back, complete];
    for end in ends {
        check(cancel(), end, Some(State::Cancelled));
        check(Command::Delete, end, None);
    }
    check(hold(), |word| fail(word, Retry::Backoff), Some(State::Held));
    check(hold(), hand_back, Some(State::Held));
}

#[test]
fn an_ack_that_comes_after_a_hold_was_done_before_it() {
    check(hold(), complete, Some(State::Completed));
}

#[test]
fn a_lease_that_lapses_or_a_process_that_dies_lets_the_wish_come_true_too() {
    let mut desk = Desk::with(plain());
    desk.start(outside());
    desk.ask(cancel()).expect("it runs");
    desk.pass(61);
    desk.ask(watch()).expect("never refused");
    assert_eq!((desk.state(), desk.job().failures), (State::Cancelled, 0), "nobody is charged for a stop");

    let mut desk = Desk::with(plain());
    desk.start(here());
    desk.ask(cancel()).expect("it runs");
    desk.ask(Command::Crash).expect("never refused");
    assert_eq!(desk.state(), State::Cancelled);
}

#[test]
fn a_heavier_wish_replaces_a_lighter_one_and_never_the_other_way_round() {
    let wishes = [hold(), cancel(), Command::Expire, Command::Delete];
    for (light, lighter) in wishes.iter().enumerate() {
        for (heavy, heavier) in wishes.iter().enumerate() {
            let expire_after = Some(core::time::Duration::from_secs(1));
            let policy = PolicyChoice { expire_after, ..PolicyChoice::default() };
            let mut desk = Desk::with(NewJob { policy, ..plain() });
            let word = desk.start(outside());
            desk.pass(2);
            desk.ask(lighter.clone()).expect("it runs");
            desk.ask(heavier.clone()).expect("it runs");
            desk.ask(hand_back(word)).expect("its own word");
            let expected = [Some(State::Held), Some(State::Cancelled), Some(State::Dead), None][light.max(heavy)];
            assert_eq!(desk.job.map(|job| job.state), expected, "{lighter:?}, then {heavier:?}");
        }
    }
}

#[test]
fn an_attempt_outside_hears_of_the_wish_with_its_next_heartbeat() {
    let mut desk = Desk::with(plain());
    let word = desk.start(outside());
    desk.ask(cancel()).expect("it runs");
    assert!(desk.effects.is_empty(), "there is nobody here to be told");
    let Ok(Reply::Beat { stop: Some(AfterStop::Cancel { .. }), .. }) = desk.ask(beat(word)) else {
        panic!("it should be told to stop");
    };
}

#[test]
fn an_attempt_here_is_told_once_for_each_heavier_wish() {
    let mut desk = Desk::with(plain());
    desk.start(here());
    for _ in 0..3 {
        desk.ask(cancel()).expect("it runs");
    }
    desk.ask(Command::Delete).expect("it runs");
    desk.ask(cancel()).expect("it runs");
    let told: Vec<_> = desk.effects.iter().map(|Effect::Stop { why, .. }| why.clone()).collect();
    assert_eq!(told, [AfterStop::Cancel { reason: "not wanted".into() }, AfterStop::Delete]);
    let heard = desk.events.iter().filter(|kind| **kind == EventKind::Cancelling).count();
    assert_eq!(heard, 1, "watchers hear of it once");
}
