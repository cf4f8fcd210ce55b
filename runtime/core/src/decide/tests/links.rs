//! What other jobs bring: dependencies that end, and children that are waited for.

use core::time::Duration;

use crate::decide::tests::{Fixture, cancel, complete, fail, heartbeat, here, outside, plain, policy};
use crate::flow::{FailedChild, HowFailed, OnFailure};
use crate::{Command, EventKind, Holder, JobId, NewJob, PolicyChoice, Reply, Retry, State, Time, Usage, Wait};

fn other(number: u128) -> JobId {
    JobId::new(Time(7), number)
}

/// A job that depends on jobs in these states.
fn dependant(states: &[State], policy: OnFailure) -> Fixture {
    let mut fixture = Fixture::new();
    fixture.dependencies = states.iter().enumerate().map(|(number, state)| (other(number as u128), *state)).collect();
    let new = NewJob { on_dependency_failure: policy, ..plain() };
    fixture.enqueue(new).expect("a good job");
    fixture
}

fn ended(fixture: &mut Fixture, number: u128, state: State) -> Reply {
    fixture.ask(Command::DependencyEnded { dependency: other(number), state }).expect("it is accepted")
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
        let mut fixture = dependant(&[State::Active, State::Pending], policy);
        ended(&mut fixture, 0, State::Completed);
        assert_eq!(fixture.state(), State::Blocked);
        ended(&mut fixture, 1, State::Dead);
        assert_eq!(fixture.state(), expected, "{policy:?}");
    }
}

#[test]
fn a_dependant_still_waits_for_its_own_time() {
    let mut fixture = Fixture::new();
    fixture.dependencies = vec![(other(0), State::Active)];
    let new = NewJob { delay: Some(Duration::from_secs(60)), ..plain() };
    fixture.enqueue(new).expect("a good job");
    assert_eq!(fixture.state(), State::Blocked);
    ended(&mut fixture, 0, State::Completed);
    assert_eq!(fixture.state(), State::Scheduled);
    fixture.pass(60);
    fixture.ask(Command::Due).expect("its time");
    assert_eq!(fixture.state(), State::Pending);
}

#[test]
fn a_dependant_that_is_retried_waits_for_those_that_still_run() {
    let mut fixture = dependant(&[State::Active, State::Active], OnFailure::Cancel);
    fixture.ask(cancel()).expect("cancelled");
    ended(&mut fixture, 0, State::Dead);
    fixture.ask(Command::Retry).expect("retried");
    assert_eq!(fixture.state(), State::Blocked);
    ended(&mut fixture, 1, State::Completed);
    assert_eq!(fixture.state(), State::Pending);
}

fn wait(holder: Holder) -> Command {
    let (checkpoint, usage) = (None, Usage::default());
    Command::Wait(Wait { holder, on_child_failure: OnFailure::Fail, checkpoint, usage, notes: None })
}

#[test]
fn a_parent_waits_uncharged_and_is_run_again() {
    for runner in [here(), outside()] {
        let mut fixture = Fixture::with(plain());
        let holder = fixture.start(runner);
        fixture.ask(wait(holder)).expect("it waits");
        assert_eq!((fixture.state(), fixture.job().failures), (State::Blocked, 0));
        assert_eq!(fixture.ask(wait(holder)), Ok(Reply::Unchanged), "a report whose answer was lost");
        assert!(
            fixture.ask(heartbeat(holder)).is_err() && fixture.ask(complete(holder)).is_err(),
            "its attempt is over"
        );
        fixture.ask(Command::Joined).expect("its children have ended");
        assert_eq!(fixture.state(), State::Pending);
        assert!(fixture.job().links.as_ref().is_some_and(|links| links.joined));
        assert_eq!(fixture.ask(Command::Joined), Ok(Reply::Unchanged));
        let holder = fixture.start(outside());
        fixture.ask(complete(holder)).expect("done");
        assert_eq!(fixture.state(), State::Completed);
    }
}

fn child_failed() -> Command {
    let mut child = Fixture::with(policy(PolicyChoice { max_attempts: Some(1), ..PolicyChoice::default() }));
    let holder = child.start(outside());
    child.ask(fail(holder, Retry::Backoff)).expect("the attempt holds the job");
    Command::ChildFailed { child: FailedChild::of(child.job()).map(Box::new), more: 2 }
}

#[test]
fn a_parent_that_fails_with_its_children_says_which_and_why() {
    let mut fixture = Fixture::with(plain());
    let holder = fixture.start(outside());
    fixture.ask(wait(holder)).expect("it waits");
    fixture.ask(child_failed()).expect("it ends");
    let error = fixture.job().last_error.clone().expect("an error");
    assert!(error.starts_with("child job_") && error.ends_with("; 2 more children failed"), "{error}");
    assert!(error.contains("failed: it broke"), "the child's own error, not that its retries are used up: {error}");
    assert_eq!(fixture.reason(), error);
}

#[test]
fn a_removed_child_has_failed_unless_it_had_completed() {
    let mut child = Fixture::with(policy(PolicyChoice { max_attempts: Some(1), ..PolicyChoice::default() }));
    let how = |child: &Fixture| FailedChild::removed(child.job()).map(|failed| failed.how);
    assert_eq!(how(&child), Some(HowFailed::Removed));
    let holder = child.start(outside());
    child.ask(fail(holder, Retry::Backoff)).expect("the attempt holds the job");
    assert!(matches!(how(&child), Some(HowFailed::Dead { error, .. }) if error == "it broke"));
    child.ask(Command::Retry).expect("it had ended");
    let holder = child.start(outside());
    child.ask(complete(holder)).expect("the attempt holds the job");
    assert_eq!(how(&child), None);
}

#[test]
fn a_parent_that_waits_can_fail_with_a_child_or_be_cancelled() {
    for (command, expected) in [(child_failed(), State::Dead), (cancel(), State::Cancelled)] {
        let mut fixture = Fixture::with(plain());
        let holder = fixture.start(outside());
        fixture.ask(wait(holder)).expect("it waits");
        fixture.ask(command).expect("it ends");
        assert_eq!(fixture.state(), expected);
        assert_eq!(fixture.ask(Command::Joined), Ok(Reply::Unchanged), "too late");
    }
}

#[test]
fn a_wait_that_meets_a_cancel_is_the_end() {
    let mut fixture = Fixture::with(plain());
    let holder = fixture.start(outside());
    fixture.ask(cancel()).expect("asked to stop");
    fixture.ask(wait(holder)).expect("taken");
    assert_eq!(fixture.state(), State::Cancelled);
    assert!(!fixture.events.iter().any(|event| matches!(event, EventKind::Blocked { .. })));
}
