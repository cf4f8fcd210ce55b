//! Rounds: where a job is put, and when it continues; rebuilding; records that come with a report.

use core::time::Duration;

use crate::decide::tests::{
    Fixture, cancel, complete, fail, hand_back, heartbeat, hold, move_to, outside, plain, policy,
};
use crate::flow::{AfterRemoval, OnFailure, RoundFacts};
use crate::{
    AfterStop, Body, Checkpoint, Command, Complete, EventKind, Heartbeat, Holder, JobId, NewJob, NewMark, NewRecord,
    Notes, PolicyChoice, Reply, Retry, State, Time, Usage, Wait,
};

fn facts(upto: Option<u32>, parent: Option<u32>) -> Option<RoundFacts> {
    Some(RoundFacts { upto, parent })
}

/// A job whose parent is of round `parent`, in a queue whose rounds run up to `upto`.
fn child(parent: Option<u32>, upto: Option<u32>, new: NewJob) -> Fixture {
    let mut fixture = Fixture::new();
    fixture.rounds = facts(upto, parent);
    fixture.enqueue(new).expect("a good job");
    fixture
}

#[test]
fn a_new_job_is_of_the_round_after_its_parents_and_waits_for_it() {
    let cases = [
        (None, Some(0), 0, State::Pending),
        (None, Some(u32::MAX), 0, State::Pending),
        (None, None, 0, State::Blocked),
        (Some(0), Some(0), 1, State::Blocked),
        (Some(0), Some(1), 1, State::Pending),
        (Some(6), Some(9), 7, State::Pending),
    ];
    for (parent, upto, round, state) in cases {
        let fixture = child(parent, upto, plain());
        assert_eq!((fixture.job().round, fixture.state()), (Some(round), state), "{parent:?} {upto:?}");
        assert_eq!(fixture.job().waits_for_round(), (state == State::Blocked).then_some(round));
        let told = fixture.events.iter().any(|event| matches!(event, EventKind::Blocked { round: Some(_), .. }));
        assert_eq!(told, state == State::Blocked);
    }
    assert_eq!(Fixture::with(plain()).job().round, None, "its queue has no rounds");
}

#[test]
fn a_job_that_waits_for_its_round_starts_with_it_and_not_before() {
    let mut fixture = child(Some(1), Some(1), plain());
    assert_eq!(fixture.ask(Command::RoundStarted), Ok(Reply::Unchanged), "round 1 runs");
    fixture.rounds = facts(Some(2), None);
    fixture.ask(Command::RoundStarted).expect("its round");
    assert_eq!(fixture.state(), State::Pending);
    assert_eq!(fixture.ask(Command::RoundStarted), Ok(Reply::Unchanged), "it was told before");
}

#[test]
fn a_job_waits_for_its_time_its_dependencies_and_its_round() {
    let later = NewJob { delay: Some(Duration::from_secs(60)), ..plain() };
    let mut fixture = child(Some(0), Some(0), later.clone());
    assert_eq!(fixture.state(), State::Scheduled);
    fixture.pass(60);
    fixture.ask(Command::Due).expect("its time");
    assert_eq!(fixture.state(), State::Blocked);

    let mut fixture = Fixture::new();
    fixture.rounds = facts(Some(0), Some(0));
    let other = JobId::new(Time(7), 1);
    fixture.dependencies = vec![(other, State::Active)];
    fixture.enqueue(plain()).expect("a good job");
    assert_eq!(fixture.job().waits_for_round(), None, "it waits for another job first");
    let ended = Command::DependencyEnded { dependency: other, state: State::Completed };
    let mut early = Fixture { job: fixture.job.clone(), ..Fixture::new() };
    early.rounds = facts(Some(1), None);
    early.ask(ended.clone()).expect("accepted");
    assert_eq!(early.state(), State::Pending, "both are over");
    fixture.ask(ended).expect("accepted");
    assert_eq!(fixture.job().waits_for_round(), Some(1));
}

