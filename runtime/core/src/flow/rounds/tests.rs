//! The rules of rounds and gates, by example.

use std::collections::BTreeMap;

use super::*;

fn name(text: &str) -> QueueName {
    text.parse().expect("a queue's name")
}

fn gate(queue: &str, lead: u32, max_lead: Option<u32>) -> Gate {
    Gate { queue: name(queue), lead, max_lead }
}

#[test]
fn a_gate_connects_the_queue_it_is_set_on_with_the_one_it_names() {
    let (gate, behind) = (gate("ahead", 1, None), name("behind"));
    assert_eq!(gate.other_side(&behind, &behind), Some(&name("ahead")));
    assert_eq!(gate.other_side(&behind, &name("ahead")), Some(&behind));
    assert_eq!(gate.other_side(&behind, &name("third")), None);
}

#[test]
fn a_round_runs_when_no_lower_one_is_open_and_the_gates_let_it() {
    let at = Position::At;
    // The lowest open round, the queue's gate and where the other is, a gate that names it and where that one is.
    type Other = Option<(u32, Position)>;
    type Case = (Option<u32>, Other, Other, Option<u32>);
    let cases: [Case; 11] = [
        (None, None, None, Some(u32::MAX)),
        (Some(4), None, None, Some(4)),
        (None, Some((3, Position::Idle)), None, None),
        (None, Some((0, Position::Idle)), None, Some(0)),
        (Some(1), Some((3, at(3))), None, Some(0)),
        (Some(1), Some((3, at(4))), None, Some(1)),
        (Some(1), Some((3, Position::Completed)), None, Some(1)),
        (Some(9), None, Some((5, Position::Idle)), Some(5)),
        (Some(9), None, Some((5, at(3))), Some(8)),
        (Some(9), None, Some((5, Position::Completed)), Some(9)),
        (Some(2), Some((1, at(0))), Some((5, at(0))), None),
    ];
    for (current, ahead, behind, expected) in cases {
        let bounds: Vec<Bound> = [
            current.map(Bound::lower),
            ahead.and_then(|(lead, other)| Bound::lead(&gate("src", lead, None), other)),
            behind.and_then(|(most, other)| Bound::max_lead(&name("dst"), &gate("me", 0, Some(most)), other)),
        ]
        .into_iter()
        .flatten()
        .collect();
        assert_eq!(Bound::upto(&bounds), expected, "{current:?} {ahead:?} {behind:?}");
        for round in 0..12 {
            let all = bounds.iter().all(|bound| bound.admits(round));
            assert_eq!(all, expected.is_some_and(|upto| round <= upto), "{bounds:?} {round}");
        }
    }
}

#[test]
fn a_bound_says_what_a_round_waits_for() {
    let lead = Bound::lead(&gate("src", 3, None), Position::At(4)).expect("it holds");
    assert_eq!(lead.words(2).to_string(), "round 2 waits until queue `src` is at round 5; it is at 4");
    let most = Bound::max_lead(&name("dst"), &gate("src", 3, Some(5)), Position::Idle).expect("it holds");
    assert_eq!(most.words(7).to_string(), "round 7 waits until queue `dst` is at round 2; it is at 0");
    assert_eq!(Bound::lower(1).words(3).to_string(), "round 3 waits for round 1 to end");
}

#[test]
fn a_queue_is_idle_waits_runs_or_has_completed() {
    let course = |began, current, running| RoundsState { began, current, running }.phase();
    assert_eq!(course(false, None, None), RoundsPhase::Idle);
    assert_eq!(course(true, Some(2), None), RoundsPhase::Waiting);
    assert_eq!(course(true, Some(2), Some(2)), RoundsPhase::Running);
    assert_eq!(course(true, None, None), RoundsPhase::Completed);
}

#[test]
fn a_round_is_told_once_when_it_starts_and_once_when_it_ends() {
    let mut course = RoundsState { began: true, ..RoundsState::default() };
    let open = std::cell::Cell::new(0b1u32);
    let mut step = |rounds: u32, upto: Option<u32>| {
        open.set(rounds);
        let current = (rounds > 0).then(|| rounds.trailing_zeros());
        course.step(current, upto, |round| open.get() & (1 << round) != 0)
    };
    assert_eq!(step(0b1, None), [None, None], "a gate holds it back");
    assert_eq!(step(0b1, Some(0)), [None, Some((0, false))]);
    assert_eq!(step(0b11, Some(0)), [None, None]);
    assert_eq!(step(0b10, Some(1)), [Some((0, true)), Some((1, false))]);
    assert_eq!(step(0b11, Some(0)), [None, Some((0, false))], "a lower one opens again");
    assert_eq!(step(0b10, Some(1)), [Some((0, true)), Some((1, false))]);
    assert_eq!(step(0, Some(u32::MAX)), [Some((1, true)), None]);
}

fn refused(queue: &str, new: Settings, open: u64, gated_by: &[QueueName]) -> Option<String> {
    let on = |gate: Option<Gate>| Settings { rounds: true, gate, ..Settings::default() };
    let all = BTreeMap::from([
        (name("src"), on(None)),
        (name("mid"), on(Some(gate("src", 1, None)))),
        (name("end"), on(Some(gate("mid", 1, None)))),
        (name("plain"), Settings::default()),
    ]);
    let none = Settings::default();
    let queue = name(queue);
    let was = all.get(&queue).unwrap_or(&none);
    let check = GateCheck { queue: &queue, was, new: &new, open, gated_by };
    check.check(|name| all.get(name)).err().map(|refusal| refusal.to_string())
}

#[test]
fn gates_that_could_not_work_are_refused_in_words() {
    let on = |gate: Option<Gate>| Settings { rounds: true, gate, ..Settings::default() };
    let cases = [
        ("new", on(None), 0, None),
        ("new", on(Some(gate("src", 3, Some(3)))), 0, None),
        ("new", on(None), 7, Some("7 of its jobs")),
        ("src", Settings::default(), 1, Some("1 of its jobs")),
        ("src", on(None), 1, None),
        ("new", on(Some(gate("src", 3, Some(2)))), 0, Some("at least `lead`, which is 3")),
        ("new", on(Some(gate("new", 1, None))), 0, Some("another queue")),
        ("new", on(Some(gate("plain", 1, None))), 0, Some("`plain` has no rounds")),
        ("new", on(Some(gate("nowhere", 1, None))), 0, Some("`nowhere` has no rounds")),
        ("src", on(Some(gate("end", 1, None))), 0, Some("src → end → mid → src")),
        ("mid", on(Some(gate("end", 1, None))), 0, Some("mid → end → mid")),
        ("plain", Settings { gate: Some(gate("src", 1, None)), ..Settings::default() }, 0, Some("`rounds: true`")),
    ];
    for (queue, new, open, expected) in cases {
        let told = refused(queue, new.clone(), open, &[]);
        match expected {
            None => assert_eq!(told, None, "{queue} {new:?}"),
            Some(words) => {
                assert!(told.as_ref().is_some_and(|told| told.contains(words)), "{queue} {new:?}: {told:?}");
            }
        }
    }
    let named = refused("src", Settings::default(), 0, &[name("mid")]);
    assert!(named.as_ref().is_some_and(|told| told.contains("gate of queue `mid`")), "{named:?}");
}
