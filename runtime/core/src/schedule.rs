//! Cron schedules: which instants are due, which of them to run after downtime, and what to do when the last run is
//! still going. Instants are counted in the schedule's own time zone; clock changes are croner's to get right, and the
//! tests below hold it to that: a time inside the skipped hour runs once, at its end; a fixed time inside the repeated
//! hour runs once; a wildcard keeps its beat through both.

use core::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, TimeZone, Utc};
use chrono_tz::Tz;
use croner::Cron;
use croner::parser::{CronParser, Seconds};
use serde::{Deserialize, Serialize};

use crate::{Body, JobId, NewJob, PolicyChoice, QueueName, Refusal, Time, Unique, bounds};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    pub name: String,
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
}

/// What to do about instants that passed while nobody was looking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CatchUp {
    /// They are gone.
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
        if self.next_after(self.created_at)?.is_none() {
            return Err(Refusal::invalid("cron", "this never comes: there is no such day"));
        }
        Ok(())
    }

    /// The first instant after `from`; none when there is no more.
    pub fn next_after(&self, from: Time) -> Result<Option<Time>, Refusal> {
        Ok(self.next_times(from, 1)?.pop())
    }

    /// The first `count` instants after `from`.
    pub fn next_times(&self, from: Time, count: usize) -> Result<Vec<Time>, Refusal> {
        let (cron, from) = self.read(from)?;
        Ok(cron.iter_after(from).take(count).map(to_time).collect())
    }

    /// The instants to run for now, oldest first, and the next one to wait for. Changes nothing.
    pub fn due(&self, now: Time) -> Result<Due, Refusal> {
        let Some(first) = self.next_run.filter(|first| *first <= now) else {
            return Ok(Due { instants: Vec::new(), next: self.next_run });
        };
        let most = match self.catch_up {
            CatchUp::Skip | CatchUp::Once => 1,
            CatchUp::All { at_most } => at_most as usize,
        };
        // The search before a moment looks at whole seconds only: it has to begin with the next one to find this one.
        let (cron, at) = self.read(Time((now.millis() / 1_000 + 1) * 1_000))?;
        let mut instants: Vec<Time> =
            cron.iter_before(at).map(to_time).take_while(|instant| *instant >= first).take(most).collect();
        instants.reverse();
        if self.catch_up == CatchUp::Skip {
            instants.retain(|instant| now.since(*instant) <= LATE);
        }
        Ok(Due { instants, next: self.next_after(now)? })
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

    fn read(&self, from: Time) -> Result<(Cron, DateTime<Tz>), Refusal> {
        let zone: Tz = self.timezone.parse().map_err(|_| {
            let why = format!("`{}` is not a time zone; use a name such as Europe/Berlin or UTC", self.timezone);
            Refusal::invalid("timezone", why)
        })?;
        let cron = CronParser::builder().seconds(Seconds::Optional).build().parse(&self.cron).map_err(|error| {
            let why =
                format!("`{}`: {error}; five fields such as `30 2 * * 1-5` (minute hour day month weekday)", self.cron);
            Refusal::invalid("cron", why)
        })?;
        let from = i64::try_from(from.millis()).ok().and_then(|millis| Utc.timestamp_millis_opt(millis).single());
        let from = from.ok_or_else(|| Refusal::invalid("cron", "the time is out of range"))?;
        Ok((cron, from.with_timezone(&zone)))
    }
}

/// What a schedule has to do now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    pub instants: Vec<Time>,
    pub next: Option<Time>,
}

fn to_time(moment: DateTime<Tz>) -> Time {
    Time(u64::try_from(moment.timestamp_millis()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Time {
        Time(DateTime::parse_from_rfc3339(text).expect("a time").timestamp_millis() as u64)
    }

    fn schedule(cron: &str, timezone: &str, from: &str) -> Schedule {
        let mut schedule = Schedule {
            name: "nightly".into(),
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
        assert_eq!(run(&hourly).instants, [at("2026-05-01T05:00:00Z")]);
        hourly.catch_up = CatchUp::Skip;
        assert_eq!(run(&hourly).instants, []);
        hourly.catch_up = CatchUp::All { at_most: 3 };
        let last_three = ["2026-05-01T03:00:00Z", "2026-05-01T04:00:00Z", "2026-05-01T05:00:00Z"].map(at);
        assert_eq!(run(&hourly).instants, last_three);
        assert_eq!(run(&hourly).next, Some(at("2026-05-01T06:00:00Z")));
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
}
