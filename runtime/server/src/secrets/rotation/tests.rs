use std::sync::Arc;

use bytes::Bytes;
use windlass_core::{
    Body, Checkpoint, Command, HandBack, Heartbeat, Holder, InboundSettings, JobId, Name, NewJob, SignatureScheme,
    Usage,
};
use windlass_store::{By, Claim, Durability, InboundChange, Options};

use super::*;
use crate::checkpoints::CheckpointOwner;
use crate::secrets::Signer;
use crate::secrets::keyring::KeyFile;

/// A store in a folder, and its secrets.
async fn open(dir: &tempfile::TempDir) -> (Store, Secrets) {
    let options = Options { dir: dir.path().join("data"), durability: Durability::Os };
    let store = Store::open(options, Arc::new(crate::clock::SystemClock::start())).expect("opens");
    let secrets = Secrets::load(store.clone(), &KeyFile::new(&dir.path().join("secrets.key"))).await.expect("its keys");
    (store, secrets)
}

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

async fn set(store: &Store, secrets: &Secrets, of: &str, value: &str) {
    secrets.set(store, name(of), value.to_owned()).await.expect("it is stored");
}

/// Which key each stored secret needs.
async fn keys(store: &Store) -> Vec<u32> {
    store.secrets().await.expect("rows").iter().map(|row| keyring::key_of(&row.encrypted)).collect()
}

/// A job that waits in this queue, with a checkpoint that was encrypted with the current key.
async fn job_with_checkpoint(store: &Store, secrets: &Secrets, queue: &str, size: usize) -> JobId {
    let new = NewJob { queue: Some(name(queue)), ..NewJob::default() };
    let id = store.enqueue(vec![new]).await.expect("a job")[0].id;
    let by = By::Worker { worker_id: "w".into(), hostname: "h".into() };
    let claim = Claim { by, queues: vec![name(queue)], count: 1, wait: std::time::Duration::ZERO };
    let token = store.claim(claim).await.expect("it is claimed")[0].token;
    let owner = CheckpointOwner { job: id, plugin: "mailer" };
    let state = owner.encrypt(&secrets.key(), Bytes::from(vec![7; size]), true).expect("randomness");
    let body: Body = store.keep(state).await.expect("it is kept");
    let checkpoint = Some(Checkpoint { body, schema: 0, usage: Usage::default() });
    let heartbeat = Heartbeat { holder: Holder::Token(token), progress: None, checkpoint, spent: None, notes: None };
    store.ask(id, Command::Heartbeat(heartbeat), Vec::new()).await.expect("it is saved");
    let back = HandBack { holder: Holder::Token(token), reason: "done for today".into(), usage: Usage::default() };
    store.ask(id, Command::HandBack(back), Vec::new()).await.expect("it is handed back");
    id
}

#[tokio::test]
async fn a_rotation_encrypts_secrets_and_signing_secrets_anew_and_they_stay_readable() {
    let dir = tempfile::tempdir().expect("a folder");
    let (store, secrets) = open(&dir).await;
    set(&store, &secrets, "token", "s3cret").await;
    let signer = Signer::Sender(name("hooks"));
    let encrypted = secrets.key().encrypt_signing(&signer, "a secret of a sender").expect("randomness");
    let settings = InboundSettings {
        scheme: SignatureScheme::GitHub,
        secret: Some(encrypted),
        keep_previous: std::time::Duration::ZERO,
        tolerance: None,
    };
    store.change_inbound(InboundChange::Set { queue: name("hooks"), settings }).await.expect("it is set");

    let rotated = secrets.rotate(&store, &store).await.expect("a new key");
    let kept = vec![OldKey { id: 1, checkpoints: None }];
    assert_eq!(rotated, Rotated { current: 2, encrypted_anew: 2, dropped: Vec::new(), kept });
    let rotated = secrets.drop_old_keys(&store, &store).await.expect("no old key");
    assert_eq!(rotated, Rotated { current: 2, encrypted_anew: 0, dropped: vec![1], kept: Vec::new() });
    store.close().await;

    let (store, secrets) = open(&dir).await;
    assert_eq!(secrets.get(&name("token")).expect("it is there").reveal(), "s3cret");
    let hooks = store.inbound_hooks().await.expect("rows");
    let texts = secrets.signing(&signer, &hooks[0].secrets).expect("with the new key");
    assert_eq!(texts[0].text, "a secret of a sender");
    store.close().await;
}

