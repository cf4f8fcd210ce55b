//! Cron schedules: which instants are due, which of them to run after downtime, and what to do when the last run is
//! still going. Instants are counted in the schedule's own time zone; clock changes are croner's to get right, and the
//! tests below hold it to that: a time inside the skipped hour runs once, at its end; a fixed time inside the repeated
//! hour runs once; a wildcard runs evenly through both.
//!
//! Reading order: `mod` (a schedule and what it has to do), `skipped` (runs that did not take place), `cron` and `zone`
//! (what people write, and what is wrong with it), `words` (what an expression means, for people).

mod cron;
mod skipped;
mod words;
mod zone;

use core::time::Duration;

use bytes::Bytes;
use chrono::DateTime;
use chrono_tz::Tz;
use croner::Cron;
use serde::{Deserialize, Serialize};

use crate::decide::bounded;
use crate::trailing;
use crate::{Body, JobId, Name, NewJob, PolicyChoice, QueueName, Refusal, Reply, Time, Unique, bounds};
pub use skipped::{SkipReason, Skipped, SkippedRuns};
pub use zone::local_time;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    pub name: Name,
    pub queue: QueueName,
    /// Five fields (minute hour day month weekday), six with seconds first, or a nickname such as `@daily`.
    pub cron: String,
    pub timezone: String,
    pub payload: Bytes,
    pub policy: PolicyChoice,
    pub unique: Option<Unique>,
    pub tags: Vec<(String, String)>,
    pub catch_up: CatchUp,
    pub overlap: Overlap,
    pub paused: bool,
    pub created_at: Time,
    pub updated_at: Time,
    /// The instant it last ran for.
    pub last_run: Option<Time>,
    pub last_job: Option<JobId>,
    /// The next instant not yet dealt with. Moves on in the same commit as the jobs of the instants before it.
    pub next_run: Option<Time>,
    /// Runs that did not take place. Behind the rest, because schedules that were stored without it are still read.
    #[serde(deserialize_with = "SkippedRuns::or_none")]
    pub skipped: SkippedRuns,
    /// The key or the person that created it. Behind `skipped` for the same reason.
    #[serde(deserialize_with = "trailing::or_default")]
    pub created_by: Option<String>,
}

/// What to do about instants that passed while the server was down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CatchUp {
    /// They are skipped.
    Skip,
    /// One run for all of them.
    #[default]
    Once,
    /// A run for each, at most the latest so many.
    All { at_most: u32 },
}

/// What to do when the job of the last instant has not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Overlap {
    #[default]
    Allow,
    /// The new instant is passed over.
    Skip,
    /// The running job is cancelled, and the new one stored.
    Cancel,
}

/// An instant this much in the past was missed, rather than a little late.
const LATE: Duration = Duration::from_secs(60);

impl Schedule {
    /// Refuses what could never run, naming the field.
    pub fn check(&self) -> Result<(), Refusal> {
        self.policy.check()?;
        if let Some(unique) = &self.unique {
            unique.check(None)?;
        }
        if let CatchUp::All { at_most } = self.catch_up
            && !(1..=bounds::CATCH_UP).contains(&at_most)
        {
            return Err(Refusal::invalid("catch_up", format!("at most {} missed runs", bounds::CATCH_UP)));
        }
        preview(&self.cron, &self.timezone, self.created_at, 1)?;
        Ok(())
    }

    /// When it runs, in words: `every day at 02:30`.
    pub fn words(&self) -> String {
        words::describe(&self.cron)
    }

    /// The first instant after `from`; none when there is no more.
    pub fn next_after(&self, from: Time) -> Result<Option<Time>, Refusal> {
        Ok(self.next_times(from, 1)?.pop())
    }

    /// The first `count` instants after `from`.
    pub fn next_times(&self, from: Time, count: usize) -> Result<Vec<Time>, Refusal> {
        next_times(&self.cron, &self.timezone, from, count)
    }

