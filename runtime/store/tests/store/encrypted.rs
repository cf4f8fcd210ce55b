//! A store whose texts are encrypted: nothing of them is on the disk in clear, and everything is read as it was
//! written.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use windlass_core::access::{Actor, NamespaceRow, Quotas};
use windlass_core::{
    AllowedQueues, Body, BodyKind, Checkpoint, Command, Complete, Fail, Failure, Heartbeat, Holder, Job, JobId,
    Namespace, NewJob, Retry, Time, Usage,
};
use windlass_store::{
    AccessChange, Assignment, By, Caller, Claim, Durability, Encryption, LogLine, OpenError, Opening, Options, Store,
};

use crate::folder::{HandClock, temporary};
use crate::wrap::with_key;

/// What no file may contain.
const MARKER: &str = "plaintext-marker-7c1f";

fn open(dir: &Path, encryption: Option<Encryption>) -> Result<Store, OpenError> {
    let options = Options { dir: dir.join("data"), durability: Durability::Os };
    let opening = Opening { encryption, ..Opening::default() };
    Store::open_with(options, HandClock::at(1_800_000_000_000), opening)
}

/// A text with the marker, as long as this.
fn text(of: &str, length: usize) -> Bytes {
    let mut text = format!("{MARKER} {of} ");
    text.extend(std::iter::repeat_n('.', length.saturating_sub(text.len())));
    text.into()
}

/// All files of a folder that contain the marker.
fn in_clear(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).expect("lists") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(in_clear(&path));
        } else {
            let bytes = std::fs::read(&path).expect("reads");
            if bytes.windows(MARKER.len()).any(|part| part == MARKER.as_bytes()) {
                found.push(path.display().to_string());
            }
        }
    }
    found
}

async fn put(store: &Store, payload: Bytes) -> JobId {
    let payload: Option<Body> = Some(store.keep(payload).await.expect("it is kept"));
    let new = NewJob { queue: Some("q".parse().expect("a name")), payload, ..NewJob::default() };
    store.enqueue(vec![new]).await.expect("a job")[0].id
}

async fn claim(store: &Store) -> Assignment {
    let by = By::Worker { worker_id: "w".into(), hostname: "h".into() };
    let claim = Claim { by, queues: vec!["q".parse().expect("a name")], count: 1, wait: Duration::ZERO };
    store.claim(claim).await.expect("it is claimed").remove(0)
}

async fn save(store: &Store, of: &Assignment, state: Bytes) {
    let body = store.keep(state).await.expect("it is kept");
    let checkpoint = Some(Checkpoint { body, schema: 0, usage: Usage::default() });
    let holder = Holder::Token(of.token);
    let heartbeat = Heartbeat { holder, progress: None, checkpoint, spent: None, notes: None };
    store.ask(of.job.id, Command::Heartbeat(heartbeat), Vec::new()).await.expect("it is saved");
}

/// Jobs that have left a text of every kind, small ones or files.
#[derive(Clone, Copy)]
struct Texts {
    completed: JobId,
    failed: JobId,
    length: usize,
}

async fn leave_texts(store: &Store, length: usize) -> Texts {
    let completed = put(store, text("payload", length)).await;
    let run = claim(store).await;
    save(store, &run, text("checkpoint", length)).await;
    let line = LogLine { at: Time(1), attempt: 1, level: "info".into(), text: format!("{MARKER} log") };
    store.log(completed, vec![line]);
    let result = Some(store.keep(text("result", length)).await.expect("it is kept"));
    let complete = Complete { result, ..Complete::by(Holder::Token(run.token)) };
    store.ask(completed, Command::Complete(complete), Vec::new()).await.expect("it completes");

    let failed = put(store, text("payload", length)).await;
    let run = claim(store).await;
    let backtrace = Some(format!("{MARKER} backtrace"));
    let failure = Failure { error: format!("{MARKER} error"), backtrace, retry: Retry::Never };
    let fail = Fail { holder: Holder::Token(run.token), failure, usage: Usage::default() };
    store.ask(failed, Command::Fail(fail), Vec::new()).await.expect("it fails");
    Texts { completed, failed, length }
}

