//! How plugins share the slots of this process, whatever their jobs do with them.

use std::time::Duration;

use tokio::time::timeout;
use windlass_core::{Priority, SlotShare, State};
use windlass_store::{Assignment, By, Claim, FairUse, Opening};

use super::house::{House, done, job, queue, secs, urgent};

/// A house with 64 slots, of which a plugin may have three quarters, and a plugin for each of these queues.
async fn house(queues: &[&str]) -> House {
    let mut house = House::new();
    let slots = Some(SlotShare { slots: 64, percent: 75 });
    house.reopen_with(Opening { fair_use: FairUse { slots, ..FairUse::default() }, ..Opening::default() }).await;
    for queue in queues {
        house.serve(queue).await;
    }
    house
}

/// Claims for free slots until none gets a job.
async fn fill(house: &House) -> Vec<Assignment> {
    let mut claimed = Vec::new();
    while let Some(assignment) = house.claim_here().await {
        claimed.push(assignment);
    }
    claimed
}

fn of<'a>(claimed: &'a [Assignment], name: &str) -> Vec<&'a Assignment> {
    claimed.iter().filter(|assignment| assignment.job.queue == queue(name)).collect()
}

#[tokio::test]
async fn a_plugin_with_a_thousand_endless_jobs_leaves_slots_to_every_other_one() {
    let house = house(&["greedy", "second", "third", "modest"]).await;
    let many = |name: &str| vec![urgent(name, Priority::Critical); 1_000];
    house.store.enqueue(many("greedy")).await.expect("stored");
    assert_eq!(fill(&house).await.len(), 48);
    // The jobs of others are younger and less urgent, and start at once.
    house.store.enqueue(vec![job("second"); 1_000]).await.expect("stored");
    let second = fill(&house).await;
    assert_eq!((second.len(), of(&second, "second").len()), (12, 12));
    house.store.enqueue(vec![job("third"); 1_000]).await.expect("stored");
    assert_eq!(fill(&house).await.len(), 3);
    house.store.enqueue(vec![job("modest"); 2]).await.expect("stored");
    let modest = fill(&house).await;
    assert_eq!(of(&modest, "modest").len(), 1, "the last slot is for a plugin that runs nothing");
    // And when that one ends, the next job of the plugin takes its place, not one of those that wait for longer.
    house.ask(modest[0].job.id, done(&modest[0])).await.expect("completed");
    assert_eq!(of(&fill(&house).await, "modest").len(), 1);
}

#[tokio::test]
async fn a_slot_that_is_given_back_goes_to_a_plugin_that_was_refused_one() {
    let house = house(&["greedy", "modest"]).await;
    house.store.enqueue(vec![job("greedy"); 100]).await.expect("stored");
    house.store.enqueue(vec![job("modest"); 100]).await.expect("stored");
    let claimed = fill(&house).await;
    let (greedy, modest) = (of(&claimed, "greedy"), of(&claimed, "modest"));
    assert_eq!((greedy.len(), modest.len()), (48, 12));
    // A free slot that waits gets a job of one plugin when attempts of the other have ended.
    let claim = Claim { by: By::Local, queues: Vec::new(), count: 1, wait: secs(3_600) };
    let store = house.store.clone();
    let waiting = tokio::spawn(async move { store.claim(claim).await.expect("a claim") });
    tokio::task::yield_now().await;
    for ended in &greedy[..2] {
        house.ask(ended.job.id, done(ended)).await.expect("completed");
    }
    let got = timeout(Duration::from_secs(60), waiting).await.expect("a slot").expect("no panic");
    assert_eq!(of(&got, "modest").len(), 1);
}

#[tokio::test]
async fn a_plugin_that_is_alone_takes_all_slots_but_one_for_a_plugin_that_comes_later() {
    let house = house(&["greedy"]).await;
    house.store.enqueue(vec![job("greedy"); 100]).await.expect("stored");
    assert_eq!(fill(&house).await.len(), 63);
    house.serve("modest").await;
    house.store.enqueue(vec![job("modest"); 100]).await.expect("stored");
    let modest = fill(&house).await;
    assert_eq!((modest.len(), of(&modest, "modest").len()), (1, 1));
    assert_eq!(house.count("greedy", State::Pending).await, 37);
}
