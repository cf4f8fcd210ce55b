use windlass_core::State;

use super::*;

const START: u64 = 1_000_020_000_000;

fn name(text: &str) -> QueueName {
    text.parse().expect("a name")
}

fn counts(enqueued: u64, pending: u64) -> Counts {
    let mut counts = Counts { enqueued, ..Counts::default() };
    counts.now[State::Pending as usize] = pending;
    counts
}

fn at(second: u64) -> Time {
    Time(START + second * 1_000)
}

const HOUR: Window = Window { span: limits::SERIES_FINE, step: limits::SERIES_STEP };
const DAY: Window = Window { span: limits::SERIES_COARSE, step: limits::SERIES_COARSE_STEP };

fn enqueued(figures: &Figures) -> Vec<u64> {
    figures.steps.iter().map(|(_, sum)| sum.enqueued).collect()
}

fn all() -> AllowedQueues {
    AllowedQueues::default()
}

#[test]
fn each_step_has_what_happened_in_it_and_the_jobs_that_were_there_at_its_end() {
    let (series, mail) = (Series::default(), name("mail"));
    // 7 were there before; a reading each second; 10 a second for 20 seconds, and then nothing.
    for second in 0..=60 {
        let counts = counts(7 + 10 * second.min(20), second.min(20));
        series.sample(at(second), [(&mail, &counts)].into_iter());
    }
    let figures = series.of_queue(&mail, HOUR).expect("a queue");
    assert!(figures.tracked);
    assert_eq!(figures.since, Some(at(0)));
    assert_eq!(enqueued(&figures), [50, 50, 50, 50, 0, 0, 0, 0, 0, 0, 0, 0]);
    let pending: Vec<u64> = figures.steps.iter().map(|(_, sum)| sum.pending).collect();
    assert_eq!(pending, [5, 10, 15, 20, 20, 20, 20, 20, 20, 20, 20, 20], "what waits goes on waiting");
    assert_eq!(figures.steps[0].0, at(0));
    assert_eq!(enqueued(&series.of_all(&all(), HOUR)), enqueued(&figures));
    let half = Window { step: Duration::from_secs(30), ..HOUR };
    assert_eq!(enqueued(&series.of_queue(&mail, half).expect("a queue")), [200, 0]);
    assert!(series.of_queue(&name("other"), HOUR).is_none());
}

#[test]
fn of_all_queues_those_come_first_in_which_the_most_happened() {
    let (series, quiet, busy) = (Series::default(), name("a-quiet"), name("busy"));
    for second in 0..=10 {
        let (few, many) = (counts(second, 0), counts(10 * second, 0));
        series.sample(at(second), [(&quiet, &few), (&busy, &many)].into_iter());
    }
    let found = series.of_each(&all(), HOUR, 10);
    let names: Vec<&str> = found.iter().map(|(queue, _)| queue.as_str()).collect();
    assert_eq!(names, ["busy", "a-quiet"]);
    assert_eq!(enqueued(&found[0].1), [50, 50]);
    assert_eq!(series.of_each(&all(), HOUR, 1).len(), 1);
}

#[test]
fn the_hour_is_forgotten_after_an_hour_and_the_day_after_a_day() {
    let (series, mail) = (Series::default(), name("mail"));
    let hours = 26;
    for step in 0..=(hours * 720) {
        series.sample(at(step * 5), [(&mail, &counts(step, 3))].into_iter());
    }
    let hour = series.of_queue(&mail, HOUR).expect("a queue");
    assert_eq!((hour.steps.len(), hour.steps.iter().all(|(_, sum)| sum.enqueued == 1)), (720, true));
    let day = series.of_queue(&mail, DAY).expect("a queue");
    assert_eq!(day.steps.len(), 1440);
    assert!(day.steps.iter().all(|(_, sum)| (sum.enqueued, sum.pending) == (12, 3)), "{:?}", day.steps.last());
    let kept = series.lock();
    assert!(kept.queues[&mail].points() <= 720 + 1440 + 2, "{}", kept.queues[&mail].points());
}