#[tokio::test]
async fn a_rotation_that_was_interrupted_is_finished_by_the_next_start() {
    let dir = tempfile::tempdir().expect("a folder");
    let (store, secrets) = open(&dir).await;
    set(&store, &secrets, "token", "s3cret").await;
    set(&store, &secrets, "other", "s3cret too").await;
    // All that a rotation has done when it is killed after its first step.
    secrets.inner.keys.add().expect("a key in the file");
    set(&store, &secrets, "third", "of the new key").await;
    assert_eq!(keys(&store).await, [1, 2, 1]);
    store.close().await;

    let (store, secrets) = open(&dir).await;
    assert_eq!(keys(&store).await, [2, 2, 2]);
    assert_eq!(secrets.get(&name("token")).expect("it is there").reveal(), "s3cret");
    assert_eq!(secrets.drop_old_keys(&store, &store).await.expect("drops").dropped, [1]);
    store.close().await;
}

#[tokio::test]
async fn an_old_key_stays_for_the_encrypted_checkpoints_that_need_it() {
    let dir = tempfile::tempdir().expect("a folder");
    let (store, secrets) = open(&dir).await;
    let small = job_with_checkpoint(&store, &secrets, "small", 10).await;
    let large = job_with_checkpoint(&store, &secrets, "large", 100_000).await;
    secrets.rotate(&store, &store).await.expect("a new key");
    let newer = job_with_checkpoint(&store, &secrets, "newer", 10).await;
    for (gone, needed) in [(None, 2), (Some(small), 1)] {
        if let Some(gone) = gone {
            store.ask(gone, Command::Delete, Vec::new()).await.expect("it is deleted");
        }
        let rotated = secrets.drop_old_keys(&store, &store).await.expect("counts");
        assert_eq!(rotated.kept, [OldKey { id: 1, checkpoints: Some(needed) }]);
    }
    store.ask(large, Command::Delete, Vec::new()).await.expect("it is deleted");
    let rotated = secrets.drop_old_keys(&store, &store).await.expect("counts");
    assert_eq!((rotated.dropped, rotated.kept), (vec![1], Vec::new()));

    let job = store.job(newer).await.expect("reads").expect("it is there");
    let stored = store.body(&job, windlass_core::BodyKind::Checkpoint).await.expect("reads").expect("a checkpoint");
    let owner = CheckpointOwner { job: newer, plugin: "mailer" };
    assert_eq!(owner.decrypt(&secrets, stored, || false), Ok(Bytes::from(vec![7; 10])));
    store.close().await;
}

#[tokio::test]
async fn an_old_key_stays_while_somebody_stores_what_it_has_encrypted() {
    let dir = tempfile::tempdir().expect("a folder");
    let (store, secrets) = open(&dir).await;
    let key = secrets.key();
    secrets.rotate(&store, &store).await.expect("a new key");
    let rotated = secrets.drop_old_keys(&store, &store).await.expect("nothing to drop");
    assert_eq!((rotated.dropped, rotated.kept), (Vec::new(), vec![OldKey { id: 1, checkpoints: None }]));
    drop(key);
    assert_eq!(secrets.drop_old_keys(&store, &store).await.expect("drops").dropped, [1]);
    store.close().await;
}

#[tokio::test]
async fn a_secret_that_is_set_meanwhile_is_not_overwritten() {
    let dir = tempfile::tempdir().expect("a folder");
    let (store, secrets) = open(&dir).await;
    set(&store, &secrets, "token", "the first").await;
    let read = store.secrets().await.expect("rows").remove(0).encrypted;
    set(&store, &secrets, "token", "the second").await;
    let row = EncryptedRow::Secret(name("token"));
    let to = secrets.key().encrypt(b"token", b"the first").expect("randomness");
    let step = EncryptedAnew { note: String::new(), rows: vec![NewCiphertext { row, from: read, to }] };
    assert_eq!(store.encrypt_anew(step).await.expect("nothing to do"), 0);
    let stored = store.secrets().await.expect("rows").remove(0).encrypted;
    assert_eq!(secrets.decrypt(b"token", &stored).as_deref(), Some(&b"the second"[..]));
    store.close().await;
}

#[tokio::test]
async fn there_is_a_limit_to_the_keys_and_the_error_says_what_to_do() {
    let dir = tempfile::tempdir().expect("a folder");
    let (store, secrets) = open(&dir).await;
    let error = loop {
        match secrets.rotate(&store, &store).await {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("--drop-old"), "{error}");
    assert_eq!(
        secrets.drop_old_keys(&store, &store).await.expect("drops").dropped.len(),
        crate::limits::SECRET_KEYS - 1
    );
    store.close().await;
}
