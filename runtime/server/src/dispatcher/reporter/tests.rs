use tokio::time::timeout;
use windlass_core::flow::Gate;
use windlass_core::{Complete, EventKind, HandBack, Name, NewMark, NewRecord, State, Usage};
use windlass_executor::{Child, ChildPage, Host, HostError, PageLimits, Permissions, SavedState, Secret};
use windlass_store::{Assignment, By, Claim, Durability, Options};

use crate::dispatcher::reporter::*;
use crate::secrets::keyring::KeyFile;

/// A reporter for a job that is active in a real store.
async fn reporter(dir: &tempfile::TempDir) -> Reporter {
    reporter_behind(dir, &[]).await
}

/// The same, with gates: each of these queues stays behind the next.
async fn reporter_behind(dir: &tempfile::TempDir, gates: &[(&str, &str)]) -> Reporter {
    let clock = Arc::new(SystemClock::start());
    let options = Options { dir: dir.path().to_owned(), durability: Durability::Os };
    let store = Store::open(options, Arc::clone(&clock) as Arc<dyn Clock>).expect("a fresh folder");
    let name = |text: &str| text.parse::<Name>().expect("a name");
    for queue in gates.iter().flat_map(|(behind, ahead)| [behind, ahead]) {
        store.configure(name(queue), |settings| settings.rounds = true).await.expect("good settings");
    }
    for (behind, ahead) in gates {
        let gate = Gate { queue: name(ahead), lead: 0, max_lead: None };
        store.configure(name(behind), |settings| settings.gate = Some(gate)).await.expect("good settings");
    }
    let queue: Name = name("q");
    let job = NewJob { queue: Some(queue.clone()), ..NewJob::default() };
    store.enqueue(vec![job]).await.expect("it is stored");
    let by = By::Worker { worker_id: String::new(), hostname: String::new() };
    let claim = Claim { by, queues: vec![queue], count: 1, wait: Duration::from_secs(10) };
    let claimed = store.claim(claim).await.expect("it is claimed");
    let Some(Assignment { job, token, .. }) = claimed.into_iter().next() else { panic!("no job") };
    let secrets =
        Secrets::load(store.clone(), &KeyFile::new(&dir.path().join("secrets.key"))).await.expect("a new key");
    Reporter::new(store, clock, secrets, &job, token)
}

fn count(current: u64) -> Progress {
    Progress { current: Some(current), ..Progress::default() }
}

fn child(ordinal: u32, queue: &str) -> Child {
    Child {
        ordinal,
        queue: queue.to_owned(),
        payload: Bytes::from_static(b"{}"),
        priority: None,
        delay: None,
        max_attempts: Some(7),
        unique_key: None,
        unique_period: None,
        tags: Vec::new(),
        scope: None,
    }
}

async fn save(reporter: &Reporter, state: SavedState, uncommitted: Uncommitted) -> Result<(), HostError> {
    reporter.checkpoint(state, uncommitted, Usage::default()).await
}

fn with(children: Vec<Child>) -> Uncommitted {
    Uncommitted { children, ..Uncommitted::default() }
}

#[tokio::test]
async fn records_are_seen_once_a_checkpoint_has_committed_them_and_can_be_marked() {
    let dir = tempfile::tempdir().expect("a folder");
    let reporter = reporter(&dir).await;
    let state = || SavedState { schema: 1, bytes: Bytes::from_static(b"1") };
    let record = NewRecord { key: "a/b".to_owned(), value: b"[1]".to_vec() };
    let mark = |mark: &str| NewMark {
        queue: "q".parse().expect("a name"),
        key: "a/b".to_owned(),
        mark: Some(mark.to_owned()),
    };
    let read = async || {
        let record = reporter.record("q", "a/b").await.expect("a read");
        record.map(|record| (record.value, record.mark))
    };
    let noted = |notes| Uncommitted { notes, ..Uncommitted::default() };
    let notes = Notes { records: vec![record], marks: Vec::new() };
    assert_eq!(read().await, None);
    save(&reporter, state(), noted(notes)).await.expect("stored");
    assert_eq!(read().await, Some((b"[1]".to_vec(), None)));
    let notes = Notes { records: Vec::new(), marks: vec![mark("newer")] };
    save(&reporter, state(), noted(notes)).await.expect("stored");
    assert_eq!(read().await, Some((b"[1]".to_vec(), Some("newer".to_owned()))));
    assert!(matches!(reporter.record("no queue!", "a").await, Err(HostError::Invalid(_))));
}