    /// The instants that have come and are to be run, oldest first, those that are skipped, and the next one to wait
    /// for. Changes nothing.
    pub fn due(&self, now: Time) -> Result<Due, Refusal> {
        let Some(first) = self.next_run.filter(|first| *first <= now) else {
            return Ok(Due { instants: Vec::new(), skipped: None, next: self.next_run });
        };
        let most = match (self.paused, self.catch_up) {
            (true, _) => 0,
            (false, CatchUp::Skip | CatchUp::Once) => 1,
            (false, CatchUp::All { at_most }) => at_most as usize,
        };
        let in_time = |instant: Time| self.catch_up != CatchUp::Skip || now.since(instant) <= LATE;
        // The search before a moment looks at whole seconds only: it has to begin with the next one to find this one.
        let (cron, at) = read(&self.cron, &self.timezone, Time((now.millis() / 1_000 + 1) * 1_000))?;
        let passed = cron.iter_before(at).map(to_time).take_while(|instant| *instant >= first);
        let (mut instants, mut skipped) = (Vec::new(), None);
        for instant in passed.take(most.saturating_add(bounds::MISSED_RUNS)) {
            if instants.len() < most && in_time(instant) {
                instants.push(instant);
                continue;
            }
            let reason = if self.paused { SkipReason::Paused } else { SkipReason::Missed };
            let missed = skipped.get_or_insert(Skipped { first, last: instant, count: 0, reason });
            missed.count += 1;
        }
        instants.reverse();
        Ok(Due { instants, skipped, next: self.next_after(now)? })
    }

    /// Whether a run may begin, when the job of an earlier one has not ended.
    pub fn begin(&self, unfinished: Option<JobId>) -> Begin {
        match (self.overlap, unfinished) {
            (Overlap::Skip, Some(job)) => Begin::Skip(SkipReason::Overlap { job }),
            (Overlap::Cancel, Some(job)) => Begin::AfterCancelling(job),
            (Overlap::Allow, _) | (_, None) => Begin::Now,
        }
    }

    /// Takes what came of storing the job of an instant.
    pub fn ran(&mut self, instant: Time, stored: Result<&Reply, String>) -> Result<JobId, SkipReason> {
        let own = JobId::of_schedule(&self.name, instant);
        let skipped = match stored {
            Ok(Reply::Duplicate { id }) if *id != own => SkipReason::UniqueKey { job: *id },
            Ok(_) => {
                self.last_run = Some(instant);
                self.last_job = Some(own);
                return Ok(own);
            }
            Err(why) => SkipReason::Refused { why: bounded(why, bounds::REASON_BYTES) },
        };
        self.skip(instant, skipped.clone());
        Err(skipped)
    }

    /// Whether it would do anything else than `other`. When it runs next follows from that.
    pub fn differs(&self, other: &Schedule) -> bool {
        let updated_at = self.updated_at;
        let (next_run, skipped) = (self.next_run, self.skipped.clone());
        *self != Schedule { updated_at, next_run, skipped, ..other.clone() }
    }

    /// Notes that a run does not take place.
    pub fn skip(&mut self, instant: Time, reason: SkipReason) {
        self.note_skipped(Skipped { first: instant, last: instant, count: 1, reason });
    }

    /// Notes that runs do not take place.
    pub fn note_skipped(&mut self, skipped: Skipped) {
        self.skipped.note(skipped, self.last_run);
    }

    /// The job for one instant. Its id is derived from the instant, so that one instant never makes two.
    pub fn job(&self, instant: Time) -> NewJob {
        NewJob {
            id: Some(JobId::of_schedule(&self.name, instant)),
            queue: Some(self.queue.clone()),
            payload: Some(Body::Inline(self.payload.clone())),
            policy: self.policy.clone(),
            unique: self.unique.clone(),
            tags: self.tags.clone(),
            schedule: Some(self.name.clone()),
            ..NewJob::default()
        }
    }
}

/// What a cron expression that nobody has stored would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preview {
    /// `every day at 02:30`
    pub words: String,
    /// Its first instants from now on.
    pub next: Vec<Time>,
}

