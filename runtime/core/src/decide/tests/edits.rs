//! Jobs that are changed while they wait, run before their time, and run again with another payload.

use core::time::Duration;

use crate::decide::tests::{Fixture, STRANGER, fail, hold, outside, plain, save};
use crate::{
    Body, BodyRef, Command, Edit, EventKind, NewJob, PolicyChoice, Priority, Refusal, Retry, State, Time, bounds,
};

fn edit(edit: Edit) -> Command {
    Command::Edit(Box::new(Edit { by: "key_1".into(), ..edit }))
}

fn at(at: Time) -> Command {
    edit(Edit { scheduled_at: Some(at), ..Edit::default() })
}

fn refused(fixture: &mut Fixture, command: Command) -> &'static str {
    let before = fixture.job().clone();
    let field = match fixture.ask(command) {
        Err(Refusal::Invalid { field, .. }) => field,
        other => panic!("{other:?}"),
    };
    assert_eq!(fixture.job(), &before, "nothing changes");
    field
}

#[test]
fn what_is_given_is_changed_and_the_rest_stays_and_the_timeline_says_who() {
    let policy = PolicyChoice { attempt_timeout: Some(Duration::from_secs(60)), ..PolicyChoice::default() };
    let tags = vec![("team".to_owned(), "a".to_owned())];
    let mut fixture = Fixture::with(NewJob { policy, tags: tags.clone(), ..plain() });
    let before = fixture.job().clone();
    fixture.pass(5);
    let change = Edit {
        payload: Some(Body::Inline("[1,2]".into())),
        priority: Some(Priority::Critical),
        max_attempts: Some(9),
        attempt_timeout: Some(None),
        stall_timeout: Some(Some(Duration::from_secs(7))),
        ..Edit::default()
    };
    fixture.ask(edit(change)).expect("it waits");
    let job = fixture.job();
    assert_eq!((job.state, job.since, &job.tags), (before.state, before.since, &tags));
    assert_eq!((job.payload, job.priority), (BodyRef::Inline { len: 5 }, Priority::Critical));
    assert_eq!((job.policy.max_attempts, job.policy.attempt_timeout), (9, None));
    assert_eq!((job.policy.stall_timeout, job.policy.max_duration), (Some(Duration::from_secs(7)), None));
    let step = job.timeline.steps.last().expect("a step");
    assert_eq!(step.reason, "payload, priority, max_attempts, attempt_timeout, stall_timeout changed by key_1");
    let edited = |kind: &EventKind| matches!(kind, EventKind::Edited { by, .. } if by == "key_1");
    assert!(fixture.events.last().is_some_and(edited), "{:?}", fixture.events);
    fixture.ask(edit(Edit { tags: Some(Vec::new()), ..Edit::default() })).expect("it waits");
    assert!(fixture.job().tags.is_empty());
}

#[test]
fn a_new_time_moves_a_job_between_waiting_for_it_and_waiting_for_a_runner() {
    let mut fixture = Fixture::with(plain());
    let later = fixture.now + Duration::from_secs(60);
    fixture.ask(at(later)).expect("it waits");
    assert_eq!((fixture.state(), fixture.job().scheduled_at), (State::Scheduled, Some(later)));
    let sooner = fixture.now + Duration::from_secs(30);
    fixture.ask(at(sooner)).expect("it waits");
    assert_eq!((fixture.state(), fixture.job().scheduled_at), (State::Scheduled, Some(sooner)));
    assert!(fixture.events.ends_with(&[EventKind::Scheduled { at: sooner }]), "{:?}", fixture.events);
    fixture.ask(at(fixture.now)).expect("it waits");
    assert_eq!((fixture.state(), fixture.job().scheduled_at), (State::Pending, None));
    fixture.ask(at(fixture.now)).expect("it waits");
    assert_eq!(fixture.state(), State::Pending, "it is due already");
}

#[test]
fn a_retrying_job_keeps_its_state_with_another_time_and_runs_at_once_when_told() {
    let mut fixture = Fixture::with(plain());
    let holder = fixture.start(outside());
    fixture.ask(fail(holder, Retry::Backoff)).expect("the attempt holds the job");
    let later = fixture.now + Duration::from_secs(600);
    fixture.ask(at(later)).expect("it waits");
    assert_eq!((fixture.state(), fixture.job().scheduled_at), (State::Retrying, Some(later)));
    fixture.ask(Command::RunNow).expect("it waits for its time");
    assert_eq!((fixture.state(), fixture.job().scheduled_at), (State::Pending, None));
    assert_eq!(fixture.job().failures, 1, "its history stays");
}

#[test]
fn what_a_job_cannot_have_is_refused_by_field() {
    let mut fixture = Fixture::with(plain());
    let far = fixture.now + bounds::FURTHEST + Duration::from_secs(1);
    assert_eq!(refused(&mut fixture, at(far)), "scheduled_at");
    let many = vec![("a".to_owned(), String::new()); bounds::TAGS + 1];
    assert_eq!(refused(&mut fixture, edit(Edit { tags: Some(many), ..Edit::default() })), "tags");
    let zero = edit(Edit { stall_timeout: Some(Some(Duration::ZERO)), ..Edit::default() });
    assert_eq!(refused(&mut fixture, zero), "stall_timeout");
    let holder = fixture.start(outside());
    fixture.ask(fail(holder, Retry::Backoff)).expect("the attempt holds the job");
    let one = |most| edit(Edit { max_attempts: Some(most), ..Edit::default() });
    assert_eq!(refused(&mut fixture, one(1)), "max_attempts");
    fixture.ask(one(2)).expect("one run is left");
    fixture.ask(hold()).expect("it waits");
    let soon = fixture.now + Duration::from_secs(5);
    assert_eq!(refused(&mut fixture, at(soon)), "scheduled_at");
}

#[test]
fn a_job_that_waits_for_others_has_its_new_time_after_them() {
    let mut fixture = Fixture::new();
    let dependency = crate::JobId::new(Time(1), 1);
    fixture.dependencies = vec![(dependency, State::Active)];
    fixture.enqueue(plain()).expect("a good job");
    let later = fixture.now + Duration::from_secs(60);
    fixture.ask(at(later)).expect("it waits");
    assert_eq!(fixture.state(), State::Blocked);
    fixture.ask(Command::DependencyEnded { dependency, state: State::Completed }).expect("it waited for it");
    assert_eq!((fixture.state(), fixture.job().scheduled_at), (State::Scheduled, Some(later)));
}

#[test]
fn a_retry_with_another_payload_starts_from_the_start() {
    let mut fixture = Fixture::with(plain());
    let holder = fixture.start(outside());
    fixture.ask(save(holder, Body::Inline("step 3".into()))).expect("the attempt holds the job");
    fixture.ask(fail(holder, Retry::Never)).expect("the attempt holds the job");
    assert!(!fixture.job().checkpoint.is_none());
    fixture.ask(Command::RetryWith { payload: Body::Inline("[]".into()) }).expect("it is dead");
    let job = fixture.job();
    assert_eq!((job.state, job.payload), (State::Pending, BodyRef::Inline { len: 2 }));
    assert!(job.checkpoint.is_none(), "what it was about is another thing now");
    assert_eq!((job.attempt, job.failures), (0, 0));
    assert!(fixture.ask(fail(STRANGER, Retry::Never)).is_err());
}