#[test]
fn whatever_puts_a_job_back_in_line_heeds_its_round() {
    type Then = fn(&mut Fixture, Holder) -> Command;
    let ways: [(&str, Then); 5] = [
        ("handed back", |_, holder| hand_back(holder)),
        ("failed", |_, holder| fail(holder, Retry::After(Duration::ZERO))),
        ("lease lapsed", |fixture, _| {
            fixture.pass(3_600);
            crate::decide::tests::watch()
        }),
        ("retried", |fixture, holder| {
            fixture.ask(complete(holder)).expect("done");
            Command::Retry
        }),
        ("approved", |fixture, holder| {
            fixture.ask(hold()).expect("asked");
            fixture.ask(hand_back(holder)).expect("stopped");
            Command::Approve
        }),
    ];
    for (way, then) in ways {
        for (upto, expected) in [(Some(3), State::Pending), (Some(1), State::Blocked), (None, State::Blocked)] {
            let mut fixture = child(Some(2), Some(3), plain());
            let holder = fixture.start(outside());
            fixture.rounds = facts(upto, None);
            let command = then(&mut fixture, holder);
            fixture.ask(command).expect(way);
            assert_eq!(fixture.state(), expected, "{way} {upto:?}");
        }
    }
}

#[test]
fn a_moved_job_keeps_its_round_and_waits_where_it_comes() {
    let cases = [
        (Some(4), facts(Some(4), None), Some(3), State::Pending),
        (Some(4), facts(Some(2), None), Some(3), State::Blocked),
        (Some(2), facts(Some(4), None), Some(3), State::Pending),
        (Some(2), None, None, State::Pending),
        (Some(4), None, None, State::Pending),
    ];
    for (here, there, round, state) in cases {
        let mut fixture = child(Some(2), here, plain());
        fixture.target_rounds = there;
        fixture.ask(move_to("other")).expect("moved");
        assert_eq!((fixture.job().round, fixture.state()), (round, state), "{here:?} {there:?}");
    }
    let mut fixture = Fixture::with(plain());
    fixture.target_rounds = facts(Some(0), None);
    fixture.ask(move_to("other")).expect("moved");
    assert_eq!(fixture.job().round, Some(0), "it comes from a queue without rounds");
}

#[test]
fn a_job_of_a_round_cannot_wait_for_its_children() {
    let mut fixture = child(None, Some(0), plain());
    let holder = fixture.start(outside());
    let wait = Command::Wait(Wait {
        holder,
        on_child_failure: OnFailure::Fail,
        checkpoint: None,
        usage: Usage::default(),
        notes: None,
    });
    let refused = fixture.ask(wait).expect_err("it would wait for ever").to_string();
    assert!(refused.contains("next round"), "{refused}");
    assert_eq!(fixture.state(), State::Active);
}

/// A job that has ended in this way, having spawned so many children.
fn ended(how: State, children: u32) -> Fixture {
    let mut fixture = child(None, Some(0), policy(PolicyChoice { max_attempts: Some(1), ..PolicyChoice::default() }));
    let holder = fixture.start(outside());
    fixture.children = children;
    let notes = Notes::new(vec![NewRecord { key: "a".into(), value: vec![1] }], Vec::new());
    let checkpoint = Some(Checkpoint { body: Body::Inline("c".into()), schema: 2, usage: Usage::default() });
    fixture
        .ask(Command::Heartbeat(Heartbeat { holder, progress: None, checkpoint, spent: None, notes }))
        .expect("saved");
    fixture.children = 0;
    match how {
        State::Completed => fixture.ask(complete(holder)),
        State::Dead => fixture.ask(fail(holder, Retry::Backoff)),
        _ => {
            fixture.ask(cancel()).expect("asked");
            fixture.ask(hand_back(holder))
        }
    }
    .expect("it ends");
    assert_eq!((fixture.state(), fixture.records.len()), (how, 1));
    fixture
}

