//! Queues that run level by level, gates between them, and sweeps that rebuild what failed.

use std::collections::BTreeMap;

use windlass_core::flow::{Dependency, Gate, RoundsPhase};
use windlass_core::{
    Body, BulkStatus, Checkpoint, Command, Complete, EventKind, Heartbeat, Holder, JobId, NewJob, NewMark, NewRecord,
    Notes, Refusal, Reply, Retry, State, Usage,
};
use windlass_store::{Assignment, Error, RoundRow, RoundsView, SweepFor};

use super::test_store::{TestStore, cancel, done, failed, heartbeat, job, queue, secs};

const FAILED: SweepFor = SweepFor { failed: true, marked: false, cancelled: false };
const MARKED: SweepFor = SweepFor { failed: false, marked: true, cancelled: false };

impl TestStore {
    async fn with_rounds(name: &str) -> TestStore {
        let test = TestStore::new();
        test.set(name, |settings| settings.rounds = true).await;
        test
    }

    async fn gate(&self, name: &str, behind: &str, lead: u32, max_lead: Option<u32>) -> Result<(), Error> {
        let gate = Gate { queue: queue(behind), lead, max_lead };
        let set = self.store.configure(queue(name), move |settings| {
            settings.rounds = true;
            settings.gate = Some(gate);
        });
        set.await.map(drop)
    }

    /// Lets noted work be done.
    async fn settle(&self) {
        for _ in 0..4 {
            self.pass(secs(0)).await;
        }
    }

    /// Completes the attempt with so many children in this queue.
    async fn done_with_children(&self, of: &Assignment, name: &str, count: u32) -> Vec<JobId> {
        let ids: Vec<JobId> = (0..count).map(|ordinal| JobId::child(of.job.id, ordinal)).collect();
        let child = |id: &JobId| NewJob { id: Some(*id), parent: Some(of.job.id), ..job(name) };
        self.store.ask(of.job.id, done(of), ids.iter().map(child).collect()).await.expect("taken");
        ids
    }

    async fn claim_all(&self, name: &str) -> Vec<Assignment> {
        self.claim_as("ann", &[name], 100).await
    }

    /// The round of each job that can be claimed now; all are completed, with one child each down to this round.
    async fn run_round(&self, name: &str, deepest: u32) -> Vec<u32> {
        let mut rounds = Vec::new();
        for got in self.claim_all(name).await {
            let round = got.job.round.expect("it has a round");
            rounds.push(round);
            self.done_with_children(&got, name, u32::from(round < deepest)).await;
        }
        self.settle().await;
        rounds
    }

    async fn rounds(&self, name: &str) -> RoundsView {
        let views = self.store.queues().await.expect("reads");
        let view = views.into_iter().find(|view| view.queue.name == queue(name)).expect("it is there");
        view.rounds.expect("it has rounds")
    }

    async fn phase(&self, name: &str) -> (RoundsPhase, Option<u32>) {
        let view = self.rounds(name).await;
        (view.course.phase(), view.course.current)
    }

    /// Total, open, completed, dead and cancelled of each round.
    async fn numbers(&self, name: &str) -> BTreeMap<u32, [u64; 5]> {
        let rows = self.store.rounds(queue(name), 0, 100).await.expect("reads");
        let numbers = |RoundRow { number, round }: RoundRow| {
            (
                number,
                [round.tally.total, round.tally.open, round.tally.completed, round.tally.dead, round.tally.cancelled],
            )
        };
        rows.into_iter().map(numbers).collect()
    }

    async fn swept(&self, name: &str, wanted: SweepFor) -> u64 {
        let mut news = self.store.watch_bulks();
        let bulk = self.store.sweep(queue(name), wanted).await.expect("taken on");
        loop {
            let bulk = self.store.bulk(bulk.id).await.expect("reads").expect("it is known");
            if bulk.status.is_over() {
                assert_eq!((bulk.status, bulk.errors), (BulkStatus::Completed, 0));
                self.settle().await;
                return bulk.affected;
            }
            let _ = tokio::time::timeout(secs(10), news.recv()).await.expect("it goes on");
        }
    }
}

