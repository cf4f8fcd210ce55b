//! The conformance handler: the same modes in every language; see tests/guests/README.md.

use std::hint::black_box;
use std::thread;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use windlass::{Child, ChildState, Context, Error, Level, OnFailure, Priority, Result, http};

#[derive(Default, Deserialize)]
#[serde(default)]
struct Order {
    mode: String,
    text: String,
    steps: u64,
    pause_ms: u64,
    ms: u64,
    queue: String,
    count: u64,
    bad: u64,
    on_failure: String,
    name: String,
    url: String,
}

fn conform(ctx: &mut Context, order: Order) -> Result<Value> {
    match order.mode.as_str() {
        "noop" => Ok(json!({})),
        "echo" => Ok(json!({ "text": order.text, "bytes": ctx.job().payload.len() })),
        "steps" => steps(ctx, &order),
        "spin" => {
            let mut n = 0u64;
            loop {
                n = black_box(n + 1);
            }
        }
        "fail" => Err(Error::new(order.text)),
        "fatal" => Err(Error::fatal(order.text)),
        "retry_after" => Err(Error::retry_after(Duration::from_millis(order.ms), order.text)),
        "panic" => panic!("{}", order.text),
        "spawn" => {
            for _ in 0..order.count {
                let child = Child::new(&order.queue, &json!({ "mode": "echo", "text": order.text }))?;
                ctx.spawn(child.priority(Priority::Low))?;
            }
            Ok(json!({ "spawned": order.count }))
        }
        "join" => join(ctx, &order),
        "record" => {
            let found = ctx.get_record::<String>(&order.queue, &order.name)?;
            ctx.put_record(&order.name, &order.text)?;
            ctx.mark(&order.queue, &order.name, Some("seen"))?;
            let (value, mark) = found.map_or((None, None), |found| (Some(found.value), found.mark));
            Ok(json!({ "found": value, "mark": mark, "round": ctx.job().round }))
        }
        "config" => Ok(json!({ "value": ctx.config(&order.name) })),
        "secret" => Ok(json!({ "value": ctx.secret(&order.name)? })),
        "fetch" => {
            let response = http::get(&order.url).send()?;
            Ok(json!({ "status": response.status, "body": response.text()? }))
        }
        mode => Err(Error::fatal(format_args!("there is no mode `{mode}`"))),
    }
}

fn steps(ctx: &mut Context, order: &Order) -> Result<Value> {
    let from: u64 = ctx.state()?.unwrap_or(0);
    for step in from + 1..=order.steps {
        ctx.check_cancelled()?;
        ctx.log(Level::Info, format!("step {step}"));
        if order.pause_ms > 0 {
            thread::sleep(Duration::from_millis(order.pause_ms));
        }
        ctx.progress(step, order.steps, format!("step {step}"));
        ctx.checkpoint(&step)?;
    }
    Ok(json!({ "steps": order.steps, "ran": order.steps - from, "from": from, "attempt": ctx.job().attempt }))
}

fn join(ctx: &mut Context, order: &Order) -> Result<Value> {
    let Some(counts) = ctx.joined() else {
        for n in 0..order.count {
            let mode = if n < order.bad { "fatal" } else { "echo" };
            ctx.spawn(Child::new(&order.queue, &json!({ "mode": mode, "text": order.text }))?)?;
        }
        let on_failure = match order.on_failure.as_str() {
            "continue" => OnFailure::Continue,
            "cancel" => OnFailure::Cancel,
            _ => OnFailure::Fail,
        };
        return ctx.wait_for_children(on_failure, &order.count);
    };
    if ctx.state::<u64>()? != Some(order.count) {
        return Err(Error::fatal("the state that the wait saved is not there"));
    }
    let mut texts = Vec::new();
    for child in ctx.children() {
        let child = child?;
        if child.state == ChildState::Completed {
            texts.push(child.result::<Value>()?["text"].clone());
        }
    }
    Ok(json!({ "total": counts.total, "completed": counts.completed, "dead": counts.dead, "texts": texts }))
}

windlass::handlers! { _ => conform }
