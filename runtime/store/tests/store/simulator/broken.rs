//! Broken on purpose: engines that write one of their counts wrong, or forget a rule. Each must be noticed, and by the
//! check of that count or rule; otherwise the checks of the simulator look at nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_core::flow::{Batch, Chain, Family, Round};
use windlass_core::limits::Limiter;
use windlass_core::{Bulk, Event, EventKind, Job, Queue, SlotShare, State, Webhook};
use windlass_store::disk::Space;
use windlass_store::disk::codec;
use windlass_store::engine::pause;

use super::disk::{Fault, JobFault};
use super::world::World;

/// Seeds to try: not every run comes to what is counted.
const SEEDS: u64 = 60;

/// Changes a row, when it is one of these and the change applies.
fn row<T: Serialize + DeserializeOwned>(space: Space, value: &[u8], change: fn(&mut T) -> bool) -> Option<Vec<u8>> {
    let mut row: T = codec::decode(space, value).expect("a row reads back");
    change(&mut row).then(|| codec::encode_in(space, &row))
}

fn queue(space: Space, value: &[u8], change: fn(&mut Queue) -> bool) -> Option<Vec<u8>> {
    if space == Space::Queues { row(space, value, change) } else { None }
}

fn job(space: Space, value: &[u8], change: fn(&mut Job) -> bool) -> Option<Vec<u8>> {
    if space == Space::Jobs { row(space, value, change) } else { None }
}

/// A row of flows, by the first byte of its key.
fn flow<T: Serialize + DeserializeOwned>(
    kind: u8,
    (space, key, value): (Space, &[u8], &[u8]),
    change: fn(&mut T) -> bool,
) -> Option<Vec<u8>> {
    if space == Space::Flows && key[0] == kind { row(space, value, change) } else { None }
}

fn more(count: &mut u64) -> bool {
    *count += 1;
    true
}

fn one_more(count: &mut u32) -> bool {
    *count += 1;
    true
}

