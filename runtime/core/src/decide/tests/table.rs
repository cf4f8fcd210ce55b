//! Every command in every state, as one table.

use core::time::Duration;

use crate::decide::tests::{
    Fixture, cancel, complete, fail, hand_back, heartbeat, hold, move_to, outside, policy, watch,
};
use crate::{Action, Body, Command, Edit, Holder, NewJob, PolicyChoice, Priority, Refusal, Reply, Retry, State};

/// A job that came into the state in the ordinary way, an hour ago, with half an hour to live; and the holder of its
/// last attempt.
fn in_state(state: State) -> (Fixture, Holder) {
    let new = policy(PolicyChoice { expire_after: Some(Duration::from_secs(1800)), ..PolicyChoice::default() });
    let mut fixture = match state {
        State::Scheduled => Fixture::with(NewJob { delay: Some(Duration::from_secs(60)), ..new }),
        _ => Fixture::with(new),
    };
    let mut holder = Holder::Unsigned;
    match state {
        State::Scheduled | State::Pending => {}
        State::Active => holder = fixture.start(outside()),
        State::Retrying => {
            holder = fixture.start(outside());
            fixture.ask(fail(holder, Retry::Backoff)).expect("the attempt holds the job");
        }
        State::Held => drop(fixture.ask(hold()).expect("it waits")),
        // Nothing blocks a job yet; the rules know the state all the same.
        State::Blocked => fixture.job.as_mut().expect("it is there").state = State::Blocked,
        State::Completed => {
            holder = fixture.start(outside());
            fixture.ask(complete(holder)).expect("the attempt holds the job");
        }
        State::Dead => {
            holder = fixture.start(outside());
            fixture.ask(fail(holder, Retry::Never)).expect("the attempt holds the job");
        }
        State::Cancelled => drop(fixture.ask(cancel()).expect("it waits")),
    }
    assert_eq!(fixture.state(), state);
    fixture.pass(3600);
    (fixture, holder)
}

fn outcome(fixture: &mut Fixture, command: Command) -> &'static str {
    match fixture.ask(command) {
        Err(Refusal::WrongState { .. } | Refusal::NotActive { .. }) => "no",
        Err(other) => panic!("{other}"),
        Ok(Reply::Stopping) => "stopping",
        Ok(Reply::Removed) => "gone",
        Ok(Reply::Unchanged) => "same",
        Ok(_) => fixture.state().as_str(),
    }
}

type MakeCommand = fn(Holder) -> Command;

