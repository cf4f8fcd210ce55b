//! What is written down about a job: when it is created, while it runs, and when it ends.

use core::time::Duration;
use std::collections::BTreeSet;

use crate::decide::tests::{
    Fixture, STRANGER, cancel, complete, fail, hand_back, here, outside, plain, policy, queue, watch,
};
use crate::flow::OnFailure;
use crate::{
    AfterStop, Agent, Command, EventKind, Fail, Failure, HandBack, Heartbeat, Holder, JobId, NewJob, PolicyChoice,
    Priority, Progress, Refusal, Reply, Retry, State, Time, Unique, UniqueScope, Until, Usage, Wait, bounds,
};

fn seconds(seconds: u64) -> Option<Duration> {
    Some(Duration::from_secs(seconds))
}

#[test]
fn a_new_job_carries_what_its_producer_gave() {
    let other = |number| JobId::new(Time(3), number);
    let new = NewJob {
        id: Some(other(1)),
        tags: vec![("a".into(), "b".into())],
        scope: Some("user:1".into()),
        limit_key: Some("tenant".into()),
        target_worker: Some("ann".into()),
        parent: Some(other(2)),
        batch_id: Some("batch".into()),
        schedule: Some("nightly".parse().expect("a name")),
        created_by: Some("key".into()),
        agent: Some(Box::new(Agent { iteration_timeout: seconds(5), ..Agent::default() })),
        policy: PolicyChoice {
            priority: Some(Priority::High),
            attempt_timeout: seconds(9),
            expire_after: seconds(70),
            ..PolicyChoice::default()
        },
        delay: seconds(60),
        ..plain()
    };
    let fixture = Fixture::with(new.clone());
    let job = fixture.job();
    assert_eq!(Some(job.id), new.id);
    assert_eq!((&job.tags, &job.scope, &job.limit_key), (&new.tags, &new.scope, &new.limit_key));
    assert_eq!((&job.target_worker, job.parent, &job.batch_id), (&new.target_worker, new.parent, &new.batch_id));
    assert_eq!((&job.schedule, &job.created_by, &job.agent), (&new.schedule, &new.created_by, &new.agent));
    assert_eq!(job.priority, Priority::High);
    assert_eq!(job.policy.attempt_timeout, seconds(5), "an iteration is an attempt: the shorter limit holds");
    assert_eq!(job.scheduled_at, Some(fixture.now + Duration::from_secs(60)));
    assert_eq!(job.expire_at, Some(fixture.now + Duration::from_secs(70)));
}

#[test]
fn a_job_says_how_and_when_it_ended() {
    type End = fn(&mut Fixture, Holder);
    let ends: [(End, State); 3] = [
        (|fixture, holder| drop(fixture.ask(complete(holder)).expect("its own report")), State::Completed),
        (|fixture, holder| drop(fixture.ask(fail(holder, Retry::Never)).expect("its own report")), State::Dead),
        (
            |fixture, holder| {
                fixture.ask(cancel()).expect("it runs");
                fixture.ask(hand_back(holder)).expect("its own report");
            },
            State::Cancelled,
        ),
    ];
    for (end, state) in ends {
        let mut fixture = Fixture::with(policy(PolicyChoice { ttl: seconds(50), ..PolicyChoice::default() }));
        let holder = fixture.start(outside());
        fixture.pass(7);
        end(&mut fixture, holder);
        let (now, job) = (fixture.now, fixture.job());
        assert_eq!(job.state, state);
        let expected = if state == State::Completed { (Some(now), None) } else { (None, Some(now)) };
        assert_eq!((job.completed_at, job.failed_at), expected, "{state:?}");
        assert_eq!(job.keep_until, Some(now + Duration::from_secs(50)));
        let event = match state {
            State::Completed => EventKind::Completed { attempt: 1 },
            State::Dead => EventKind::Dead { attempt: 1, reason: "failed for good".into() },
            _ => EventKind::Cancelled { reason: "not wanted".into() },
        };
        assert_eq!(fixture.events.last(), Some(&event));
    }
}

