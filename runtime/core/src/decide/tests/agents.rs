//! Handlers that work in rounds: another round, a person's look, the bounds, and what was spent.

use crate::decide::tests::{Fixture, complete, outside, plain, watch};
use crate::{
    Agent, AgentStatus, Body, Checkpoint, Closing, Command, Complete, EventKind, Heartbeat, Holder, ModelUsage, NewJob,
    Refusal, Reply, State, StepStatus, Usage,
};

fn ack(holder: Holder, closing: Closing) -> Command {
    Command::Complete(Complete {
        holder,
        result: None,
        usage: Usage::default(),
        closing: Some(Box::new(closing)),
        notes: None,
    })
}

fn round(holder: Holder, agent: AgentStatus) -> Command {
    let checkpoint = Some(Checkpoint { body: Body::Inline("[1]".into()), schema: 0, usage: Usage::default() });
    ack(holder, Closing { agent: Some(agent), checkpoint, ..Closing::default() })
}

fn spent(cost_usd: f64) -> ModelUsage {
    ModelUsage { input_tokens: 100, output_tokens: 7, model: Some("m-1".into()), cost_usd, ..ModelUsage::default() }
}

fn agent(agent: Agent) -> Fixture {
    Fixture::with(NewJob { agent: Some(Box::new(agent)), ..plain() })
}

#[test]
fn continue_puts_the_job_back_in_line_with_its_checkpoint_and_charges_nothing() {
    let mut fixture = Fixture::with(plain());
    let first = fixture.start(outside());
    fixture.ask(round(first, AgentStatus::Continue)).expect("the attempt holds the job");
    assert_eq!((fixture.state(), fixture.job().failures), (State::Pending, 0));
    assert!(!fixture.job().checkpoint.is_none());
    assert!(fixture.events.contains(&EventKind::Continued { iteration: 1 }));
    // The answer was lost: the worker sends it again, and again after the next iteration has begun.
    for again in [first, Holder::Unsigned] {
        assert_eq!(fixture.ask(complete(again)).expect("answered before"), Reply::Unchanged);
    }
    let second = fixture.start(outside());
    assert_eq!(fixture.ask(complete(first)).expect("answered before"), Reply::Unchanged);
    assert_eq!(fixture.state(), State::Active);
    fixture.ask(round(second, AgentStatus::Done)).expect("the attempt holds the job");
    assert_eq!(fixture.state(), State::Completed);
}

#[test]
fn the_last_round_that_was_allowed_is_followed_by_a_persons_decision() {
    let mut fixture = agent(Agent { max_iterations: Some(2), ..Agent::default() });
    for expected in [State::Pending, State::Held] {
        let holder = fixture.start(outside());
        fixture.ask(round(holder, AgentStatus::Continue)).expect("the attempt holds the job");
        assert_eq!(fixture.state(), expected);
    }
    assert_eq!(fixture.job().hold_reason.as_deref(), Some("max_iterations reached: 2 of 2"));
    fixture.ask(Command::Approve).expect("it is held");
    let holder = fixture.start(outside());
    fixture.ask(complete(holder)).expect("the attempt holds the job");
    assert_eq!(fixture.state(), State::Completed);
}

#[test]
fn money_is_counted_over_heartbeats_and_acks_and_bounds_the_rounds() {
    let mut fixture = agent(Agent { max_cost_usd: Some(1.0), ..Agent::default() });
    let holder = fixture.start(outside());
    let heartbeat = Heartbeat { spent: Some(Box::new(spent(0.75))), ..Heartbeat::by(holder) };
    fixture.ask(Command::Heartbeat(heartbeat)).expect("it holds the lease");
    let closing = Closing { agent: Some(AgentStatus::Continue), spent: Some(spent(0.5)), ..Closing::default() };
    fixture.ask(ack(holder, closing)).expect("the attempt holds the job");
    assert_eq!(fixture.state(), State::Held);
    let spending = fixture.job().spending.as_deref().expect("it was told");
    assert_eq!((spending.total.cost_usd, spending.total.input_tokens), (1.25, 200));
    assert_eq!(spending.attempts.len(), 1);
    assert_eq!(spending.attempts[0], (1, spending.total.clone()));
}

#[test]
fn an_agent_can_ask_for_a_person_and_its_reason_is_kept() {
    let mut fixture = Fixture::with(plain());
    let holder = fixture.start(outside());
    let hold_reason = Some("which of the two?".to_owned());
    fixture
        .ask(ack(holder, Closing { agent: Some(AgentStatus::Hold), hold_reason, ..Closing::default() }))
        .expect("held");
    assert_eq!((fixture.state(), fixture.job().hold_reason.as_deref()), (State::Held, Some("which of the two?")));
}

#[test]
fn a_cancel_that_was_asked_for_goes_before_another_round() {
    let mut fixture = Fixture::with(plain());
    let holder = fixture.start(outside());
    fixture.ask(crate::decide::tests::cancel()).expect("it runs");
    fixture.ask(round(holder, AgentStatus::Continue)).expect("the attempt holds the job");
    assert_eq!(fixture.state(), State::Cancelled);
}