/// When an expression would run. Refused like a schedule that has it.
pub fn preview(cron: &str, timezone: &str, from: Time, count: usize) -> Result<Preview, Refusal> {
    let next = next_times(cron, timezone, from, count)?;
    if next.is_empty() {
        return Err(Refusal::invalid("cron", format!("{cron:?} never comes: there is no such day")));
    }
    Ok(Preview { words: words::describe(cron), next })
}

fn next_times(cron: &str, timezone: &str, from: Time, count: usize) -> Result<Vec<Time>, Refusal> {
    let (cron, from) = read(cron, timezone, from)?;
    Ok(cron.iter_after(from).take(count).map(to_time).collect())
}

fn read(cron: &str, timezone: &str, from: Time) -> Result<(Cron, DateTime<Tz>), Refusal> {
    let zone = zone::find(timezone)?;
    let from = zone::in_zone(from, zone).ok_or_else(|| Refusal::invalid("cron", "the time is out of range"))?;
    Ok((cron::parse(cron)?, from))
}

/// What a schedule has to do now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    pub instants: Vec<Time>,
    /// Those before them that do not run.
    pub skipped: Option<Skipped>,
    pub next: Option<Time>,
}

/// Whether a run may begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begin {
    Now,
    AfterCancelling(JobId),
    Skip(SkipReason),
}

