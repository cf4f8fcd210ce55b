//! Events about queues, schedules, bulk operations and workers: in the commit of the change, and only of changes.

use windlass_core::schedule::{Overlap, Schedule};
use windlass_core::{
    Action, BulkStatus, EventKind, Guard, Name, QueueEvent, ScheduleHappening, Settings, State, WorkerEvent,
    WorkerHappening,
};
use windlass_store::ScheduleChange;

use super::schedules::every_five_minutes;
use super::test_store::{TestStore, job, queue, secs};

/// The names of all events so far, in their order.
async fn told(test: &TestStore) -> Vec<&'static str> {
    let events = test.store.events_after(0, 1_000).await.expect("reads");
    events.iter().map(|record| record.event.kind.as_str()).collect()
}

#[tokio::test]
async fn a_queue_tells_what_was_changed_and_nothing_when_nothing_was() {
    let mut test = TestStore::new();
    let set = |paused: bool, limit: Option<u32>| {
        move |settings: &mut Settings| {
            settings.paused = paused;
            settings.max_concurrency = limit;
        }
    };
    for (paused, limit) in
        [(false, None), (true, None), (true, None), (true, Some(4)), (true, Some(4)), (false, Some(4))]
    {
        test.store.configure(queue("mail"), set(paused, limit)).await.expect("changed");
    }
    test.store.remove_queue(queue("mail")).await.expect("removed");
    test.reopen().await;
    // Nothing starts in a queue that is being removed.
    let expected = ["queue.paused", "queue.changed", "queue.resumed", "queue.paused", "queue.removed"];
    assert_eq!(told(&test).await, expected);
    let events = test.store.events_after(0, 10).await.expect("reads");
    let changed = QueueEvent::Changed { fields: "max_concurrency".to_owned() };
    assert_eq!(events[1].event.kind, EventKind::Queue(changed));
    assert_eq!(events[1].event.queue, queue("mail"));
}

#[tokio::test]
async fn a_schedule_tells_of_its_runs_and_of_those_that_did_not_take_place() {
    let mut test = TestStore::new();
    let name: Name = "often".parse().expect("a name");
    let put = |change: Schedule, replace| ScheduleChange::Put { schedule: Box::new(change), replace };
    let pause = |paused| ScheduleChange::Pause { name: name.clone(), paused };
    let run = || ScheduleChange::RunNow { name: name.clone() };
    let often = Schedule { overlap: Overlap::Skip, ..every_five_minutes("often") };
    let hourly = Schedule { cron: "0 * * * *".into(), ..often.clone() };
    let changes =
        [put(often.clone(), false), put(often, true), put(hourly, true), pause(true), pause(true), pause(false), run()];
    for change in changes {
        test.store.change_schedule(change).await.expect("changed");
    }
    test.pass(secs(60)).await;
    test.store.change_schedule(run()).await.expect("asked");
    test.store.change_schedule(ScheduleChange::Remove { name: name.clone() }).await.expect("removed");
    test.reopen().await;
    let names: Vec<&str> = told(&test).await.into_iter().filter(|name| name.starts_with("schedule.")).collect();
    let expected = [
        "schedule.created",
        "schedule.changed",
        "schedule.paused",
        "schedule.resumed",
        "schedule.ran",
        "schedule.skipped",
        "schedule.removed",
    ];
    assert_eq!(names, expected);
    let ran =
        test.store.events_after(0, 100).await.expect("reads").into_iter().find_map(|record| match record.event.kind {
            EventKind::Schedule(about) => match about.happening {
                ScheduleHappening::Ran { job, .. } => Some(job),
                _ => None,
            },
            _ => None,
        });
    assert_eq!(test.job(ran.expect("it ran")).await.schedule, Some(name), "the event names the job");
}

#[tokio::test]
async fn a_bulk_operation_tells_when_it_begins_and_how_it_ended() {
    let mut test = TestStore::new();
    let ids = [test.put(job("mail")).await, test.put(job("mail")).await];
    let cancel = Action::Cancel { reason: "enough".into() };
    let guard = Guard { queue: None, states: vec![State::Pending] };
    let mut watching = test.store.watch_bulks();
    let bulk = test.store.start_bulk(cancel, guard, ids.to_vec()).await.expect("taken on");
    while watching.recv().await.expect("news").status != BulkStatus::Completed {}
    test.reopen().await;
    let events = test.store.events_after(0, 100).await.expect("reads");
    let about = events.iter().filter_map(|record| match &record.event.kind {
        EventKind::Bulk(about) => Some((record.event.kind.as_str(), about.bulk, about.total, about.affected)),
        _ => None,
    });
    let about: Vec<_> = about.collect();
    assert_eq!(about, [("bulk.started", bulk.id, 2, 0), ("bulk.completed", bulk.id, 2, 2)]);
    let order = told(&test).await;
    assert_eq!(order[2..], ["bulk.started", "cancelled", "cancelled", "bulk.completed"]);
}

#[tokio::test]
async fn what_happens_to_a_worker_is_stored_though_the_worker_is_not() {
    let mut test = TestStore::new();
    let happening = WorkerHappening::Connected;
    let event = WorkerEvent { worker: "w1".into(), hostname: "build-3".into(), happening };
    test.store.tell_of_worker(queue("mail"), event.clone());
    test.put(job("mail")).await;
    test.reopen().await;
    let first = test.store.events_after(0, 10).await.expect("reads").remove(0).event;
    assert_eq!((first.kind, first.queue), (EventKind::Worker(event), queue("mail")));
}