fn said(result: Result<(), Error>) -> String {
    match result {
        Err(Error::Refused(refusal)) => refusal.to_string(),
        other => panic!("refused, not {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_round_starts_when_all_jobs_of_those_before_it_have_ended() {
    let mut test = TestStore::with_rounds("walk").await;
    assert_eq!(test.phase("walk").await, (RoundsPhase::Idle, None));
    test.put(job("walk")).await;
    test.put(job("walk")).await;
    let [one, two] = &test.claim_all("walk").await[..] else { panic!("two roots") };
    assert_eq!((one.job.round, two.job.round), (Some(0), Some(0)));
    let children = test.done_with_children(one, "walk", 3).await;
    test.settle().await;
    assert_eq!(test.job(children[0]).await.waits_for_round(), Some(1));
    assert!(test.claim("walk").await.is_none(), "a job of round 0 runs");
    assert_eq!(test.phase("walk").await, (RoundsPhase::Running, Some(0)));
    test.reopen().await;
    test.ask(two.job.id, failed(two, Retry::After(secs(5)))).await.expect("taken");
    test.settle().await;
    assert!(test.claim("walk").await.is_none(), "one that is to be retried counts");
    test.pass(secs(6)).await;
    let again = test.claim("walk").await.expect("its time has come");
    assert_eq!((again.job.id, again.job.round), (two.job.id, Some(0)));
    test.ask(again.job.id, failed(&again, Retry::Never)).await.expect("taken");
    test.settle().await;
    assert_eq!(test.numbers("walk").await, BTreeMap::from([(0, [2, 0, 1, 1, 0]), (1, [3, 3, 0, 0, 0])]));
    assert_eq!(test.run_round("walk", 1).await, [1, 1, 1]);
    assert_eq!(test.phase("walk").await, (RoundsPhase::Completed, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lower_round_that_is_opened_again_goes_before_what_comes_then() {
    let test = TestStore::with_rounds("walk").await;
    let root = test.put(job("walk")).await;
    assert_eq!(test.run_round("walk", 1).await, [0]);
    let below = test.claim("walk").await.expect("round 1");
    test.ask(root, Command::Retry).await.expect("retried");
    test.settle().await;
    assert_eq!(test.phase("walk").await, (RoundsPhase::Running, Some(0)));
    let late = test.done_with_children(&below, "walk", 1).await;
    test.settle().await;
    assert_eq!(test.state(late[0]).await, Some(State::Blocked));
    let again = test.claim("walk").await.expect("the root");
    assert_eq!(again.job.id, root);
    test.ask(root, done(&again)).await.expect("done");
    test.settle().await;
    assert_eq!(test.state(late[0]).await, Some(State::Pending));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_jobs_that_wait_for_a_round_become_pending_in_their_order() {
    let mut test = TestStore::with_rounds("walk").await;
    test.put(job("walk")).await;
    let root = test.claim("walk").await.expect("the root");
    let ids: Vec<JobId> = (0..700).map(|ordinal| JobId::child(root.job.id, ordinal)).collect();
    let heartbeat = Command::Heartbeat(Heartbeat {
        holder: Holder::Token(root.token),
        progress: None,
        checkpoint: Some(Checkpoint { body: Body::Inline("c".into()), schema: 0, usage: Usage::default() }),
        spent: None,
        notes: None,
    });
    let child = |id: &JobId| NewJob { id: Some(*id), parent: Some(root.job.id), ..job("walk") };
    test.store.ask(root.job.id, heartbeat, ids.iter().map(child).collect()).await.expect("taken");
    assert_eq!(test.count("walk", State::Blocked).await, 700);
    test.ask(root.job.id, done(&root)).await.expect("done");
    test.reopen().await;
    test.settle().await;
    assert_eq!(test.count("walk", State::Pending).await, 700);
    let got = test.claim_as("ann", &["walk"], 700).await;
    let mut claimed: Vec<JobId> = got.iter().map(|got| got.job.id).collect();
    let mut expected = ids.clone();
    claimed.sort();
    expected.sort();
    assert_eq!(claimed, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_lets_a_queue_start_when_the_other_is_ahead_or_complete() {
    let test = TestStore::with_rounds("src").await;
    test.gate("dst", "src", 2, None).await.expect("a good gate");
    test.put(job("src")).await;
    test.put(job("dst")).await;
    test.settle().await;
    assert!(test.claim("dst").await.is_none());
    let view = test.rounds("dst").await;
    assert_eq!(view.course.phase(), RoundsPhase::Waiting);
    assert_eq!(view.waits_for.as_deref(), Some("round 0 waits until queue `src` is at round 2; it is at 0"));
    assert_eq!(test.run_round("src", 3).await, [0]);
    assert!(test.claim("dst").await.is_none(), "it is at round 1");
    assert_eq!(test.run_round("src", 3).await, [1]);
    assert_eq!(test.phase("src").await, (RoundsPhase::Running, Some(2)));
    assert_eq!(test.run_round("dst", 9).await, [0]);
    assert!(test.claim("dst").await.is_none(), "round 1 needs src at 3");
    assert_eq!(test.run_round("src", 3).await, [2]);
    assert_eq!(test.run_round("dst", 9).await, [1]);
    assert!(test.claim("dst").await.is_none(), "round 2 needs src at 4, which it has not");
    assert_eq!(test.run_round("src", 3).await, [3]);
    assert_eq!(test.phase("src").await, (RoundsPhase::Completed, None));
    assert_eq!(test.run_round("dst", 3).await, [2], "it has completed: nothing is to be waited for");
    assert_eq!(test.run_round("dst", 3).await, [3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_opens_when_the_first_job_of_the_one_ahead_ends_as_it_comes() {
    let test = TestStore::with_rounds("src").await;
    test.gate("dst", "src", 2, None).await.expect("a good gate");
    let dead = test.put(job("plain")).await;
    test.ask(dead, cancel()).await.expect("cancelled");
    let waits = test.put(job("dst")).await;
    assert_eq!(test.state(waits).await, Some(State::Blocked));
    test.put(NewJob { depends_on: vec![Dependency::Job(dead)], ..job("src") }).await;
    test.settle().await;
    assert_eq!(test.phase("src").await, (RoundsPhase::Completed, None));
    assert_eq!(test.state(waits).await, Some(State::Pending));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_one_ahead_goes_no_further_than_max_lead() {
    let mut test = TestStore::with_rounds("src").await;
    test.gate("dst", "src", 1, Some(2)).await.expect("a good gate");
    test.put(job("src")).await;
    for round in 0..=2 {
        assert_eq!(test.run_round("src", 9).await, [round], "an idle queue counts as at round 0");
    }
    assert!(test.claim("src").await.is_none(), "round 3 is too far ahead");
    let view = test.rounds("src").await;
    assert_eq!(view.waits_for.as_deref(), Some("round 3 waits until queue `dst` is at round 1; it is at 0"));
    test.reopen().await;
    test.put(job("dst")).await;
    assert_eq!(test.run_round("dst", 9).await, [0]);
    assert_eq!(test.run_round("src", 9).await, [3]);
    assert!(test.claim("src").await.is_none());
    let last = test.claim("dst").await.expect("round 1");
    test.ask(last.job.id, cancel()).await.expect("asked");
    test.ask(last.job.id, done(&last)).await.expect("stopped");
    test.settle().await;
    assert_eq!(test.phase("dst").await, (RoundsPhase::Completed, None));
    for round in 4..=9 {
        assert_eq!(test.run_round("src", 9).await, [round], "the one behind has completed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn gates_and_rounds_that_could_not_work_are_refused() {
    let test = TestStore::with_rounds("src").await;
    test.put(job("plain")).await;
    assert!(said(test.gate("dst", "src", 3, Some(2)).await).contains("max_lead"));
    assert!(said(test.gate("dst", "plain", 1, None).await).contains("`plain` has no rounds"));
    assert!(said(test.gate("src", "src", 1, None).await).contains("another queue"));
    test.gate("dst", "src", 1, None).await.expect("a good gate");
    assert!(said(test.gate("src", "dst", 1, None).await).contains("src → dst → src"));
    let on = test.store.configure(queue("plain"), |settings| settings.rounds = true).await;
    assert!(said(on.map(drop)).contains("1 of its jobs"));
    let off = test.store.configure(queue("src"), |settings| settings.rounds = false).await;
    assert!(said(off.map(drop)).contains("gate of queue `dst`"));
    assert!(said(test.store.remove_queue(queue("src")).await.map(drop)).contains("gate of queue `dst`"));
    test.set("dst", |settings| settings.gate = None).await;
    test.store.remove_queue(queue("src")).await.expect("nothing names it");
    let got = test.claim("plain").await.expect("a job");
    test.ask(got.job.id, done(&got)).await.expect("done");
    test.set("plain", |settings| settings.rounds = true).await;
    test.ask(got.job.id, Command::Retry).await.expect("retried");
    assert_eq!(test.job(got.job.id).await.round, Some(0), "it is older than the rounds");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_start_and_the_end_of_a_round_are_published_with_its_numbers() {
    let test = TestStore::with_rounds("walk").await;
    test.put(job("walk")).await;
    test.run_round("walk", 1).await;
    test.run_round("walk", 1).await;
    let events = test.store.events_after(0, 100).await.expect("reads");
    let told: Vec<(u32, &str, u64, u64)> = events
        .iter()
        .filter_map(|record| match &record.event.kind {
            EventKind::Round(event) => Some((event.round, event.as_str(), event.total, event.completed)),
            _ => None,
        })
        .collect();
    let expected =
        [(0, "round.started", 1, 0), (0, "round.ended", 1, 1), (1, "round.started", 1, 0), (1, "round.ended", 1, 1)];
    assert_eq!(told, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebuilt_job_creates_its_subtree_again_and_nothing_is_doubled() {
    let mut test = TestStore::with_rounds("walk").await;
    let root = test.put(job("walk")).await;
    for round in 0..=2 {
        test.run_round("walk", 2).await;
        assert_eq!(test.numbers("walk").await[&round], [1, 0, 1, 0, 0]);
    }
    let child = JobId::child(root, 0);
    let grandchild = JobId::child(child, 0);
    test.ask(root, Command::Rebuild).await.expect("rebuilt");
    let refused = test.try_put(NewJob { parent: Some(root), ..job("walk") }).await;
    assert!(refused.is_err() || test.state(root).await == Some(State::Pending), "its subtree is being removed, or was");
    test.reopen().await;
    test.settle().await;
    assert_eq!((test.state(child).await, test.state(grandchild).await), (None, None));
    assert_eq!(test.numbers("walk").await[&0], [1, 1, 0, 0, 0]);
    let job = test.job(root).await;
    assert_eq!((job.state, job.attempt, job.children), (State::Pending, 0, 0));
    for _ in 0..=2 {
        test.run_round("walk", 2).await;
    }
    let expected = BTreeMap::from([0, 1, 2].map(|round| (round, [1, 0, 1, 0, 0])));
    assert_eq!(test.numbers("walk").await, expected, "the same jobs, under the same ids");
    assert_eq!(test.state(grandchild).await, Some(State::Completed));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_job_below_a_rebuilt_one_is_waited_for() {
    let test = TestStore::with_rounds("walk").await;
    let root = test.put(job("walk")).await;
    test.run_round("walk", 2).await;
    let below = test.claim("walk").await.expect("round 1");
    test.ask(root, Command::Rebuild).await.expect("rebuilt");
    test.settle().await;
    assert_eq!(test.state(root).await, Some(State::Blocked));
    let Ok(Reply::Heartbeat { stop: Some(_), .. }) = test.ask(below.job.id, heartbeat(&below)).await else {
        panic!("it should be asked to stop")
    };
    test.done_with_children(&below, "walk", 2).await;
    test.settle().await;
    assert_eq!(test.state(below.job.id).await, None, "it went, and what it brought in the end with it");
    assert_eq!(test.state(JobId::child(below.job.id, 1)).await, None);
    assert_eq!(test.state(root).await, Some(State::Pending));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_takes_up_what_failed_and_what_is_marked() {
    let test = TestStore::with_rounds("walk").await;
    let roots = [test.put(job("walk")).await, test.put(job("walk")).await, test.put(job("walk")).await];
    let got = test.claim_all("walk").await;
    test.ask(got[0].job.id, failed(&got[0], Retry::Never)).await.expect("dead");
    for got in &got[1..] {
        let record = NewRecord { key: format!("path/{}", got.job.id), value: b"{}".to_vec() };
        let notes = Notes::new(vec![record], Vec::new());
        test.ask(got.job.id, noted(got, notes)).await.expect("done");
    }
    test.settle().await;
    assert_eq!(test.phase("walk").await, (RoundsPhase::Completed, None));
    assert_eq!(test.swept("walk", MARKED).await, 0, "nothing is marked");
    assert_eq!(test.swept("walk", FAILED).await, 1);
    assert_eq!(test.state(roots[0]).await, Some(State::Pending));
    let again = test.claim("walk").await.expect("the dead one");
    let mark = |key: String| NewMark { queue: queue("walk"), key, mark: Some("newer".into()) };
    let marks = vec![mark(format!("path/{}", roots[2])), mark("path/nobody".into())];
    test.ask(again.job.id, noted(&again, Notes::new(Vec::new(), marks))).await.expect("done");
    let (marked, _) = test.store.records(queue("walk"), String::new(), 10, true).await.expect("reads");
    assert_eq!(
        marked.iter().map(|row| (row.job, row.mark.as_deref())).collect::<Vec<_>>(),
        [(roots[2], Some("newer"))]
    );
    assert_eq!(test.swept("walk", MARKED).await, 1);
    assert_eq!(test.state(roots[2]).await, Some(State::Pending));
    assert_eq!(test.state(roots[1]).await, Some(State::Completed));
    let left = test.store.record(queue("walk"), format!("path/{}", roots[2])).await.expect("reads");
    assert_eq!(left, None, "its records were removed");
    assert!(matches!(test.store.sweep(queue("none"), FAILED).await, Err(Error::Refused(Refusal::NotFound { .. }))));
}

fn noted(of: &Assignment, notes: Option<Box<Notes>>) -> Command {
    let (holder, usage) = (Holder::Token(of.token), Usage::default());
    Command::Complete(Complete { holder, result: None, usage, closing: None, notes })
}

#[tokio::test(flavor = "multi_thread")]
async fn records_are_read_by_key_and_by_page_and_are_removed_with_their_job() {
    let mut test = TestStore::new();
    let ids = [test.put(job("src")).await, test.put(job("src")).await];
    let got = test.claim_all("src").await;
    let write = |keys: &[&str], value: &str| {
        let record = |key: &&str| NewRecord { key: (*key).to_owned(), value: value.as_bytes().to_vec() };
        Notes::new(keys.iter().map(record).collect(), Vec::new())
    };
    test.ask(ids[0], noted(&got[0], write(&["a", "a/b", "b"], "one"))).await.expect("done");
    let mark = NewMark { queue: queue("src"), key: "a".into(), mark: Some("seen".into()) };
    let with_mark = Notes { marks: vec![mark], ..*write(&["b", "c"], "two").expect("not empty") };
    test.ask(ids[1], noted(&got[1], Some(Box::new(with_mark)))).await.expect("done");
    test.reopen().await;
    let page = |from: &str, limit| test.store.records(queue("src"), from.to_owned(), limit, false);
    let told = |(rows, next): (Vec<windlass_core::Record>, Option<String>)| {
        let rows: Vec<String> = rows
            .into_iter()
            .map(|row| format!("{} {} {}", row.key, String::from_utf8_lossy(&row.value), row.mark.unwrap_or_default()))
            .collect();
        (rows, next)
    };
    assert_eq!(
        told(page("", 2).await.expect("reads")),
        (vec!["a one seen".into(), "a/b one ".into()], Some("b".into()))
    );
    assert_eq!(told(page("b", 2).await.expect("reads")), (vec!["b two ".into(), "c two ".into()], None));
    test.ask(ids[0], Command::Delete).await.expect("removed");
    assert_eq!(told(page("", 9).await.expect("reads")), (vec!["b two ".into(), "c two ".into()], None));
    assert_eq!(told(test.store.records(queue("src"), String::new(), 9, true).await.expect("reads")).0.len(), 0);
    let big = NewRecord { key: "big".into(), value: vec![0; 70_000] };
    test.put(job("src")).await;
    let got = test.claim("src").await.expect("a job");
    let refused = test.ask(got.job.id, noted(&got, Notes::new(vec![big], Vec::new()))).await;
    assert!(said(refused.map(drop)).contains("65536"));
    assert_eq!(test.state(got.job.id).await, Some(State::Active), "nothing of it was taken");
}
