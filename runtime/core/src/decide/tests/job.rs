//! What a job says about itself.

use crate::flow::{AfterRemoval, Links, OnFailure};
use crate::{AfterStop, Body, BodyKind, BodyRef, Job, JobId, Progress, Run, Runner, State, Stop, Time, Token};

fn job(state: State) -> Job {
    Job { state, ..Job::new(JobId::new(Time(1), 1), "mail".parse().expect("a name"), Time(1)) }
}

fn running(stop: Option<AfterStop>) -> Job {
    let run = Run {
        token: Token { fence: 1, secret: 1 },
        runner: Runner::External { worker_id: "ann".into(), hostname: "host".into() },
        started_at: Time(2),
        lease_expires_at: Some(Time(9)),
        heartbeat_at: Time(2),
        stop: stop.map(|then| Stop { at: Time(3), then }),
        swap_by: None,
        canary: false,
        watch_at: None,
    };
    Job { run: Some(run), ..job(State::Active) }
}

#[test]
fn a_state_is_known_by_its_name_and_three_of_them_are_ends() {
    let names = ["scheduled", "pending", "active", "retrying", "held", "blocked", "completed", "dead", "cancelled"];
    assert_eq!(State::ALL.map(State::as_str), names);
    let ends: Vec<&str> = State::ALL.into_iter().filter(|state| state.is_ended()).map(State::as_str).collect();
    assert_eq!(ends, ["completed", "dead", "cancelled"]);
}

#[test]
fn a_job_waits_for_its_round_when_nothing_else_holds_it_back() {
    let with = |links: Links| Job { round: Some(3), links: Some(Box::new(links)), ..job(State::Blocked) };
    assert_eq!(with(Links::default()).waits_for_round(), Some(3));
    assert_eq!(Job { links: None, ..with(Links::default()) }.waits_for_round(), Some(3));
    assert_eq!(Job { state: State::Pending, ..with(Links::default()) }.waits_for_round(), None);
    for links in [
        Links { waits_for: 1, ..Links::default() },
        Links { waits_for_children: Some(OnFailure::Fail), ..Links::default() },
        Links { removing: Some(AfterRemoval::Rebuild), ..Links::default() },
    ] {
        assert_eq!(with(links.clone()).waits_for_round(), None, "{links:?}");
    }
}

#[test]
fn only_progress_and_a_longer_lease_may_be_lost_in_a_crash() {
    let old = running(None);
    let changed = |change: fn(&mut Job)| {
        let mut new = old.clone();
        change(&mut new);
        (new.may_lose_change(&old), old.may_lose_change(&new))
    };
    assert_eq!(changed(|job| job.progress = Some(Progress::default())), (true, true));
    assert_eq!(changed(|job| job.run.as_mut().expect("it runs").heartbeat_at = Time(8)), (true, true));
    let durable: [fn(&mut Job); 6] = [
        |job| job.state = State::Pending,
        |job| job.checkpoint = BodyRef::from(&Body::Inline("c".into())),
        |job| job.checkpoint_schema = 2,
        |job| job.children = 1,
        |job| job.run.as_mut().expect("it runs").stop = Some(Stop { at: Time(3), then: AfterStop::Delete }),
        |job| job.run.as_mut().expect("it runs").swap_by = Some(Time(9)),
    ];
    for change in durable {
        assert_eq!(changed(change), (false, false));
    }
    assert!(!job(State::Pending).may_lose_change(&job(State::Pending)));
}

#[test]
fn a_job_is_past_keeping_from_the_moment_it_names_once_it_has_ended() {
    let ended = Job { keep_until: Some(Time(10)), ..job(State::Dead) };
    assert!(!ended.is_past_keeping(Time(9)) && ended.is_past_keeping(Time(10)));
    assert!(!Job { state: State::Held, ..ended.clone() }.is_past_keeping(Time(10)));
    assert!(!Job { keep_until: None, ..ended }.is_past_keeping(Time(10)));
}

#[test]
fn the_reason_of_a_cancel_is_known_as_soon_as_it_is_asked_for() {
    let reason = "not wanted".to_owned();
    let mut asked = running(Some(AfterStop::Cancel { reason: reason.clone() }));
    assert_eq!(asked.cancel_reason(), Some("not wanted"));
    assert_eq!(running(None).cancel_reason(), None);
    assert_eq!(running(Some(AfterStop::Hold { reason })).cancel_reason(), None);
    asked.end_run();
    assert_eq!(asked.cancel_reason(), None);
    asked.enter(State::Cancelled, Time(5), "too late");
    assert_eq!(asked.cancel_reason(), Some("too late"));
    assert!(asked.ran_by.is_some(), "who ran it stays known");
}

#[test]
fn each_body_is_where_its_kind_says() {
    let place = |text: &'static str| BodyRef::from(&Body::Inline(text.into()));
    let job = Job { payload: place("a"), checkpoint: place("bb"), result: place("ccc"), ..job(State::Pending) };
    let sizes = [BodyKind::Payload, BodyKind::Checkpoint, BodyKind::Result].map(|kind| job.body(kind).len());
    assert_eq!(sizes, [1, 2, 3]);
}