async fn check_texts(store: &Store, texts: Texts) {
    let Texts { completed, failed, length } = texts;
    let job: Job = store.job(completed).await.expect("reads").expect("it is there");
    let kinds = [(BodyKind::Payload, "payload"), (BodyKind::Checkpoint, "checkpoint"), (BodyKind::Result, "result")];
    for (kind, of) in kinds {
        let body = store.body(&job, kind).await.expect("reads");
        assert!(body.as_ref() == Some(&text(of, length)), "the {of} of {length} bytes");
        let head = store.body_head(&job, kind, 30).await.expect("reads");
        assert_eq!(head, Some(text(of, length).slice(..30)));
    }
    let logs = store.logs(completed, 0, 10).await.expect("reads");
    assert_eq!(logs[0].1.text, format!("{MARKER} log"));
    let errors = store.errors(failed).await.expect("reads");
    assert_eq!(errors[0].error, format!("{MARKER} error"));
}

#[tokio::test]
async fn no_file_has_a_text_in_clear_and_every_text_is_read_again() {
    let dir = temporary();
    let store = open(dir.path(), with_key(1, true)).expect("opens");
    let mut jobs = Vec::new();
    for length in [100, 200_000] {
        jobs.push(leave_texts(&store, length).await);
    }
    for texts in &jobs {
        check_texts(&store, *texts).await;
    }
    store.close().await;
    assert_eq!(in_clear(dir.path()), Vec::<String>::new());

    let store = open(dir.path(), with_key(1, true)).expect("opens");
    for texts in &jobs {
        check_texts(&store, *texts).await;
    }
    store.close().await;
    assert_eq!(in_clear(dir.path()), Vec::<String>::new());
}

#[tokio::test]
async fn it_can_be_switched_on_and_off_and_what_was_written_before_stays_readable() {
    let dir = temporary();
    let mut jobs = Vec::new();
    for is_on in [false, true, false, true] {
        let store = open(dir.path(), with_key(1, is_on)).expect("opens");
        for length in [100, 200_000] {
            jobs.push(leave_texts(&store, length).await);
        }
        for texts in &jobs {
            check_texts(&store, *texts).await;
        }
        store.close().await;
    }
}

#[tokio::test]
async fn without_the_right_key_the_folder_is_not_opened_and_the_error_says_why() {
    let dir = temporary();
    let store = open(dir.path(), with_key(1, true)).expect("opens");
    let texts = leave_texts(&store, 100).await;
    store.close().await;
    for (encryption, why) in [(with_key(2, true), "another key"), (with_key(2, false), "another key"), (None, "no key")]
    {
        let refused = open(dir.path(), encryption).err().expect("it is refused").to_string();
        assert!(refused.contains(why), "{refused}");
    }
    let store = open(dir.path(), with_key(1, false)).expect("opens");
    check_texts(&store, texts).await;
    store.close().await;
}

/// The store as somebody of this namespace sees it.
fn of(store: &Store, namespace: &Namespace) -> Store {
    let actor = Actor { id: "k".into(), role: None, address: None };
    let allowed = AllowedQueues::of(namespace.clone());
    store.of_caller(Arc::new(Caller { allowed, actor, everywhere: false, session: None, token_until: None }))
}

#[tokio::test]
async fn each_namespace_has_a_key_and_loses_it_when_it_is_removed() {
    let dir = temporary();
    let store = open(dir.path(), with_key(1, true)).expect("opens");
    let acme: Namespace = "acme".parse().expect("a name");
    let row = NamespaceRow { name: acme.clone(), quotas: Quotas::default(), created_at: Time(1), created_by: None };
    store.change_access(AccessChange::PutNamespace { row: Box::new(row), replace: false }).await.expect("it is made");
    let tenant = of(&store, &acme);
    let theirs = put(&tenant, text("payload", 100)).await;
    let large = put(&tenant, text("payload", 200_000)).await;
    let ours = put(&store, text("payload", 100)).await;
    let keys = async || {
        let keys = store.data_keys().await.expect("reads");
        let mut names: Vec<String> = keys.into_iter().map(|key| key.namespace).collect();
        names.sort();
        names
    };
    assert_eq!(keys().await, ["*", "acme", "default"]);
    for id in [theirs, large] {
        let job = tenant.job(id).await.expect("reads").expect("it is there");
        assert!(tenant.body(&job, BodyKind::Payload).await.expect("reads").is_some());
    }
    tenant.remove_queue("q".parse().expect("a name")).await.expect("it is removed");
    store.change_access(AccessChange::RemoveNamespace { name: acme.clone() }).await.expect("it is removed");
    assert_eq!(keys().await, ["*", "default"]);
    let job = store.job(ours).await.expect("reads").expect("it is there");
    assert!(store.body(&job, BodyKind::Payload).await.expect("reads").is_some());
    store.close().await;

    let store = open(dir.path(), with_key(1, true)).expect("opens without it");
    assert!(store.job(ours).await.expect("reads").is_some());
    store.close().await;
}
