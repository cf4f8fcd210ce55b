//! What a flow costs: the same jobs with and without one. A batch with a callback, and a parent that waits for its
//! children.

use std::time::Instant;

use anyhow::bail;
use windlass_core::flow::{Callback, NewBatch, OnFailure};
use windlass_core::{Command, Complete, Heartbeat, Holder, JobId, NewJob, Usage, Wait};

use crate::engine::{claim, job, queue, runtime};
use crate::figure::{Figure, Goal};
use crate::setting::{Setting, open, say};
use windlass_store::{Claim, Store};

/// Jobs enqueued, claimed and completed at once.
const AT_ONCE: usize = 500;

pub fn measure(setting: &Setting) -> anyhow::Result<Vec<Figure>> {
    let jobs = if setting.quick { 10_000 } else { 100_000 };
    let repeats = if setting.quick { 2 } else { 3 };
    let runtime = runtime()?;
    let (mut plain, mut batch, mut tree) = (f64::MAX, f64::MAX, f64::MAX);
    // In turn, so that other load on the machine affects all alike; the best of each counts.
    for repeat in 1..=repeats {
        plain = plain.min(runtime.block_on(run(setting, jobs, Kind::Plain))?);
        batch = batch.min(runtime.block_on(run(setting, jobs, Kind::Batch))?);
        tree = tree.min(runtime.block_on(run(setting, jobs, Kind::Tree))?);
        say(&format!(
            "flows {repeat}/{repeats}: {jobs} jobs alone {plain:.2} s, in a batch {batch:.2} s, under a parent that waits {tree:.2} s"
        ));
    }
    let figure = |name, value: f64| Figure {
        name,
        value,
        unit: "s",
        limit: Some(plain),
        ratio: value / plain,
        goal: Goal::AtMost(1.3),
    };
    Ok(vec![figure("batch_with_callback", batch), figure("fan_out_fan_in", tree)])
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Plain,
    Batch,
    Tree,
}

/// The seconds it takes to store and complete this many jobs, including what the flow adds.
async fn run(setting: &Setting, jobs: usize, kind: Kind) -> anyhow::Result<f64> {
    let folder = setting.folder("flow")?;
    let store = open(&folder.0)?;
    let began = Instant::now();
    match kind {
        Kind::Plain => {
            for _ in 0..jobs / AT_ONCE {
                store.enqueue(vec![job(); AT_ONCE]).await?;
            }
            work(&store, jobs).await?;
        }
        Kind::Batch => {
            let callback = Some(Callback { queue: "done".parse()?, payload: None });
            let made = store.make_batch(NewBatch { callback, ..NewBatch::default() }, Vec::new(), false).await?;
            for _ in 0..jobs / AT_ONCE {
                let member = NewJob { batch_id: Some(made.id.clone()), ..job() };
                store.enqueue(vec![member; AT_ONCE]).await?;
            }
            store.seal(made.id.clone()).await?;
            work(&store, jobs).await?;
            if store.claim(Claim { queues: vec!["done".parse()?], ..claim(1) }).await?.is_empty() {
                bail!("the batch's callback was not enqueued");
            }
        }
        Kind::Tree => {
            let parents = Claim { queues: vec!["parents".parse()?], ..claim(1) };
            store.enqueue(vec![NewJob { queue: Some("parents".parse()?), ..job() }]).await?;
            let Some(parent) = store.claim(parents.clone()).await?.pop() else { bail!("no parent") };
            let holder = Holder::Token(parent.token);
            let id = parent.job.id;
            for page in 0..jobs / AT_ONCE {
                let child = |index| NewJob {
                    parent: Some(id),
                    id: Some(JobId::child(id, (page * AT_ONCE + index) as u32)),
                    ..job()
                };
                let heartbeat = Command::Heartbeat(Heartbeat::by(holder));
                store.ask(id, heartbeat, (0..AT_ONCE).map(child).collect()).await?;
            }
            let (checkpoint, usage) = (None, Usage::default());
            let wait =
                Command::Wait(Wait { holder, on_child_failure: OnFailure::Fail, checkpoint, usage, notes: None });
            store.ask(id, wait, Vec::new()).await?;
            work(&store, jobs).await?;
            if store.claim(parents).await?.is_empty() {
                bail!("the parent was not run again");
            }
        }
    }
    let took = began.elapsed().as_secs_f64();
    store.close().await;
    Ok(took)
}

async fn work(store: &Store, jobs: usize) -> anyhow::Result<()> {
    let mut done = 0;
    while done < jobs {
        let claimed = store.claim(Claim { queues: vec![queue()], ..claim(AT_ONCE) }).await?;
        let asks = claimed.iter().map(|assignment| {
            let holder = Holder::Token(assignment.token);
            let command = Command::Complete(Complete::by(holder));
            (assignment.job.id, command)
        });
        for answer in store.ask_each(asks.collect()).await? {
            answer?;
            done += 1;
        }
    }
    Ok(())
}