/// What is wrong, the message of the check that must notice, and the change.
const FAULTS: [(&str, &str, Fault); 35] = [
    ("a gauge", "pending jobs of", |s, _, v| queue(s, v, |q| more(&mut q.counts.now[State::Pending as usize]))),
    ("the dead now", "dead jobs of", |s, _, v| queue(s, v, |q| more(&mut q.counts.now[State::Dead as usize]))),
    ("enqueued", "the totals of", |s, _, v| queue(s, v, |q| more(&mut q.counts.enqueued))),
    ("completed", "the totals of", |s, _, v| queue(s, v, |q| more(&mut q.counts.completed))),
    ("failed", "the totals of", |s, _, v| queue(s, v, |q| more(&mut q.counts.failed))),
    ("dead", "the totals of", |s, _, v| queue(s, v, |q| more(&mut q.counts.dead))),
    ("cancelled", "the totals of", |s, _, v| queue(s, v, |q| more(&mut q.counts.cancelled))),
    ("waiting time", "the totals of", |s, _, v| queue(s, v, |q| more(&mut q.counts.wait_ms))),
    ("running time", "the totals of", |s, _, v| queue(s, v, |q| more(&mut q.counts.run_ms))),
    ("a wait's bucket", "the totals of", |s, _, v| queue(s, v, |q| more(&mut q.counts.waits.counts[3]))),
    ("a run's bucket", "the totals of", |s, _, v| queue(s, v, |q| more(&mut q.counts.runs.counts[17]))),
    ("attempts", "attempts, failures, crashes of", |s, _, v| job(s, v, |j| one_more(&mut j.attempt))),
    ("failures", "attempts, failures, crashes of", |s, _, v| job(s, v, |j| one_more(&mut j.failures))),
    ("crashes", "attempts, failures, crashes of", |s, _, v| job(s, v, |j| one_more(&mut j.crashes))),
    ("claims", "claims are counted", |s, _, v| job(s, v, |j| j.run.is_none() && one_more(&mut j.fence))),
    ("generations", "generations below", |s, _, v| job(s, v, |j| j.parent.is_some() && one_more(&mut j.depth))),
    ("dependencies", "depends on so many", |s, _, v| {
        job(s, v, |j| j.links.as_mut().is_some_and(|links| one_more(&mut links.depends_on)))
    }),
    ("dependants", "were stored as dependants of", |s, _, v| {
        job(s, v, |j| j.links.as_mut().is_some_and(|links| std::mem::take(&mut links.dependants) > 0))
    }),
    ("a batch's open", "", |s, k, v| flow(0, (s, k, v), |b: &mut Batch| more(&mut b.tally.open))),
    ("a batch's total", "", |s, k, v| flow(0, (s, k, v), |b: &mut Batch| more(&mut b.tally.total))),
    ("a batch's dead", "", |s, k, v| {
        flow(0, (s, k, v), |b: &mut Batch| more(&mut b.tally.dead) && more(&mut b.tally.total))
    }),
    ("the references of a batch", "is referenced by its jobs", |s, k, v| {
        flow(0, (s, k, v), |b: &mut Batch| more(&mut b.tally.references))
    }),
    ("open children", "", |s, k, v| flow(2, (s, k, v), |f: &mut Family| more(&mut f.tally.open))),
    ("completed children", "", |s, k, v| {
        flow(2, (s, k, v), |f: &mut Family| more(&mut f.tally.completed) && more(&mut f.tally.total))
    }),
    ("the references of a family", "is referenced by its children", |s, k, v| {
        flow(2, (s, k, v), |f: &mut Family| more(&mut f.tally.references))
    }),
    ("the references of a chain", "is referenced by", |s, k, v| {
        flow(3, (s, k, v), |c: &mut Chain| more(&mut c.references))
    }),
    ("a round's open", "the numbers of round", |s, k, v| flow(4, (s, k, v), |r: &mut Round| more(&mut r.tally.open))),
    ("a round's total", "the numbers of round", |s, k, v| flow(4, (s, k, v), |r: &mut Round| more(&mut r.tally.total))),
    ("a round's completed", "the numbers of round", |s, k, v| {
        flow(4, (s, k, v), |r: &mut Round| more(&mut r.tally.completed) && more(&mut r.tally.total))
    }),
    ("a round's waiting", "the numbers of round", |s, k, v| flow(4, (s, k, v), |r: &mut Round| more(&mut r.waiting))),
    ("what runs for a key", "attempts that run for key", |s, k, v| {
        if s != Space::Limiters || k.len() == 4 {
            return None;
        }
        row(s, v, |limiter: &mut Limiter| one_more(&mut limiter.running))
    }),
    ("jobs gone through", "should be ModelBulk", |s, _, v| {
        if s == Space::Bulks { row(s, v, |bulk: &mut Bulk| more(&mut bulk.total)) } else { None }
    }),
    ("jobs affected", "affected and", |s, _, v| {
        if s == Space::Bulks { row(s, v, |bulk: &mut Bulk| more(&mut bulk.affected)) } else { None }
    }),
    ("deliveries", "delivered to webhooks", |s, _, v| {
        if s == Space::Webhooks { row(s, v, |hook: &mut Webhook| more(&mut hook.delivered)) } else { None }
    }),
    ("the number of the next delivery", "delivered to webhooks", |s, _, v| {
        if s == Space::Webhooks { row(s, v, |hook: &mut Webhook| more(&mut hook.log.next)) } else { None }
    }),
];

/// Rules that an engine forgets, as its rows show it.
const RULES: [(&str, &str, JobFault); 3] = [
    ("a checkpoint sets the crashes back", "attempts, failures, crashes of", |before, after| {
        let forgotten = after.state == State::Active && after.crashes < before.crashes;
        after.crashes = if forgotten { before.crashes } else { after.crashes };
        forgotten
    }),
    ("a job that waits is given another time", "the timer", |before, after| {
        let waits = before.state == State::Scheduled && after.state == State::Scheduled;
        let forgotten = waits && before.scheduled_at != after.scheduled_at;
        after.scheduled_at = if forgotten { before.scheduled_at } else { after.scheduled_at };
        forgotten
    }),
    ("a lease runs for its time, from the start or the resume on", "it had a lease from", |_, after| {
        let external = after.run.as_ref().is_some_and(|run| !run.runner.is_local());
        if external {
            after.policy.lease = Duration::from_secs(3_600);
        }
        external
    }),
];

