//! What other jobs bring: dependencies that end, and children that are waited for.

use core::time::Duration;

use crate::decide::tests::{Desk, beat, cancel, complete, fail, here, outside, plain, policy};
use crate::flow::{FailedChild, OnFailure};
use crate::{Command, EventKind, JobId, NewJob, PolicyChoice, Reply, Retry, State, Time, Usage, Word};

fn other(number: u128) -> JobId {
    JobId::new(Time(7), number)
}

/// A job that depends on jobs in these states.
fn dependant(states: &[State], policy: OnFailure) -> Desk {
    let mut desk = Desk::new();
    desk.dependencies = states.iter().enumerate().map(|(number, state)| (other(number as u128), *state)).collect();
    let new = NewJob { on_dependency_failure: policy, ..plain() };
    desk.ask(Command::Enqueue(Box::new(new))).expect("a good job");
    desk
}

fn ended(desk: &mut Desk, number: u128, state: State) -> Reply {
    desk.ask(Command::DependencyEnded { dependency: other(number), state }).expect("it is told")
}

#[test]
fn a_job_starts_where_its_dependencies_let_it() {
    use State::{Active, Blocked, Cancelled, Completed, Dead, Pending};
    let cases = [
        (&[][..], OnFailure::Cancel, Pending),
        (&[Completed][..], OnFailure::Cancel, Pending),
        (&[Completed, Active][..], OnFailure::Cancel, Blocked),
        (&[Dead, Active][..], OnFailure::Cancel, Cancelled),
        (&[Cancelled][..], OnFailure::Fail, Dead),
        (&[Dead][..], OnFailure::Continue, Pending),
        (&[Dead, Active][..], OnFailure::Continue, Blocked),
    ];
    for (states, policy, expected) in cases {
        assert_eq!(dependant(states, policy).state(), expected, "{states:?} {policy:?}");
    }
}

#[test]
fn the_last_dependency_unblocks_and_a_failed_one_does_what_the_policy_says() {
    for (policy, expected) in
        [(OnFailure::Fail, State::Dead), (OnFailure::Cancel, State::Cancelled), (OnFailure::Continue, State::Pending)]
    {
        let mut desk = dependant(&[State::Active, State::Pending], policy);
        ended(&mut desk, 0, State::Completed);
        assert_eq!(desk.state(), State::Blocked);
        ended(&mut desk, 1, State::Dead);
        assert_eq!(desk.state(), expected, "{policy:?}");
    }
}

#[test]
fn a_dependant_still_waits_for_its_own_time() {
    let mut desk = Desk::new();
    desk.dependencies = vec![(other(0), State::Active)];
    let new = NewJob { delay: Some(Duration::from_secs(60)), ..plain() };
    desk.ask(Command::Enqueue(Box::new(new))).expect("a good job");
    assert_eq!(desk.state(), State::Blocked);
    ended(&mut desk, 0, State::Completed);
    assert_eq!(desk.state(), State::Scheduled);
    desk.pass(60);
    desk.ask(Command::Due).expect("its time");
    assert_eq!(desk.state(), State::Pending);
}

#[test]
fn a_dependant_that_is_retried_waits_for_those_that_still_run() {
    let mut desk = dependant(&[State::Active, State::Active], OnFailure::Cancel);
    desk.ask(cancel()).expect("cancelled");
    ended(&mut desk, 0, State::Dead);
    desk.ask(Command::Retry).expect("retried");
    assert_eq!(desk.state(), State::Blocked);
    ended(&mut desk, 1, State::Completed);
    assert_eq!(desk.state(), State::Pending);
}

fn wait(word: Word) -> Command {
    let (checkpoint, usage) = (None, Usage::default());
    Command::Wait { word, on_child_failure: OnFailure::Fail, checkpoint, usage, notes: None }
}

#[test]
fn a_parent_waits_uncharged_and_is_run_again() {
    for runner in [here(), outside()] {
        let mut desk = Desk::with(plain());
        let word = desk.start(runner);
        desk.ask(wait(word)).expect("it waits");
        assert_eq!((desk.state(), desk.job().failures), (State::Blocked, 0));
        assert_eq!(desk.ask(wait(word)), Ok(Reply::Unchanged), "a word whose answer was lost");
        assert!(desk.ask(beat(word)).is_err() && desk.ask(complete(word)).is_err(), "its attempt is over");
        desk.ask(Command::Joined).expect("its children have ended");
        assert_eq!(desk.state(), State::Pending);
        assert!(desk.job().ties.as_ref().is_some_and(|ties| ties.joined));
        assert_eq!(desk.ask(Command::Joined), Ok(Reply::Unchanged));
        let word = desk.start(outside());
        desk.ask(complete(word)).expect("done");
        assert_eq!(desk.state(), State::Completed);
    }
}

fn child_failed() -> Command {
    let mut child = Desk::with(policy(PolicyChoice { max_retries: Some(1), ..PolicyChoice::default() }));
    let word = child.start(outside());
    child.ask(fail(word, Retry::Backoff)).expect("its own word");
    Command::ChildFailed { child: FailedChild::of(child.job()).map(Box::new), more: 2 }
}

#[test]
fn a_parent_that_fails_with_its_children_says_which_and_why() {
    let mut desk = Desk::with(plain());
    let word = desk.start(outside());
    desk.ask(wait(word)).expect("it waits");
    desk.ask(child_failed()).expect("it ends");
    let error = desk.job().last_error.clone().expect("an error");
    assert!(error.starts_with("child job_") && error.ends_with("; 2 more children failed"), "{error}");
    assert!(error.contains("failed: it broke"), "the child's own error, not that its retries are used up: {error}");
    assert_eq!(desk.reason(), error);
}

#[test]
fn a_parent_that_waits_can_fail_with_a_child_or_be_cancelled() {
    for (command, expected) in [(child_failed(), State::Dead), (cancel(), State::Cancelled)] {
        let mut desk = Desk::with(plain());
        let word = desk.start(outside());
        desk.ask(wait(word)).expect("it waits");
        desk.ask(command).expect("it ends");
        assert_eq!(desk.state(), expected);
        assert_eq!(desk.ask(Command::Joined), Ok(Reply::Unchanged), "too late");
    }
}

#[test]
fn a_wait_that_meets_a_cancel_is_the_end() {
    let mut desk = Desk::with(plain());
    let word = desk.start(outside());
    desk.ask(cancel()).expect("asked to stop");
    desk.ask(wait(word)).expect("taken");
    assert_eq!(desk.state(), State::Cancelled);
    assert!(!desk.events.iter().any(|event| matches!(event, EventKind::Blocked { .. })));
}