#[test]
fn a_job_whose_lock_outlives_it_is_kept_as_long_as_its_queue_says_at_least() {
    let unique =
        Unique { key: "k".into(), within: UniqueScope::Queue, until: Until::Period, period: Duration::from_secs(100) };
    for (age, expected) in [(1_000, 1_000), (10, 100)] {
        let mut fixture = Fixture::with(NewJob { unique: Some(unique.clone()), ..plain() });
        fixture.settings.retention.completed.age = Duration::from_secs(age);
        let holder = fixture.start(outside());
        fixture.ask(complete(holder)).expect("its own report");
        assert_eq!(fixture.job().keep_until, Some(fixture.now + Duration::from_secs(expected)));
    }
}

#[test]
fn a_text_that_is_too_long_is_cut_between_two_characters_and_says_so() {
    let most = bounds::REASON_BYTES;
    let cases = [
        ("x".repeat(most), "x".repeat(most)),
        ("x".repeat(most + 1), format!("{}…", "x".repeat(most))),
        (format!("x{}", "ä".repeat(most)), format!("x{}…", "ä".repeat(most / 2 - 1))),
    ];
    for (reason, expected) in cases {
        let mut fixture = Fixture::with(plain());
        let holder = fixture.start(outside());
        fixture.ask(Command::HandBack(HandBack { holder, reason, usage: Usage::default() })).expect("its own report");
        assert_eq!(fixture.reason(), expected);
    }
}

#[test]
fn the_error_of_an_attempt_tells_where_it_broke_who_ran_it_and_what_it_took() {
    let mut fixture = Fixture::with(plain());
    let holder = fixture.start(outside());
    let usage = Usage { cpu_ms: 3, ..Usage::default() };
    let failure = Failure { error: "it broke".into(), backtrace: Some("in main".into()), retry: Retry::Backoff };
    fixture.ask(Command::Fail(Fail { holder, failure, usage })).expect("its own report");
    let error = fixture.last_error.as_ref().expect("an error");
    assert_eq!((&*error.error, error.backtrace.as_deref(), error.usage), ("it broke", Some("in main"), usage));
    assert_eq!((error.attempt, error.at, &error.runner), (1, fixture.now, &outside()));
    assert_eq!((fixture.job().last_error.as_deref(), fixture.job().usage), (Some("it broke"), Some(usage)));
}

#[test]
fn a_job_dies_for_the_reason_that_ended_it() {
    let one = || policy(PolicyChoice { max_attempts: Some(1), ..PolicyChoice::default() });
    for (retry, reason) in [(Retry::Never, "failed for good"), (Retry::Backoff, "retries used up")] {
        let mut fixture = Fixture::with(one());
        let holder = fixture.start(outside());
        fixture.ask(fail(holder, retry)).expect("its own report");
        assert_eq!((fixture.state(), fixture.reason()), (State::Dead, reason));
    }
}

#[test]
fn a_watch_says_which_limit_passed() {
    let choice = PolicyChoice::default;
    let cases = [
        (choice(), 60, "lease lapsed"),
        (PolicyChoice { max_duration: seconds(50), ..choice() }, 50, "max_duration passed"),
        (PolicyChoice { attempt_timeout: seconds(40), ..choice() }, 40, "attempt_timeout passed"),
        (PolicyChoice { stall_timeout: seconds(30), ..choice() }, 30, "stall_timeout passed"),
    ];
    for (choice, after, words) in cases {
        let mut fixture = Fixture::with(policy(choice));
        fixture.start(outside());
        fixture.pass(after - 1);
        fixture.ask(watch()).expect("never refused");
        assert_eq!(fixture.errors, 0, "{words}: too early");
        fixture.pass(1);
        fixture.ask(watch()).expect("never refused");
        let error = fixture.job().last_error.clone().expect("an error");
        assert!(error.starts_with(words), "{error}");
    }
}

#[test]
fn progress_is_published_and_kept_with_its_texts_cut() {
    let mut fixture = Fixture::with(plain());
    let holder = fixture.start(outside());
    fixture.pass(3);
    let long = || Some("x".repeat(100_000));
    let progress =
        Progress { message: long(), phase: long(), detail: long(), percent: Some(5.0), ..Default::default() };
    fixture
        .ask(Command::Heartbeat(Heartbeat { progress: Some(progress), ..Heartbeat::by(holder) }))
        .expect("its own report");
    let kept = fixture.job().progress.clone().expect("it is kept");
    assert_eq!((kept.ts, kept.percent), (fixture.now, Some(5.0)));
    let lengths = [&kept.message, &kept.phase, &kept.detail].map(|text| text.as_ref().map(String::len));
    let mark = '…'.len_utf8();
    assert_eq!(
        lengths,
        [bounds::MESSAGE_BYTES, bounds::NAME_BYTES, bounds::DETAIL_BYTES].map(|most| Some(most + mark))
    );
    assert!(fixture.events.contains(&EventKind::Progress(kept)));
}

