//! Unique keys: when a lock is taken, when it is released, when it stays, and which job may not have it.

use core::time::Duration;

use crate::decide::tests::{Fixture, cancel, complete, fail, hold, move_to, outside, plain, queue};
use crate::{
    Command, Job, JobId, Lock, LockKey, NewJob, PolicyChoice, Refusal, Reply, Retry, State, Time, Unique, UniqueScope,
    Until,
};

fn unique(until: Until) -> NewJob {
    let unique = Unique { key: "k".into(), within: UniqueScope::Queue, until, period: Duration::from_secs(100) };
    NewJob { unique: Some(unique), ..plain() }
}

fn key(name: &str) -> LockKey {
    LockKey::Queue(queue(name), "k".into())
}

fn other() -> JobId {
    JobId::new(Time(5), 5)
}

fn held_by_another(until: Until, expires_at: Time) -> Lock {
    Lock { job: other(), until, expires_at }
}

#[test]
fn while_the_lock_holds_a_second_job_is_the_first_one() {
    for until in [Until::End, Until::Period] {
        let mut fixture = Fixture::with(unique(until));
        let first = fixture.job().id;
        fixture.pass(99);
        assert_eq!(fixture.enqueue(unique(until)).expect("answered"), Reply::Duplicate { id: first });
        fixture.pass(1);
        let Ok(Reply::Stored { id, .. }) = fixture.enqueue(unique(until)) else {
            panic!("its period is over");
        };
        assert_ne!(id, first);
    }
}

#[test]
fn a_job_without_a_key_asks_nobody() {
    let mut fixture = Fixture::with(unique(Until::End));
    assert!(matches!(fixture.enqueue(plain()), Ok(Reply::Stored { .. })));
}

#[test]
fn a_lock_until_the_end_goes_with_every_end_and_one_for_a_period_with_none() {
    let ends: [fn(&mut Fixture); 5] = [
        |fixture| {
            let holder = fixture.start(outside());
            fixture.ask(complete(holder)).expect("the attempt holds the job");
        },
        |fixture| {
            let holder = fixture.start(outside());
            fixture.ask(fail(holder, Retry::Never)).expect("the attempt holds the job");
        },
        |fixture| drop(fixture.ask(cancel()).expect("it waits")),
        |fixture| {
            fixture.ask(hold()).expect("it waits");
            fixture.ask(Command::Reject { reason: "no".into() }).expect("it is held");
        },
        |fixture| {
            fixture.pass(50);
            fixture.ask(Command::Expire).expect("never refused");
        },
    ];
    for end in ends {
        for until in [Until::End, Until::Period] {
            let policy = PolicyChoice { expire_after: Some(Duration::from_secs(50)), ..PolicyChoice::default() };
            let mut fixture = Fixture::with(NewJob { policy, ..unique(until) });
            end(&mut fixture);
            assert!(fixture.job().is_ended());
            assert_eq!(fixture.locks.contains_key(&key("mail")), until == Until::Period);
        }
    }
}

#[test]
fn whoever_deletes_the_job_deletes_its_lock() {
    for until in [Until::End, Until::Period] {
        let mut fixture = Fixture::with(unique(until));
        fixture.ask(Command::Delete).expect("any job can be");
        assert!(fixture.locks.is_empty());
    }
}

#[test]
fn a_job_is_kept_at_least_as_long_as_its_lock() {
    let policy = PolicyChoice { ttl: Some(Duration::from_secs(1)), ..PolicyChoice::default() };
    let mut fixture = Fixture::with(NewJob { policy, ..unique(Until::Period) });
    let holder = fixture.start(outside());
    fixture.ask(complete(holder)).expect("the attempt holds the job");
    assert_eq!(fixture.job().keep_until, Some(fixture.now + Duration::from_secs(100)));
}

#[test]
fn the_end_of_a_job_that_lost_its_key_frees_nobody_else_s() {
    let mut fixture = Fixture::with(unique(Until::End));
    fixture.pass(101);
    let lock = held_by_another(Until::End, fixture.now + Duration::from_secs(50));
    fixture.locks.insert(key("mail"), lock.clone());
    fixture.ask(cancel()).expect("it waits");
    assert_eq!(fixture.locks.get(&key("mail")), Some(&lock));
    fixture.ask(Command::Delete).expect("any job can be");
    assert_eq!(fixture.locks.get(&key("mail")), Some(&lock));
}

#[test]
fn an_ended_job_comes_back_only_when_its_key_is_free() {
    for command in [Command::Retry, Command::Requeue] {
        let mut fixture = Fixture::with(unique(Until::End));
        let holder = fixture.start(outside());
        fixture.ask(fail(holder, Retry::Never)).expect("the attempt holds the job");
        let lock = held_by_another(Until::End, fixture.now + Duration::from_secs(50));
        fixture.locks.insert(key("mail"), lock);
        let refused = fixture.ask(command.clone());
        assert!(matches!(refused, Err(Refusal::Locked { holder, .. }) if holder == other()), "{refused:?}");
        fixture.pass(51);
        fixture.ask(command).expect("the other one's period is over");
        assert_eq!(fixture.locks[&key("mail")].job, fixture.job().id);
        assert_eq!(fixture.state(), State::Pending);
    }
}

#[test]
fn a_move_takes_the_lock_along() {
    let mut fixture = Fixture::with(unique(Until::Period));
    let lock = fixture.locks[&key("mail")].clone();
    fixture.ask(move_to("images")).expect("it waits");
    assert_eq!((fixture.locks.get(&key("mail")), fixture.locks.get(&key("images"))), (None, Some(&lock)));
}

#[test]
fn a_move_never_takes_another_one_s_lock() {
    let mut fixture = Fixture::with(unique(Until::End));
    let lock = held_by_another(Until::End, fixture.now + Duration::from_secs(50));
    fixture.locks.insert(key("images"), lock.clone());
    assert!(matches!(fixture.ask(move_to("images")), Err(Refusal::Locked { .. })));
    assert_eq!(fixture.locks.get(&key("images")), Some(&lock));
    fixture.pass(60);
    fixture.ask(move_to("images")).expect("the other one's period is over");
    assert_eq!(fixture.locks[&key("images")].job, fixture.job().id);
}

#[test]
fn a_lock_whose_period_is_over_is_not_taken_along() {
    let mut fixture = Fixture::with(unique(Until::Period));
    fixture.pass(100);
    fixture.ask(move_to("images")).expect("it waits");
    assert!(fixture.locks.is_empty(), "a timer for it would lie in the past");
}

#[test]
fn a_key_within_a_scope_stays_where_it_is_in_a_move() {
    let within =
        Unique { key: "k".into(), within: UniqueScope::Scope, until: Until::End, period: Duration::from_secs(100) };
    let mut fixture = Fixture::with(NewJob { unique: Some(within), scope: Some("user:1".into()), ..plain() });
    let before = fixture.locks.clone();
    fixture.ask(move_to("images")).expect("it waits");
    assert_eq!(fixture.locks, before);
    assert_eq!(fixture.job.as_ref().and_then(Job::lock_key), Some(LockKey::Scope("user:1".into(), "k".into())));
}
