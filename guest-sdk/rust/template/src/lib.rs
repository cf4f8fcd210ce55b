//! Counts to a number, in steps that survive a crash. Put your own work in the place of the sum.

use serde::{Deserialize, Serialize};
use windlass::{Context, Result};

#[derive(Serialize, Deserialize)]
pub struct Order {
    pub steps: u64,
}

/// What a checkpoint holds.
#[derive(Default, Serialize, Deserialize)]
struct Standing {
    done: u64,
    sum: u64,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub sum: u64,
}

pub fn count(ctx: &mut Context, order: Order) -> Result<Outcome> {
    let mut at: Standing = ctx.state()?.unwrap_or_default();
    while at.done < order.steps {
        ctx.check_cancelled()?;
        at.done += 1;
        at.sum += at.done;
        ctx.progress(at.done, order.steps, "counting");
        ctx.checkpoint(&at)?;
    }
    Ok(Outcome { sum: at.sum })
}

windlass::handlers! { "{{name}}" => count }