#[tokio::test]
async fn a_secret_in_a_key_a_mark_or_the_queue_of_a_child_is_refused_and_in_a_value_it_is_redacted() {
    let dir = tempfile::tempdir().expect("a folder");
    let reporter = reporter(&dir).await;
    let secrets = [("token".to_owned(), Some(Secret::new("hunter22")))].into();
    reporter.redact_with(Redactor::of(&Permissions { secrets, ..Permissions::default() }));
    let state = || SavedState { schema: 1, bytes: Bytes::from_static(b"1") };
    let record = |key: &str| NewRecord { key: key.to_owned(), value: b"it is hunter22".to_vec() };
    let mark = |queue: &str, key: &str, mark: &str| NewMark {
        queue: queue.parse().expect("a name"),
        key: key.to_owned(),
        mark: Some(mark.to_owned()),
    };
    let told = [
        Notes { records: vec![record("a/hunter22")], marks: Vec::new() },
        Notes { records: Vec::new(), marks: vec![mark("q", "hunter22", "newer")] },
        Notes { records: Vec::new(), marks: vec![mark("q", "a", "says hunter22")] },
        Notes { records: Vec::new(), marks: vec![mark("hunter22", "a", "newer")] },
    ];
    let told = told.map(|notes| Uncommitted { notes, ..Uncommitted::default() });
    for uncommitted in told.into_iter().chain([with(vec![child(0, "to.hunter22")])]) {
        let refused = save(&reporter, state(), uncommitted).await.expect_err("it tells a secret");
        let words = refused.to_string();
        assert!(words.contains("contains a secret") && !words.contains("hunter22"), "{words}");
    }
    let notes = Notes { records: vec![record("a")], marks: vec![mark("q", "a", "newer")] };
    save(&reporter, state(), Uncommitted { notes, ..Uncommitted::default() }).await.expect("stored");
    let stored = reporter.record("q", "a").await.expect("a read").expect("it is there");
    assert_eq!((&stored.value[..], stored.mark.as_deref()), (&b"it is [secret]"[..], Some("newer")));
}

#[tokio::test]
async fn a_gate_connects_two_queues_whichever_of_them_is_behind() {
    let dir = tempfile::tempdir().expect("a folder");
    let reporter = reporter_behind(&dir, &[("q", "ahead"), ("behind", "q"), ("others", "ahead")]).await;
    let mut tied = reporter.tied_queues().await.expect("a read");
    tied.sort();
    assert_eq!(tied, ["ahead", "behind"]);
}

#[tokio::test]
async fn a_flood_of_reports_costs_few_commands_and_the_last_report_arrives() {
    const REPORTS: u64 = 100_000;
    let dir = tempfile::tempdir().expect("a folder");
    let reporter = reporter(&dir).await;
    let mut events = reporter.store.watch();
    let flood = async {
        for n in 1..=REPORTS {
            reporter.progress(count(n));
            if n % 100 == 0 {
                tokio::task::yield_now().await;
            }
        }
        reporter.finish();
    };
    tokio::join!(flood, reporter.forward());
    let mut reports = 0;
    loop {
        let event = timeout(Duration::from_secs(10), events.recv()).await.expect("the last report").expect("an event");
        let EventKind::Progress(progress) = &event.event.kind else { continue };
        reports += 1;
        if progress.current == Some(REPORTS) {
            break;
        }
    }
    assert!(reports < REPORTS / 100, "{reports} commands");
}

#[tokio::test]
async fn children_are_stored_with_the_checkpoint_and_not_twice() {
    let dir = tempfile::tempdir().expect("a folder");
    let reporter = reporter(&dir).await;
    let state = SavedState { schema: 3, bytes: Bytes::from_static(b"[1]") };
    for _ in 0..2 {
        save(&reporter, state.clone(), with(vec![child(0, "kids")])).await.expect("it is stored");
    }
    let id = JobId::child(reporter.job, 0);
    let kid = reporter.store.job(id).await.expect("a read").expect("the child");
    assert_eq!((kid.parent, kid.policy.max_attempts), (Some(reporter.job), 7));
    let list = windlass_store::JobList { queue: Some(kid.queue), limit: 10, ..Default::default() };
    assert_eq!(reporter.store.jobs(list).await.expect("a list").len(), 1);
    let parent = reporter.store.job(reporter.job).await.expect("a read").expect("the parent");
    assert_eq!(parent.checkpoint_schema, 3);
}

