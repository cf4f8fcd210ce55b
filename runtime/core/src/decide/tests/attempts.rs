//! Each attempt that ends is written down, whatever ends it, but for one that completes its job without anything
//! unusual.

use super::*;
use crate::{AttemptOutcome, BackoffKind, Denial, LimitKind, bounds};

fn outcomes(fixture: &Fixture) -> Vec<(u32, AttemptOutcome)> {
    fixture.attempts.values().map(|attempt| (attempt.number, attempt.outcome)).collect()
}

#[test]
fn whatever_ends_an_attempt_it_is_written_down_how_it_ended() {
    let usage = Usage { cpu_ms: 3, ..Usage::default() };
    let wait = |holder| {
        Command::Wait(crate::Wait {
            holder,
            on_child_failure: crate::flow::OnFailure::Fail,
            checkpoint: None,
            usage,
            notes: None,
        })
    };
    type End = fn(&mut Fixture, Holder);
    let ends: [(Runner, End, AttemptOutcome); 5] = [
        (outside(), |fixture, holder| drop(fixture.ask(fail(holder, Retry::Backoff))), AttemptOutcome::Failed),
        (outside(), |fixture, holder| drop(fixture.ask(hand_back(holder))), AttemptOutcome::HandedBack),
        (here(), |fixture, _| drop(fixture.ask(Command::Crash)), AttemptOutcome::Crashed),
        (
            outside(),
            |fixture, _| {
                fixture.pass(3_600);
                drop(fixture.ask(watch()));
            },
            AttemptOutcome::Failed,
        ),
        (
            outside(),
            |fixture, holder| {
                drop(fixture.ask(cancel()));
                drop(fixture.ask(complete(holder)));
            },
            AttemptOutcome::Stopped,
        ),
    ];
    for (runner, end, expected) in ends {
        let mut fixture = Fixture::with(plain());
        fixture.pass(7);
        let holder = fixture.start(runner.clone());
        assert!(fixture.attempts.is_empty(), "it still runs");
        let (queued, started) = (Time(1_000_000), fixture.now);
        fixture.pass(5);
        end(&mut fixture, holder);
        assert_eq!(outcomes(&fixture), [(1, expected)]);
        let attempt = &fixture.attempts[&1];
        assert_eq!((attempt.queued_at, attempt.started_at, attempt.ended_at), (Some(queued), started, fixture.now));
        assert_eq!((&attempt.runner, attempt.attempt), (&runner, 1));
        assert_eq!(attempt.reason, fixture.reason());
    }
    let mut fixture = Fixture::with(plain());
    let holder = fixture.start(here());
    fixture.ask(wait(holder)).expect("its own report");
    assert_eq!((outcomes(&fixture), fixture.attempts[&1].usage), (vec![(1, AttemptOutcome::Waits)], usage));
}

#[test]
fn a_heartbeat_ends_nothing_and_a_failure_says_when_the_job_runs_again() {
    let minute = Some(Duration::from_secs(60));
    let choice = PolicyChoice { backoff: Some(BackoffKind::Fixed), base_delay: minute, ..PolicyChoice::default() };
    let mut fixture = Fixture::with(policy(choice));
    let holder = fixture.start(outside());
    fixture.ask(heartbeat(holder)).expect("its own report");
    fixture.ask(save(holder, Body::Inline("x".into()))).expect("its own report");
    assert!(fixture.attempts.is_empty());
    fixture.ask(fail(holder, Retry::Backoff)).expect("its own report");
    assert_eq!(fixture.attempts[&1].next_at, fixture.job().scheduled_at);
    assert!(fixture.attempts[&1].next_at > Some(fixture.now));
}

#[test]
fn an_attempt_that_completes_its_job_is_told_by_the_job_until_that_is_taken_up_again() {
    let mut fixture = Fixture::with(plain());
    let holder = fixture.start(outside());
    fixture.pass(2);
    fixture.ask(complete(holder)).expect("its own report");
    let told = PastAttempt::of_completed(fixture.job()).expect("the job tells it");
    assert!(fixture.attempts.is_empty(), "most jobs need no row");
    fixture.pass(9);
    fixture.ask(Command::Retry).expect("it is completed");
    assert_eq!(fixture.attempts[&1], told);
    assert_eq!(
        (told.outcome, told.ended_at.since(told.started_at)),
        (AttemptOutcome::Completed, Duration::from_secs(2))
    );
    assert_eq!(PastAttempt::of_completed(fixture.job()), None, "it is pending again");
    let holder = fixture.start(outside());
    fixture.ask(fail(holder, Retry::Never)).expect("its own report");
    assert_eq!(outcomes(&fixture), [(1, AttemptOutcome::Completed), (2, AttemptOutcome::Failed)]);
    assert_eq!(
        (fixture.attempts[&2].attempt, fixture.attempts[&2].number),
        (1, 2),
        "attempts begin again, claims do not"
    );
}

#[test]
fn what_became_apparent_is_part_of_the_row_and_bounded() {
    let denial = Denial { at: Time(1), capability: "http".into(), wanted: "a.com".into(), grant: "a.com".into() };
    let mut findings = Findings { denials: vec![denial; bounds::DENIALS + 1], ..Findings::default() };
    findings.hits.add(LimitKind::Log);
    let mut fixture = Fixture::with(plain());
    let holder = fixture.start(here());
    fixture.findings = Some(Box::new(findings.clone()));
    fixture.ask(complete(holder)).expect("its own report");
    let attempt = &fixture.attempts[&1];
    assert_eq!((attempt.outcome, attempt.findings.denials.len()), (AttemptOutcome::Completed, bounds::DENIALS));
    assert_eq!(attempt.findings.hits, findings.hits);
    fixture.ask(Command::Retry).expect("it is completed");
    assert_eq!(fixture.attempts[&1].findings.hits, findings.hits, "the row stays as it is");
}