#[test]
fn simulator_notices_every_count_that_is_written_wrong() {
    for (what, message, fault) in FAULTS {
        must_notice(what, message, SEEDS, |world| world.disk.set_fault(fault));
    }
}

#[test]
fn simulator_notices_every_rule_that_is_forgotten() {
    for (what, message, fault) in RULES {
        must_notice(what, message, 10 * SEEDS, |world| world.disk.set_job_fault(fault));
    }
    must_notice("a lapsed lease is retried at once", "a lapsed lease is retried at once", SEEDS, |world| {
        world.disk.set_fault(lapsed_leases_wait);
    });
}

/// Whatever a plugin does, the others get their share. The model knows the rule; the engine follows another one.
#[test]
fn simulator_notices_an_engine_that_shares_the_slots_in_another_way() {
    let other = |share: fn(SlotShare) -> SlotShare| move |world: &mut World| world.engine_shares(share);
    let message = "is more than its share";
    must_notice("a plugin takes all slots", message, 10 * SEEDS, other(|share| SlotShare { percent: 100, ..share }));
    must_notice("only one slot is used", "could start", 10 * SEEDS, other(|share| SlotShare { slots: 1, ..share }));
}

#[test]
fn simulator_notices_an_engine_that_lets_jobs_spawn_at_any_depth() {
    must_notice("the deepest generation", "is too deep", 10 * SEEDS, World::engine_spawns_at_any_depth);
}

/// An engine that lets the job of a lapsed lease wait as after any failure.
fn lapsed_leases_wait(space: Space, _: &[u8], value: &[u8]) -> Option<Vec<u8>> {
    if space != Space::Events {
        return None;
    }
    row(space, value, |(_, events): &mut (u64, Vec<Event>)| {
        let mut waits = false;
        for event in events {
            if let EventKind::Failed { error, next_attempt_at, .. } = &mut event.kind
                && error.starts_with("lease lapsed")
            {
                *next_attempt_at = *next_attempt_at + Duration::from_secs(5);
                waits = true;
            }
        }
        waits
    })
}

/// What must not happen while everything is paused, by the messages of the checks.
const STILL: [&str; 6] = [
    "nothing starts while everything is paused",
    "no delay ends while everything is paused",
    "no lease lapses while everything is paused",
    "nothing expires while everything is paused",
    "no schedule runs while everything is paused",
    "nothing is removed by its age while everything is paused",
];

/// An engine that forgets at a restart that everything is paused. What it does then depends on the run; each of the
/// checks must notice in some.
#[test]
fn simulator_notices_an_engine_that_forgets_a_pause() {
    let mut missing: Vec<&str> = STILL.to_vec();
    for seed in 0..100 * SEEDS {
        let noticed = play(seed, |world| world.disk.hide(Space::Meta, pause::KEY)).unwrap_or_default();
        missing.retain(|message| !noticed.contains(message));
        if missing.is_empty() {
            return;
        }
    }
    panic!("nobody ever noticed: {missing:?}");
}

/// What the checks say of a run with a broken engine; none when they say nothing.
fn play(seed: u64, break_it: impl Fn(&mut World)) -> Option<String> {
    let played = catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::new(seed, false);
        break_it(&mut world);
        world.run();
    }));
    played.err().map(|panic| match panic.downcast::<String>() {
        Ok(message) => *message,
        Err(_) => String::new(),
    })
}

/// Plays seeds with a broken engine until a check fails, which must be the one with this message.
fn must_notice(what: &str, message: &str, seeds: u64, break_it: impl Fn(&mut World)) {
    let noticed = (0..seeds).find_map(|seed| play(seed, &break_it));
    let noticed = noticed.unwrap_or_else(|| panic!("nobody noticed what is wrong: {what}"));
    assert!(noticed.contains(message), "wrong is: {what}; and what was noticed is: {noticed}");
}