#[test]
fn every_command_in_every_state_does_what_the_table_says() {
    // `no` is refused; `same` changes nothing; else the state that follows.
    #[rustfmt::skip]
    let table: [(&str, MakeCommand, [&str; 9]); 22] = [
        //                                                  scheduled    pending      active       retrying     held         blocked      completed    dead         cancelled
        ("start", |_| Command::Start { runner: outside(), by: None }, ["no",        "active",    "no",        "no",        "no",        "no",        "no",        "no",        "no"]),
        ("complete", complete,                              ["no",        "no",        "completed", "no",        "no",        "no",        "same",      "no",        "no"]),
        ("fail", |holder| fail(holder, Retry::Backoff),         ["no",        "no",        "retrying",  "no",        "no",        "no",        "no",        "no",        "no"]),
        ("hand back", hand_back,                            ["no",        "no",        "pending",   "no",        "no",        "no",        "no",        "no",        "no"]),
        ("heartbeat", heartbeat,                                      ["no",        "no",        "active",    "no",        "no",        "no",        "no",        "no",        "no"]),
        // Only what runs in this process can be swapped.
        ("swap", |_| Command::Swap { by: None },            ["same",      "same",      "same",      "same",      "same",      "same",      "same",      "same",      "same"]),
        ("cancel", |_| cancel(),                            ["cancelled", "cancelled", "stopping",  "cancelled", "cancelled", "cancelled", "no",        "no",        "no"]),
        ("retry", |_| Command::Retry,                       ["no",        "no",        "no",        "no",        "no",        "no",        "pending",   "pending",   "pending"]),
        ("retry with", |_| Command::RetryWith { payload: Body::Inline("{}".into()) },
                                                            ["no",        "no",        "no",        "no",        "no",        "no",        "pending",   "pending",   "pending"]),
        ("run now", |_| Command::RunNow,                    ["pending",   "no",        "no",        "pending",   "no",        "no",        "no",        "no",        "no"]),
        ("edit", |_| Command::Edit(Box::new(Edit { priority: Some(Priority::Low), ..Edit::default() })),
                                                            ["scheduled", "pending",   "no",        "retrying",  "held",      "blocked",   "no",        "no",        "no"]),
        ("requeue", |_| Command::Requeue,                   ["no",        "no",        "no",        "no",        "no",        "no",        "no",        "pending",   "no"]),
        ("move", |_| move_to("images"),                     ["scheduled", "pending",   "no",        "retrying",  "held",      "blocked",   "completed", "dead",      "cancelled"]),
        ("reprioritise", |_| Command::Reprioritise { priority: Priority::Low },
                                                            ["scheduled", "pending",   "no",        "retrying",  "held",      "blocked",   "no",        "no",        "no"]),
        ("hold", |_| hold(),                                ["held",      "held",      "stopping",  "held",      "no",        "no",        "no",        "no",        "no"]),
        ("approve", |_| Command::Approve,                   ["no",        "no",        "no",        "no",        "pending",   "no",        "no",        "no",        "no"]),
        ("reject", |_| Command::Reject { reason: "no".into() },
                                                            ["no",        "no",        "no",        "no",        "dead",      "no",        "no",        "no",        "no"]),
        ("delete", |_| Command::Delete,                     ["gone",      "gone",      "stopping",  "gone",      "gone",      "gone",      "gone",      "gone",      "gone"]),
        ("due", |_| Command::Due,                           ["pending",   "same",      "same",      "pending",   "same",      "same",      "same",      "same",      "same"]),
        ("expire", |_| Command::Expire,                     ["dead",      "dead",      "stopping",  "dead",      "dead",      "dead",      "same",      "same",      "same"]),
        ("watch", |_| watch(),                              ["same",      "same",      "pending",   "same",      "same",      "same",      "same",      "same",      "same"]),
        // It ran outside: the death of this process is nothing to it.
        ("crash", |_| Command::Crash,                       ["same",      "same",      "same",      "same",      "same",      "same",      "same",      "same",      "same"]),
    ];
    for (name, making, expected) in table {
        for (state, expected) in State::ALL.into_iter().zip(expected) {
            let (mut fixture, holder) = in_state(state);
            let before = fixture.job().clone();
            let found = outcome(&mut fixture, making(holder));
            assert_eq!(found, expected, "{name} when {}", state.as_str());
            if matches!(found, "no" | "same") {
                assert_eq!(fixture.job(), &before, "{name} when {} should change nothing", state.as_str());
            }
        }
    }
}

#[test]
fn an_action_on_many_jobs_knows_the_states_in_which_it_is_refused() {
    let (queue, reason) = ("images".parse().expect("a name"), String::new());
    let actions = [
        Action::Retry,
        Action::Rebuild,
        Action::Requeue,
        Action::Cancel { reason: reason.clone() },
        Action::Move { queue },
        Action::ChangePriority { priority: Priority::Low },
        Action::Hold { reason: reason.clone() },
        Action::Approve,
        Action::Reject { reason },
        Action::Delete,
        Action::RunNow,
    ];
    assert_eq!(actions.each_ref().map(Action::as_str), Action::WORDS);
    for action in actions {
        let (states, words) = action.states();
        for state in State::ALL {
            let refused = match in_state(state).0.ask(action.command()) {
                Err(Refusal::WrongState { allowed, .. }) => Some(allowed),
                Ok(_) => None,
                Err(other) => panic!("{other}"),
            };
            let expected = (!states.contains(&state)).then_some(words);
            assert_eq!(refused, expected, "{} when {}", action.as_str(), state.as_str());
        }
    }
}

#[test]
fn what_the_clock_brings_too_early_changes_nothing() {
    let new = policy(PolicyChoice { expire_after: Some(Duration::from_secs(600)), ..PolicyChoice::default() });
    let mut fixture = Fixture::with(NewJob { delay: Some(Duration::from_secs(60)), ..new });
    fixture.pass(59);
    for command in [Command::Due, Command::Expire] {
        assert_eq!(fixture.ask(command).expect("never refused"), Reply::Unchanged);
    }
    fixture.pass(1);
    fixture.ask(Command::Due).expect("never refused");
    assert_eq!(fixture.state(), State::Pending);
}

#[test]
fn a_time_that_has_passed_is_no_delay() {
    let mut fixture = Fixture::new();
    let new = NewJob { scheduled_at: Some(fixture.now), ..crate::decide::tests::plain() };
    fixture.enqueue(new).expect("a good job");
    assert_eq!(fixture.state(), State::Pending);
}
