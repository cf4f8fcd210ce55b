//! Cron: an instant runs once, crash or not; what was missed is caught up with as the schedule says.

use bytes::Bytes;
use windlass_core::schedule::{CatchUp, Overlap, Schedule, SkipReason, Skipped};
use windlass_core::{PolicyChoice, Refusal, State, Time, Unique, UniqueScope, Until};
use windlass_store::{Error, ScheduleChange};

use super::test_store::{TestStore, queue, secs};

pub fn every_five_minutes(name: &str) -> Schedule {
    Schedule {
        name: queue(name),
        queue: queue("reports"),
        cron: "*/5 * * * *".into(),
        timezone: "Europe/Berlin".into(),
        payload: Bytes::from_static(b"{}"),
        policy: PolicyChoice::default(),
        unique: None,
        tags: Vec::new(),
        catch_up: CatchUp::Once,
        overlap: Overlap::Allow,
        paused: false,
        created_at: Time::ZERO,
        updated_at: Time::ZERO,
        last_run: None,
        last_job: None,
        next_run: None,
        skipped: Default::default(),
        created_by: None,
    }
}

async fn put(test: &TestStore, schedule: Schedule) {
    let change = ScheduleChange::Put { schedule: Box::new(schedule), replace: false };
    test.store.change_schedule(change).await.expect("a good schedule");
}

async fn runs(test: &TestStore) -> u64 {
    let mut runs = 0;
    for state in State::ALL {
        runs += test.count("reports", state).await;
    }
    runs
}

#[tokio::test]
async fn an_instant_runs_once_also_when_the_store_is_opened_again_within_it() {
    let mut test = TestStore::new();
    put(&test, every_five_minutes("often")).await;
    assert_eq!(runs(&test).await, 0);
    for instants in 1..=4 {
        test.pass(secs(300)).await;
        test.reopen().await;
        test.pass(secs(0)).await;
        assert_eq!(runs(&test).await, instants);
    }
}

#[tokio::test]
async fn after_downtime_missed_instants_are_skipped_run_once_or_all_up_to_a_bound() {
    for (catch_up, expected) in [(CatchUp::Skip, 0), (CatchUp::Once, 1), (CatchUp::All { at_most: 3 }, 3)] {
        let mut test = TestStore::new();
        put(&test, Schedule { catch_up, ..every_five_minutes("often") }).await;
        let next = test.store.schedules().await.expect("reads")[0].next_run.expect("there is a next one");
        test.store.close().await;
        // To two minutes past an instant, an hour later: that one was missed too, not just a little late.
        test.clock.advance(next.since(test.now()) + secs(3600 + 120));
        test.reopen().await;
        test.pass(secs(0)).await;
        assert_eq!(runs(&test).await, expected, "{catch_up:?}");
        let skipped = &test.store.schedules().await.expect("reads")[0].skipped;
        let [one] = &skipped.latest[..] else { panic!("{skipped:?}") };
        // Thirteen instants passed: the first, and twelve in the hour after it.
        assert_eq!((one.first, one.count, &one.reason), (next, 13 - expected, &SkipReason::Missed), "{catch_up:?}");
    }
}

