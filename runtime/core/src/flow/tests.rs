//! What the move of a job means for the jobs that hang together with it.

use super::*;
use crate::{Run, Runner, Stop, Time};

fn job(state: State, set: impl FnOnce(&mut Job, &mut Links)) -> Job {
    let mut job = Job { state, ..Job::new(JobId::new(Time(7), 1), "mail".parse().expect("a name"), Time(7)) };
    let mut links = Links::default();
    set(&mut job, &mut links);
    job.links = Some(Box::new(links));
    job
}

fn parent(state: State) -> Job {
    job(state, |job, _| job.children = 2)
}

/// A running parent that has been asked to stop.
fn stopping(then: AfterStop) -> Job {
    job(State::Active, |job, _| {
        job.children = 2;
        job.run = Some(Run {
            token: Token { fence: 1, secret: 1 },
            runner: Runner::External { worker_id: "ann".into(), hostname: "host".into() },
            started_at: Time(8),
            lease_expires_at: None,
            heartbeat_at: Time(8),
            stop: Some(Stop { at: Time(9), then }),
            swap_by: None,
            canary: false,
            watch_at: None,
        });
    })
}

fn cancels(reason: CascadeReason) -> Vec<FollowUp> {
    vec![FollowUp::CancelChildren { parent: parent(State::Dead).id, spawned: 2, adopted: 0, reason }]
}

#[test]
fn the_end_of_a_job_releases_its_dependants_once() {
    let on = |state: State| Some(job(state, |_, links| links.dependants = 1));
    let released = |state: State| vec![FollowUp::Release { job: parent(state).id, state }];
    let cases = [
        (on(State::Active), on(State::Completed), released(State::Completed)),
        (on(State::Active), on(State::Dead), released(State::Dead)),
        (on(State::Pending), on(State::Cancelled), released(State::Cancelled)),
        // Removed before it ended, to others it is as good as cancelled.
        (on(State::Pending), None, released(State::Cancelled)),
        (on(State::Pending), on(State::Active), Vec::new()),
        (on(State::Completed), None, Vec::new()),
        (on(State::Dead), on(State::Pending), Vec::new()),
        (None, on(State::Pending), Vec::new()),
        (None, None, Vec::new()),
        (Some(job(State::Active, |_, _| {})), Some(job(State::Completed, |_, _| {})), Vec::new()),
    ];
    for (was, is, expected) in cases {
        assert_eq!(work(was.as_ref(), is.as_ref()), expected, "{was:?} to {is:?}");
    }
}

#[test]
fn children_are_cancelled_with_their_parent_or_when_it_no_longer_waits_for_them() {
    use CascadeReason::{ParentCancelled, ParentGone};
    let waiting = |state: State| {
        job(state, |job, links| {
            job.children = 2;
            links.waits_for_children = Some(OnFailure::Fail);
        })
    };
    let cancel = || stopping(AfterStop::Cancel { reason: "not wanted".into() });
    let hold = || stopping(AfterStop::Hold { reason: "wait".into() });
    let cases = [
        (parent(State::Active), Some(parent(State::Cancelled)), cancels(ParentCancelled)),
        (parent(State::Active), None, cancels(ParentCancelled)),
        (parent(State::Active), Some(parent(State::Completed)), Vec::new()),
        (parent(State::Active), Some(parent(State::Dead)), Vec::new()),
        (parent(State::Dead), None, Vec::new()),
        (waiting(State::Blocked), Some(parent(State::Dead)), cancels(ParentGone)),
        (waiting(State::Blocked), Some(parent(State::Pending)), Vec::new()),
        // As soon as its attempt has been asked to stop, and once.
        (parent(State::Active), Some(cancel()), cancels(ParentCancelled)),
        (parent(State::Active), Some(stopping(AfterStop::Delete)), cancels(ParentCancelled)),
        (cancel(), Some(stopping(AfterStop::Delete)), Vec::new()),
        (parent(State::Active), Some(hold()), Vec::new()),
        (job(State::Active, |_, _| {}), Some(job(State::Cancelled, |_, _| {})), Vec::new()),
    ];
    for (was, is, expected) in cases {
        assert_eq!(work(Some(&was), is.as_ref()), expected, "{was:?} to {is:?}");
    }
}

#[test]
fn children_that_others_put_under_a_job_are_cancelled_with_it_too() {
    let adopted = |state: State| job(state, |_, links| links.adopted = 3);
    let is = adopted(State::Cancelled);
    let expected =
        FollowUp::CancelChildren { parent: is.id, spawned: 0, adopted: 3, reason: CascadeReason::ParentCancelled };
    assert_eq!(work(Some(&adopted(State::Active)), Some(&is)), [expected]);
}

#[test]
fn what_is_below_a_job_is_removed_when_that_begins_and_not_cancelled_after_it() {
    let removing = || {
        job(State::Blocked, |job, links| {
            job.children = 2;
            links.removing = Some(AfterRemoval::Remove);
        })
    };
    let begins = vec![FollowUp::RemoveChildren { parent: removing().id }];
    assert_eq!(work(Some(&parent(State::Completed)), Some(&removing())), begins);
    assert_eq!(work(None, Some(&removing())), begins);
    assert_eq!(work(Some(&removing()), Some(&removing())), []);
    assert_eq!(work(Some(&removing()), Some(&parent(State::Pending))), []);
    assert_eq!(work(Some(&removing()), None), [], "there is nothing below it any more");
}

#[test]
fn each_reason_to_cancel_a_child_says_what_happened() {
    use CascadeReason::{ParentCancelled, ParentGone, SiblingFailed};
    let texts = [ParentCancelled, ParentGone, SiblingFailed].map(CascadeReason::text);
    assert!(texts.iter().all(|text| text.contains("its parent")), "{texts:?}");
    assert!(texts[0] != texts[1] && texts[1] != texts[2] && texts[0] != texts[2], "{texts:?}");
}