#[test]
fn what_a_step_says_of_its_chain_stays_with_it_until_it_is_retried() {
    let mut fixture = Fixture::with(plain());
    let holder = fixture.start(outside());
    let exit_reason = Some("nothing to do".to_owned());
    fixture
        .ask(ack(holder, Closing { step: Some(StepStatus::Exit), exit_reason, ..Closing::default() }))
        .expect("done");
    assert_eq!(fixture.state(), State::Completed);
    assert_eq!(fixture.job().step_status, Some(StepStatus::Exit));
    assert_eq!(fixture.job().exit_reason.as_deref(), Some("nothing to do"));
    fixture.ask(Command::Retry).expect("it has ended");
    assert_eq!((fixture.job().step_status, fixture.job().exit_reason.clone()), (None, None));
}

#[test]
fn a_round_has_its_own_time_limit() {
    let limit = core::time::Duration::from_secs(10);
    let mut fixture = agent(Agent { iteration_timeout: Some(limit), ..Agent::default() });
    fixture.start(outside());
    fixture.pass(11);
    fixture.ask(watch()).expect("looked at");
    assert_eq!(fixture.job().last_error.as_deref(), Some("attempt_timeout passed"));
}

#[test]
fn impossible_bounds_and_costs_are_refused() {
    for wrong in [
        Agent { max_iterations: Some(0), ..Agent::default() },
        Agent { max_cost_usd: Some(f64::NAN), ..Agent::default() },
        Agent { iteration_timeout: Some(core::time::Duration::ZERO), ..Agent::default() },
    ] {
        let new = NewJob { agent: Some(Box::new(wrong)), ..plain() };
        let answer = Fixture::new().enqueue(new);
        assert!(matches!(answer, Err(Refusal::Invalid { field: "agent", .. })), "{answer:?}");
    }
    let mut fixture = Fixture::with(plain());
    let holder = fixture.start(outside());
    let answer = fixture.ask(ack(holder, Closing { spent: Some(spent(-1.0)), ..Closing::default() }));
    assert!(matches!(answer, Err(Refusal::Invalid { field: "usage", .. })), "{answer:?}");
    assert_eq!(fixture.state(), State::Active);
}

#[test]
fn bounds_of_an_agent_are_taken_at_their_edge() {
    let longest = crate::bounds::LONGEST;
    for (agent, good) in [
        (Agent { max_iterations: Some(1), ..Agent::default() }, true),
        (Agent { max_cost_usd: Some(0.0), ..Agent::default() }, true),
        (Agent { max_cost_usd: Some(-0.5), ..Agent::default() }, false),
        (Agent { max_cost_usd: Some(f64::INFINITY), ..Agent::default() }, false),
        (Agent { iteration_timeout: Some(longest), ..Agent::default() }, true),
        (Agent { iteration_timeout: Some(longest + core::time::Duration::from_millis(1)), ..Agent::default() }, false),
    ] {
        assert_eq!(agent.check().is_ok(), good, "{agent:?}");
    }
    assert!(spent(0.0).check().is_ok() && spent(f64::NAN).check().is_err());
}

#[test]
fn the_money_is_used_up_when_all_of_it_is_spent() {
    for (cost, expected) in [(0.5, State::Pending), (1.0, State::Held)] {
        let mut fixture = agent(Agent { max_cost_usd: Some(1.0), ..Agent::default() });
        let holder = fixture.start(outside());
        let closing = Closing { agent: Some(AgentStatus::Continue), spent: Some(spent(cost)), ..Closing::default() };
        fixture.ask(ack(holder, closing)).expect("its own report");
        assert_eq!(fixture.state(), expected, "{cost} of 1");
    }
}

#[test]
fn every_kind_of_token_adds_up_and_the_latest_attempts_are_listed() {
    let attempts = crate::bounds::SPENDING_ATTEMPTS + 2;
    let mut fixture = Fixture::with(plain());
    let mut one = ModelUsage { cache_creation_tokens: 3, cache_read_tokens: 5, ..spent(0.5) };
    for attempt in 1..=attempts {
        let holder = fixture.start(outside());
        one.provider = Some(format!("provider {attempt}"));
        let heartbeat = Heartbeat { spent: Some(Box::new(one.clone())), ..Heartbeat::by(holder) };
        fixture.ask(Command::Heartbeat(heartbeat)).expect("it holds the lease");
        fixture.ask(crate::decide::tests::hand_back(holder)).expect("its own report");
    }
    let spending = fixture.job().spending.as_deref().expect("it was told");
    let (total, times) = (&spending.total, attempts as u64);
    assert_eq!((total.input_tokens, total.output_tokens), (100 * times, 7 * times));
    assert_eq!((total.cache_creation_tokens, total.cache_read_tokens), (3 * times, 5 * times));
    assert_eq!((total.model.as_deref(), &total.provider), (Some("m-1"), &one.provider), "the last ones named");
    let listed: Vec<u32> = spending.attempts.iter().map(|(attempt, _)| *attempt).collect();
    assert_eq!(listed, (3..=attempts as u32).collect::<Vec<_>>());
}
