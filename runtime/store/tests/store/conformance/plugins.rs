//! Plugins through the store: what they may run at once, versions that take over, canaries, grants and encrypted secrets.

use std::time::Duration;

use windlass_core::plugin::grant::Grant;
use windlass_core::plugin::manifest::{Limits, Manifest};
use windlass_core::{
    Blob, Body, Checkpoint, Command, Complete, Heartbeat, Holder, NewCanary, Plugin, PluginCommand, Refusal, Reply,
    Runner, State, Swap, Usage,
};
use windlass_store::{Assignment, Error, SecretChange};

use super::house::{House, job, queue, upload};

fn limited(concurrency: u32) -> Manifest {
    let limits = Limits { concurrency: Some(concurrency), ..Limits::default() };
    Manifest { limits, ..Manifest::default() }
}

async fn change(house: &House, command: PluginCommand) -> Option<Plugin> {
    house.store.change_plugin(queue("mailer"), command).await.expect("a good change")
}

fn version_of(assignment: &Assignment) -> u8 {
    let run = assignment.job.run.as_ref().expect("it runs");
    let Runner::Local { version, .. } = &run.runner else { panic!("it runs here") };
    u8::from_str_radix(&version[..2], 16).expect("a digest")
}

async fn complete(house: &House, assignment: &Assignment) {
    let holder = Holder::Token(assignment.token);
    let done = Command::Complete(Complete::by(holder));
    house.ask(assignment.job.id, done).await.expect("the attempt holds the job");
}

fn save(assignment: &Assignment) -> Command {
    let checkpoint = Some(Checkpoint { body: Body::Inline("state".into()), schema: 1, usage: Usage::default() });
    Command::Heartbeat(Heartbeat { checkpoint, ..Heartbeat::by(Holder::Token(assignment.token)) })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_runs_no_more_attempts_at_once_than_both_sides_allow() {
    let mut house = House::new();
    change(&house, upload(1, &["a", "b"], limited(2))).await;
    for name in ["a", "b", "a", "b"] {
        house.put(job(name)).await;
    }
    let first = house.claim_here().await.expect("a place is free");
    let second = house.claim_here().await.expect("a place is free");
    assert!(house.claim_here().await.is_none(), "two of two");
    complete(&house, &first).await;
    let third = house.claim_here().await.expect("a place is free again, in whichever queue");
    let lower = Grant { limits: Limits { concurrency: Some(1), ..Limits::default() }, ..Grant::default() };
    change(&house, PluginCommand::Grant(lower)).await;
    complete(&house, &second).await;
    assert!(house.claim_here().await.is_none(), "one of one");
    complete(&house, &third).await;
    house.reopen().await;
    assert!(house.claim_here().await.is_some(), "the count and the grant are as they were");
    assert!(house.claim_here().await.is_none(), "one of one");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_that_hands_over_is_stored_with_the_hand_over() {
    let mut house = House::new();
    change(&house, upload(1, &["a"], Manifest::default())).await;
    let id = house.put(job("a")).await;
    let old = house.claim_here().await.expect("it is claimed");
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
    change(&house, second).await;
    assert_eq!(house.ask(id, save(&old)).await.expect("the attempt holds the job"), Reply::HandedBack);
    house.reopen().await;
    let waiting = house.job(id).await;
    assert_eq!((waiting.state, waiting.failures, waiting.crashes), (State::Pending, 0, 0));
    assert!(!waiting.checkpoint.is_none());
    let new = house.claim_here().await.expect("it is claimed");
    assert_eq!((version_of(&old), version_of(&new)), (1, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_swap_that_waits_too_long_orders_a_stop() {
    let house = House::new();
    let mut orders = house.store.orders().expect("nobody has them");
    change(&house, upload(1, &["a"], Manifest::default())).await;
    house.put(job("a")).await;
    let old = house.claim_here().await.expect("it is claimed");
    change(&house, upload(2, &["a"], Manifest::default())).await;
    let within = Duration::from_secs(60);
    change(&house, PluginCommand::Activate { version: [2; 32], swap: Swap::Checkpoint { within } }).await;
    house.pass(Duration::from_secs(59)).await;
    assert!(orders.try_recv().is_err(), "it has time left");
    house.pass(Duration::from_secs(2)).await;
    let windlass_core::Effect::Stop { job, .. } = orders.try_recv().expect("an order");
    assert_eq!(job, old.job.id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canary_is_counted_in_the_commit_and_promoted_by_it() {
    let mut house = House::new();
    change(&house, upload(1, &["a"], Manifest::default())).await;
    change(&house, upload(2, &["a"], Manifest::default())).await;
    change(&house, PluginCommand::Activate { version: [1; 32], swap: Swap::Drain }).await;
    let new =
        NewCanary { version: [2; 32], share: 50, max_failures_per_mille: 0, min_attempts: 2, promote_after: Some(2) };
    change(&house, PluginCommand::StartCanary(new)).await;
    let mut versions = Vec::new();
    for _ in 0..4 {
        house.put(job("a")).await;
        let claimed = house.claim_here().await.expect("it is claimed");
        versions.push(version_of(&claimed));
        complete(&house, &claimed).await;
        house.reopen().await;
    }
    assert_eq!(versions, [1, 2, 1, 2], "every second one, whatever happens between");
    let plugin = house.store.plugins().await.expect("it reads").remove(0);
    assert_eq!((plugin.active, plugin.canary), (Some([2; 32]), None));
}

#[tokio::test(flavor = "multi_thread")]
async fn grants_and_encrypted_secrets_are_kept() {
    let mut house = House::new();
    let grant = Grant { secrets: ["token".to_owned()].into(), ..Grant::default() };
    change(&house, PluginCommand::Grant(grant.clone())).await;
    let put = SecretChange::Put { name: queue("token"), encrypted: vec![1, 2, 3] };
    house.store.change_secret(put).await.expect("it is stored");
    house.reopen().await;
    assert_eq!(house.store.grants().await.expect("it reads").get(&queue("mailer")), Some(&grant));
    assert_eq!(house.store.secrets().await.expect("it reads")[0].encrypted, [1, 2, 3]);
    let gone = SecretChange::Remove { name: queue("token") };
    house.store.change_secret(gone.clone()).await.expect("it was there");
    let refused = house.store.change_secret(gone).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::NotFound { .. }))), "{refused:?}");
}