fn wait(holder: Holder) -> Command {
    let (checkpoint, usage) = (None, Usage::default());
    Command::Wait(Wait { holder, on_child_failure: OnFailure::Fail, checkpoint, usage, notes: None })
}

#[test]
fn children_are_counted_with_whatever_brings_them() {
    let mut fixture = Fixture::with(plain());
    let holder = fixture.start(outside());
    fixture.children = 3;
    fixture.ask(Command::Heartbeat(Heartbeat::by(holder))).expect("its own report");
    assert_eq!(fixture.job().children, 3);
    fixture.children = 2;
    fixture.ask(wait(holder)).expect("it waits");
    assert_eq!(fixture.job().children, 5);
    fixture.ask(Command::Joined).expect("its children have ended");
    let holder = fixture.start(outside());
    fixture.ask(complete(holder)).expect("its own report");
    assert_eq!(fixture.job().children, 7);
}

#[test]
fn only_the_wait_that_was_taken_is_answered_again_and_only_until_the_job_runs() {
    let mut fixture = Fixture::with(plain());
    let holder = fixture.start(outside());
    fixture.ask(wait(holder)).expect("it waits");
    assert!(matches!(fixture.ask(wait(STRANGER)), Err(Refusal::NotActive { .. })));
    assert_eq!(fixture.ask(wait(holder)), Ok(Reply::Unchanged));
    fixture.ask(Command::Joined).expect("its children have ended");
    fixture.start(outside());
    assert!(matches!(fixture.ask(wait(holder)), Err(Refusal::NotActive { .. })), "another attempt runs");
}

#[test]
fn no_two_attempts_have_the_same_secret_and_no_two_jobs_the_same_id() {
    let (mut secrets, mut ids) = (BTreeSet::new(), BTreeSet::new());
    let mut fixture = Fixture::new();
    for _ in 0..100 {
        fixture.enqueue(plain()).expect("a good job");
        ids.insert(fixture.job().id);
        let Holder::Token(token) = fixture.start(outside()) else { panic!("a token") };
        secrets.insert(token.secret);
    }
    assert_eq!((secrets.len(), ids.len()), (100, 100));
}

#[test]
fn a_move_keeps_or_resets_the_attempts_as_asked() {
    for reset_attempts in [false, true] {
        let mut fixture = Fixture::with(plain());
        let holder = fixture.start(outside());
        fixture.ask(fail(holder, Retry::Backoff)).expect("its own report");
        let target = crate::Move { queue: queue("images"), reset_attempts, priority: None };
        fixture.ask(Command::Move(target)).expect("it waits");
        let left = if reset_attempts { (0, 0) } else { (1, 1) };
        assert_eq!((fixture.job().attempt, fixture.job().failures), left);
        assert_eq!((&fixture.job().queue, fixture.job().priority), (&queue("images"), Priority::default()));
    }
}

#[test]
fn an_attempt_that_ends_without_a_failure_leaves_what_it_took_in_the_timeline() {
    for (cpu_ms, expected) in [(0, None), (3, Some(3))] {
        let mut fixture = Fixture::with(plain());
        let holder = fixture.start(here());
        let usage = Usage { cpu_ms, ..Usage::default() };
        fixture.ask(Command::HandBack(HandBack { holder, reason: "stop".into(), usage })).expect("its own report");
        let step = fixture.job().timeline.steps.last().cloned().expect("a step");
        assert_eq!(step.ran.map(|ran| ran.usage.cpu_ms), expected);
    }
}

#[test]
fn a_swap_by_a_moment_that_has_passed_is_looked_at_at_once() {
    let mut fixture = Fixture::with(plain());
    fixture.start(here());
    fixture.pass(10);
    fixture.ask(Command::Swap { by: Some(Time(1)) }).expect("it runs here");
    let run = fixture.job().run.clone().expect("it runs");
    assert_eq!((run.watch_at, run.stop), (Some(fixture.now), None));
    fixture.ask(watch()).expect("never refused");
    let stop = fixture.job().run.as_ref().and_then(|run| run.stop.clone());
    assert_eq!(stop.map(|stop| stop.then), Some(AfterStop::Swap));
}
