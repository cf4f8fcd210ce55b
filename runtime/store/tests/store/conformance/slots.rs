//! How plugins share the slots of this process, whatever their jobs do with them.

use std::time::Duration;

use tokio::time::timeout;
use windlass_core::plugin::manifest::Manifest;
use windlass_core::{Namespace, NewJob, PluginCommand, Priority, SlotShare, State};
use windlass_store::{Assignment, By, Claim, FairUse, Opening};

use super::test_store::{TestStore, done, job, queue, secs, upload, urgent};

/// A store with 64 slots, of which a plugin may have three quarters, and a plugin for each of these queues.
async fn with_plugins(queues: &[&str]) -> TestStore {
    let mut test = TestStore::new();
    let slots = Some(SlotShare { slots: 64, percent: 75 });
    test.reopen_with(Opening { fair_use: FairUse { slots, ..FairUse::default() }, ..Opening::default() }).await;
    for queue in queues {
        test.serve(queue).await;
    }
    test
}

/// Claims for free slots until none gets a job.
async fn fill(test: &TestStore) -> Vec<Assignment> {
    let mut claimed = Vec::new();
    while let Some(assignment) = test.claim_here().await {
        claimed.push(assignment);
    }
    claimed
}

fn of<'a>(claimed: &'a [Assignment], name: &str) -> Vec<&'a Assignment> {
    claimed.iter().filter(|assignment| assignment.job.queue == queue(name)).collect()
}

#[tokio::test]
async fn a_plugin_with_a_thousand_endless_jobs_leaves_slots_to_every_other_one() {
    let test = with_plugins(&["greedy", "second", "third", "modest"]).await;
    let many = |name: &str| vec![urgent(name, Priority::Critical); 1_000];
    test.store.enqueue(many("greedy")).await.expect("stored");
    assert_eq!(fill(&test).await.len(), 48);
    // The jobs of others are younger and less urgent, and start at once.
    test.store.enqueue(vec![job("second"); 1_000]).await.expect("stored");
    let second = fill(&test).await;
    assert_eq!((second.len(), of(&second, "second").len()), (12, 12));
    test.store.enqueue(vec![job("third"); 1_000]).await.expect("stored");
    assert_eq!(fill(&test).await.len(), 3);
    test.store.enqueue(vec![job("modest"); 2]).await.expect("stored");
    let modest = fill(&test).await;
    assert_eq!(of(&modest, "modest").len(), 1, "the last slot is for a plugin that runs nothing");
    // And when that one ends, the next job of the plugin takes its place, not one of those that wait for longer.
    test.ask(modest[0].job.id, done(&modest[0])).await.expect("completed");
    assert_eq!(of(&fill(&test).await, "modest").len(), 1);
}

#[tokio::test]
async fn a_slot_that_is_given_back_goes_to_a_plugin_that_was_refused_one() {
    let test = with_plugins(&["greedy", "modest"]).await;
    test.store.enqueue(vec![job("greedy"); 100]).await.expect("stored");
    test.store.enqueue(vec![job("modest"); 100]).await.expect("stored");
    let claimed = fill(&test).await;
    let (greedy, modest) = (of(&claimed, "greedy"), of(&claimed, "modest"));
    assert_eq!((greedy.len(), modest.len()), (48, 12));
    // A free slot that waits gets a job of one plugin when attempts of the other have ended.
    let claim = Claim { by: By::Local, queues: Vec::new(), count: 1, wait: secs(3_600) };
    let store = test.store.clone();
    let waiting = tokio::spawn(async move { store.claim(claim).await.expect("a claim") });
    tokio::task::yield_now().await;
    for ended in &greedy[..2] {
        test.ask(ended.job.id, done(ended)).await.expect("completed");
    }
    let got = timeout(Duration::from_secs(60), waiting).await.expect("a slot").expect("no panic");
    assert_eq!(of(&got, "modest").len(), 1);
}

#[tokio::test]
async fn a_plugin_that_is_alone_takes_all_slots_but_one_for_a_plugin_that_comes_later() {
    let test = with_plugins(&["greedy"]).await;
    test.store.enqueue(vec![job("greedy"); 100]).await.expect("stored");
    assert_eq!(fill(&test).await.len(), 63);
    test.serve("modest").await;
    test.store.enqueue(vec![job("modest"); 100]).await.expect("stored");
    let modest = fill(&test).await;
    assert_eq!((modest.len(), of(&modest, "modest").len()), (1, 1));
    assert_eq!(test.count("greedy", State::Pending).await, 37);
}

#[tokio::test]
async fn a_tenant_with_many_plugins_and_endless_jobs_leaves_slots_to_every_other_one() {
    let test = with_plugins(&[]).await;
    let tenants: [Namespace; 2] = ["acme", "globex"].map(|name| name.parse().expect("a name"));
    let names = ["one", "two", "three", "four"];
    let of = |tenant: usize, name: &str| queue(name).within(&tenants[tenant]);
    for (tenant, name) in [0, 1].into_iter().flat_map(|tenant| names.map(|name| (tenant, name))) {
        let mut upload = upload(9, &[], Manifest::default());
        if let PluginCommand::Upload { queues, .. } = &mut upload {
            *queues = Some(vec![of(tenant, name)]);
        }
        // A plugin of the name of its queue.
        test.store.change_plugin(of(tenant, name), upload).await.expect("a plugin");
    }
    let job_of = |tenant: usize, name: &str| NewJob { queue: Some(of(tenant, name)), ..NewJob::default() };
    for name in names {
        test.store.enqueue(vec![job_of(0, name); 1_000]).await.expect("stored");
    }
    // However its plugins share them, a namespace takes three quarters of what the others leave.
    assert_eq!(fill(&test).await.len(), 48);
    test.store.enqueue(vec![job_of(1, "four")]).await.expect("stored");
    let claimed = fill(&test).await;
    assert_eq!(claimed.len(), 1, "a job of another tenant starts at once");
    assert_eq!(claimed[0].job.queue, of(1, "four"));
}
