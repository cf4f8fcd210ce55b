//! What counts: runs, failures, crashes, hand-backs; and what retry and requeue grant.

use core::time::Duration;

use crate::decide::tests::{Fixture, complete, fail, hand_back, here, outside, plain, policy, save, watch};
use crate::{
    AgentStatus, BackoffKind, Blob, Body, Closing, Command, Complete, NewJob, PolicyChoice, Reply, Retry, State, Usage,
    bounds,
};

fn runs(most: u32) -> NewJob {
    let backoff = Some(BackoffKind::None);
    policy(PolicyChoice { max_attempts: Some(most), backoff, ..PolicyChoice::default() })
}

/// How many times it can fail until it is dead.
fn fail_until_dead(fixture: &mut Fixture) -> u32 {
    let mut failures = 0;
    while fixture.state() == State::Pending {
        let holder = fixture.start(outside());
        fixture.ask(fail(holder, Retry::Backoff)).expect("the attempt holds the job");
        failures += 1;
    }
    assert_eq!(fixture.state(), State::Dead);
    failures
}

#[test]
fn max_attempts_is_the_number_of_runs_the_first_included() {
    for (most, expected) in [(0, 1), (1, 1), (2, 2), (5, 5)] {
        assert_eq!(fail_until_dead(&mut Fixture::with(runs(most))), expected, "max_attempts {most}");
    }
}

#[test]
fn retry_grants_all_runs_again_and_requeue_exactly_one() {
    let mut fixture = Fixture::with(runs(3));
    assert_eq!(fail_until_dead(&mut fixture), 3);
    for _ in 0..3 {
        fixture.ask(Command::Requeue).expect("it is dead");
        assert_eq!(fail_until_dead(&mut fixture), 1);
    }
    assert_eq!(fixture.job().attempt, 6, "requeue keeps the count");
    fixture.ask(Command::Retry).expect("it has ended");
    assert_eq!(fixture.job().attempt, 0);
    assert_eq!(fail_until_dead(&mut fixture), 3);
}

#[test]
fn requeue_takes_no_run_from_a_job_that_had_some_left() {
    let mut fixture = Fixture::with(runs(5));
    let holder = fixture.start(outside());
    fixture.ask(fail(holder, Retry::Never)).expect("the attempt holds the job");
    assert_eq!(fixture.state(), State::Dead);
    fixture.ask(Command::Requeue).expect("it is dead");
    assert_eq!(fixture.job().runs_left(), 4);
}

#[test]
fn a_hand_back_is_charged_to_nobody() {
    let mut fixture = Fixture::with(runs(1));
    for attempt in 1..=20 {
        let holder = fixture.start(if attempt % 2 == 0 { outside() } else { here() });
        fixture.ask(hand_back(holder)).expect("the attempt holds the job");
        assert_eq!((fixture.state(), fixture.job().attempt), (State::Pending, attempt));
    }
    assert_eq!((fixture.job().failures, fixture.job().crashes, fixture.errors), (0, 0, 0));
}

#[test]
fn a_lapsed_lease_is_a_failure_and_goes_back_in_line_at_once() {
    let mut fixture = Fixture::with(policy(PolicyChoice { max_attempts: Some(2), ..PolicyChoice::default() }));
    for (failures, expected) in [(1, State::Pending), (2, State::Dead)] {
        fixture.start(outside());
        fixture.pass(60);
        fixture.ask(watch()).expect("never refused");
        assert_eq!((fixture.job().failures, fixture.state()), (failures, expected));
        assert_eq!(fixture.job().scheduled_at, None, "it waits for nothing, whatever its backoff");
    }
    assert_eq!(fixture.errors, 2);
}

#[test]
fn crashes_have_a_cap_of_their_own() {
    let mut fixture = Fixture::with(runs(1));
    for crash in 1..=bounds::MAX_CRASHES {
        fixture.start(here());
        fixture.ask(Command::Crash).expect("never refused");
        assert_eq!((fixture.job().crashes, fixture.job().failures), (crash, 0));
        if crash == bounds::MAX_CRASHES {
            break;
        }
        let expected = if crash == 1 { State::Pending } else { State::Retrying };
        assert_eq!(fixture.state(), expected, "from the second time on it waits for its neighbours");
        fixture.pass(120);
        fixture.ask(Command::Due).expect("never refused");
    }
    assert_eq!(fixture.state(), State::Dead);
}

/// One crash more; the job is pending again after it.
fn crash(fixture: &mut Fixture) {
    fixture.ask(Command::Crash).expect("never refused");
    if fixture.state() == State::Retrying {
        fixture.pass(120);
        fixture.ask(Command::Due).expect("never refused");
    }
}

#[test]
fn a_job_that_gets_further_between_crashes_is_never_charged_with_more_than_one() {
    let mut fixture = Fixture::with(runs(1));
    for step in 0..3 * bounds::MAX_CRASHES {
        let holder = fixture.start(here());
        let body = if step % 2 == 0 {
            Body::Inline(format!("step {step}").into())
        } else {
            Body::Blob(Blob { sha256: [step as u8; 32], len: 100_000 })
        };
        fixture.ask(save(holder, body)).expect("the attempt holds the job");
        assert_eq!(fixture.job().crashes, 0);
        crash(&mut fixture);
        assert_eq!((fixture.job().crashes, fixture.state()), (1, State::Pending), "it does not wait either");
    }
}