#[tokio::test]
async fn a_run_that_is_skipped_is_recorded_with_the_reason_and_survives_opening_the_store_again() {
    let mut test = TestStore::new();
    let unique = Some(Unique { key: "one".into(), within: UniqueScope::Queue, until: Until::End, period: secs(3600) });
    put(&test, Schedule { overlap: Overlap::Skip, ..every_five_minutes("waits") }).await;
    test.pass(secs(300)).await;
    let schedules = test.store.schedules().await.expect("reads");
    let (first, running) = (schedules[0].last_run.expect("it ran"), schedules[0].last_job.expect("it ran"));
    test.pass(secs(300)).await;
    test.pass(secs(300)).await;
    test.reopen().await;
    let expected = Skipped {
        first: first + secs(300),
        last: first + secs(600),
        count: 2,
        reason: SkipReason::Overlap { job: running },
    };
    assert_eq!(test.store.schedules().await.expect("reads")[0].skipped.latest, [expected]);
    // A run that somebody asks for is skipped for the same reason, and changing the schedule keeps what is recorded.
    test.store.change_schedule(ScheduleChange::RunNow { name: queue("waits") }).await.expect("it is there");
    let replaced = Schedule { unique, paused: true, ..every_five_minutes("waits") };
    test.store
        .change_schedule(ScheduleChange::Put { schedule: Box::new(replaced), replace: true })
        .await
        .expect("replaced");
    test.pass(secs(300)).await;
    let skipped = test.store.schedules().await.expect("reads")[0].skipped.clone();
    let found: Vec<_> = skipped.latest.iter().map(|one| (one.count, one.reason.as_str())).collect();
    assert_eq!((found, skipped.total), (vec![(3, "overlap"), (1, "paused")], 4));
    // With a unique key, the second run finds the job of the first.
    test.store
        .change_schedule(ScheduleChange::Pause { name: queue("waits"), paused: false })
        .await
        .expect("it is there");
    test.pass(secs(300)).await;
    test.pass(secs(300)).await;
    let skipped = test.store.schedules().await.expect("reads")[0].skipped.clone();
    assert_eq!(skipped.latest.last().map(|one| (one.count, one.reason.as_str())), Some((1, "unique_key")));
}

#[tokio::test]
async fn while_the_last_run_is_open_the_next_is_allowed_skipped_or_replaces_it() {
    for (overlap, pending, cancelled) in [(Overlap::Allow, 2, 0), (Overlap::Skip, 1, 0), (Overlap::Cancel, 1, 1)] {
        let test = TestStore::new();
        put(&test, Schedule { overlap, ..every_five_minutes("often") }).await;
        test.pass(secs(300)).await;
        test.pass(secs(300)).await;
        let found = (test.count("reports", State::Pending).await, test.count("reports", State::Cancelled).await);
        assert_eq!(found, (pending, cancelled), "{overlap:?}");
    }
}

#[tokio::test]
async fn a_paused_schedule_misses_nothing_it_wants_back_and_run_now_works_at_any_time() {
    let test = TestStore::new();
    put(&test, every_five_minutes("often")).await;
    let name = || queue("often");
    test.store.change_schedule(ScheduleChange::Pause { name: name(), paused: true }).await.expect("it is there");
    test.pass(secs(3600)).await;
    assert_eq!(runs(&test).await, 0);
    test.store.change_schedule(ScheduleChange::RunNow { name: name() }).await.expect("it is there");
    assert_eq!(runs(&test).await, 1);
    test.store.change_schedule(ScheduleChange::Pause { name: name(), paused: false }).await.expect("it is there");
    assert_eq!(runs(&test).await, 1, "what passed while it was paused was not wanted");
    test.pass(secs(300)).await;
    assert_eq!(runs(&test).await, 2);
    test.store.change_schedule(ScheduleChange::Remove { name: name() }).await.expect("it is there");
    test.pass(secs(3600)).await;
    assert_eq!(runs(&test).await, 2);
}

#[tokio::test]
async fn a_schedule_is_replaced_only_when_asked_and_a_bad_one_is_refused_by_field() {
    let mut test = TestStore::new();
    put(&test, every_five_minutes("often")).await;
    let again = ScheduleChange::Put { schedule: Box::new(every_five_minutes("often")), replace: false };
    let refused = test.store.change_schedule(again).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::Exists { .. }))), "{refused:?}");
    let hourly = Schedule { cron: "0 * * * *".into(), ..every_five_minutes("often") };
    test.store
        .change_schedule(ScheduleChange::Put { schedule: Box::new(hourly), replace: true })
        .await
        .expect("replaced");
    test.reopen().await;
    assert_eq!(test.store.schedules().await.expect("reads")[0].cron, "0 * * * *");
    for (cron, timezone, wrong) in [("61 * * * *", "UTC", "cron"), ("* * * * *", "Mars/Olympus", "timezone")] {
        let bad = Schedule { cron: cron.into(), timezone: timezone.into(), ..every_five_minutes("bad") };
        let refused = test.store.change_schedule(ScheduleChange::Put { schedule: Box::new(bad), replace: true }).await;
        assert!(
            matches!(refused, Err(Error::Refused(Refusal::Invalid { field, .. })) if field == wrong),
            "{refused:?}"
        );
    }
}