/// Completes a child with a result of so many bytes, as an external worker would.
async fn complete(reporter: &Reporter, bytes: usize) {
    let by = By::Worker { worker_id: String::new(), hostname: String::new() };
    let queues = vec!["kids".parse().expect("a name")];
    let claim = Claim { by, queues, count: 1, wait: Duration::from_secs(10) };
    let claimed = reporter.store.claim(claim).await.expect("it is claimed");
    let Some(Assignment { job, token, .. }) = claimed.into_iter().next() else { panic!("no child") };
    let result = Some(reporter.store.keep(Bytes::from(vec![b'x'; bytes])).await.expect("kept"));
    let holder = Holder::Token(token);
    let done = Command::Complete(Complete { result, ..Complete::by(holder) });
    reporter.store.ask(job.id, done, Vec::new()).await.expect("completed");
}

#[tokio::test]
async fn a_page_of_children_is_bounded_by_number_and_by_bytes_and_large_results_are_read_by_themselves() {
    const LARGE: usize = 70_000;
    let dir = tempfile::tempdir().expect("a folder");
    let reporter = reporter(&dir).await;
    let state = SavedState { schema: 1, bytes: Bytes::from_static(b"1") };
    let children = (0..5).map(|n| child(n, "kids")).collect();
    save(&reporter, state, with(children)).await.expect("it is stored");
    for bytes in [10, 60_000, LARGE, 60_000] {
        complete(&reporter, bytes).await;
    }
    let pages = |start, children, bytes| reporter.children(start, PageLimits { children, bytes });
    let ordinals = |page: &ChildPage| page.children.iter().map(|child| child.ordinal).collect::<Vec<_>>();

    let page = pages(0, 2, 1_000_000).await.expect("a page");
    assert_eq!((ordinals(&page), page.next), (vec![0, 1], Some(2)));
    let page = pages(0, 100, 100_000).await.expect("a page");
    assert_eq!((ordinals(&page), page.next), (vec![0, 1, 2], Some(3)), "the fourth has too many bytes");
    let large = &page.children[2];
    assert_eq!((large.result.as_ref(), large.result_bytes), (None, LARGE as u64));
    let page = pages(3, 100, 1_000).await.expect("a page");
    assert_eq!((ordinals(&page), page.next), (vec![3, 4], None), "the first of a page is returned whatever its size");
    assert_eq!(page.children[1].state, State::Pending);
    assert_eq!(reporter.child_result(2).await.expect("a result").map(|bytes| bytes.len()), Some(LARGE));
    let missing = reporter.child_result(9).await.expect_err("there is no such child");
    assert!(matches!(&missing, HostError::Invalid(why) if why.contains("child number 9")), "{missing:?}");
}

#[tokio::test]
async fn a_child_that_cannot_be_stored_is_reported_to_the_guest() {
    let dir = tempfile::tempdir().expect("a folder");
    let reporter = reporter(&dir).await;
    let state = SavedState { schema: 0, bytes: Bytes::new() };
    let refused = save(&reporter, state, with(vec![child(0, "no such queue!")])).await;
    assert!(matches!(&refused, Err(HostError::Unavailable(why)) if why.contains("queue")), "{refused:?}");
    let parent = reporter.store.job(reporter.job).await.expect("a read").expect("the parent");
    assert!(parent.checkpoint.is_none(), "the state is not stored without its children");
}

#[tokio::test]
async fn a_checkpoint_of_an_attempt_that_is_over_ends_the_guest() {
    let dir = tempfile::tempdir().expect("a folder");
    let reporter = reporter(&dir).await;
    let holder = Holder::Token(reporter.token);
    let back = Command::HandBack(HandBack { holder, reason: "test".to_owned(), usage: Usage::default() });
    reporter.store.ask(reporter.job, back, Vec::new()).await.expect("handed back");
    let state = SavedState { schema: 0, bytes: Bytes::new() };
    assert_eq!(save(&reporter, state, Uncommitted::default()).await, Err(HostError::Ended));
}

#[tokio::test]
async fn a_store_that_cannot_answer_ends_the_attempt_and_is_not_the_guests_failure() {
    let dir = tempfile::tempdir().expect("a folder");
    let reporter = reporter(&dir).await;
    reporter.store.close().await;
    let state = SavedState { schema: 0, bytes: Bytes::new() };
    let interrupted = |error: HostError| assert!(matches!(error, HostError::Interrupted(_)), "{error:?}");
    interrupted(save(&reporter, state, Uncommitted::default()).await.expect_err("nothing is stored"));
}