#[test]
fn a_checkpoint_that_says_what_the_last_one_said_is_no_progress() {
    for body in [Body::Inline("the same".into()), Body::Blob(Blob { sha256: [7; 32], len: 100_000 })] {
        let mut fixture = Fixture::with(NewJob { checkpoint: Some(body.clone()), ..runs(1) });
        for crashes in 1..=bounds::MAX_CRASHES {
            let holder = fixture.start(here());
            fixture.ask(save(holder, body.clone())).expect("the attempt holds the job");
            crash(&mut fixture);
            assert_eq!(fixture.job().crashes, crashes);
        }
        assert_eq!(fixture.state(), State::Dead);
    }
}

#[test]
fn an_iteration_that_ends_is_progress() {
    let mut fixture = Fixture::with(runs(1));
    for _ in 0..3 * bounds::MAX_CRASHES {
        fixture.start(here());
        crash(&mut fixture);
        let holder = fixture.start(here());
        let closing = Some(Box::new(Closing { agent: Some(AgentStatus::Continue), ..Closing::default() }));
        fixture
            .ask(Command::Complete(Complete { holder, result: None, usage: Usage::default(), closing, notes: None }))
            .expect("taken");
        assert_eq!((fixture.job().crashes, fixture.state()), (0, State::Pending));
    }
}

#[test]
fn a_failure_says_when_to_try_again_within_bounds() {
    let mut fixture = Fixture::with(plain());
    let holder = fixture.start(outside());
    let answer = fixture.ask(fail(holder, Retry::After(Duration::from_secs(7)))).expect("the attempt holds the job");
    let expected = Reply::Now {
        state: State::Retrying,
        next_attempt_at: Some(fixture.now + Duration::from_secs(7)),
        runs_left: 2,
    };
    assert_eq!(answer, expected);
    fixture.pass(7);
    fixture.ask(Command::Due).expect("never refused");
    let holder = fixture.start(outside());
    fixture.ask(fail(holder, Retry::After(Duration::MAX))).expect("the attempt holds the job");
    assert_eq!(fixture.job().scheduled_at, Some(fixture.now + bounds::LONGEST));
}

#[test]
fn no_attempt_is_planned_for_after_the_job_s_whole_time() {
    let mut fixture =
        Fixture::with(policy(PolicyChoice { max_duration: Some(Duration::from_secs(10)), ..PolicyChoice::default() }));
    let holder = fixture.start(outside());
    fixture.ask(fail(holder, Retry::After(Duration::from_secs(10)))).expect("the attempt holds the job");
    assert_eq!((fixture.state(), fixture.reason()), (State::Dead, "max_duration"));
}

#[test]
fn an_attempt_may_take_its_own_limit_or_an_hour_and_no_more_than_is_left_of_the_job_s_whole_time() {
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    let limits = |attempt_timeout, of_plugin, max_duration| {
        let mut fixture =
            Fixture::with(policy(PolicyChoice { attempt_timeout, max_duration, ..PolicyChoice::default() }));
        let holder = fixture.start(here());
        let first = fixture.job().time_limit(of_plugin, fixture.now);
        fixture.ask(hand_back(holder)).expect("the attempt holds the job");
        fixture.pass(40);
        fixture.start(here());
        [first, fixture.job().time_limit(of_plugin, fixture.now)].map(|limit| limit.as_secs())
    };
    assert_eq!(limits(None, None, None), [3_600, 3_600], "so that no job has its slot for ever");
    assert_eq!(limits(seconds(30), None, None), [30, 30]);
    assert_eq!(limits(None, seconds(30), None), [30, 30]);
    assert_eq!(limits(seconds(9), seconds(30), None), [9, 9]);
    assert_eq!(limits(seconds(7_200), None, None), [7_200, 7_200], "longer, if somebody says so");
    assert_eq!(limits(None, None, seconds(60)), [60, 20]);
    assert_eq!(limits(None, None, seconds(7_200)), [3_600, 3_600]);
    assert_eq!(limits(seconds(30), None, seconds(60)), [30, 20]);
    assert_eq!(limits(None, None, seconds(40))[1], 0, "and never less than nothing");
}

#[test]
fn retry_forgets_how_the_job_ended_and_keeps_its_checkpoint_unless_it_was_done() {
    let checkpoint = || crate::Body::Inline(bytes::Bytes::from_static(b"half way"));
    let mut fixture = Fixture::with(NewJob { checkpoint: Some(checkpoint()), ..runs(1) });
    fail_until_dead(&mut fixture);
    fixture.ask(Command::Retry).expect("it has ended");
    assert!(!fixture.job().checkpoint.is_none());
    let holder = fixture.start(outside());
    fixture.ask(complete(holder)).expect("the attempt holds the job");
    fixture.ask(Command::Retry).expect("it has ended");
    let job = fixture.job();
    assert!(job.checkpoint.is_none() && job.result.is_none() && job.hold_reason.is_none());
    assert_eq!((job.completed_at, job.failed_at, job.ended_by, job.expire_at), (None, None, None, None));
}

#[test]
fn a_long_history_keeps_its_beginning_and_its_end() {
    let mut fixture = Fixture::with(plain());
    for _ in 0..200 {
        let holder = fixture.start(outside());
        fixture.ask(hand_back(holder)).expect("the attempt holds the job");
    }
    let timeline = &fixture.job().timeline;
    assert_eq!(timeline.steps.len(), bounds::TIMELINE);
    assert_eq!(timeline.dropped as usize, 401 - bounds::TIMELINE);
    assert_eq!((&*timeline.steps[0].reason, fixture.reason()), ("enqueued", "shutting down"));
}
