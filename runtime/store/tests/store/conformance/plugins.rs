//! Plugins through the store: what they may run at once, versions that take over, canaries, grants and encrypted
//! secrets.

use std::time::Duration;

use windlass_core::plugin::grant::Grant;
use windlass_core::plugin::manifest::{Limits, Manifest};
use windlass_core::{
    Blob, Body, Checkpoint, Command, Complete, Heartbeat, Holder, NewCanary, Plugin, PluginCommand, Refusal, Reply,
    Runner, State, Swap, Usage,
};
use windlass_store::{Assignment, Error, SecretChange};

use super::test_store::{TestStore, job, queue, upload};

fn limited(concurrency: u32) -> Manifest {
    let limits = Limits { concurrency: Some(concurrency), ..Limits::default() };
    Manifest { limits, ..Manifest::default() }
}

async fn change(test: &TestStore, command: PluginCommand) -> Option<Plugin> {
    test.store.change_plugin(queue("mailer"), command).await.expect("a good change")
}

fn version_of(assignment: &Assignment) -> u8 {
    let run = assignment.job.run.as_ref().expect("it runs");
    let Runner::Local { version, .. } = &run.runner else { panic!("it runs here") };
    u8::from_str_radix(&version[..2], 16).expect("a digest")
}

async fn complete(test: &TestStore, assignment: &Assignment) {
    let holder = Holder::Token(assignment.token);
    let done = Command::Complete(Complete::by(holder));
    test.ask(assignment.job.id, done).await.expect("the attempt holds the job");
}

fn save(assignment: &Assignment) -> Command {
    let checkpoint = Some(Checkpoint { body: Body::Inline("state".into()), schema: 1, usage: Usage::default() });
    Command::Heartbeat(Heartbeat { checkpoint, ..Heartbeat::by(Holder::Token(assignment.token)) })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_runs_no_more_attempts_at_once_than_both_sides_allow() {
    let mut test = TestStore::new();
    change(&test, upload(1, &["a", "b"], limited(2))).await;
    for name in ["a", "b", "a", "b"] {
        test.put(job(name)).await;
    }
    let first = test.claim_here().await.expect("a place is free");
    let second = test.claim_here().await.expect("a place is free");
    assert!(test.claim_here().await.is_none(), "two of two");
    complete(&test, &first).await;
    let third = test.claim_here().await.expect("a place is free again, in whichever queue");
    let lower = Grant { limits: Limits { concurrency: Some(1), ..Limits::default() }, ..Grant::default() };
    change(&test, PluginCommand::Grant(lower)).await;
    complete(&test, &second).await;
    assert!(test.claim_here().await.is_none(), "one of one");
    complete(&test, &third).await;
    test.reopen().await;
    assert!(test.claim_here().await.is_some(), "the count and the grant are as they were");
    assert!(test.claim_here().await.is_none(), "one of one");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_that_hands_over_is_stored_with_the_hand_over() {
    let mut test = TestStore::new();
    change(&test, upload(1, &["a"], Manifest::default())).await;
    let id = test.put(job("a")).await;
    let old = test.claim_here().await.expect("it is claimed");
    let swap = Swap::Checkpoint { within: Duration::from_secs(60) };
    let component = Blob { sha256: [2; 32], len: 1 };
    let second = PluginCommand::Upload {
        component,
        imports: Vec::new(),
        manifest: None,
        queues: None,
        by: None,
        swap: Some(swap),
    };
    change(&test, second).await;
    assert_eq!(test.ask(id, save(&old)).await.expect("the attempt holds the job"), Reply::HandedBack);
    test.reopen().await;
    let waiting = test.job(id).await;
    assert_eq!((waiting.state, waiting.failures, waiting.crashes), (State::Pending, 0, 0));
    assert!(!waiting.checkpoint.is_none());
    let new = test.claim_here().await.expect("it is claimed");
    assert_eq!((version_of(&old), version_of(&new)), (1, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_swap_that_waits_too_long_orders_a_stop() {
    let test = TestStore::new();
    let mut orders = test.store.orders().expect("nobody has them");
    change(&test, upload(1, &["a"], Manifest::default())).await;
    test.put(job("a")).await;
    let old = test.claim_here().await.expect("it is claimed");
    change(&test, upload(2, &["a"], Manifest::default())).await;
    let within = Duration::from_secs(60);
    change(&test, PluginCommand::Activate { version: [2; 32], swap: Swap::Checkpoint { within } }).await;
    test.pass(Duration::from_secs(59)).await;
    assert!(orders.try_recv().is_err(), "it has time left");
    test.pass(Duration::from_secs(2)).await;
    let windlass_core::Effect::Stop { job, .. } = orders.try_recv().expect("an order");
    assert_eq!(job, old.job.id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canary_is_counted_in_the_commit_and_promoted_by_it() {
    let mut test = TestStore::new();
    change(&test, upload(1, &["a"], Manifest::default())).await;
    change(&test, upload(2, &["a"], Manifest::default())).await;
    change(&test, PluginCommand::Activate { version: [1; 32], swap: Swap::Drain }).await;
    let new =
        NewCanary { version: [2; 32], share: 50, max_failures_per_mille: 0, min_attempts: 2, promote_after: Some(2) };
    change(&test, PluginCommand::StartCanary(new)).await;
    let mut versions = Vec::new();
    for _ in 0..4 {
        test.put(job("a")).await;
        let claimed = test.claim_here().await.expect("it is claimed");
        versions.push(version_of(&claimed));
        complete(&test, &claimed).await;
        test.reopen().await;
    }
    assert_eq!(versions, [1, 2, 1, 2], "every second one, whatever happens between");
    let plugin = test.store.plugins().await.expect("it reads").remove(0);
    assert_eq!((plugin.active, plugin.canary), (Some([2; 32]), None));
}

#[tokio::test(flavor = "multi_thread")]
async fn grants_and_encrypted_secrets_are_kept() {
    let mut test = TestStore::new();
    let grant = Grant { secrets: ["token".to_owned()].into(), ..Grant::default() };
    change(&test, PluginCommand::Grant(grant.clone())).await;
    let put = SecretChange::Put { name: queue("token"), encrypted: vec![1, 2, 3] };
    test.store.change_secret(put).await.expect("it is stored");
    test.reopen().await;
    assert_eq!(
        test.store.grants().await.expect("it reads").get(&queue("mailer")).map(|stored| &stored.grant),
        Some(&grant)
    );
    assert_eq!(test.store.secrets().await.expect("it reads")[0].encrypted, [1, 2, 3]);
    let gone = SecretChange::Remove { name: queue("token") };
    test.store.change_secret(gone.clone()).await.expect("it was there");
    let refused = test.store.change_secret(gone).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::NotFound { .. }))), "{refused:?}");
}
