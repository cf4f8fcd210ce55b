//! A handler with a checkpoint: it adds up prices, and after an interruption it resumes with the first not yet counted.
//!
//! ```sh
//! make run                                    # in one terminal: a server
//! windlass plugin push examples/checkpoint    # in another: builds this folder, uploads it and makes it active
//! windlass enqueue examples.checkpoint '{"prices": [5, 10, 15, 20], "fail_at": 3}' --watch
//! ```
//!
//! `windlass` is target/debug/windlass. With `fail_at` the first attempt fails before that price; the second starts
//! there, and the result says so: `{"total": 50, "started_at": 3}`. Killing the server in the middle has the same
//! effect; `pause_ms` gives you time for that.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::{Context, Error, Result};

#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
pub struct Order {
    pub prices: Vec<u64>,
    /// The first attempt fails before this price, counted from 1.
    pub fail_at: Option<usize>,
    /// A pause after each price, for watching.
    pub pause_ms: u64,
}

/// What a checkpoint holds: all that the next attempt needs to resume.
#[derive(Serialize, Deserialize, Default)]
struct State {
    counted: usize,
    total: u64,
}

#[derive(Serialize, Deserialize, Debug, PartialEq)]
pub struct Summary {
    pub total: u64,
    /// The price that the last attempt began with.
    pub started_at: usize,
}

pub fn add_up(ctx: &mut Context, order: Order) -> Result<Summary> {
    let mut state: State = ctx.state()?.unwrap_or_default(); // none in the first attempt
    let started_at = state.counted + 1;
    while let Some(price) = order.prices.get(state.counted) {
        ctx.check_cancelled()?;
        if ctx.job().attempt == 1 && order.fail_at == Some(state.counted + 1) {
            return Err(Error::new("the price list is not reachable"));
        }
        state.total += price;
        state.counted += 1;
        ctx.progress(state.counted as u64, order.prices.len() as u64, "adding up");
        ctx.checkpoint(&state)?; // on disk when it returns
        std::thread::sleep(Duration::from_millis(order.pause_ms));
    }
    Ok(Summary { total: state.total, started_at })
}

windlass::handlers! { "examples.checkpoint" => add_up }

#[cfg(test)]
mod tests {
    use super::*;
    use windlass::testing::Fake;

    #[test]
    fn the_second_attempt_goes_on_where_the_first_one_failed() {
        let order = Order { prices: vec![5, 10, 15, 20], fail_at: Some(3), ..Order::default() };
        let mut fake = Fake::new();
        fake.run(add_up, &order).expect_err("the first attempt fails");
        assert_eq!(fake.run(add_up, &order), Ok(Summary { total: 50, started_at: 3 }));
    }
}