#[test]
fn a_queue_in_which_nothing_happens_takes_no_room_and_keeps_its_numbers() {
    let (series, mail) = (Series::default(), name("mail"));
    for step in 0..=2_000 {
        series.sample(at(step * 5), [(&mail, &counts(9, 9))].into_iter());
    }
    let figures = series.of_queue(&mail, HOUR).expect("a queue");
    assert!(figures.steps.iter().all(|(_, sum)| sum.pending == 9));
    assert!(series.lock().queues[&mail].points() <= 2);
}

#[test]
fn the_least_active_queue_gives_way_and_still_counts_in_the_total() {
    let series = Series::default();
    let names: Vec<QueueName> = (0..limits::SERIES_QUEUES + 1).map(|number| name(&format!("q{number}"))).collect();
    let sample = |step: u64, of: &dyn Fn(usize) -> u64| {
        let counts: Vec<Counts> = (0..names.len()).map(|queue| counts(of(queue), 0)).collect();
        series.sample(at(step * 5), names.iter().zip(&counts));
    };
    sample(0, &|_| 0);
    // Each but the last has had something; then the last becomes busier than the first one was.
    let last = names.len() - 1;
    sample(1, &|queue| if queue == last { 0 } else { 2 + queue as u64 });
    assert!(!series.of_queue(&names[last], HOUR).expect("a queue").tracked);
    sample(2, &|queue| if queue == last { 40 } else { 2 + queue as u64 });
    assert!(series.of_queue(&names[last], HOUR).expect("a queue").tracked);
    assert!(!series.of_queue(&names[0], HOUR).expect("a queue").tracked);
    let total: u64 = enqueued(&series.of_all(&all(), HOUR)).iter().sum();
    assert_eq!(total, (0..last as u64).map(|queue| 2 + queue).sum::<u64>() + 40);
}

#[test]
fn a_namespace_takes_no_place_from_one_that_has_fewer() {
    let series = Series::default();
    let tenant = Namespace::parse("namespace", "tenant").expect("a namespace");
    let small = name("small").within(&tenant);
    let names: Vec<QueueName> = (0..limits::SERIES_QUEUES).map(|number| name(&format!("q{number}"))).collect();
    let sample = |step: u64, busy: u64, quiet: u64| {
        let (busy, quiet) = (counts(busy, 0), counts(quiet, 0));
        let queues = names.iter().map(|name| (name, &busy)).chain([(&small, &quiet)]);
        series.sample(at(step * 5), queues);
    };
    sample(0, 0, 0);
    sample(1, 1_000, 0);
    sample(2, 2_000, 1);
    assert!(
        series.of_queue(&small, HOUR).expect("a queue").tracked,
        "one job is enough, where the other has all places"
    );
    let own = series.of_all(&AllowedQueues::of(tenant), HOUR);
    assert_eq!(enqueued(&own).iter().sum::<u64>(), 1, "the total is of its namespace");
}

#[test]
fn whoever_sees_some_queues_gets_the_sum_of_these() {
    let series = Series::default();
    let (mail, bills) = (name("mail"), name("bills"));
    for step in 0..3 {
        let (one, two) = (counts(step, 1), counts(step * 10, 2));
        series.sample(at(step * 5), [(&mail, &one), (&bills, &two)].into_iter());
    }
    let patterns = ["mail".parse().expect("a pattern")];
    let some = AllowedQueues { patterns: patterns.into(), ..all() };
    let figures = series.of_all(&some, HOUR);
    assert_eq!((enqueued(&figures), figures.tracked), (vec![1, 1], true));
    assert_eq!(figures.steps[1].1.pending, 1);
    assert_eq!(enqueued(&series.of_all(&all(), HOUR)), [11, 11]);
}