#[test]
fn a_rebuilt_job_begins_from_nothing_once_its_subtree_is_gone() {
    for how in [State::Completed, State::Dead, State::Cancelled] {
        let mut fixture = ended(how, 2);
        fixture.ask(Command::Rebuild).expect("rebuilt");
        assert_eq!((fixture.state(), fixture.job().removing()), (State::Blocked, Some(AfterRemoval::Rebuild)));
        assert_eq!(fixture.job().waits_for_round(), None, "it waits for more than its round");
        assert!(fixture.records.is_empty() && fixture.job().checkpoint.is_none() && fixture.job().result.is_none());
        assert!(fixture.ask(Command::Rebuild).is_err() && fixture.ask(Command::Retry).is_err(), "it has not ended");
        fixture.ask(Command::SubtreeRemoved).expect("all below it has gone");
        let job = fixture.job();
        assert_eq!((job.state, job.attempt, job.failures, job.children), (State::Pending, 0, 0, 0), "{how:?}");
        assert_eq!((job.round, job.records, job.checkpoint_schema), (Some(0), 0, 0));
        assert_eq!(fixture.ask(Command::SubtreeRemoved), Ok(Reply::Unchanged));
    }
    let mut fixture = ended(State::Dead, 0);
    fixture.rounds = facts(None, None);
    fixture.ask(Command::Rebuild).expect("rebuilt");
    assert_eq!(fixture.job().waits_for_round(), Some(0), "nothing is below it, and its gate is closed");
    let mut running = child(None, Some(0), plain());
    running.start(outside());
    assert!(running.ask(Command::Rebuild).is_err());
}

#[test]
fn a_rebuild_can_be_cancelled_and_what_is_below_one_cannot() {
    let mut fixture = ended(State::Dead, 2);
    fixture.ask(Command::Rebuild).expect("rebuilt");
    fixture.ask(cancel()).expect("cancelled");
    assert_eq!((fixture.state(), fixture.job().removing()), (State::Cancelled, None));
    assert_eq!(fixture.ask(Command::SubtreeRemoved), Ok(Reply::Unchanged));

    let mut below = ended(State::Completed, 2);
    below.ask(Command::RemoveSubtree).expect("its ancestor is rebuilt");
    assert_eq!((below.state(), below.job().removing()), (State::Blocked, Some(AfterRemoval::Remove)));
    for command in [cancel(), Command::Delete] {
        assert_eq!(below.ask(command), Ok(Reply::Stopping), "it goes anyway");
    }
    assert_eq!(below.state(), State::Blocked);
    below.ask(Command::SubtreeRemoved).expect("all below it has gone");
    assert!(below.job.is_none());

    let mut leaf = ended(State::Completed, 0);
    assert_eq!(leaf.ask(Command::RemoveSubtree), Ok(Reply::Removed));
    let mut deleted = ended(State::Dead, 1);
    deleted.ask(Command::Rebuild).expect("rebuilt");
    assert_eq!(deleted.ask(Command::Delete), Ok(Reply::Stopping));
    deleted.ask(Command::SubtreeRemoved).expect("all below it has gone");
    assert!(deleted.job.is_none(), "it was to be deleted");
}

#[test]
fn a_running_job_below_a_rebuilt_one_is_stopped_first() {
    for children in [0, 1] {
        let mut fixture = child(None, Some(0), plain());
        let holder = fixture.start(outside());
        assert_eq!(fixture.ask(Command::RemoveSubtree), Ok(Reply::Stopping));
        assert_eq!(fixture.ask(Command::Delete), Ok(Reply::Stopping), "the heavier of the two requests wins");
        let Ok(Reply::Heartbeat { stop, .. }) = fixture.ask(heartbeat(holder)) else { panic!("it lives") };
        assert_eq!(stop, Some(AfterStop::Remove));
        fixture.children = children;
        fixture.ask(complete(holder)).expect("taken");
        assert_eq!(fixture.job.as_ref().and_then(|job| job.removing()), (children > 0).then_some(AfterRemoval::Remove));
    }
}

#[test]
fn records_come_with_a_checkpoint_or_a_result() {
    let notes = || {
        let mark = NewMark { queue: "src".parse().expect("a name"), key: "a".into(), mark: Some("newer".into()) };
        Notes::new(vec![NewRecord { key: "a".into(), value: vec![] }], vec![mark])
    };
    let mut fixture = Fixture::with(plain());
    let holder = fixture.start(outside());
    let alone = fixture.ask(Command::Heartbeat(Heartbeat { notes: notes(), ..Heartbeat::by(holder) }));
    assert!(alone.is_err_and(|refusal| refusal.to_string().contains("checkpoint")) && fixture.records.is_empty());
    fixture.ask(Command::Complete(Complete { notes: notes(), ..Complete::by(holder) })).expect("done");
    assert_eq!((fixture.records.len(), fixture.marks, fixture.job().records), (1, 1, 1));
    assert_eq!(fixture.ask(complete(holder)), Ok(Reply::Unchanged), "sent again");
    assert_eq!(fixture.records.len(), 1);
}
