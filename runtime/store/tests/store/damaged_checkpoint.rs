//! A checkpoint that cannot be read: the job that a crash met still saves its next one, which takes its place.

use std::time::Duration;

use bytes::Bytes;
use fjall::{Database, KeyspaceCreateOptions};
use windlass_core::plugin::manifest::Manifest;
use windlass_core::{Blob, Body, BodyKind, Checkpoint, Command, Heartbeat, Holder, NewJob, PluginCommand, Swap, Usage};
use windlass_store::disk::keys;
use windlass_store::{Assignment, By, Claim, Store};

use crate::folder::{open, temporary};

/// Claims a job for this process, as the server would.
async fn claim(store: &Store) -> Assignment {
    let claim = Claim { by: By::Local, queues: Vec::new(), count: 1, wait: Duration::ZERO };
    store.claim(claim).await.expect("a claim").pop().expect("a job")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_checkpoint_is_damaged_saves_another_after_a_crash() {
    let dir = temporary();
    let store = open(dir.path()).expect("opens");
    let upload = PluginCommand::Upload {
        component: Blob { sha256: [1; 32], len: 1 },
        imports: Vec::new(),
        manifest: Some(Manifest::default()),
        queues: Some(vec!["mail".parse().expect("a name")]),
        by: None,
        swap: Some(Swap::Drain),
    };
    store.change_plugin("sender".parse().expect("a name"), upload).await.expect("a plugin");
    let saved = |text: &'static str| Body::Inline(Bytes::from_static(text.as_bytes()));
    let queue = Some("mail".parse().expect("a name"));
    store.enqueue(vec![NewJob { queue, checkpoint: Some(saved("one")), ..NewJob::default() }]).await.expect("stored");
    let id = claim(&store).await.job.id;
    store.close().await;

    let db = Database::builder(dir.path().join("store")).open().expect("opens");
    let bodies = db.keyspace("bodies", KeyspaceCreateOptions::default).expect("exists");
    bodies.insert(keys::body(id, BodyKind::Checkpoint), [99]).expect("writes");
    drop((bodies, db));

    let store = open(dir.path()).expect("opens");
    let attempt = claim(&store).await;
    assert_eq!((attempt.job.id, attempt.job.crashes), (id, 1), "its attempt ended with the process");
    assert!(store.body(&attempt.job, BodyKind::Checkpoint).await.is_err(), "it cannot be read");
    let checkpoint = Some(Checkpoint { body: saved("two"), schema: 0, usage: Usage::default() });
    let holder = Holder::Token(attempt.token);
    let heartbeat = Command::Heartbeat(Heartbeat { checkpoint, ..Heartbeat::by(holder) });
    store.ask(id, heartbeat, Vec::new()).await.expect("it is saved");
    let job = store.job(id).await.expect("reads").expect("the job is there");
    let read = store.body(&job, BodyKind::Checkpoint).await.expect("reads");
    assert_eq!((read, job.crashes), (Some(Bytes::from_static(b"two")), 0));
    store.close().await;
}