fn to_time(moment: DateTime<Tz>) -> Time {
    Time(u64::try_from(moment.timestamp_millis()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().expect("a name")
    }

    fn at(text: &str) -> Time {
        Time(DateTime::parse_from_rfc3339(text).expect("a time").timestamp_millis() as u64)
    }

    fn schedule(cron: &str, timezone: &str, from: &str) -> Schedule {
        let mut schedule = Schedule {
            name: name("nightly"),
            queue: "reports".parse().expect("a name"),
            cron: cron.into(),
            timezone: timezone.into(),
            payload: Bytes::new(),
            policy: PolicyChoice::default(),
            unique: None,
            tags: Vec::new(),
            catch_up: CatchUp::Once,
            overlap: Overlap::Allow,
            paused: false,
            created_at: at(from),
            updated_at: at(from),
            last_run: None,
            last_job: None,
            next_run: None,
            skipped: SkippedRuns::default(),
            created_by: None,
        };
        schedule.next_run = schedule.next_after(at(from)).expect("a good cron");
        schedule
    }

    fn check(cron: &str, from: &str, expected: &[&str]) {
        let times = schedule(cron, "Europe/Berlin", from).next_times(at(from), expected.len()).expect("a good cron");
        let expected: Vec<Time> = expected.iter().map(|text| at(text)).collect();
        assert_eq!(times, expected, "{cron} from {from}");
    }

    #[test]
    fn a_fixed_time_in_the_skipped_hour_runs_once_when_the_hour_would_have_ended() {
        check("30 2 * * *", "2026-03-28T12:00:00+01:00", &["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]);
    }

    #[test]
    fn a_wildcard_keeps_its_beat_over_the_skipped_hour() {
        check("*/30 * * * *", "2026-03-29T01:29:00+01:00", &["2026-03-29T01:30:00+01:00", "2026-03-29T03:00:00+02:00"]);
    }

    #[test]
    fn a_fixed_time_in_the_repeated_hour_runs_once() {
        check("30 2 * * *", "2026-10-24T12:00:00+02:00", &["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"]);
    }

    #[test]
    fn a_wildcard_keeps_its_beat_through_both_passes_of_the_repeated_hour() {
        check(
            "*/30 * * * *",
            "2026-10-25T01:45:00+02:00",
            &[
                "2026-10-25T02:00:00+02:00",
                "2026-10-25T02:30:00+02:00",
                "2026-10-25T02:00:00+01:00",
                "2026-10-25T02:30:00+01:00",
                "2026-10-25T03:00:00+01:00",
            ],
        );
    }

    #[test]
    fn weekdays_and_days_of_the_month_mean_what_cron_users_expect() {
        // 1 is Monday; a day of the month beside a weekday means either.
        check("0 0 * * 1", "2026-11-01T01:00:00+01:00", &["2026-11-02T00:00:00+01:00"]);
        check("0 0 13 * 5", "2026-11-01T01:00:00+01:00", &["2026-11-06T00:00:00+01:00", "2026-11-13T00:00:00+01:00"]);
    }

    #[test]
    fn after_downtime_the_policy_says_which_instants_run() {
        let mut hourly = schedule("0 * * * *", "UTC", "2026-05-01T00:10:00Z");
        let now = at("2026-05-01T05:10:00Z");
        let run = |schedule: &Schedule| schedule.due(now).expect("a good cron");
        let missed = |to: &str, count: u64| {
            Some(Skipped { first: at("2026-05-01T01:00:00Z"), last: at(to), count, reason: SkipReason::Missed })
        };
        assert_eq!(run(&hourly).instants, [at("2026-05-01T05:00:00Z")]);
        assert_eq!(run(&hourly).skipped, missed("2026-05-01T04:00:00Z", 4));
        hourly.catch_up = CatchUp::Skip;
        assert_eq!(run(&hourly).instants, []);
        assert_eq!(run(&hourly).skipped, missed("2026-05-01T05:00:00Z", 5));
        hourly.catch_up = CatchUp::All { at_most: 3 };
        let last_three = ["2026-05-01T03:00:00Z", "2026-05-01T04:00:00Z", "2026-05-01T05:00:00Z"].map(at);
        assert_eq!(run(&hourly).instants, last_three);
        assert_eq!(run(&hourly).skipped, missed("2026-05-01T02:00:00Z", 2));
        hourly.catch_up = CatchUp::All { at_most: 10 };
        assert_eq!((run(&hourly).instants.len(), run(&hourly).skipped), (5, None));
        hourly.paused = true;
        assert_eq!(run(&hourly).instants, []);
        assert_eq!(run(&hourly).skipped.map(|skipped| (skipped.count, skipped.reason)), Some((5, SkipReason::Paused)));
        assert_eq!(run(&hourly).next, Some(at("2026-05-01T06:00:00Z")));
    }

    #[test]
    fn a_run_that_does_not_take_place_is_noted_with_the_reason() {
        let mut hourly = schedule("0 * * * *", "UTC", "2026-05-01T00:10:00Z");
        let instants = ["2026-05-01T01:00:00Z", "2026-05-01T02:00:00Z", "2026-05-01T03:00:00Z"].map(at);
        let own = JobId::of_schedule(&name("nightly"), instants[0]);
        assert_eq!(hourly.ran(instants[0], Ok(&Reply::Duplicate { id: own })), Ok(own));
        assert_eq!((hourly.last_run, hourly.last_job), (Some(instants[0]), Some(own)), "its own job is a run");
        assert_eq!(hourly.begin(Some(own)), Begin::Now);
        hourly.overlap = Overlap::Cancel;
        assert_eq!(hourly.begin(Some(own)), Begin::AfterCancelling(own));
        hourly.overlap = Overlap::Skip;
        assert_eq!(hourly.begin(None), Begin::Now);
        let Begin::Skip(reason) = hourly.begin(Some(own)) else { panic!("it should be skipped") };
        hourly.skip(instants[1], reason);
        let other = JobId::of_schedule(&name("other"), instants[0]);
        let taken = SkipReason::UniqueKey { job: other };
        assert_eq!(hourly.ran(instants[2], Ok(&Reply::Duplicate { id: other })), Err(taken));
        let refused = hourly.ran(instants[2], Err("the queue is gone".to_owned()));
        assert!(matches!(refused, Err(SkipReason::Refused { .. })), "{refused:?}");
        let reasons: Vec<_> = hourly.skipped.latest.iter().map(|one| (one.first, one.reason.clone())).collect();
        let expected = [
            (instants[1], SkipReason::Overlap { job: own }),
            (instants[2], SkipReason::UniqueKey { job: other }),
            (instants[2], SkipReason::Refused { why: "the queue is gone".to_owned() }),
        ];
        assert_eq!(reasons, expected);
        assert_eq!((hourly.last_run, hourly.skipped.total), (Some(instants[0]), 3));
    }

    #[test]
    fn an_instant_that_is_only_a_little_late_runs_even_when_missed_ones_do_not() {
        let mut hourly = schedule("0 * * * *", "UTC", "2026-05-01T00:10:00Z");
        hourly.catch_up = CatchUp::Skip;
        assert_eq!(hourly.due(at("2026-05-01T01:00:30Z")).expect("a good cron").instants, [at("2026-05-01T01:00:00Z")]);
    }

    #[test]
    fn an_instant_is_due_at_its_very_moment_and_within_its_second() {
        let minutely = schedule("* * * * *", "UTC", "2026-05-01T00:00:10Z");
        let instant = at("2026-05-01T00:01:00Z");
        for late in [0, 1, 999, 1_000, 30_000] {
            let due = minutely.due(Time(instant.millis() + late)).expect("a good cron");
            assert_eq!(due.instants, [instant], "{late} ms late");
            assert_eq!(due.next, Some(at("2026-05-01T00:02:00Z")), "{late} ms late");
        }
        assert_eq!(minutely.due(Time(instant.millis() - 1)).expect("a good cron").instants, []);
    }

    #[test]
    fn what_can_never_run_is_refused_by_field() {
        let field = |cron: &str, zone: &str| {
            let mut bad = schedule("0 0 * * *", "UTC", "2026-05-01T00:00:00Z");
            bad.cron = cron.into();
            bad.timezone = zone.into();
            match bad.check() {
                Err(Refusal::Invalid { field, .. }) => field,
                other => panic!("{cron} {zone}: {other:?}"),
            }
        };
        assert_eq!(field("0 0 30 2 *", "UTC"), "cron");
        assert_eq!(field("61 * * * *", "UTC"), "cron");
        assert_eq!(field("", "UTC"), "cron");
        assert_eq!(field("0 0 * * *", "Mars/Olympus"), "timezone");
    }

    #[test]
    fn an_instant_is_missed_when_it_is_more_than_a_minute_old() {
        let mut hourly = schedule("0 * * * *", "UTC", "2026-05-01T00:10:00Z");
        hourly.catch_up = CatchUp::Skip;
        let instant = at("2026-05-01T01:00:00Z").millis();
        for (late, runs) in [(60_000, 1), (60_001, 0)] {
            assert_eq!(hourly.due(Time(instant + late)).expect("a good cron").instants.len(), runs, "{late} ms late");
        }
    }

    #[test]
    fn only_so_many_missed_runs_are_caught_up_on_and_counted() {
        let mut hourly = schedule("0 * * * *", "UTC", "2026-05-01T00:10:00Z");
        for (at_most, good) in [(0, false), (1, true), (bounds::CATCH_UP, true), (bounds::CATCH_UP + 1, false)] {
            hourly.catch_up = CatchUp::All { at_most };
            assert_eq!(hourly.check().is_ok(), good, "{at_most}");
        }
        hourly.catch_up = CatchUp::Once;
        let due = hourly.due(at("2027-05-01T00:10:00Z")).expect("a good cron");
        assert_eq!((due.instants.len(), due.skipped.map(|one| one.count)), (1, Some(bounds::MISSED_RUNS as u64)));
    }

    #[test]
    fn the_job_of_an_instant_has_all_that_the_schedule_says() {
        let mut nightly = schedule("0 0 * * *", "UTC", "2026-05-01T00:00:00Z");
        nightly.payload = Bytes::from_static(b"{}");
        nightly.policy.max_attempts = Some(7);
        nightly.tags = vec![("a".into(), "b".into())];
        let (until, within) = (crate::Until::End, crate::UniqueScope::Queue);
        nightly.unique = Some(Unique { key: "k".into(), within, until, period: LATE });
        let instant = nightly.next_run.expect("it runs");
        let job = nightly.job(instant);
        assert_eq!(job.id, Some(JobId::of_schedule(&name("nightly"), instant)));
        assert_eq!((job.queue.as_ref(), job.schedule.as_deref()), (Some(&nightly.queue), Some("nightly")));
        assert_eq!((job.payload, job.policy), (Some(Body::Inline(nightly.payload.clone())), nightly.policy.clone()));
        assert_eq!((job.unique, job.tags), (nightly.unique.clone(), nightly.tags.clone()));
    }
}
