//! Unique keys: when a lock is taken, when it goes, when it stays, and who may not have it.

use core::time::Duration;

use crate::decide::tests::{Desk, cancel, complete, fail, hold, move_to, outside, plain, queue};
use crate::{
    Command, Job, JobId, Lock, LockKey, NewJob, PolicyChoice, Refusal, Reply, Retry, State, Time, Unique, Until, Within,
};

fn unique(until: Until) -> NewJob {
    let unique = Unique { key: "k".into(), within: Within::Queue, until, period: Duration::from_secs(100) };
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
        let mut desk = Desk::with(unique(until));
        let first = desk.job().id;
        desk.pass(99);
        assert_eq!(
            desk.ask(Command::Enqueue(Box::new(unique(until)))).expect("answered"),
            Reply::Duplicate { id: first }
        );
        desk.pass(1);
        let Ok(Reply::Stored { id, .. }) = desk.ask(Command::Enqueue(Box::new(unique(until)))) else {
            panic!("its period is over");
        };
        assert_ne!(id, first);
    }
}

#[test]
fn a_job_without_a_key_asks_nobody() {
    let mut desk = Desk::with(unique(Until::End));
    assert!(matches!(desk.ask(Command::Enqueue(Box::new(plain()))), Ok(Reply::Stored { .. })));
}

#[test]
fn a_lock_until_the_end_goes_with_every_end_and_one_for_a_period_with_none() {
    let ends: [fn(&mut Desk); 5] = [
        |desk| {
            let word = desk.start(outside());
            desk.ask(complete(word)).expect("its own word");
        },
        |desk| {
            let word = desk.start(outside());
            desk.ask(fail(word, Retry::Never)).expect("its own word");
        },
        |desk| drop(desk.ask(cancel()).expect("it waits")),
        |desk| {
            desk.ask(hold()).expect("it waits");
            desk.ask(Command::Reject { reason: "no".into() }).expect("it is held");
        },
        |desk| {
            desk.pass(50);
            desk.ask(Command::Expire).expect("never refused");
        },
    ];
    for end in ends {
        for until in [Until::End, Until::Period] {
            let policy = PolicyChoice { expire_after: Some(Duration::from_secs(50)), ..PolicyChoice::default() };
            let mut desk = Desk::with(NewJob { policy, ..unique(until) });
            end(&mut desk);
            assert!(desk.job().is_ended());
            assert_eq!(desk.locks.contains_key(&key("mail")), until == Until::Period);
        }
    }
}

#[test]
fn whoever_deletes_the_job_deletes_its_lock() {
    for until in [Until::End, Until::Period] {
        let mut desk = Desk::with(unique(until));
        desk.ask(Command::Delete).expect("any job can be");
        assert!(desk.locks.is_empty());
    }
}

#[test]
fn a_job_is_kept_at_least_as_long_as_its_lock() {
    let policy = PolicyChoice { ttl: Some(Duration::from_secs(1)), ..PolicyChoice::default() };
    let mut desk = Desk::with(NewJob { policy, ..unique(Until::Period) });
    let word = desk.start(outside());
    desk.ask(complete(word)).expect("its own word");
    assert_eq!(desk.job().keep_until, Some(desk.now + Duration::from_secs(100)));
}

#[test]
fn the_end_of_a_job_that_lost_its_key_frees_nobody_else_s() {
    let mut desk = Desk::with(unique(Until::End));
    desk.pass(101);
    let lock = held_by_another(Until::End, desk.now + Duration::from_secs(50));
    desk.locks.insert(key("mail"), lock.clone());
    desk.ask(cancel()).expect("it waits");
    assert_eq!(desk.locks.get(&key("mail")), Some(&lock));
    desk.ask(Command::Delete).expect("any job can be");
    assert_eq!(desk.locks.get(&key("mail")), Some(&lock));
}

#[test]
fn an_ended_job_comes_back_only_when_its_key_is_free() {
    for command in [Command::Retry, Command::Requeue] {
        let mut desk = Desk::with(unique(Until::End));
        let word = desk.start(outside());
        desk.ask(fail(word, Retry::Never)).expect("its own word");
        let lock = held_by_another(Until::End, desk.now + Duration::from_secs(50));
        desk.locks.insert(key("mail"), lock);
        let refused = desk.ask(command.clone());
        assert!(matches!(refused, Err(Refusal::Locked { holder, .. }) if holder == other()), "{refused:?}");
        desk.pass(51);
        desk.ask(command).expect("the other one's period is over");
        assert_eq!(desk.locks[&key("mail")].job, desk.job().id);
        assert_eq!(desk.state(), State::Pending);
    }
}

#[test]
fn a_move_takes_the_lock_along() {
    let mut desk = Desk::with(unique(Until::Period));
    let lock = desk.locks[&key("mail")].clone();
    desk.ask(move_to("images")).expect("it waits");
    assert_eq!((desk.locks.get(&key("mail")), desk.locks.get(&key("images"))), (None, Some(&lock)));
}

#[test]
fn a_move_never_takes_another_one_s_lock() {
    let mut desk = Desk::with(unique(Until::End));
    let lock = held_by_another(Until::End, desk.now + Duration::from_secs(50));
    desk.locks.insert(key("images"), lock.clone());
    assert!(matches!(desk.ask(move_to("images")), Err(Refusal::Locked { .. })));
    assert_eq!(desk.locks.get(&key("images")), Some(&lock));
    desk.pass(60);
    desk.ask(move_to("images")).expect("the other one's period is over");
    assert_eq!(desk.locks[&key("images")].job, desk.job().id);
}

#[test]
fn a_lock_whose_period_is_over_is_not_taken_along() {
    let mut desk = Desk::with(unique(Until::Period));
    desk.pass(100);
    desk.ask(move_to("images")).expect("it waits");
    assert!(desk.locks.is_empty(), "a timer for it would lie in the past");
}

#[test]
fn a_key_within_a_scope_stays_where_it_is_in_a_move() {
    let within = Unique { key: "k".into(), within: Within::Scope, until: Until::End, period: Duration::from_secs(100) };
    let mut desk = Desk::with(NewJob { unique: Some(within), scope: Some("user:1".into()), ..plain() });
    let before = desk.locks.clone();
    desk.ask(move_to("images")).expect("it waits");
    assert_eq!(desk.locks, before);
    assert_eq!(desk.job.as_ref().and_then(Job::lock_key), Some(LockKey::Scope("user:1".into(), "k".into())));
}
